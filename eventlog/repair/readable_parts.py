"""What still verifies in a damaged file: rows of a segment, contents of a pack. Reads only.

Bytes may come from anywhere: errors in them are reported as text and never raised; those of the disk are.
Memory is that of one row group, or of one group of a pack.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from eventlog.base.errors import PARSE_ERRORS, Corruption, why_unreadable
from eventlog.base.fs import FileSystem
from eventlog.base.layout import parse_segment
from eventlog.blobs.pack import FOOTER_SIZE, HEADER_SIZE, PackTables, decode_tables, tables_range
from eventlog.blobs.proof import proven
from eventlog.blobs.writer import BlobWriter
from eventlog.log.segment import SegmentMeta, meta_of, open_segment, read_columns
from eventlog.log.segment_file import SeamFile

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_ROW_SIZE = 20
_PACK_BYTES = 64 << 20


@dataclass(slots=True)
class SegmentRows:
    """The content of a segment file: its metadata, and which row groups can be read."""

    path: str
    meta: "SegmentMeta | None" = None
    groups: list[int] = field(default_factory=list)  # that can be read
    lost: list[tuple[int, int]] = field(default_factory=list)  # positions of those that cannot
    rows: int = 0  # that can be read
    problem: "str | None" = None


def scan_segment(fs: FileSystem, path: str) -> SegmentRows:
    """Read all of a segment. Raises: OSError."""
    rows = SegmentRows(path)
    base = end = 0
    parsed = parse_segment(path.rpartition("/")[2])
    if parsed is not None:
        base, end = parsed[:2]
    try:
        source = SeamFile(fs, path)
        try:
            file = open_segment(source, path)
            rows.meta = meta_of(file, path)
            base, end = rows.meta.base, rows.meta.end
            _scan_groups(rows, file, base, end)
        finally:
            source.close()
    except PARSE_ERRORS as error:
        rows.problem = why_unreadable(error)
        rows.groups, rows.rows = [], 0
        rows.lost = [(base, end)] if end > base else []
    return rows


def _scan_groups(rows: SegmentRows, file: object, base: int, end: int) -> None:
    position = base
    hole = False
    for group in range(file.num_row_groups):  # type: ignore[attr-defined]
        try:
            positions = read_columns(file, rows.path, None, group)["position"].to_pylist()
            if not positions or positions[0] < position or positions[-1] >= end or not _ascends(positions):
                raise Corruption(rows.path, f"the positions of row group {group} are impossible")
        except PARSE_ERRORS as error:
            rows.problem = why_unreadable(error)
            hole = True
            continue
        if hole:
            rows.lost.append((position, positions[0]))
        hole = False
        position = positions[-1] + 1
        rows.groups.append(group)
        rows.rows += len(positions)
    if hole:
        rows.lost.append((position, end))


def _ascends(positions: list[int]) -> bool:
    return all(a < b for a, b in pairwise(positions))


def tables(fs: FileSystem, rows: SegmentRows) -> "Iterator[pa.Table]":
    """The row groups that are readable by `scan_segment`. Raises: as reading them does."""
    source = SeamFile(fs, rows.path)
    try:
        file = open_segment(source, rows.path)
        for group in rows.groups:
            yield read_columns(file, rows.path, None, group)
    finally:
        source.close()


@dataclass(slots=True)
class ReadablePack:
    """A pack that is read through: the ids it should hold, and those whose bytes are wrong."""

    path: str
    named: set[bytes] = field(default_factory=set)
    bad: set[bytes] = field(default_factory=set)
    problem: "str | None" = None
    saved: int = 0  # contents that `save_contents` stored


def contents(fs: FileSystem, pack: ReadablePack) -> Iterator[tuple[bytes, int, bytes]]:
    """(id, kind, bytes) of everything in a pack that hashes to its id; the rest is noted in `pack`.

    Tables that do not match their digest are used all the same: each content proves itself.
    Raises: OSError.
    """
    try:
        for id, kind, _, data in proven(fs, _tables(fs, pack)):
            pack.named.add(id)
            if isinstance(data, Exception):
                pack.bad.add(id)
            else:
                yield id, kind, data
    except PARSE_ERRORS as error:
        pack.problem = why_unreadable(error)


def save_contents(
    fs: FileSystem, pack: ReadablePack, writer: BlobWriter, is_wanted: Callable[[bytes], bool]
) -> None:
    """Store what can be read of a pack and is wanted. Raises: OSError, NotDurable."""
    for id, kind, data in contents(fs, pack):
        if is_wanted(id):
            writer.add_copy(id, kind, data)
            pack.saved += 1
            if writer.pending_bytes() >= _PACK_BYTES:
                writer.flush()


def _tables(fs: FileSystem, pack: ReadablePack) -> PackTables:
    path = pack.path
    fd = fs.open(path, 0)
    try:
        size = fs.fstat(fd).st_size
        footer = fs.pread(fd, FOOTER_SIZE, max(0, size - FOOTER_SIZE))
        base, end = tables_range(footer, size, path)
        header = fs.pread(fd, HEADER_SIZE, 0)
        data = fs.pread(fd, end - base, base)
    finally:
        fs.close(fd)
    try:
        return decode_tables(header, data, footer, size, path, "")
    except Corruption as error:
        pack.problem = error.what
        split = int.from_bytes(footer[:4], "little") * _GROUP_ROW_SIZE
        return PackTables(path, "", header[8:24], size, base, data[:split], data[split:])
