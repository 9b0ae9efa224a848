"""What still verifies in a damaged file: rows of a segment, contents of a pack. Reads only.

Bytes may be anybody's: what is wrong with them is told as text and never raised; a disk that refuses is.
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

# What reading bytes that nobody vouches for may raise: pyarrow's errors are ValueErrors and others, and sizes
# that are made up end in MemoryError. An OSError is the disk's.
Unsound = (
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
        at = 0
        while data := fs.pread(fd, _CHUNK, at):
            digest.update(data)
            at += len(data)
    finally:
        fs.close(fd)
    return digest.hexdigest()


@dataclass(slots=True)
class Rows:
    """What a segment file holds: its own words about itself, and which row groups can be read."""

    path: str
    meta: "SegmentMeta | None" = None
    groups: list[int] = field(default_factory=list)  # that can be read
    lost: list[tuple[int, int]] = field(default_factory=list)  # positions of those that cannot
    rows: int = 0  # that can be read
    problem: "str | None" = None


def look(fs: FileSystem, path: str) -> Rows:
    """Read all of a segment. Raises: OSError."""
    found = Rows(path)
    base = end = 0
    named = parse_segment(path.rpartition("/")[2])
    if named is not None:
        base, end = named[:2]
    try:
        source = SeamFile(fs, path)
        try:
            file = open_segment(source, path)
            found.meta = meta_of(file, path)
            base, end = found.meta.base, found.meta.end
            _look_at_groups(found, file, base, end)
        finally:
            source.close()
    except Unsound as error:
        found.problem = _why(error)
        found.groups, found.rows = [], 0
        found.lost = [(base, end)] if end > base else []
    return found


def _look_at_groups(found: Rows, file: object, base: int, end: int) -> None:
    at = base
    hole = False
    for group in range(file.num_row_groups):  # type: ignore[attr-defined]
        try:
            positions = read_columns(file, found.path, None, group)["position"].to_pylist()
            if not positions or positions[0] < at or positions[-1] >= end or not _ascends(positions):
                raise Corruption(found.path, f"the positions of row group {group} are impossible")
        except Unsound as error:
            found.problem = _why(error)
            hole = True
            continue
        if hole:
            found.lost.append((at, positions[0]))
        hole = False
        at = positions[-1] + 1
        found.groups.append(group)
        found.rows += len(positions)
    if hole:
        found.lost.append((at, end))


def _ascends(positions: list[int]) -> bool:
    return all(a < b for a, b in pairwise(positions))


def tables(fs: FileSystem, found: Rows) -> "Iterator[pa.Table]":
    """The row groups that `look` found to be readable. Raises: as reading them does."""
    source = SeamFile(fs, found.path)
    try:
        file = open_segment(source, found.path)
        for group in found.groups:
            yield read_columns(file, found.path, None, group)
    finally:
        source.close()


@dataclass(slots=True)
class ReadablePack:
    """A pack that is looked through: which ids it should hold, and those of which the bytes are right."""

    path: str
    named: set[bytes] = field(default_factory=set)
    bad: dict[bytes, str] = field(default_factory=dict)
    problem: "str | None" = None


def contents(fs: FileSystem, path: str, found: ReadablePack) -> Iterator[tuple[bytes, int, bytes]]:
    """(id, kind, bytes) of everything in a pack that hashes to its id; what does not joins `found`.

    Tables that do not match their digest are used all the same: each content proves itself.
    Raises: OSError.
    """
    try:
        rows = sorted(_rows(_tables(fs, path, found)), key=lambda row: row[2:])
    except Unsound as error:
        found.problem = _why(error)
        return
    reader = GroupReader(fs)
    try:
        for id, kind, start, offset, length in rows:
            found.named.add(id)
            try:
                data = reader.read(path, start, offset, length)
                if (tree_id(data) if kind == TREE else blob_id(data)) != id:
                    raise Corruption(path, f"{to_text(id)} does not match its hash", start)
                if kind == TREE:
                    decode_tree(data, to_text(id))
            except Unsound as error:
                found.bad[id] = _why(error)
                continue
            yield id, kind, data
    finally:
        reader.close()


def _tables(fs: FileSystem, path: str, found: ReadablePack) -> PackTables:
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
        found.problem = error.what
        split = int.from_bytes(footer[:4], "little") * _GROUP_ROW_SIZE
        return PackTables(path, "", header[8:24], size, base, data[:split], data[split:])


def _rows(tables: PackTables) -> Iterator[tuple[bytes, int, int, int, int]]:
    for index in range(len(tables)):
        id, kind, group, offset, length = tables.entry(index)
        try:
            yield id, kind, tables.group(group).offset, offset, length
        except Corruption:
            continue  # a row that is impossible says nothing


def _why(error: BaseException) -> str:
    text = error.what if isinstance(error, Corruption) else str(error) or type(error).__name__
    return text.splitlines()[0][:200]
