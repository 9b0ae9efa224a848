"""The system calls that `materialize` makes in directories of the user, each below a directory descriptor.

Not part of `FileSystem`: the store's seam knows paths and crashes, this one knows descriptors, modes and
links, and faults are injected into it separately. Nothing here follows a symlink.
"""

import os

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UserFiles:
    """The real calls. OSErrors pass through unchanged."""

    def open_root(self, path: str) -> int:
        return os.open(path, _DIRECTORY)

    def open_dir(self, dir_fd: int, name: bytes) -> int:
        return os.open(name, _DIRECTORY, dir_fd=dir_fd)

    def mkdir(self, dir_fd: int, name: bytes, mode: int) -> None:
        os.mkdir(name, mode, dir_fd=dir_fd)

    def rmdir(self, dir_fd: int, name: bytes) -> None:
        os.rmdir(name, dir_fd=dir_fd)

    def create(self, dir_fd: int, name: bytes, mode: int) -> int:
        """A new file, open for writing; FileExistsError whatever stands there."""
        return os.open(name, _NEW_FILE, mode, dir_fd=dir_fd)

    def write(self, fd: int, data: "bytes | memoryview") -> int:
        return os.write(fd, data)

    def fchmod(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def symlink(self, target: bytes, dir_fd: int, name: bytes) -> None:
        os.symlink(target, name, dir_fd=dir_fd)

    def rename(self, dir_fd: int, source: bytes, name: bytes) -> None:
        os.rename(source, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    def unlink(self, dir_fd: int, name: bytes) -> None:
        os.unlink(name, dir_fd=dir_fd)

    def lstat(self, dir_fd: int, name: bytes) -> os.stat_result:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)

    def listdir(self, dir_fd: int) -> list[str]:
        return os.listdir(dir_fd)
