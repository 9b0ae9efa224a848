"""Sealed events of a turn, of few positions or of rare types, by way of DuckDB, for who asks in SQL.

Loading pyarrow and decoding pages of 53 columns takes longer than all else that showing a turn does. DuckDB
checks no page of a Parquet file, so each segment is compared with the manifest first, byte for byte, whatever
is remembered of it. What does not fit, fails or seems wrong is left to the reader through pyarrow,
which finds and names damage. One thread.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.types import COLUMN_NAMES, COLUMNS, TIME, Event
from eventlog.log import checked
from eventlog.log.manifest import SegmentEntry
from eventlog.log.rows import Selection
from eventlog.projections import source

if TYPE_CHECKING:
    import duckdb

# The most events in memory; a turn with more is streamed.
_ROWS_MAX = 2_000
# A segment is read whole to be compared: this takes less than loading pyarrow.
_SEGMENT_BYTES_MAX = 64 << 20

_SELECT = ", ".join(
    {"payload": "coalesce(payload, anchor_payload)"}.get(
        name, f'epoch_us("{name}")' if kind == TIME else f'"{name}"'
    )
    for name, kind in COLUMNS
)
# The two times that DuckDB takes for infinite; old logs may hold them (docs/appending.md, section 5).
_ODD = " OR ".join(f'coalesce(isinf("{name}"), false)' for name, kind in COLUMNS if kind == TIME)


_OF_TURN = "session_id = $1 AND turn = $2 AND position >= $3 AND position < $4"
_OF_POSITIONS = "position >= $1 AND position < $2"
_OF_TYPES = {
    ("session",): "event_type = 'session'",
    ("content",): "event_type = 'content'",
    ("restore",): "event_type = 'restore'",
}


class Excerpt:
    """The events of the turn and of the positions that were read last, and those of rare types that were."""

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self._fs = fs
        self._layout = layout
        self._read: dict[str, tuple[Hashable, list[Event] | None]] = {}  # by condition, of what and what
        self._con: duckdb.DuckDBPyConnection | None = None  # to make one takes longer than most answers

    def close(self) -> None:
        """Give back the connection; a later question makes another."""
        if self._con is not None:
            con, self._con = self._con, None
            con.close()

    def rows(self, entries: Sequence[SegmentEntry], wanted: Selection) -> "list[Event] | None":
        """The events of these segments that `wanted` names by session and turn, or all of a rare type, or of
        few positions; the other filters are the caller's. None where they are to be read another way. The
        caller's view pins the files."""
        parameters: list[str | int | None]
        if isinstance(wanted.event_types, tuple) and wanted.event_types in _OF_TYPES:
            where, parameters = _OF_TYPES[wanted.event_types], []
        elif None not in (wanted.session_id, wanted.turn, wanted.until):
            where, parameters = _OF_TURN, [wanted.session_id, wanted.turn, wanted.since, wanted.until]
        elif wanted.until is not None and wanted.until - wanted.since <= _ROWS_MAX:
            where, parameters = _OF_POSITIONS, [wanted.since, wanted.until]
        else:
            return None
        key = (tuple(entry.name for entry in entries), *parameters)
        if where not in self._read or self._read[where][0] != key:
            self._read[where] = key, self._ask(entries, where, parameters)
        return self._read[where][1]

    def _ask(
        self, entries: Sequence[SegmentEntry], where: str, parameters: "list[str | int | None]"
    ) -> "list[Event] | None":
        if sum(entry.bytes for entry in entries) > _SEGMENT_BYTES_MAX:
            return None
        if not all(checked.is_as_listed(self._fs, self._layout, entry) for entry in entries):
            return None
        if not entries:
            return []
        files = ", ".join(source.literal(self._layout.segment(entry.name)) for entry in entries)
        question = (
            f"SELECT {_ODD}, {_SELECT} FROM read_parquet([{files}]) WHERE {where} "
            f"ORDER BY position LIMIT {_ROWS_MAX + 1}"
        )
        try:
            self._con = self._con or source.connect()
            rows = self._con.execute(question, parameters).fetchall()
        except (*source.ERRORS, OSError):
            self.close()
            return None
        if len(rows) > _ROWS_MAX or any(row[0] for row in rows):
            return None
        return [dict(zip(COLUMN_NAMES, row[1:], strict=True)) for row in rows]
