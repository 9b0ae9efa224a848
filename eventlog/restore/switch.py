"""Bringing the paths of a restore from one state to another: staged, synced, switched (docs/design.md §18.2).

For the holder of the restore lock. `carry_out` works from the state of each path, so it may be stopped
at any call and called again, in the same direction or in the other (I12, I32).
"""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from eventlog.base.errors import Refused
from eventlog.base.paths import path_text
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, EXECUTABLE, SYMLINK
from eventlog.checkout.directory import OpenDirectory, State, same, untouched
from eventlog.checkout.parallel import Listed
from eventlog.restore.journal import Document
from eventlog.restore.wanted import ways
from eventlog.worktree.userfiles import TEMPORARY

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# Descriptors that are handled together: of files that are written and not synced, and of files that lost
# their name.
_WAITING_MAX = 256

# What waits for the disk at the same time shares its trips: on a busy machine 100 small files on ext4 took
# 16 ms to 45 ms to sync with eight threads, and 143 ms to 259 ms one by one. Where the system had begun to
# write all of them before the first sync, threads took 5 ms to 12 ms, instead of 10 ms to 21 ms.
_THREADS = 8

# The state of a path when it was read, and its stat.
Observed = tuple[State | None, os.stat_result | None]


@dataclass(frozen=True, slots=True)
class _Change:
    """A path to be brought from `source` to `goal`; `number` makes its temporary name."""

    number: int
    path: bytes
    source: State | None
    goal: State | None

    @property
    def replaces(self) -> bool:
        """Whether the old file must go before the new one can come."""
        if self.source is None:
            return False
        return self.goal is None or DIRECTORY in (self.source.kind, self.goal.kind)


def carry_out(
    document: Document,
    target: OpenDirectory,
    blobs: BlobStore,
    *,
    forward: bool,
    observed: Mapping[bytes, Observed] | None = None,
    strict: bool | None = None,
) -> Listed:
    """Bring every path of the plan to its state after (forward) or before.

    Args:
        observed: the states of the paths, where they were read before.
        strict: a state that is neither before nor after is an error (the default with `observed`), else it
            is left and listed.
    Raises: Refused, OSError, Corruption: with a part of the work done.
    """
    first = observed is not None and strict is None
    with _Switch(document, target, blobs, forward=forward) as run_:
        if not first:
            run_.sweep()
        run_.examine(observed, strict=first)
        run_.stage()
        try:
            run_.switch(strict=first)
        finally:
            run_.release()
        run_.sync()
        return sorted(run_.left)


def clear(document: Document, target: OpenDirectory, blobs: BlobStore) -> None:
    """Remove what a pass that failed has staged: a recovery stages it again. Raises: OSError."""
    with _Switch(document, target, blobs, forward=False) as run_:
        run_.sweep()


