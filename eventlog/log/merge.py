"""Neighbouring segments as one file: the same events in the same order, better compressed.

Reads segments that the caller's pin keeps, and writes one file under a name of the caller's; takes no lock.
Equal segments and equal library versions give equal bytes (I15). The inputs are hashed before a page of them
is read, and the file is read back and compared with them, read once more, before anything relies on it (I14).

A row group holds up to ROW_GROUP_ROWS events (log/segment.py) or ROW_GROUP_BYTES of them in memory. So memory
depends on these limits and on the largest row group of the inputs, and not on the number or size of events.
"""

import io
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.base.errors import Corruption, EventLogError
from eventlog.base.fs import FileSystem, hash_file, write_all
from eventlog.base.layout import StoreFiles, segment_name
from eventlog.log.manifest import SegmentEntry
from eventlog.log.segment import (
    FILE_SCHEMA,
    ROW_GROUP_ROWS,
    SCHEMA,
    WRITE_OPTIONS,
    SegmentMeta,
    marks_of,
    open_segment,
    read_columns,
    with_anchors_apart,
)
from eventlog.log.segment_file import SeamFile, SegmentFile

ROW_GROUP_BYTES = 64 << 20

# Paid once for a file that is read for years: a tenth fewer bytes than level 3, for three times the time.
COMPRESSION_LEVEL = 9

_BUFFER_BYTES = 1 << 20


def merge(files: StoreFiles, entries: Sequence[SegmentEntry], path: str) -> SegmentEntry:
    """Write the events of neighbouring segments to the new file `path`, durably; its entry for a manifest.

    Raises: Corruption (an input is not what the manifest lists), EventLogError, OSError.
    """
    for entry in entries:
        check_digest(files, entry)
    return write(files.fs, files.store_id, entries, path, lambda: _row_groups(files, entries))


def write(
    fs: FileSystem,
    store_id: bytes,
    entries: Sequence[SegmentEntry],
    path: str,
    tables: "Callable[[], Generator[pa.Table, None, None]]",
) -> SegmentEntry:
    """Write `tables`, called twice, to the new file `path`, which replaces `entries`.

    Raises: as `merge`.
    """
    meta = SegmentMeta(store_id, entries[0].base, entries[-1].end, sum(entry.dropped for entry in entries))
    output = _Output(fs, path)
    try:
        with closing(tables()) as written:  # it may hold an open segment
            _write(output, meta, written)
        output.finish()
    finally:
        output.close()
    with closing(tables()) as expected:
        rows = _check_equal(fs, path, expected)
    digest = output.digest.hexdigest()
    return SegmentEntry(
        name=segment_name(meta.base, meta.end, digest[:16]),
        base=meta.base,
        end=meta.end,
        rows=rows,
        bytes=output.size,
        blake3=digest,
        first_at=min((e.first_at for e in entries if e.first_at is not None), default=None),
        last_at=max((e.last_at for e in entries if e.last_at is not None), default=None),
        dropped=meta.dropped,
    )


def check_digest(files: StoreFiles, entry: SegmentEntry) -> None:
    """Read a segment whole and compare it with the manifest. Raises: Corruption, OSError."""
    path = files.layout.segment(entry.name)
    if digest_of(files.fs, path) != entry.blake3:
        raise Corruption(path, "its bytes are not those the manifest lists; it was left as it is")


def digest_of(fs: FileSystem, path: str) -> str:
    """The digest of a file. Raises: Corruption when there is none, OSError."""
    try:
        return hash_file(fs, path)
    except FileNotFoundError as error:
        raise Corruption(path, "the manifest lists this segment, but it is not there") from error


