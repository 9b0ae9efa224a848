"""A real disk that can lose its power: every change is made on the disk and on a `SimFS` beside it.

pyarrow and DuckDB read files by their paths, so a store that is asked SQL needs real files; what a
power cut leaves of them, the simulated machine knows. `Disk.cut_power` puts the files there that it
kept. What DuckDB writes past the seam is taken over when its file is synced or linked.

A `Process` is one process on the disk. It may be made to end before one of its next calls: that call
and all later ones raise `Died`, and `Disk.kill` frees its descriptors and locks as the kernel would.
Time, randomness and the boot id are the disk's own, so that a run replays. One thread at a time.
"""

import os
import shutil

from eventlog.base.fs import FileSystem
from tests.simfs import Choice, SimFS


class Died(BaseException):
    """The process was made to end here."""


class Disk:
    """The files below one directory, and the machine they are on."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.sim = SimFS()
        parts = root.strip("/").split("/")
        for i in range(len(parts)):
            self.sim.mkdir("/" + "/".join(parts[: i + 1]))
        self.sim.settle()
        self.clock_ns = 1_750_000_000_000_000_000
        self._processes: list[Process] = []

    def process(self) -> "Process":
        """A process that has just started."""
        process = Process(self)
        self._processes.append(process)
        return process

    def kill(self, process: "Process") -> None:
        """SIGKILL: descriptors and locks are gone, every written byte stays."""
        process.end()
        self._processes.remove(process)

    def cut_power(self, choice: Choice) -> None:
        """All processes end; of what was not synced `choice` says what stays."""
        while self._processes:
            self.kill(self._processes[-1])
        self.sim = self.sim.crash(choice)
        for name in os.listdir(self.root):
            shutil.rmtree(f"{self.root}/{name}")
        for path, data in sorted(self.sim.tree().items()):
            if not path.startswith(f"{self.root}/"):
                continue
            if data is None:
                os.mkdir(path, 0o700)
            else:
                with open(path, "xb") as file:
                    file.write(data)


class Process(FileSystem):
    """One process; see the module's docstring."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.calls_left: int | None = None  # end before the call that comes after so many
        self._fds: dict[int, int] = {}  # descriptor on the disk → that on the simulated machine
        self._dead = False

    def end(self) -> None:
        self._dead = True
        for fd, twin in self._fds.items():
            os.close(fd)
            self.disk.sim.close(twin)
        self._fds = {}

    def _step(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            self._dead = self._dead or self.calls_left < 0
        if self._dead:
            raise Died

    # -- descriptors -------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        self._step()
        fd = super().open(path, flags, mode)
        self._adopt(path)
        self._fds[fd] = self.disk.sim.open(path, flags & ~os.O_EXCL, mode)
        return fd

    def close(self, fd: int) -> None:
        self._step()
        self.disk.sim.close(self._fds.pop(fd))
        super().close(fd)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._step()
        return super().pread(fd, size, offset)

    def pwrite(self, fd: int, data: "bytes | memoryview", offset: int) -> int:
        self._step()
        self.disk.sim.pwrite(self._fds[fd], bytes(data), offset)
        return super().pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        self._step()
        self.disk.sim.truncate(self._fds[fd], size)
        super().truncate(fd, size)

    def fsync(self, fd: int) -> None:
        self._step()
        with open(f"/dev/fd/{fd}", "rb") as file:
            self._take_over(self._fds[fd], file.read())
        self.disk.sim.fsync(self._fds[fd])

    def fdatasync(self, fd: int) -> None:
        self._step()
        self.disk.sim.fdatasync(self._fds[fd])

    def fstat(self, fd: int) -> os.stat_result:
        self._step()
        return super().fstat(fd)

    def fchmod(self, fd: int, mode: int) -> None:
        self._step()
        super().fchmod(fd, mode)

    def clone(self, source: int, copy: int) -> None:
        self._step()
        super().clone(source, copy)

    def copy_range(self, source: int, copy: int, size: int, offset: int) -> int:
        self._step()
        return super().copy_range(source, copy, size, offset)

    # -- names -------------------------------------------------------------------------------------

    def stat(self, path: str) -> os.stat_result:
        self._step()
        return super().stat(path)

    def lstat(self, path: str) -> os.stat_result:
        self._step()
        return super().lstat(path)

    def exists(self, path: str) -> bool:
        self._step()
        return super().exists(path)

    def listdir(self, path: str) -> list[str]:
        self._step()
        return super().listdir(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        self._step()
        super().mkdir(path, mode)
        self.disk.sim.mkdir(path, mode)

    def rmdir(self, path: str) -> None:
        self._step()
        super().rmdir(path)
        if self.disk.sim.exists(path):
            self.disk.sim.rmdir(path)

    def link(self, source: str, target: str) -> None:
        self._step()
        super().link(source, target)
        self._adopt(source)
        self.disk.sim.link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)
        self.disk.sim.rename(source, target)

    def unlink(self, path: str) -> None:
        self._step()
        super().unlink(path)
        if self.disk.sim.exists(path):
            self.disk.sim.unlink(path)

    def fsync_dir(self, path: str) -> None:
        self._step()
        self.disk.sim.fsync_dir(path)

    # -- locks, time, randomness, boot -------------------------------------------------------------

    def flock(self, fd: int, exclusive: bool) -> bool:
        self._step()
        return super().flock(fd, exclusive)

    def funlock(self, fd: int) -> None:
        self._step()
        super().funlock(fd)

    def time_ns(self) -> int:
        self.disk.clock_ns += 1_000_000
        return self.disk.clock_ns

    def random_bytes(self, size: int) -> bytes:
        return self.disk.sim.random_bytes(size)

    def boot_id(self) -> bytes:
        return self.disk.sim.boot_id()

    # -- what others did past the seam -------------------------------------------------------------

    def _adopt(self, path: str) -> None:
        """Let the simulated machine know of a file that was made past the seam."""
        sim = self.disk.sim
        if not sim.exists(path) and os.path.isfile(path):
            fd = sim.open(path, os.O_RDWR | os.O_CREAT)
            with open(path, "rb") as file:
                self._take_over(fd, file.read())
            sim.close(fd)

    def _take_over(self, twin: int, data: bytes) -> None:
        """Bring a file of the simulated machine up to what the disk has."""
        sim = self.disk.sim
        size = sim.fstat(twin).st_size
        if size != len(data):
            sim.truncate(twin, len(data))
        if sim._described(twin).inode.data != data:
            descriptor = sim._described(twin)
            readable, descriptor.flags = descriptor.flags, os.O_RDWR
            sim.pwrite(twin, data, 0)
            descriptor.flags = readable
