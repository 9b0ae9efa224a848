"""The store's locks, their order, and their deadlines.

Order: context → publish → export → restore → worktree → gc → compact → maintain → append → search. Each
working directory has a lock `worktree-…` of its own, by which the captures of hooks follow one another, and
each service that receives exports has `export-…`; nobody holds two of either. A process never asks for a lock
that comes before one it holds; the assert below is invariant I31. `flock` belongs to the open file, so
sharing a file is sharing the lock: each acquisition opens its own descriptor, and a `KeptLock`, which keeps
one, excludes the threads of its process by a mutex and closes it in a forked child. The kernel frees a lock
when its holder dies, so there are no stale locks. The hook path imports this module.
"""

import os
from _thread import TIMEOUT_MAX, _local, allocate_lock, get_ident
from _weakref import ref

from eventlog.base.errors import LockTimeout
from eventlog.base.fs import FileSystem, translate_os_errors
from eventlog.base.layout import Layout

RESTORE, GC, COMPACT, MAINTAIN, APPEND = "restore", "gc", "compact", "maintain", "append"
SEARCH = "search"
CONTEXT, PUBLISH = "context", "publish"
WORKTREE = "worktree-"  # and a name for the directory
EXPORT = "export-"  # and a name for the service
_ORDER = {
    CONTEXT: 0, PUBLISH: 1, "export": 2, RESTORE: 3, "worktree": 4, GC: 5, COMPACT: 6, MAINTAIN: 7, APPEND: 8,
    SEARCH: 9,
}  # fmt: skip

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


class KeptLock:
    """A lock that its owner takes again and again; its descriptor stays open in between.

    Threads may share it. A child made by `os.fork` starts without the descriptor: it may go on using
    the object, and does not hold the lock after its parent is killed. If the thread that forks holds the
    lock, or waits for it, both processes have it: one of them must end at once (`fs.Detaching`).
    """

    __slots__ = ("__weakref__", "_exclusive", "_fd", "_fs", "_mutex", "_name", "_path", "_thread")

    def __init__(self, fs: FileSystem, layout: Layout, name: str, *, exclusive: bool = True) -> None:
        self._fs = fs
        self._name = name
        self._exclusive = exclusive
        self._path = layout.lock(name)
        self._fd = -1
        self._mutex = allocate_lock()
        self._thread = 0  # the one that holds the mutex
        _kept_locks.add(ref(self, _kept_locks.discard))

    def acquire(self, timeout_s: float) -> None:
        """Take the lock, waiting at most `timeout_s`. Raises: LockTimeout."""
        names = _names_before(self._name)
        if not self._mutex.acquire(False):
            timeout_s = self._wait_for_thread(timeout_s)
        self._thread = get_ident()
        try:
            if self._fd < 0:
                self._open()
            if not self._fs.flock(self._fd, self._exclusive):
                _wait(self._fs, self._fd, self._path, self._exclusive, timeout_s)
        except BaseException:
            self._drop()
            self._free_mutex()
            raise
        names.append(self._name)

    def renew(self, timeout_s: float) -> None:
        """While the lock is held: make sure that it belongs to the file that has its name now.

        Nobody deletes the file, but a whole store may be moved away and put back while it is in use.
        Raises: LockTimeout, with the lock still held, to be released like any other.
        """
        held = self._fs.fstat(self._fd)
        try:
            current = self._fs.stat(self._path)
        except FileNotFoundError:
            current = None
        if current is None or (current.st_ino, current.st_dev) != (held.st_ino, held.st_dev):
            self._drop()
            self._open()
            if not self._fs.flock(self._fd, self._exclusive):
                _wait(self._fs, self._fd, self._path, self._exclusive, timeout_s)

    def release(self) -> None:
        """Give the held lock back."""
        _held.names.remove(self._name)
        try:
            self._fs.funlock(self._fd)
        except OSError:
            self._drop()  # which frees it too
        finally:
            self._free_mutex()

    def close(self) -> None:
        """Give the descriptor back, unless a thread is using it; the next `acquire` opens it again."""
        if self._mutex.acquire(False):
            self._drop()
            self._mutex.release()

    def _free_mutex(self) -> None:
        self._thread = 0
        self._mutex.release()

    def _open(self) -> None:
        self._fd = self._fs.open(self._path, os.O_RDWR | os.O_CREAT)

    def _drop(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                self._fs.close(fd)
            except OSError:
                pass  # as in `Lock.release`

    def _wait_for_thread(self, timeout_s: float) -> float:
        """Take the mutex; the answer is the time that is left."""
        started = self._fs.monotonic()
        if not self._mutex.acquire(True, min(max(timeout_s, 0.0), TIMEOUT_MAX)):
            raise _timeout(self._path, timeout_s)
        return timeout_s - (self._fs.monotonic() - started)

    def _after_fork(self) -> None:
        self._mutex = allocate_lock()  # a thread that is not in this process may have held it
        if self._thread == get_ident():
            self._mutex.acquire()
        else:
            self._drop()


_kept_locks: "set[ref[KeptLock]]" = set()


def _after_fork() -> None:
    for reference in list(_kept_locks):
        lock = reference()
        if lock is None:
            continue
        try:
            lock._after_fork()
        except BaseException:  # whatever a caller's file system raises: the other locks must be closed too
            continue


os.register_at_fork(after_in_child=_after_fork)


def acquire(
    fs: FileSystem, layout: Layout, name: str, *, exclusive: bool = True, timeout_s: float = 10.0
) -> Lock:
    """Take the lock `name` (RESTORE, GC, …, or WORKTREE or EXPORT and a name), waiting at most `timeout_s`.

    Raises: LockTimeout.
    """
    names = _names_before(name)
    path = layout.lock(name)
    with translate_os_errors(path, "take this lock"):
        fd = fs.open(path, os.O_RDWR | os.O_CREAT)
        try:
            if not fs.flock(fd, exclusive):
                _wait(fs, fd, path, exclusive, timeout_s)
        except BaseException:
            fs.close(fd)
            raise
    names.append(name)
    return Lock(fs, fd, name)


def try_acquire(fs: FileSystem, layout: Layout, name: str) -> "Lock | None":
    """Take the lock if nobody holds it, else None."""
    try:
        return acquire(fs, layout, name, timeout_s=0.0)
    except LockTimeout:
        return None


def may_take(name: str) -> bool:
    """Whether this thread holds neither the lock nor one that comes after it."""
    return all(_rank(held) < _rank(name) for held in getattr(_held, "names", ()))


def _names_before(name: str) -> "list[str]":
    """The locks that this thread holds, of which each must come before `name`."""
    try:
        names: "list[str]" = _held.names
    except AttributeError:
        names = _held.names = []
    assert not names or all(_rank(held) < _rank(name) for held in names), (name, names)
    return names


def _rank(name: str) -> int:
    return _ORDER[name.partition("-")[0]]


def _wait(fs: FileSystem, fd: int, path: str, exclusive: bool, timeout_s: float) -> None:
    deadline = fs.monotonic() + timeout_s
    wait_s = _WAIT_FIRST_S
    while fs.monotonic() < deadline:
        fs.sleep(wait_s)
        if fs.flock(fd, exclusive):
            return
        wait_s = min(wait_s * 2, _WAIT_LAST_S)
    raise _timeout(path, timeout_s)


def _timeout(path: str, timeout_s: float) -> LockTimeout:
    return LockTimeout(
        f"{path}: another process holds this lock; gave up after {timeout_s:g} s. "
        "Nothing was changed; try again."
    )
