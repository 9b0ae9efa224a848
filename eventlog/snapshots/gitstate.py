"""Where a repository stands: commit, branch, what differs from the commit, how much is tracked (S1-36).

Apart from capture, because it asks git to compare contents. Git writes nothing meanwhile, takes no lock
and starts no program: no monitor, no hook, no filter. Where a filter is configured its files are compared
by what is on disk, so one that was touched since its checkout shows as dirty. Any number of threads and
processes may call this at once. On the hook path.
"""

import os

from eventlog.snapshots import worktree_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.snapshots.worktree_git import GitPlace

_FILTER_KEYS = (b".clean", b".process", b".smudge")


class GitState:
    """Paths are relative to the top of the work tree; None is what was not asked or git could not say."""

    __slots__ = ("branch", "commit", "dirty", "staged", "tracked_count", "untracked", "warning")

    def __init__(self, commit: "str | None", branch: "str | None") -> None:
        self.commit = commit  # None before the first one
        self.branch = branch  # None when HEAD is detached
        self.dirty: "list[bytes] | None" = None  # tracked, and on disk not as in the index
        self.staged: "list[bytes] | None" = None  # in the index not as in the commit
        self.untracked: "list[bytes] | None" = None  # a directory of nothing else is one path
        self.tracked_count: "int | None" = None
        self.warning: "str | None" = None  # why git could not say


def read_state(root: str, *, compare: bool = True, deadline: "float | None" = None) -> "GitState | None":
    """The state of the repository around `root`; None outside of any.

    Args:
        compare: also ask git which paths are dirty, staged, untracked, and how many are tracked. Without
            it two small files are read and no child process is started.
        deadline: monotonic time after which git is not waited for.
    """
    path = os.fsencode(os.path.realpath(root))
    place = worktree_git.find(path)
    if place is None:
        return None
    state = GitState(*worktree_git.head(place.git_dir))
    if compare:
        try:
            _compare(state, place, deadline)
        except worktree_git.GitFailed as error:
            state.warning = str(error)
    return state


def _compare(state: GitState, place: "GitPlace", deadline: "float | None") -> None:
    status = ["status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=dirty"]
    no_filters = _no_filters(place.top, deadline)
    _, answer = worktree_git.run(place.top, [*no_filters, *status], b"", deadline)
    dirty, staged, untracked = [], [], []
    for line in answer.split(b"\0"):
        kind = line[:1]
        if kind == b"?":
            untracked.append(line[2:])
        elif kind in (b"1", b"u"):
            # 1 XY sub mH mI mW hH hI path; an unmerged entry has two more fields
            path = line.split(b" ", 8 if kind == b"1" else 10)[-1]
            if line[2:3] != b".":
                staged.append(path)
            if line[3:4] != b".":
                dirty.append(path)
    state.tracked_count = len(worktree_git.tracked(place.top, deadline))
    state.dirty, state.staged, state.untracked = dirty, staged, untracked


def _no_filters(top: bytes, deadline: "float | None") -> "list[str]":
    """Options that leave every configured filter without a program."""
    code, answer = worktree_git.run(
        top, ["config", "-z", "--name-only", "--get-regexp", r"^filter\."], b"", deadline, fine=(0, 1)
    )
    options = []
    for key in answer.split(b"\0") if code == 0 else ():
        if key.endswith(_FILTER_KEYS):
            options += ["-c", os.fsdecode(key) + "="]
        elif key.endswith(b".required"):
            options += ["-c", os.fsdecode(key) + "=false"]
    return options
