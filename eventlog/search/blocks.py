"""Facts of the events in an index besides their words: enough to rank and to filter them.

A row of `events` holds some thousand events as columns of numbers, compressed together: a row for each would
be as large as its words.
"""

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

TYPE, SESSION, PATH = 1, 2, 3  # kinds of names

# Stands for an unknown time.
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
        self._read: dict[int, Block] = {}

    @cached_property
    def _firsts(self) -> "list[int]":
        return [row[0] for row in self._con.execute("SELECT first FROM events ORDER BY first")]

    def each(self, positions: "Sequence[int]") -> "Iterator[tuple[int, Block, int]]":
        """(position, block, index in it) of ascending positions; nothing for those in no block."""
        block = None
        for position in positions:
            if block is None or position > block.positions[-1]:
                block = self._block(position)
            if block is not None:
                index = bisect_left(block.positions, position)
                if index < len(block.positions) and block.positions[index] == position:
                    yield position, block, index

    def _block(self, position: int) -> "Block | None":
        number = bisect_left(self._firsts, position + 1) - 1
        if number < 0:
            return None
        first = self._firsts[number]
        if first not in self._read:
            self._read[first] = self._load(first)
        return self._read[first]

    def _load(self, first: int) -> Block:
        facts, times = self._con.execute(
            "SELECT facts, times FROM events WHERE first = ?", [first]
        ).fetchone()
        numbers = array("I", _unpacked(facts))
        count = len(numbers) // 5
        parts = [numbers[n * count : (n + 1) * count] for n in range(5)]
        positions = array("q", (first + offset for offset in parts[0]))
        return Block(positions, parts[1], parts[2], parts[3], parts[4], _sums(array("q", _unpacked(times))))


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


def _sums(differences: "array[int]") -> "array[int]":
    out = array("q")
    value = 0
    for difference in differences:
        value = _wrapped(value + difference)
        out.append(value)
    return out


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
