"""The idx: one sorted table over many packs, read one bucket at a time.

    head         52  magic 89 'E' 'V' 'X', version u16 = 1, bucket bits b u16, store id 16, pack count u32,
                     zero u32, entry count u64, file length u64, zero u32
    packs        32  per pack: its name, ascending
    bucket ends   4  per bucket, 2^b of them: entries up to and with it
    digest       16  BLAKE3-128 of everything above
    buckets          56 bytes per entry, sorted by id, then the CRC-32 of (bucket number u32, these bytes)
    entry        56  id 32, pack u32, kind u8, 3 zero, file offset of the group u64, offset in it u32,
                     length u32

An entry is in the bucket that the first b bits of its id name. An idx is derived: one that is damaged,
or names a pack which is gone, is not used, and the packs' own tables answer instead (I22). Each bucket
has a checksum of its own, so that damage cannot pass for an absent id.

`Idx` keeps one descriptor open and belongs to one thread at a time. On the hook path.
"""

import os
import struct
import zlib

from blake3 import blake3

from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem
from eventlog.blobs.pack import PackTables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MAGIC = b"\x89EVX"
_VERSION = 1
_HEAD = struct.Struct("<4sHH16sIIQQI")
_ENTRY = struct.Struct("<32sIIQII")
_DIGEST_SIZE = 16
_CRC_SIZE = 4
_BITS_MAX = 24
_ENTRIES_PER_BUCKET = 32  # 1.8 kB, read and checked in about two microseconds

# (pack name, kind, file offset of the group, offset in the raw group, length)
Location = tuple[str, int, int, int, int]


class Idx:
    """An open idx file.

    Raises Corruption when it is not a whole idx of this store. `packs` are the names it covers.
    """

    _base: int
    _bits: int
    _ends: "tuple[int, ...]"
    _last: "tuple[int, bytes]"
    _names: "list[str]"
    packs: "frozenset[str]"

    __slots__ = ("_base", "_bits", "_ends", "_fd", "_fs", "_last", "_names", "packs", "path")

    def __init__(self, fs: FileSystem, path: str, store_id: bytes) -> None:
        self.path = path
        self._fs = fs
        self._last = -1, b""  # so that ids in their order read each bucket once
        self._fd = fs.open(path, os.O_RDONLY)
        try:
            self._read_head(store_id)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._fs.close(fd)

    def find(self, id: bytes) -> "Location | None":
        """Where `id` is; None when none of the covered packs holds it.

        Raises: Corruption.
        """
        number = self._bucket_of(id)
        if number != self._last[0]:
            self._last = number, self._bucket(number)
        bucket = self._last[1]
        offset_in_bucket = bucket.find(id)
        while offset_in_bucket % _ENTRY.size:  # a match across two fields, or none (-1)
            if offset_in_bucket < 0:
                return None
            offset_in_bucket = bucket.find(id, offset_in_bucket + 1)
        _, pack, kind, group_offset, offset, length = _ENTRY.unpack_from(bucket, offset_in_bucket)
        if pack >= len(self._names):
            raise Corruption(self.path, f"there is no pack {pack} in this idx")
        return self._names[pack], kind, group_offset, offset, length

    def ids_from(self, low: bytes, high: bytes) -> "Iterable[bytes]":
        """The ids in [low, high], both included, sorted.

        Raises: Corruption.
        """
        for number in range(self._bucket_of(low), self._bucket_of(high) + 1):
            bucket = self._bucket(number)
            for offset in range(0, len(bucket), _ENTRY.size):
                id = bucket[offset : offset + 32]
                if low <= id <= high:
                    yield id

    def check(self) -> None:
        """Read every bucket.

        Raises: Corruption.
        """
        for number in range(1 << self._bits):
            self._bucket(number)

    def _bucket_of(self, id: bytes) -> int:
        number: int = int.from_bytes(id[:4], "big") >> (32 - self._bits)
        return number

    def _bucket(self, number: int) -> bytes:
        """The entries of one bucket, checked."""
        ends = self._ends
        first = ends[number - 1] if number else 0
        size = (ends[number] - first) * _ENTRY.size
        offset = self._base + first * _ENTRY.size + number * _CRC_SIZE
        data = self._fs.pread(self._fd, size + _CRC_SIZE, offset)
        entries = data[:size]
        if data[size:] != _crc(number, entries):
            raise Corruption(self.path, "a bucket does not match its checksum", offset)
        return entries

    def _read_head(self, store_id: bytes) -> None:
        size = self._fs.fstat(self._fd).st_size
        head = self._fs.pread(self._fd, _HEAD.size, 0)
        if len(head) != _HEAD.size:
            raise Corruption(self.path, "this is too short for an idx", 0)
        magic, version, bits, store, packs, zero, entries, length, zero2 = _HEAD.unpack(head)
        if magic != _MAGIC or version != _VERSION or store != store_id or zero or zero2 or bits > _BITS_MAX:
            raise Corruption(self.path, "this is not an idx of format 1 of this store", 0)
        buckets = 1 << bits
        rest = packs * 32 + buckets * 4
        base = _HEAD.size + rest + _DIGEST_SIZE
        if size != length or size != base + entries * _ENTRY.size + buckets * _CRC_SIZE:
            raise Corruption(self.path, f"an idx of {size} bytes cannot hold what its head says", 0)
        body = self._fs.pread(self._fd, rest + _DIGEST_SIZE, _HEAD.size)
        if blake3(head).update(body[:rest]).digest(_DIGEST_SIZE) != body[rest:]:
            raise Corruption(self.path, "the head does not match its digest", 0)
        self._base = base
        self._bits = bits
        self._ends = struct.unpack_from(f"<{buckets}I", body, packs * 32)
        if self._ends[-1] != entries or list(self._ends) != sorted(self._ends):
            raise Corruption(self.path, "the buckets do not add up", _HEAD.size)
        self._names = [body[offset : offset + 32].hex() for offset in range(0, packs * 32, 32)]
        self.packs = frozenset(self._names)


