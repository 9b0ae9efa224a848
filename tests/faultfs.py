"""The real file system, on which the n-th call goes wrong: once, or from then on.

Only what the machine can refuse counts as a call; clocks, randomness, the boot id and `close`, which by the
seam's contract reports nothing, do not. As with the kernel, a refused call has done nothing, but for a
short write, which has written half. `exists` has no way to say why, so where it fails it says no.
"""

import errno
import os
from typing import Any

from eventlog.base.fs import FileSystem

SHORT = -1  # in place of an errno: the write takes half of the bytes
ERRNOS = {name: getattr(errno, name) for name in ("EIO", "ENOSPC", "EINTR", "EACCES", "EMFILE")}
FAULTS = {**ERRNOS, "short": SHORT}

CALLS = (
    "open", "pread", "pwrite", "truncate", "fsync", "fdatasync", "fstat", "fchmod", "clone",
    "copy_range", "stat", "lstat", "exists", "listdir", "mkdir", "rmdir", "link", "rename", "unlink",
    "fsync_dir", "flock", "funlock",
)  # fmt: skip


class FaultFS(FileSystem):
    """Counts calls; the `nth` (from 0) fails with `fault`, and with `persistent` all that follow it."""

    def __init__(self, nth: int = -1, fault: int = 0, *, persistent: bool = False) -> None:
        self.nth = nth
        self.fault = fault
        self.persistent = persistent
        self.made: list[str] = []  # the names of the calls, in order
        self.open_fds: dict[int, str] = {}

    def heal(self) -> None:
        """Let nothing fail from here on."""
        self.nth = -1

    def close(self, fd: int) -> None:
        self.open_fds.pop(fd, None)
        super().close(fd)

    def _fails(self, name: str) -> bool:
        number = len(self.made)
        self.made.append(name)
        if self.nth < 0 or (self.fault == SHORT and name != "pwrite"):
            return False
        return number >= self.nth if self.persistent else number == self.nth


def _delegated(name: str) -> Any:
    real = getattr(FileSystem, name)

    def call(self: FaultFS, *args: Any, **options: Any) -> Any:
        if not self._fails(name):
            result = real(self, *args, **options)
            if name == "open":
                self.open_fds[result] = args[0]
            return result
        if self.fault == SHORT:
            fd, data, offset = args
            return real(self, fd, bytes(data)[: len(data) // 2], offset)
        if name == "exists":
            return False
        path = args[0] if args and isinstance(args[0], str) else None
        raise OSError(self.fault, os.strerror(self.fault), path)

    return call


for _name in CALLS:
    setattr(FaultFS, _name, _delegated(_name))
