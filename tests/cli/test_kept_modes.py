"""Modes from a chmod under an agent's hooks to what `replay`, `restore`, `diff` and `cat` make of it."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.base.errors import Unsupported
from eventlog.exports import jsonl, jsonl_import
from eventlog.store import Store
from tests.cli.hook_support import Agent, events, project
from tests.cli.support import Locus
from tests.test_compatibility import change


def modes(root: Path) -> dict[str, str]:
    """Path → mode, of all but the store and git."""
    found = {}
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name not in (".git", ".locus")]
        for name in (*names, *files):
            path = Path(directory, name)
            found[str(path.relative_to(root))] = f"{stat.S_IMODE(path.lstat().st_mode):o}"
    return found


@pytest.fixture
def worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which an agent made a private directory, a key, a tool, and changed a mode later."""
    work = project(tmp_path)
    monkeypatch.chdir(work)
    agent = Agent(work)
    agent.start()
    agent.prompt("Make a key")
    agent.bash("mkdir -m 700 keys; echo k > keys/id; chmod 600 keys/id")
    agent.bash("echo t > tool; chmod 750 tool; echo p > plain")
    agent.stop()
    agent.prompt("Close the rest")
    agent.bash("chmod 400 plain")
    agent.stop()
    return work


def turns(work: Path) -> list[str]:
    return [f"{e['session_id']}_{e['turn_id']}" for e in events(work, "turn") if e["operation"] == "end"]


def test_modes_come_back_as_they_were(worked: Path, locus: Locus, tmp_path: Path) -> None:
    """P1: replay, whatever the umask and whatever is open to others now, and the mode in the event."""
    was = modes(worked)
    assert (was["keys"], was["keys/id"], was["tool"], was["plain"]) == ("700", "600", "750", "400")
    first, second = turns(worked)
    os.chmod(worked / "keys/id", 0o666)
    before = os.umask(0)
    try:
        assert locus("replay", second, "--to", tmp_path / "second").code == 0
        assert locus("replay", first, "--to", tmp_path / "first").code == 0
    finally:
        os.umask(before)
    assert modes(tmp_path / "second") == was
    assert modes(tmp_path / "first") == {**was, "plain": "644"}
    (listed,) = [e for e in events(worked, "file") if e["operation"] == "mode"]
    payload = listed["payload"] if isinstance(listed["payload"], dict) else json.loads(listed["payload"])
    assert (listed["path"], payload["before_mode"], payload["after_mode"]) == ("plain", "100644", "100400")


def test_a_restore_never_opens_what_was_private(worked: Path, locus: Locus) -> None:
    """P1: what is gone comes back with its mode; what was opened is closed; what was closed stays so."""
    first, second = turns(worked)
    (worked / "keys/id").unlink()
    (worked / "keys").rmdir()
    (worked / "tool").chmod(0o755)
    (worked / "plain").chmod(0o600)
    ended = locus("restore", second, "--yes")
    assert ended.code == 0
    lines = ["create    keys/", "create    keys/id", "chmod     plain", "chmod     tool"]
    assert ended.text.splitlines() == lines
    found = modes(worked)
    assert (found["keys"], found["keys/id"], found["tool"], found["plain"]) == ("700", "600", "750", "400")
    assert locus("restore", first, "--yes").code == 0
    assert modes(worked)["plain"] == "400"  # it was 644 then; nobody is let in again by a restore


def test_a_difference_of_modes_is_shown_and_its_patch_is_gits(worked: Path, locus: Locus) -> None:
    """`diff --json` has the exact modes; a patch has what git knows, and `git apply` takes it."""
    first, second = turns(worked)
    (changed,) = json.loads(locus("diff", first, second, "--json").text)["changes"]
    assert (changed["operation"], changed["path"]) == ("mode", "plain")
    assert (changed["before"]["mode"], changed["after"]["mode"]) == ("100644", "100400")
    made = locus("diff", first).out
    assert b"new file mode 100644" in made and b"new file mode 100755" in made and b"100600" not in made
    copy = worked.parent / "copy"
    copy.mkdir()
    apply = ["git", "apply", "--include=keys/*", "--include=tool", "-"]
    subprocess.run(apply, cwd=copy, input=made, check=True)
    assert (copy / "keys/id").read_bytes() == b"k\n"


def test_a_store_of_an_earlier_version_takes_no_modes(worked: Path, tmp_path: Path) -> None:
    """What it must be able to read goes on with git's two modes, and no import brings others in."""
    exported = str(tmp_path / "all.jsonl")
    with Store.open(worked / ".locus") as store, open(exported, "wb") as out:
        jsonl.write(store, out, contents=True)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        Store.init(tmp_path / name / ".locus").close()
    change(tmp_path / "old/.locus/STORE", required=[])
    with Store.open(tmp_path / "old/.locus") as old, pytest.raises(Unsupported, match="keeps permissions"):
        jsonl_import.load(old, exported)
    with Store.open(tmp_path / "new/.locus") as new:
        assert jsonl_import.load(new, exported).contents > 0


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A umask that takes no bit away."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_restore_opens_nothing_to_others_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus, open_umask: None
) -> None:
    """P1: plain files and directories come back no wider than git's two modes."""
    work = project(tmp_path)
    monkeypatch.chdir(work)
    (work / "tool").write_text("#!/bin/sh\n")
    for name, mode in (("src", 0o755), ("src/app.py", 0o644), ("tool", 0o755)):
        (work / name).chmod(mode)
    agent = Agent(work)
    agent.prompt("Remove it all")
    agent.bash("rm -r src tool")
    agent.stop()
    assert locus("restore", "last", "--at", "start", "--yes").code == 0
    found = modes(work)
    assert (found["src"], found["src/app.py"], found["tool"]) == ("755", "644", "755")


def test_the_captured_directory_has_its_mode_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus, open_umask: None
) -> None:
    """P1: a replay makes its target as private as the directory was; one that is there keeps its mode."""
    work = project(tmp_path)
    monkeypatch.chdir(work)
    agent = Agent(work)
    for mode, name in ((0o700, "private"), (0o500, "closed"), (0o777, "open")):
        work.chmod(mode)
        agent.prompt("Look")
        agent.stop()
        work.chmod(0o755)
        assert locus("replay", "last", "--to", tmp_path / name).code == 0
    there = tmp_path / "there"
    there.mkdir(0o711)
    assert locus("replay", "last", "--to", there).code == 0
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert (found["private"], found["closed"], found["open"]) == (0o700, 0o500, 0o755)
    assert found["there"] == 0o711
    os.chmod(tmp_path / "closed", 0o700)


def test_a_directory_that_a_tool_closed_is_closed_in_the_middle_of_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus
) -> None:
    """P1: no file event tells of a directory's mode, so a snapshot does."""
    work = project(tmp_path)
    monkeypatch.chdir(work)
    (work / "src").chmod(0o755)
    agent = Agent(work)
    agent.prompt("Close it")
    agent.bash("chmod 700 src")
    (action,) = events(work, "action")
    agent.write("new.txt", "1\n")
    agent.stop()
    assert locus("replay", "last", "--at", action["event_id"], "--to", tmp_path / "then").code == 0
    assert modes(tmp_path / "then")["src"] == "700"
    assert not (tmp_path / "then/new.txt").exists()
    assert [e["path"] for e in events(work, "file")] == ["new.txt"]