def _row_groups(files: StoreFiles, entries: Sequence[SegmentEntry]) -> "Generator[pa.Table, None, None]":
    """The events of the segments as tables of SCHEMA, cut as the row groups of the result."""
    taken: list[pa.Table] = []
    rows = ROW_GROUP_ROWS
    size = ROW_GROUP_BYTES
    for events in _read(files, entries):
        width = events.nbytes // events.num_rows + 1
        while events.num_rows:
            count = min(rows, size // width)
            if count <= 0 and taken:
                yield _one_table(taken)
                rows, size = ROW_GROUP_ROWS, ROW_GROUP_BYTES
                continue
            part = events.slice(0, max(1, count))
            events = events.slice(part.num_rows)
            taken.append(part)
            rows -= part.num_rows
            size -= part.num_rows * width
    if taken:
        yield _one_table(taken)


def _one_table(parts: "list[pa.Table]") -> "pa.Table":
    """The parts as one table with one chunk of each column; the list is empty then, and its memory free."""
    table = pa.concat_tables(parts).combine_chunks()
    parts.clear()
    _give_back()
    return table


def _give_back() -> None:
    pa.default_memory_pool().release_unused()  # else it keeps several times what a row group needs


def _read(files: StoreFiles, entries: Sequence[SegmentEntry]) -> "Iterator[pa.Table]":
    """The row groups of the segments that hold any events."""
    for entry in entries:
        with SegmentFile(files, entry) as file:
            for group in range(file.row_groups):
                events = file.read(row_group=group)
                if events.num_rows:
                    yield events


def _write(output: "_Output", meta: SegmentMeta, tables: "Iterator[pa.Table]") -> None:
    options: dict[str, Any] = {**WRITE_OPTIONS, "compression_level": COMPRESSION_LEVEL}
    del options["row_group_size"]  # it is up to the tables
    writer = pq.ParquetWriter(output, FILE_SCHEMA.with_metadata(marks_of(meta)), **options)
    try:
        for table in tables:
            writer.write_table(with_anchors_apart(table), row_group_size=table.num_rows)
            del table
            _give_back()
        writer.close()
    except BaseException as error:
        output.abandon()  # what the writer still writes when it is closed is dropped
        writer.close()
        if isinstance(error, pa.ArrowException):
            raise EventLogError(f"{output.path}: cannot write the segment: {error}. Try again.") from error
        raise


def _check_equal(fs: FileSystem, path: str, expected: "Iterator[pa.Table]") -> int:
    """Read the file back and compare it with what went in; the number of events. Raises: Corruption."""
    rows = 0
    with SeamFile(fs, path) as source:
        file = open_segment(source, path)
        for group, table in zip_longest(range(file.num_row_groups), expected):
            if group is None or table is None or not _holds(file, path, group, table):
                raise Corruption(
                    path, "what was written does not read back as the same events; nothing was merged"
                )
            rows += table.num_rows
            del table
    return rows


def _holds(file: "pq.ParquetFile", path: str, group: int, table: "pa.Table") -> bool:
    """Whether a row group of the file holds exactly this table of SCHEMA, column by column to save memory."""
    if file.metadata.row_group(group).num_rows != table.num_rows or not table.schema.equals(SCHEMA):
        return False
    for name in SCHEMA.names:
        if not read_columns(file, path, (name,), group)[name].equals(table[name]):
            return False
        _give_back()
    return True


class _Output(io.RawIOBase):
    """A new file of a `FileSystem` that pyarrow writes front to back; it counts and hashes what goes in."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        super().__init__()
        self.path = path
        self.size = 0
        self.digest = blake3()
        self._fs = fs
        self._waiting = bytearray()
        self._abandoned = False
        self._fd = fs.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size + len(self._waiting)

    def write(self, data: Any) -> int:
        count = len(data)
        if not self._abandoned:
            self._waiting += data
            if len(self._waiting) >= _BUFFER_BYTES:
                self._flush()
        return count

    def finish(self) -> None:
        """Make all of it durable."""
        self._flush()
        self._fs.fsync(self._fd)

    def abandon(self) -> None:
        """Take nothing more."""
        self._abandoned = True
        self._waiting.clear()

    def close(self) -> None:
        if not self.closed:
            self._fs.close(self._fd)
        super().close()

    def _flush(self) -> None:
        data = bytes(self._waiting)
        write_all(self._fs, self._fd, data, self.size)
        self.digest.update(data)
        self.size += len(data)
        self._waiting.clear()
