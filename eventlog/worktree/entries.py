"""Single names of a working directory: each is read into an entry that a tree can hold.

Every directory is opened below its parent's descriptor and never through a symlink. Every name is examined
before it is opened, because opening a pipe or a device has side effects. Belongs to one thread. On the hook
path.
"""

import errno
import os
import stat

from eventlog.base.paths import path_text
from eventlog.blobs.pack import BLOB_SIZE_MAX
from eventlog.blobs.tree import (
    EXECUTABLE,
    FILE,
    REFUSED,
    SIZE_UNKNOWN,
    SKIPPED,
    SUBMODULE,
    SYMLINK,
    escaped,
    has_escape,
    is_escape,
    is_store_name,
    kind_of_mode,
    legal_name,
    size_of_directory,
)
from eventlog.worktree import git
from eventlog.worktree.kept_ignored import TOO_LARGE
from eventlog.worktree.rows import LEFT_OUT, MISSING, UNPROVEN, pack_stat
from eventlog.worktree.userfiles import StoreThere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.blobs.writer import BlobWriter
    from eventlog.worktree.userfiles import UserFiles

    # kind, id, size, stat
    ReadEntry = tuple[bytes, bytes, int, bytes]

_DESCRIPTORS_MAX = 128
_ATTEMPTS = 3

_SOCKET, _PIPE, _DEVICE = "it is a socket", "it is a named pipe", "it is a device"
_CHANGED = "it changed while it was read"
_UNBORN = "it is a repository without a commit"
_UNREADABLE = "it cannot be read: "
TOO_DEEP = "it is too many directories deep"
BY_CHOICE = (LEFT_OUT, TOO_LARGE)  # reasons that are no failure of a replay or a restore


class TooMuch(Exception):
    """A file grew while it was read, to more than `Entries.content_max`."""

    def __init__(self, file_stat: os.stat_result) -> None:
        super().__init__()
        self.file_stat = file_stat


def reason_texts(size_max: int) -> "list[str]":
    """The reasons that most skipped entries have."""
    unreadable = _UNREADABLE + os.strerror(errno.EACCES)
    return [_SOCKET, _PIPE, _DEVICE, _CHANGED, _UNBORN, TOO_DEEP, LEFT_OUT, unreadable, _too_large(size_max)]


def name_in_tree(name: bytes) -> "tuple[bytes, str | None]":
    """The name that a tree has for this one, and why only the name can be kept."""
    problem = legal_name(name)
    if problem is None and not name.startswith(REFUSED):
        return name, None
    if has_escape(name):
        return name, problem and _its_name(name, problem)
    if is_escape(name):
        return escaped(name), _its_name(name, "looks like the name of a refused one")
    return name, None


def _its_name(name: bytes, problem: str) -> str:
    return f"its name {path_text(name)!r} {problem}"


