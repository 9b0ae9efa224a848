"""Is every event one that Locus can have written, and are its numbers those of the fold? Reads only.

`log/verify.py` checks the files' bytes: here they are taken to be what was written, and the question is
whether that was right. The caller gives a pinned view, so this may run beside any process. One segment that
cannot be read does not hide what is wrong with the next.

Memory: a slice of a row group at a time, the state of the numbering (a few hundred bytes for each
session), and the tail.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import orjson
import pyarrow.compute as pc

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, EventLogError
from eventlog.base.layout import JOURNAL_DIR
from eventlog.base.types import COLUMN_KINDS, INT, SCHEMA_VERSION, TIME, TIME_MAX, TIME_MIN
from eventlog.log.finding import Finding
from eventlog.log.manifest import SegmentEntry
from eventlog.log.numbering import INPUT_COLUMNS, NUMBERING_COLUMNS, Numbering
from eventlog.log.reader import LogView
from eventlog.secrets import admission

if TYPE_CHECKING:
    import pyarrow as pa

_REQUIRED = ("event_id", "event_type", "event_kind", "source")
# `blobs/closure.py` checks the hashes that are spelled as ours.
_FORMED = ("before_hash", "after_hash", "tree_hash", "path")
_RANGED = tuple(name for name, kind in COLUMN_KINDS.items() if kind in (INT, TIME) and name != "position")
_CHECKED = ("position", *_REQUIRED, *_FORMED, *_RANGED, "payload")
_NUMBERED = ("position", *INPUT_COLUMNS, *NUMBERING_COLUMNS)

Progress = Callable[[int, int], None]


def verify_events(view: LogView, progress: "Progress | None" = None) -> Iterator[Finding]:
    """Events without identity, of an unknown schema, or with what an append refuses."""
    for path, entry in _parts(view):
        wrong: dict[str, list[int]] = {}
        try:
            for batch in _batches(view, entry, _CHECKED):
                _check_batch(batch, wrong)
                if progress is not None and batch.num_rows:
                    progress(batch.column("position")[-1].as_py() + 1, view.next_position)
        except EventLogError as error:
            yield _unread(path, error)
        for what, positions in wrong.items():
            yield Finding(path, f"{_those(positions)} {what}.")


def verify_numbering(view: LogView) -> Iterator[Finding]:
    """Numbers that the fold does not confirm (I22).

    The fold goes once over the whole log with the stored numbers: it must leave them as they are. After
    sealing, a number that its writer gave looks like any other, so it is taken as given; what shows are
    numbers that are missing or contradict each other. Then the tail: numbered by that fold, it must equal
    the tail of a reader, which starts from the segments' rows.
    """
    numbering = Numbering(turn_limit=view.turn_limit)
    for path, entry in _parts(view):
        wrong: dict[str, list[int]] = {}
        try:
            if entry is None:
                _check_tail(view, numbering, wrong)
            else:
                for batch in _batches(view, entry, _NUMBERED):
                    _check_numbers(batch, numbering, wrong)
        except EventLogError:
            return  # `verify_events` reports it; the fold cannot go on without these events
        for what, positions in wrong.items():
            yield Finding(path, f"{_those(positions)} {what}.")


def _parts(view: LogView) -> "Iterator[tuple[str, SegmentEntry | None]]":
    """Each segment with its path, then the tail."""
    for entry in view.manifest.segments:
        yield view.layout.segment(entry.name), entry
    yield view.layout.directory(JOURNAL_DIR), None


def _batches(
    view: LogView, entry: "SegmentEntry | None", columns: "tuple[str, ...]"
) -> "Iterator[pa.RecordBatch]":
    if entry is None:
        return view.batches(view.manifest.next_position, columns=columns)
    return view.batches(entry.base, entry.end, columns=columns)


def _check_batch(batch: "pa.RecordBatch", wrong: "dict[str, list[int]]") -> None:
    positions = batch.column("position")

    def note(what: str, mask: "pa.BooleanArray") -> None:
        if mask.true_count:
            wrong.setdefault(what, []).extend(positions.filter(mask).to_pylist())

    for name in _REQUIRED:
        note(f"without {name}", pc.is_null(batch.column(name)))
    ids = pc.match_substring_regex(batch.column("event_id"), "^[0-9a-f]{32}$")
    note("with an event_id that is not 32 hex digits", pc.invert(ids))
    versions = batch.column("schema_version")
    note("without schema_version", pc.is_null(versions))
    note(f"of a schema beyond {SCHEMA_VERSION}: use a newer Locus", pc.greater(versions, SCHEMA_VERSION))
    note("with a schema_version below 1", pc.less(versions, 1))
    for name in _FORMED:
        column = batch.column(name)
        for value in column.unique().to_pylist():
            wanted = None if str(value).startswith("blake3:") else admission.fault(name, value)
            if wanted is not None:
                note(f"whose {name} is not {wanted}", pc.equal(column, value))
    for name in _RANGED:
        column = pc.cast(batch.column(name), "int64")
        low, high = (TIME_MIN, TIME_MAX) if COLUMN_KINDS[name] == TIME else (0, admission.NUMBER_MAX)
        beyond = pc.or_(pc.less(column, low), pc.greater(column, high))
        if beyond.true_count:
            note(f"whose {name} is not {admission.fault(name, pc.filter(column, beyond)[0].as_py())}", beyond)
    payloads = batch.column("payload").to_pylist()
    types = batch.column("event_type").to_pylist()
    for position, event_type, payload in zip(positions.to_pylist(), types, payloads, strict=True):
        fields = None if payload is None else _object_of(payload)
        if fields is None:
            wrong.setdefault("whose payload is no JSON object", []).append(position)
        for key, _, wanted in admission.payload_faults(event_type, fields):
            wrong.setdefault(f"whose payload.{key} is not {wanted}", []).append(position)


def _object_of(text: str) -> "object | None":
    """The object in a payload; None when it is no JSON object."""
    try:
        value = orjson.loads(text)
    except ValueError:  # orjson rejects deep nesting and numbers beyond a double
        try:
            value = jsontext.decode(text)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _check_numbers(batch: "pa.RecordBatch", numbering: Numbering, wrong: "dict[str, list[int]]") -> None:
    columns = {name: batch.column(name).to_pylist() for name in _NUMBERED}
    positions = columns.pop("position")
    stored = {name: list(columns[name]) for name in NUMBERING_COLUMNS}
    numbering.number(columns, sealed=True)
    for name in NUMBERING_COLUMNS:
        _compare(name, positions, stored[name], columns[name], wrong)


def _check_tail(view: LogView, numbering: Numbering, wrong: "dict[str, list[int]]") -> None:
    rows = view.unnumbered_tail()
    columns = {name: [row[name] for row in rows] for name in (*INPUT_COLUMNS, *NUMBERING_COLUMNS)}
    numbering.number(columns)
    positions: list[int] = [row["position"] for row in rows]  # type: ignore[misc]
    for name in NUMBERING_COLUMNS:
        _compare(name, positions, [row[name] for row in view.tail], columns[name], wrong)


def _compare(
    name: str,
    positions: "list[int]",
    stored: "list[object]",
    expected: "list[object]",
    wrong: "dict[str, list[int]]",
) -> None:
    if stored != expected:
        what = f"whose {name} is not what the log before gives"
        mismatches = [p for p, a, b in zip(positions, stored, expected, strict=True) if a != b]
        wrong.setdefault(what, []).extend(mismatches)


def _those(positions: "list[int]") -> str:
    if len(positions) == 1:
        return f"an event, at position {positions[0]},"
    first, last = positions[0], positions[-1]
    return f"{len(positions)} events in positions [{first}, {last + 1}), the first at position {first},"


def _unread(path: str, error: EventLogError) -> Finding:
    if isinstance(error, Corruption):
        return Finding(error.path, f"its events cannot be read: {error.what}.", error.offset)
    return Finding(path, f"its events cannot be read: {error}")
