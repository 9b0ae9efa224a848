"""A process that appends: `python -m benchmarks.appender {locus,sqlite} PATH --batch N --number I --seed S`.

It says "ready", then for every line "SECONDS" on its input appends durable batches for that long and
answers with one line of JSON: how many events, and when it began and ended on the clock that all
processes of the machine share. It ends with its input.

Both sides get the same events as Python dicts with fresh event ids, encode them, and wait until the
batch is on disk. SQLite keeps the encoded event in a table without any further index, the least that
still gives each event its position.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable

from benchmarks.workload import generate
from eventlog.types import Event

_POOL_EVENTS = 4_000
Append = Callable[[list[Event]], object]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=("locus", "sqlite"))
    parser.add_argument("path")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    append = locus_append(options.path) if options.side == "locus" else sqlite_append(options.path)
    batches = Batches(options.seed, options.number, options.batch)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(append_for(float(line), append, batches)), flush=True)


class Batches:
    """Batches of one writer: the seed's events over and over, each time with ids never used before."""

    def __init__(self, seed: int, number: int, size: int) -> None:
        self._events = generate(seed, max(_POOL_EVENTS, size))
        self._prefix = f"{os.getpid() & 0xFFFFFFFF:08x}{number & 0xFFFF:04x}"
        self._size = size
        self._given = 0

    def next(self) -> list[Event]:
        batch = []
        for _ in range(self._size):
            event = self._events[self._given % len(self._events)].copy()
            event["event_id"] = f"{self._prefix}{self._given:020x}"
            self._given += 1
            batch.append(event)
        return batch


def append_for(seconds: float, append: Append, batches: Batches) -> dict[str, float]:
    """Append until the time is up; the last batch counts with all of its time."""
    count = 0
    start = now = time.monotonic()
    while now - start < seconds:
        batch = batches.next()
        append(batch)
        count += len(batch)
        now = time.monotonic()
    return {"events": count, "start": start, "end": now}


def locus_append(path: str) -> Append:
    from eventlog import Store

    return Store.open(path).append


def sqlite_append(path: str) -> Append:
    """SQLite as durable as ours: its write-ahead log is synced at every commit."""
    import orjson

    connection = sqlite_open(path)

    def append(events: list[Event]) -> None:
        rows = [(orjson.dumps(event),) for event in events]
        if len(rows) == 1:
            connection.execute("INSERT INTO events(event) VALUES (?)", rows[0])
        else:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO events(event) VALUES (?)", rows)
            connection.execute("COMMIT")

    return append


def sqlite_open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS events(position INTEGER PRIMARY KEY, event BLOB NOT NULL)")
    return connection


if __name__ == "__main__":
    main()
