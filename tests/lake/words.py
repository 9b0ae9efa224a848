"""Which words are in the objects of a place, whatever their form: as bytes, and in what they hold."""

import zlib
from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog.lake.place import Place
from tests.lake.small import objects

_SYNC = 16


def words_in(place: Place, words: "Collection[str]") -> "dict[str, set[str]]":
    """The objects that hold any of these words, in any case, and which."""
    held = {name: {word for word in words if word.encode() in data} for name, data in _read(place).items()}
    return {name: found for name, found in held.items() if found}


def _read(place: Place) -> "dict[str, bytes]":
    return {name: (data + held_by(name, data)).lower() for name, data in objects(place).items()}


def held_by(name: str, data: bytes) -> bytes:
    """The rows of a Parquet file with its metadata, the blocks of an Avro file without their compression."""
    if name.endswith(".parquet"):
        table = pq.read_table(pa.BufferReader(data))
        return repr((table.to_pydict(), table.schema.metadata)).encode("utf-8", "surrogatepass")
    return _inflated(data) if name.endswith(".avro") else b""


def _inflated(data: bytes) -> bytes:
    """The blocks of an Avro file: a header with a map and a mark; the mark again after each block."""
    assert data.startswith(b"Obj\x01")
    at, entries = 4, 0
    while True:
        entries, at = _number(data, at)
        if not entries:
            break
        for _ in range(2 * entries):
            size, at = _number(data, at)
            at += size
    at += _SYNC
    blocks = []
    while at < len(data):
        _, at = _number(data, at)
        size, at = _number(data, at)
        blocks.append(zlib.decompress(data[at : at + size], -15))
        at += size + _SYNC
    return b"".join(blocks)


def _number(data: bytes, at: int) -> "tuple[int, int]":
    """An Avro number, and where the next value begins."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
