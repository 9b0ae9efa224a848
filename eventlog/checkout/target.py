"""The directory a tree is written into: its sub-directories by descriptor, and single files in them.

A `Target` belongs to one process and one thread at a time; a forked child goes on with the one it
inherited. Descriptors are opened one step at a time from the root, never through a symlink. So a
directory which another process swaps for a link is an error and not a way out (I28).
"""

import errno
import stat

from eventlog.worktree.userfiles import UserFiles, sibling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DIRECTORY_MODE = 0o755
PRIVATE_MODE = 0o700  # of a directory until all is in it that belongs there

_DESCRIPTORS_MAX = 128
_CHUNK_BYTES = 1 << 20


class Target:
    """The directories of a plan below `root_fd`, which it closes.

    `dirs` are rows (index of the parent, name, path), parents first, row 0 the root. `failed` lists those
    that could not be made, `made` counts the others. `modes` are those of directories that do not have the
    usual one, by index: `set_modes` gives them, when nothing more is to be written. `go_on` is called before
    each MiB that is written, and stops the writing by an exception.
    """

    def __init__(
        self,
        calls: UserFiles,
        root_fd: int,
        dirs: "Sequence[tuple[int, bytes, bytes]]",
        force: bool,
        modes: "Mapping[int, int] | None" = None,
    ) -> None:
        self.calls = calls
        self.dirs = dirs
        self._modes = modes or {}
        self._to_set = [0] if 0 in self._modes else []
        self.force = force
        self.failed: list[tuple[bytes, str]] = []
        self.made = 0
        self.go_on: Callable[[], None] = lambda: None
        self._root_fd = root_fd
        self._open: dict[int, int] = {}  # in order of use, the oldest first
        self._last_index = 0
        self._last_fd = root_fd

    def close(self) -> None:
        while self._open:
            self.calls.close(self._open.popitem()[1])
        self.calls.close(self._root_fd)

    def path(self, index: int, name: bytes) -> bytes:
        directory = self.dirs[index][2]
        return directory + b"/" + name if directory else name

    def make_all(self) -> None:
        """Make every directory; with `force`, in the place of a file or link of its name."""
        for index in range(1, len(self.dirs)):
            parent, name, path = self.dirs[index]
            try:
                mode = PRIVATE_MODE if index in self._modes else DIRECTORY_MODE
                self._make(self.fd(parent), name, mode)
                self.calls.fchmod(self.fd(index), mode)
                if index in self._modes:
                    self._to_set.append(index)
            except FileExistsError:  # with force: it was there, and keeps its mode
                if not self.force:
                    self.failed.append((path, COLLISION))
                    continue
            except OSError as error:
                self.failed.append((path, f"the directory cannot be made: {reason_of(error)}"))
                continue
            self.made += 1

    def set_modes(self) -> None:
        """Give directories the modes they had, from below: one may forbid to enter it."""
        for index in reversed(self._to_set):
            try:
                self.calls.fchmod(self.fd(index), self._modes[index])
            except OSError as error:
                self.failed.append((self.dirs[index][2], f"its mode cannot be set: {reason_of(error)}"))

    def fd(self, index: int) -> int:
        """A descriptor of a directory, good until the next call."""
        if index == self._last_index:
            return self._last_fd
        chain = []
        current = index
        while current != 0 and current not in self._open:
            chain.append(current)
            current = self.dirs[current][0]
        fd = self._root_fd
        if current != 0:
            fd = self._open[current] = self._open.pop(current)
        while chain:
            current = chain.pop()
            fd = self.calls.open_dir(fd, self.dirs[current][1])
            self._open[current] = fd
            if len(self._open) > _DESCRIPTORS_MAX:
                self.calls.close(self._open.pop(next(iter(self._open))))
        self._last_index, self._last_fd = index, fd
        return fd

    def write_file(self, index: int, name: bytes, mode: int, data: bytes) -> None:
        """A new file, or with `force` one in the place of an old one. Raises: OSError."""
        dir_fd = self.fd(index)
        try:
            self._create(dir_fd, name, mode, data)
        except FileExistsError:
            if not self.force:
                raise
            temporary = sibling()
            self._create(dir_fd, temporary, mode, data)
            self._take_name(dir_fd, temporary, name)

    def write_symlink(self, index: int, name: bytes, content: bytes) -> None:
        """A new symlink, or with `force` one in the place of a file. Raises: OSError."""
        if not content or b"\0" in content:
            raise OSError(errno.EINVAL, "no symlink can have this target")
        dir_fd = self.fd(index)
        try:
            self.calls.symlink(content, dir_fd, name)
        except FileExistsError:
            if not self.force:
                raise
            temporary = sibling()
            self.calls.symlink(content, dir_fd, temporary)
            self._take_name(dir_fd, temporary, name)

    def _make(self, parent_fd: int, name: bytes, mode: int) -> None:
        """FileExistsError when there is a directory already."""
        try:
            self.calls.mkdir(parent_fd, name, mode)
        except FileExistsError:
            if not self.force or stat.S_ISDIR(self.calls.lstat(parent_fd, name).st_mode):
                raise
            self.calls.unlink(parent_fd, name)
            self.calls.mkdir(parent_fd, name, mode)

    def _create(self, dir_fd: int, name: bytes, mode: int, data: bytes) -> None:
        calls = self.calls
        fd = calls.create(dir_fd, name, mode)
        try:
            try:
                self._write(fd, data)
                calls.fchmod(fd, mode)  # the umask may have taken bits away
            finally:
                calls.close(fd)
        except BaseException:
            calls.unlink(dir_fd, name)  # half a file must not pass for the whole one
            raise

    def _write(self, fd: int, data: bytes) -> None:
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


COLLISION = "the file system takes its name for one that is there already"


def reason_of(error: OSError) -> str:
    """Why a name could not be made, as a sentence for the report."""
    if isinstance(error, FileExistsError):
        return COLLISION
    if error.errno == errno.ENOTEMPTY:
        return "a directory with other files in it has its name"
    return error.strerror or str(error)
