"""A directory of the user's: what is at a path of it, and new files and links there (I27, I28).

The one engine below replay, restore, undo and bisect (docs/trees.md §3). Every directory is opened one name
at a time from the root's descriptor, never through a symlink, and stays open in order of use. So a directory
which another process swaps for a link is "not there", or an error, and not a way out. Only regular files are
read; pipes, sockets and devices are never opened.

An `OpenDirectory` belongs to one process and one thread at a time; a forked child goes on with the one that
it inherited.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable
from typing import NamedTuple

from eventlog.base.errors import NotFound, Refused
from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import (
    DIRECTORY,
    EXECUTABLE,
    FILE,
    MODE_OF_KIND,
    SYMLINK,
    kind_of_mode,
    plain_kind,
)
from eventlog.worktree.userfiles import UserFiles, sibling

OTHER = b"?"  # a pipe, a socket, a device
FILES = (FILE, EXECUTABLE)
NO_ID = bytes(32)

DIRECTORY_MODE = 0o755
PRIVATE_MODE = 0o700  # of a directory until all is in it that belongs there

_DESCRIPTORS_MAX = 128
_CHUNK_BYTES = 1 << 20

# A symlink, or something that is no directory, is on the way.
_NOT_THERE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


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


def state_of_entry(kind: bytes, id: bytes, size: int = 0) -> State:
    """The state of a file or symlink of that kind, with a mode where its permissions lack some of git's."""
    if kind in FILES or kind == SYMLINK:
        return State(kind, None, id, size)
    return State(plain_kind(kind), MODE_OF_KIND[kind], id, size)


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


