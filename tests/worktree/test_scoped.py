"""Captures of some paths, beside captures of all, over one stat cache."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.worktree import stat_all, statcache, statcache_upkeep
from eventlog.worktree.userfiles import UserFiles
from tests.conftest import examples
from tests.worktree.support import Bench, Files, age, on_disk
from tests.worktree.test_capture import write
from tests.worktree.test_capture_steps import new_bench

PATHS = ("a", "b", "d/a", "d/b", "d/e/a", "d/e/b", "f/g/h/a", "f/b")
CHANGE = st.tuples(st.sampled_from(PATHS), st.sampled_from((b"1", b"22", b"333", None)))
STEP = st.one_of(
    st.tuples(st.just("full"), st.lists(CHANGE, max_size=4)),
    st.tuples(st.just("scoped"), st.lists(CHANGE, max_size=4), st.sets(st.sampled_from(PATHS), min_size=1)),
    st.tuples(st.sampled_from(("fold", "lose the overlay", "damage the overlay", "lose all"))),
)


def change(work: Path, path: str, content: bytes | None) -> None:
    """Write or remove a file; what is in its way goes, and so does a directory that gets empty."""
    target = work / path
    if content is not None:
        for above in reversed(target.parents):
            if above.is_relative_to(work) and above.is_file():
                above.unlink()
        shutil.rmtree(target) if target.is_dir() else None
        write(target, content)
    elif target.is_file():
        target.unlink()
        if target.parent != work and not any(target.parent.iterdir()):
            target.parent.rmdir()


def overlay_of(bench: Bench) -> Path | None:
    return next((path for path in bench.caches() if path.suffix == ".evo"), None)


def fold(bench: Bench) -> bool:
    with bench.open() as blobs:
        worktree = blake3(os.fsencode(os.path.realpath(bench.work))).digest(16)
        return statcache_upkeep.fold(REAL, bench.layout, blobs.store_id, worktree)


def check_scoped(before: Files, tree: Files, disk: Files, scope: set[bytes], done: Any) -> None:
    """Paths that were compared are as on disk; any other as there, or as it was."""
    for path in before.keys() | tree.keys() | disk.keys():
        assert tree.get(path) in (before.get(path), disk.get(path)), path
    for path in scope:
        assert tree.get(path) == disk.get(path), path
    payload = {change.path for change in done.changes} | {change.old_path for change in done.changes} - {None}
    differing = {path for path in before.keys() | tree.keys() if before.get(path) != tree.get(path)}
    files = {path for path in differing if (before.get(path) or tree[path])[0] != b"d"}
    assert files <= payload


@settings(max_examples=examples(25, 2000))
@given(st.lists(STEP, min_size=1, max_size=9), st.booleans())
def test_any_history_gives_the_trees_of_captures_without_a_cache(steps: list[Any], small: bool) -> None:
    """P1, I22, I26: whatever changes between captures, and whatever becomes of the cache's files, a full
    capture gives the tree of the disk, and one of some paths these as they are and the rest as it was."""
    bench = new_bench()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(statcache_upkeep, "FOLDED_SIZE_MIN", 0)
        if small:  # a new base often
            patched.setattr(statcache, "_OVERLAY_SIZE", 700)
        try:
            bench.capture()
            for step in steps:
                run(bench, *step)
            bench.capture()
            assert bench.tree() == on_disk(bench.work)
            assert bench.uncached().root == bench.last
        finally:
            shutil.rmtree(bench.work.parent)


def run(bench: Bench, what: str, changes: Any = (), named: Any = ()) -> None:
    for path, content in changes:
        change(bench.work, path, content)
    age(bench.work)
    overlay = overlay_of(bench)
    if what == "full":
        bench.capture()
        assert bench.tree() == on_disk(bench.work)
    elif what == "scoped":
        before = bench.tree()
        scope = {os.fsencode(path) for path in named}
        done = bench.capture(scope=scope)
        if done.scoped is None:
            assert bench.tree() == on_disk(bench.work)
        else:
            check_scoped(before, bench.tree(), on_disk(bench.work), scope, done)
    elif what == "fold":
        fold(bench)
    elif what == "lose all":
        for path in bench.caches():
            path.unlink()
    elif overlay is not None:
        overlay.unlink() if what == "lose the overlay" else overlay.write_bytes(overlay.read_bytes()[:-1])


class Counting(UserFiles):
    """Notes the names that are examined, and the directories that are listed."""

    def __init__(self) -> None:
        self.examined: list[bytes] = []
        self.listed = 0

    def lstat(self, dir_fd: int, name: bytes) -> os.stat_result:
        self.examined.append(name)
        return super().lstat(dir_fd, name)

    def scan(self, dir_fd: int) -> dict[bytes, bool]:
        self.listed += 1
        return super().scan(dir_fd)


@pytest.fixture
def wide(layout: Layout, tmp_path: Path) -> Iterator[Bench]:
    """A directory of 3,000 files in 120 directories, captured twice."""
    bench = Bench(layout, tmp_path / "work")
    for number in range(3_000):
        place = bench.work / f"p{number // 300}" / f"d{number // 25}"
        place.mkdir(exist_ok=True, parents=True)
        (place / f"f{number}").write_bytes(b"%d" % number)
    bench.capture()
    age(bench.work)
    bench.capture()
    yield bench


def test_a_capture_of_one_path_costs_the_directories_on_the_way(
    wide: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: one path of 3,000: three directories' rows are read, four names examined, nothing listed, and what
    is written is their rows."""
    read: list[int] = []
    directory = statcache.BaseRows.directory

    def noted(self: statcache.BaseRows, number: int) -> Any:
        read.append(number)
        return directory(self, number)

    monkeypatch.setattr(statcache.BaseRows, "directory", noted)
    monkeypatch.setattr(statcache.BaseRows, "row_ranges", lambda *_: pytest.fail("all rows are read"))
    monkeypatch.setattr(stat_all, "_stat_stride", lambda *_: pytest.fail("all paths compared"))
    write(wide.work / "p3" / "d41" / "f1030", b"changed")
    calls = Counting()
    done = wide.capture(scope={b"p3/d41/f1030"}, calls=calls)

    assert done.scoped == (b"p3/d41/f1030",)
    assert [change[:2] for change in done.changes] == [("edit", b"p3/d41/f1030")]
    assert len(set(read)) <= 3
    assert sorted(set(calls.examined)) == [b".", b"d41", b"f1030", b"p3"]
    assert calls.listed == 0
    overlay = overlay_of(wide)
    assert overlay is not None and overlay.stat().st_size < 9_000
    monkeypatch.undo()
    assert wide.tree() == on_disk(wide.work)


