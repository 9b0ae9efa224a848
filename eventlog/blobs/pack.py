"""A pack as bytes: compressed groups of blobs and trees, and the tables that find one in them.

    header        24  magic 89 'E' 'V' 'P', version u16 = 1, flags u16 = 0, store id 16
    groups            each: codec u8, 3 zero, raw length u32, stored length u32, stored bytes
    group table   20  per group: file offset u64, codec u8, 3 zero, raw length u32, stored length u32
    entry table   56  per blob or tree, sorted by id: id 32, kind u8 ('b' or 't'), 3 zero, group u32,
                      offset in the raw group u64, length u64
    footer        48  group count u32, entry count u32, offset of the group table u64,
                      BLAKE3-128 of (header, both tables, the 16 bytes before), file length u64, zero u32,
                      end magic 'P' 'V' 'E' 89

Everything little-endian. The file's name is the BLAKE3-256 of all its bytes, so a full read needs no
other digest; the footer's digest is there for readers who open a pack without reading its groups.
Group bytes are covered by the id of what is read from them.

Decoders raise Corruption and nothing else, and never make more than the raw length of a group, which
they check first: at most 16 MiB, or the length of the one blob in it (I11). Pure functions and two
slotted classes; on the hook path. zstd needs pyarrow, imported on its first use.
"""

import struct

from blake3 import blake3

from eventlog.base.errors import Corruption

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

RAW, ZLIB, ZSTD = 0, 1, 2
CODEC_NAMES = {"raw": RAW, "zlib": ZLIB, "zstd": ZSTD}

BLOB, TREE = 0x62, 0x74  # 'b', 't'

GROUP_RAW_MAX = 16 * 1024 * 1024
BLOB_SIZE_MAX = 2**32 - 1

_MAGIC = b"\x89EVP"
_END_MAGIC = b"PVE\x89"
_VERSION = 1

# A byte and three zero bytes are one u32 below 256: so the zeros are checked together with the value.
_HEADER = struct.Struct("<4sHH16s")
_GROUP = struct.Struct("<III")
_GROUP_ROW = struct.Struct("<QIII")
_ENTRY = struct.Struct("<32sIIQQ")
_FOOTER_HEAD = struct.Struct("<IIQ")
_FOOTER = struct.Struct("<IIQ16sQI4s")

HEADER_SIZE = _HEADER.size
GROUP_HEAD_SIZE = _GROUP.size
ENTRY_SIZE = _ENTRY.size
FOOTER_SIZE = _FOOTER.size
PACK_SIZE_MIN = HEADER_SIZE + FOOTER_SIZE

# zlib cannot pack more than about 1,030 bytes into one; a group that claims more is not believed.
_ZLIB_RATIO_MAX = 1100
_PIECE = 64 * 1024

# Incompressible data is found by a sample: all of it through zlib would cost 25 ms per MiB.
_SAMPLE_FROM = 256 * 1024
_SAMPLE_SIZE = 64 * 1024


class Group:
    """Where one group is in its file, and how it is stored."""

    __slots__ = ("codec", "offset", "raw_size", "stored_size")

    def __init__(self, offset: int, codec: int, raw_size: int, stored_size: int) -> None:
        self.offset = offset
        self.codec = codec
        self.raw_size = raw_size
        self.stored_size = stored_size


# (path of the pack, kind, file offset of the group, offset in the raw group, length)
Location = tuple[str, int, int, int, int]


