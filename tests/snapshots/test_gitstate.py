"""The state of a repository at a moment."""

import os
from pathlib import Path

import pytest

from eventlog.snapshots.gitstate import GitState, read_state
from tests.snapshots.test_worktree import write
from tests.snapshots.worktree_support import git


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "topic/one")
    return work


def state_of(work: Path, **options: bool) -> GitState:
    state = read_state(str(work), **options)
    assert state is not None
    assert state.warning is None
    return state


def test_commit_branch_and_differing_paths_are_told(work: Path) -> None:
    """S1-36: HEAD, branch, dirty, staged and untracked paths, and the number of tracked files."""
    for name in ("same", "dirty", "staged", "both", "gone", "sp ace"):
        write(work / name, b"1")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "one")
    for name in ("dirty", "both", "sp ace"):
        write(work / name, b"22")
    write(work / "staged", b"333")
    git(work, "add", "staged", "both")
    write(work / "both", b"4444")
    (work / "gone").unlink()
    write(work / "new" / "file")
    write(work / "added")
    git(work, "add", "added")

    state = state_of(work)

    assert (state.commit, state.branch) == (git(work, "rev-parse", "HEAD"), "topic/one")
    assert state.dirty == [b"both", b"dirty", b"gone", b"sp ace"]
    assert state.staged == [b"added", b"both", b"staged"]
    assert state.untracked == [b"new/"]
    assert state.tracked_count == 7


def test_unborn_packed_and_detached_heads_are_read(work: Path) -> None:
    """S1-36, P7: no commit is None; packed refs, worktrees and a detached HEAD are found without git."""
    state = state_of(work)
    assert (state.commit, state.branch, state.tracked_count) == (None, "topic/one", 0)
    write(work / "f")
    git(work, "add", "f")
    git(work, "commit", "-q", "-m", "one")
    commit = git(work, "rev-parse", "HEAD")
    git(work, "pack-refs", "--all")
    git(work, "worktree", "add", "-q", "-b", "other", str(work.parent / "linked"))
    git(work, "symbolic-ref", "refs/heads/alias", "refs/heads/topic/one")

    def shown(place: Path) -> tuple[str | None, str | None]:
        state = state_of(place, compare=False)
        assert state.dirty is None and state.tracked_count is None
        return state.commit, state.branch

    assert shown(work) == (commit, "topic/one")
    assert shown(work.parent / "linked") == (commit, "other")
    git(work, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert shown(work) == (commit, "alias")
    git(work, "checkout", "-q", "--detach", "other")
    assert shown(work) == (commit, None)
    (work / "sub").mkdir()
    assert shown(work / "sub") == (commit, None)
    assert read_state(str(work.parent)) is None


def test_the_state_is_read_without_starting_programs_or_writing(work: Path) -> None:
    """P4, P5: filters and monitors of the configuration do not run, and the index stays as it is."""
    mark = work.parent / "started"
    write(work / ".gitattributes", b"*.f filter=f\n")
    write(work / "a.f", b"1")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "one")
    git(work, "config", "core.fsmonitor", f"touch {mark}; false")
    for key in ("clean", "smudge", "process"):
        git(work, "config", f"filter.f.{key}", f"touch {mark}; cat")
    git(work, "config", "filter.f.required", "true")
    os.utime(work / "a.f", (1, 1))
    index = (work / ".git" / "index").read_bytes()

    state = state_of(work)

    assert state.dirty == []
    assert not mark.exists()
    assert (work / ".git" / "index").read_bytes() == index


def test_a_repository_that_git_refuses_leaves_the_rest_unknown(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: what git cannot say is None with the reason, and HEAD is told all the same."""
    monkeypatch.setenv("PATH", "/nowhere")
    state = read_state(str(work))
    assert state is not None
    assert state.branch == "topic/one" and state.dirty is None
    assert state.warning is not None and "git" in state.warning
