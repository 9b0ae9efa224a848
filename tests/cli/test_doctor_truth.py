"""What `locus doctor` says is so, and the command that it names sees the same."""

import os
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from eventlog.blobs import deferred
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import FILE
from eventlog.store import Store
from tests.cli.hook_support import Agent
from tests.cli.support import Locus, git, locus_process
from tests.cli.test_doctor import SETTINGS, append, asked, levels, project, texts

__all__ = ["project"]
PATHS = {
    "claude-code": SETTINGS,
    "codex": ".codex/hooks.json",
    "gemini-cli": ".gemini/settings.json",
    "opencode": ".opencode/plugin/locus.js",
}
AGAIN = "locus hooks install --agent claude-code --local"


def commands_in(todo: str) -> list[list[str]]:
    """The `locus` commands that a finding names."""
    return [shlex.split(one)[1:] for one in re.findall(r"`(locus [^`]*)`", todo)]


# -- hooks that are gone -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "how"), [*zip(PATHS, ("removed", "emptied", "removed", "emptied"), strict=True)], ids=[*PATHS]
)
def test_hooks_that_vanished_are_a_problem(how: str, agent: str, project: Path, locus: Locus) -> None:
    """P4, P7: hooks that were installed and are gone are a problem; the named command brings them back, or
    says that it was meant."""
    assert locus("hooks", "install", "--agent", agent).code == 0
    path = project / PATHS[agent]
    if how == "removed":
        path.unlink()
    else:
        path.write_text("// mine\n" if agent == "opencode" else "{}\n")
    code, found = asked(locus)
    assert code == 1 and levels(found, agent) == ["problem"], found[agent]
    reported = texts(found, agent)
    assert f"were installed in {path}" in reported and ("is gone" in reported) == (how == "removed")

    if how == "emptied" and agent == "opencode":
        path.unlink()  # a plugin of somebody else's is not replaced
    repair, _ = commands_in(reported)
    assert locus(*repair).code == 0
    assert asked(locus)[0] == 0

    path.unlink()
    _, undo = commands_in(texts(asked(locus)[1], agent))
    assert locus(*undo).code == 0
    assert asked(locus)[0] == 0


def test_a_clean_of_ignored_files_is_found(project: Path, locus: Locus) -> None:
    """P7: `git clean -fdx` takes store and hooks; the doctor finds both, and its commands make them again."""
    git(project, "clean", "-fdxq")
    assert not (project / ".claude").exists() and not (project / ".locus").exists()
    code, found = asked(locus)
    assert code == 1 and levels(found, "claude-code") == levels(found, "store") == ["problem"]
    for about in ("store", "claude-code"):
        assert locus(*commands_in(texts(found, about))[0]).code == 0
    assert asked(locus)[0] == 0


def test_hooks_that_vanished_in_a_turn(project: Path, locus: Locus) -> None:
    """P7: a turn that began with hooks which are gone now is named with them."""
    session = {"agent_session_id": "s", "agent_turn_id": "t", "payload": {"hook_us": 1}}
    append(project, {"event_type": "turn", "operation": "start", **session})
    (project / SETTINGS).unlink()
    code, found = asked(locus)
    reported = texts(found, "claude-code")
    assert code == 1 and re.search(r"the turn \w+_001 began with them and has no end", reported)

    assert locus("hooks", "uninstall").code == 0
    (project / ".claude").mkdir(exist_ok=True)
    assert re.search(r"not installed; hooks reported the turn \w+_001", texts(asked(locus)[1], "claude-code"))
    append(project, {"event_type": "turn", "operation": "end", **session})
    assert "_001" not in texts(asked(locus)[1], "claude-code")


def test_where_other_hooks_serve_it_is_a_note(project: Path, locus: Locus) -> None:
    """Hooks that are gone from one file are no problem while another file of the agent has them."""
    assert locus("hooks", "install", "--agent", "claude-code", "--user").code == 0
    (project / SETTINGS).unlink()
    code, found = asked(locus)
    assert code == 0 and "were installed" in texts(found, "claude-code")


