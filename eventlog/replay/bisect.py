"""Finding the turn that broke something: recorded states in order, halved by a test (docs/bisect.md).

`states_of` lists the states with one question to the log; `Bisection` says which one to test next; `Bench` is
the directory that they are tested in, where each step writes only what differs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, Protocol

from eventlog.base.errors import EventLogError, NotFound
from eventlog.base.paths import path_text
from eventlog.blobs.tree import DIRECTORY, SKIPPED, SUBMODULE
from eventlog.checkout.directory import OpenDirectory
from eventlog.checkout.parallel import Listed
from eventlog.projections.definitions import TURNS_NEWEST_FIRST
from eventlog.query.lookup import Query, TurnRef
from eventlog.replay.compare import compare
from eventlog.replay.deferred import DeferredContents
from eventlog.replay.trees import Events, TreeState, recorded_tree

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore

GOOD, BAD, SKIP = "good", "bad", "skip"

# By what a change of a file shows: inode, mode, size, time in nanoseconds.
FileStat = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class BisectState:
    """The files at a moment of a turn. `between` says that they differ from the end of the turn before.

    `tree` is their tree, or the id of an event after which they are meant, or empty.
    """

    turn: TurnRef
    at: str
    tree: str
    between: bool = False


class BisectStore(Protocol):
    """What reading the trees of states needs of a store."""

    blobs: "BlobStore"

    @property
    def rows(self) -> Events: ...
    @property
    def tree(self) -> Callable[[TurnRef, str], TreeState]: ...


# Reads the tree of a state.
ReadTree = Callable[[BisectState], TreeState]


def trees_of(store: BisectStore) -> ReadTree:
    """The trees of states. Those that the question for the states named are not asked of the log again.

    Where a state is exact, the tree that its turn names is all of it: no change follows it.
    """

    def read(state: BisectState) -> TreeState:
        if state.tree and state.at in ("start", "end"):
            deferred = DeferredContents(store.blobs, store.rows)
            return recorded_tree(deferred, store.blobs, state.turn.name, state.at, state.tree)
        return store.tree(state.turn, state.at)

    return read


def states_of(
    query: Query, session: str | None = None, *, commits: bool = False, worktree: str | None = None
) -> tuple[list[BisectState], int]:
    """The states of turns in the order of time, equal neighbours once; and how many turns were left out.

    Args: session: of this one only; commits: also turns of imported commits; worktree: git's name of the
    linked one that is meant. Without a session, turns that worked in another are left out uncounted.
    """
    conditions, parameters = ["rewritten is not true"], list[Any]()
    if not commits:
        conditions.append("agent is distinct from 'git'")
    if session is not None:
        conditions.append("starts_with(session_id, $1)")
        parameters.append(session)
    else:
        conditions.append(
            "(session_id, turn) not in (select (session_id, turn) from events where worktree is not null "
            "and worktree is distinct from $1 and session_id is not null and turn is not null)"
        )
        parameters.append(worktree)
    rows = query(
        "select session_id, turn, first_position, last_position + 1, start_tree, end_tree, start_certainty, "
        f"end_certainty from turns where {' and '.join(conditions)} order by {TURNS_NEWEST_FIRST}",
        parameters,
    ).rows
    states: list[BisectState] = []
    left_out = 0
    for session_id, turn, since, until, start, end, at_start, at_end in reversed(rows):
        ref = TurnRef(session_id, turn, since, until)
        if at_end != "exact" or end is None:
            left_out += 1
            continue
        last = states[-1].tree if states else None
        if start not in (None, last) and at_start == "exact":
            states.append(BisectState(ref, "start", start, between=last is not None))
            last = start
        if end != last:
            states.append(BisectState(ref, "end", end))
    return states, left_out


def states_in(ref: TurnRef, events: Sequence[Any]) -> list[BisectState]:
    """The states after each call of a turn that changed files. Args: events: its `file` events."""
    last: dict[str, str] = {}
    for event in events:
        if event["operation"] != "read":
            cause = str(event["cause"] or event["event_id"])
            last.pop(cause, None)
            last[cause] = str(event["event_id"])
    return [BisectState(ref, event_id, event_id) for event_id in last.values()]


@dataclass
class Bisection:
    """Halves a range of states: `good` is the index of the last good one, `bad` that of the first bad one."""

    count: int
    good: int = 0
    bad: int = -1
    skipped: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.bad < 0:
            self.bad = self.count - 1

    @property
    def next(self) -> int | None:
        """The state to test: of those between that were not skipped the one nearest to the middle."""
        middle = (self.good + self.bad) // 2
        left = [index for index in range(self.good + 1, self.bad) if index not in self.skipped]
        return min(left, key=lambda index: (abs(index - middle), index)) if left else None

    @property
    def candidates(self) -> range:
        """The states of which one broke it; one when it is found."""
        return range(self.good + 1, self.bad + 1)

    def take(self, index: int, verdict: str) -> None:
        """Take the test's verdict on a state."""
        if verdict == GOOD:
            self.good = index
        elif verdict == BAD:
            self.bad = index
        else:
            self.skipped.add(index)


