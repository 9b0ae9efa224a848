"""Plans that leave unchanged files unread: what they may believe, and what they must not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlog.base.fs import FileSystem
from eventlog.base.layout import STATCACHE_DIR, parse_statcache
from eventlog.blobs.tree import EXECUTABLE, FILE, SYMLINK
from eventlog.checkout.directory import OpenDirectory
from eventlog.restore import plan as restore
from eventlog.restore import wanted as restore_wanted
from eventlog.restore.plan import RestorePlan
from eventlog.restore.run import run
from eventlog.store import Store
from eventlog.worktree.capture import Capture, capture
from eventlog.worktree.userfiles import UserFiles
from tests.blobs.support import Node
from tests.conftest import examples
from tests.restore.restoring import WANTED, World, actions
from tests.worktree.support import age

# More files than a plan learns at least before it keeps a cache.
TREE: Node = {
    b"top": (FILE, b"top"),
    b"link": (SYMLINK, b"top"),
    b"run": (EXECUTABLE, b"#!"),
    **{b"d%d" % d: {b"f%d" % f: (FILE, b"%d of %d" % (f, d)) for f in range(10)} for d in range(8)},
}


class Reads(UserFiles):
    """Notes which files are opened."""

    def __init__(self) -> None:
        self.opened: list[bytes] = []

    def open_file(self, dir_fd: int, name: bytes) -> int:
        self.opened.append(name)
        return super().open_file(dir_fd, name)


def aged_world(root: Path) -> World:
    world = World(root, wanted=TREE, disk=TREE)
    age(world.work)
    return world


def plan_with(world: World, calls: UserFiles) -> RestorePlan:
    state = world.store.tree(WANTED)
    wanted = restore_wanted.wanted_of_turn(state, (), (), (), delete=False)
    with OpenDirectory.of(os.fspath(world.work), calls) as place:
        return restore.make_plan(place, wanted, world.store.blobs, restore.RestoreGoal("t", "end"))


def read_by_a_plan(world: World) -> list[bytes]:
    calls = Reads()
    plan_with(world, calls)
    return sorted(calls.opened)


def caches(world: World) -> list[str]:
    names = os.listdir(world.store.layout.directory(STATCACHE_DIR))
    return [name for name in names if parse_statcache(name) is not None]


def forget(world: World) -> None:
    for name in caches(world):
        os.unlink(f"{world.store.layout.directory(STATCACHE_DIR)}/{name}")


def captured(world: World) -> Capture:
    with world.store.blobs.writer() as writer:
        return capture(writer, os.fspath(world.work))


def test_a_plan_reads_only_what_no_capture_has_proven(tmp_path: Path) -> None:
    """I26: what a capture has proven to be as wanted is not read; what was changed since is."""
    world = aged_world(tmp_path)
    captured(world)
    assert read_by_a_plan(world) == []
    (world.work / "d3/f3").write_bytes(b"3 of 4")
    assert read_by_a_plan(world) == [b"f3"]
    assert actions(world.plan()) == {b"d3/f3": "overwrite"}


def test_a_plan_keeps_what_it_read_where_no_capture_does(tmp_path: Path) -> None:
    """I26: without captures the first plan reads all, the next one what was changed; captures are as ever."""
    world = aged_world(tmp_path)
    assert len(read_by_a_plan(world)) == 82
    age(world.work)
    assert read_by_a_plan(world) == []
    (world.work / "run").chmod(0o644)
    assert read_by_a_plan(world) == [b"run"]
    (world.work / "run").chmod(0o755)
    # A capture does not take it for its own, and what the capture keeps instead stays.
    first = captured(world)
    assert first.read_files == 82
    kept = [os.stat(f"{world.store.layout.directory(STATCACHE_DIR)}/{name}").st_ino for name in caches(world)]
    (world.work / "top").write_bytes(b"changed")
    age(world.work)
    assert b"top" in read_by_a_plan(world)
    assert kept == [
        os.stat(f"{world.store.layout.directory(STATCACHE_DIR)}/{name}").st_ino for name in caches(world)
    ]


def test_a_plan_of_a_part_keeps_the_cache_of_the_whole(tmp_path: Path) -> None:
    """I26: an undo, or a restore of some paths, reads few files and forgets none of the others."""
    world = aged_world(tmp_path)
    world.plan()
    age(world.work)
    world.store.restore(world.plan("d1"))
    world.plan("d1", "d2")
    assert read_by_a_plan(world) == []


def test_an_edit_within_one_tick_is_seen(tmp_path: Path) -> None:
    """I26, P1: a file that is changed right after a plan, to equal size and time, is not believed."""
    world = aged_world(tmp_path)
    victim = world.work / "d5/f5"
    for _ in range(60):
        victim.write_bytes(b"5 of 5")
        forget(world)
        world.plan()
        was = victim.stat()
        victim.write_bytes(b"lost!!")
        os.utime(victim, ns=(was.st_atime_ns, was.st_mtime_ns))
        assert actions(world.plan()) == {b"d5/f5": "overwrite"}


class SlowClock(FileSystem):
    """A file system whose clock has not ticked since the files were written."""

    def fstat(self, fd: int) -> os.stat_result:
        return os.stat_result([*super().fstat(fd)], {"st_mtime_ns": 1, "st_ctime_ns": 1})


def test_a_file_as_recent_as_the_plan_proves_nothing(tmp_path: Path) -> None:
    """I26: a stat from the tick in which the plan began is not kept, for an edit may leave it as it is."""
    world = aged_world(tmp_path)
    with Store.open(world.store.layout.root, fs=SlowClock()) as store:
        store.restore_plan(WANTED, into=world.work)
    assert caches(world) == []
    world.plan()
    assert len(caches(world)) == 1


def test_what_is_replaced_is_read_whatever_the_cache_says(tmp_path: Path) -> None:
    """I26, P1: the content of every file that a restore overwrites or deletes is saved as it is on disk."""
    world = World(tmp_path, wanted=TREE, disk=TREE | {b"later": (FILE, b"later")})
    (world.work / "top").write_bytes(b"edited")
    age(world.work)
    captured(world)
    plan = world.plan()
    assert actions(plan) == {b"top": "overwrite", b"later": "delete"}
    calls = Reads()
    run(plan, world.store.blobs, lambda event: world.store.append([event])[0], calls=calls)
    assert sorted(calls.opened) == [b"later", b"top"]
    world.store.restore(world.store.undo_plan("restore", into=world.work))
    assert (world.work / "top").read_bytes() == b"edited"


def test_a_directory_that_became_a_link_proves_nothing(tmp_path: Path) -> None:
    """I28: files behind a symlink are not those that were captured, even when they are the same inodes."""
    world = aged_world(tmp_path)
    captured(world)
    (world.work / "d2").rename(tmp_path / "moved")
    os.symlink(tmp_path / "moved", world.work / "d2")
    plan = world.plan()
    assert [path for path, _ in plan.conflicts] == [b"d2"]
    assert plan.unchanged == 83 - 10 + 7


def test_a_damaged_cache_is_none(tmp_path: Path) -> None:
    """I22: whatever is in the file of the cache, the plan is the same."""
    world = aged_world(tmp_path)
    (world.work / "d0/f0").write_bytes(b"0 of 1")
    token = world.plan().token
    (name,) = caches(world)
    path = f"{world.store.layout.directory(STATCACHE_DIR)}/{name}"
    whole = Path(path).read_bytes()
    for data in (b"", whole[:100], whole[:-1], whole[:200] + b"?" + whole[201:], b"x" * len(whole)):
        Path(path).write_bytes(data)
        assert world.plan().token == token


class NoRoom(FileSystem):
    """A store in which nothing can be made any more."""

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(28, "No space left on device", path)
        return super().open(path, flags, mode)


def test_a_plan_needs_no_room(tmp_path: Path) -> None:
    """P1: where nothing can be kept, the plan is made all the same."""
    world = aged_world(tmp_path)
    with Store.open(world.store.layout.root, fs=NoRoom()) as store:
        assert store.restore_plan(WANTED, into=world.work).unchanged == 91
    assert caches(world) == []


def _rewrite(path: Path) -> None:
    """Other content of the same size, with the times of before."""
    was = path.lstat()
    path.write_bytes(b"?" * was.st_size)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def _swap(path: Path) -> None:
    """Another file with this one's content and times."""
    was, data = path.lstat(), path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("top")


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


