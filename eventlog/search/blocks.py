"""Facts of the events in an index besides their words: enough to rank and to filter them.

A row of `events` holds some thousand events as columns of numbers, compressed together: a row for each would
be as large as its words.
"""

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

TYPE, SESSION, PATH = 1, 2, 3  # kinds of names

_COLUMNS = 5  # of the facts of a block

# An unknown time.
_NEVER = -(1 << 63)


@dataclass
class Block:
    """Events in order. `sizes` counts words; types, sessions and paths are numbers of names, 0 for none."""

    positions: "array[int]" = field(default_factory=lambda: array("q"))
    sizes: "array[int]" = field(default_factory=lambda: array("I"))
    types: "array[int]" = field(default_factory=lambda: array("I"))
    sessions: "array[int]" = field(default_factory=lambda: array("I"))
    paths: "array[int]" = field(default_factory=lambda: array("I"))
    times: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, position: int, size: int, kind: int, session: int, path: int, time: "int | None") -> None:
        self.positions.append(position)
        self.sizes.append(size)
        self.types.append(kind)
        self.sessions.append(session)
        self.paths.append(path)
        self.times.append(_NEVER if time is None else time)

    def write(self, con: sqlite3.Connection) -> None:
        """Write it to the table `events`."""
        if not self.positions:
            return
        first, last = self.positions[0], self.positions[-1]
        offsets = array("I", (position - first for position in self.positions))
        facts = b"".join(map(array.tobytes, (offsets, self.sizes, self.types, self.sessions, self.paths)))
        con.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
            [first, last, max(self.times), _packed(facts), _packed(_differences(self.times).tobytes())],
        )


class Blocks:
    """The events of an index, read as they are asked for."""

    def __init__(self, con: sqlite3.Connection) -> None:
        self._con = con
        self._read: dict[int, pa.RecordBatch] = {}
        self._times_read: dict[int, pa.Array] = {}

    @cached_property
    def _spans(self) -> "list[tuple[int, int]]":
        return self._con.execute("SELECT first, last FROM events ORDER BY first").fetchall()

    def rows(self, positions: "pa.Int64Array", *, times: bool = False) -> "pa.Table":
        """`position`, `size`, `type`, `session` and `path` of ascending positions, with `times` also `time`;
        nothing for those in no block.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        firsts = list(self._firsts_of(positions))
        table = pa.Table.from_batches(map(self._block, firsts), _schema())
        if times:
            table = table.append_column("time", pa.chunked_array(map(self._times, firsts), pa.int64()))
        at = pc.index_in(positions, value_set=table["position"].combine_chunks())
        return table.take(at.drop_null())

    def _firsts_of(self, positions: "pa.Int64Array") -> "Iterator[int]":
        """The blocks that may hold some of the positions."""
        numbers = memoryview(positions.buffers()[1] or b"").cast("q")
        numbers = numbers[positions.offset : positions.offset + len(positions)]
        passed = 0
        for first, last in self._spans:
            start = bisect_left(numbers, first, passed)
            if start == len(numbers):
                break
            passed = bisect_left(numbers, last + 1, start)
            if passed > start:
                yield first

    def _block(self, first: int) -> "pa.RecordBatch":
        if first not in self._read:
            self._read[first] = self._load(first)
        return self._read[first]

    def _load(self, first: int) -> "pa.RecordBatch":
        import pyarrow as pa
        import pyarrow.compute as pc

        (facts,) = self._con.execute("SELECT facts FROM events WHERE first = ?", [first]).fetchone()
        data = _unpacked(facts)
        count = len(data) // (4 * _COLUMNS)
        buffer = pa.py_buffer(data)
        columns = [
            pa.Array.from_buffers(pa.uint32(), count, [None, buffer], offset=number * count)
            for number in range(_COLUMNS)
        ]
        columns[0] = pc.add(columns[0].cast(pa.int64()), first)
        return pa.RecordBatch.from_arrays(columns, schema=_schema())

    def _times(self, first: int) -> "pa.Array":
        import pyarrow as pa
        import pyarrow.compute as pc

        if first not in self._times_read:
            (times,) = self._con.execute("SELECT times FROM events WHERE first = ?", [first]).fetchone()
            data = _unpacked(times)
            differences = pa.Array.from_buffers(pa.int64(), len(data) // 8, [None, pa.py_buffer(data)])
            self._times_read[first] = pc.cumulative_sum(differences)  # in 64 bits, as they were made
        return self._times_read[first]


@cache
def _schema() -> "pa.Schema":
    import pyarrow as pa

    numbers = [(name, pa.uint32()) for name in ("size", "type", "session", "path")]
    return pa.schema([("position", pa.int64()), *numbers])


class Names:
    """Numbers for types, sessions and paths."""

    def __init__(self, con: sqlite3.Connection) -> None:
        self._con = con
        self._known: dict[tuple[int, str], int] = {}
        self.fresh: list[tuple[int, int, str]] = []  # (number, kind, name), to be indexed

    def number(self, kind: int, name: "str | None") -> int:
        if not name:
            return 0
        number = self._known.get((kind, name))
        if number is None:
            if len(self._known) > 50_000:
                self._known.clear()
            number = self._known[kind, name] = self._find(kind, name)
        return number

    def _find(self, kind: int, name: str) -> int:
        row = self._con.execute("SELECT id FROM names WHERE kind = ? AND name = ?", [kind, name]).fetchone()
        if row is not None:
            return int(row[0])
        self._con.execute("INSERT INTO names(kind, name) VALUES (?, ?)", [kind, name])
        (number,) = self._con.execute("SELECT last_insert_rowid()").fetchone()
        self.fresh.append((number, kind, name))
        return int(number)


def _differences(values: "array[int]") -> "array[int]":
    return array("q", (_wrapped(b - a) for a, b in zip([0, *values[:-1]], values, strict=True)))


def _wrapped(value: int) -> int:
    """A number in 64 bits: differences of times may have 65."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _codec() -> "pa.Codec":
    import pyarrow as pa

    return pa.Codec("zstd", 9)


def _packed(data: bytes) -> bytes:
    packed: bytes = _codec().compress(data, asbytes=True)
    return len(data).to_bytes(4, "little") + packed


def _unpacked(data: bytes) -> bytes:
    size = int.from_bytes(data[:4], "little")
    raw: bytes = _codec().decompress(memoryview(data)[4:], size, asbytes=True)
    return raw
