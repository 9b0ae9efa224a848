"""Finding the turn that broke something: recorded states in order, halved by a test (docs/bisect.md).

`states_of` lists the states with one question to the log; `Bisection` says which one to test next; `Bench` is
the directory that they are tested in, where each step writes only what differs.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import EventLogError, NotFound
from eventlog.base.paths import path_text
from eventlog.blobs.tree import DIRECTORY, MODE_OF_KIND, SKIPPED, SUBMODULE, SYMLINK
from eventlog.projections.definitions import TURNS_NEWEST_FIRST
from eventlog.query.lookup import Query, TurnRef
from eventlog.replay.compare import compare
from eventlog.replay.trees import TreeState

if TYPE_CHECKING:
    from eventlog.blobs.tree import TreeEntry

GOOD, BAD, SKIP = "good", "bad", "skip"

# Reads the tree of a turn at a moment: `Store.tree`.
ReadTree = Callable[[TurnRef, str], TreeState]


@dataclass(frozen=True, slots=True)
class BisectState:
    """The files at a moment of a turn. `between` says that they differ from the end of the turn before."""

    turn: TurnRef
    at: str
    tree: str
    between: bool = False


def states_of(
    query: Query, session: str | None = None, *, commits: bool = False
) -> tuple[list[BisectState], int]:
    """The states of turns in the order of time, equal neighbours once; and how many turns were left out.

    Args: session: of this one only; commits: also turns of imported commits.
    """
    conditions, parameters = ["rewritten is not true"], list[Any]()
    if not commits:
        conditions.append("agent is distinct from 'git'")
    if session is not None:
        conditions.append("starts_with(session_id, $1)")
        parameters.append(session)
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
        """What the test said of a state."""
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
        self._stats: dict[bytes, tuple[int, ...]] = {}  # of the recorded files, as they were written
        self.written = 0  # files and links of the last step

    def go_to(self, state: BisectState, *, fresh: bool = False) -> None:
        """Bring the directory to a state. Raises: NotFound, Corruption, OSError."""
        tree = self._read(state.turn, state.at)
        if fresh or self._state is None:
            self._clear()
            report = tree.materialize(self.directory, force=True)
            self.written = report.files + report.symlinks
            for name, target in self._links:
                os.symlink(target, os.path.join(self.directory, name))
            self._stats = {path: stat for path, _ in tree.walk() if (stat := self._stat(path)) is not None}
        else:
            self._change(self._state, tree)
        self._state = tree

    def _clear(self) -> None:
        for name in os.listdir(self.directory):
            self._remove(os.path.join(self.directory, name))

    def _change(self, before: TreeState, after: TreeState) -> None:
        self.written = 0
        changes = compare(before, after).changes
        # What the test changed of the recorded files is as recorded again, too.
        spoiled = [path for path, stat in self._stats.items() if self._stat(path) != stat]
        for change in changes:
            gone = change.old_path or (change.path if change.after is None else None)
            if gone is not None:
                self._remove(self._path(gone))
                self._stats.pop(gone, None)
                self._prune(gone)
        written = {change.path: change.after for change in changes}
        for path in spoiled:
            if path in self._stats and path not in written:
                written[path] = after.entry(path_text(path))
        for path, entry in sorted(written.items()):
            if entry is not None:
                self._write(path, entry, after)

    def _write(self, path: bytes, entry: "TreeEntry", tree: TreeState) -> None:
        target = self._path(path)
        if entry.kind == DIRECTORY:
            os.makedirs(target, exist_ok=True)
            return
        if entry.kind in (SKIPPED, SUBMODULE):
            return
        self._make_room(path)
        data = tree.blobs.get(tree.deferred.entry(entry, path).id)
        made = target + b".locus-new"
        self._remove(made)
        if entry.kind == SYMLINK:
            os.symlink(data, made)
        else:
            fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), MODE_OF_KIND[entry.kind])
        if os.path.isdir(target) and not os.path.islink(target):
            self._remove(target)
        os.replace(made, target)
        self.written += 1
        if (stat := self._stat(path)) is not None:
            self._stats[path] = stat

    def _make_room(self, path: bytes) -> None:
        """The directories above a path, in place of whatever the test put there."""
        above = b""
        for name in path.split(b"/")[:-1]:
            above = above + b"/" + name if above else name
            target = self._path(above)
            if os.path.islink(target) or os.path.isfile(target):
                os.unlink(target)
            os.makedirs(target, exist_ok=True)

    def _prune(self, path: bytes) -> None:
        """Remove the directories above a path that are empty now."""
        while b"/" in path:
            path = path.rpartition(b"/")[0]
            try:
                os.rmdir(self._path(path))
            except OSError:
                return

    def _stat(self, path: bytes) -> tuple[int, ...] | None:
        """By what a change of a file shows; None for a directory, and where nothing stands."""
        try:
            stat = os.lstat(self._path(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if S_ISDIR(stat.st_mode):
            return None
        return stat.st_ino, stat.st_mode, stat.st_size, stat.st_mtime_ns

    def _path(self, path: bytes) -> bytes:
        return os.fsencode(self.directory) + b"/" + path

    @staticmethod
    def _remove(path: "str | bytes") -> None:
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            return


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
