"""The stat cache as a file: damaged, foreign and newer ones count as absent."""

import os
import shutil
from pathlib import Path

from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.fs import REAL
from eventlog.worktree import statcache
from eventlog.worktree.statcache import CacheKey, StatCache, Tables, decode, encode, is_nested
from tests.worktree.support import Bench, age, on_disk
from tests.worktree.test_capture import fill, write

KEY = CacheKey(b"s" * 16, b"w" * 16, b"o" * 16, b"/work")


def sample() -> StatCache:
    tables = Tables()
    top = tables.begin_dir()
    tables.add_rows([b""], [(b"d", b"r" * 32, 0, b"\1" * 36, b"\0", None)])
    root = tables.begin_dir()
    rows = [(b"d", b"a" * 32, 0, b"\2" * 36, b"\0", None), (b"f", b"f" * 32, 7, b"\3" * 36, b"\1", None)]
    tables.add_rows([b"a", b"f"], rows)
    below = tables.begin_dir()
    tables.add_rows([b"a/x"], [(b"x", b"x" * 32, 9, b"\4" * 36, b"\0", None)])
    tables.end_dir(below, 1)
    tables.end_dir(root, 2)
    tables.end_dir(top, 1)
    return tables.finish(
        tracked=b"t" * 16, generation=3, watched=[(b"/etc/x", b"\5" * 36)], absent=[b"gone", b"a/gone"]
    )


def test_a_cache_is_read_as_it_was_written() -> None:
    """I22: every table comes back, and a sub-tree is one stretch of each."""
    written = sample()
    read = decode(encode(written, KEY), KEY)

    assert read is not None and is_nested(read)
    assert read.paths == [b"", b"a", b"f", b"a/x"]
    assert (read.root, read.generation, read.tracked) == (b"r" * 32, 3, b"t" * 16)
    assert (list(read.watched), list(read.absent)) == ([b"/etc/x"], [b"gone", b"a/gone"])
    assert (read.rows_of(2), read.span(1), read.size(3)) == ((3, 4), 2, 9)
    copy = Tables()
    copy.copy(read, 0, read.span(0))
    again = copy.finish(
        tracked=read.tracked, generation=3, watched=[(b"/etc/x", b"\5" * 36)], absent=read.absent
    )
    assert encode(again, KEY) == encode(written, KEY)


def test_a_changed_byte_or_a_foreign_key_is_no_cache() -> None:
    """I11, I22: any changed byte, any missing tail, another store, directory or option set is no cache."""
    data = encode(sample(), KEY)
    for at in range(len(data)):
        assert decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], KEY) is None
        assert decode(data[:at], KEY) is None
    for other in (
        CacheKey(b"S" * 16, KEY.worktree, KEY.options),
        CacheKey(KEY.store_id, b"W" * 16, KEY.options),
    ):
        assert decode(data, other) is None
    assert decode(data, CacheKey(KEY.store_id, KEY.worktree, b"O" * 16)) is None


@given(st.integers(4, 1000), st.binary(min_size=1, max_size=8))
def test_bytes_of_bad_will_end_in_no_cache_or_a_sound_one(at: int, patch: bytes) -> None:
    """I11: whatever the tables claim, with a right digest over it, reading them ends and stays inside."""
    body = bytearray(encode(sample(), KEY)[:-16])
    at %= len(body)
    body[at : at + len(patch)] = patch
    cache = decode(bytes(body) + blake3(bytes(body)).digest(16), KEY)
    if cache is not None and is_nested(cache):
        assert len(cache.paths) == cache.row_count
        copy = Tables()
        copy.copy(cache, 0, cache.span(0))


def test_a_damaged_cache_is_replaced(bench: Bench) -> None:
    """I22: a damaged, newer or foreign cache file costs time and changes no tree."""
    fill(bench.work)
    first = bench.capture()
    age(bench.work)
    bench.capture()
    (file,) = bench.caches()
    whole = file.read_bytes()
    newer = bytearray(whole[:-16])
    newer[4] = 4
    foreign = bytearray(whole[:-16])
    foreign[8:24] = bytes(16)
    resealed = [bytes(body) + blake3(bytes(body)).digest(16) for body in (newer, foreign)]
    for bad in (b"", whole[:100], whole[:-1], whole[:50] + b"?" + whole[51:], b"\0" * len(whole), *resealed):
        file.write_bytes(bad)
        done = bench.capture()
        assert (done.root, done.read_files) == (first.root, first.read_files)
        assert file.read_bytes() == whole


def test_a_cache_with_paths_out_of_place_is_not_followed(bench: Bench) -> None:
    """I11: tables that contradict each other under a right digest give the disk's tree all the same."""
    fill(bench.work)
    bench.capture()
    age(bench.work)
    bench.capture()
    (file,) = bench.caches()
    body = file.read_bytes()[:-16].replace(b"a/one.txt", b"b/one.txt")
    file.write_bytes(body + blake3(body).digest(16))

    bench.capture()

    assert bench.tree() == on_disk(bench.work)


def test_a_moved_or_replaced_directory_is_captured_anew(bench: Bench) -> None:
    """I26: the cache is of a path; what stands there instead is looked at, name by name."""
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
    assert seen[1] == seen[2] == seen[3] == seen[4] and len(seen[1]) == 3


def test_an_entry_is_proven_by_every_field() -> None:
    """I26: type, exec bit, inode, size and both times are in what is compared."""
    found = os.lstat(__file__)
    base = statcache.pack_stat(found)
    fields = ["st_mode", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"]

    class Changed:
        def __init__(self, field: str) -> None:
            for name in fields:
                setattr(self, name, getattr(found, name) + (name == field))

    assert statcache.pack_stat(Changed("")) == base  # type: ignore[arg-type]
    for field in fields:
        assert statcache.pack_stat(Changed(field)) != base  # type: ignore[arg-type]


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
        return {Path(path) for path in statcache.sweep(REAL, bench.layout, age_s_min=3600)}

    for path in before:
        os.utime(path, (0, 0))
    assert swept() == {earlier}
    shutil.rmtree(gone)
    os.utime(of_gone)
    assert swept() == set()
    os.utime(of_gone, (0, 0))
    assert swept() == {of_gone}
    assert set(bench.caches()) == before - {earlier, of_gone}
