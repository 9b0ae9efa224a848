"""The frame of a benchmark: a row, its two sides, how they are sampled and what becomes of the samples.

A row measures our side and its anchor alternately, A B A B, after one round that is dropped, so that
whatever else the machine does hits both. It reports medians, never single runs or averages.

`ratio` is always `ours / anchor` of the medians, in the row's unit. Where the unit is a rate
("events/s") more is better and the reach is a lower bound; where it is a time ("s") less is better
and the reach is an upper bound. Nothing in this module knows what is measured.

A missed reach is noise where a pair of neighbouring samples meets it, and real where none does. Where pairs
differ about it, the row is sampled once more. A row that depends on the size of the log has an exponent: of
two logs, one ten times as large as the other.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

SCALES = ("small", "full")
RATE_UNIT = "events/s"
TIME_UNIT = "s"
MEMORY_UNIT = "MB"  # 10^6 bytes; less is better
BYTES_UNIT = "bytes"
REQUESTS_UNIT = "requests"

_ROUNDS = {"small": 5, "full": 9}

# A whole run is to end about now. On a machine that is busy with other things each row gets its share
# of the time left, and stops early: after three rounds, so that one wild sample does not decide the
# median, or after two when the run is late already.
RUN_S = {"small": 150.0, "full": 3_600.0}
_ROUNDS_LEAST, _ROUNDS_LATE = 3, 2

_TIMES = 10  # between the two sizes of a row that depends on the log


class NotRunnable(Exception):
    """A row cannot run on this machine; the message is the reason that the report gives."""


Sample = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Sides:
    """What a prepared row measures. Each call does the work once and returns the value in the row's unit.

    A sample times only what its user would wait for; it undoes or copies its input outside of that.
    """

    ours: Sample
    anchor: Sample
    size: str  # the amount of work in words, "300,000 events in 100 segments"
    beside: Mapping[str, Sample] = field(default_factory=dict)  # printed next to the row, not judged
    facts: Mapping[str, float | str] = field(default_factory=dict)  # known without measuring
    rounds: int | None = None  # where a sample is dear, or especially cheap
    warm_up: bool = True  # False where a sample takes seconds, in which cold caches are lost
    times_larger: float | None = None  # where the anchor is the same work in a log this much smaller


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    work: str
    anchor: str
    unit: str
    durability: str  # what both sides do to make their result last, in words
    prepare: Callable[[Bench], AbstractContextManager[Sides]]
    of_log: bool = False  # depends on the size of the log: measured at a tenth of it as well


@dataclass(frozen=True, slots=True)
class Reach:
    """The value of `reach.toml` for one row at one scale."""

    value: float
    at_least: bool

    def met(self, ratio: float) -> bool:
        return ratio >= self.value if self.at_least else ratio <= self.value

    def text(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.value:g}"


class Bench:
    """One run: its scale, its seed, its directory, and the inputs that several rows share."""

    def __init__(
        self,
        scale: str,
        seed: int,
        directory: str,
        repo: str | None = None,
        transcripts: str | None = None,
        repos: str | None = None,
        events: int | None = None,
    ) -> None:
        self.scale = scale
        self.seed = seed
        self.directory = directory
        self.repo = repo
        self.transcripts = transcripts
        self.repos = repos
        self.events = events
        self._shared: dict[str, Any] = {}

    @property
    def small(self) -> bool:
        return self.scale == "small"

    @property
    def log_events(self) -> int:
        """Events of the large logs."""
        return self.events or self.pick(300_000, 3_000_000)

    def tenth(self) -> Bench:
        """The same run with large logs of a tenth of the events, with inputs of its own."""

        def make() -> Bench:
            events = self.log_events // _TIMES
            options = self.repo, self.transcripts, self.repos
            return Bench(self.scale, self.seed, self.new_directory("tenth"), *options, events)

        made = self.shared("tenth", make)
        assert isinstance(made, Bench)
        return made

    def pick(self, small: int, full: int) -> int:
        return small if self.small else full

    def shared(self, key: str, build: Callable[[], Any]) -> Any:
        """An input built once for all rows that want it; it lives as long as the run."""
        if key not in self._shared:
            self._shared[key] = build()
        return self._shared[key]

    def new_directory(self, name: str) -> str:
        """An empty directory that lives as long as the run."""
        return tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory)

    @contextmanager
    def scratch(self, name: str) -> Iterator[str]:
        """An empty directory that lives as long as the row."""
        path = self.new_directory(name)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def load_reach(path: str) -> dict[str, dict[str, Any]]:
    """The table of reach values: row name → its entry, checked for shape."""
    with open(path, "rb") as file:
        table = tomllib.load(file)
    for name, entry in table.items():
        if entry.get("better") not in ("more", "less"):
            raise ValueError(f'{path}: [{name}] needs better = "more" or "less"')
        for scale in SCALES:
            if not isinstance(entry.get(scale), (int, float)):
                raise ValueError(f"{path}: [{name}] has no number for {scale}")
    return table


def reach_of(entry: Mapping[str, Any], scale: str, sync_ms: float | None = None) -> Reach:
    """The reach of a table entry; where the entry asks for more on slow disks, `sync_ms` decides."""
    value = entry[scale]
    slow = entry.get("slow_sync")
    if slow is not None and sync_ms is not None and sync_ms >= slow["from_ms"]:
        value = slow[scale]
    return Reach(float(value), entry["better"] == "more")


def run_row(
    row: Row, bench: Bench, reach_entry: Mapping[str, Any], budget_s: float = math.inf
) -> dict[str, Any]:
    """Measure one row. A row that cannot run comes back with the reason instead of figures.

    Args: budget_s: stop sampling early when the row, its preparation included, has taken this long.
    """
    began = time.monotonic()
    result: dict[str, Any] = {
        "name": row.name,
        "work": row.work,
        "scale": bench.scale,
        "size": None,
        "anchor": row.anchor,
        "ours": None,
        "anchor_value": None,
        "unit": row.unit,
        "ratio": None,
        "better": reach_entry["better"],
        "reach": reach_of(reach_entry, bench.scale).value,
        "met": None,
        "miss": None,  # "noise" or "real" where the reach is missed
        "exponent": None,  # of what it costs, as the log grows: 0 is none, 1 as the log does
        "tenth": None,  # the figures of a row `of_log` at a tenth of the size
        "durability": row.durability,
        "not_run": None,
        "prepared_s": None,  # of `took_s`, which is what the whole row took
        "took_s": None,
    }
    try:
        result |= _measured(row, bench, reach_entry, began, budget_s)
        if row.of_log:
            smaller = _measured(row, bench.tenth(), reach_entry, time.monotonic(), budget_s)
            result["tenth"] = {name: smaller[name] for name in ("size", "ours", "anchor_value", "ratio")}
            result["exponent"] = exponent(row.unit, smaller["ours"], result["ours"], _TIMES)
    except NotRunnable as error:
        result["not_run"] = str(error)
    except Exception as error:  # a failing row must not hide the others; --strict makes it count
        result["not_run"] = f"failed: {type(error).__name__}: {error}"
    result["took_s"] = round(time.monotonic() - began, 2)
    return result


def _measured(
    row: Row, bench: Bench, reach_entry: Mapping[str, Any], began: float, budget_s: float
) -> dict[str, Any]:
    """The figures of a row. Where pairs of samples differ about its reach, it is sampled once more."""
    with ExitStack() as stack:
        sides = stack.enter_context(row.prepare(bench))
        prepared_s = round(time.monotonic() - began, 2)
        samples = _sample(sides, bench.scale, began + budget_s)
        figures = summarize(samples, sides, reach_entry, bench.scale)
        if figures["is_noisy"] and time.monotonic() < began + budget_s:
            again = _sample(replace(sides, warm_up=False), bench.scale, began + budget_s)
            samples = {name: samples[name] + again[name] for name in samples}
            figures = summarize(samples, sides, reach_entry, bench.scale)
    if sides.times_larger is not None:
        figures["exponent"] = math.log(figures["ratio"], sides.times_larger)
    return figures | {"size": sides.size, "prepared_s": prepared_s}


def exponent(unit: str, smaller: float, larger: float, times: float) -> float:
    """How the cost of a row grows with a log that is so many times as large: 1 is as the log does."""
    grown = math.log(larger / smaller, times)
    return 1 - grown if unit == RATE_UNIT else grown


def _sample(sides: Sides, scale: str, stop_at: float) -> dict[str, list[float]]:
    """All samples by name: "ours", "anchor", and what is printed beside them."""
    measures = {"ours": sides.ours, "anchor": sides.anchor, **sides.beside}
    samples: dict[str, list[float]] = {name: [] for name in measures}
    rounds = sides.rounds or _ROUNDS[scale]
    least = _ROUNDS_LEAST if time.monotonic() < stop_at else _ROUNDS_LATE
    for number in range(0 if sides.warm_up else 1, rounds + 1):
        if number > least and time.monotonic() > stop_at:
            break
        for name, measure in measures.items():
            os.sync()  # the dirty pages of one side must not be written in the other's time
            value = measure()
            if number:  # round 0 warms caches and is dropped
                samples[name].append(value)
    return samples


def summarize(
    samples: Mapping[str, Sequence[float]], sides: Sides, reach_entry: Mapping[str, Any], scale: str
) -> dict[str, Any]:
    """Medians, spreads, ratio and verdict of the samples of one row."""
    ours, anchor = median(samples["ours"]), median(samples["anchor"])
    ratio = ours / anchor
    pairs = [a / b for a, b in zip(samples["ours"], samples["anchor"], strict=True)]
    beside: dict[str, Any] = {name: median(samples[name]) for name in sides.beside}
    beside |= sides.facts
    reach = reach_of(reach_entry, scale, beside.get("sync ms"))
    met, verdicts = reach.met(ratio), {reach.met(pair) for pair in pairs}
    return {
        "ours": ours,
        "anchor_value": anchor,
        "ratio": ratio,
        "reach": reach.value,
        "met": met,
        "miss": None if met else "noise" if True in verdicts else "real",
        "is_noisy": len(verdicts) > 1,
        "rounds": len(pairs),
        "ours_spread": spread(samples["ours"]),
        "anchor_spread": spread(samples["anchor"]),
        "ratio_spread": spread(pairs),
        "beside": beside,
    }


def spread(values: Sequence[float]) -> list[float]:
    """[least, greatest]."""
    return [min(values), max(values)]