class _Switch:
    """One pass over the steps of a restore in one direction."""

    def __init__(self, document: Document, target: OpenDirectory, blobs: BlobStore, *, forward: bool) -> None:
        self.target = target
        self.calls = target.calls
        self.blobs = blobs
        self.left: Listed = []
        self._mark = TEMPORARY + document.id[:16].encode("ascii") + b"-"
        self._steps = [
            _Change(n, s.path, s.before, s.after) if forward else _Change(n, s.path, s.after, s.before)
            for n, s in enumerate(document.steps)
        ]
        self._changes: list[_Change] = []
        self._observed: dict[bytes, Observed] = {}
        self._staged: dict[int, bytes] = {}  # number → directory
        self._dirty: set[bytes] = set()  # directories in which a name changed
        self._held: list[int] = []  # files that lost their name and are still there
        self._pool: ThreadPoolExecutor | None = None  # made when many descriptors wait at once

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def sweep(self) -> None:
        """Remove what an earlier pass staged. Only this restore uses names with its id."""
        self.target.forget()
        for directory in {b"", *(above for step in self._steps for above in ways(step.path)[1:])}:
            for name in self.target.names(directory) or ():
                if name.startswith(self._mark):
                    self.calls.unlink(self.target.dir(directory), name)

    def examine(self, observed: Mapping[bytes, Observed] | None, *, strict: bool) -> None:
        """Find out what is left to do."""
        foreign: set[bytes] = set()
        for step in self._steps:
            state, path_stat = (
                observed[step.path] if observed is not None else self.target.state_at(step.path)
            )
            if foreign and not foreign.isdisjoint(ways(step.path)[1:]):
                self.left.append((step.path, "the directory above it was changed since"))
            elif same(state, step.goal):
                continue
            elif same(state, step.source) or (state is None and _has_gap(step)):
                self._changes.append(step)
                self._observed[step.path] = (state, path_stat)
            elif strict:
                raise changed_since(step.path)
            else:
                foreign.add(step.path)
                self.left.append((step.path, "it was changed since, and stays as it is"))

    def stage(self) -> None:
        """Write and sync every new content under a temporary name."""
        by_content: dict[bytes, list[_Change]] = {}
        for change in self._changes:
            if change.goal is not None and change.goal.kind != DIRECTORY:
                by_content.setdefault(change.goal.id, []).append(change)
        unsynced: list[int] = []
        try:
            for id in self.blobs.read_order(by_content):
                data = self.blobs.get(id)
                for change in by_content[id]:
                    self._stage(change, data, unsynced)
                    if len(unsynced) >= _WAITING_MAX:
                        self._sync_staged(unsynced)
            self._sync_staged(unsynced)
        finally:
            for fd in unsynced:
                self.calls.close(fd)

    def _sync_staged(self, unsynced: list[int]) -> None:
        """Sync and close files; all are on their way to the disk before the first is waited for."""
        for fd in unsynced:
            self.calls.begin_sync(fd)
        self._sync_files(unsynced)

    def _stage(self, change: _Change, data: bytes, unsynced: list[int]) -> None:
        goal = change.goal
        assert goal is not None
        directory = self.target.deepest(change.path)
        name = self._temporary(change)
        dir_fd = self.target.dir(directory)
        self._staged[change.number] = directory
        if goal.kind == SYMLINK:
            self.calls.symlink(data, dir_fd, name)
            return
        # No wider than git's two modes: no more is known of them (docs/trees.md).
        new = 0o755 if goal.kind == EXECUTABLE else 0o644
        fd = self.calls.create(dir_fd, name, new if goal.mode is None else 0o600)
        unsynced.append(fd)
        self.target.write(fd, data)
        if goal.mode is not None:
            self.calls.fchmod(fd, goal.mode)

    def _sync_files(self, unsynced: list[int]) -> None:
        """Sync and close."""
        self._of_each(self.calls.fsync, unsynced)
        while unsynced:
            self.calls.close(unsynced.pop())

    def switch(self, *, strict: bool) -> None:
        """Remove what goes, make directories, and give the staged files their names."""
        for change in sorted(self._changes, key=lambda c: (-c.path.count(b"/"), c.path)):
            if change.replaces and self._observed[change.path][0] is not None:
                self._remove(change, strict)
        self.target.forget()  # other directories may be there from here on
        for change in self._changes:
            if change.goal is not None and change.goal.kind == DIRECTORY:
                self._make_directory(change)
        left = {path for path, _ in self.left}
        for change in self._changes:
            if change.number in self._staged:
                if left and not left.isdisjoint(ways(change.path)):
                    continue
                self._take_name(change)
        for change in reversed(self._changes):  # last, and from below: one may forbid to write in it
            if change.goal is not None and change.goal.kind == DIRECTORY and change.goal.mode is not None:
                self.calls.fchmod(self.target.dir(change.path), change.goal.mode)
        if left:
            self.sweep()

    def _remove(self, change: _Change, strict: bool) -> None:
        assert change.source is not None
        dir_fd, name = self._parent(change.path)
        if change.source.kind != DIRECTORY:
            self._check(change)
            self.calls.unlink(dir_fd, name)
            return
        try:
            self.calls.rmdir(dir_fd, name)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or strict:
                raise
            self.left.append((change.path, "something was put into it since"))

    def _make_directory(self, change: _Change) -> None:
        assert change.goal is not None
        dir_fd, name = self._parent(change.path)
        self.calls.mkdir(dir_fd, name, 0o755 if change.goal.mode is None else 0o700)

    def _take_name(self, change: _Change) -> None:
        if change.replaces:
            self._observed[change.path] = (None, None)
        self._check(change)
        to_fd, name = self._parent(change.path)
        staged_in = self._staged[change.number]
        if staged_in == change.path.rpartition(b"/")[0]:
            self.calls.rename(to_fd, self._temporary(change), name)
            return
        to_fd = os.dup(to_fd)  # the next look-up may close it
        try:
            self.calls.move(self.target.dir(staged_in), self._temporary(change), to_fd, name)
        finally:
            self.calls.close(to_fd)
        self._dirty.add(staged_in)

    def _check(self, change: _Change) -> None:
        """Refuse when the state of a path has changed; a file that loses its name is held.

        Removing the last name of a file waits until the file system has freed its blocks, with `discard`
        until the disk has been informed: 0.5 ms for each. Held, they are all freed together.
        """
        path_stat = self._observed[change.path][1]
        present = self.target.lstat(change.path) if path_stat is None else self._hold(change.path)
        if (path_stat is None) != (present is None):
            raise changed_since(change.path)
        if path_stat is not None and present is not None and not untouched(path_stat, present):
            raise changed_since(change.path)

    def _hold(self, path: bytes) -> os.stat_result | None:
        if len(self._held) >= _WAITING_MAX:
            self.release()
        parent, _, name = path.rpartition(b"/")
        try:
            fd = self.calls.hold(self.target.dir(parent), name)
        except OSError:
            fd = -1
        if fd < 0:
            return self.target.lstat(path)
        self._held.append(fd)
        return self.calls.fstat(fd)

    def release(self) -> None:
        """Give up what is held."""
        descriptors, self._held = self._held, []
        self._of_each(self.calls.close, descriptors)

    def _of_each(self, call: Callable[[int], None], fds: Sequence[int]) -> None:
        """`call` each descriptor, by several threads. Raises: the error of one of the calls."""

        def of_all(share: Sequence[int]) -> None:
            for fd in share:
                call(fd)

        if len(fds) < _THREADS:
            of_all(fds)
            return
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(_THREADS, "locus-restore")
        list(self._pool.map(of_all, [fds[first::_THREADS] for first in range(_THREADS)]))

    def _parent(self, path: bytes) -> tuple[int, bytes]:
        """The directory of a path that is about to change, and the name in it."""
        directory, _, name = path.rpartition(b"/")
        self._dirty.add(directory)
        return self.target.dir(directory), name

    def _temporary(self, change: _Change) -> bytes:
        return self._mark + b"%d" % change.number

    def sync(self) -> None:
        """Make the names durable."""
        changed: list[int] = []
        try:
            for directory in sorted(self._dirty):
                try:
                    changed.append(os.dup(self.target.dir(directory)))  # the next look-up may close it
                except (FileNotFoundError, NotADirectoryError):
                    continue  # it went too; the sync of its parent covers its name
                if len(changed) >= _WAITING_MAX:
                    self._sync_files(changed)
            self._sync_files(changed)
        finally:
            for fd in changed:
                self.calls.close(fd)


def _has_gap(step: _Change) -> bool:
    """Whether there is a moment at which nothing is there."""
    return step.source is not None and step.goal is not None and step.replaces


def changed_since(path: bytes) -> Refused:
    return Refused(f"{path_text(path)} was changed since the plan was made. Make a new plan.")
