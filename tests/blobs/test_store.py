"""Blobs and trees on the real file system: put, flush, get, resolve, the idx, damage."""

import errno
import mmap
import os
import random
import subprocess
import sys
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog.base.errors import (
    Ambiguous,
    Corruption,
    InvalidEvent,
    LockTimeout,
    NotDurable,
    NotFound,
    Refused,
)
from eventlog.base.fs import REAL, FileSystem
from eventlog.base.layout import CONDEMNED_DIR, IDX_DIR, PACK_DIR, TMP_DIR, Layout, StoreFiles, condemned_name
from eventlog.base.locks import GC, acquire
from eventlog.blobs import pack as pack_format
from eventlog.blobs import writer as writer_module
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, FILE, TreeEntry
from tests.blobs.support import content_of, open_store, overwrite, pack_paths, put_all
from tests.conftest import STORE_ID, examples

CODECS = ["raw", "zlib", "zstd"]
NOISE = random.Random(1)


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_put_and_flushed_is_read_back(layout, blobs, codec):
    """Every id that a flush acknowledged gives its bytes, also to another process (I24)."""
    contents = [b"", b"x", b"line\n" * 5000, NOISE.randbytes(3 << 20), bytes(5 << 20)]
    ids = put_all(blobs, *contents, codec=codec)
    other = open_store(layout)
    assert [other.get(id) for id in ids] == contents
    assert dict(other.get_many(ids)) == dict(zip(ids, contents, strict=True))
    assert os.listdir(layout.directory(TMP_DIR)) == []
    other.close()


def test_put_is_idempotent(layout, blobs):
    """The same content again writes nothing: within a batch, after it, and from another process (I25)."""
    with blobs.writer() as writer:
        first = writer.put(b"same")
        assert writer.put(b"same") == first
        tree = writer.put_tree([TreeEntry(b"a", FILE, first, 4)])
        assert writer.put_tree([TreeEntry(b"a", FILE, first, 4)]) == tree
        assert writer.flush() is not None
        assert writer.put(b"same") == first
        assert writer.flush() is None
    assert put_all(open_store(layout), b"same") == [first]
    assert len(pack_paths(layout)) == 1


def test_one_flush_makes_one_pack(layout, blobs):
    """However much is put, a flush publishes one file (docs/design.md §11.2)."""
    with blobs.writer() as writer:
        for number in range(2000):
            writer.put(NOISE.randbytes(10_000) + bytes([number % 256]))
        name = writer.flush()
    assert pack_paths(layout) == [layout.pack(name)]


def test_what_was_not_flushed_is_dropped(layout, blobs):
    """Closing a writer publishes nothing and leaves nothing behind."""
    with blobs.writer() as writer:
        id = writer.put(NOISE.randbytes(20 << 20))
    assert not blobs.contains(id)
    assert pack_paths(layout) == [] and os.listdir(layout.directory(TMP_DIR)) == []
    with pytest.raises(NotFound, match=to_text(id)):
        blobs.get(id)


def test_similar_blobs_share_a_group(layout, blobs):
    """Many versions of a text cost little more than one (P6)."""
    text = [b"line %d of a long file\n" % NOISE.randrange(10**9) for _ in range(500)]
    versions = []
    for number in range(40):
        text[number] = b"changed\n"
        versions.append(b"".join(text))
    with blobs.writer(codec="zstd") as writer:
        ids = writer.add_group(versions)
        name = writer.flush()
    assert [blobs.get(id) for id in ids] == versions
    assert os.path.getsize(layout.pack(name)) < len(versions[0]) * 3


def test_the_codec_of_a_writer_is_used(layout, blobs):
    """zlib and zstd shrink what can be shrunk, raw does not."""
    sizes = {}
    for codec in CODECS:
        with blobs.writer(codec=codec) as writer:
            writer.put(b"%s says the same again and again\n" % codec.encode() * 1000)
            sizes[codec] = os.path.getsize(layout.pack(writer.flush()))
    assert sizes["zlib"] < 1000 and sizes["zstd"] < 1000 and sizes["raw"] > 30_000