class PackTables:
    """The two tables of one pack. `path` and `name` are the pack's; rows are decoded when asked for."""

    __slots__ = ("_entries", "_groups", "group_count", "name", "path", "size", "store_id", "tables_offset")

    def __init__(
        self,
        path: str,
        name: str,
        store_id: bytes,
        size: int,
        tables_offset: int,
        groups: bytes,
        entries: bytes,
    ) -> None:
        self.path = path
        self.name = name
        self.store_id = store_id
        self.size = size
        self.tables_offset = tables_offset
        self.group_count = len(groups) // _GROUP_ROW.size
        self._groups = groups
        self._entries = entries

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries) // ENTRY_SIZE

    def encoded(self) -> "tuple[bytes, bytes]":
        """The group table and the entry table, as in the pack."""
        return self._groups, self._entries

    def ids(self) -> "list[bytes]":
        """The ids of all entries, sorted."""
        table = self._entries
        return [table[offset : offset + 32] for offset in range(0, len(table), ENTRY_SIZE)]

    def entry(self, index: int) -> "tuple[bytes, int, int, int, int]":
        """(id, kind, group, offset in the raw group, length) of entry `index`."""
        return _ENTRY.unpack_from(self._entries, index * ENTRY_SIZE)

    def entries(self) -> "Iterator[tuple[bytes, int, int, int, int]]":
        """All entries, sorted by their ids; as `entry`."""
        return _ENTRY.iter_unpack(memoryview(self._entries)[: len(self) * ENTRY_SIZE])

    def first_from(self, id: bytes) -> int:
        """The index of the first entry whose id is `id` or after it; the entry count when none is."""
        from bisect import bisect_left

        table = self._entries
        return bisect_left(range(len(self)), id, key=lambda i: table[i * ENTRY_SIZE : i * ENTRY_SIZE + 32])

    def find(self, id: bytes) -> "Location | None":
        """Where the content with this id lies. Raises: Corruption."""
        index = self.first_from(id)
        if index == len(self):
            return None
        entry_id, kind, group, offset, length = self.entry(index)
        return (self.path, kind, self.group(group).offset, offset, length) if entry_id == id else None

    def group(self, index: int) -> Group:
        """Group `index`, checked against the file's size.

        Raises: Corruption.
        """
        if not 0 <= index < self.group_count:
            raise Corruption(self.path, f"there is no group {index} in this pack")
        offset, codec, raw_size, stored_size = _GROUP_ROW.unpack_from(self._groups, index * _GROUP_ROW.size)
        if offset < HEADER_SIZE or offset + GROUP_HEAD_SIZE + stored_size > self.tables_offset:
            raise Corruption(self.path, f"group {index} lies outside the groups of this pack", offset)
        return Group(offset, codec, raw_size, stored_size)

    def holds(self, groups: "Iterable[Group]", entries: "Iterable[tuple[bytes, int, int, int, int]]") -> bool:
        """Whether these are exactly the groups and, in the order of ids, the entries."""
        rows = [(g.offset, g.codec, g.raw_size, g.stored_size) for g in groups]
        return rows == [*_GROUP_ROW.iter_unpack(self._groups)] and sorted(entries) == [
            *_ENTRY.iter_unpack(self._entries)
        ]

    def check(self) -> None:
        """Check every row: groups follow each other without gaps, entries are sorted and inside their group.

        Raises: Corruption. A reader need not call this: what it uses of a row, it checks.
        """
        end = HEADER_SIZE
        raw_sizes = []
        for index in range(self.group_count):
            group = self.group(index)
            if group.offset != end:
                raise Corruption(self.path, f"group {index} does not follow the one before it", group.offset)
            check_group(self.path, group)
            end += GROUP_HEAD_SIZE + group.stored_size
            raw_sizes.append(group.raw_size)
        if end != self.tables_offset:
            raise Corruption(self.path, "there are bytes between the groups and their table", end)
        previous = b""
        members = [0] * self.group_count
        for index in range(len(self)):
            id, kind, number, offset, length = self.entry(index)
            if id <= previous:
                raise Corruption(self.path, f"entry {index} is not in the order of ids")
            if kind not in (BLOB, TREE) or number >= self.group_count or offset + length > raw_sizes[number]:
                raise Corruption(self.path, f"entry {index} is impossible")
            members[number] += 1
            if raw_sizes[number] > GROUP_RAW_MAX and (members[number] > 1 or length != raw_sizes[number]):
                raise Corruption(self.path, f"group {number} is over {GROUP_RAW_MAX} bytes and not one blob")
            previous = id