def test_what_is_elsewhere_is_no_problem_here(project: Path, locus: Locus, tmp_path: Path) -> None:
    """A receipt of a directory that was removed, and hooks that were uninstalled, are reported nowhere."""
    (tmp_path / "other").mkdir()
    assert locus_process("hooks", "install", "--agent", "codex", cwd=tmp_path / "other").code == 0
    (tmp_path / "other/.codex/hooks.json").unlink()
    (tmp_path / "other/.codex").rmdir()
    (tmp_path / "other").rmdir()
    assert asked(locus)[0] == 0
    assert locus("hooks", "uninstall").code == 0
    code, found = asked(locus)
    assert code == 0 and "claude-code" not in found


def test_hooks_that_git_could_take_away(project: Path, locus: Locus) -> None:
    """P8: hooks whose line in git's list is gone, or that git tracks, are reported; each command ends it."""
    (project / ".git/info/exclude").write_text("")
    code, found = asked(locus)
    assert code == 0 and "a checkout or stash may take it away" in texts(found, "claude-code")
    (again,) = commands_in(texts(found, "claude-code").partition("take it away")[2].split("\n")[0])
    assert locus(*again).code == 0
    assert "take it away" not in texts(asked(locus)[1], "claude-code")

    git(project, "add", "-f", SETTINGS)
    reported = texts(asked(locus)[1], "claude-code")
    assert f"git tracks {SETTINGS}" in reported and f"`git rm --cached {SETTINGS}`" in reported
    git(project, "rm", "-q", "--cached", SETTINGS)
    assert "git tracks" not in texts(asked(locus)[1], "claude-code")


def test_codex_that_records_is_trusted(project: Path, locus: Locus) -> None:
    """P7: hooks that reported something since their file was written run, whatever Codex noted of them."""
    assert locus("hooks", "install", "--agent", "codex").code == 0
    assert "has not noted" in texts(asked(locus)[1], "codex")
    append(project, {"event_type": "action", "agent": "codex", "payload": {"hook_us": 1}})
    found = asked(locus)[1]
    assert "last heard of" in texts(found, "codex") and "has not noted" not in texts(found, "codex")
    later = time.time() + 60
    os.utime(project / ".codex/hooks.json", (later, later))
    assert "has not noted" in texts(asked(locus)[1], "codex")


# -- turns and captures ------------------------------------------------------------------------


def test_a_killed_turn_is_reported_at_once(project: Path, locus: Locus) -> None:
    """P7: a turn whose agent was killed is named as soon as it is gone, and its timeline shows it."""
    process = subprocess.Popen(["sleep", "60"])
    agent = Agent(project, environ={"CLAUDE_PID": str(process.pid)})
    agent.start()
    agent.prompt("Tidy up")
    alive = asked(locus)[1]
    process.kill()
    process.wait()
    _, found = asked(locus)

    assert "turns" not in alive and "unknown" not in texts(alive, "completeness")
    assert levels(found, "turns") == ["note"]
    assert "killed" in texts(found, "turns")
    (command,) = commands_in(texts(found, "turns"))
    shown = locus(*command)
    assert shown.code == 0 and "_001" in shown.text


def test_completeness_names_turns_without_files(project: Path, locus: Locus) -> None:
    """P1, P7: a session with a turn of which no files are known is not called complete, by either command."""
    common = {"agent_turn_id": "t", "payload": {"hook_us": 1}}
    append(project, {"event_type": "turn", "operation": "start", **common})
    failed = {"hook_us": 1, "capture": {"state": "failed"}}
    append(project, {"event_type": "snapshot", "operation": "turn_end", "success": False, **common,
                     "payload": failed})  # fmt: skip
    append(project, {"event_type": "turn", "operation": "end", **common})
    _, found = asked(locus)
    assert levels(found, "completeness") == ["note"]
    assert "the files at the end of 1 turn unknown" in texts(found, "completeness")
    (show,) = commands_in(texts(found, "completeness"))
    assert "unknown ends" in locus(*show).text and "_001: no capture" in locus(*show).text