def test_a_blob_of_4_gib_is_refused(blobs):
    """The limit is 4 GiB − 1, and the message says what to do instead."""
    with (
        mmap.mmap(-1, 2**32, prot=mmap.PROT_READ) as huge,
        blobs.writer() as writer,
        pytest.raises(Refused, match="skipped"),
    ):
        writer.put(huge)


def test_a_large_blob_takes_a_group_of_its_own(layout, blobs):
    """A blob over the group limit is stored alone, and the small ones around it share a group."""
    large = bytes(17 << 20)
    ids = put_all(blobs, b"before", large, b"after")
    assert [blobs.get(id) for id in ids] == [b"before", large, b"after"]
    places = blobs.locations(ids)
    assert places[ids[0]][2] == places[ids[2]][2] != places[ids[1]][2]


@settings(max_examples=examples(12, 500), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(st.binary(max_size=3000), max_size=20), codec=st.sampled_from(CODECS))
def test_any_contents_come_back(blobs, contents, codec):
    """Whatever is put comes back, whatever was put before it (I24, I25)."""
    ids = put_all(blobs, *contents, codec=codec)
    assert [content_of(id, blobs) for id in ids] == contents


def test_a_tree_is_read_as_a_tree_only(blobs):
    """`get_tree` of a blob is an error; `kind_of` tells them apart."""
    with blobs.writer() as writer:
        blob = writer.put(b"x")
        tree = writer.put_tree([TreeEntry(b"x", FILE, blob, 1)])
        empty = writer.put_tree([])
        writer.flush()
    assert blobs.get_tree(tree) == (TreeEntry(b"x", FILE, blob, 1),)
    assert blobs.get_tree(empty) == ()
    assert (blobs.kind_of(blob), blobs.kind_of(tree)) == ("blob", "tree")
    with pytest.raises(NotFound, match="not a tree"):
        blobs.get_tree(blob)
    with blobs.writer() as writer, pytest.raises(InvalidEvent):
        writer.put_tree([TreeEntry(b"..", DIRECTORY, tree)])


def test_a_store_sees_packs_that_another_process_adds(layout, blobs):
    """An unknown id makes a reader look again."""
    assert not blobs.contains(blob_id(b"new"))
    other = open_store(layout)
    (id,) = put_all(other, b"new")
    assert blobs.get(id) == b"new"
    (later,) = put_all(other, b"later")
    assert blobs.contains(later) and blobs.locations([later])


# -- resolve -----------------------------------------------------------------------------------------


def colliding(count: int = 2, digits: int = 4) -> list[bytes]:
    """Contents whose ids begin with the same digits."""
    seen: dict[str, list[bytes]] = {}
    for number in range(100_000):
        content = b"%d" % number
        same = seen.setdefault(blob_id(content).hex()[:digits], [])
        same.append(content)
        if len(same) == count:
            return same
    raise AssertionError("no collision")


@pytest.mark.parametrize("with_idx", [False, True])
def test_a_unique_prefix_names_its_content(blobs, with_idx):
    """Ids are accepted by unique prefix of at least four digits, with or without `blake3:` (P8)."""
    same = colliding()
    ids = put_all(blobs, *same, b"other")
    if with_idx:
        blobs.build_idx()
    digits = ids[0].hex()
    for prefix in (digits, "blake3:" + digits, digits[:20].upper(), "blake3:" + digits[:20], digits[:21]):
        assert blobs.resolve(prefix) == ids[0]
    with pytest.raises(Ambiguous) as caught:
        blobs.resolve(digits[:4])
    assert to_text(ids[0]) in str(caught.value) and to_text(ids[1]) in str(caught.value)
    unused = next(f"{n:04x}" for n in range(65536) if not any(id.hex().startswith(f"{n:04x}") for id in ids))
    for prefix in (unused, "abc", "", "blake3:", "not hex!", digits + "0", to_text(bytes(32))):
        with pytest.raises(NotFound):
            blobs.resolve(prefix)


