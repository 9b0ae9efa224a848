"""`locus redo` and `restore --undo` after a project was copied or moved, and beside other worktrees."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.hook_support import Agent, events, here, project
from tests.cli.support import Locus
from tests.worktree.support import git


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project after a turn that is undone, or restored away."""
    root = project(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    agent = Agent(root)
    agent.start()
    agent.prompt("Go")
    agent.write("new.txt", "new\n")
    agent.stop()
    return root


WAYS = {
    "redo": (("undo", "last", "--yes"), ("redo", "--yes")),
    "restore": (("restore", "last", "--at", "start", "--yes"), ("restore", "--undo", "--yes")),
}


@pytest.mark.parametrize(("there", "back"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("how", ["copied", "moved"])
def test_what_was_done_in_place_is_taken_back_where_the_project_is(
    work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch, how: str, there: tuple[str], back: tuple[str]
) -> None:
    """P1: in a copy the copy is written, and never the original; a project that moved takes the way back
    with it."""
    spoiled = here(work)
    assert locus(*there).code == 0
    undone = here(work)
    assert "new.txt" not in {path.decode() for path in undone}
    other = work.parent / "other"
    if how == "copied":
        shutil.copytree(work, other, symlinks=True)
    else:
        work.rename(other)
    monkeypatch.chdir(other)
    ended = locus(*back)

    assert ended.code == 0, ended.err
    assert here(other) == spoiled
    assert how == "moved" or here(work) == undone


@pytest.mark.parametrize(("there", "back"), WAYS.values(), ids=WAYS)
def test_what_was_done_elsewhere_is_taken_back_there_only_by_name(
    work: Path, locus: Locus, tmp_path: Path, there: tuple[str], back: tuple[str]
) -> None:
    """P1: an undo into another directory is not redone in silence: the directory is named, and asked for."""
    other = tmp_path / "feature"
    git(work, "worktree", "add", "-q", str(other))
    (other / "new.txt").write_text("new\n")
    spoiled = here(other)
    assert locus(*there, "--into", other).code == 0
    undone = here(other)
    assert undone != spoiled and (work / "new.txt").exists()
    ended = locus(*back)

    assert ended.code == 3 and str(other) in ended.err and "--into" in ended.err
    assert here(other) == undone
    (operation,) = [e["event_id"] for e in events(work, "restore") if e["operation"] == "start"]
    for words in (("undo", f"event:{operation}", "--yes"), ("restore", f"event:{operation}", "--yes")):
        ended = locus(*words)
        assert ended.code == 3 and str(other) in ended.err and (work / "new.txt").exists()
    assert locus(*back, "--into", other).code == 0 and here(other) == spoiled


@pytest.fixture
def feature(work: Path, locus: Locus, tmp_path: Path) -> Path:
    """Another worktree, in which an agent worked last: a commit, then a turn that deletes what is in it."""
    (work / "a.txt").write_text("one\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "a")
    other = tmp_path / "feature"
    git(work, "worktree", "add", "-q", str(other))
    agent = Agent(work)
    agent.start()
    agent.prompt("In main")
    agent.bash("rm a.txt")
    agent.stop()
    agent = Agent(other)
    agent.start()
    for command in ("echo feat > a.txt; git commit -qam f", "rm a.txt"):
        agent.prompt(command)
        agent.bash(command)
        agent.stop()
    return other


def test_the_newest_turn_is_one_of_this_worktree(work: Path, feature: Path, locus: Locus) -> None:
    """P1: plain undo takes back what an agent did here; another worktree's newest turn is meant where its
    directory is named, and work there does not end a redo here."""
    assert locus("undo", "--yes").code == 0
    assert (work / "a.txt").read_text() == "one\n" and not (feature / "a.txt").exists()
    assert locus("redo", "--yes").code == 0 and not (work / "a.txt").exists()
    assert locus("undo", "--into", feature, "--yes").code == 0
    assert (feature / "a.txt").read_text() == "feat\n" and not (work / "a.txt").exists()


def test_a_named_turn_of_another_worktree_needs_its_directory(
    work: Path, feature: Path, locus: Locus
) -> None:
    """P1: undo and restore refuse, write nothing, and name the worktree with its directory."""
    before = here(work)
    (session,) = [e["session_id"] for e in events(work, "turn") if e["worktree"] == "feature"][:1]
    (file,) = [e["event_id"] for e in events(work, "file") if e["worktree"] == "feature"][-1:]
    for words in (
        ("undo", "last"), ("restore", "last", "--at", "start"), ("undo", f"session:{session}"),
        ("undo", f"event:{file}"),
    ):  # fmt: skip
        ended = locus(*words, "--yes")
        assert ended.code == 3 and "worktree feature" in ended.err and "--into" in ended.err, words
        assert here(work) == before
    assert str(feature) in locus("undo", "last").err
    assert locus("restore", "last", "--at", "start", "--into", feature, "--yes").code == 0
    assert (feature / "a.txt").read_text() == "feat\n"


def test_bisect_goes_through_the_turns_of_this_worktree(work: Path, feature: Path, locus: Locus) -> None:
    """P1: the turns of another worktree are no states of this directory."""
    found = json.loads(
        locus("bisect", "run", "--json", "sh", "-c", "test -e a.txt || test ! -e new.txt").text
    )["bisect"]
    assert found["tried"]
    assert {tried["turn"].split("_")[0] for tried in found["tried"]}.isdisjoint(
        e["session_id"] for e in events(work, "turn") if e["worktree"] == "feature"
    )
