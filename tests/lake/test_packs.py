"""Packs made for a lake, and contents read from them by ranges (docs/lake.md §7)."""

import os
import shutil
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, NotFound
from eventlog.base.layout import DIRECTORIES, Layout
from eventlog.blobs.ids import blob_id
from eventlog.blobs.pack import (
    BLOB,
    ENTRY_SIZE,
    TREE,
    ZSTD,
    Group,
    encode_group_head,
    encode_header,
    encode_tables,
)
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import FILE, SYMLINK
from eventlog.checkout.materialize import materialize
from eventlog.gc.repack import repack
from eventlog.lake import chain, packs, published_contents
from eventlog.lake.chain import Chain
from eventlog.lake.packs import live_packs, made_packs, read_tables
from eventlog.lake.place import Place, StoredObject, open_place
from eventlog.lake.published_contents import PublishedContents
from tests.blobs.support import Node, open_store, put_all, read_node, store_node
from tests.conftest import STORE_ID
from tests.lake.published import CountedPlace


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return made_store(tmp_path / "store")


def made_store(directory: Path) -> BlobStore:
    """An empty store of contents."""
    for name in DIRECTORIES:
        os.makedirs(directory / name, exist_ok=True)
    return open_store(Layout(str(directory)))


def ids_of(blobs: BlobStore) -> "set[bytes]":
    return {id for tables in blobs.tables() for id in tables.ids()}


def put_packs(place: Place, blobs: BlobStore, ids: "set[bytes] | None" = None) -> "list[str]":
    """The names of the objects with these contents of a store, or with all."""
    names = []
    for pack in made_packs(blobs, ids_of(blobs) if ids is None else ids, {}):
        names.append(chain.pack_name(STORE_ID, pack.name))
        place.create(names[-1], pack.data)
    return names


@contextmanager
def contents(place: Place, directory: Path) -> Iterator[PublishedContents]:
    """The contents of the store in a place, as a reader that has nothing of it yet sees them."""
    state = Chain(STORE_ID)
    scratch = directory / "scratch"
    with PublishedContents(place, STORE_ID, lambda: live_packs(place, state), str(scratch)) as published:
        yield published
    shutil.rmtree(scratch)


def path_of(place: Place, name: str) -> Path:
    return Path(place.uri.removeprefix("file://")) / name


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


NODE: Node = {
    b"a": {b"b": {b"x": (FILE, b"x" * 5000), b"y": (FILE, os.urandom(3000))}},
    b"top": (FILE, b"top"),
    b"link": (SYMLINK, b"a/b"),
    b"empty": (FILE, b""),
}


# -- making ----------------------------------------------------------------------------------------


def test_equal_ids_make_equal_packs(tmp_path: Path) -> None:
    """Whatever packs a store has its contents in, and in whatever order they came, the bytes and
    the name are the same, so that a publisher that was killed stores nothing twice (I25)."""
    contents_put = [b"%d " % n * 50 for n in range(200)]
    first, second = made_store(tmp_path / "one"), made_store(tmp_path / "two")
    put_all(first, *contents_put)
    for content in reversed(contents_put):
        put_all(second, content, codec="raw")
    for blobs in (first, second):
        store_node(blobs, NODE)
    ids = ids_of(first)
    made = [list(made_packs(blobs, ids, {})) for blobs in (first, second)]
    repack(second, everything=True)
    made.append(list(made_packs(second, sorted(ids), {})))
    assert made[0] == made[1] == made[2]
    assert [pack.name for pack in made[0]] == [blake3(pack.data).hexdigest() for pack in made[0]]


def test_trees_come_first_and_contents_by_path(place: Place, blobs: BlobStore) -> None:
    """Trees have a group of their own in front; contents of a path are neighbours, the largest first (P6)."""
    old = store_node(blobs, {b"a": {b"f": (FILE, b"old")}, b"z": (FILE, b"z")})
    new = store_node(blobs, {b"a": {b"f": (FILE, b"new!")}, b"z": (FILE, b"z")})
    [name] = put_packs(place, blobs)
    [entry] = live_packs(place, Chain(STORE_ID))
    tables = read_tables(place, STORE_ID, entry)
    rows = sorted((group, offset, kind, id) for id, kind, group, offset, _ in tables.entries())
    assert [kind for _, _, kind, _ in rows] == [TREE] * 4 + [BLOB] * 3
    assert {group for group, _, kind, _ in rows if kind == TREE} == {0}
    assert [id for _, _, kind, id in rows if kind == BLOB] == list(map(blob_id, (b"new!", b"old", b"z")))
    assert {old, new} <= {id for _, _, kind, id in rows if kind == TREE}
    assert entry.name == name


