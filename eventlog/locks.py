"""The store's three locks, their order, and their deadlines.

Order: gc → maintain → append. A process never asks for a lock that comes before one it holds; the
assert below is invariant I31. Each acquisition opens its own descriptor, because `flock` belongs to
the descriptor and a shared one would let two holders in. The kernel frees a lock when its holder
dies, so there are no stale locks. The hook path imports this module.
"""

import os
from _thread import _local

from eventlog.errors import LockTimeout
from eventlog.fs import FileSystem
from eventlog.layout import Layout

GC, MAINTAIN, APPEND = "gc", "maintain", "append"
_ORDER = {GC: 0, MAINTAIN: 1, APPEND: 2}

# The append lock is held for some tens of microseconds, so the first waits are short; a maintenance
# lock may be held for seconds, so the waits grow to a value that costs nothing to poll.
_WAIT_FIRST_S = 0.00005
_WAIT_LAST_S = 0.005

_held = _local()


class Lock:
    """One held lock; a context manager that releases it."""

    __slots__ = ("_fd", "_fs", "_name")

    def __init__(self, fs: FileSystem, fd: int, name: str) -> None:
        self._fs = fs
        self._fd = fd
        self._name = name

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        _held.names.remove(self._name)
        # Closing alone would leave the lock with a child that was forked since: it shares the open file.
        for free in (self._fs.funlock, self._fs.close):
            try:
                free(fd)
            except OSError:
                pass  # the descriptor is gone all the same, its lock with it, and the file holds no data


def acquire(
    fs: FileSystem, layout: Layout, name: str, *, exclusive: bool = True, timeout_s: float = 10.0
) -> Lock:
    """Take the lock `name` (GC, MAINTAIN or APPEND), waiting at most `timeout_s`.

    Raises: LockTimeout.
    """
    if not hasattr(_held, "names"):
        _held.names = []
    assert all(_ORDER[held] < _ORDER[name] for held in _held.names), (name, _held.names)
    path = layout.lock(name)
    fd = fs.open(path, os.O_RDWR | os.O_CREAT)
    try:
        if not fs.flock(fd, exclusive):
            _wait(fs, fd, path, exclusive, timeout_s)
    except BaseException:
        fs.close(fd)
        raise
    _held.names.append(name)
    return Lock(fs, fd, name)


def try_acquire(fs: FileSystem, layout: Layout, name: str, *, exclusive: bool = True) -> "Lock | None":
    """Take the lock if nobody holds it, else None."""
    try:
        return acquire(fs, layout, name, exclusive=exclusive, timeout_s=0.0)
    except LockTimeout:
        return None


def _wait(fs: FileSystem, fd: int, path: str, exclusive: bool, timeout_s: float) -> None:
    deadline = fs.monotonic() + timeout_s
    wait_s = _WAIT_FIRST_S
    while fs.monotonic() < deadline:
        fs.sleep(wait_s)
        if fs.flock(fd, exclusive):
            return
        wait_s = min(wait_s * 2, _WAIT_LAST_S)
    raise LockTimeout(
        f"{path}: another process holds this lock; gave up after {timeout_s:g} s. "
        "Nothing was changed; try again."
    )