# -- idx ---------------------------------------------------------------------------------------------


def test_answers_do_not_depend_on_the_idx(layout, blobs):
    """With an idx, with a stale one, without one: the same answers (I22)."""
    old = put_all(blobs, *(b"old %d" % n for n in range(500)))
    assert blobs.build_idx() == 1
    assert blobs.build_idx() is None
    new = put_all(blobs, *(b"new %d" % n for n in range(50)))
    absent = blob_id(b"absent")

    def answers():
        with open_store(layout) as store:
            contents = [store.get(id) for id in (*old, *new)]
            return contents, store.contains(absent), [store.resolve(id.hex()[:16]) for id in new]

    stale = answers()
    assert blobs.build_idx() == 2
    assert os.listdir(layout.directory(IDX_DIR)) == [os.path.basename(layout.idx(2))]
    whole = answers()
    os.unlink(layout.idx(2))
    without = answers()
    os.rmdir(layout.directory(IDX_DIR))
    assert stale == whole == without == answers()
    assert blobs.build_idx() == 1
    assert answers() == whole


def test_a_damaged_idx_changes_no_answer(layout, blobs):
    """A flipped bit in any byte, any truncation: the packs answer instead (I22, I11)."""
    ids = put_all(blobs, *(b"%d" % n for n in range(3)))
    blobs.build_idx()
    absent = blob_id(b"absent")
    with open(layout.idx(1), "rb") as file:
        good = file.read()
    damaged = [good[:size] for size in range(0, len(good), 7)] + [good + b"x", b""]
    for at in range(len(good)):
        flipped = bytearray(good)
        flipped[at] ^= 1 << (at % 8)
        damaged.append(bytes(flipped))
    for data in damaged:
        overwrite(layout.idx(1), data)
        with open_store(layout) as store:
            assert [store.contains(id) for id in (*ids, absent)] == [True, True, True, False]
            assert [store.get(id) for id in ids] == [b"0", b"1", b"2"]
            assert store.resolve(ids[0].hex()) == ids[0]


def test_an_idx_that_names_a_lost_pack_is_not_believed(layout, blobs):
    """A pack that is gone holds nothing, so its content is stored again (I24)."""
    (id,) = put_all(blobs, b"once")
    blobs.build_idx()
    os.unlink(pack_paths(layout)[0])
    fresh = open_store(layout)
    assert not fresh.contains(id)
    assert put_all(fresh, b"once") == [id]
    assert open_store(layout).get(id) == b"once"


def test_an_idx_over_many_packs_finds_every_id(layout, blobs):
    """Thousands of entries in many buckets, some ids in two packs."""
    contents = [b"%d" % n for n in range(3000)]
    for start in range(0, 3000, 300):
        with open_store(layout) as store:
            put_all(store, *contents[start : start + 300])
    blobs.build_idx()
    store = open_store(layout)
    assert store.recent_count() == 0
    assert all(store.get(blob_id(content)) == content for content in contents)
    assert not any(store.contains(blob_id(content + b"?")) for content in contents[:300])


# -- condemned packs, damage -------------------------------------------------------------------------


def condemn(layout: Layout, path: str) -> str:
    target = f"{layout.directory(CONDEMNED_DIR)}/{condemned_name(1_700_000_000, os.path.basename(path)[:64])}"
    os.rename(path, target)
    return target


def test_a_condemned_pack_is_still_read_but_not_relied_on(layout, blobs):
    """Readers look in condemned/ last; a writer stores the content again (I24)."""
    (id,) = put_all(blobs, b"kept one day")
    condemn(layout, pack_paths(layout)[0])
    for store in (blobs, open_store(layout)):
        assert store.get(id) == b"kept one day"
        assert store.contains(id)
    assert put_all(open_store(layout), b"kept one day") == [id]
    assert len(pack_paths(layout)) == 1


