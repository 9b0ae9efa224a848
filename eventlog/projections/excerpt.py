"""Sealed events of a turn, of few positions or of rare types, by way of DuckDB, for callers that ask in SQL.

Loading pyarrow and decoding pages of 53 columns takes longer than all else that showing a turn does. DuckDB
checks no page of a Parquet file, so each segment is compared with the manifest first, byte for byte, whatever
is remembered of it. What does not fit, fails or seems wrong is left to the reader through pyarrow,
which finds and names damage.

To read a few hundred events takes no longer than to read one. So a caller that goes from turn to turn may
keep blocks of positions: each is read once, and sealed events do not change while their segments have the
same names. One thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.types import COLUMN_NAMES, COLUMNS, TIME, Event
from eventlog.log import checked
from eventlog.log.manifest import SegmentEntry
from eventlog.log.rows import Selection
from eventlog.projections import source
from eventlog.projections.prefix import CachedConnection
from eventlog.projections.settled import SettledNames

if TYPE_CHECKING:
    import duckdb

# The most events in memory; a turn with more is streamed, or read by blocks where these are kept.
_ROWS_MAX = 2_000
# Positions of a block; the most events in kept blocks, some 25 MB, and the most characters of payloads.
_BLOCK = 512
_KEPT_MAX = 16_000
_KEPT_BYTES_MAX = 25 << 20
# A segment is read whole to be compared: this takes less than loading pyarrow.
_SEGMENT_BYTES_MAX = 64 << 20

_SELECTED = {
    **{name: f'epoch_us("{name}")' if kind == TIME else f'"{name}"' for name, kind in COLUMNS},
    "payload": "coalesce(payload, anchor_payload)",
}
# The two times that DuckDB takes for infinite; old logs may hold them (docs/appending.md, section 5).
_ODD = {name: f'coalesce(isinf("{name}"), false)' for name, kind in COLUMNS if kind == TIME}
# What tells whether an event is wanted.
_FILTERS = {"position", "event_id", "event_type", "session_id", "turn"}

_POSITION, _PAYLOAD = (COLUMN_NAMES.index(name) for name in ("position", "payload"))
_OF_TURN = "session_id = $1 AND turn = $2 AND position >= $3 AND position < $4"
_OF_POSITIONS = "position >= $1 AND position < $2"
_OF_TYPES = {
    ("session",): "event_type = 'session'",
    ("content",): "event_type = 'content'",
    ("restore",): "event_type = 'restore'",
    ("erasure",): "event_type = 'erasure'",
    ("withheld",): "event_type = 'withheld'",
}

# The values of an event by COLUMN_NAMES: a third of the memory of a dict.
_Values = tuple[Any, ...]


class Excerpt:
    """The events of the turn and of the positions that were read last, and those of rare types that were."""

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self._fs = fs
        self._layout = layout
        # By condition: of what, which columns, and what they hold.
        self._read: dict[str, tuple[tuple[Any, ...], Sequence[str], list[Event] | None]] = {}
        self._con: duckdb.DuckDBPyConnection | None = None  # to make one takes longer than most answers
        self.attached = CachedConnection()  # lent to the numbering of the tail
        self.names: SettledNames | None = None  # of sessions, for callers that go from turn to turn
        # Blocks by their numbers, each with the names of the segments it was read from and the bytes of its
        # payloads, in order of use.
        self._blocks: OrderedDict[int, tuple[Hashable, list[_Values], int]] | None = None

    def keep_blocks(self) -> None:
        """From now on read turns by blocks, and keep the blocks that were used last."""
        self._blocks = OrderedDict() if self._blocks is None else self._blocks
        self.names = self.names or SettledNames()

    def close(self) -> None:
        """Give back the connections; a later question makes others."""
        self.attached.close()
        if self._con is not None:
            con, self._con = self._con, None
            con.close()

    def rows(
        self,
        entries: Sequence[SegmentEntry],
        wanted: Selection,
        read: "Callable[[Selection, Sequence[str]], Iterator[Event]]",
        every: Sequence[SegmentEntry] = (),
        names: Collection[str] = COLUMN_NAMES,
    ) -> "list[Event] | None":
        """The events of these segments that `wanted` names by session and turn, or all of a rare type, or of
        few positions; the other filters are the caller's. None where they are to be read another way. The
        caller's view pins the files.

        Each column costs its pages, so only these `names` and those of filters are read; all of them when
        the same events are asked for once more and another is missing.

        Args: read: reads columns of sealed events through pyarrow; every: all segments, for blocks that
        reach further.
        """
        parameters: list[str | int | None]
        if isinstance(wanted.event_types, tuple) and wanted.event_types in _OF_TYPES:
            where, parameters = _OF_TYPES[wanted.event_types], []
            whole = None
        elif isinstance(wanted.session_id, str) and None not in (wanted.turn, wanted.until):
            where, parameters = _OF_TURN, [wanted.session_id, wanted.turn, wanted.since, wanted.until]
            whole = replace(wanted, event_types=None, event_id="")
        elif wanted.until is not None and wanted.until - wanted.since <= _ROWS_MAX:
            where, parameters = _OF_POSITIONS, [wanted.since, wanted.until]
            whole = Selection(wanted.since, wanted.until)
        else:
            return None
        if where == _OF_TURN and (of_blocks := self._of_blocks(every or entries, wanted)) is not None:
            return of_blocks
        key = (_names(entries), *parameters)
        columns = tuple(name for name in COLUMN_NAMES if name in names or name in _FILTERS)
        if where == _OF_TURN and (of_stretch := self._of_stretch(entries, wanted, columns)) is not None:
            return of_stretch
        known, known_columns, rows = self._read.get(where, ((), (), None))
        if known == key:
            if known_columns == columns or set(known_columns).issuperset(columns):
                return rows
            columns = COLUMN_NAMES
        rows = self._ask(entries, where, parameters, columns)
        if rows is None and whole is not None:
            rows = _few(read(whole, columns))
        self._read[where] = key, columns, rows
        return rows

    def _of_stretch(
        self, entries: Sequence[SegmentEntry], wanted: Selection, columns: Sequence[str]
    ) -> "list[Event] | None":
        """Events with those of a turn, where these columns of a stretch around it were read last; else
        None."""
        if _OF_POSITIONS not in self._read or wanted.until is None:
            return None
        (held, since, until), known_columns, rows = self._read[_OF_POSITIONS]
        if rows is None or not since <= wanted.since <= wanted.until <= until:
            return None
        if not (set(held).issuperset(_names(entries)) and set(known_columns).issuperset(columns)):
            return None
        return rows

    def _of_blocks(self, entries: Sequence[SegmentEntry], wanted: Selection) -> "list[Event] | None":
        """The events of the positions of a turn; None where blocks are not kept, or too many are needed."""
        until = wanted.until
        if self._blocks is None or until is None or until - wanted.since > _KEPT_MAX:
            return None
        events: list[Event] = []
        for number in range(wanted.since // _BLOCK, (until - 1) // _BLOCK + 1):
            block = self._block(entries, number)
            if block is None:
                return None
            fits = (values for values in block if wanted.since <= values[_POSITION] < until)
            events += (dict(zip(COLUMN_NAMES, values, strict=True)) for values in fits)
        return events

    def _block(self, entries: Sequence[SegmentEntry], number: int) -> "list[_Values] | None":
        assert self._blocks is not None
        since, until = number * _BLOCK, (number + 1) * _BLOCK
        held = [entry for entry in entries if entry.rows and entry.base < until and entry.end > since]
        names, block, _ = self._blocks.get(number, (None, [], 0))
        if names != _names(held):
            read = self._values(held, _OF_POSITIONS, [since, until])
            if read is None:
                return None
            block = read
            self._blocks[number] = _names(held), block, sum(len(values[_PAYLOAD] or "") for values in block)
        self._blocks.move_to_end(number)
        while self._are_too_many(self._blocks.values()):
            self._blocks.popitem(last=False)
        return block

    def _are_too_many(self, blocks: "Collection[tuple[Hashable, list[_Values], int]]") -> bool:
        events, payloads = sum(len(rows) for _, rows, _ in blocks), sum(size for *_, size in blocks)
        return events > _KEPT_MAX or payloads > _KEPT_BYTES_MAX

    def _ask(
        self,
        entries: Sequence[SegmentEntry],
        where: str,
        parameters: "list[str | int | None]",
        columns: Sequence[str],
    ) -> "list[Event] | None":
        rows = self._values(entries, where, parameters, columns)
        return None if rows is None else [dict(zip(columns, row, strict=True)) for row in rows]

    def _values(
        self,
        entries: Sequence[SegmentEntry],
        where: str,
        parameters: "list[str | int | None]",
        columns: Sequence[str] = COLUMN_NAMES,
    ) -> "list[_Values] | None":
        if sum(entry.bytes for entry in entries) > _SEGMENT_BYTES_MAX:
            return None
        if not all(checked.is_as_listed(self._fs, self._layout, entry) for entry in entries):
            return None
        if not entries:
            return []
        files = ", ".join(source.literal(self._layout.segment(entry.name)) for entry in entries)
        odd = " OR ".join(_ODD[name] for name in columns if name in _ODD) or "false"
        selected = ", ".join(map(_SELECTED.__getitem__, columns))
        question = (
            f"SELECT {odd}, {selected} FROM read_parquet([{files}]) WHERE {where} "
            f"ORDER BY position LIMIT {_ROWS_MAX + 1}"
        )
        try:
            self._con = self._con or self.attached.beside() or source.connect()
            rows = self._con.execute(question, parameters).fetchall()
        except (*source.ERRORS, OSError):
            self.close()
            return None
        if len(rows) > _ROWS_MAX or any(row[0] for row in rows):
            return None
        return [row[1:] for row in rows]


def _names(entries: Sequence[SegmentEntry]) -> tuple[str, ...]:
    return tuple(entry.name for entry in entries)


def _few(rows: Iterator[Event]) -> "list[Event] | None":
    """All of them, None where there are many."""
    read = list(islice(rows, _ROWS_MAX + 1))
    return read if len(read) <= _ROWS_MAX else None