class Entries:
    """Reads names below `root`. `probe` is (now, device): see docs/capture.md.

    `modes`: whether the store keeps permissions that lack some of git's (docs/trees.md §2).
    """

    def __init__(
        self,
        root: bytes,
        calls: "UserFiles",
        writer: "BlobWriter",
        probe: "tuple[int, int]",
        size_max: int,
        *,
        modes: bool = False,
    ) -> None:
        self.root = root
        self.calls = calls
        self.writer = writer
        self.size_max = min(size_max, BLOB_SIZE_MAX)
        self.modes = modes
        self.content_max: "int | None" = None  # of a content read here, for a caller that waits for none
        self.read_files = 0
        self.read_bytes = 0
        self._now, self._device = probe
        self._root_fd = calls.open_root(os.fsdecode(root))
        self._open: "dict[bytes, int]" = {}  # in order of use, the oldest first

    def close(self) -> None:
        while self._open:
            self.calls.close(self._open.popitem()[1])
        self.calls.close(self._root_fd)

    def dir(self, path: bytes) -> int:
        """A descriptor of the directory at `path`, valid until the next call.

        Raises: OSError; also when something on the way is a symlink.
        """
        if not path:
            return self._root_fd
        fd = self._open.pop(path, -1)
        if fd >= 0:
            self._open[path] = fd
            return fd
        steps = []
        above = path
        while above and above not in self._open:
            above, _, name = above.rpartition(b"/")
            steps.append(name)
        fd = self._open[above] if above else self._root_fd
        for name in reversed(steps):
            fd = self.calls.open_dir(fd, name)
            above = above + b"/" + name if above else name
            self._open[above] = fd
            if len(self._open) > _DESCRIPTORS_MAX:
                self.calls.close(self._open.pop(next(iter(self._open))))
        return fd

    def lstat(self, directory: bytes, name: bytes) -> os.stat_result:
        return self.calls.lstat(self.dir(directory), name)

    def kind_of(self, file_stat: os.stat_result) -> bytes:
        """The kind of a regular file."""
        if self.modes:
            return kind_of_mode(file_stat.st_mode)
        return EXECUTABLE if file_stat.st_mode & 0o100 else FILE

    def size_of(self, file_stat: os.stat_result) -> int:
        """The size in the entry of a directory: its mode, where the store keeps modes."""
        return size_of_directory(file_stat.st_mode) if self.modes else 0

    def list(self, directory: bytes) -> "tuple[bytes, int, dict[bytes, bool]]":
        """The stat of a directory and the size of its entry, from before it was listed, and its names: is
        each a directory?"""
        fd = self.dir(directory)
        before = self.calls.fstat(fd)
        return self.proof(before), self.size_of(before), self.calls.scan(fd)

    def proof(self, file_stat: os.stat_result) -> bytes:
        """The stat to keep: one that any later change would alter, else none.

        A file that is changed twice within one tick of the clock keeps its times. So both times must be older
        than a file made before the scan.
        """
        if (
            file_stat.st_mtime_ns < self._now
            and file_stat.st_ctime_ns < self._now
            and file_stat.st_dev == self._device
        ):
            return pack_stat(file_stat)
        return UNPROVEN

    def named(self, directory: bytes, name: bytes, is_dir: bool) -> "tuple[bytes, str | None]":
        """The name that a tree has for one in this directory, and why it differs (docs/trees.md §4).

        Raises: StoreThere for the directory of a store.
        """
        if is_store_name(name) and is_dir:
            if directory:
                self._refuse_store(directory + b"/" + name)
                return name, None
        elif directory and is_store_name(name) and self._is_file(directory, name):
            return name, None
        return name_in_tree(name)

    def _refuse_store(self, path: bytes) -> None:
        try:
            self.dir(path)
        except StoreThere:
            raise
        except OSError:
            pass  # listing it reports the error

    def _is_file(self, directory: bytes, name: bytes) -> bool:
        try:
            return stat.S_ISREG(self.lstat(directory, name).st_mode)
        except OSError:
            return False

    def read(self, directory: bytes, name: bytes, file_stat: os.stat_result) -> "ReadEntry":
        """The entry of a name that is no directory.

        Raises: FileNotFoundError when it is gone; TooMuch; NotDurable.
        """
        mode = file_stat.st_mode
        try:
            if stat.S_ISREG(mode):
                return self._read_file(directory, name, file_stat)
            if stat.S_ISLNK(mode):
                target = self.calls.readlink(self.dir(directory), name)
                return SYMLINK, self.writer.put(target), len(target), self.proof(file_stat)
        except FileNotFoundError:
            raise
        except OSError as error:
            return self.unreadable(error, file_stat.st_size)
        if stat.S_ISSOCK(mode):
            reason = _SOCKET
        elif stat.S_ISFIFO(mode):
            reason = _PIPE
        else:
            reason = _DEVICE
        return self.skipped(reason, SIZE_UNKNOWN, self.proof(file_stat))

    def skipped(self, reason: str, size: int, proof: bytes) -> "ReadEntry":
        return SKIPPED, self.writer.put(reason.encode("utf-8", "surrogateescape")), size, proof

    def unreadable(self, error: OSError, size: int) -> "ReadEntry":
        """A file that cannot be read. Rights change without a trace in its stat, so it is tried again."""
        return self.skipped(unreadable_text(error), size, UNPROVEN)

    def left_out(self, proof: bytes) -> "ReadEntry":
        """The entry of what `.locusignore` leaves out, which is the same for everything."""
        return self.skipped(LEFT_OUT, SIZE_UNKNOWN, proof)

    def refused(self, reason: str) -> "ReadEntry":
        """The entry of a name that no tree may hold. Nothing exists under the name that it gets instead."""
        return self.skipped(reason, SIZE_UNKNOWN, MISSING)

    def repository(self, commit: str, proof: bytes) -> "ReadEntry":
        """Another repository's work tree: its commit, empty when it has none yet."""
        if not commit:
            return self.skipped(_UNBORN, 0, proof)
        return SUBMODULE, self.writer.put(commit.encode("ascii")), len(commit), proof

    def commit_at(self, path: bytes) -> "str | None":
        """The commit checked out in the repository that begins at `path`.

        None when none begins there; empty when it has no commit yet.
        """
        git_dir = git.git_dir_at(self.root + b"/" + path)
        return None if git_dir is None else git.head(git_dir)[0] or ""

    def _read_file(self, directory: bytes, name: bytes, file_stat: os.stat_result) -> "ReadEntry":
        for _ in range(_ATTEMPTS):
            if file_stat.st_size > self.size_max:
                return self.skipped(_too_large(self.size_max), file_stat.st_size, self.proof(file_stat))
            if self.content_max is not None and file_stat.st_size > self.content_max:
                raise TooMuch(file_stat)
            fd = self.calls.open_file(self.dir(directory), name)
            try:
                data = _read_all(self.calls, fd, file_stat.st_size)
                after = self.calls.fstat(fd)
            finally:
                self.calls.close(fd)
            if len(data) == after.st_size and pack_stat(after) == pack_stat(file_stat):
                self.read_files += 1
                self.read_bytes += len(data)
                return self.kind_of(file_stat), self.writer.put(data), len(data), self.proof(file_stat)
            file_stat = after
            if not stat.S_ISREG(file_stat.st_mode):
                break
        return self.skipped(_CHANGED, file_stat.st_size, UNPROVEN)


def _read_all(calls: "UserFiles", fd: int, size: int) -> bytes:
    """The bytes of a file, a little more than `size` of them when it has grown."""
    data = calls.read(fd, size + 1)
    if len(data) >= size:
        return data
    parts = [data]
    got = len(data)
    while got <= size and (data := calls.read(fd, size + 1 - got)):
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def unreadable_text(error: OSError) -> str:
    return f"{_UNREADABLE}{error.strerror}"


def _too_large(size_max: int) -> str:
    return f"it is larger than {size_max} bytes"
