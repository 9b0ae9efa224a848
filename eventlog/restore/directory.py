"""The directory that a restore works in: the state of a path, read without following a symlink (I28).

A `RestoreDirectory` belongs to one thread. Every directory is opened one name at a time from the root's
descriptor, so that a directory which another process swaps for a link is "not there", and not a way out. Only
regular files are read; pipes, sockets and devices are never opened.
"""

import errno
import os
import stat
from typing import NamedTuple

from eventlog.base.errors import NotFound, Refused
from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import DIRECTORY, EXECUTABLE, FILE, SYMLINK, kind_of_mode
from eventlog.worktree.userfiles import UserFiles

OTHER = b"?"  # a pipe, a socket, a device
FILES = (FILE, EXECUTABLE)
NO_ID = bytes(32)

_DESCRIPTORS_MAX = 128
_READ_BYTES = 1 << 20


class State(NamedTuple):
    """The state of a path. `id` is the content's, zeros where there is none; `mode` None is a new file's.

    A tuple, because a plan makes one for every file of the tree.
    """

    kind: bytes
    mode: int | None
    id: bytes
    size: int


def same(a: State | None, b: State | None) -> bool:
    """Whether two states are equal in a tree: in kind, content, and permissions where both have some."""
    if a is None or b is None:
        return a is b
    if a.kind != b.kind or a.id != b.id:
        return False
    if a.kind not in FILES or a.mode is None or b.mode is None:
        return True
    return a.mode == b.mode or kind_of_mode(a.mode) == kind_of_mode(b.mode)


def untouched(a: os.stat_result, b: os.stat_result) -> bool:
    """Whether a file is unchanged between two stats.

    An inode that loses another of its names gets a new time of change, so with several names that time
    does not count.
    """
    alone = a.st_nlink == 1 and b.st_nlink == 1
    return (
        (a.st_ino, a.st_dev, a.st_mode, a.st_size, a.st_mtime_ns)
        == (b.st_ino, b.st_dev, b.st_mode, b.st_size, b.st_mtime_ns)
    ) and (not alone or a.st_ctime_ns == b.st_ctime_ns)


class RestoreDirectory:
    """The directory `path`. Raises: NotFound, Refused when it is not a directory."""

    def __init__(self, path: str, calls: UserFiles | None = None) -> None:
        self.path = os.path.realpath(path)
        self.calls = calls or UserFiles()
        try:
            self._root_fd = self.calls.open_root(self.path)
        except FileNotFoundError:
            raise NotFound(f"{path} does not exist; name a directory that does") from None
        except NotADirectoryError:
            raise Refused(f"{path} is not a directory; name one") from None
        self.inode = self.calls.fstat(self._root_fd).st_ino
        self._open: dict[bytes, int] = {}  # in order of use, the oldest first

    def __enter__(self) -> "RestoreDirectory":
        return self

    def __exit__(self, *exc: object) -> None:
        self.forget()
        self.calls.close(self._root_fd)

    def forget(self) -> None:
        """Close what is open below the root, because directories are about to be replaced."""
        while self._open:
            self.calls.close(self._open.popitem()[1])

    def dir(self, path: bytes) -> int:
        """A descriptor of the directory at `path`, good until the next call.

        Raises: OSError; a symlink or file on the way is NotADirectoryError or ELOOP.
        """
        if not path:
            return self._root_fd
        fd = self._open.pop(path, -1)
        if fd < 0:
            parent, _, name = path.rpartition(b"/")
            fd = self.calls.open_dir(self.dir(parent), name)
        self._open[path] = fd
        if len(self._open) > _DESCRIPTORS_MAX:
            self.calls.close(self._open.pop(next(iter(self._open))))
        return fd

    def is_dir(self, path: bytes) -> bool:
        try:
            self.dir(path)
        except OSError:
            return False
        return True

    def deepest(self, path: bytes) -> bytes:
        """The deepest directory above `path` that is there."""
        while path:
            path = path.rpartition(b"/")[0]
            if self.is_dir(path):
                break
        return path

    def names(self, path: bytes) -> dict[bytes, bool] | None:
        """What a directory holds, exactly as it spells it, and whether each is a directory.

        None when there is no such directory.
        """
        try:
            return self.calls.scan(self.dir(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if is_link_error(error):
                return None
            raise

    def lstat(self, path: bytes) -> os.stat_result | None:
        """None when nothing is there, or something other than a directory above it."""
        parent, _, name = path.rpartition(b"/")
        try:
            return self.calls.lstat(self.dir(parent), name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if is_link_error(error):
                return None
            raise

    def state_at(self, path: bytes) -> tuple[State | None, os.stat_result | None]:
        """The state of a path, its content hashed. Raises: OSError when it cannot be read."""
        state, path_stat, _ = self.read(path)
        return state, path_stat

    def read(self, path: bytes) -> tuple[State | None, os.stat_result | None, bytes]:
        """The state of a path and its bytes; of a symlink its target. Raises: OSError."""
        path_stat = self.lstat(path)
        if path_stat is None:
            return None, None, b""
        parent, _, name = path.rpartition(b"/")
        if stat.S_ISREG(path_stat.st_mode):
            path_stat, data = self._read(self.dir(parent), name)
        elif stat.S_ISLNK(path_stat.st_mode):
            data = self.calls.readlink(self.dir(parent), name)
        else:
            data = b""
        return state_of(path_stat, data), path_stat, data

    def _read(self, dir_fd: int, name: bytes) -> tuple[os.stat_result, bytes]:
        calls = self.calls
        fd = calls.open_file(dir_fd, name)
        try:
            file_stat = calls.fstat(fd)
            if not stat.S_ISREG(file_stat.st_mode):
                return file_stat, b""
            data = calls.read(fd, file_stat.st_size + 1)
            if len(data) == file_stat.st_size:
                return file_stat, data
            parts = [data]
            while part := calls.read(fd, _READ_BYTES):
                parts.append(part)
            return file_stat, b"".join(parts)
        finally:
            calls.close(fd)


def is_link_error(error: OSError) -> bool:
    """Whether an open failed because a symlink, or something that is no directory, was on the way."""
    return error.errno in (errno.ELOOP, errno.ENOTDIR)


def state_of(path_stat: os.stat_result, data: bytes) -> State:
    mode = path_stat.st_mode
    if stat.S_ISDIR(mode):
        return State(DIRECTORY, mode & 0o777, NO_ID, 0)
    if stat.S_ISLNK(mode):
        return State(SYMLINK, 0o777, blob_id(data), len(data))
    if stat.S_ISREG(mode):
        return State(EXECUTABLE if mode & 0o100 else FILE, mode & 0o777, blob_id(data), len(data))
    return State(OTHER, mode & 0o777, NO_ID, 0)
