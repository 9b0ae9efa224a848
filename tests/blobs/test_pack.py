"""The encoding of a pack, apart from any file."""

import random
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import Corruption
from eventlog.blobs import pack as codec
from eventlog.blobs.ids import blob_id
from eventlog.blobs.pack import BLOB, RAW, ZLIB, ZSTD, Group, PackTables
from tests.conftest import STORE_ID

PATH = "packs/x.evp"


def build(groups: list[list[bytes]], kind: int = ZLIB) -> bytes:
    """A pack of these groups of blobs."""
    data = codec.encode_header(STORE_ID)
    rows, entries = [], []
    header = data
    for number, blobs in enumerate(groups):
        raw = b"".join(blobs)
        used, stored = codec.compress(raw, kind, 1)
        rows.append(Group(len(data), used, len(raw), len(stored)))
        data += codec.encode_group_head(used, len(raw), len(stored)) + stored
        offset = 0
        for blob in blobs:
            entries.append((blob_id(blob), BLOB, number, offset, len(blob)))
            offset += len(blob)
    return data + b"".join(codec.encode_tables(header, rows, entries, len(data)))


def parse(data: bytes) -> PackTables:
    footer = data[-codec.FOOTER_SIZE :]
    base, end = codec.tables_range(footer, len(data), PATH)
    tables = codec.decode_tables(data[: codec.HEADER_SIZE], data[base:end], footer, len(data), PATH, "x")
    tables.check()
    return tables


def read_all(data: bytes) -> dict[bytes, bytes]:
    """Every blob of a pack, each under the id that the table gives it."""
    tables = parse(data)
    found = {}
    for index in range(len(tables)):
        id, _, number, offset, length = tables.entry(index)
        at = tables.group(number).offset
        group = codec.decode_group_head(data[at : at + codec.GROUP_HEAD_SIZE], PATH, at)
        codec.check_group(PATH, group)
        start = at + codec.GROUP_HEAD_SIZE
        raw = codec.decompress(group, data[start : start + group.stored_size], PATH)
        found[id] = raw[offset : offset + length]
    return found


BLOBS = st.lists(st.binary(max_size=60), max_size=8, unique=True)


@given(st.lists(st.binary(max_size=60), unique=True, max_size=8), st.data())
def test_blobs_come_back_from_a_pack(blobs, data):
    """Whatever the groups and the codec, each id gives its bytes."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(blobs)), max_size=3)))
    groups = [blobs[a:b] for a, b in zip([0, *cuts], [*cuts, len(blobs)], strict=True)]
    kind = data.draw(st.sampled_from([RAW, ZLIB, ZSTD]))
    assert read_all(build(groups, kind)) == {blob_id(blob): blob for blob in blobs}


@pytest.mark.parametrize("kind", [RAW, ZLIB, ZSTD])
def test_every_flipped_bit_of_a_pack_is_noticed_or_without_effect(kind):
    """With any one bit changed, a reader gets the same bytes as before or an error, never others (I11).

    The hash of the file, which is its name, shows the changes without effect; `verify` compares it.
    """
    blobs = [b"a" * 40, b"b" * 30 + b"c" * 30]
    good = build([blobs[:1], blobs[1:]], kind)
    expected = read_all(good)
    for bit in range(len(good) * 8):
        data = bytearray(good)
        data[bit // 8] ^= 1 << (bit % 8)
        try:
            found = read_all(bytes(data))
        except Corruption:
            continue
        believed = {id: blob for id, blob in found.items() if blob_id(blob) == id}
        assert found.keys() == expected.keys()
        assert believed.items() <= expected.items(), f"bit {bit}"


@given(st.integers(0, 10_000))
def test_a_truncated_pack_is_refused(cut):
    """A pack cut short anywhere is Corruption (I11)."""
    data = build([[b"abc", b"defg"], [b"h"]])
    with pytest.raises(Corruption):
        parse(data[: cut % len(data)])


@given(st.binary(max_size=300))
def test_arbitrary_bytes_raise_only_corruption(data):
    """A decoder raises nothing but Corruption (I11)."""
    with pytest.raises(Corruption):
        parse(data)


@given(st.binary(max_size=80), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_arbitrary_group_bytes_raise_only_corruption(stored, kind, raw_size):
    """Neither decompressor raises anything else, whatever the head claims (I11)."""
    group = Group(24, kind, min(raw_size, 1 << 20), len(stored))
    try:
        codec.check_group(PATH, group)
        raw = codec.decompress(group, stored, PATH)
    except Corruption:
        return
    assert len(raw) == group.raw_size


def test_a_decompression_bomb_stops_at_the_length_it_claims():
    """zlib is bounded by the raw length of the head, which is checked first (I11)."""
    bomb = zlib.compress(bytes(64 << 20), 9)
    tracemalloc.start()
    try:
        with pytest.raises(Corruption, match="do not decompress"):
            codec.decompress(Group(24, ZLIB, 1000, len(bomb)), bomb, PATH)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(Corruption, match="impossible"):
        codec.check_group(PATH, Group(24, ZLIB, 2**32 - 1, 5000))


def test_a_zlib_stream_with_bytes_after_its_end_is_refused():
    """A group has one meaning only."""
    stored = zlib.compress(b"abc") + b"!"
    with pytest.raises(Corruption):
        codec.decompress(Group(24, ZLIB, 3, len(stored)), stored, PATH)


def test_an_incompressible_group_is_stored_raw():
    """A group is never stored larger than it is, also when a sample decides."""
    for size in (100, 1 << 20):
        noise = random.Random(7).randbytes(size)
        for kind in (ZLIB, ZSTD):
            assert codec.compress(noise, kind, 1) == (RAW, noise)


def test_tables_with_impossible_rows_are_refused():
    """Rows that a writer never makes are named by `check`, though their digest is right (I11)."""
    header = codec.encode_header(STORE_ID)
    blob = b"hello"
    group = Group(24, RAW, 5, 5)
    body = header + codec.encode_group_head(RAW, 5, 5) + blob
    id = blob_id(blob)
    bad_entries = [
        (id, BLOB, 1, 0, 5),  # no such group
        (id, BLOB, 0, 1, 5),  # past the end of its group
        (id, 0x7A, 0, 0, 5),  # no such kind
    ]
    for entry in bad_entries:
        with pytest.raises(Corruption):
            parse(body + b"".join(codec.encode_tables(header, [group], [entry], len(body))))
    for rows in (
        [Group(25, RAW, 4, 4)],
        [Group(24, 3, 5, 5)],
        [Group(24, RAW, 6, 5)],
        [Group(24, RAW, 9, 9)],
        [],
    ):
        with pytest.raises(Corruption):
            parse(body + b"".join(codec.encode_tables(header, rows, [], len(body))))
    twice = [(id, BLOB, 0, 0, 5), (id, BLOB, 0, 0, 5)]
    with pytest.raises(Corruption, match="order"):
        parse(body + b"".join(codec.encode_tables(header, [group], twice, len(body))))
