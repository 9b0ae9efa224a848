"""The system calls that replay and restore make in the user's directories, each below a descriptor.

Not part of `FileSystem`: the store's seam knows paths and crashes, this one knows descriptors, modes and
links, and faults are injected into it separately. Nothing here follows a symlink, or leads into the directory
of a store (I28).
"""

import errno
import os

from eventlog.base.fs import REAL
from eventlog.blobs.tree import is_store_name

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that takes a file's name between the stat and the open must not make us wait for its writer.
_OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HOLD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC if hasattr(os, "O_PATH") else None
# Linux answers the advice that a file is not read again by beginning to write it out.
_BEGINS = os.POSIX_FADV_DONTNEED if hasattr(os, "posix_fadvise") else None
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_IGNORE_FILE_BYTES_MAX = 1 << 20


TEMPORARY = b".locus-new-"  # 16 hex digits follow, and perhaps `-` and a number
_MARK_SIZE = 16
WATCHER_COOKIE = b".watchman-cookie-"  # of a file that Watchman makes and removes when it is asked (its docs)


def sibling() -> bytes:
    """A new name for a file that a replay or a restore has not yet put in its place."""
    return TEMPORARY + os.urandom(_MARK_SIZE // 2).hex().encode("ascii")


def is_temporary(name: bytes) -> bool:
    """Whether `sibling` may have made this name: captures pass over it."""
    if not name.startswith(TEMPORARY):
        return False
    mark, dash, number = name[len(TEMPORARY) :].partition(b"-")
    hex_only = len(mark) == _MARK_SIZE and not mark.strip(b"0123456789abcdef")
    return hex_only and (not dash or number.isdigit())


def lines_of(path: bytes) -> "list[bytes]":
    """The lines of an ignore file; none when it cannot be read, is a link (as in git) or no file."""
    try:
        fd = os.open(path, _OLD_FILE)
    except OSError:
        return []
    try:
        data = os.read(fd, _IGNORE_FILE_BYTES_MAX)
    except OSError:
        return []
    finally:
        os.close(fd)
    return data.removeprefix(b"\xef\xbb\xbf").split(b"\n")


class StoreThere(PermissionError):
    """A directory called `.locus` is a store's: nobody captures it, writes into it or deletes from it."""

    def __init__(self) -> None:
        super().__init__(errno.EPERM, "a store is there")


class UserFiles:
    """The real calls. OSErrors pass through unchanged."""

    def open_root(self, path: str) -> int:
        return os.open(path, _DIRECTORY)

    def open_dir(self, dir_fd: int, name: bytes) -> int:
        """Raises: StoreThere."""
        fd = os.open(name, _DIRECTORY, dir_fd=dir_fd)
        if is_store_name(name) and _has_store(fd):
            os.close(fd)
            raise StoreThere
        return fd

    def mkdir(self, dir_fd: int, name: bytes, mode: int) -> None:
        os.mkdir(name, mode, dir_fd=dir_fd)

    def rmdir(self, dir_fd: int, name: bytes) -> None:
        os.rmdir(name, dir_fd=dir_fd)

    def create(self, dir_fd: int, name: bytes, mode: int) -> int:
        """A new file, open for writing; FileExistsError whatever exists there."""
        return os.open(name, _NEW_FILE, mode, dir_fd=dir_fd)

    def open_file(self, dir_fd: int, name: bytes) -> int:
        """What has the name, open for reading; not through a symlink."""
        return os.open(name, _OLD_FILE, dir_fd=dir_fd)

    def hold(self, dir_fd: int, name: bytes) -> int:
        """What has the name, not opened but kept alive, for `fstat`; -1 where the system cannot."""
        return -1 if _HOLD is None else os.open(name, _HOLD, dir_fd=dir_fd)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def write(self, fd: int, data: "bytes | memoryview") -> int:
        return os.write(fd, data)

    def fchmod(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def begin_sync(self, fd: int) -> None:
        """Let the system begin to write a file out, without waiting: `fsync` alone makes it durable."""
        if _BEGINS is not None:
            try:
                os.posix_fadvise(fd, 0, 0, _BEGINS)
            except OSError:
                pass  # a file system without it writes when it is synced

    def fsync(self, fd: int) -> None:
        REAL.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def symlink(self, target: bytes, dir_fd: int, name: bytes) -> None:
        os.symlink(target, name, dir_fd=dir_fd)

    def rename(self, dir_fd: int, source: bytes, name: bytes) -> None:
        os.rename(source, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    def move(self, dir_fd: int, source: bytes, to_dir_fd: int, name: bytes) -> None:
        """`rename` into another directory."""
        os.rename(source, name, src_dir_fd=dir_fd, dst_dir_fd=to_dir_fd)

    def readlink(self, dir_fd: int, name: bytes) -> bytes:
        return os.readlink(name, dir_fd=dir_fd)

    def unlink(self, dir_fd: int, name: bytes) -> None:
        os.unlink(name, dir_fd=dir_fd)

    def lstat(self, dir_fd: int, name: bytes) -> os.stat_result:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)

    def scan(self, dir_fd: int) -> dict[bytes, bool]:
        """The names in a directory, and whether each is a directory itself."""
        with os.scandir(dir_fd) as entries:
            return {os.fsencode(entry.name): entry.is_dir(follow_symlinks=False) for entry in entries}

    def listdir(self, dir_fd: int) -> list[str]:
        return os.listdir(dir_fd)


def _has_store(dir_fd: int) -> bool:
    try:
        os.stat("STORE", dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