def test_a_pack_that_moves_under_a_reader_is_followed(layout, blobs):
    """A reader that has listed the packs survives a collection and a repack."""
    ids = put_all(blobs, b"a", b"b")
    reader = open_store(layout)
    assert reader.contains(ids[0])
    condemned = condemn(layout, pack_paths(layout)[0])
    assert reader.get(ids[0]) == b"a"
    put_all(open_store(layout), b"b")
    os.unlink(condemned)
    fresh = open_store(layout)
    assert fresh.get(ids[1]) == b"b"
    with pytest.raises(NotFound):
        fresh.get(ids[0])


def flip(path: str, offset: int) -> None:
    with open(path, "rb") as file:
        data = bytearray(file.read())
    data[offset] ^= 0x40
    overwrite(path, bytes(data))


@pytest.mark.parametrize("codec", ["zlib", "raw"])  # only the one has a checksum of its own
def test_every_flipped_byte_of_a_pack_is_an_error_or_the_right_bytes(layout, blobs, codec):
    """No damage makes a reader return wrong content (I11, I24)."""
    contents = [b"some text " * 5, b"more text " * 5]
    ids = put_all(blobs, *contents, codec=codec)
    (path,) = pack_paths(layout)
    size = os.path.getsize(path)
    refused = 0
    for offset in range(size):
        flip(path, offset)
        with open_store(layout) as store:
            for id, content in zip(ids, contents, strict=True):
                try:
                    assert store.get(id) == content
                except (Corruption, NotFound):
                    refused += 1
        flip(path, offset)
    assert refused >= size  # nearly every byte matters to both


def test_a_second_copy_stands_in_for_a_damaged_one(layout, blobs):
    """When one pack is damaged, another that holds the content is read."""
    (id,) = put_all(blobs, b"twice " * 20)
    with open_store(layout) as other:
        put_all(other, b"x")  # makes the next pack another file
    first = next(path for path in pack_paths(layout) if id in ids_in(layout, path))
    moved = condemn(layout, first)
    put_all(open_store(layout), b"twice " * 20, b"y")
    os.rename(moved, first)
    flip(first, 40)
    second = open_store(layout)
    assert second.get(id) == b"twice " * 20


def ids_in(layout: Layout, path: str) -> list[bytes]:
    from eventlog.blobs.catalog import load_tables

    return load_tables(REAL, path, os.path.basename(path)[:64], STORE_ID).ids()


def test_an_unreadable_pack_is_named_when_content_is_missing(layout, blobs):
    """Missing because of damage is Corruption, not "never stored" (P7)."""
    (id,) = put_all(blobs, b"abc")
    (path,) = pack_paths(layout)
    flip(path, os.path.getsize(path) - 1)
    with pytest.raises(Corruption, match="no readable pack") as caught:
        open_store(layout).get(id)
    assert caught.value.path == path


def test_capturing_again_heals_a_pack_with_a_damaged_table(layout, blobs):
    """The same content makes a pack of the same name, which takes the damaged one's place (I24)."""
    (id,) = put_all(blobs, b"abc")
    (path,) = pack_paths(layout)
    flip(path, os.path.getsize(path) - 1)
    store = open_store(layout)
    assert put_all(store, b"abc") == [id]
    assert store.get(id) == open_store(layout).get(id) == b"abc"
    assert pack_paths(layout) == [path]


def test_a_pack_of_another_store_is_not_read(layout, blobs):
    """The store id in the header must be ours."""
    (id,) = put_all(blobs, b"abc")
    with pytest.raises(Corruption):
        BlobStore(StoreFiles(REAL, layout, b"another store id")).get(id)


