"""What large files cost the hooks beside them: the slowest call, for which an agent waits longest."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random

from benchmarks.frame import TIME_UNIT, Bench, Row, Sides
from benchmarks.process import environment
from benchmarks.rows_hook import Desk
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.hooks import deferred_lists
from eventlog.log.acknowledged import read_note
from eventlog.log.journal_reading import journal_numbers
from eventlog.store import Store

_FILES = 40
_EDITS = 5
_LARGE = 6
_SMALL_BYTES, _LARGE_BYTES = 9_000_000, 90_000_000
_DISK_BYTES_PER_S = 60_000_000
_BUSY_S = 1.0
_BOUND_S = 0.5
_TINY_BYTES = 90
_PIECE = 1 << 20
_WAIT_S = 600

# Writes into a file a hundred times a second, as a database or a log does.
_WRITER = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY)
size = os.fstat(fd).st_size
for number in range(100_000):
    os.pwrite(fd, b"%d" % number, number * 4096 % size)
    time.sleep(0.01)
"""

# A hook whose syncs take so many seconds each, and as long as a disk of so many bytes a second would.
_SLOW_HOOK = """
import os, sys, time
from eventlog.base.fs import FileSystem
least, rate, written = float(sys.argv.pop(1)), float(sys.argv.pop(1)), 0
def pwrite(self, fd, data, offset, real=FileSystem.pwrite):
    global written
    written += len(data)
    return real(self, fd, data, offset)
def slow(real):
    def sync(self, fd):
        global written
        time.sleep(least + written / rate)
        written = 0
        return real(self, fd)
    return sync
FileSystem.pwrite = pwrite
FileSystem.fsync, FileSystem.fdatasync = slow(FileSystem.fsync), slow(FileSystem.fdatasync)
from locus_cli.hook_entry import main
main()
"""


def rows() -> list[Row]:
    none = "the hooks sync journal and packs, on both sides alike"
    return [
        Row(
            "hook-new-large",
            f"the slowest of {_EDITS + 1} hook calls, {_LARGE} new large files beside the edits",
            "the same beside small ones",
            TIME_UNIT,
            none,
            _new_large,
        ),
        Row(
            "hook-being-written",
            f"the slowest of {_EDITS + 1} hook calls, a large file being written all the time",
            "the same, nobody writing",
            TIME_UNIT,
            none,
            _being_written,
        ),
        Row(
            "hook-slow-disk",
            f"`hook-new-large`, syncs of the hooks as on a disk of {_DISK_BYTES_PER_S // 10**6} MB/s",
            "the same beside small ones",
            TIME_UNIT,
            none,
            _slow_disk,
        ),
        Row(
            "hook-busy-disk",
            f"the slowest of {_EDITS + 1} hook calls, each sync of the hooks takes {_BUSY_S:g} s",
            f"the bound: {_BOUND_S:g} s",
            TIME_UNIT,
            "the hooks sync journal and packs, after the end of the call",
            _busy_disk,
        ),
    ]


class LargeDesk(Desk):
    """A desk at which large files come and go; between samples it waits for the process that stores them."""

    def __init__(self, directory: str, seed: int, *, slow: bool = False, sync_s: float = 0.0) -> None:
        os.makedirs(directory)
        super().__init__(directory, seed, _FILES)
        self._data = Random(seed).randbytes(_PIECE)
        if slow:
            python = f"{sys.executable} -c '{_SLOW_HOOK}'"
            self.line = f"{python} {sync_s} {_DISK_BYTES_PER_S} claude-code"

    def fill(self, size: int) -> None:
        """New files, none like another."""
        for number in range(_LARGE):
            self.write(f"{self.root}/large{number}.bin", size, number)

    def write(self, path: str, size: int, mark: int) -> None:
        with open(path, "wb") as file:
            file.write(b"%d %d\n" % (mark, time.time_ns()))
            for at in range(0, size, _PIECE):
                file.write(self._data[: min(_PIECE, size - at)])

    def slowest(self) -> float:
        """A shell call, and edits: the longest of their hooks."""
        return max([self.shell(changed=False), *(self.edit() for _ in range(_EDITS))])

    def settle(self) -> None:
        """Wait for the process beside the hooks, and take the files away."""
        layout = Layout(f"{self.root}/.locus")
        until = time.monotonic() + _WAIT_S
        while (
            deferred_lists.worktrees_with_open_lists(REAL, layout)
            or deferred_lists.is_being_done(REAL, layout)
            or self._syncs(layout)
        ):
            if time.monotonic() > until:
                raise RuntimeError("the contents were not stored in time")
            time.sleep(0.05)
        for number in range(_LARGE):
            if os.path.exists(f"{self.root}/large{number}.bin"):
                os.unlink(f"{self.root}/large{number}.bin")
        self.shell(changed=False)

    def _syncs(self, layout: Layout) -> bool:
        """Whether something that was appended is not acknowledged yet."""
        with Store.open(layout.root) as store:
            number = max(journal_numbers(store.files))
            return read_note(store.files, number) != store.journal.next_position()

    def sample(self, size: int) -> float:
        self.fill(size)
        took = self.slowest()
        self.settle()
        return took


@contextmanager
def _beside_large(bench: Bench, *, slow: bool) -> Iterator[Sides]:
    size = bench.pick(_SMALL_BYTES, _LARGE_BYTES)
    with bench.scratch("hook-large-files") as directory:
        ours, anchor = (
            LargeDesk(f"{directory}/{name}", bench.seed, slow=slow) for name in ("ours", "anchor")
        )
        yield Sides(
            ours=lambda: ours.sample(size),
            anchor=lambda: anchor.sample(_TINY_BYTES),
            size=f"{_LARGE} files of {size // 10**6} MB, {_EDITS + 1} calls a sample",
            rounds=bench.pick(3, 5),
        )


def _new_large(bench: Bench) -> AbstractContextManager[Sides]:
    return _beside_large(bench, slow=False)


@contextmanager
def _busy_disk(bench: Bench) -> Iterator[Sides]:
    with bench.scratch("hook-busy-disk") as directory:
        desk = LargeDesk(f"{directory}/ours", bench.seed, slow=True, sync_s=_BUSY_S)
        yield Sides(
            ours=lambda: desk.sample(_TINY_BYTES),
            anchor=lambda: _BOUND_S,
            size=f"{_LARGE} new files, {_EDITS + 1} calls a sample",
            rounds=bench.pick(2, 5),
            warm_up=False,
        )


def _slow_disk(bench: Bench) -> AbstractContextManager[Sides]:
    return _beside_large(bench, slow=True)


@contextmanager
def _being_written(bench: Bench) -> Iterator[Sides]:
    size = bench.pick(_SMALL_BYTES, _LARGE_BYTES)
    with bench.scratch("hook-being-written") as directory:
        ours, anchor = (LargeDesk(f"{directory}/{name}", bench.seed) for name in ("ours", "anchor"))

        def beside_a_writer() -> float:
            path = f"{ours.root}/large0.bin"
            ours.write(path, size, 0)
            command = [sys.executable, "-c", _WRITER, path]
            writer = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL)
            try:
                took = ours.slowest()
            finally:
                writer.terminate()
                writer.wait()
            ours.settle()
            return took

        yield Sides(
            ours=beside_a_writer,
            anchor=lambda: anchor.sample(_TINY_BYTES),
            size=f"a file of {size // 10**6} MB, {_EDITS + 1} calls a sample",
            rounds=bench.pick(3, 5),
        )
