"""Segments on disk: opening one through the file-system seam, and all of them as a numbering prefix.

Reads only, takes no lock: the caller's pin keeps the files. One `SegmentFile` belongs to one thread.
"""

import io
import os
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem, store_error, translate_os_errors
from eventlog.base.layout import StoreFiles, segment_name
from eventlog.log.manifest import SegmentEntry
from eventlog.log.numbering import PrefixRow, default_context
from eventlog.log.segment import (
    SegmentMeta,
    meta_of,
    open_segment,
    read_columns,
    slices,
    types_in,
    with_types_coded,
)

_PREFIX_COLUMNS = (
    "position", "session_id", "turn", "agent_turn_id", "seq", "event_type", "operation", "context_id"
)  # fmt: skip

_READ = "read this segment"


class SeamFile(io.RawIOBase):
    """A file of a `FileSystem`, as the Python file object that pyarrow reads from."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        super().__init__()
        self._fs = fs
        self._fd = fs.open(path, os.O_RDONLY)
        try:
            self._size = fs.fstat(self._fd).st_size
        except BaseException:
            self.close()
            raise
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: "int | None" = -1) -> bytes:
        available = max(0, self._size - self._at)
        data = self._fs.pread(
            self._fd, available if size is None or size < 0 else min(size, available), self._at
        )
        self._at += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            self._fs.close(self._fd)
        super().close()


class SegmentFile:
    """One open segment; a context manager. It is the one its manifest entry describes."""

    def __init__(self, files: StoreFiles, entry: SegmentEntry) -> None:
        """Raises: Corruption, Unsupported."""
        self.path = files.layout.segment(entry.name)
        self.entry = entry
        self._last_positions: dict[int, int] = {}  # by row group
        self._coded: pq.ParquetFile | None = None
        try:
            self._source = SeamFile(files.fs, self.path)
        except FileNotFoundError as error:
            raise Corruption(self.path, "the manifest lists this segment, but it is not there") from error
        except OSError as error:
            raise store_error(error, self.path, _READ) from error
        try:
            with translate_os_errors(self.path, _READ):
                self._file = open_segment(self._source, self.path)
            meta = meta_of(self._file, self.path)
            described = (meta.store_id, meta.base, meta.end, meta.dropped, self._file.metadata.num_rows)
            if described != (files.store_id, entry.base, entry.end, entry.dropped, entry.rows):
                raise Corruption(self.path, "the segment is not the one the manifest describes")
        except BaseException:
            self._source.close()
            raise

    def __enter__(self) -> "SegmentFile":
        return self

    def __exit__(self, *exc: object) -> None:
        self._source.close()

    @property
    def row_groups(self) -> int:
        return int(self._file.num_row_groups)

    def groups_in(self, since: int, until: "int | None") -> "Iterator[int]":
        """The row groups that may have events of [since, until), ascending.

        Found by halving, so that few are read: positions ascend. Raises: Corruption.
        """
        first = 0
        if since > self.entry.base:
            first = bisect_left(range(self.row_groups), since, key=lambda group: self._last_position(group))
        end = self.entry.end if until is None else min(until, self.entry.end)
        for group in range(first, self.row_groups):
            yield group
            if end < self.entry.end and self._last_position(group) >= end - 1:
                break

    def has_types(self, row_group: int, event_types: "Collection[str]") -> bool:
        """Whether a row group may have events of these types. Raises: Corruption."""
        with translate_os_errors(self.path, _READ):
            self._coded = self._coded or with_types_coded(self._file, self._source)
            return not types_in(self._coded, self.path, row_group).isdisjoint(event_types)

    def _last_position(self, group: int) -> int:
        """Read from its page, which has a checksum; the statistics in the footer have none."""
        if group not in self._last_positions:
            self._last_positions[group] = self.read(("position",), group)["position"][-1].as_py()
        return self._last_positions[group]

    def read(self, columns: "Sequence[str] | None" = None, row_group: "int | None" = None) -> "pa.Table":
        """Columns, in the order asked for, of one row group or all. Raises: Corruption."""
        with translate_os_errors(self.path, _READ):
            return read_columns(self._file, self.path, columns, row_group)

    def slices(
        self, columns: "Sequence[str] | None", row_group: int, mask: "pa.ChunkedArray | None" = None
    ) -> "Iterator[pa.RecordBatch]":
        """The same of one row group, or of its rows that a mask names, some at a time. Raises: Corruption."""
        with translate_os_errors(self.path, _READ):
            yield from slices(self._file, self.path, columns, row_group, mask)


def entry_of(meta: SegmentMeta, digest: str, size: int, tables: "Iterable[pa.Table]") -> SegmentEntry:
    """The manifest entry of a segment of these tables, which has this digest and size."""
    rows = 0
    times: list[int] = []
    for table in tables:
        rows += table.num_rows
        span = pc.min_max(table["occurred_at"].cast(pa.int64())).as_py()
        times += [at for at in (span["min"], span["max"]) if at is not None]
    return SegmentEntry(
        name=segment_name(meta.base, meta.end, digest[:16]),
        base=meta.base,
        end=meta.end,
        rows=rows,
        bytes=size,
        blake3=digest,
        first_at=min(times, default=None),
        last_at=max(times, default=None),
        dropped=meta.dropped,
    )


class SegmentPrefix:
    """A `Prefix` that reads the segments themselves.

    Memory: the asked-for columns of one row group of 122,880 rows, and the session ids of each segment.
    Time: all event and session ids of the log for `seen`; for `sessions` the rows of those asked for, and
    the session ids of segments that `seen` has not read. With `remember_ids`, for repeated calls of `seen`,
    eight bytes of each id stay in memory, and a segment is read again only when one of its ids seems to be
    asked for.
    """

    def __init__(
        self,
        files: StoreFiles,
        entries: Sequence[SegmentEntry],
        *,
        remember_ids: bool = False,
    ) -> None:
        self._files = files
        self.entries = list(entries)
        self._sessions_in: dict[str, set[str | None]] = {}  # segment → the sessions of its events
        self._remembers = remember_ids
        self._hashes: dict[str, pa.Array] = {}  # segment → a hash of each of its ids

    def remember(self) -> None:
        """From now on, as with `remember_ids`."""
        self._remembers = True

    def add(self, entry: SegmentEntry, events: "pa.Table") -> None:
        """Include this segment from now on; it holds `events`."""
        self.entries.append(entry)
        self._sessions_in[entry.name] = set(events["session_id"].unique().to_pylist())
        if self._remembers:
            self._hashes[entry.name] = _hashes(events["event_id"])

    def seen(self, event_ids: Sequence[str]) -> set[str]:
        return set(self.seen_ids(pa.array(event_ids, pa.string())).to_pylist())

    def seen_ids(self, ids: "pa.Array") -> "pa.Array":
        """Those of `ids` that a segment holds."""
        if not len(ids):
            return ids
        known_ids = [ids.slice(0, 0)]
        passed = self._surely_without(ids)
        for entry in self.entries:
            if entry.name in passed:
                continue
            with SegmentFile(self._files, entry) as file:
                sessions: set[str | None] = set()
                hashes = []
                for group in range(file.row_groups):
                    events = file.read(("event_id", "session_id"), group)
                    sessions.update(events["session_id"].unique().to_pylist())
                    for chunk in events["event_id"].chunks:
                        hits = pc.is_in(chunk, value_set=ids)
                        if hits.true_count:
                            known_ids.append(chunk.filter(hits))
                    if self._remembers:
                        hashes.append(_hashes(events["event_id"]))
                self._sessions_in[entry.name] = sessions
                if self._remembers:
                    self._hashes[entry.name] = pa.concat_arrays([pa.array([], pa.int64()), *hashes])
        return pa.concat_arrays(known_ids)

    def _surely_without(self, ids: "pa.Array") -> set[str]:
        """The segments that, by the hashes of their ids, hold none of `ids`."""
        if not self._hashes:
            return set()
        every = pa.chunked_array(list(self._hashes.values()))
        hits = pc.is_in(every, value_set=_hashes(ids))
        without = set()
        start = 0
        for name, hashes in self._hashes.items():
            if not pc.any(hits.slice(start, len(hashes))).as_py():
                without.add(name)
            start += len(hashes)
        return without

    def sessions(self, session_ids: Sequence[str]) -> Iterable[PrefixRow]:
        if not session_ids:
            return ()
        wanted = pa.array(session_ids, pa.string())
        rows: list[PrefixRow] = []
        for entry in self.entries:
            known_sessions = self._sessions_in.get(entry.name)
            if known_sessions is not None and known_sessions.isdisjoint(session_ids):
                continue
            with SegmentFile(self._files, entry) as file:
                for group in range(file.row_groups):
                    mask = pc.is_in(file.read(("session_id",), group)["session_id"], value_set=wanted)
                    if pc.any(mask).as_py():
                        rows += _prefix_rows(file.read(_PREFIX_COLUMNS, group).filter(mask))
        return rows


def _hashes(ids: "pa.Array | pa.ChunkedArray") -> "pa.Array":
    """64 bits of each text, which are valid in this process alone."""
    numbers = array("q", map(hash, ids.to_pylist()))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _prefix_rows(table: "pa.Table") -> Iterator[PrefixRow]:
    """The rows of one row group, grouped."""
    is_session = pc.equal(table["event_type"], "session")
    session_rows = table.filter(is_session).select(("session_id", "operation", "context_id", "position"))
    contexts: dict[str, tuple[str, int]] = {}
    for session_id, operation, context_id, position in _tuples(session_rows):
        if context_id is not None and (operation == "end" or context_id != default_context(session_id)):
            contexts.setdefault(session_id, (context_id, position))
    groups = table.group_by(["session_id", "turn", "agent_turn_id"], use_threads=False).aggregate(
        [("position", "min"), ("position", "max"), ("seq", "max")]
    )
    names = ("session_id", "turn", "agent_turn_id", "position_min", "position_max", "seq_max")
    for session_id, *rest in _tuples(groups.select(names)):
        yield PrefixRow(session_id, *rest, *contexts.pop(session_id, (None, None)))


def _tuples(table: "pa.Table") -> "Iterator[tuple[Any, ...]]":
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
