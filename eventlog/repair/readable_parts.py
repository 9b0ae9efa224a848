"""What still verifies in a damaged file: rows of a segment, contents of a pack. Reads only.

Bytes may come from anywhere: errors in them are reported as text and never raised; those of the disk are.
Memory is that of one row group, or of one group of a pack.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from blake3 import blake3

from eventlog.base.errors import Corruption, EventLogError
from eventlog.base.fs import FileSystem
from eventlog.base.layout import parse_segment
from eventlog.blobs.groups import GroupReader
from eventlog.blobs.ids import blob_id, to_text, tree_id
from eventlog.blobs.pack import (
    FOOTER_SIZE,
    HEADER_SIZE,
    TREE,
    PackTables,
    decode_tables,
    tables_range,
)
from eventlog.blobs.tree import decode_tree
from eventlog.log.segment import SegmentMeta, meta_of, open_segment, read_columns
from eventlog.log.segment_file import SeamFile

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK = 1 << 20
_GROUP_ROW_SIZE = 20

# Errors from parsing unverified bytes: pyarrow's errors are ValueErrors and others, and impossible sizes end
# in MemoryError. An OSError is the disk's.
PARSE_ERRORS = (
    EventLogError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    OverflowError,
    MemoryError,
    RuntimeError,
)


def hash_of(fs: FileSystem, path: str) -> str:
    """BLAKE3 of a file, in hex. Raises: OSError."""
    digest = blake3()
    fd = fs.open(path, 0)
    try:
        offset = 0
        while data := fs.pread(fd, _CHUNK, offset):
            digest.update(data)
            offset += len(data)
    finally:
        fs.close(fd)
    return digest.hexdigest()


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
        rows.problem = _why(error)
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
            rows.problem = _why(error)
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
    bad: dict[bytes, str] = field(default_factory=dict)
    problem: "str | None" = None


def contents(fs: FileSystem, path: str, pack: ReadablePack) -> Iterator[tuple[bytes, int, bytes]]:
    """(id, kind, bytes) of everything in a pack that hashes to its id; the rest is noted in `pack`.

    Tables that do not match their digest are used all the same: each content proves itself.
    Raises: OSError.
    """
    try:
        entries = sorted(_rows(_tables(fs, path, pack)), key=lambda row: row[2:])
    except PARSE_ERRORS as error:
        pack.problem = _why(error)
        return
    reader = GroupReader(fs)
    try:
        for id, kind, start, offset, length in entries:
            pack.named.add(id)
            try:
                data = reader.read(path, start, offset, length)
                if (tree_id(data) if kind == TREE else blob_id(data)) != id:
                    raise Corruption(path, f"{to_text(id)} does not match its hash", start)
                if kind == TREE:
                    decode_tree(data, to_text(id))
            except PARSE_ERRORS as error:
                pack.bad[id] = _why(error)
                continue
            yield id, kind, data
    finally:
        reader.close()


def _tables(fs: FileSystem, path: str, pack: ReadablePack) -> PackTables:
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


def _rows(tables: PackTables) -> Iterator[tuple[bytes, int, int, int, int]]:
    for index in range(len(tables)):
        id, kind, group, offset, length = tables.entry(index)
        try:
            yield id, kind, tables.group(group).offset, offset, length
        except Corruption:
            continue  # the row is impossible


def _why(error: BaseException) -> str:
    text = error.what if isinstance(error, Corruption) else str(error) or type(error).__name__
    return text.splitlines()[0][:200]
