"""A process that appends: `python -m benchmarks.appender SIDE PATH --batch N --number I --seed S`.

It says "ready", then for every line "SECONDS" on its input appends durable batches for that long and
answers with one line of JSON: how many events, when it began and ended on the clock that all processes
of the machine share, and the time within which 99 of 100 batches were durable. It ends with its input.

Both sides get the same events as Python dicts with fresh event ids, encode them, and wait until the
batch is on disk; contents that events name are in the store before. Sides:
- locus: `Store.append`.
- locus-without-note: the same, and nobody writes down what was acknowledged (docs/positions.md).
- locus-without-checks: the same, and no value and no content is checked (docs/appending.md).
- raw: one write and one sync into room that is there already, of as many bytes: what no append can beat.
- sqlite: a table of position, unique event id and the encoded event: the least that gives every event
  a place and takes none twice.
- sqlite-columns: a table with a column for every field of an event, which SQL can ask for at once, as
  it can in Locus.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.workload import generate, with_stored_contents
from eventlog import Store
from eventlog.base.types import COLUMN_NAMES, Event

_POOL_EVENTS = 4_000
_ROOM_BYTES = 4 << 20
Append = Callable[[list[Event]], object]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=tuple(SIDES))
    parser.add_argument("path")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    append = SIDES[options.side](options.path)
    events = generate(options.seed, max(_POOL_EVENTS, options.batch))
    if options.side.startswith("locus"):
        with Store.open(options.path) as store:
            events = with_stored_contents(store, events)
    batches = Batches(events, options.number, options.batch)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(append_for(float(line), append, batches)), flush=True)


class Batches:
    """Batches of one writer: the events over and over, each time with ids never used before."""

    def __init__(self, events: list[Event], number: int, size: int) -> None:
        self._events = events
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
    took = []
    start = now = time.monotonic()
    while now - start < seconds:
        batch = batches.next()
        before = time.monotonic()
        append(batch)
        now = time.monotonic()
        took.append(now - before)
        count += len(batch)
    return {"events": count, "start": start, "end": now, "p99": sorted(took)[len(took) * 99 // 100]}


def locus_append(path: str) -> Append:
    return Store.open(path).append


def locus_without_note_append(path: str) -> Append:
    from eventlog.log.acknowledged import Note

    Note.raise_to = lambda *_: None
    return locus_append(path)


def locus_without_checks_append(path: str) -> Append:
    from eventlog.base import jsontext
    from eventlog.log import admission
    from eventlog.log.line import encode_line

    def encode(named: object, event: Event) -> bytes:  # noqa: ARG001
        return encode_line(event, jsontext.encode_fast, jsontext.encode_without_floats)

    admission._encode = encode
    return locus_append(path)


def raw_append(path: str) -> Append:
    """Overwrites room, as a journal and a write-ahead log do, so that a sync writes only data."""
    from benchmarks.rows_append import raw_block

    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.pwrite(fd, bytes(_ROOM_BYTES), 0)
    os.fsync(fd)
    offset = 0

    def append(events: list[Event]) -> None:
        nonlocal offset
        block = raw_block(1, len(events))
        offset = offset if offset + len(block) <= _ROOM_BYTES else 0
        os.pwrite(fd, block, offset)
        os.fdatasync(fd)
        offset += len(block)

    return append


def sqlite_append(path: str) -> Append:
    import orjson

    connection = sqlite_open(
        path, "position INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, event BLOB NOT NULL"
    )
    return _inserting(
        connection,
        "INSERT INTO events(event_id, event) VALUES (?, ?)",
        lambda event: (event["event_id"], orjson.dumps(event)),
    )


def sqlite_columns_append(path: str) -> Append:
    import orjson

    names = [name for name in COLUMN_NAMES if name != "position"]
    quoted = [f'"{name}"' for name in names]
    connection = sqlite_open(path, f"position INTEGER PRIMARY KEY, {', '.join(quoted)}, UNIQUE (event_id)")

    def row(event: Event) -> list[object]:
        values = map(event.get, names)
        return [orjson.dumps(value) if isinstance(value, (dict, list)) else value for value in values]

    marks = ", ".join("?" * len(names))
    return _inserting(connection, f"INSERT INTO events({', '.join(quoted)}) VALUES ({marks})", row)


def _inserting(
    connection: sqlite3.Connection, statement: str, row: Callable[[Event], Sequence[object]]
) -> Append:
    def append(events: list[Event]) -> None:
        if len(events) == 1:
            connection.execute(statement, row(events[0]))
            return
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(statement, [row(event) for event in events])
        connection.execute("COMMIT")

    return append


def sqlite_open(path: str, columns: str) -> sqlite3.Connection:
    """A database as durable as a journal: its write-ahead log is synced at every commit."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"CREATE TABLE IF NOT EXISTS events({columns})")
    return connection


SIDES: dict[str, Callable[[str], Append]] = {
    "locus": locus_append,
    "locus-without-note": locus_without_note_append,
    "locus-without-checks": locus_without_checks_append,
    "raw": raw_append,
    "sqlite": sqlite_append,
    "sqlite-columns": sqlite_columns_append,
}


if __name__ == "__main__":
    main()