def put_tree(project: Path, *entries: tuple[bytes, bytes, bytes, int]) -> str:
    """A tree of (name, kind, content, size)."""
    with Store.open(project / ".locus") as store, store.blobs.writer() as writer:
        made = [(name, kind, writer.put(data), size) for name, kind, data, size in entries]
        root = writer.put_tree(made)
        writer.flush()
    return to_text(root)


def test_the_file_that_is_too_large_is_named(project: Path, locus: Locus) -> None:
    """P8: slow and unfinished captures name the files in their way, with the line that keeps them out."""
    tree = put_tree(project, (b"a", FILE, b"x", 1), (b"big.bin", FILE, b"y", 80_000_000))
    (project / "big.bin").write_bytes(b"\0" * 2_000_000)
    slow = [{"event_type": "action", "payload": {"hook_us": 4_500_000 + i}} for i in range(3)]
    pending = {"state": "partial", "pending": 1, "pending_paths": ["big.bin"]}
    late = {"event_type": "snapshot", "operation": "tool", "tree_hash": tree, "success": False}
    append(project, *slow, {**late, "payload": {"capture": pending}})
    _, found = asked(locus)
    assert "the largest files it looks at are big.bin (80 MB)" in texts(found, "durations")
    assert "`echo /big.bin >> .locusignore`" in texts(found, "durations")
    assert found["captures"][0]["level"] == "note"
    assert "big.bin (2.0 MB) not read in time" in found["captures"][0]["what"]
    assert "a (" not in texts(found, "durations")

    append(project, {"event_type": "snapshot", "operation": "tool", "tree_hash": tree, "success": True})
    assert set(levels(asked(locus)[1], "captures")) == {"ok"}


def test_contents_that_wait_are_named(project: Path, locus: Locus) -> None:
    """P7: files whose content a hook deferred are named until an event says what became of them; not those
    that git holds."""
    rows = [(b"big.bin", b"f", 90_000_000, 1, 1, 1, None), (b"lost.bin", b"f", 9_000_000, 1, 1, 2, None),
            (b"held", b"f", 5, 1, 1, 3, b"\1" * 20)]  # fmt: skip
    with Store.open(project / ".locus") as store, store.blobs.writer() as writer:
        listed = to_text(writer.put(deferred.encode_list(rows)))
        writer.flush()
    stored = put_tree(project, (b"big.bin", FILE, b"y", 90_000_000))
    capture = {"deferred": 2, "in_git": 1, "lists": [listed], "deferred_paths": ["big.bin", "lost.bin"]}
    append(project, {"event_type": "snapshot", "operation": "tool", "tree_hash": stored, "success": True,
                     "payload": {"capture": capture}})  # fmt: skip
    reported = texts(asked(locus)[1], "captures")
    assert "the contents of 2 files are still to be stored: big.bin (90 MB), lost.bin (9.0 MB)" in reported
    assert (
        "the next hook starts one" in reported and ".locusignore" not in reported
    )  # nobody need keep them out

    append(project, {"event_type": "content", "event_kind": "fact", "source": "system", "operation": "stored",
                     "before_hash": listed, "tree_hash": stored, "payload": {"count": 1}})  # fmt: skip
    assert "the contents of 1 file are still to be stored: lost.bin" in texts(asked(locus)[1], "captures")
    append(project, {"event_type": "content", "event_kind": "fact", "source": "system", "operation": "stored",
                     "before_hash": listed, "payload": {"lost": [["lost.bin", "it changed"]]}})  # fmt: skip
    assert "captures" not in asked(locus)[1]


def test_a_briefing_that_nobody_gets_is_reported(project: Path, locus: Locus) -> None:
    """P8: `at_start` before anybody has gathered facts is a note, which the named command ends."""
    append(project, {"event_type": "action"})
    assert locus("store", "seal").code == 0
    assert "briefing" not in asked(locus)[1]
    (project / ".locus/config.toml").write_text("[briefing]\nat_start = true\n")
    code, found = asked(locus)
    assert code == 0 and levels(found, "briefing") == ["note"]
    (command,) = commands_in(texts(found, "briefing"))
    assert locus(*command).code == 0
    assert levels(asked(locus)[1], "briefing") == ["ok"]
