"""The known paths of a working directory compared with the disk: nearly all the time of a full capture.

Each path costs one `lstat`, mostly within the kernel, so only more processors make it faster. Threads do not:
they wait for one another between any two calls. With `may_fork`, children compare a share each and send the
paths that differ through a pipe. A child makes no other call and keeps only three descriptors of its parent.
Nothing depends on it: the parent compares what it did not send in time. On the hook path.
"""

import errno
import os
import time
from struct import Struct

from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import SUBMODULE
from eventlog.worktree.rows import (
    KEPT_COUNT,
    MISSING,
    SKIPPED_COUNT,
    STAT_SIZE,
    SUBMODULE_COUNT,
    StatCache,
    pack_fields,
    pack_stat,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from eventlog.worktree.contents import Lists
    from eventlog.worktree.entries import Entries
    from eventlog.worktree.rows import RowRange

PENDING_SHOWN = 100

# Paths between two readings of the clock: about a millisecond.
_STRIDE = 256
# A child costs its parent a millisecond, and this many paths take five.
_ROWS_MIN = 2_000
_PROCESSES_MAX = 4
_DESCRIPTORS_MAX = 1024
# Seconds before the deadline at which a child stops, so that its stats are not lost.
_TELLING_S = 0.005
_SIGKILL = 9
# RowRangees compared, paths that differ, bytes of these
_ANSWER = Struct("<III")
# Entries of /proc/self/task: `.`, `..`, and the one thread that makes a fork harmless.
_LINKS_OF_ONE_THREAD = 3


class Suspects:
    """`names` are those to read, by the path of their directory; that of the root by None.

    Every check raises Unusable where the cache is damaged.
    """

    def __init__(self, entries: "Entries", cache: StatCache, lists: "Lists") -> None:
        self._entries = entries
        self._cache = cache
        self._lists = lists
        self.names: "dict[bytes | None, set[bytes]]" = {}

    def check_root(self) -> None:
        if self._present(b"") != self._cache.root_stat:
            self.names[None] = {b""}

    def check_all(self, deadline: "float | None", may_fork: bool, reads_deferred: bool) -> "Compared":
        """Check every row. Args: may_fork: as in `worktree.capture`; reads_deferred: contents that an earlier
        capture deferred are to be read."""
        compared = compare_all(self._entries, self._cache, deadline=deadline, may_fork=may_fork)
        for path in (*compared.changed, *self._moved(reads_deferred)):
            self._add(path)
        return compared

    def check(self, paths: "Iterable[bytes]") -> None:
        """Check the rows of some paths and of the directories on the way to them."""
        for path in {above for named in paths for above in _with_those_above(named)}:
            present = self._cache.find(path)
            if present is None:
                continue  # a directory on the way has changed, or it is none of ours
            directory, row = present
            differs = self._present(path) != directory.stat(row)
            if differs or (directory.kind(row) == SUBMODULE and self._has_moved(path, directory.id(row))):
                self._add(path)

    def check_unwatched(self, reads_deferred: bool) -> None:
        """Check what a watcher may not see: the commits of submodules, and databases that are mapped."""
        for path in self._moved(reads_deferred):
            self._add(path)
        self.check(path for path, _, _ in self._cache.special(KEPT_COUNT))

    def _add(self, path: bytes) -> None:
        above, _, name = path.rpartition(b"/")
        self.names.setdefault(above, set()).add(name)

    def _present(self, path: bytes) -> bytes:
        """The stat of a path at this moment."""
        try:
            above, _, name = path.rpartition(b"/")
            return pack_stat(self._entries.lstat(above, name or b"."))
        except OSError:
            return MISSING

    def _moved(self, reads_deferred: bool) -> "Iterator[bytes]":
        """The submodules with another commit, and deferred contents that are to be read."""
        columns = (SUBMODULE_COUNT, SKIPPED_COUNT) if reads_deferred else (SUBMODULE_COUNT,)
        for path, directory, row in self._cache.special(*columns):
            id = directory.id(row)
            if directory.kind(row) == SUBMODULE:
                if self._has_moved(path, id):
                    yield path
            elif self._lists.named_by(id) is not None:
                yield path

    def _has_moved(self, path: bytes, id: bytes) -> bool:
        commit = self._entries.commit_at(path)
        return commit is not None and blob_id(commit.encode("ascii")) != id


def _with_those_above(path: bytes) -> "Iterator[bytes]":
    """A path, and the directories on the way to it."""
    while path:
        yield path
        path = path.rpartition(b"/")[0]


class Compared:
    """What a comparison of rows with the disk came to."""

    __slots__ = ("changed", "left", "left_count", "next_row")

    def __init__(self) -> None:
        self.changed: "list[bytes]" = []  # paths whose stat is not that of their row
        self.left: "list[bytes]" = []  # some of the paths that were not reached before the deadline
        self.left_count = 0
        self.next_row = 0  # the first row that was not reached


def compare_all(
    entries: "Entries", cache: "StatCache", *, deadline: "float | None", may_fork: bool
) -> Compared:
    """Compare all rows of a cache with the stats of their paths, from the cache's `next_row` on.

    Args: may_fork: as in `worktree.capture`. Raises: Unusable.
    """
    ranges, first = _from_row(list(cache.row_ranges()), cache.next_row)
    count = _processes(sum(part.count for part in ranges)) if may_fork else 1
    # Every n-th part each: so all come equally far where the time does not suffice.
    shares = [ranges[number::count] for number in range(count)]
    compared = Compared()
    children: "list[_Child]" = []
    try:
        for share in shares[1:]:
            try:
                children.append(_Child(entries, cache, share, deadline))
            except OSError:
                break  # no more processes or descriptors: the parent does the rest
        reached = [0] * count
        for number, share in enumerate(shares):
            answer = children[number - 1].take() if 0 < number <= len(children) else None
            if answer is None:
                answer = _compare(entries, share, deadline)
            reached[number] = answer[0]
            compared.changed += answer[1]
    finally:
        for child in children:
            child.end()
    _note_left(compared, ranges, shares, reached, first)
    return compared


def _from_row(ranges: "list[RowRange]", row: int) -> "tuple[list[RowRange], int]":
    """The ranges in the order in which they are read, and the first row of the first."""
    first = 0
    for number, part in enumerate(ranges) if row else ():
        if first + part.count > row:
            return ranges[number:] + ranges[:number], first
        first += part.count
    return ranges, 0


def _note_left(
    compared: Compared,
    ranges: "list[RowRange]",
    shares: "list[list[RowRange]]",
    reached: "list[int]",
    first: int,
) -> None:
    """Note what was not reached: the shares' ranges from these numbers on."""
    left = {id(part) for share, end in zip(shares, reached, strict=True) for part in share[end:]}
    if not left:
        return
    total, row = sum(part.count for part in ranges), first
    for part in ranges:
        if id(part) in left:
            if not compared.left_count:
                compared.next_row = row % total
            compared.left_count += part.count
            if len(compared.left) < PENDING_SHOWN:
                compared.left += part.read()[0][: PENDING_SHOWN - len(compared.left)]
        row += part.count


def _compare(
    entries: "Entries", ranges: "Sequence[RowRange]", deadline: "float | None"
) -> "tuple[int, list[bytes]]":
    """How many ranges were compared whole before the deadline, and the paths whose stat differs."""
    changed: "list[bytes]" = []
    for number, part in enumerate(ranges):
        paths, stats = part.read()
        fresh = _stat_paths(entries, paths, deadline)
        if len(fresh) < len(stats):
            return number, changed
        if fresh != stats:
            changed += _differing(paths, stats, fresh)
    return len(ranges), changed


def _differing(paths: "list[bytes]", stats: bytes, fresh: bytes) -> "Iterator[bytes]":
    for path, offset in zip(paths, range(0, len(stats), STAT_SIZE), strict=True):
        if stats[offset : offset + STAT_SIZE] != fresh[offset : offset + STAT_SIZE]:
            yield path


def _processes(rows: int) -> int:
    """How many processes are worth their start; one where a fork may not be harmless."""
    count = min(rows // _ROWS_MIN, _PROCESSES_MAX)
    if count < 2:
        return 1
    try:
        if os.stat("/proc/self/task").st_nlink != _LINKS_OF_ONE_THREAD:
            return 1
        return max(1, min(count, len(os.sched_getaffinity(0))))
    except (OSError, AttributeError):
        return 1  # no Linux


def _stat_paths(entries: "Entries", paths: "Sequence[bytes]", deadline: "float | None") -> bytes:
    """The stat of each path, until the deadline."""
    fresh: "list[bytes]" = []
    index = 0
    while index < len(paths) and not is_late(deadline):
        stride = paths[index : index + _STRIDE]
        stats = _stat_stride(entries.dir(b""), stride)
        if len(stats) < len(stride):
            stats.append(_stat_deep(entries, stride[len(stats)]))
        fresh += stats
        index += len(stats)
    return b"".join(fresh)


def _stat_stride(root: int, paths: "Sequence[bytes]") -> "list[bytes]":
    """The stat of each path up to one that is too long for a call."""
    lstat, pack = os.lstat, pack_fields
    fresh: "list[bytes]" = []
    # The one loop whose length is that of the working directory: no call but the system's.
    for path in paths:
        try:
            file_stat = lstat(path, dir_fd=root)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                break
            fresh.append(MISSING)
            continue
        fresh.append(
            pack(
                file_stat.st_mode,
                file_stat.st_ino,
                file_stat.st_size,
                file_stat.st_mtime_ns,
                file_stat.st_ctime_ns,
            )
        )
    return fresh


def _stat_deep(entries: "Entries", path: bytes) -> bytes:
    try:
        directory, _, name = path.rpartition(b"/")
        return pack_stat(entries.lstat(directory, name))
    except OSError:
        return MISSING


class TooLate(Exception):
    """There is no time to read what git tracks."""


def is_late(deadline: "float | None") -> bool:
    """Whether a deadline, in monotonic time, has passed."""
    return deadline is not None and time.monotonic() >= deadline


class _Child:
    """A process that compares a share. Raises: OSError when it cannot be started."""

    def __init__(
        self, entries: "Entries", cache: "StatCache", share: "list[RowRange]", deadline: "float | None"
    ) -> None:
        self._deadline = deadline
        self._ended = False
        self._read_end, write_end = os.pipe()
        parent = os.getpid()
        try:
            self._pid = os.fork()
            if self._pid == 0:
                file = None if cache.base is None else cache.base.file
                open_fds = [entries.dir(b""), write_end, *(() if file is None else (file.fd,))]
                _answer(entries, open_fds, write_end, share, deadline)
        except OSError:
            os.close(self._read_end)
            raise
        finally:
            if os.getpid() != parent:
                os._exit(0)  # whatever happened: a child never goes on in its parent's place
            os.close(write_end)

    def take(self) -> "tuple[int, list[bytes]] | None":
        """What `_compare` came to there; None where it was not sent whole."""
        answer = b""
        while part := self._read():
            answer += part
        if len(answer) < _ANSWER.size:
            return None
        reached, count, size = _ANSWER.unpack_from(answer)
        paths = answer[_ANSWER.size :]
        return (reached, paths.split(b"\0") if count else []) if len(paths) == size else None

    def end(self) -> None:
        """Close the pipe without waiting for its end: one that hangs holds nothing, and ends with its
        parent."""
        os.close(self._read_end)
        try:
            if not self._ended:
                os.kill(self._pid, _SIGKILL)
            os.waitpid(self._pid, os.WNOHANG)
        except OSError:
            pass  # somebody else has waited for it

    def _read(self) -> bytes:
        if self._deadline is not None:
            import select

            poll = select.poll()
            poll.register(self._read_end, select.POLLIN)
            if not poll.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
                return b""
        part = os.read(self._read_end, 1 << 20)
        self._ended = not part
        return part


def _answer(
    entries: "Entries",
    open_fds: "list[int]",
    write_end: int,
    share: "list[RowRange]",
    deadline: "float | None",
) -> None:
    """The work of a child. It keeps no lock, and no pipe that an agent reads, beyond its parent."""
    low = 0
    for fd in [*sorted(open_fds), _DESCRIPTORS_MAX]:
        os.closerange(low, fd)
        low = fd + 1
    end_s = None if deadline is None else deadline - _TELLING_S
    reached, changed = _compare(entries, share, end_s)
    paths = b"\0".join(changed)
    # All at once: nobody reads it before the parent has done its part.
    view = memoryview(_ANSWER.pack(reached, len(changed), len(paths)) + paths)
    while view:
        view = view[os.write(write_end, view) :]
    os.close(write_end)  # the end of a process takes half a millisecond
