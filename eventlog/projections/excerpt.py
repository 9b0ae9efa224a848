"""A turn's sealed events by way of DuckDB, for a store that was asked in SQL: pyarrow stays unloaded.

Loading pyarrow and decoding pages of 53 columns takes longer than all else that showing a turn does. DuckDB
checks no page of a Parquet file, so each segment is compared with the manifest first, byte for byte, whatever
is remembered of it. What does not fit, fails or looks wrong is left to who reads segments through pyarrow,
which finds and names damage. One thread.
"""

from collections.abc import Hashable, Sequence

from eventlog.fs import FileSystem
from eventlog.layout import Layout
from eventlog.log import checked
from eventlog.log.manifest import SegmentEntry
from eventlog.log.reader import Selection
from eventlog.projections import source
from eventlog.types import COLUMN_NAMES, COLUMNS, TIME, Event

# Events kept of one turn; a turn of more is streamed.
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


class Excerpt:
    """The events of the turn that was read last."""

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self._fs = fs
        self._layout = layout
        self._of: Hashable = None
        self._rows: list[Event] | None = None

    def rows(self, entries: Sequence[SegmentEntry], wanted: Selection) -> "list[Event] | None":
        """The events of these segments that `wanted` names by session and turn; the other filters are the
        caller's. None where they are to be read another way. The caller's view pins the files."""
        if wanted.session_id is None or wanted.turn is None or wanted.until is None:
            return None
        names = tuple(entry.name for entry in entries)
        of = (names, wanted.since, wanted.until, wanted.session_id, wanted.turn)
        if of != self._of:
            self._of, self._rows = of, self._read(entries, wanted)
        return self._rows

    def _read(self, entries: Sequence[SegmentEntry], wanted: Selection) -> "list[Event] | None":
        if sum(entry.bytes for entry in entries) > _SEGMENT_BYTES_MAX:
            return None
        if not all(checked.is_sound(self._fs, self._layout, entry) for entry in entries):
            return None
        if not entries:
            return []
        files = ", ".join(source.literal(self._layout.segment(entry.name)) for entry in entries)
        question = (
            f"SELECT {_ODD}, {_SELECT} FROM read_parquet([{files}]) WHERE session_id = $1 AND turn = $2 "
            f"AND position >= $3 AND position < $4 ORDER BY position LIMIT {_ROWS_MAX + 1}"
        )
        given = [wanted.session_id, wanted.turn, wanted.since, wanted.until]
        try:
            with source.connect() as con:
                rows = con.execute(question, given).fetchall()
        except (*source.ERRORS, OSError):
            return None
        if len(rows) > _ROWS_MAX or any(row[0] for row in rows):
            return None
        return [dict(zip(COLUMN_NAMES, row[1:], strict=True)) for row in rows]
