"""How many lines a change of a file added and removed, counted from its contents before and after.

A count is a function of two contents, and contents are named by their hashes. So it belongs to no event, is
always the same, and may be deleted at any time (I22). Counts are cached in `index/line-counts`, which
maintenance writes and erasure removes; others are counted when a query asks for them (docs/sql.md).

    the content (derived_file.py): for each pair of contents 16 bytes of its key, lines added and removed as
    signed 64-bit little-endian numbers (both -1: binary or too large)

Threads may share a counter.
"""

import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError, InvalidEvent
from eventlog.base.fs import FileSystem, translate_os_errors
from eventlog.base.layout import INDEX_DIR, Layout
from eventlog.base.paths import path_bytes
from eventlog.blobs.ids import from_text
from eventlog.replay.derived_file import DerivedFile

if TYPE_CHECKING:
    from eventlog.base.event import Event, Rows
    from eventlog.blobs.store import BlobStore
    from eventlog.query.engine import Result
    from eventlog.query.functions import Ask
    from eventlog.query.views import Pair
    from eventlog.replay.deferred import DeferredContents

# The last digit is raised by hand when the same contents give another count.
MAGIC = b"locus line counts 1\n"
NAME = "line-counts"

# A larger content counts as binary and is not split into lines.
CONTENT_MAX = 32 << 20

_RECORD = struct.Struct("<16sqq")
_BINARY = (-1, -1)

Counts = tuple[int, int]  # lines added, lines removed


class LineCounts:
    """The counts of one store."""

    def __init__(
        self, fs: FileSystem, layout: Layout, blobs: "BlobStore", rows: "Rows | None" = None
    ) -> None:
        """Args: rows: the events of a store, for `fill` to resolve deferred contents."""
        self._layout = layout
        self._file = DerivedFile(fs, layout, NAME, MAGIC)
        self._blobs = blobs
        self._rows = rows
        self._known: dict[bytes, Counts] | None = None
        self._one_at_a_time = threading.Lock()

    def __call__(self, pairs: "Iterable[Pair]") -> "Iterator[tuple[int | None, int | None] | None]":
        """Lines added and removed by each change, in the order given.

        Both None where a content is binary or larger than CONTENT_MAX; None where one is not in the store.
        """
        for pair in pairs:
            with self._one_at_a_time:
                counts = self._of(pair)
            yield (None, None) if counts == _BINARY else counts

    def fill(self, events: "Iterable[Event | dict[str, Any]]") -> None:
        """Add the counts to changes of files that state none, in place."""
        from eventlog.replay.deferred import DeferredContents

        deferred = DeferredContents(self._blobs, self._rows)
        changes = [(event, pair) for event in events if (pair := pair_of(event, deferred)) is not None]
        for (event, _), counts in zip(changes, self(pair for _, pair in changes), strict=True):
            if counts is not None:
                event["lines_added"], event["lines_removed"] = counts

    def deferred(self, ask: "Ask") -> "Iterator[tuple[Pair, Pair]]":
        """(key, contents) of each change whose contents were deferred and are stored by now.

        The key has the position of the change in place of each deferred content.
        """
        from eventlog.query import views
        from eventlog.replay.deferred import DeferredContents, content_events_by_sql

        deferred = DeferredContents(self._blobs, content_events_by_sql(ask))
        for position, before, after, operation, path, payload in ask(views.DEFERRED, ()).rows:
            event = {
                "event_type": "file", "before_hash": before, "after_hash": after, "operation": operation,
                "path": path, "payload": jsontext.object_of(payload),
            }  # fmt: skip
            pair = pair_of(event, deferred)
            if pair is None:
                continue
            old = str(position) if before is None and operation != "add" else before
            new = str(position) if after is None and operation != "delete" else after
            yield (old, new, pair[2]), pair

    def count_all(self, query: "Callable[..., Result]") -> int:
        """Count every uncounted change, and store the counts. Returns: how many were new.

        Raises: EventLogError.
        """
        from eventlog.query import views
        from eventlog.query.engine import Limits

        ask = partial(query, limits=Limits(rows_max=1 << 40, timeout_s=None))
        pairs = [*ask(views.PAIRS).rows, *(pair for _, pair in self.deferred(ask))]
        with translate_os_errors(self._layout.directory(INDEX_DIR), "keep counted lines"):
            return self.save(pairs)

    def save(self, pairs: "Sequence[Pair]") -> int:
        """Count the uncounted pairs, and store the counts of exactly these pairs. Returns: how many were new.

        Nothing is written while an erasure is under way, or while another process writes derived files.
        Raises: OSError, EventLogError.
        """
        if not pairs and not self._file.exists():
            return 0
        with self._file.writing() as may_write:
            if not may_write:
                return 0
            with self._one_at_a_time:
                before = self._read()
                self._known = {**(self._known or {}), **before}
            for _ in self(pairs):
                pass
            all_counts = self._load()
            retained = {key: all_counts[key] for key in map(_key, pairs) if key in all_counts}
            if retained != before:
                self._write(retained)
            return len(retained.keys() - before.keys())

    def forget(self) -> None:
        """Delete all counts, so that they are made again."""
        with self._one_at_a_time:
            self._known = {}
        self._file.delete()

    def _of(self, pair: "Pair") -> "Counts | None":
        counts, key = self._load(), _key(pair)
        if key not in counts:
            try:
                counts[key] = count(self._blobs, pair) or _BINARY
            except EventLogError:
                return None  # not in the store yet
        return counts[key]

    def _load(self) -> "dict[bytes, Counts]":
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> "dict[bytes, Counts]":
        """The counts in the file; none when it is absent, damaged or of another version."""
        records = self._file.read()
        if records is None or len(records) % _RECORD.size:
            return {}
        return {key: (added, removed) for key, added, removed in _RECORD.iter_unpack(records)}

    def _write(self, counts: "dict[bytes, Counts]") -> None:
        self._file.write(b"".join(_RECORD.pack(key, *counts[key]) for key in sorted(counts)))


