"""What a publication to a lake costs after many: requests and bytes, as the storage counts them.

The storage is the S3 server of `scripts/lake-services`, in a process of its own on loopback. Costs of real
storages are per request and byte; seconds would be those of the server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from unittest.mock import patch
from urllib.request import Request, urlopen

from benchmarks.frame import BYTES_UNIT, REQUESTS_UNIT, Bench, NotRunnable, Row, Sides
from benchmarks.stores import fill
from benchmarks.workload import Blocks
from eventlog import Store

_SERVICES = Path(__file__).parents[1] / "scripts/lake_services.py"
_EVENTS = 10  # in each publication
_MARKS = (1, 10, 100, 1_000)


def rows() -> list[Row]:
    return [
        Row(
            name=name,
            work=f"{what} of a publish of ten events to S3 after a hundred others (full scale: a thousand)",
            anchor="the same of a store's second publish",
            unit=unit,
            durability="both sync the journal before",
            prepare=prepare,
        )
        for name, what, unit, prepare in (
            ("publish-requests", "requests", REQUESTS_UNIT, _requests),
            ("publish-bytes", "bytes sent and received", BYTES_UNIT, _bytes),
        )
    ]


@dataclass
class Publishers:
    """Two stores: one with many publications, one with few, and what the storage counted at some of them."""

    directory: str
    endpoint: str
    lines: Iterator[bytes]
    publications: int
    numbers: Iterator[int] = field(default_factory=count)
    facts: dict[str, float | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in range(1, self.publications + 1):
            requests, size = self.publish("many")
            if number in _MARKS:
                self.facts[f"requests at {number:,}"] = requests
                self.facts[f"bytes at {number:,}"] = size

    def second(self) -> tuple[float, float]:
        """What the second publish of a new store cost."""
        name = f"few-{next(self.numbers)}"
        self.publish(name)
        return self.publish(name)

    def publish(self, name: str) -> tuple[float, float]:
        """Record events and publish them: the requests that this took, and the bytes both ways."""
        from eventlog.lake.place import open_place
        from eventlog.lake.policy import Policy
        from eventlog.lake.publish import publish

        path = f"{self.directory}/{name}"
        with Store.open(path) if os.path.exists(path) else Store.init(path) as store:
            fill(store, self.lines, _EVENTS)
            counted(self.endpoint, "reset", {})
            publish(store, open_place(f"s3://lake/{name}"), Policy(), agreed=True)
        counts = counted(self.endpoint)
        return float(sum(counts.requests.values())), float(counts.received + counts.sent)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a storage counted: requests by kind, and the bytes of bodies that it received and sent."""

    requests: dict[str, int]
    received: int
    sent: int


def counted(endpoint: str, word: str = "counts", value: object = None) -> Counts:
    """What the server counted since the last reset; `reset`, with a value, counts from zero again."""
    data = None if value is None else json.dumps(value).encode()
    with urlopen(Request(f"{endpoint}/-/{word}", data=data), timeout=60) as answer:
        counts = json.load(answer)
    return Counts(counts["requests"], counts["received"], counts["sent"])


def _requests(bench: Bench) -> AbstractContextManager[Sides]:
    return _sides(bench, 0)


def _bytes(bench: Bench) -> AbstractContextManager[Sides]:
    return _sides(bench, 1)


@contextmanager
def _sides(bench: Bench, index: int) -> Iterator[Sides]:
    missing = [name for name in ("obstore", "moto") if find_spec(name) is None]
    if missing:
        raise NotRunnable(f"the extras lake and lake-tests are not installed: {', '.join(missing)}")
    with bench.scratch("lake") as directory, server() as settings, patch.dict(os.environ, settings):
        lines = Blocks(bench.seed, 5_000).lines()
        many = bench.pick(100, 1_000)
        publishers = Publishers(directory, settings["AWS_ENDPOINT_URL"], lines, many)
        yield Sides(
            ours=lambda: publishers.publish("many")[index],
            anchor=lambda: publishers.second()[index],
            size=f"{many:,} publications of {_EVENTS} events",
            facts=publishers.facts,
            rounds=bench.pick(3, 5),
        )


@contextmanager
def server() -> Iterator[dict[str, str]]:
    """The settings of an S3 server, as long as the block runs."""
    command = [sys.executable, str(_SERVICES), "--s3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "ready\n")
            yield dict(line.rstrip("\n").split("=", 1) for line in lines)
        finally:
            process.terminate()
