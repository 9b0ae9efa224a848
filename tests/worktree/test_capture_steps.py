"""Captures that go on from one another: after any edits, with deadlines, kills and other processes."""

import multiprocessing
import os
import shutil
import stat
import time
from pathlib import Path
from subprocess import CalledProcessError
from tempfile import mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.fs import FileSystem
from eventlog.base.layout import DIRECTORIES, Layout
from tests.worktree.support import Bench, age, on_disk
from tests.worktree.test_capture import fill, write

EXAMPLES = 25 if "LOCUS_HUNT" not in os.environ else 5_000

NAMES = st.sampled_from(["a", "b", "c", "caf\udce9", "a.o", ".gitignore"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from([b"", b"1", b"2", b"*.o\n", b"c\n", b"!a.o\n"])
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, CONTENTS),
    st.tuples(st.just("same stat"), PATHS, st.just(b"")),
    st.tuples(st.just("chmod"), PATHS, st.just(b"")),
    st.tuples(st.just("mkdir"), PATHS, st.just(b"")),
    st.tuples(st.just("link"), PATHS, CONTENTS.filter(bool)),
    st.tuples(st.just("hard link"), PATHS, PATHS.map(os.fsencode)),
    st.tuples(st.just("delete"), PATHS, st.just(b"")),
    st.tuples(st.just("rename"), PATHS, PATHS.map(os.fsencode)),
    st.tuples(st.just("track"), PATHS, st.just(b"")),
    st.tuples(st.just("untrack"), PATHS, st.just(b"")),
    st.tuples(st.just("commit"), st.just("a"), st.just(b"")),
)


def step(bench: Bench, what: str, name: str, data: bytes) -> None:
    """One edit; what cannot be done is left."""
    path = bench.work / name
    try:
        if what == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        elif what == "same stat":
            found = path.lstat()
            if stat.S_ISREG(found.st_mode):
                path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
                os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        elif what == "chmod":
            if stat.S_ISREG(path.lstat().st_mode):
                path.chmod(path.stat().st_mode ^ 0o111)
        elif what == "mkdir":
            path.mkdir(parents=True)
        elif what == "link":
            path.symlink_to(os.fsdecode(data.strip()))
        elif what == "hard link":
            os.link(os.path.join(os.fsencode(bench.work), data), path, follow_symlinks=False)
        elif what == "delete":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        elif what == "rename":
            path.rename(os.fsdecode(os.path.join(os.fsencode(bench.work), data)))
        elif not (bench.work / ".git").exists():
            return
        elif what == "track":
            bench.git("add", "-f", "--", name)
        elif what == "untrack":
            bench.git("rm", "-q", "-r", "--cached", "--", name)
        elif what == "commit":
            bench.git("commit", "-q", "-m", "c")
    except (OSError, CalledProcessError):
        pass


def new_bench() -> Bench:
    place = Path(mkdtemp())
    root = place / ".locus"
    root.mkdir()
    for name in DIRECTORIES:
        (root / name).mkdir()
    return Bench(Layout(str(root)), place / "work")


def expected(bench: Bench) -> set[bytes]:
    """The files that git would add, read by git itself."""
    listed = bench.git("ls-files", "-z", "-c", "-o", "--exclude-standard").split("\0")
    return {
        os.fsencode(path)
        for path in listed
        if path and (bench.work / path).is_symlink() | is_file(bench, path)
    }


def is_file(bench: Bench, path: str) -> bool:
    try:
        return stat.S_ISREG((bench.work / path).lstat().st_mode)
    except OSError:
        return False


