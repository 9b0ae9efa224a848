"""`locus recover`: files that are gone, through the hook program and the command."""

import json
from pathlib import Path

import pytest

from tests.cli.hook_support import Agent, project
from tests.cli.support import Locus


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
    """A name in another directory is said; without a choice nothing is written."""
    ended = locus("recover", "notes.md")
    assert ended.code == 1 and "docs/notes.md" in ended.err
    assert locus("recover", "docs/notes.md").code == 0 and not (work / "docs").exists()
    assert locus("recover", "docs/notes.md", "--number", "9").code == 1