def encode_idx(store_id: bytes, packs: "Iterable[PackTables]") -> bytes:
    """The bytes of an idx over these packs. An id that several of them hold is found in one of them.

    Raises: Corruption when a pack's rows are impossible.
    """
    ordered = sorted(packs, key=lambda tables: tables.name)
    rows: "dict[bytes, bytes]" = {}
    for number, tables in enumerate(ordered):
        tables.check()
        offsets = [tables.group(index).offset for index in range(tables.group_count)]
        for index in range(len(tables)):
            id, kind, group, offset, length = tables.entry(index)
            if id not in rows:
                rows[id] = _ENTRY.pack(id, number, kind, offsets[group], offset, length)
    entries = [rows[id] for id in sorted(rows)]
    return _encode(store_id, [bytes.fromhex(tables.name) for tables in ordered], entries)


def _encode(store_id: bytes, names: "list[bytes]", entries: "list[bytes]") -> bytes:
    bits = max(0, min(_BITS_MAX, (len(entries) // _ENTRIES_PER_BUCKET).bit_length()))
    buckets: "list[list[bytes]]" = [[] for _ in range(1 << bits)]
    for entry in entries:
        buckets[int.from_bytes(entry[:4], "big") >> (32 - bits)].append(entry)
    body: "list[bytes]" = []
    ends = []
    count = 0
    for number, bucket in enumerate(buckets):
        joined = b"".join(bucket)
        body += (joined, _crc(number, joined))
        count += len(bucket)
        ends.append(count)
    directory = b"".join(names) + struct.pack(f"<{len(ends)}I", *ends)
    size = _HEAD.size + len(directory) + _DIGEST_SIZE + sum(map(len, body))
    head = _HEAD.pack(_MAGIC, _VERSION, bits, store_id, len(names), 0, len(entries), size, 0)
    digest = blake3(head).update(directory).digest(_DIGEST_SIZE)
    return b"".join((head, directory, digest, *body))


def _crc(number: int, entries: bytes) -> bytes:
    return zlib.crc32(entries, zlib.crc32(struct.pack("<I", number))).to_bytes(4, "little")
