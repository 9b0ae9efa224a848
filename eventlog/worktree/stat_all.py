"""The present stats of all known paths of a working directory, which take nearly all the time of a capture.

Each path costs one `lstat`, mostly within the kernel, so only more processors make it faster. Threads do not:
they wait for one another between any two calls. With `may_fork`, children stat a part each and send the stats
through a pipe. A child makes no other call and keeps only two descriptors of its parent. Nothing depends on
it: the parent stats what it did not send in time. On the hook path.
"""

import errno
import os
import time

from eventlog.worktree.statcache import MISSING, STAT_SIZE, pack_fields, pack_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.worktree.entries import Entries

# Paths between two readings of the clock: about a millisecond.
_STRIDE = 256
# A child costs its parent a millisecond, and this many paths take five.
_ROWS_MIN = 2_000
_PROCESSES_MAX = 4
_DESCRIPTORS_MAX = 1024
# Seconds before the deadline at which a child stops, so that its stats are not lost.
_TELLING_S = 0.005
_SIGKILL = 9
# Entries of /proc/self/task: `.`, `..`, and the one thread that makes a fork harmless.
_LINKS_OF_ONE_THREAD = 3


def stat_all(
    entries: "Entries", paths: "Sequence[bytes]", *, deadline: "float | None", may_fork: bool
) -> "list[tuple[int, bytes]]":
    """[(first row, stats from there on)], one for each part; a part is short when the deadline passed.

    Args: may_fork: as in `worktree.capture`.
    """
    count = _processes(len(paths)) if may_fork else 1
    size = -(-len(paths) // count)
    parts = [(start, paths[start : start + size]) for start in range(0, len(paths), size)]
    children: "list[_Child]" = []
    try:
        for _, part in parts[1:]:
            try:
                children.append(_Child(entries.dir(b""), part, deadline))
            except OSError:
                break  # no more processes or descriptors: the parent does the rest
        results = []
        for number, (start, part) in enumerate(parts):
            answer = children[number - 1].take() if 0 < number <= len(children) else b""
            rest = part[len(answer) // STAT_SIZE :]
            results.append((start, answer + (_stat_paths(entries, rest, deadline) if rest else b"")))
        return results
    finally:
        for child in children:
            child.end()


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
    """A process that stats paths. Raises: OSError when it cannot be started."""

    def __init__(self, root: int, paths: "Sequence[bytes]", deadline: "float | None") -> None:
        self._deadline = deadline
        self._ended = False
        self._read_end, write_end = os.pipe()
        parent = os.getpid()
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _answer(root, write_end, paths, deadline)
        except OSError:
            os.close(self._read_end)
            raise
        finally:
            if os.getpid() != parent:
                os._exit(0)  # whatever happened: a child never goes on in its parent's place
            os.close(write_end)

    def take(self) -> bytes:
        """The stats that it has sent: of its first paths, or of all."""
        answer = b""
        while part := self._read():
            answer += part
        return answer[: len(answer) // STAT_SIZE * STAT_SIZE]

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


def _answer(root: int, write_end: int, paths: "Sequence[bytes]", deadline: "float | None") -> None:
    """The work of a child. It keeps no lock, and no pipe that an agent reads, beyond its parent."""
    low, high = sorted((root, write_end))
    os.closerange(0, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, _DESCRIPTORS_MAX)
    end_s = None if deadline is None else deadline - _TELLING_S
    fresh: "list[bytes]" = []
    for start in range(0, len(paths), _STRIDE):
        stride = paths[start : start + _STRIDE]
        stats = [] if is_late(end_s) else _stat_stride(root, stride)
        fresh += stats
        if len(stats) < len(stride):
            break
    # All at once: a pipe holds less than this, and nobody reads it before the parent has done its part.
    view = memoryview(b"".join(fresh))
    while view:
        view = view[os.write(write_end, view) :]
    os.close(write_end)  # the end of a process takes half a millisecond
