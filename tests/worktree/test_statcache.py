"""The stat cache as a file: damaged, foreign and newer ones count as absent."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.fs import REAL
from eventlog.worktree.rows import Basis, StatCache, Unusable, directory_of, pack_stat
from eventlog.worktree.statcache import HEAD, CacheKey, decode_base, decode_overlay, encode_overlay
from eventlog.worktree.statcache_upkeep import encode_base, sweep
from tests.worktree.support import Bench, age, on_disk
from tests.worktree.test_capture import fill, write

KEY = CacheKey(b"s" * 16, b"w" * 16, b"o" * 16, b"/work")


def sample() -> StatCache:
    below = directory_of([(b"x", (b"x", b"x" * 32, 9, b"\4" * 36, b"\0", None))], [], 2)
    rows: list[tuple[bytes, Any]] = [
        (b"a", (b"d", b"a" * 32, 0, b"\2" * 36, b"\0", below)),
        (b"f", (b"f", b"f" * 32, 7, b"\3" * 36, b"\1", None)),
    ]
    return StatCache(
        None, directory_of(rows, [below], 1), root=(b"r" * 32, b"\1" * 36, 5),
        basis=Basis(b"t" * 16, 3, [b"/etc/x"], b"\5" * 36), absent=[b"gone", b"a/gone"], next_row=1,
    )  # fmt: skip


def decode(data: bytes, key: CacheKey = KEY) -> StatCache | None:
    loaded = decode_base(lambda size, at: data[at : at + size], len(data), key.store_id, key.worktree)
    return None if loaded is None or loaded[1] != key.options else loaded[0]


def all_of(cache: StatCache) -> list[Any]:
    """Everything that a cache says."""
    rows = [
        (path, one.kind(row), one.id(row), one.size(row), one.stat(row), one.flags[row])
        for path, one, row in cache.rows()
    ]
    basis = cache.basis
    facts = (cache.root, cache.root_stat, cache.root_size, basis.tracked, basis.generation, cache.next_row)
    names = (list(basis.watched), basis.watch_stats, list(cache.absent))
    return [sorted(rows), facts, names, cache.totals(cache.top)]


def test_a_cache_is_read_as_it_was_written() -> None:
    """I22: every row comes back with what the head says, and with the totals of all below it."""
    written = sample()
    read = decode(encode_base(written, KEY))

    assert read is not None and read.base is not None
    assert all_of(read) == all_of(written)
    assert [path for path, _, _ in read.rows()] == [b"a", b"f", b"a/x"]
    assert read.totals(read.top) == (2, 3, 2, 0, 0, 0, 0, 3)
    assert read.times(b"a/x") == (0x0404040404040404,) * 2 + (0x0404040404040404,) * 2
    assert read.find(b"a/y") is None and read.find(b"f/x") is None
    assert read.base.names()[-1] == KEY.path
    assert encode_base(read, KEY) == encode_base(written, KEY)


def test_an_overlay_holds_what_differs_from_its_base() -> None:
    """I22: a cache that shares rows with a base comes back from the overlay, also folded into a new base."""
    base = decode(encode_base(sample(), KEY))
    assert base is not None and base.base is not None
    root = base.directory(base.top)
    added = directory_of([(b"n", (b"s", b"n" * 32, 4, b"\6" * 36, b"\2", None))], [], 0)
    rows: list[tuple[bytes, Any]] = [
        (b"a", (b"d", b"a" * 32, 0, b"\2" * 36, b"\0", root.below[0])),
        (b"b", (b"d", b"b" * 32, 0, b"\7" * 36, b"\0", added)),
    ]
    top = directory_of(rows, [root.below[0], added], 0)
    base.add_totals(top, root)
    changed = base.replaced(top, b"R" * 32)
    read = decode_overlay(encode_overlay(changed), base.base)

    assert read is not None and isinstance(read.directory(read.top).below[0], int), "shared, not copied"
    assert all_of(read) == all_of(changed)
    assert [path for path, _, _ in read.rows()] == [b"a", b"b", b"a/x", b"b/n"]
    assert read.totals(read.top) == (3, 4, 1, 0, 0, 1, 1, 2)
    assert read.absent_of_base and list(read.absent) == [b"gone", b"a/gone"]
    folded = decode(encode_base(read, KEY))
    assert folded is not None and all_of(folded) == all_of(changed)


def test_a_changed_byte_or_a_foreign_key_is_no_cache() -> None:
    """I11, I22: whatever byte is changed or missing, it is found where it is read; so is another key."""
    data = encode_base(sample(), KEY)
    for at in range(len(data)):
        for bad in (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], data[:at]):
            with pytest.raises((Unusable, AssertionError)):
                cache = decode(bad)
                assert cache is not None
                all_of(cache)
    for other in (
        CacheKey(b"S" * 16, KEY.worktree, KEY.options),
        CacheKey(KEY.store_id, b"W" * 16, KEY.options),
        CacheKey(KEY.store_id, KEY.worktree, b"O" * 16),
    ):
        assert decode(data, other) is None


def test_a_changed_byte_is_no_overlay() -> None:
    """I11, I22: any changed byte or missing tail of an overlay, or another base, leaves the base alone."""
    base = decode(encode_base(sample(), KEY))
    assert base is not None and base.base is not None
    root = base.directory(base.top)
    data = encode_overlay(base.replaced(root, b"R" * 32))
    assert decode_overlay(data, base.base) is not None
    for at in range(len(data)):
        assert decode_overlay(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], base.base) is None
        assert decode_overlay(data[:at], base.base) is None
    other = decode(encode_base(base.resumed(0), KEY))
    assert other is not None and other.base is not None
    assert decode_overlay(data, other.base) is None


@given(st.integers(4, 1000), st.binary(min_size=1, max_size=8))
def test_bytes_of_bad_will_end_in_no_cache_or_a_sound_one(at: int, patch: bytes) -> None:
    """I11: whatever the tables claim, with right digests over them, reading them ends and stays inside."""
    data = bytearray(encode_base(sample(), KEY))
    at %= len(data)
    data[at : at + len(patch)] = patch
    try:
        cache = decode(resealed(bytes(data)))
        if cache is not None:
            all_of(cache)
            encode_base(cache, KEY)
            list(cache.row_ranges())
    except Unusable:
        pass


def resealed(data: bytes) -> bytes:
    """A base of one block with right digests over it."""
    tables = data[HEAD.size + 32 :]
    head = data[: HEAD.size] + blake3(tables).digest(16)
    return head + blake3(head).digest(16) + tables


def test_a_damaged_cache_is_replaced(bench: Bench) -> None:
    """I22: a damaged, newer or foreign cache file costs time and changes no tree."""
    fill(bench.work)
    first = bench.capture()
    age(bench.work)
    bench.capture()
    (file,) = (path for path in bench.caches() if path.suffix == ".evc")
    for path in set(bench.caches()) - {file}:
        path.unlink()
    whole = file.read_bytes()
    newer, foreign = bytearray(whole), bytearray(whole)
    newer[4] = 5
    foreign[8:24] = bytes(16)
    bad_ones = [b"", whole[:100], whole[:-1], whole[:50] + b"?" + whole[51:], b"\0" * len(whole)]
    bad_ones += [resealed(bytes(newer)), resealed(bytes(foreign))]
    bad_ones += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(230, len(whole), 97)]
    for bad in bad_ones:
        file.write_bytes(bad)
        done = bench.capture()
        assert (done.root, done.read_files) == (first.root, first.read_files)
        assert bench.capture().read_files == 0, "the cache that replaced it is a whole one"


def test_a_damaged_overlay_costs_time_and_changes_no_tree(bench: Bench) -> None:
    """I22, I26: without a byte of the overlay the base is used, which is true of an earlier moment."""
    fill(bench.work)
    bench.capture()
    age(bench.work)
    bench.capture()
    write(bench.work / "a" / "one.txt", b"another text")
    write(bench.work / "n" / "new.txt", b"new")
    age(bench.work)
    changed = bench.capture()
    (file,) = (path for path in bench.caches() if path.suffix == ".evo")
    whole = file.read_bytes()
    for bad in (
        b"",
        whole[:90],
        whole[:-1],
        *(whole[:at] + b"?" + whole[at + 1 :] for at in range(0, len(whole), 61)),
    ):
        file.write_bytes(bad)
        done = bench.capture()
        assert done.root == changed.root and bench.tree() == on_disk(bench.work)


def test_a_cache_with_paths_out_of_place_is_not_followed(bench: Bench) -> None:
    """I11: tables that contradict each other under a right digest give the disk's tree all the same."""
    fill(bench.work)
    bench.capture()
    age(bench.work)
    bench.capture()
    (file,) = (path for path in bench.caches() if path.suffix == ".evc")
    for path in set(bench.caches()) - {file}:
        path.unlink()
    file.write_bytes(resealed(file.read_bytes().replace(b"a/one.txt", b"b/one.txt")))

    bench.capture()

    assert bench.tree() == on_disk(bench.work)