def encode_header(store_id: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _VERSION, 0, store_id)


def encode_group_head(codec: int, raw_size: int, stored_size: int) -> bytes:
    return _GROUP.pack(codec, raw_size, stored_size)


def encode_tables(
    header: bytes,
    groups: "Iterable[Group]",
    entries: "Iterable[tuple[bytes, int, int, int, int]]",
    tables_offset: int,
) -> "tuple[bytes, bytes, bytes]":
    """(group table, entry table, footer) of a pack whose groups end at `tables_offset`."""
    row, entry = _GROUP_ROW.pack, _ENTRY.pack
    group_table = b"".join([row(g.offset, g.codec, g.raw_size, g.stored_size) for g in groups])
    entry_table = b"".join([entry(*fields) for fields in sorted(entries)])
    head = _FOOTER_HEAD.pack(
        len(group_table) // _GROUP_ROW.size, len(entry_table) // ENTRY_SIZE, tables_offset
    )
    size = tables_offset + len(group_table) + len(entry_table) + FOOTER_SIZE
    digest = _tables_digest(header, group_table, entry_table, head)
    footer = head + digest + struct.pack("<QI4s", size, 0, _END_MAGIC)
    return group_table, entry_table, footer


def tables_range(footer: bytes, size: int, path: str) -> "tuple[int, int]":
    """[base, end) of the two tables in a pack of `size` bytes that ends with `footer`.

    Raises: Corruption.
    """
    if size < PACK_SIZE_MIN or len(footer) != FOOTER_SIZE:
        raise Corruption(path, f"{size} bytes are too few for a pack")
    groups, entries, offset, _, length, zero, magic = _FOOTER.unpack(footer)
    if magic != _END_MAGIC or zero != 0 or length != size:
        raise Corruption(path, "the footer is not that of a pack of this length", size - FOOTER_SIZE)
    end = size - FOOTER_SIZE
    if offset < HEADER_SIZE or offset + groups * _GROUP_ROW.size + entries * ENTRY_SIZE != end:
        raise Corruption(path, "the tables do not fill the space before the footer", end)
    return offset, end


def decode_tables(header: bytes, tables: bytes, footer: bytes, size: int, path: str, name: str) -> PackTables:
    """The tables of a pack, from its first 24 bytes, the bytes of `tables_range`, and its last 48.

    Raises: Corruption.
    """
    base, end = tables_range(footer, size, path)
    if len(header) != HEADER_SIZE or len(tables) != end - base:
        raise Corruption(path, "the file is shorter than its footer says")
    magic, version, flags, store_id = _HEADER.unpack(header)
    if magic != _MAGIC or version != _VERSION or flags != 0:
        raise Corruption(path, "this is not a pack of format 1", 0)
    group_count, _, _, digest = struct.unpack_from("<IIQ16s", footer)
    split = group_count * _GROUP_ROW.size
    groups, entries = tables[:split], tables[split:]
    if _tables_digest(header, groups, entries, footer[: _FOOTER_HEAD.size]) != digest:
        raise Corruption(path, "the tables do not match their digest", base)
    return PackTables(path, name, store_id, size, base, groups, entries)


def decode_group_head(head: bytes, path: str, offset: int) -> Group:
    """The head of a group: the 12 bytes before its stored bytes.

    Raises: Corruption.
    """
    if len(head) != GROUP_HEAD_SIZE:
        raise Corruption(path, "the file ends where a group should begin", offset)
    codec, raw_size, stored_size = _GROUP.unpack(head)
    return Group(offset, codec, raw_size, stored_size)


