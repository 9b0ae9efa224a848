"""All known paths of a working directory compared with the disk, which takes nearly all the time of a full look.

Each path costs one `lstat`, mostly within the kernel, so only more processors make it faster. Threads do not:
they wait for one another between any two calls. With `may_fork`, children compare a share each and send the
paths that differ through a pipe. A child makes no other call and keeps only three descriptors of its parent.
Nothing depends on it: the parent compares what it did not send in time. On the hook path.
"""

import errno
import os
import time
from struct import Struct

from eventlog.worktree.stored_rows import MISSING, STAT_SIZE, pack_fields, pack_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eventlog.worktree.entries import Entries
    from eventlog.worktree.stored_rows import StatCache, Stretch

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
# Stretches compared, paths that differ, bytes of these
_ANSWER = Struct("<III")
# Entries of /proc/self/task: `.`, `..`, and the one thread that makes a fork harmless.
_LINKS_OF_ONE_THREAD = 3


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
    stretches, first = _from_row(list(cache.stretches()), cache.next_row)
    count = _processes(sum(stretch.count for stretch in stretches)) if may_fork else 1
    # Every n-th stretch each: so all come equally far where the time does not suffice.
    shares = [stretches[number::count] for number in range(count)]
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
    _note_left(compared, stretches, shares, reached, first)
    return compared


def _from_row(stretches: "list[Stretch]", row: int) -> "tuple[list[Stretch], int]":
    """The stretches in the order in which they are read, and the first row of the first."""
    first = 0
    for number, stretch in enumerate(stretches) if row else ():
        if first + stretch.count > row:
            return stretches[number:] + stretches[:number], first
        first += stretch.count
    return stretches, 0


def _note_left(
    compared: Compared,
    stretches: "list[Stretch]",
    shares: "list[list[Stretch]]",
    reached: "list[int]",
    first: int,
) -> None:
    """Note what was not reached: the shares' stretches from these numbers on."""
    left = {id(stretch) for share, end in zip(shares, reached, strict=True) for stretch in share[end:]}
    if not left:
        return
    total, row = sum(stretch.count for stretch in stretches), first
    for stretch in stretches:
        if id(stretch) in left:
            if not compared.left_count:
                compared.next_row = row % total
            compared.left_count += stretch.count
            if len(compared.left) < PENDING_SHOWN:
                compared.left += stretch.read()[0][: PENDING_SHOWN - len(compared.left)]
        row += stretch.count


def _compare(
    entries: "Entries", stretches: "Sequence[Stretch]", deadline: "float | None"
) -> "tuple[int, list[bytes]]":
    """How many stretches were compared whole before the deadline, and the paths whose stat differs."""
    changed: "list[bytes]" = []
    for number, stretch in enumerate(stretches):
        paths, stats = stretch.read()
        fresh = _stat_paths(entries, paths, deadline)
        if len(fresh) < len(stats):
            return number, changed
        if fresh != stats:
            changed += _differing(paths, stats, fresh)
    return len(stretches), changed


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


def is_late(deadline: "float | None") -> bool:
    """Whether a deadline, in monotonic time, has passed."""
    return deadline is not None and time.monotonic() >= deadline


class _Child:
    """A process that compares a share. Raises: OSError when it cannot be started."""

    def __init__(
        self, entries: "Entries", cache: "StatCache", share: "list[Stretch]", deadline: "float | None"
    ) -> None:
        self._deadline = deadline
        self._ended = False
        self._read_end, write_end = os.pipe()
        parent = os.getpid()
        try:
            self._pid = os.fork()
            if self._pid == 0:
                file = None if cache.base is None else cache.base.file
                kept = [entries.dir(b""), write_end, *(() if file is None else (file.fd,))]
                _answer(entries, kept, write_end, share, deadline)
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
    entries: "Entries", kept: "list[int]", write_end: int, share: "list[Stretch]", deadline: "float | None"
) -> None:
    """The work of a child. It keeps no lock, and no pipe that an agent reads, beyond its parent."""
    low = 0
    for fd in [*sorted(kept), _DESCRIPTORS_MAX]:
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
