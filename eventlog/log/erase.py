"""Erasing from the log: segments are rewritten without what has to go, and the old ones leave the disk.

`find` searches a pinned view. `rewrite` holds `compact` and `maintain`, so no segment comes or goes
meanwhile; appenders go on. It commits one manifest for all segments: readers see all of an erasure or
nothing. That manifest does not supersede the inputs but drops them: nothing made from them fits any more.
`release` unlinks them, with journals and manifests from before, as soon as no reader has them pinned (I17);
a reader of an older view keeps it to its end.

A crash leaves a file in `tmp/`, a segment that no manifest lists, or inputs that `release` removes when it is
called again (I32). Events that are not touched keep their payloads byte for byte (I14).
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from eventlog.base.errors import Corruption, Unsupported
from eventlog.base.fs import FileSystem, translate_os_errors
from eventlog.base.layout import JOURNAL_DIR, MANIFEST_DIR, SEGMENT_DIR, Layout, StoreFiles, parse_segment
from eventlog.base.locks import COMPACT, MAINTAIN, acquire
from eventlog.log import manifest as manifests
from eventlog.log import pins
from eventlog.log.compact import publish_segment
from eventlog.log.erased_rows import CHANGED_COLUMNS, NAMING_TYPES, READ_COLUMNS, Marks, changed, is_chosen
from eventlog.log.journal_reading import journal_numbers
from eventlog.log.manifest import SegmentEntry
from eventlog.log.merge import write
from eventlog.log.seal import remove_journals
from eventlog.log.segment import SCHEMA
from eventlog.log.segment_file import SegmentFile

if TYPE_CHECKING:
    from eventlog.log.reader import LogView

# As Python objects, events take many times the room that they take in columns.
_ROWS_AT_ONCE = 4_096

TMP_PREFIX = "compact-erase-"

# Positions of one segment whose events change, and the columns that do.
_Changes = Mapping[int, "dict[str, Any]"]


@dataclass(slots=True)
class Rewritten:
    """What `rewrite` did: names of new segments, and how many events in them changed.

    Of these events `named` held nothing of what was erased, but name a session whose slug was.
    """

    segments: list[str] = field(default_factory=list)
    events: int = 0
    named: int = 0


@dataclass(slots=True)
class Waiting:
    """Numbers of files of the log that readers of an older view keep on the disk."""

    segments: int = 0
    journals: int = 0

    def __bool__(self) -> bool:
        return bool(self.segments or self.journals)


def find(view: "LogView", marks: Marks) -> "dict[str, int]":
    """(id, position) of the events that have to change; their sessions are added to `marks`.

    `marks.sessions` are the sessions whose slug goes: an event that may have given it is among these.
    """
    positions = {}
    for batch in view.batches(columns=("position", *READ_COLUMNS)):
        for row in _rows(batch, marks):
            if is_chosen(row, marks):
                positions[row["event_id"]] = row["position"]
                _note_session(row, marks)
    return positions


def rewrite(
    fs: FileSystem, layout: Layout, store_id: bytes, marks: Marks, *, lock_timeout_s: float = 10.0
) -> Rewritten:
    """Take the marked texts out of all segments, with one commit. The events were sealed before.

    Raises: LockTimeout, Corruption (a segment is damaged; nothing was changed), NotDurable, EventLogError.
    """
    files = StoreFiles(fs, layout, store_id)
    report = Rewritten()
    with (
        acquire(fs, layout, COMPACT, timeout_s=lock_timeout_s),
        acquire(fs, layout, MAINTAIN, timeout_s=lock_timeout_s),
        translate_os_errors(layout.root, "erase from the log"),
    ):
        manifests.remove_temporary(files)
        manifests.remove_temporary(files, TMP_PREFIX)
        current = manifests.read_current(files)
        chosen = 0
        for entry in current.segments:  # a slug may occur before the event that it was made of
            for table in _groups(fs, layout, store_id, entry):
                for row in _rows(table, marks):
                    if is_chosen(row, marks):
                        _note_session(row, marks)
                        chosen += 1
        segments = []
        for entry in current.segments:
            changes = _changes(_groups(fs, layout, store_id, entry), marks)
            new = _rewrite(fs, layout, store_id, entry, changes) if changes else entry
            segments.append(new)
            if new is not entry:
                report.segments.append(new.name)
                report.events += len(changes)
        report.named = max(0, report.events - chosen)
        if report.segments:
            following = manifests.following(current, segments=tuple(segments), superseded=())
            manifests.commit(files, following)
    return report


def release(fs: FileSystem, layout: Layout, store_id: bytes, *, lock_timeout_s: float = 10.0) -> Waiting:
    """Unlink what only older manifests list, and those manifests; the answer counts what readers still use.

    Raises: LockTimeout, Corruption, NotDurable, EventLogError.
    """
    files = StoreFiles(fs, layout, store_id)
    waiting = Waiting()
    with (
        acquire(fs, layout, COMPACT, timeout_s=lock_timeout_s),
        acquire(fs, layout, MAINTAIN, timeout_s=lock_timeout_s),
        translate_os_errors(layout.root, "remove what was erased"),
    ):
        current = manifests.read_current(files)
        with pins.held(files, current.number) as older:
            needed = {entry.name for entry in current.segments} | {item.name for item in current.superseded}
            floor = current.next_journal
            for number in older.pinned:
                try:
                    pinned = manifests.read_numbered(files, number)
                except (Corruption, Unsupported):
                    return Waiting(segments=1)  # what its reader needs is unknown
                names = {entry.name for entry in pinned.segments}
                waiting.segments += len(names - needed)
                needed |= names
                floor = min(floor, pinned.next_journal)
            for number in older.free:
                fs.unlink(layout.manifest(number))
            if older.free:
                fs.fsync_dir(layout.directory(MANIFEST_DIR))
            for name in fs.listdir(layout.directory(SEGMENT_DIR)):
                if parse_segment(name) is not None and name not in needed:
                    fs.unlink(layout.segment(name))
            fs.fsync_dir(layout.directory(SEGMENT_DIR))
            remove_journals(files, floor, [])
            waiting.journals = sum(n < current.next_journal for n in journal_numbers(files)[:-1])
            fs.fsync_dir(layout.directory(JOURNAL_DIR))
    return waiting


def _note_session(row: Mapping[str, Any], marks: Marks) -> None:
    if row["event_type"] in NAMING_TYPES and row["session_id"] is not None:
        marks.sessions.add(row["session_id"])


def _rows(batch: "pa.RecordBatch | pa.Table", marks: Marks) -> Iterator[dict[str, Any]]:
    """The rows that may have to change: with a pattern all of them."""
    if marks.pattern is None:
        wanted = pa.array(marks.whole, pa.string())
        batch = batch.filter(pc.is_in(batch.column("event_id"), value_set=wanted))
    yield from _all_rows(batch)


def _all_rows(batch: "pa.RecordBatch | pa.Table") -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
        part = batch.slice(start, _ROWS_AT_ONCE)
        for values in zip(*(column.to_pylist() for column in part.columns), strict=True):
            yield dict(zip(names, values, strict=True))


def _groups(fs: FileSystem, layout: Layout, store_id: bytes, entry: SegmentEntry) -> "Iterator[pa.Table]":
    files = StoreFiles(fs, layout, store_id)
    with SegmentFile(files, entry) as file:
        for group in range(file.row_groups):
            yield file.read(("position", *READ_COLUMNS), group)


def _changes(tables: "Iterator[pa.Table]", marks: Marks) -> "dict[int, dict[str, Any]]":
    changes = {}
    for table in tables:
        # Any event may have links to a session, or trees.
        for row in _all_rows(table) if marks.sessions or marks.trees else _rows(table, marks):
            new = changed(row, marks)
            if new:
                changes[row["position"]] = new
    return changes


def _rewrite(
    fs: FileSystem, layout: Layout, store_id: bytes, entry: SegmentEntry, changes: _Changes
) -> SegmentEntry:
    """The segment with these events changed, under its name."""
    files = StoreFiles(fs, layout, store_id)
    from eventlog.log.merge import check_digest

    check_digest(files, entry)
    tmp = layout.tmp(f"{TMP_PREFIX}{entry.base}")

    def tables() -> "Generator[pa.Table, None, None]":
        with SegmentFile(files, entry) as file:
            for group in range(file.row_groups):
                yield _with(file.read(row_group=group), changes)

    try:
        new = write(fs, store_id, [entry], tmp, tables)
        publish_segment(files, new, tmp)
    finally:
        try:
            fs.unlink(tmp)
        except OSError:
            pass  # the next holder of the lock removes it
    return new


def _with(table: "pa.Table", changes: _Changes) -> "pa.Table":
    """The events with their changes; columns in which nothing changes keep their bytes."""
    rows = [changes.get(position) for position in table["position"].to_pylist()]
    for name in CHANGED_COLUMNS:
        if any(row is not None and name in row for row in rows):
            old_values = table[name].to_pylist()
            values = [
                row[name] if row is not None and name in row else old_value
                for row, old_value in zip(rows, old_values, strict=True)
            ]
            index = SCHEMA.get_field_index(name)
            table = table.set_column(index, SCHEMA.field(index), pa.array(values, SCHEMA.field(index).type))
    return table.combine_chunks()