class OpenDirectory:
    """The directory at `path`, open as `root_fd`, which it closes.

    `go_on` is called before each MiB that is written, and stops the writing by an exception.
    """

    def __init__(self, path: str, root_fd: int, calls: UserFiles) -> None:
        self.path = path
        self.calls = calls
        self.go_on: Callable[[], None] = lambda: None
        self._root_fd = root_fd
        self._open: dict[bytes, int] = {}  # by path, in order of use, the oldest first
        self._last_path, self._last_fd = b"", root_fd

    @classmethod
    def of(cls, path: str, calls: UserFiles | None = None) -> "OpenDirectory":
        """One that is there. Raises: NotFound, Refused when it is not a directory."""
        calls = calls or UserFiles()
        real_path = os.path.realpath(path)
        try:
            return cls(real_path, calls.open_root(real_path), calls)
        except FileNotFoundError:
            raise NotFound(f"{path} does not exist; name a directory that does") from None
        except NotADirectoryError:
            raise Refused(f"{path} is not a directory; name one") from None

    @property
    def inode(self) -> int:
        return self.calls.fstat(self._root_fd).st_ino

    def __enter__(self) -> "OpenDirectory":
        return self

    def __exit__(self, *exc: object) -> None:
        self.forget()
        self.calls.close(self._root_fd)

    def forget(self) -> None:
        """Close what is open below the root, because directories are about to be replaced."""
        self._last_path, self._last_fd = b"", self._root_fd
        while self._open:
            self.calls.close(self._open.popitem()[1])

    def dir(self, path: bytes) -> int:
        """A descriptor of the directory at `path` (b"" is the root), good until the next call.

        Raises: OSError; a symlink or file on the way is NotADirectoryError or ELOOP.
        """
        if path == self._last_path:
            return self._last_fd
        self._last_path, self._last_fd = b"", self._root_fd
        names = []
        above = path
        while above and above not in self._open:
            above, _, name = above.rpartition(b"/")
            names.append(name)
        fd = self._root_fd
        if above:
            fd = self._open[above] = self._open.pop(above)
        for name in reversed(names):
            fd = self.calls.open_dir(fd, name)
            above = joined(above, name)
            self._open[above] = fd
            if len(self._open) > _DESCRIPTORS_MAX:
                self.calls.close(self._open.pop(next(iter(self._open))))
        self._last_path, self._last_fd = path, fd
        return fd

    # -- what is there -------------------------------------------------------------------------------

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
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise

    def lstat(self, path: bytes) -> os.stat_result | None:
        """None when nothing is there, or something other than a directory above it."""
        parent, _, name = path.rpartition(b"/")
        try:
            return self.calls.lstat(self.dir(parent), name)
        except OSError as error:
            if error.errno in _NOT_THERE:
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
        data = b""
        if stat.S_ISREG(path_stat.st_mode):
            path_stat, data = self._read(self.dir(parent), name)
        elif stat.S_ISLNK(path_stat.st_mode):
            data = self.calls.readlink(self.dir(parent), name)
        return _state_of(path_stat, data), path_stat, data

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
            while part := calls.read(fd, _CHUNK_BYTES):
                parts.append(part)
            return file_stat, b"".join(parts)
        finally:
            calls.close(fd)

    # -- what is put there ---------------------------------------------------------------------------

    def make_dir(self, folder: bytes, name: bytes, mode: int, *, over: bool) -> None:
        """A new directory; with `over` also in the place of a file or link.

        Raises: OSError, FileExistsError when there is a directory already.
        """
        dir_fd = self.dir(folder)
        try:
            self.calls.mkdir(dir_fd, name, mode)
        except FileExistsError:
            if not over or stat.S_ISDIR(self.calls.lstat(dir_fd, name).st_mode):
                raise
            self.calls.unlink(dir_fd, name)
            self.calls.mkdir(dir_fd, name, mode)
        self.calls.fchmod(self.dir(joined(folder, name)), mode)  # the umask may have taken bits away

    def write_file(self, folder: bytes, name: bytes, mode: int, data: bytes, *, over: bool) -> None:
        """A new file; with `over` also in the place of an old one. Raises: OSError."""
        self._put(folder, name, over, lambda dir_fd, new_name: self._create(dir_fd, new_name, mode, data))

    def write_symlink(self, folder: bytes, name: bytes, content: bytes, *, over: bool) -> None:
        """A new symlink; with `over` also in the place of a file. Raises: OSError."""
        if not content or b"\0" in content:
            raise OSError(errno.EINVAL, "no symlink can have this target")
        self._put(folder, name, over, lambda dir_fd, new_name: self.calls.symlink(content, dir_fd, new_name))

    def write(self, fd: int, data: bytes) -> None:
        """All of `data`, a MiB at a time. Raises: OSError."""
        self.go_on()
        written = self.calls.write(fd, data) if 0 < len(data) <= _CHUNK_BYTES else 0
        if written == len(data):
            return  # nearly every file
        rest = memoryview(data)[written:]
        while rest:
            self.go_on()
            written = self.calls.write(fd, rest[:_CHUNK_BYTES])
            if written <= 0:
                raise OSError(errno.ENOSPC, "the disk took no more bytes")
            rest = rest[written:]

    def remove(self, path: bytes) -> None:
        """Whatever is at a path goes, a directory with all that is in it. Raises: OSError."""
        path_stat = self.lstat(path)
        if path_stat is None:
            return
        parent, _, name = path.rpartition(b"/")
        if stat.S_ISDIR(path_stat.st_mode):
            self.forget()
            shutil.rmtree(os.fsdecode(name), dir_fd=self.dir(parent))
        else:
            self.calls.unlink(self.dir(parent), name)

    def prune(self, path: bytes) -> None:
        """Remove the directories above a path that are empty."""
        self.forget()
        while b"/" in path:
            path = path.rpartition(b"/")[0]
            parent, _, name = path.rpartition(b"/")
            try:
                self.calls.rmdir(self.dir(parent), name)
            except OSError:
                return

    def _put(self, folder: bytes, name: bytes, over: bool, make: Callable[[int, bytes], None]) -> None:
        """`make` it under its name; where that is taken, and with `over`, under another, which is renamed."""
        dir_fd = self.dir(folder)
        try:
            make(dir_fd, name)
        except FileExistsError:
            if not over:
                raise
            temporary = sibling()
            make(dir_fd, temporary)
            self._take_name(dir_fd, temporary, name)

    def _create(self, dir_fd: int, name: bytes, mode: int, data: bytes) -> None:
        calls = self.calls
        fd = calls.create(dir_fd, name, mode)
        try:
            try:
                self.write(fd, data)
                calls.fchmod(fd, mode)  # the umask may have taken bits away
            finally:
                calls.close(fd)
        except BaseException:
            calls.unlink(dir_fd, name)  # half a file must not pass for the whole one
            raise

    def _take_name(self, dir_fd: int, temporary: bytes, name: bytes) -> None:
        """Rename over whatever has the name, unless that is a directory with something in it."""
        try:
            try:
                self.calls.rename(dir_fd, temporary, name)
            except OSError as error:
                if error.errno not in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
                    raise
                self.calls.rmdir(dir_fd, name)
                self.calls.rename(dir_fd, temporary, name)
        except BaseException:
            self.calls.unlink(dir_fd, temporary)
            raise


def joined(folder: bytes, name: bytes) -> bytes:
    """The path of a name in a directory."""
    return folder + b"/" + name if folder else name


def _state_of(path_stat: os.stat_result, data: bytes) -> State:
    mode = path_stat.st_mode
    if stat.S_ISDIR(mode):
        return State(DIRECTORY, mode & 0o777, NO_ID, 0)
    if stat.S_ISLNK(mode):
        return State(SYMLINK, 0o777, blob_id(data), len(data))
    if stat.S_ISREG(mode):
        return State(EXECUTABLE if mode & 0o100 else FILE, mode & 0o777, blob_id(data), len(data))
    return State(OTHER, mode & 0o777, NO_ID, 0)


COLLISION = "the file system takes its name for one that is there already"


def reason_of(error: OSError) -> str:
    """Why a name could not be made, as a sentence for the report."""
    if isinstance(error, FileExistsError):
        return COLLISION
    if error.errno == errno.ENOTEMPTY:
        return "a directory with other files in it has its name"
    return error.strerror or str(error)