def test_a_group_over_the_limit_holds_one_blob_or_is_refused(layout, blobs):
    """A small pack cannot make a reader allocate much for a small blob (I11)."""
    raw = bytes(17 << 20)
    used, stored = pack_format.compress(raw, pack_format.ZLIB, 1)
    header = pack_format.encode_header(STORE_ID)
    group = pack_format.Group(len(header), used, len(raw), len(stored))
    body = header + pack_format.encode_group_head(used, len(raw), len(stored)) + stored
    small = raw[:10]
    entries = [
        (blob_id(small), pack_format.BLOB, 0, 0, 10),
        (blob_id(raw[10:]), pack_format.BLOB, 0, 10, len(raw) - 10),
    ]
    pack = body + b"".join(pack_format.encode_tables(header, [group], entries, len(body)))
    overwrite(layout.pack(blob_id(pack).hex()), pack)
    with pytest.raises(Corruption, match="not one blob"):
        blobs.get(blob_id(small))


def test_foreign_files_beside_packs_are_left_alone(layout, blobs):
    """Only names of ours are read (S1-61)."""
    overwrite(f"{layout.directory(PACK_DIR)}/notes.txt", b"mine")
    overwrite(f"{layout.directory(PACK_DIR)}/short.evp", b"mine")
    (id,) = put_all(blobs, b"abc")
    assert open_store(layout).get(id) == b"abc"


# -- the writer --------------------------------------------------------------------------------------


def test_a_writer_keeps_the_collector_out(layout, blobs):
    """gc.lock is held shared from before the first look-up until the writer is closed (I24)."""
    taken = []

    def collect():
        try:
            acquire(REAL, layout, GC, timeout_s=0.01).release()
            taken.append(True)
        except LockTimeout:
            taken.append(False)

    def try_to_collect():
        thread = threading.Thread(target=collect)
        thread.start()
        thread.join()

    with blobs.writer() as writer:
        try_to_collect()
        writer.put(b"x")
        writer.flush()
        try_to_collect()
    try_to_collect()
    assert taken == [False, False, True]


def test_a_writer_waits_for_the_collector_only_until_its_deadline(layout, blobs):
    """Every wait has a deadline (I31)."""
    held = threading.Event()
    done = threading.Event()

    def collect():
        with acquire(REAL, layout, GC):
            held.set()
            done.wait()

    thread = threading.Thread(target=collect)
    thread.start()
    held.wait()
    try:
        with pytest.raises(LockTimeout):
            blobs.writer(lock_timeout_s=0.02)
    finally:
        done.set()
        thread.join()
    assert put_all(blobs, b"x") == [blob_id(b"x")]


class FullDisk(FileSystem):
    """The real machine, on which writes fail from a certain one on."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwrite(fd, data, offset)


@pytest.mark.slow
@pytest.mark.parametrize("writes", [0, 1, 2])
@pytest.mark.parametrize("codec", CODECS)
def test_a_full_disk_acknowledges_nothing_and_leaves_a_usable_store(layout, writes, codec):
    """NotDurable, nothing left in tmp/, and the same content can be put when there is room (I35)."""
    fs = FullDisk(writes)
    blobs = open_store(layout, fs)
    contents = [NOISE.randbytes(5 << 20) for _ in range(5)]
    with blobs.writer(codec=codec) as writer:
        with pytest.raises(NotDurable):
            for content in contents:
                writer.put(content)
            writer.flush()
        fs.left = 1000
        if writes == 0 and codec != "zstd":
            # The failing write was inside put: a flush must not pass for the acknowledgement of it.
            with pytest.raises(NotDurable):
                writer.flush()
        assert pack_paths(layout) == [] and os.listdir(layout.directory(TMP_DIR)) == []
    ids = put_all(blobs, *contents)
    assert [blobs.get(id) for id in ids] == contents


@pytest.mark.slow
def test_memory_stays_near_the_size_of_one_blob(layout):
    """A 100 MB blob needs a few times its size and no more, in both codecs of the writer (I35)."""
    program = """
import resource, sys
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles
from eventlog.blobs.store import BlobStore
store = BlobStore(StoreFiles(REAL, Layout(sys.argv[1]), bytes(range(16))))
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
blob = bytes(range(250)) * 400_000
with store.writer(codec=sys.argv[2]) as writer:
    id = writer.put(blob)
    writer.flush()
