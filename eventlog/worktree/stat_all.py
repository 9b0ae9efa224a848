"""The stats of all known paths of a working directory as they are now: nearly all the time a capture takes.

One `lstat` for each path, and most of it is the kernel's, so only more processors make it shorter. Threads
do not: they wait for one another between any two calls. With `may_fork` children look at a part each and
say through a pipe what they saw. A child makes no other call, keeps no descriptor of its parent but two,
and nothing rests on it: what it did not say in time is looked at here. On the hook path.
"""

import errno
import os
import time

from eventlog.worktree.statcache import MISSING, STAT_SIZE, pack_fields, pack_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.worktree.entries import Entries

# How many paths are looked at between two looks at the clock: about a millisecond.
_STRIDE = 256
# A child costs its parent a millisecond, and looking at this many paths takes five.
_ROWS_MIN = 2_000
_PROCESSES_MAX = 4
_DESCRIPTORS_MAX = 1024
# How long before the deadline a child ends its look, so that what it saw is not lost.
_TELLING_S = 0.005
_SIGKILL = 9
# Entries of /proc/self/task: `.`, `..`, and the one thread that makes a fork harmless.
_LINKS_OF_ONE_THREAD = 3


def look_at_all(
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
                break  # no more processes or descriptors: the rest is looked at here
        found = []
        for number, (start, part) in enumerate(parts):
            said = children[number - 1].take() if 0 < number <= len(children) else b""
            rest = part[len(said) // STAT_SIZE :]
            found.append((start, said + (_look(entries, rest, deadline) if rest else b"")))
        return found
    finally:
        for child in children:
            child.end()


def _processes(rows: int) -> int:
    """How many processes are worth their start; one where a fork may not be harmless."""
    wanted = min(rows // _ROWS_MIN, _PROCESSES_MAX)
    if wanted < 2:
        return 1
    try:
        if os.stat("/proc/self/task").st_nlink != _LINKS_OF_ONE_THREAD:
            return 1
        return max(1, min(wanted, len(os.sched_getaffinity(0))))
    except (OSError, AttributeError):
        return 1  # no Linux


def _look(entries: "Entries", paths: "Sequence[bytes]", deadline: "float | None") -> bytes:
    """The stat of each path, until the deadline."""
    fresh: "list[bytes]" = []
    at = 0
    while at < len(paths) and not _late(deadline):
        stride = paths[at : at + _STRIDE]
        done = _look_at(entries.dir(b""), stride)
        if len(done) < len(stride):
            done.append(_look_deep(entries, stride[len(done)]))
        fresh += done
        at += len(done)
    return b"".join(fresh)


def _look_at(root: int, paths: "Sequence[bytes]") -> "list[bytes]":
    """The stat of each path up to one that is too long for a call."""
    lstat, pack = os.lstat, pack_fields
    fresh: "list[bytes]" = []
    # The one loop whose length is that of the working directory: no call but the system's.
    for path in paths:
        try:
            found = lstat(path, dir_fd=root)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                break
            fresh.append(MISSING)
            continue
        fresh.append(pack(found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    return fresh


def _look_deep(entries: "Entries", path: bytes) -> bytes:
    try:
        directory, _, name = path.rpartition(b"/")
        return pack_stat(entries.lstat(directory, name))
    except OSError:
        return MISSING


def _late(deadline: "float | None") -> bool:
    return deadline is not None and time.monotonic() >= deadline


class _Child:
    """A process that looks at paths. Raises: OSError when there can be none."""

    def __init__(self, root: int, paths: "Sequence[bytes]", deadline: "float | None") -> None:
        self._deadline = deadline
        self._ended = False
        self._out, into = os.pipe()
        parent = os.getpid()
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _answer(root, into, paths, deadline)
        except OSError:
            os.close(self._out)
            raise
        finally:
            if os.getpid() != parent:
                os._exit(0)  # whatever happened: a child never goes on in its parent's place
            os.close(into)

    def take(self) -> bytes:
        """The stats that it has seen: of its first paths, or all."""
        said = b""
        while part := self._read():
            said += part
        return said[: len(said) // STAT_SIZE * STAT_SIZE]

    def end(self) -> None:
        """Nobody waits for its end: one that hangs holds nothing, and what is left goes with its parent."""
        os.close(self._out)
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
            poll.register(self._out, select.POLLIN)
            if not poll.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
                return b""
        part = os.read(self._out, 1 << 20)
        self._ended = not part
        return part


def _answer(root: int, into: int, paths: "Sequence[bytes]", deadline: "float | None") -> None:
    """The work of a child. It keeps no lock, and no pipe that an agent reads, beyond its parent."""
    low, high = sorted((root, into))
    os.closerange(0, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, _DESCRIPTORS_MAX)
    soon = None if deadline is None else deadline - _TELLING_S
    fresh: "list[bytes]" = []
    for at in range(0, len(paths), _STRIDE):
        stride = paths[at : at + _STRIDE]
        done = [] if _late(soon) else _look_at(root, stride)
        fresh += done
        if len(done) < len(stride):
            break
    # All at once: a pipe holds less than this, and nobody reads it before the parent has done its part.
    view = memoryview(b"".join(fresh))
    while view:
        view = view[os.write(into, view) :]
    os.close(into)  # the end of a process takes half a millisecond