def test_a_new_file_lists_its_directory_alone(wide: Bench) -> None:
    """P4, I26: a file that an edit made is found by the times of its directory; another change waits."""
    write(wide.work / "p0" / "d0" / "new", b"new")
    write(wide.work / "p1" / "d13" / "f325", b"by somebody else")
    calls = Counting()
    done = wide.capture(scope={b"p0/d0/new"}, calls=calls)

    assert [change[:2] for change in done.changes] == [("add", b"p0/d0/new")]
    assert calls.listed == 1
    assert [change[:2] for change in wide.capture().changes] == [("edit", b"p1/d13/f325")]
    assert wide.tree() == on_disk(wide.work)


def test_all_is_compared_where_a_scope_proves_too_little(wide: Bench) -> None:
    """P1: without a cache of the earlier tree, after a collection, or where a path changes the rules."""
    last = wide.last
    write(wide.work / "other", b"x")
    assert wide.capture(scope={b"p0"}, previous=None).scoped is None
    wide.last = last
    assert wide.capture(scope={b"p0"}).scoped is None, "the cache is that of a later tree"
    Path(wide.layout.gc_generation).write_text("1\n")
    assert wide.capture(scope={b"p0"}).scoped is None
    wide.git("init", "-q")
    write(wide.work / "p0" / ".gitignore", b"f1\n")
    wide.capture()
    write(wide.work / "p0" / ".gitignore", b"f2\n")
    write(wide.work / "p5" / "new", b"x")
    done = wide.capture(scope={b"p0/.gitignore"})
    assert done.scoped is None and b"p5/new" in {change.path for change in done.changes}


def test_a_block_that_rots_is_found_where_it_is_read(wide: Bench) -> None:
    """I22, I26: a base with one bad block gives the tree of the disk, whatever captures, and is replaced."""
    (file,) = (path for path in wide.caches() if path.suffix == ".evc")
    whole = file.read_bytes()
    for at in range(1_000, len(whole), len(whole) // 9):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        write(wide.work / "p3" / "d41" / "f1030", b"changed at %d" % at)
        wide.capture(scope={b"p3/d41/f1030"})
        wide.capture()
        assert wide.tree() == on_disk(wide.work)
        assert wide.capture().read_files == 0


def test_maintenance_folds_an_overlay_into_its_base(wide: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """I22: after it one file has all rows, and the next captures find what they found before."""
    for number in range(0, 3_000, 30):
        write(wide.work / f"p{number // 300}" / f"d{number // 25}" / f"f{number}", b"changed")
    monkeypatch.setattr(statcache, "_OVERLAY_SIZE", 1 << 20)
    changed = wide.capture()
    age(wide.work)
    wide.capture()
    assert overlay_of(wide) is not None and fold(wide)
    before = {path: path.stat().st_mtime_ns for path in wide.caches()}
    calls = Counting()
    done = wide.capture(calls=calls)
    assert (done.root, done.read_files, calls.listed) == (changed.root, 0, 0)
    assert {path: path.stat().st_mtime_ns for path in wide.caches()} == before
    assert wide.uncached().root == done.root
