"""A file system that reads again after an error, which may pass and is no damage; it removes nothing."""

import errno
import os
from collections.abc import Callable
from typing import Any, TypeVar

from eventlog.base.fs import FileSystem

_WAITS_S = (0.05, 0.2)
_T = TypeVar("_T")


class RetryingReader:
    """Reads what `fs` reads, up to three times. `refused` are the files that it could not read, and why."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._paths: dict[int, str] = {}
        self.refused: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            return self._fs.open(path, flags, mode)  # of a lock
        fd = self._asked(path, lambda: self._fs.open(path, flags, mode))
        self._paths[fd] = path
        return fd

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return self._asked(self._paths[fd], lambda: self._fs.pread(fd, size, offset))

    def unlink(self, path: str) -> None:
        """Refused: readers remove derived files that they cannot use."""
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def _asked(self, path: str, ask: Callable[[], _T]) -> _T:
        for wait_s in (*(() if path in self.refused else _WAITS_S), None):
            try:
                return ask()
            except FileNotFoundError:
                raise
            except OSError as error:
                if wait_s is None or isinstance(error, PermissionError):
                    self.refused[path] = error.strerror or os.strerror(error.errno or 0)
                    raise
                self._fs.sleep(wait_s)
        raise AssertionError("the last try returns or raises")