def check_group(path: str, group: Group) -> None:
    """Refuse a group whose numbers cannot be true, before anything is allocated for it.

    Raises: Corruption.
    """
    codec, raw, stored = group.codec, group.raw_size, group.stored_size
    if (
        codec not in (RAW, ZLIB, ZSTD)
        or (codec == RAW and raw != stored)
        or (codec == ZLIB and raw > stored * _ZLIB_RATIO_MAX)
    ):
        raise Corruption(path, "the head of this group is impossible", group.offset)


def compress(raw: bytes, codec: int, level: int) -> "tuple[int, bytes]":
    """(codec, stored bytes) of a group: as asked, or raw when that is not larger."""
    if codec == ZLIB:
        import zlib

        if len(raw) >= _SAMPLE_FROM:
            middle = len(raw) // 2
            sample = raw[middle : middle + _SAMPLE_SIZE]
            if len(zlib.compress(sample, level)) > len(sample) * 0.97:
                return RAW, raw
        stored = zlib.compress(raw, level)
    elif codec == ZSTD:
        stored = _zstd(level).compress(raw, asbytes=True)
    else:
        return RAW, raw
    return (codec, stored) if len(stored) < len(raw) else (RAW, raw)


def decompress(group: Group, stored: bytes, path: str) -> bytes:
    """The raw bytes of a group, exactly as many as its head claims.

    Raises: Corruption.
    """
    raw_size = group.raw_size
    if len(stored) != group.stored_size:
        raise Corruption(path, "the file ends inside a group", group.offset)
    if group.codec == RAW:
        return stored
    if group.codec == ZLIB:
        raw = _inflate(stored, raw_size)
    else:
        try:
            raw = _zstd(1).decompress(stored, raw_size, asbytes=True)
        except (OSError, ValueError):  # ArrowInvalid is a ValueError
            raw = None
    if raw is None or len(raw) != raw_size:
        raise Corruption(path, "the bytes of this group do not decompress", group.offset)
    return raw


def decompressed(group: Group, stored: bytes, path: str) -> "Iterator[bytes]":
    """The raw bytes of a group as `decompress` gives them, in pieces where it is too large to hold twice.

    Raises: Corruption, also after some pieces.
    """
    if group.raw_size <= GROUP_RAW_MAX or group.codec == RAW:
        yield decompress(group, stored, path)
        return
    size = 0
    try:
        for piece in _zstd_pieces(stored) if group.codec == ZSTD else _zlib_pieces(stored):
            size += len(piece)
            yield piece
    except (OSError, ValueError):
        size = -1
    if size != group.raw_size:
        raise Corruption(path, "the bytes of this group do not decompress", group.offset)


def _zlib_pieces(stored: bytes) -> "Iterator[bytes]":
    import zlib

    stream, view = zlib.decompressobj(), memoryview(stored)
    try:
        for at in range(0, len(view), _PIECE):
            yield stream.decompress(view[at : at + _PIECE])
    except zlib.error as error:
        raise ValueError from error
    if not stream.eof or stream.unused_data:
        raise ValueError


def _zstd_pieces(stored: bytes) -> "Iterator[bytes]":
    import pyarrow

    with pyarrow.CompressedInputStream(pyarrow.BufferReader(stored), "zstd") as stream:
        while piece := stream.read(_PIECE):
            yield piece


def _inflate(stored: bytes, raw_size: int) -> "bytes | None":
    import zlib

    stream = zlib.decompressobj()
    try:
        # One byte more than allowed: a longer stream shows, and zlib reads on to its checksum.
        raw = stream.decompress(stored, raw_size + 1)
    except zlib.error:
        return None
    return raw if stream.eof and not stream.unused_data else None


_zstd_codecs: "dict[int, Any]" = {}


def _zstd(level: int) -> "Any":
    codec = _zstd_codecs.get(level)
    if codec is None:
        import pyarrow

        codec = _zstd_codecs[level] = pyarrow.Codec("zstd", compression_level=level)
    return codec


def _tables_digest(header: bytes, groups: bytes, entries: bytes, footer_head: bytes) -> bytes:
    return blake3(header).update(groups).update(entries).update(footer_head).digest(16)
