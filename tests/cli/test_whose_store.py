"""Which stores are used at all: none that others can change, that leads elsewhere, or that git tracks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.base import identity, layout
from eventlog.base.errors import Refused
from eventlog.store import Store
from tests.cli.hook_support import HOOK
from tests.cli.support import Locus, Recorded, git

OTHER = 12345
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def refused(locus: Locus, *words: str) -> None:
    """Reading and writing end with exit 3 and one line that holds the words."""
    for verb in (("log",), ("store", "seal"), ("sql", "select 1"), ("session", "start", "x")):
        ended = locus(*verb)
        assert ended.code == 3 and ended.out == b"", (verb, ended)
        assert all(word in ended.err for word in words) and ended.err.count("\n") == 1, ended.err


@pytest.mark.parametrize("part", ["", *layout.DIRECTORIES, "STORE", "config.toml"])
@pytest.mark.parametrize("bit", [0o020, 0o002])
def test_a_part_that_others_may_write_is_refused(part: str, bit: int, tmp_path: Path) -> None:
    """P5: a store of which a group or everybody may change a part is not opened, and the way out works."""
    root = tmp_path / ".locus"
    Store.init(root).close()
    (root / "config.toml").touch(0o600)
    root.chmod(0o755)
    (root / part).chmod((root / part).stat().st_mode | bit)
    with pytest.raises(Refused, match="can be written by other users") as caught:
        Store.open(root)
    subprocess.run(["chmod", "-R", "go-w", str(root)], check=True)

    assert f"{root}/{part}".rstrip("/") in str(caught.value) and f"chmod -R go-w {root}" in str(caught.value)
    Store.open(root).close()


def test_what_nobody_else_can_reach_may_have_any_mode(tmp_path: Path) -> None:
    """A `config.toml` written under a generous umask is fine in a directory that nobody else enters."""
    root = tmp_path / ".locus"
    Store.init(root).close()
    (root / "config.toml").touch()
    (root / "config.toml").chmod(0o666)
    (root / "log").chmod(0o777)

    Store.open(root).close()


@pytest.mark.parametrize(
    "part", [*layout.DIRECTORIES, "STORE", "config.toml", "config.json", "redaction.key"]
)
def test_a_part_that_is_a_link_is_refused(part: str, tmp_path: Path) -> None:
    """P5, P8: a link in place of a part, which a repository can bring along, takes nothing elsewhere."""
    root, elsewhere = tmp_path / ".locus", tmp_path / "elsewhere"
    Store.init(root).close()
    if (root / part).exists():
        (root / part).rename(elsewhere)
    else:
        elsewhere.write_bytes(b"")
    (root / part).symlink_to(elsewhere)

    with pytest.raises(Refused, match=f"{part} is a link"):
        Store.open(root)


def test_commands_refuse_and_hooks_stay_silent(copied: Recorded, locus: Locus, tmp_path: Path) -> None:
    """P4, P5, P8: every verb ends with 3 and one line, doctor tells it, a hook writes nowhere."""
    elsewhere = tmp_path / "elsewhere"
    (copied.store / "tmp").rename(elsewhere)
    (copied.store / "tmp").symlink_to(elsewhere)
    before = sorted(copied.store.rglob("*")), sorted(elsewhere.rglob("*"))
    refused(locus, "tmp is a link")
    output = locus("doctor")
    payload = {
        "session_id": "s",
        "hook_event_name": "UserPromptSubmit",
        "prompt": "Go",
        "cwd": str(copied.root),
    }
    hook = subprocess.run(
        [*HOOK, "claude-code"],
        input=json.dumps(payload).encode(),
        capture_output=True,
        cwd=copied.root,
        timeout=60,
    )

    assert output.code == 1 and b"tmp is a link" in output.out
    assert (hook.returncode, hook.stdout, hook.stderr) == (0, b"", b"")
    assert (sorted(copied.store.rglob("*")), sorted(elsewhere.rglob("*"))) == before


@pytest.mark.parametrize("where", ["live", "tmp/hook-errors.log", "config.json", "locks/append.lock"])
def test_nothing_is_written_through_a_link(where: str, tmp_path: Path) -> None:
    """P5: whatever file of a store is a link, the file that it leads to stays as it is."""
    project = tmp_path / "project"
    project.mkdir()
    root = project / ".locus"
    Store.init(root).close()
    (root / "config.toml").write_text("[capture]\nmax_file_bytes = 1000\n")
    victim = tmp_path / "victim"
    if where == "live":  # every file of a session there
        victim.mkdir()
        (root / "live").rmdir()
    else:
        victim.write_bytes(b"mine")
        (root / where).unlink(missing_ok=True)
    (root / where).symlink_to(victim)
    for name, more in (("SessionStart", {}), ("UserPromptSubmit", {"prompt": "Go"}), ("Stop", {})):
        payload = {"session_id": "s", "hook_event_name": name, "cwd": str(project), **more}
        subprocess.run(
            [*HOOK, "claude-code"], input=json.dumps(payload).encode(), check=True, cwd=project, timeout=60
        )
    subprocess.run([sys.executable, "-m", "locus_cli", "log"], cwd=project, capture_output=True, timeout=60)

    assert list(victim.iterdir()) == [] if victim.is_dir() else victim.read_bytes() == b"mine"


def test_a_journal_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    """P5: a journal that somebody moved and put a link in its place for is neither read nor appended to."""
    root, victim = tmp_path / ".locus", tmp_path / "victim"
    with Store.init(root) as store:
        store.append([{"event_type": "note", "payload": {"text": "mine"}}])
    journal = Path(layout.Layout(str(root)).journal(1))
    journal.rename(victim)
    journal.symlink_to(victim)
    before = victim.read_bytes()
    payload = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "Go", "cwd": str(tmp_path)}
    data = json.dumps(payload).encode()
    hook = subprocess.run([*HOOK, "claude-code"], input=data, capture_output=True, cwd=tmp_path, timeout=60)
    ended = subprocess.run(
        [sys.executable, "-m", "locus_cli", "log"], cwd=tmp_path, capture_output=True, timeout=60
    )

    assert (hook.returncode, hook.stdout, hook.stderr) == (0, b"", b"") and victim.read_bytes() == before
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"there is a link in place of a file" in ended.stderr


@root_only
@pytest.mark.parametrize(
    "part", ["log", "log/journal", "snapshots/packs", "live", "config.toml", "redaction.key"]
)
def test_a_part_of_another_user_is_refused(part: str, tmp_path: Path) -> None:
    """P5: neither journals nor rules are believed that somebody else put into a store."""
    root = tmp_path / ".locus"
    Store.init(root).close()
    (root / part).touch()
    os.chown(root / part, OTHER, -1)

    with pytest.raises(Refused, match=rf"{part} belongs to another user \(number {OTHER}\)"):
        Store.open(root)


@root_only
def test_a_second_name_of_our_file_in_somebodys_directory_is_no_store(tmp_path: Path) -> None:
    """P5: a hard link to our own STORE makes no store of ours out of another user's directory."""
    ours = tmp_path / "ours"
    Store.init(ours).close()
    trap = tmp_path / "trap/.locus"
    trap.mkdir(parents=True)
    os.link(ours / "STORE", trap / "STORE")
    os.chown(trap, OTHER, -1)

    with pytest.raises(Refused, match="another user"):
        identity.find(str(tmp_path / "trap"), {})


def test_a_store_that_came_with_a_repository_is_refused(
    copied: Recorded, locus: Locus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: a repository that brings a store, with rules of its own, gets nothing recorded."""
    (copied.store / ".gitignore").unlink()
    (copied.store / "config.toml").write_text("[redaction]\nenabled = false\n")
    git(copied.root, "add", "-A", "--force")
    git(copied.root, "commit", "-q", "-m", "A present", at=9)
    clone = tmp_path / "clone"
    git(tmp_path, "-c", "core.sharedRepository=0644", "clone", "-q", str(copied.root), str(clone))
    os.chmod(clone / ".locus/STORE", 0o644)  # as a usual umask has it
    monkeypatch.chdir(clone)
    refused(locus, "came with the repository", "git rm -r --cached .locus")
    git(clone, "rm", "-rq", "--cached", ".locus")

    assert locus("--store", clone / ".locus", "store", "verify").code in (
        0,
        12,
    )  # git keeps no empty directories
