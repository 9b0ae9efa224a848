"""Merging packs, on real files: what is in them, in which order, and what stays where it is."""

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, LockTimeout
from eventlog.base.fs import REAL
from eventlog.base.layout import CONDEMNED_DIR, PACK_DIR, Layout
from eventlog.base.locks import GC, acquire
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.ids import blob_id
from eventlog.blobs.pack import TREE, PackTables
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, FILE
from eventlog.blobs.verify import verify
from eventlog.gc import repack as module
from eventlog.gc.repack import repack
from eventlog.gc.repack_policy import PACKS_MIN, choose
from tests.blobs.support import Node, as_process, open_store, overwrite, pack_paths, put_all, store_node
from tests.conftest import STORE_ID
from tests.simfs import sim_store


def versions(blobs: BlobStore, count: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Trees of one directory over time, one pack each: (root, contents of its files)."""
    made = []
    for n in range(count):
        files = {b"a.py": b"a = 1\n" * 50 + b"%d" % n, b"b.py": b"b = 2\n" * 50 + b"%d" % (n // 2)}
        node: Node = {b"src": {name: (FILE, data) for name, data in files.items()}}
        made.append((store_node(blobs, node), files))
    return made


def only_pack(layout: Layout) -> PackTables:
    (path,) = pack_paths(layout)
    return load_tables(REAL, path, os.path.basename(path)[:64], STORE_ID)


def test_packs_become_one_and_everything_is_found(layout: Layout) -> None:
    """I24, I25: after a merge every id is in one pack, once, and hashes to itself; the inputs wait a day."""
    blobs = open_store(layout)
    made = versions(blobs, 10)
    before = set(os.listdir(layout.directory(PACK_DIR)))
    done = repack(blobs)

    tables = only_pack(layout)
    assert done.pack == tables.name and {f"{name}.evp" for name in done.condemned} == before
    assert len(tables) == len(set(tables.ids())) == 10 + 10 + 10 + 5
    assert {name.partition("-")[2] for name in os.listdir(layout.directory(CONDEMNED_DIR))} == before
    for store in (blobs, open_store(layout)):
        for root, files in made:
            ((name, kind, id, _),) = store.get_tree(root)
            assert (name, kind) == (b"src", DIRECTORY)
            assert {entry.name: store.get(entry.id) for entry in store.get_tree(id)} == files
        assert store.recent_count() == 0  # an idx covers the new pack
    assert verify(blobs, "read") == []


@pytest.mark.parametrize("window", [1, 500, 1 << 20])
def test_the_order_is_trees_then_paths_then_the_newest_first(
    layout: Layout, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees come before contents, contents by path, of one path the newest first, read in any portions."""
    monkeypatch.setattr(module, "_WINDOW_BYTES", window)
    blobs = open_store(layout)
    made = versions(blobs, 9)
    loose = put_all(blobs, b"no path names this")[0]
    reported = put_all(blobs, b"only the log names this")[0]
    rows = [(root, b"", n) for n, (root, _) in enumerate(made)] + [(reported, b"src/aa.py", 3)]
    repack(blobs, named=lambda ids: [row for row in rows if row[0] in ids])

    tables = only_pack(layout)
    entries = sorted((tables.entry(n) for n in range(len(tables))), key=lambda row: (row[2], row[3]))
    kinds = [row[1] for row in entries]
    assert kinds == sorted(kinds, reverse=True) and kinds.count(TREE) == 18
    contents = [row[0] for row in entries if row[1] != TREE]
    newest_first = list(reversed(made))
    of_a = [blob_id(files[b"a.py"]) for _, files in newest_first]
    of_b = list(dict.fromkeys(blob_id(files[b"b.py"]) for _, files in newest_first))
    assert contents == [*of_a, reported, *of_b, loose]
    assert [row[0] for row in entries[:9]] == [root for root, _ in newest_first]


@given(st.lists(st.integers(1, 1 << 40), max_size=40))
def test_what_is_left_after_a_merge_is_few(sizes: list[int]) -> None:
    """P6: merging until nothing is pending leaves packs that triple, and so few of them."""
    packs = {str(n): size for n, size in enumerate(sizes)}
    for n in range(len(sizes) + 1):
        chosen = choose(packs)
        if not chosen:
            break
        assert len(chosen) >= PACKS_MIN
        assert max(packs[name] for name in chosen) <= min(
            (packs[name] for name in packs.keys() - set(chosen)), default=1 << 50
        )
        packs[f"merged {n}"] = sum(packs.pop(name) for name in chosen)
    ordered = sorted(packs.values())
    for n in range(PACKS_MIN, len(ordered)):
        assert ordered[n] >= 2 * sum(ordered[:n])


def test_few_packs_are_left_alone_unless_all_are_asked_for(layout: Layout) -> None:
    """Below the number that pays nothing is pending; `everything` merges what there is."""
    blobs = open_store(layout)
    versions(blobs, PACKS_MIN - 1)
    assert repack(blobs).pack is None and len(pack_paths(layout)) == PACKS_MIN - 1
    assert repack(blobs, everything=True).pack is not None and len(pack_paths(layout)) == 1
    again = repack(blobs, everything=True)
    assert again.condemned == [] and len(pack_paths(layout)) == 1


def test_a_bound_leaves_large_packs_alone(layout: Layout) -> None:
    """What maintenance does on the side stays small: inputs beyond the bound wait."""
    blobs = open_store(layout)
    put_all(blobs, random.Random(1).randbytes(100_000))
    versions(blobs, PACKS_MIN)
    small = sum(os.path.getsize(path) for path in pack_paths(layout)) - 100_000
    assert repack(blobs, bytes_max=100).pack is None
    assert len(repack(blobs, bytes_max=small + 500).condemned) == PACKS_MIN
    assert len(pack_paths(layout)) == 2


def test_a_content_that_cannot_be_read_keeps_its_pack(layout: Layout) -> None:
    """I24: a damaged input stays where it is, with the copies of what it alone holds; the others go."""
    blobs = open_store(layout)
    ids = [put_all(blobs, random.Random(n).randbytes(500))[0] for n in range(9)]
    damaged = pack_paths(layout)[4]
    data = bytearray(Path(damaged).read_bytes())
    data[100] ^= 1
    overwrite(damaged, bytes(data))

    done = repack(blobs, everything=True)
    assert damaged in pack_paths(layout) and len(pack_paths(layout)) == 2 and len(done.condemned) == 8
    with pytest.raises(Corruption):
        for id in ids:
            blobs.get(id)


def test_a_new_pack_that_is_damaged_condemns_nothing(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """I24: inputs go only after every id was read back from the new pack; a bad write is found in time."""
    blobs = open_store(layout)
    made = versions(blobs, 9)
    real = module._merge

    def merge_badly(*given: object) -> str | None:
        name = real(*given)  # type: ignore[arg-type]
        path = layout.pack(str(name))
        data = bytearray(Path(path).read_bytes())
        data[60] ^= 1
        overwrite(path, bytes(data))
        return name

    monkeypatch.setattr(module, "_merge", merge_badly)
    with pytest.raises(Corruption):
        repack(blobs)
    assert os.listdir(layout.directory(CONDEMNED_DIR)) == []
    assert len(pack_paths(layout)) == 10
    monkeypatch.undo()
    # The next one makes the same bytes, and puts them in the place of the bad ones.
    repack(open_store(layout))
    assert verify(blobs, "read") == []
    assert all(blobs.get(root) for root, _ in made)


def test_a_merge_that_could_not_condemn_is_finished_by_the_next(layout: Layout) -> None:
    """A reader or writer that holds the lock makes the merge give up at the end; the work is not lost."""
    blobs = open_store(layout)
    versions(blobs, 9)
    with acquire(REAL, layout, GC, exclusive=False), pytest.raises(LockTimeout):
        as_process(lambda: repack(open_store(layout), lock_timeout_s=0.01))
    assert len(pack_paths(layout)) == 10

    done = repack(blobs)
    assert done.pack is None and len(done.condemned) == 9  # nothing is written a second time
    assert len(pack_paths(layout)) == 1
    assert verify(blobs, "read") == []


def test_needless_packs_stay_when_the_larger_copy_is_damaged(layout: Layout) -> None:
    """I24: that a table names an id is no proof; the only good copy is never condemned."""
    blobs = open_store(layout)
    content = random.Random(5).randbytes(3000)
    (id,) = put_all(blobs, content, codec="raw")
    with blobs.writer(codec="raw") as writer:
        writer.add_copy(id, 0x62, content)
        writer.put(b"another")
        larger = writer.flush()
    path = layout.pack(str(larger))
    data = bytearray(Path(path).read_bytes())
    data[1000] ^= 1
    overwrite(path, bytes(data))

    assert repack(open_store(layout)).condemned == []
    assert open_store(layout).get(id) == content


def test_a_reader_that_listed_the_packs_before_reads_on(layout: Layout) -> None:
    """I24: a store object that was opened before the merge finds everything after it."""
    blobs = open_store(layout)
    made = versions(blobs, 9)
    early = open_store(layout)
    early.refresh()
    assert early.get(made[0][0])
    repack(blobs)
    for root, files in made:
        for data in (*files.values(),):
            assert early.get(blob_id(data)) == data
        assert early.get_tree(root)


WORDS = st.sampled_from([b"", b"x", b"x" * 3000, b"import os\n" * 20, b"\0" * 70_000])


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(WORDS, st.integers(0, 3)), min_size=1, max_size=4), max_size=12), st.data()
)
def test_any_packs_merge_to_the_same_contents(
    batches: list[list[tuple[bytes, int]]], data: st.DataObject
) -> None:
    """I24, I25: whatever packs there are, in whatever order they are merged, each content is there, once."""
    fs, layout = sim_store()
    blobs = open_store(layout, fs)
    ids: dict[bytes, bytes] = {}
    for n, batch in enumerate(batches):
        contents = [word + b"%d" % tail for word, tail in batch]
        ids |= dict(
            zip(put_all(blobs, *contents, codec=("zlib", "raw", "zstd")[n % 3]), contents, strict=True)
        )
        if data.draw(st.booleans()):
            repack(blobs, everything=data.draw(st.booleans()))
    repack(blobs, everything=True)
    assert [sorted(tables.ids()) for tables in blobs.tables()] == ([sorted(ids)] if ids else [])
    assert {id: open_store(layout, fs).get(id) for id in ids} == ids


def test_a_group_ends_between_paths(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of one path share a group as long as it may grow, other paths begin another (P6)."""
    monkeypatch.setattr(module, "_GROUP_BYTES", 1000)
    monkeypatch.setattr(module, "_GROUP_BYTES_MAX", 3000)
    blobs = open_store(layout)
    for n in range(10):
        store_node(blobs, {b"a": (FILE, b"%d" % n * 500), b"b": (FILE, b"%d" % n * 200), b"c": (FILE, b"c")})
    repack(blobs)
    tables = only_pack(layout)
    groups: dict[int, list[int]] = {}
    for _, kind, group, _, length in sorted(map(tables.entry, range(len(tables))), key=lambda row: row[2:]):
        if kind != TREE:
            groups.setdefault(group, []).append(length)
    assert list(groups.values()) == [[500] * 6, [500] * 4, [200] * 10, [1]]