def count(blobs: "BlobStore", pair: "Pair") -> "Counts | None":
    """Lines that a change added and removed; None where a content is binary or larger than CONTENT_MAX.

    Raises: NotFound, Corruption.
    """
    old, new, whole = pair
    if old == new:
        return 0, 0
    contents = []
    for id in (None if text is None else from_text(text) for text in (old, new)):
        if id is not None and _is_large(blobs, id):
            return None
        contents.append(b"" if id is None else blobs.get(id))
        if b"\0" in contents[-1]:
            return None
    before, after = contents
    if whole or not before or not after:
        return line_count(after), line_count(before)
    from eventlog.replay.linediff import line_diff  # most questions count nothing

    lines = line_diff(before, after)
    return lines.added, lines.removed


def _is_large(blobs: "BlobStore", id: bytes) -> bool:
    location = blobs.locations((id,)).get(id)
    return location is not None and location[-1] > CONTENT_MAX


def is_unstated(event: "Mapping[str, Any]") -> bool:
    """Whether this is a change of a file whose event states no line counts; as `views.UNSTATED`."""
    return (
        event.get("event_type") == "file"
        and event.get("operation") != "read"
        and event.get("lines_added") is None
        and event.get("lines_removed") is None
    )


def pair_of(event: "Mapping[str, Any]", deferred: "DeferredContents") -> "Pair | None":
    """The contents from which a change's line counts follow, where its event does not state them.

    None where the event states them, and where a content is unknown, or was deferred and is not stored yet.
    """
    if not is_unstated(event):
        return None
    operation = event.get("operation")
    old, new = event.get("before_hash"), event.get("after_hash")
    if old is None and operation != "add":
        old = deferred_content(event, "before_deferred", deferred)
        if old is None:
            return None
    if new is None and operation != "delete":
        new = deferred_content(event, "deferred", deferred)
        if new is None:
            return None
    return old, new, operation == "type"


def deferred_content(event: "Mapping[str, Any]", key: str, deferred: "DeferredContents") -> "str | None":
    """The hash of a content that a change names by its list, under `key` in the payload."""
    payload = event.get("payload")
    if not isinstance(payload, Mapping) or key not in payload:
        return None
    path = payload.get("old_path") if key == "before_deferred" else None
    try:
        return deferred.stored(from_text(str(payload[key])), path_bytes(str(path or event.get("path"))))
    except (InvalidEvent, ValueError):
        return None


def _key(pair: "Pair") -> bytes:
    old, new, whole = pair
    return blake3(f"{old or ''} {new or ''} {int(whole)}".encode()).digest(16)


def line_count(text: bytes) -> int:
    """How many lines; the last one may lack its newline."""
    return text.count(b"\n") + (not text.endswith(b"\n") if text else 0)