class Bench:
    """A directory that is brought from one state to the next."""

    def __init__(self, directory: str, read: ReadTree, links: Sequence[tuple[str, str]] = ()) -> None:
        self.directory = directory
        self._read = read
        self._links = links  # (name in the directory, what it leads to)
        self._state: TreeState | None = None
        self._stats: dict[bytes, FileStat] = {}  # of the recorded files, as they were written
        self.written = 0  # files and links of the last step

    @property
    def stats(self) -> dict[bytes, FileStat]:
        """The recorded files as they were written."""
        return self._stats

    def resume(self, state: BisectState, stats: dict[bytes, FileStat]) -> None:
        """Go on in a directory that an earlier process brought to a state."""
        self._state = self._read(state)
        self._stats = stats

    def go_to(self, state: BisectState, *, fresh: bool = False) -> None:
        """Bring the directory to a state. Raises: NotFound, Corruption, OSError."""
        tree = self._read(state)
        with OpenDirectory.of(self.directory) as directory:
            if fresh or self._state is None:
                self._fill(directory, tree)
            else:
                self._change(directory, self._state, tree)
        self._state = tree

    def _fill(self, directory: OpenDirectory, tree: TreeState) -> None:
        """Write all of a tree into the directory, in place of what is there."""
        for name in directory.names(b"") or ():
            directory.remove(name)
        self._write(tree, ())
        for link, leads_to in self._links:
            os.symlink(leads_to, os.path.join(self.directory, link))
        self._stats = {path: stat for path, _ in tree.walk() if (stat := _stat(directory, path)) is not None}

    def _change(self, directory: OpenDirectory, before: TreeState, after: TreeState) -> None:
        """Write only what differs between two trees, and what the test changed of the recorded files."""
        changes = compare(before, after).changes
        spoiled = [path for path, stat in self._stats.items() if _stat(directory, path) != stat]
        for change in changes:
            gone = change.old_path or (change.path if change.after is None else None)
            if gone is not None:
                directory.remove(gone)
                directory.prune(gone)
                self._stats.pop(gone, None)
        written = {change.path: change.after.kind for change in changes if change.after is not None}
        written |= {path: after.entry(path_text(path)).kind for path in spoiled if path in self._stats}
        for path, kind in written.items():
            if kind not in (DIRECTORY, SKIPPED, SUBMODULE) and directory.is_dir(path):
                directory.remove(path)
        self.written = 0
        if written and (missing := self._write(after, sorted(written))):
            raise NotFound(f"{path_text(missing[0][0])}: {missing[0][1]}")
        directory.forget()
        for path in written:
            if (stat := _stat(directory, path)) is not None:
                self._stats[path] = stat

    def _write(self, tree: TreeState, paths: Sequence[bytes]) -> Listed:
        """Check the paths of a tree out, all without `paths`; those that cannot be written."""
        report = tree.check_out(self.directory, paths, force=True)
        self.written = report.files + report.symlinks
        return report.missing


def _stat(directory: OpenDirectory, path: bytes) -> FileStat | None:
    """By what a change of a file shows; None for a directory, and where nothing is."""
    stat = directory.lstat(path)
    if stat is None or S_ISDIR(stat.st_mode):
        return None
    return stat.st_ino, stat.st_mode, stat.st_size, stat.st_mtime_ns


def search(
    states: Sequence[BisectState],
    test: Callable[[int], str],
) -> Iterator[tuple[int, str, Bisection]]:
    """Test both ends, then halve, until nothing is left; each time (index, verdict, what is left).

    Raises: EventLogError where the ends do not fit.
    """
    if len(states) < 2:
        raise NotFound("there are fewer than two different states, so there is nothing to search")
    bisection = Bisection(len(states))
    for index, wanted in ((bisection.bad, BAD), (bisection.good, GOOD)):
        verdict = test(index)
        yield index, verdict, bisection
        if verdict != wanted:
            which = "last" if wanted == BAD else "first"
            raise EventLogError(
                f"the {which} state is {verdict}, not {wanted}: the cause is in no recorded file, or outside "
                "of the range. --good and --bad name other ends."
            )
    while (middle := bisection.next) is not None:
        verdict = test(middle)
        bisection.take(middle, verdict)
        yield middle, verdict, bisection
