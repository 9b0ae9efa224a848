"""`locus recover`: files that are gone, through the hook program and the command."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.hook_support import Agent, events, project
from tests.cli.support import Locus
from tests.worktree.support import git


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository where an agent edited, deleted and overwrote, and a person wrote between two turns."""
    root = project(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    agent = Agent(root)
    agent.start()
    agent.prompt("Write")
    agent.write("docs/notes.md", "first\n")
    agent.edit("docs/notes.md", "first", "second")
    agent.stop()
    (root / "by-hand.md").write_text("by hand\n")
    agent.prompt("Clean up")
    agent.bash("rm -r docs by-hand.md; echo spoiled > readme.md")
    agent.stop()
    return root


def states(locus: Locus, path: str) -> list[dict[str, object]]:
    ended = locus("recover", path, "--json")
    assert ended.code == 0
    found: list[dict[str, object]] = json.loads(ended.text)["states"]
    return found


def test_every_recorded_state_is_offered(work: Path, locus: Locus) -> None:
    """P1: What tools wrote, what only a tree saw, what was deleted, newest first, with what deleted it."""
    found = states(locus, "docs/notes.md")
    assert [(s["size"], s["source"], s["deleted_in"] is not None) for s in found] == [
        (7, "event", True), (6, "event", False),
    ]  # fmt: skip
    assert "deleted by `rm -r docs by-hand.md" in locus("recover", "docs/notes.md").text
    assert [s["size"] for s in states(locus, "by-hand.md")] == [8]
    assert [s["size"] for s in states(locus, "readme.md")] == [8, 9]
    (work / "src/app.py").unlink()  # no event says a word of it
    assert [s["source"] for s in states(locus, "src/app.py")] == ["tree"]
    assert {s["path"] for s in states(locus, "*.md")} == {"docs/notes.md", "by-hand.md", "readme.md"}


def test_a_state_is_brought_back_and_what_stood_there_is_safe(work: Path, locus: Locus) -> None:
    """The newest, or a number of the list; what is replaced comes back by `restore --undo`."""
    assert locus("recover", "docs/notes.md", "--yes").code == 0
    assert (work / "docs/notes.md").read_text() == "second\n"
    assert locus("recover", "readme.md", "--number", "2").code == 0
    assert (work / "readme.md").read_text() == "# Sample\n"
    assert locus("restore", "--undo", "--yes").code == 0
    assert (work / "readme.md").read_text() == "spoiled\n"
    assert locus("recover", "by-hand.md", "--yes", "--to", "copy.md").code == 0
    assert (work / "copy.md").read_text() == "by hand\n" and not (work / "by-hand.md").exists()
    assert locus("recover", "by-hand.md", "--yes", "--to", "copy.md").code == 1


def test_what_a_restore_replaced_can_be_found_too(work: Path, locus: Locus) -> None:
    """P1: A person's unrecorded text that an undo took away is among the states."""
    (work / "readme.md").unlink()
    (work / "docs").mkdir()
    (work / "docs/notes.md").write_text("never recorded\n")
    assert locus("restore", "last", "--at", "start", "--yes").code == 0

    assert 15 in [s["size"] for s in states(locus, "docs/notes.md")]


def test_nothing_is_found_by_a_wrong_name_but_its_like(work: Path, locus: Locus) -> None:
    """A name in another directory is stated; without a choice nothing is written."""
    ended = locus("recover", "notes.md")
    assert ended.code == 1 and "docs/notes.md" in ended.err
    assert locus("recover", "docs/notes.md").code == 0 and not (work / "docs").exists()
    assert locus("recover", "docs/notes.md", "--number", "9").code == 1


def test_a_file_that_git_holds_is_found(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: A tree names contents that git holds, or that were deferred, by a list: recorded states too."""
    root = project(tmp_path)
    monkeypatch.chdir(root)
    (root / "s").mkdir()
    for number in range(2100):
        (root / f"s/f{number}").write_text(f"{number}\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "many")
    agent = Agent(root)
    agent.start()
    agent.prompt("Look")
    agent.stop()
    assert "in_git" in json.dumps([event["payload"] for event in events(root, "snapshot")])
    (root / "s/f1").unlink()
    found = states(locus, "s/f1")
    assert [(s["source"], s["moment"], s["size"], s["lost"]) for s in found] == [("tree", "before", 2, None)]
    assert len(states(locus, "s/f209?")) == 10
    assert locus("recover", "s/f1", "--yes").code == 0 and (root / "s/f1").read_text() == "1\n"


def test_a_state_that_was_not_captured_is_listed_with_the_reason(work: Path, locus: Locus) -> None:
    """P1: What a tree names and does not hold is no content, and no absence."""
    os.mkfifo(work / "pipe")
    agent = Agent(work)
    agent.start()
    agent.prompt("Look")
    agent.stop()
    (state,) = states(locus, "pipe")
    assert state["hash"] is None and state["size"] is None and state["lost"]
    assert locus("recover", "pipe", "--yes").code == 1


def test_states_are_listed_as_they_were_first_seen(work: Path, locus: Locus) -> None:
    """P1: The newest comes first; a deletion ends a state, and the same content after it is another one.

    Each says whether it was there before a turn or made by it.
    """
    agent = Agent(work)
    agent.start()
    agent.prompt("Spoil it again")
    agent.bash("echo '# Sample' > readme.md; mkdir docs; echo first > docs/notes.md")
    agent.stop()
    assert locus("undo", "--yes").code == 0 and locus("redo", "--yes").code == 0
    found = states(locus, "docs/notes.md")
    times = [str(s["at"]) for s in found]
    assert times == sorted(times, reverse=True) and all(at.endswith("Z") for at in times)
    assert [(s["source"], s["moment"], s["operation"], s["deleted_by"] is None) for s in found] == [
        ("restore", "after", "redo", True), ("event", "after", None, False), ("event", "after", None, False),
        ("event", "after", None, True),
    ]  # fmt: skip
    shown = locus("recover", "docs/notes.md").text.splitlines()
    assert "made by a redo" in shown[0] and "deleted by" not in shown[0]
    assert "deleted by the undo event:" in shown[1] and "deleted by `rm -r docs" in shown[2]
    first, *_, last = locus("recover", "readme.md").text.splitlines()
    assert "made by a redo" in first and "before " in last


def test_writing_elsewhere_needs_a_choice(work: Path, locus: Locus) -> None:
    """Where nobody can be asked the refusal says what to give, and nothing is written."""
    for more in ((), ("--json",)):
        ended = locus("recover", "readme.md", "--to", "copy.md", *more)
        assert ended.code == 3 and "nothing was written" in ended.err
        assert "--number" in ended.err and "--yes" in ended.err and not (work / "copy.md").exists()


def test_too_many_changes_for_events_are_not_none(
    tmp_path: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: Too many changes at once are not none: no command says that nothing was changed."""
    root = project(tmp_path)
    monkeypatch.chdir(root)
    agent = Agent(root)
    agent.start()
    agent.prompt("Fill")
    agent.bash("mkdir s; seq 5001 | split -l 1 -a 4 - s/f")
    agent.stop()
    ended = locus("log")
    assert " – " in ended.text and "`locus diff " in ended.err
    assert json.loads(locus("log", "--json").text)["changes_without_events"] == 5001
    assert "5,001 files changed at once" in locus("show", "last").text
    ended = locus("history", "s/faaaa")
    assert ended.code == 1 and "`locus recover s/faaaa`" in ended.err
    assert locus("recover", "s/faaaa").code == 0