EDITS: dict[str, Callable[[Path], object]] = {
    "rewrite": _rewrite,
    "swap": _swap,
    "touch": lambda path: path.touch(),
    "chmod": lambda path: path.chmod(0o755),
    "private": lambda path: path.chmod(0o600),
    "delete": lambda path: path.unlink(),
    "move": lambda path: path.rename(path.with_name("top")),
    "link": _link,
    "directory": _directory,
}


@pytest.mark.slow
@settings(max_examples=examples(12, 500))
@given(
    edits=st.lists(
        st.tuples(st.sampled_from(sorted(EDITS)), st.integers(0, 7), st.integers(0, 9)), max_size=6
    ),
    by_capture=st.booleans(),
    waits=st.booleans(),
)
@example(edits=[("rewrite", 0, 0), ("swap", 1, 1), ("move", 2, 2)], by_capture=True, waits=False)
@example(edits=[("directory", 0, 0), ("link", 1, 1), ("chmod", 2, 2)], by_capture=False, waits=True)
def test_the_plan_is_the_one_without_a_cache(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, int, int]], by_capture: bool, waits: bool
) -> None:
    """I22, I26, P1: after any edits the plan made with the cache is the one made without it."""
    world = World(tmp_path_factory.mktemp("law"), wanted=TREE, disk=TREE)
    if waits:
        age(world.work)
    if by_capture:
        captured(world)
    else:
        world.plan()
    for edit, d, f in edits:
        path = world.work / f"d{d}/f{f}"
        if path.is_file() and not path.is_symlink():
            EDITS[edit](path)
    with_cache = world.plan()
    forget(world)
    without = world.plan()
    assert (with_cache.token, with_cache.unchanged) == (without.token, without.unchanged)
    assert (with_cache.kept, with_cache.conflicts) == (without.kept, without.conflicts)
    if not with_cache.conflicts and with_cache.steps:
        world.store.restore(with_cache)
        assert world.plan().steps == ()
    world.store.close()
