"""The one seam between Locus and the machine: files, locks, time, randomness, boot id.

Everything that touches the disk takes a `FileSystem`, so that tests can put a simulated one in its
place which loses un-synced bytes and names at a crash (`tests/simfs.py`). Pure codecs do not import
this module. The hook path imports it, so it imports nothing heavy.

Rules that callers rely on:
- a name made by `link`, `rename`, `create` or `unlink` is durable only after `fsync_dir` of its parent;
- bytes are durable only after `fsync` or `fdatasync` of their descriptor returned;
- `link` fails with FileExistsError when the target exists: the compare-and-set of this project;
- `flock` locks belong to the descriptor and are dropped by the kernel when the process dies.

OSErrors pass through unchanged, with the path in `filename`; callers translate them where they know
what the failure means, and the entry points of the rooms by `translate_os_errors` where no caller did.
"""

import errno
import fcntl
import os
import time

from blake3 import blake3

from eventlog.base.errors import EventLogError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

_FICLONE = 0x40049409
_HASHED_AT_ONCE = 4 << 20
_F_FULLFSYNC = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache


class FileSystem:
    """The real machine. Every method is one system call or a short, restartable loop of one."""

    # -- descriptors ---------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        """Open `path` unless it is a link: nobody can redirect a file by replacing it. O_CLOEXEC is always
        added so that no child inherits a lock."""
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)

    def close(self, fd: int) -> None:
        """Give the descriptor back. Reports no error: it is gone whatever the kernel answers, and what must
        last was synced before."""
        try:
            os.close(fd)
        except OSError as error:
            if error.errno == errno.EBADF:  # not a failure of the disk but a mistake of ours
                raise

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read up to `size` bytes at `offset`; shorter only at the end of the file."""
        data = os.pread(fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size:
            data = os.pread(fd, size - got, offset + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwrite(self, fd: int, data: "bytes | memoryview", offset: int) -> int:
        """One write at `offset`. May write less than all of it: the caller checks the count."""
        return os.pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        if _F_FULLFSYNC is not None:
            fcntl.fcntl(fd, _F_FULLFSYNC)
        else:
            os.fsync(fd)

    def fdatasync(self, fd: int) -> None:
        if _F_FULLFSYNC is not None:
            fcntl.fcntl(fd, _F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def fchmod(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def clone(self, source: int, copy: int) -> None:
        """Let one file share the blocks of another, as they are now; OSError where that cannot be."""
        fcntl.ioctl(copy, _FICLONE, source)

    def copy_range(self, source: int, copy: int, size: int, offset: int) -> int:
        """Copy bytes at `offset` within the kernel, to the same place; how many, 0 at the end of the file."""
        if not hasattr(os, "copy_file_range"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        return os.copy_file_range(source, copy, size, offset, offset)

    # -- names ---------------------------------------------------------------------------------

    def stat(self, path: str) -> os.stat_result:
        return os.stat(path)

    def lstat(self, path: str) -> os.stat_result:
        return os.lstat(path)

    def exists(self, path: str) -> bool:
        """Whether the name exists, a dangling symlink included; no exception is made on the way."""
        return os.access(path, os.F_OK, follow_symlinks=False)

    def listdir(self, path: str) -> "list[str]":
        """Names in a directory, sorted, so that every run sees the same order."""
        return sorted(os.listdir(path))

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        os.mkdir(path, mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def link(self, source: str, target: str) -> None:
        """Give the file a second name; FileExistsError when `target` exists."""
        os.link(source, target, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """Move a name, silently replacing `target`: never used to commit."""
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    # -- locks ---------------------------------------------------------------------------------

    def flock(self, fd: int, exclusive: bool) -> bool:
        """Try to lock `fd` without waiting; False when another descriptor holds it."""
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def funlock(self, fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    # -- time, randomness, boot ----------------------------------------------------------------

    def time_ns(self) -> int:
        """Wall clock, nanoseconds since 1970 UTC."""
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def random_bytes(self, size: int) -> bytes:
        return os.urandom(size)

    def boot_id(self) -> bytes:
        """Bytes that change with every boot of the kernel.

        Where the kernel offers no boot id, the boot time rounded to ten seconds stands in for it:
        when the clock is adjusted this may change without a boot, which only costs a rotation.
        """
        try:
            with open("/proc/sys/kernel/random/boot_id", "rb") as file:
                return file.read().strip()
        except OSError:
            booted_s = time.time() - time.monotonic()
            return b"boot-time:%d" % round(booted_s / 10)


REAL = FileSystem()


class Detaching(FileSystem):
    """The real machine for a program that somebody waits for, and that does not report what it has done.

    Before its first sync, and before a sleep past `until_s` (monotonic time), the process forks. The child
    goes on with all that is left, in a session of its own and without the caller's files: no signal ends a
    sync, so the process that somebody waits for must not make it. That process calls `leave`, which does
    what its caller needs, waits for the child with `wait`, and ends it at once: what the two share, locks
    above all, is the child's. Where no process can be made, this one goes on.
    """

    _POLL_S = 0.001

    def __init__(self, until_s: float, leave: "Callable[[], NoReturn]") -> None:
        self._until_s = until_s
        self._leave = leave
        self._forked = False
        self._child = 0
        self.is_detached = False  # this process is the child

    def fsync(self, fd: int) -> None:
        self._detach()
        super().fsync(fd)

    def fdatasync(self, fd: int) -> None:
        self._detach()
        super().fdatasync(fd)

    def fsync_dir(self, path: str) -> None:
        self._detach()
        super().fsync_dir(path)

    def sleep(self, seconds: float) -> None:
        if self.monotonic() + seconds > self._until_s:
            self._detach()
        super().sleep(seconds)

    def _detach(self) -> None:
        if self._forked:
            return
        self._forked = True
        import _signal  # type: ignore[import-not-found]  # as small as a hook needs it

        # No exception comes between the fork and what each of the two does next; a child has no timer.
        timer = _signal.setitimer(_signal.ITIMER_REAL, 0)
        try:
            self._child = os.fork()
        except OSError:
            _signal.setitimer(_signal.ITIMER_REAL, *timer)
            return
        if self._child == 0:
            self.is_detached = True
            _leave_caller()
            return
        try:
            _signal.setitimer(_signal.ITIMER_REAL, *timer)
        finally:
            self._leave()

    def wait(self) -> None:
        """Wait for the child until `until_s`; the process ends after that."""
        import _signal

        _signal.setitimer(_signal.ITIMER_REAL, 0)
        while not os.waitpid(self._child, os.WNOHANG)[0] and self.monotonic() < self._until_s:
            super().sleep(self._POLL_S)


def _leave_caller() -> None:
    """Have nothing in common with the process that started this one: no session, no terminal, no pipe."""
    os.setsid()
    os.closerange(0, 3)
    try:
        null = os.open(os.devnull, os.O_RDWR)  # in the place of the first: there may be no more descriptors
    except OSError:
        return
    for fd in (1, 2):
        os.dup2(null, fd)


_ADVICE = {
    errno.EACCES: "restore the permission",
    errno.EPERM: "restore the permission",
    errno.EROFS: "the file system is read-only; make it writable",
    errno.ENOSPC: "free space on the disk",
    errno.EDQUOT: "free space, or raise the quota",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`)",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.ENFILE: "close other programs",
    errno.EIO: "check the disk",
    errno.ENAMETOOLONG: "choose a shorter path",
    errno.ELOOP: "there is a link in place of a file; see who put it there, and move it away",
}


def store_error(
    error: OSError, path: str, doing: str, kind: "type[EventLogError]" = EventLogError
) -> EventLogError:
    """An OSError as one of our errors: where, what could not be done and why, what to do next.

    Args: path: what to name when the error does not know; doing: as in "cannot read the log".
    """
    where = error.filename or path
    if isinstance(where, bytes):
        where = os.fsdecode(where)
    advice = _ADVICE.get(error.errno or 0)
    then = f"{advice}, then try again" if advice else "try again"
    return kind(f"{where}: cannot {doing}: {error.strerror or error}. Nothing acknowledged is lost; {then}.")


class translate_os_errors:
    """A context manager: an OSError that leaves it becomes one of our errors (see `store_error`)."""

    __slots__ = ("_doing", "_kind", "_path")

    def __init__(self, path: str, doing: str, kind: "type[EventLogError]" = EventLogError) -> None:
        self._path = path
        self._doing = doing
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: "BaseException | None", trace: object) -> None:
        if isinstance(error, OSError):
            raise store_error(error, self._path, self._doing, self._kind) from error


class opened:
    """A context manager: the descriptor of an open file, which is closed when the block ends."""

    __slots__ = ("_fd", "_fs")

    def __init__(self, fs: FileSystem, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> None:
        self._fs = fs
        self._fd = fs.open(path, flags, mode)

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *exc: object) -> None:
        self._fs.close(self._fd)


def hash_file(fs: FileSystem, path: str) -> str:
    """The BLAKE3 of the whole file, as hex digits."""
    with opened(fs, path) as fd:
        return hash_open(fs, fd)


def hash_open(fs: FileSystem, fd: int) -> str:
    """`hash_file` of an open file."""
    hasher = blake3()
    offset = 0
    while piece := fs.pread(fd, _HASHED_AT_ONCE, offset):
        hasher.update(piece)
        offset += len(piece)
    return hasher.hexdigest()


def read_file(fs: FileSystem, path: str, size_max: "int | None" = None) -> bytes:
    """The whole file; ValueError when it is larger than `size_max`."""
    with opened(fs, path) as fd:
        size = fs.fstat(fd).st_size
        if size_max is not None and size > size_max:
            raise ValueError(f"{path} is {size} bytes, more than the {size_max} allowed")
        return fs.pread(fd, size, 0)


def count_files(fs: FileSystem, directory: str, prefix: str = "") -> "tuple[int, int]":
    """How many files a directory holds whose names begin so, and their bytes; those that go meanwhile
    excluded. None where it is missing."""
    sizes = []
    with translate_os_errors(directory, "count its files"):
        for name in fs.listdir(directory) if fs.exists(directory) else ():
            try:
                sizes += [fs.stat(f"{directory}/{name}").st_size] if name.startswith(prefix) else []
            except FileNotFoundError:
                continue
    return len(sizes), sum(sizes)


def write_all(fs: FileSystem, fd: int, data: bytes, offset: int = 0) -> None:
    """Write all of `data`, in as many writes as the kernel wants; OSError when it takes no more."""
    view = memoryview(data)
    while view:
        written = fs.pwrite(fd, view, offset)
        if written <= 0:
            raise OSError(28, "the disk took no more bytes")
        view = view[written:]
        offset += written


def publish(fs: FileSystem, tmp_path: str, target: str, data: bytes) -> None:
    """Write `data` under `tmp_path`, sync it, link it to `target`, sync the directory, drop the tmp name.

    Raises FileExistsError, with nothing changed, when `target` exists. This is the only way an
    immutable file gets its name. A crash leaves at most a file in `tmp/`.
    """
    fd = fs.open(tmp_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            write_all(fs, fd, data)
            fs.fsync(fd)
        finally:
            fs.close(fd)
        fs.link(tmp_path, target)
        fs.fsync_dir(os.path.dirname(target))
    finally:
        try:
            fs.unlink(tmp_path)
        except OSError:
            pass  # a leftover in `tmp/` does no harm, and must not hide the outcome of the rest


def replace(fs: FileSystem, tmp_path: str, target: str, data: bytes, *, synced: bool = True) -> None:
    """Write `data` under `tmp_path`, sync it, and rename it to `target`, durably: for files that may change.

    Args: synced: False for what is derived, and made again where a power cut took it.
    Raises: OSError; then a part of it may be left under `tmp_path`.
    """
    with opened(fs, tmp_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
        write_all(fs, fd, data)
        if synced:
            fs.fsync(fd)
    fs.rename(tmp_path, target)
    directory = os.path.dirname(target)
    if synced:
        fs.fsync_dir(directory)


def walk_names(fs: FileSystem, root: str) -> "Iterator[str]":
    """Every regular file below `root`, as paths relative to it, in sorted order."""
    for name in fs.listdir(root):
        path = f"{root}/{name}"
        if fs.lstat(path).st_mode & 0o170000 == 0o040000:
            for below in walk_names(fs, path):
                yield f"{name}/{below}"
        else:
            yield name