def test_only_what_was_asked_for_is_read_and_written(blobs: BlobStore) -> None:
    """A content that is not among the ids is in no byte of a pack, also below a tree that is."""
    root = store_node(blobs, {b"public": (FILE, b"fine"), b"secret": (FILE, b"not to be read")})
    asked: list[bytes] = []
    read = blobs._get
    blobs._get = lambda id: asked.append(id) or read(id)  # type: ignore[method-assign,func-returns-value]
    [pack] = made_packs(blobs, {root, blob_id(b"fine")}, {})
    assert len(pack.ids) == 2
    assert blob_id(b"not to be read") not in asked


def test_what_a_store_lost_is_listed(blobs: BlobStore, tmp_path: Path) -> None:
    """An id that no pack has, and one whose only copy is damaged, are named; the others are packed."""
    kept, lost = put_all(blobs, b"kept", b"lost" * 400, codec="raw")
    [pack_path] = (Path(blobs.layout.root) / "snapshots/packs").iterdir()
    flip(pack_path, pack_path.read_bytes().index(b"lostlost"))
    missing: dict[bytes, str] = {}
    [pack] = made_packs(blobs, {kept, lost, bytes(32)}, missing)
    assert len(pack.ids) == 1
    assert missing.keys() == {lost, bytes(32)}
    assert "does not match its hash" in missing[lost] and "not in this store" in missing[bytes(32)]


def test_what_is_known_by_another_hash_is_not_packed(blobs: BlobStore) -> None:
    """A content that is not what its id promises, as one that git holds, stays (I24)."""
    [right] = put_all(blobs, b"right")
    blobs.elsewhere = lambda id: b"other bytes" if id == bytes(32) else None
    missing: dict[bytes, str] = {}
    [pack] = made_packs(blobs, {right, bytes(32)}, missing)
    assert len(pack.ids) == 1
    assert "known by another hash" in missing[bytes(32)]