@settings(max_examples=EXAMPLES)
@given(st.lists(st.lists(STEPS, min_size=1, max_size=4), max_size=6), st.booleans())
def test_a_cached_capture_is_what_a_first_one_would_be(
    rounds: list[list[tuple[str, str, bytes]]], waits: bool
) -> None:
    """I26, I22, P1: after any edits the tree made with the cache is the disk's, and the one made without."""
    bench = new_bench()
    try:
        for edits in rounds:
            for edit in edits:
                if edit[1].rpartition("/")[2] != ".gitignore":  # rules are the other test's matter
                    step(bench, *edit)
            if waits:
                age(bench.work)
            bench.capture()
            assert bench.tree() == on_disk(bench.work)
        if rounds:
            assert bench.uncached().root == bench.last
    finally:
        shutil.rmtree(bench.work.parent)


@settings(max_examples=max(8, EXAMPLES // 6))
@given(st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_a_cached_capture_obeys_git_like_a_first_one(
    rounds: list[list[tuple[str, str, bytes]]], waits: bool
) -> None:
    """I26, P1: after any edits of files, ignore files and the index the tree holds what git would add."""
    bench = new_bench()
    try:
        bench.git("init", "-q")
        for edits in rounds:
            for edit in edits:
                step(bench, *edit)
            if waits:
                age(bench.work)
            bench.capture()
            tree = bench.tree()
            disk = on_disk(bench.work)
            assert {path for path in tree if tree[path][0] != b"d"} == expected(bench)
            assert all(disk[path] == one for path, one in tree.items())
            assert bench.uncached().root == bench.last
    finally:
        shutil.rmtree(bench.work.parent)


# -- deadlines --------------------------------------------------------------------------------------


def test_a_capture_that_is_out_of_time_says_so_and_the_next_completes_it(bench: Bench) -> None:
    """P4, P7: past its deadline a capture is partial, keeps what was known, and the next one is whole."""
    fill(bench.work)
    whole = bench.capture()
    age(bench.work)
    bench.capture()
    write(bench.work / "a" / "one.txt", b"edited")
    write(bench.work / "a" / "added", b"new")

    late = bench.capture(deadline=time.monotonic())
    assert late.partial and late.pending_count > 0 and b"" in late.pending
    assert late.root == whole.root

    done = bench.capture()
    assert not done.partial
    assert bench.tree() == on_disk(bench.work)


def test_a_first_capture_out_of_time_is_completed(bench: Bench) -> None:
    """P4: without a cache and without time nothing is read, and that is not taken for the truth later."""
    fill(bench.work)
    late = bench.capture(deadline=time.monotonic())
    assert late.partial and late.files == 0

    bench.capture()
    assert bench.tree() == on_disk(bench.work)


@pytest.mark.parametrize("in_git", [False, True])
def test_captures_that_stop_anywhere_end_in_the_truth(
    bench: Bench, in_git: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, I26: wherever the clock stops a capture, repeated ones end in the tree of the disk."""
    if in_git:
        bench.git("init", "-q")
    fill(bench.work)
    for number in range(6):
        write(bench.work / f"d{number}" / "f", b"%d" % number)
    age(bench.work)
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return float(looks)

    monkeypatch.setattr("eventlog.worktree.stat_all.time.monotonic", clock)
    for allowed in range(1, 30):
        looks = 0
        bench.capture(deadline=float(allowed))
        tree, disk = bench.tree(), on_disk(bench.work)
        assert all(disk[path] == one for path, one in tree.items())
    monkeypatch.undo()
    assert not bench.capture().partial
    assert bench.tree() == on_disk(bench.work)


def test_names_that_a_late_capture_left_are_found_by_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, I26: a directory that was listed but not finished in time is listed again."""
    write(bench.work / "d" / "f")
    bench.capture()
    for allowed in range(1, 14):
        write(bench.work / "d" / f"new-{allowed}")
        age(bench.work)
        looks = iter(range(1_000))
        with monkeypatch.context() as patch:
            patch.setattr("eventlog.worktree.stat_all.time.monotonic", lambda looks=looks: float(next(looks)))
            bench.capture(deadline=float(allowed))
        bench.capture()
        assert bench.tree() == on_disk(bench.work)


def test_rules_that_changed_before_a_late_capture_are_obeyed_after_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, I26: a capture that ran out of time over changed exclude files leaves them to the next one."""
    bench.git("init", "-q")
    for name in ("a", "b", "c"):
        write(bench.work / name / "f")
    exclude = bench.work / ".git" / "info" / "exclude"
    bench.capture()
    for allowed in range(1, 14):
        hidden = b"a b c".split()[allowed % 3]
        write(exclude, b"/" + hidden + b"\n")
        age(bench.work)
        looks = iter(range(1_000))
        with monkeypatch.context() as patch:
            patch.setattr("eventlog.worktree.stat_all.time.monotonic", lambda looks=looks: float(next(looks)))
            bench.capture(deadline=float(allowed))
        bench.capture()
        assert {path for path in bench.tree() if b"/" not in path} == {b"a", b"b", b"c"} - {hidden}


# -- the store --------------------------------------------------------------------------------------


def test_after_a_collection_ids_of_the_cache_are_not_taken_for_contents(bench: Bench) -> None:
    """I24: when content was collected since, what is missing is read and stored again."""
    fill(bench.work)
    bench.capture()
    age(bench.work)
    bench.capture()
    for pack in Path(bench.layout.directory("snapshots/packs")).iterdir():
        pack.unlink()
    Path(bench.layout.gc_generation).write_text("1\n")

    late = bench.capture(previous=None, deadline=time.monotonic())
    assert late.partial and bench.tree().keys() <= on_disk(bench.work).keys()
    bench.capture(previous=None)
    assert bench.tree() == on_disk(bench.work)


class Killed(BaseException):
    """The process ends here."""


class KilledAt(FileSystem):
    """Stops at the n-th call that changes the store."""

    def __init__(self, calls_left: int) -> None:
        self.calls_left = calls_left

    def _call(self) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise Killed

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        self._call()
        return super().open(path, flags, mode)

    def pwrite(self, fd: int, data: "bytes | memoryview", offset: int) -> int:
        self._call()
        return super().pwrite(fd, data[: len(data) // 2] if self.calls_left == 0 else data, offset)

    def link(self, source: str, target: str) -> None:
        self._call()
        super().link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._call()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._call()
        super().unlink(path)

    def fsync(self, fd: int) -> None:
        self._call()
        super().fsync(fd)

    def fsync_dir(self, path: str) -> None:
        self._call()
        super().fsync_dir(path)


def test_a_kill_at_any_call_loses_nothing() -> None:
    """I32, I24: after a kill at any call the next capture gives the tree of the disk, all of it stored."""
    calls = 0
    ended = False
    while not ended:
        bench = new_bench()
        try:
            fill(bench.work)
            bench.capture()
            write(bench.work / "f", b"new")
            try:
                Bench(bench.layout, bench.work, KilledAt(calls)).capture()
                ended = True
            except Killed:
                calls += 1
            bench.capture()
            assert bench.tree() == on_disk(bench.work)
        finally:
            shutil.rmtree(bench.work.parent)
    assert calls > 10


def _capture_often(root: str, work: str, count: int) -> None:
    bench = Bench(Layout(root), Path(work))
    for _ in range(count):
        bench.capture(previous=None)


def test_processes_capture_one_directory_at_once(bench: Bench) -> None:
    """I26, I32: captures of one directory by several processes disturb each other in nothing."""
    fill(bench.work)
    context = multiprocessing.get_context("spawn")
    others = [
        context.Process(target=_capture_often, args=(bench.layout.root, str(bench.work), 25))
        for _ in range(2)
    ]
    for other in others:
        other.start()
    number = 0
    while any(other.is_alive() for other in others):
        number += 1
        write(bench.work / f"d{number % 7}" / "f", b"%d" % number)
        bench.capture()
        assert bench.tree() == on_disk(bench.work)
    for other in others:
        other.join()
        assert other.exitcode == 0
    assert bench.uncached().root == bench.last
