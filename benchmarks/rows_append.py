"""Durable appends: our journal against SQLite's write-ahead log, by 1, 4 and 16 processes, and in batches.

The processes live through the whole row, so that neither side pays for starting them. A raw write and
fdatasync of as many bytes, by one process alone, is printed beside: no durable append can be faster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from statistics import median

from benchmarks.frame import RATE_UNIT, Bench, Row, Sides
from benchmarks.process import environment
from benchmarks.workload import generate
from eventlog import Store
from eventlog.log.line import encode_line

_DURABILITY = "both: every acknowledged batch synced (fdatasync of the journal / WAL with synchronous=FULL)"


def rows() -> list[Row]:
    return [
        Row(
            name="append-raw",
            work="a write and a sync of as many bytes as an event has, into room, 1 process",
            anchor="SQLite WAL synchronous=FULL, events of that size",
            unit=RATE_UNIT,
            durability="both: every block synced (fdatasync / WAL with synchronous=FULL)",
            prepare=partial(_appends, writers=1, batch=1, side="raw"),
        ),
        *(
            Row(
                name=f"append-{writers}",
                work=f"durable append, {writers} process{'es' if writers > 1 else ''}",
                anchor="SQLite WAL synchronous=FULL, same events",
                unit=RATE_UNIT,
                durability=_DURABILITY,
                prepare=partial(_appends, writers=writers, batch=1),
            )
            for writers in (1, 4, 16)
        ),
        *(
            Row(
                name=f"append-note-{writers}",
                work=f"durable append with a note of it, {writers} process{'es' if writers > 1 else ''}",
                anchor="the same without the note",
                unit=RATE_UNIT,
                durability=_DURABILITY,
                prepare=partial(_without, what="note", writers=writers),
            )
            for writers in (1, 16)
        ),
        Row(
            name="append-checks",
            work="durable append, its values and contents checked",
            anchor="the same without these checks",
            unit=RATE_UNIT,
            durability=_DURABILITY,
            prepare=partial(_without, what="checks", writers=1),
        ),
        Row(
            name="batch-1000",
            work="durable batches of 1,000 events",
            anchor="SQLite WAL synchronous=FULL, same batches, a column for each field",
            unit=RATE_UNIT,
            durability=_DURABILITY,
            prepare=partial(_appends, writers=1, batch=1_000),
        ),
    ]


@contextmanager
def _appends(bench: Bench, writers: int, batch: int, side: str = "locus") -> Iterator[Sides]:
    # Long enough that a sample holds many batches and, of many writers, many turns of each.
    seconds = bench.pick(1, 4) * (0.7 if writers > 1 else 0.25 if batch == 1 else 0.5)
    with bench.scratch("append") as directory, ExitStack() as stack:
        Store.init(f"{directory}/store")

        def writing(side: str, name: str) -> Writers:
            return stack.enter_context(Writers(side, f"{directory}/{name}", writers, batch, bench.seed))

        # A batch is judged beside a table that can be asked for every field of an event, as the log
        # can. For single events the sync outweighs that, and the least table is the harder anchor.
        judged, other = ("sqlite", "sqlite-columns") if batch == 1 else ("sqlite-columns", "sqlite")
        ours, anchor = (
            writing(side, "store" if side == "locus" else side),
            writing(judged, f"{judged}.sqlite"),
        )
        raw = raw_block(bench.seed, batch)
        beside = {"sync ms": lambda: raw_sync_ms(directory, raw, bench.pick(100, 400))}
        if batch > 1:
            least = writing(other, f"{other}.sqlite")
            beside["SQLite with one opaque value per event, events/s"] = lambda: least.rate(seconds)
        yield Sides(
            ours=lambda: ours.rate(seconds),
            anchor=lambda: anchor.rate(seconds),
            beside=beside,
            facts={"raw bytes": len(raw)},
            size=f"{writers} × {seconds:g} s, batches of {batch:,}",
        )


@contextmanager
def _without(bench: Bench, what: str, writers: int) -> Iterator[Sides]:
    """What a step of the protocol costs: each side has a store and processes of its own."""
    seconds = bench.pick(1, 4) * (0.7 if writers > 1 else 0.25)
    with bench.scratch("append") as directory, ExitStack() as stack:
        sides = []
        for side in ("locus", f"locus-without-{what}"):
            Store.init(f"{directory}/{side}")
            sides.append(stack.enter_context(Writers(side, f"{directory}/{side}", writers, 1, bench.seed)))
        ours, anchor = sides
        yield Sides(
            ours=lambda: ours.rate(seconds),
            anchor=lambda: anchor.rate(seconds),
            size=f"{writers} × {seconds:g} s",
        )


class Writers:
    """The appending processes of one side."""

    def __init__(self, side: str, path: str, writers: int, batch: int, seed: int) -> None:
        command = [sys.executable, "-m", "benchmarks.appender", side, path]
        command += ["--batch", str(batch), "--seed", str(seed)]
        self._processes = [
            subprocess.Popen(
                [*command, "--number", str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment(),
            )
            for number in range(writers)
        ]

    def __enter__(self) -> Writers:
        for process in self._processes:
            self._read(process)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            try:
                process.wait(60)
            finally:
                process.kill()
                assert process.stdout is not None
                process.stdout.close()

    def rate(self, seconds: float) -> float:
        """Acknowledged events per second of all processes together, from the first start to the last end."""
        reported = self._append_for(seconds)
        took = max(one["end"] for one in reported) - min(one["start"] for one in reported)
        return float(sum(one["events"] for one in reported) / took)

    def p99(self, seconds: float) -> float:
        """The time within which 99 of 100 batches were durable, in seconds; of the slowest process."""
        return max(float(one["p99"]) for one in self._append_for(seconds))

    def _append_for(self, seconds: float) -> list[dict[str, float]]:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        return [json.loads(self._read(process)) for process in self._processes]

    def _read(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"an appending process ended with code {process.wait()}: {process.args!r}")
        return line


@cache
def raw_block(seed: int, batch: int) -> bytes:
    """As many bytes as an average batch of the workload has lines."""
    lines = [encode_line(event) for event in generate(seed, 2_000)]
    return b"x" * (sum(map(len, lines)) * batch // len(lines))


def raw_sync_ms(directory: str, block: bytes, count: int) -> float:
    """The median time of one write and fdatasync at the end of a growing file."""
    path = f"{directory}/raw"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    times = []
    try:
        for _ in range(count if len(block) < 100_000 else count // 10):
            start = time.perf_counter()
            os.write(fd, block)
            os.fdatasync(fd)
            times.append(time.perf_counter() - start)
    finally:
        os.close(fd)
        os.unlink(path)
    return median(times) * 1000