def test_a_moved_or_replaced_directory_is_captured_from_scratch(bench: Bench) -> None:
    """I26: the cache is of a path; what is there instead is compared, name by name."""
    fill(bench.work)
    bench.capture()
    age(bench.work)
    bench.capture()
    os.rename(bench.work, bench.work.parent / "aside")
    write(bench.work / "a" / "one.txt", b"another")
    bench.capture()
    assert bench.tree() == on_disk(bench.work)
    shutil.rmtree(bench.work)
    os.rename(bench.work.parent / "aside", bench.work)
    bench.capture()
    assert bench.tree() == on_disk(bench.work)


def test_a_disk_that_takes_no_cache_hurts_nothing(bench: Bench) -> None:
    """P4: when the cache cannot be written the capture succeeds."""
    fill(bench.work)
    shutil.rmtree(bench.layout.directory("snapshots/statcache"))
    bench.capture()
    assert bench.tree() == on_disk(bench.work)
    assert os.listdir(bench.layout.directory("tmp")) == ["clock"]


def test_captures_write_to_the_files_they_have(bench: Bench) -> None:
    """A capture that finds a change makes no new file for its cache, and none to learn the time."""
    fill(bench.work)

    def inodes() -> set[int]:
        root = Path(bench.layout.root)
        return {
            path.stat().st_ino for name in ("tmp", "snapshots/statcache") for path in (root / name).iterdir()
        }

    seen = []
    for number in range(5):
        write(bench.work / "a" / "one.txt", b"x" * (1000 - 100 * number))
        bench.capture()
        assert bench.tree() == on_disk(bench.work)
        seen.append(inodes())
    assert seen[2] == seen[3] == seen[4] and len(seen[2]) == 4, "clock, base, overlay, and the one before"


