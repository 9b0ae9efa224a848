"""Rows of the log: events as dicts with every column, and which of them are asked for.

Rows come from journal lines, as their writers gave them and then numbered, or from batches of segments. Pure;
importing this imports no pyarrow.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from eventlog.base.errors import Corruption, NotFound, Unsupported
from eventlog.base.jsontext import decode
from eventlog.base.types import COLUMN_NAMES, Event
from eventlog.log.frame import Frame
from eventlog.log.line import decode_line
from eventlog.log.numbering import INPUT_COLUMNS, INT_MAX, NUMBERING_COLUMNS, Numbering

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.manifest import SegmentEntry
    from eventlog.log.tail_memory import Chunk

# Rows made into dicts at once: 53 columns of 4,096 rows are some megabytes.
_SLICE_ROWS = 4096

_BLANK: Event = dict.fromkeys(COLUMN_NAMES)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which events are asked for; rows and columns give the same answer."""

    since: int = 0
    until: "int | None" = None
    event_types: "Collection[str] | None" = None
    session_id: "str | frozenset[str] | None" = None  # one, or any of several
    turn: "int | None" = None
    event_id: str = ""  # a prefix
    positions: "frozenset[int] | None" = None

    def meets(self, part: "SegmentEntry | Chunk") -> bool:
        """Whether a part of the log has positions of those asked for."""
        return part.end > self.since and (self.until is None or part.base < self.until)

    def admits(self, row: Event) -> bool:
        position = row["position"]
        assert isinstance(position, int)
        return (
            position >= self.since
            and (self.until is None or position < self.until)
            and (self.event_types is None or row["event_type"] in self.event_types)
            and (self.session_id is None or row["session_id"] in self._sessions)
            and (self.turn is None or row["turn"] == self.turn)
            and str(row["event_id"]).startswith(self.event_id)
            and (self.positions is None or position in self.positions)
        )

    @property
    def _sessions(self) -> "Collection[str | None]":
        return self.session_id if isinstance(self.session_id, frozenset) else (self.session_id,)

    def columns(self, base: int, end: int) -> list[str]:
        """The columns that decide whether events of [base, end) are wanted; none when all are."""
        names = []
        if self.since > base or (self.until is not None and self.until < end) or self.positions is not None:
            names.append("position")
        if self.event_types is not None:
            names.append("event_type")
        if self.session_id is not None:
            names.append("session_id")
        if self.turn is not None:
            names.append("turn")
        if self.event_id:
            names.append("event_id")
        return names

    def mask(self, table: "pa.Table") -> "pa.ChunkedArray":
        """Which rows are wanted, by those of the filters' columns that the table has."""
        import pyarrow as pa
        import pyarrow.compute as pc

        tests = []
        for name in table.column_names:
            column = table[name]
            if name == "position":
                tests.append(pc.greater_equal(column, self.since))
                if self.until is not None:
                    tests.append(pc.less(column, self.until))
                if self.positions is not None:
                    tests.append(pc.is_in(column, value_set=pa.array(self.positions, pa.int64())))
            elif name == "event_type":
                tests.append(pc.is_in(column, value_set=pa.array(self.event_types or (), pa.string())))
            elif name == "event_id":
                tests.append(pc.starts_with(column, self.event_id))
            elif name == "session_id":
                tests.append(pc.is_in(column, value_set=pa.array(self._sessions, pa.string())))
            else:
                tests.append(pc.equal(column, self.turn))
        return pc.fill_null(reduce(pc.and_, tests), False)


def row_of(line: bytes, position: int, path: str, loads: "Callable[[bytes], object]" = decode) -> Event:
    """A journal line's event as its writer gave it, with every column. Raises: Corruption, Unsupported."""
    try:
        envelope, payload = decode_line(line, loads)
        row = {**_BLANK, **envelope, "position": position, "payload": payload.decode("utf-8")}
    except (Corruption, UnicodeDecodeError) as error:
        raise Corruption(path, f"the event at position {position} cannot be understood ({error})") from error
    if len(row) != len(_BLANK):
        names = ", ".join(sorted(set(row) - set(_BLANK)))
        raise Unsupported(f"{path}: its events have columns ({names}) that need a newer Locus.")
    if row["event_id"] is None or row["event_type"] is None:
        raise Corruption(path, f"the event at position {position} has no id or no type")
    return row


def decoded(frames: "Sequence[tuple[str, Frame]]", few_max: int) -> Iterator[Event]:
    """The events of frames as their writers gave them, each frame with the path of its journal.

    Args: few_max: orjson is imported for more events than these.
    """
    loads: Callable[[bytes], object] = decode
    if sum(frame.count for _, frame in frames) > few_max:
        import orjson

        loads = orjson.loads
    for path, frame in frames:
        for position, line in enumerate(frame.lines, frame.base):
            yield row_of(line, position, path, loads)


def numbered(rows: list[Event], numbering: Numbering) -> list[Event]:
    """The rows with their numbers, by a fold of all events before them."""
    columns = {name: [row[name] for row in rows] for name in (*INPUT_COLUMNS, *NUMBERING_COLUMNS)}
    numbering.number(columns)
    for name in NUMBERING_COLUMNS:
        for row, value in zip(rows, columns[name], strict=True):
            row[name] = value
    return rows


def checked_columns(columns: "Sequence[str] | None") -> list[str]:
    names = list(COLUMN_NAMES if columns is None else columns)
    for name in names:
        if name not in _BLANK:
            raise NotFound(f"events have no column {name!r}; they have {', '.join(COLUMN_NAMES)}")
    return names


def selected(table: "pa.Table", wanted: Selection, names: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    tests = wanted.columns(0, INT_MAX)
    mask = wanted.mask(table.select(tests)) if tests else None
    columns = table.select(names)
    yield from (columns if mask is None else columns.filter(mask)).to_batches()


def rows_of(batch: "pa.RecordBatch") -> Iterator[Event]:
    """The events of a batch as dicts, times as integer µs."""
    import pyarrow as pa

    names = batch.schema.names  # the property makes a new list at each access
    for start in range(0, batch.num_rows, _SLICE_ROWS):
        piece = batch.slice(start, _SLICE_ROWS)
        columns = []
        for column in piece.columns:
            times = pa.types.is_timestamp(column.type)
            columns.append((column.cast(pa.int64()) if times else column).to_pylist())
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))