def test_large_publications_make_several_packs(
    place: Place, blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack ends at its limit of raw bytes, or of entries; every id is in one of them."""
    ids = set(put_all(blobs, *[b"%04d" % n * 250 for n in range(40)]))
    monkeypatch.setattr(packs, "PACK_RAW_MAX", 10_000)
    assert [len(pack.ids) for pack in made_packs(blobs, ids, {})] == [10, 10, 10, 10]
    monkeypatch.setattr(packs, "PACK_ENTRIES_MAX", 7)
    assert [len(pack.ids) for pack in made_packs(blobs, ids, {})] == [7] * 5 + [5]
    put_packs(place, blobs)
    with contents(place, tmp_path) as published:
        assert {id for id, _ in published.get_many(ids)} == ids


def test_no_ids_make_no_pack(blobs: BlobStore) -> None:
    """A publication without contents has no pack."""
    assert list(made_packs(blobs, (), {})) == []


# -- reading ---------------------------------------------------------------------------------------


def test_tables_are_read_from_the_end_alone(place: Place, blobs: BlobStore) -> None:
    """Small tables take one GET, those of more than 64 KiB a second of just their bytes."""
    put_packs(place, blobs, set(put_all(blobs, b"few")))
    many = set(put_all(blobs, *[b"%d" % n for n in range(2000)]))
    put_packs(place, blobs, many)
    counted = CountedPlace(place)
    sizes = {}
    for entry in live_packs(place, Chain(STORE_ID)):
        counted.ranges.clear()
        tables = read_tables(counted, STORE_ID, entry)
        sizes[len(tables)] = [length for _, _, length in counted.ranges]
    assert sizes[1] == []
    assert len(sizes[2000]) == 1 and sizes[2000][0] < 2000 * ENTRY_SIZE + 1000


def test_neighbours_come_in_one_request(
    place: Place, blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups less than 256 KiB apart are one GET; those further apart, two; none twice (P6)."""
    monkeypatch.setattr(packs, "_GROUP_BYTES", 1)
    first, near, far = (bytes([n]) * 8 + os.urandom(size) for n, size in ((1, 9), (2, 90_000), (3, 400_000)))
    last = b"\x04" + os.urandom(2_000_000)
    store_node(blobs, {b"%d" % n: (FILE, data) for n, data in enumerate((first, near, far, last, b"end"))})
    put_packs(place, blobs)
    counted = CountedPlace(place)
    with contents(counted, tmp_path) as published:
        published.bring([blob_id(first), blob_id(far)])
        assert len(counted.ranges) == 1
        assert published.get(blob_id(near)) == near  # it came with them
        assert len(counted.ranges) == 1
    counted.ranges.clear()
    with contents(counted, tmp_path) as published:
        published.bring([blob_id(far), blob_id(b"end")])
        assert len(counted.ranges) == 2
        assert sum(length for _, _, length in counted.ranges) < 500_000
        assert published.get(blob_id(b"end")) == b"end" and published.get(blob_id(far)) == far
        assert len(counted.ranges) == 2


def test_no_request_is_larger_than_the_limit(
    place: Place, blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large group comes in pieces, so that memory holds one of them (I11)."""
    monkeypatch.setattr(published_contents, "GET_MAX", 10_000)
    data = os.urandom(95_000)
    [id] = put_all(blobs, data)
    put_packs(place, blobs)
    counted = CountedPlace(place)
    with contents(counted, tmp_path) as published:
        assert published.get(id) == data
    assert len(counted.ranges) == 10
    assert max(length for _, _, length in counted.ranges) == 10_000


# A directory of random names, at most three levels deep.
NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: (
        name not in (b".", b"..", b".locus")
        and not set(name) & {0, 0x2F}
        and name.lower() not in (b".git", b".locus")
    )
)
FILES = st.tuples(st.just(FILE), st.binary(max_size=300))
LINKS = st.tuples(st.just(SYMLINK), st.binary(min_size=1, max_size=20).filter(lambda t: 0 not in t))
NODES = st.recursive(
    st.dictionaries(NAMES, st.one_of(FILES, LINKS), max_size=5),
    lambda below: st.dictionaries(NAMES, st.one_of(FILES, LINKS, below), max_size=4),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nodes=st.lists(NODES, min_size=1, max_size=3), cut=st.integers(0, 3000))
def test_any_tree_comes_back(tmp_path_factory: pytest.TempPathFactory, nodes: "list[Node]", cut: int) -> None:
    """Random trees, in packs of random sizes: what is written out is what went in (P1)."""
    directory = tmp_path_factory.mktemp("tree")
    (directory / "place").mkdir()
    place = open_place(f"file://{directory}/place")
    blobs = made_store(directory / "store")
    roots = [store_node(blobs, node) for node in nodes]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(packs, "PACK_RAW_MAX", cut)
        put_packs(place, blobs)
    blobs.close()
    shutil.rmtree(directory / "store")
    with contents(place, directory) as published:
        for number, (root, node) in enumerate(zip(roots, nodes, strict=True)):
            report = materialize(published, root, str(directory / f"out{number}"))
            assert report.missing == []
            assert read_node(str(directory / f"out{number}")) == node
    shutil.rmtree(directory)


# -- damage ----------------------------------------------------------------------------------------


def test_every_flipped_bit_is_noticed(file_place: Place, blobs: BlobStore, tmp_path: Path) -> None:
    """A bit flipped anywhere in a pack: what comes is right, or an error that names the pack (I11, I24)."""
    root = store_node(blobs, {b"d": {b"f": (FILE, b"f" * 300), b"g": (FILE, os.urandom(100))}})
    [name] = put_packs(file_place, blobs)
    path = path_of(file_place, name)
    whole = path.read_bytes()
    noticed = 0
    for offset in range(24, len(whole)):  # the header is that of the store, and is not read
        flip(path, offset)
        target = tmp_path / "out"
        with contents(file_place, tmp_path) as published:
            try:
                report = materialize(published, root, str(target))
                reasons = [reason for _, reason in report.missing]
            except Corruption as error:
                reasons = [str(error)]
        for reason in reasons:
            assert file_place.address(name) in reason and "locus lake verify" in reason
        noticed += bool(reasons)
        for written in target.rglob("*") if target.exists() else ():
            assert written.is_dir() or written.read_bytes() in (b"f" * 300, whole) or written.name == "g"
        if not reasons:
            assert read_node(str(target))[b"d"][b"f"] == (FILE, b"f" * 300)  # type: ignore[index]
        shutil.rmtree(target, ignore_errors=True)
        path.write_bytes(whole)
    assert noticed > 0.9 * (len(whole) - 24)


def test_a_damaged_copy_sends_on_to_the_next(file_place: Place, blobs: BlobStore, tmp_path: Path) -> None:
    """Two packs hold a content: whichever is damaged, and however, it comes from the other (I24)."""
    data, more = os.urandom(4000), os.urandom(4000)
    ids = put_all(blobs, data, more)
    names = [*put_packs(file_place, blobs, {ids[0]}), *put_packs(file_place, blobs, set(ids))]
    for name in names:
        path = path_of(file_place, name)
        whole = path.read_bytes()
        for damaged in (
            flipped(whole, whole.index(data) + 7),
            flipped(whole, len(whole) - 60),
            whole[:-1],
            whole[:100],
            b"",
        ):
            path.write_bytes(damaged)
            with contents(file_place, tmp_path) as published:
                assert published.get(ids[0]) == data
        path.write_bytes(whole)


def flipped(data: bytes, offset: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]


@pytest.mark.parametrize("size", [0, 10, 71, 72, 500])
def test_a_truncated_pack_is_named(file_place: Place, blobs: BlobStore, tmp_path: Path, size: int) -> None:
    """What only a pack has that was cut short is damage with the pack's address, and what to do."""
    [id] = put_all(blobs, os.urandom(4000))
    [name] = put_packs(file_place, blobs)
    path = path_of(file_place, name)
    path.write_bytes(path.read_bytes()[:size])
    with contents(file_place, tmp_path) as published, pytest.raises(Corruption) as caught:
        published.get(id)
    assert file_place.address(name) in str(caught.value)
    assert "backup of the place" in str(caught.value)


def test_what_was_never_published_is_named_as_that(place: Place, blobs: BlobStore, tmp_path: Path) -> None:
    """An id in no pack, all of which are readable, is no damage."""
    put_packs(place, blobs, set(put_all(blobs, b"there")))
    with contents(place, tmp_path) as published:
        with pytest.raises(NotFound, match="not published, is withheld, or was erased"):
            published.get(blob_id(b"elsewhere"))
        assert published.get(blob_id(b"there")) == b"there"


def test_a_pack_of_another_store_is_not_believed(file_place: Place, tmp_path: Path, blobs: BlobStore) -> None:
    """A pack that somebody put among those of a store it is not of."""
    [id] = put_all(blobs, b"content")
    [pack] = made_packs(blobs, {id}, {})
    other = encode_header(bytes(16)) + pack.data[24:]
    file_place.create(chain.pack_name(bytes(16), "0" * 64), other)
    with pytest.raises(Corruption, match="do not match their digest"):
        entry = StoredObject(chain.pack_name(bytes(16), "0" * 64), len(other))
        read_tables(file_place, bytes(16), entry)


def test_a_pack_that_went_meanwhile(file_place: Place, blobs: BlobStore, tmp_path: Path) -> None:
    """A pack is gone after its tables were read: packs are listed again, the new one is read (I24)."""
    data = os.urandom(3000)
    [id, other] = put_all(blobs, data, b"other")
    [old] = put_packs(file_place, blobs, {id, other})
    with contents(file_place, tmp_path) as published:
        assert published.locations(()) == {}
        published._copies.read_tables_for({id})
        path_of(file_place, old).unlink()
        put_packs(file_place, blobs, {id})
        assert published.get(id) == data
        with pytest.raises(NotFound, match="in no pack of the store"):
            published.get(other)


# -- hostile packs ---------------------------------------------------------------------------------


def hostile(
    place: Place,
    groups: "list[tuple[Group, bytes, bytes]]",
    entries: "list[tuple[bytes, int, int, int, int]]",
    tail: bytes = b"",
) -> None:
    """A pack with a right digest and wrong claims. Args: groups: table row, head, stored bytes."""
    header = encode_header(STORE_ID)
    body = b"".join(head + stored for _, head, stored in groups) + tail
    tables = encode_tables(header, [row for row, _, _ in groups], entries, len(header) + len(body))
    data = b"".join((header, body, *tables))
    place.create(chain.pack_name(STORE_ID, blake3(data).hexdigest()), data)


def refused(place: Place, id: bytes, directory: Path) -> int:
    """The peak of memory while an id is asked for that a hostile pack claims to have."""
    with contents(place, directory) as published:
        tracemalloc.start()
        try:
            with pytest.raises(Corruption):
                published.get(id)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


HUGE = 3 << 30


@pytest.mark.parametrize("listed", [5, HUGE])
@pytest.mark.parametrize("claimed", [5, HUGE])
@pytest.mark.parametrize("codec", [0, 1, ZSTD])
def test_a_group_that_claims_too_much(
    file_place: Place, tmp_path: Path, listed: int, claimed: int, codec: int
) -> None:
    """A group of a few bytes that claims 3 GiB, in its head, the table, or both: damage, no memory (I11)."""
    id = blob_id(b"wanted")
    stored = b"x" * 40
    head = encode_group_head(codec, claimed, len(stored))
    hostile(file_place, [(Group(24, codec, listed, len(stored)), head, stored)], [(id, BLOB, 0, 0, listed)])
    assert refused(file_place, id, tmp_path) < 30 << 20


def test_a_content_of_many_zeros_is_hashed_before_it_is_made(
    file_place: Place, tmp_path: Path, blobs: BlobStore
) -> None:
    """40 MB of zeros in some kB come back where the id is theirs; where not, they are never made (I11)."""
    import pyarrow

    raw = bytes(40_000_000)
    stored = pyarrow.Codec("zstd").compress(raw, asbytes=True)
    row, head = Group(24, ZSTD, len(raw), len(stored)), encode_group_head(ZSTD, len(raw), len(stored))
    wrong = blob_id(b"wanted")
    hostile(file_place, [(row, head, stored)], [(wrong, BLOB, 0, 0, len(raw))])
    assert refused(file_place, wrong, tmp_path) < 10 << 20
    hostile(file_place, [(row, head, stored)], [(blob_id(raw), BLOB, 0, 0, len(raw))])
    with contents(file_place, tmp_path) as published:
        assert published.get(blob_id(raw)) == raw


@pytest.mark.parametrize(
    ("row", "entry"),
    [
        (Group(24, 0, 5, 5), (0, 3, 3)),  # reaches past its group
        (Group(24, 0, 5, 5), (0, 1 << 62, 5)),
        (Group(24, 0, 5, 5), (7, 0, 5)),  # of a group that is not there
        (Group(1 << 60, 0, 5, 5), (0, 0, 5)),
        (Group(0, 0, 5, 5), (0, 0, 5)),  # over the header
        (Group(24, 0, 5, 1 << 31), (0, 0, 5)),
        (Group(30, 0, 5, 5), (0, 0, 5)),  # a gap in front
    ],
)
def test_impossible_rows_are_damage(
    file_place: Place, tmp_path: Path, row: Group, entry: "tuple[int, int, int]"
) -> None:
    """Offsets and lengths beyond what there is, in tables whose digest is right (I11)."""
    id = blob_id(b"wante")
    head = encode_group_head(0, 5, 5)
    hostile(file_place, [(row, head, b"wante")], [(id, BLOB, *entry)])
    assert refused(file_place, id, tmp_path) < 10 << 20


def test_tables_that_claim_too_much_are_not_read(file_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that is nothing but tables is not taken into memory (I11)."""
    monkeypatch.setattr(packs, "_TABLES_BYTES_MAX", 1000)
    entries = [(bytes([n]) * 32, BLOB, 0, 0, 0) for n in range(100)]
    hostile(file_place, [], entries)
    [entry] = live_packs(file_place, Chain(STORE_ID))
    counted = CountedPlace(file_place)
    with pytest.raises(Corruption, match="more than a pack of ours has"):
        read_tables(counted, STORE_ID, entry)
    assert counted.ranges == []