def test_an_entry_is_proven_by_every_field() -> None:
    """I26: type, exec bit, inode, size and both times are in what is compared."""
    found = os.lstat(__file__)
    base = pack_stat(found)
    fields = ["st_mode", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"]

    class Changed:
        def __init__(self, field: str) -> None:
            for name in fields:
                setattr(self, name, getattr(found, name) + (name == field))

    assert pack_stat(Changed("")) == base  # type: ignore[arg-type]
    for field in fields:
        assert pack_stat(Changed(field)) != base  # type: ignore[arg-type]


def test_caches_of_directories_that_are_gone_are_swept(bench: Bench) -> None:
    """I22, S1-61: later the cache of a removed directory goes; those of others and foreign files stay."""
    gone = bench.work.parent / "gone"
    write(gone / "a")
    write(bench.work / "a")
    bench.capture(root=str(gone))
    (of_gone,) = bench.caches()
    bench.capture(previous=None)
    place = of_gone.parent
    for name in ("notes.txt", "0" * 32 + ".evc", "1" * 32 + ".evc"):
        (place / name).write_bytes(b"somebody else's")
    earlier, newer = place / ("2" * 32 + ".evc"), place / ("3" * 32 + ".evc")
    whole = bytearray(of_gone.read_bytes())
    for path, version in ((earlier, 1), (newer, 99)):
        whole[4] = version
        path.write_bytes(whole)
    before = set(bench.caches())

    def swept() -> set[Path]:
        return {Path(path) for path in sweep(REAL, bench.layout, age_s_min=3600)}

    for path in before:
        os.utime(path, (0, 0))
    assert swept() == {earlier}
    shutil.rmtree(gone)
    os.utime(of_gone)
    assert swept() == set()
    os.utime(of_gone, (0, 0))
    assert swept() == {of_gone}
    assert set(bench.caches()) == before - {earlier, of_gone}