store.close()
assert store.get(id) == blob
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1000)
"""
    for codec in ("zlib", "raw"):
        done = subprocess.run(
            [sys.executable, "-c", program, layout.root, codec], capture_output=True, text=True, check=True
        )
        assert float(done.stdout) < 450, codec


def test_buffered_packs_and_spilled_packs_are_equal(layout, blobs, monkeypatch):
    """Where the bytes wait until the flush does not change the pack."""
    contents = [b"%d " % n * 300 for n in range(500)]
    name = store_and_name(blobs, contents)
    os.unlink(layout.pack(name))
    monkeypatch.setattr(writer_module, "_MEMORY_BYTES", 100)
    assert store_and_name(open_store(layout), contents) == name


def store_and_name(blobs: BlobStore, contents: list[bytes]) -> str:
    with blobs.writer() as writer:
        for content in contents:
            writer.put(content)
        name = writer.flush()
    assert name is not None
    return name


def test_the_write_path_imports_nothing_heavy():
    """The hook writes blobs, so this path stays free of heavy modules (I34)."""
    program = """
import sys
before = set(sys.modules)
import eventlog.blobs.store
heavy = {"pyarrow", "duckdb", "click", "orjson", "json", "re", "typing", "dataclasses", "pathlib", "enum"}
print(sorted(heavy & (set(sys.modules) - before)))
"""
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("members", [1, 3])
def test_what_does_not_come_back_is_not_published(layout, blobs, codec, members, monkeypatch):
    """I24, P1: a pack whose groups do not decode to what their ids promise is not written; the next is."""
    contents = [bytes([65 + n]) * 5_000 for n in range(members)]
    compress = pack_format.compress

    def faulty(raw, codec, level):
        """As where a bit of memory changes before the content is compressed."""
        return compress(bytes([raw[0] ^ 1]) + raw[1:], codec, level)

    with blobs.writer(codec=codec) as writer:
        with monkeypatch.context() as patched:
            patched.setattr(writer_module, "compress", faulty)
            with pytest.raises(NotDurable, match="memory"):
                writer.add_group(contents)
                writer.flush()
            if codec != "zstd":  # its groups are compressed beside, so that the flush has failed already
                with pytest.raises(NotDurable):
                    writer.flush()
        assert pack_paths(layout) == [] and os.listdir(layout.directory(TMP_DIR)) == []
        ids = writer.add_group(contents)
        writer.flush()
    assert [blobs.get(id) for id in ids] == contents


def test_tables_that_do_not_come_back_are_not_published(layout, blobs, monkeypatch):
    """I24, P1: a pack whose tables do not decode to the rows that were put is not written; the next is."""
    encode = pack_format.encode_tables

    def faulty(header, groups, entries, offset):
        """As where a bit of memory changes before the tables are encoded."""
        (id, kind, number, at, size), *rest = entries
        return encode(header, groups, [(id, kind, number, at, size ^ 1), *rest], offset)

    with blobs.writer() as writer:
        with monkeypatch.context() as patched:
            patched.setattr(writer_module, "encode_tables", faulty)
            writer.put(b"content")
            with pytest.raises(NotDurable, match="the tables of a pack"):
                writer.flush()
        assert pack_paths(layout) == [] and os.listdir(layout.directory(TMP_DIR)) == []
        id = writer.put(b"content")
        writer.flush()
    assert blobs.get(id) == b"content"


@pytest.mark.parametrize("codec", [pack_format.ZLIB, pack_format.ZSTD])
def test_large_contents_are_checked_in_pieces(codec):
    """A group above 16 MiB is not decompressed into memory as a whole, and is checked all the same."""
    raw = bytes(range(256)) * 70_000
    used, stored = pack_format.compress(raw, codec, 1)
    group = pack_format.Group(0, used, len(raw), len(stored))
    pieces = list(pack_format.decompressed(group, stored, "x"))
    assert b"".join(pieces) == raw and max(map(len, pieces)) < len(raw)
    with pytest.raises(Corruption):
        list(pack_format.decompressed(group, stored[:-5], "x"))
