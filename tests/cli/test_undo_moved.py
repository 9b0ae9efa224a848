"""`locus redo` and `restore --undo` after a project was copied or moved, and beside other worktrees."""

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
    "redo": (("undo", "--yes"), ("redo", "--yes")),
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
