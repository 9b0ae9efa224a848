"""A file system that counts what is read of journals."""

from eventlog.base.fs import FileSystem


class Counting(FileSystem):
    """Counts the bytes that are read of journals."""

    def __init__(self) -> None:
        self.bytes = 0
        self._journals: set[int] = set()

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        fd = super().open(path, flags, mode)
        (self._journals.add if path.endswith(".evj") else self._journals.discard)(fd)
        return fd

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        self.bytes += len(data) if fd in self._journals else 0
        return data
