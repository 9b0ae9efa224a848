"""The simulated machine itself: equal to the real one until the power goes, and honest about losses."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.fs import REAL, FileSystem, publish
from tests.simfs import (
    PowerCut,
    SimFS,
    crash_choices,
    fail_from,
    fail_nth,
    keep_all,
    keep_none,
    keep_only,
    short_write,
    sim_store,
    tear,
)

PATHS = st.sampled_from(["a", "b", "d", "d/x", "d/y", "e", "e/d", "none/x", "a/x"])
FDS = st.integers(0, 3)
FLAGS = st.sampled_from(
    [
        os.O_RDONLY,
        os.O_RDWR,
        os.O_RDWR | os.O_CREAT,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL,
        os.O_RDWR | os.O_TRUNC,
        os.O_RDONLY | os.O_DIRECTORY,
    ]
)
OPERATIONS = st.one_of(
    st.tuples(st.just("open"), PATHS, FLAGS),
    st.tuples(st.just("open"), PATHS, st.just(os.O_RDWR | os.O_CREAT)),
    st.tuples(st.just("pwrite"), FDS, st.binary(max_size=8), st.integers(0, 20)),
    st.tuples(st.just("pread"), FDS, st.integers(0, 20), st.integers(0, 20)),
    st.tuples(st.just("truncate"), FDS, st.integers(0, 20)),
    st.tuples(st.sampled_from(["close", "fsync", "fdatasync", "fstat", "funlock"]), FDS),
    st.tuples(st.just("fchmod"), FDS, st.sampled_from([0o600, 0o700])),
    st.tuples(st.just("flock"), FDS, st.booleans()),
    st.tuples(st.sampled_from(["stat", "lstat", "exists", "listdir", "fsync_dir"]), PATHS),
    st.tuples(st.sampled_from(["mkdir", "rmdir", "unlink"]), PATHS),
    st.tuples(st.sampled_from(["link", "rename"]), PATHS, PATHS),
)


class Run:
    """One machine going through operations, with its descriptors by index."""

    def __init__(self, fs: FileSystem, root: str) -> None:
        self.fs = fs
        self.root = root
        self.fds: list[int] = []

    def do(self, operation: tuple[Any, ...]) -> object:
        name, *args = operation
        if name in ("pwrite", "pread", "truncate", "close", "fsync", "fdatasync", "fstat", "fchmod"):
            args[0] = self.fds[args[0]] if args[0] < len(self.fds) else 99999
        elif name in ("flock", "funlock"):
            if args[0] >= len(self.fds):
                return None
            args[0] = self.fds[args[0]]
        else:
            args[:2] = [f"{self.root}/{a}" if isinstance(a, str) else a for a in args[:2]]
        try:
            result = getattr(self.fs, name)(*args)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        if name == "open":
            self.fds.append(result)
            return "opened"
        if name == "close":
            self.fds.remove(args[0])
        if isinstance(result, os.stat_result):
            is_dir = result.st_mode & 0o170000 == 0o040000
            return result.st_mode, None if is_dir else (result.st_size, result.st_nlink)
        return result


@given(st.lists(OPERATIONS, max_size=30))
def test_without_a_crash_it_answers_as_the_real_file_system(operations: list[tuple[Any, ...]]) -> None:
    """The same operations give the same values and the same errors on both."""
    root = tempfile.mkdtemp()
    real = Run(REAL, root)
    sim = Run(SimFS(), "/r")
    sim.fs.mkdir("/r")
    try:
        for operation in operations:
            assert real.do(operation) == sim.do(operation), operation
    finally:
        for fd in real.fds:
            os.close(fd)
        shutil.rmtree(root)


def written(fs: SimFS, path: str, data: bytes, *, sync: bool = False) -> int:
    fd = fs.open(path, os.O_RDWR | os.O_CREAT)
    fs.pwrite(fd, data, 0)
    if sync:
        fs.fsync(fd)
    return fd


def test_what_was_not_synced_is_lost_by_default() -> None:
    """Bytes and names both need their sync."""
    fs = SimFS()
    written(fs, "/synced and named", b"1", sync=True)
    fs.fsync_dir("/")
    written(fs, "/synced", b"2", sync=True)
    fd = written(fs, "/later", b"3", sync=True)
    fs.fsync_dir("/")
    fs.pwrite(fd, b"4", 1)
    written(fs, "/new", b"5", sync=True)

    assert fs.crash(keep_none).tree() == {"/later": b"3", "/synced": b"2", "/synced and named": b"1"}
    assert fs.crash(keep_all).tree() == {
        "/later": b"34",
        "/synced": b"2",
        "/synced and named": b"1",
        "/new": b"5",
    }


def test_each_pending_effect_survives_on_its_own() -> None:
    """A later write may reach the disk and an earlier one not: the file has a hole of zeros."""
    fs = SimFS()
    fd = written(fs, "/f", b"", sync=True)
    fs.fsync_dir("/")
    fs.pwrite(fd, b"aaaa", 0)
    fs.pwrite(fd, b"bbbb", 4)

    assert [fs.crash(choice).tree() for choice in (keep_none, keep_all, keep_only(0), keep_only(1))] == [
        {"/f": b""},
        {"/f": b"aaaabbbb"},
        {"/f": b"aaaa"},
        {"/f": b"\0\0\0\0bbbb"},
    ]
    assert fs.crash(tear(1, 3)).tree() == {"/f": b"aaaabbb"}


def test_a_truncation_is_lost_like_a_write() -> None:
    """Until it is synced, a truncated file may be long again after the crash."""
    fs = SimFS()
    fd = written(fs, "/f", b"long", sync=True)
    fs.fsync_dir("/")
    fs.truncate(fd, 1)

    assert fs.crash(keep_none).tree() == {"/f": b"long"}
    fs.fdatasync(fd)
    assert fs.crash(keep_none).tree() == {"/f": b"l"}


def test_a_rename_is_kept_or_lost_as_a_whole() -> None:
    """After the crash a renamed file has exactly one of its names."""
    fs = SimFS()
    written(fs, "/old", b"x", sync=True)
    fs.fsync_dir("/")
    fs.rename("/old", "/new")

    assert [fs.crash(c).tree() for c in (keep_none, keep_all)] == [{"/old": b"x"}, {"/new": b"x"}]


def test_a_publish_survives_with_all_its_bytes_or_not_at_all() -> None:
    """Whatever is lost at whichever call, a published name never holds other bytes than the published."""
    data = b"the content"
    ends = 0
    for at in range(20):
        fs = SimFS()
        fs.mkdir("/t")
        fs.mkdir("/d")
        fs.settle()
        fs.stop_at = fs.call_count + at
        try:
            publish(fs, "/t/1", "/d/name", data)
            done = True
        except PowerCut:
            done = False
        for _, choice in crash_choices(fs.pending):
            found = fs.crash(choice).tree().get("/d/name")
            assert found == data if done else found in (None, data)
            ends += 1
    assert ends > 20


def test_a_failed_sync_is_reported_once_per_descriptor_and_loses_its_pages() -> None:
    """As on Linux: the second sync says all is well, and the crash shows that it is not."""
    fs = SimFS()
    fd = written(fs, "/f", b"", sync=True)
    fs.fsync_dir("/")
    other = fs.open("/f", os.O_RDWR)
    fs.pwrite(fd, b"lost", 0)
    fs.fault = fail_nth(0, errno.EIO, name="fdatasync")
    with pytest.raises(OSError, match="Input/output"):
        fs.fdatasync(fd)
    late = fs.open("/f", os.O_RDWR)
    fs.fdatasync(fd)
    fs.fdatasync(late)
    with pytest.raises(OSError, match="Input/output"):
        fs.fdatasync(other)
    fs.fdatasync(other)

    assert fs.pread(fd, 9, 0) == b"lost"
    assert fs.crash(keep_all).tree() == {"/f": b""}


def test_a_kill_frees_locks_and_keeps_bytes() -> None:
    """SIGKILL loses descriptors only; the boot stays the same, and the power can still go later."""
    fs = SimFS()
    fd = written(fs, "/f", b"x")
    assert fs.flock(fd, exclusive=True)
    after = fs.kill()
    with pytest.raises(OSError, match="Bad file"):
        after.pread(fd, 1, 0)
    again = after.open("/f", os.O_RDONLY)

    assert after.flock(again, exclusive=True)
    assert after.pread(again, 1, 0) == b"x"
    assert (fs.boot_id(), {}) == (after.boot_id(), after.crash(keep_none).tree())


def test_a_crash_changes_the_boot_id_and_leaves_the_original_alone() -> None:
    """One machine can be crashed in many ways; each survivor is a machine of its own."""
    fs = SimFS()
    fd = written(fs, "/f", b"x", sync=True)
    one, two = fs.crash(keep_all), fs.crash(keep_all)
    one.unlink("/f")

    assert {"/f": b"x"} == two.tree() == fs.tree()
    assert one.boot_id() != fs.boot_id()
    assert fs.pread(fd, 1, 0) == b"x"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (fail_nth(1, errno.ENOSPC, name="pwrite"), [2, "ENOSPC", 2]),
        (fail_from(1, errno.EIO, name="pwrite"), [2, "EIO", "EIO"]),
        (short_write(1, 1), [2, 1, 2]),
        (fail_nth(2, errno.EINTR), [2, "EINTR", 2]),
    ],
)
def test_a_fault_hits_the_call_it_names(fault: Callable[..., Any], expected: list[object]) -> None:
    """Once or from then on, by errno or as a short write; a failed write changes nothing."""
    fs = SimFS()
    fs.fault = fault
    fd = fs.open("/f", os.O_RDWR | os.O_CREAT)
    results: list[object] = []
    for index in range(3):
        try:
            results.append(fs.pwrite(fd, b"ab", index * 2))
        except OSError as error:
            results.append(errno.errorcode[error.errno or 0])

    assert expected == results


def test_after_a_power_cut_in_flight_nothing_more_happens() -> None:
    """`finally` blocks of a program that lost power cannot tidy up: every further call fails."""
    fs = SimFS()
    fs.stop_at = 1
    fd = fs.open("/f", os.O_RDWR | os.O_CREAT)
    for _ in range(2):
        with pytest.raises(PowerCut):
            fs.close(fd)


def test_equal_seeds_replay_equally() -> None:
    """Time and randomness are functions of the seed, so that a failure can be run again."""
    assert [SimFS(3).random_bytes(8), SimFS(3).time_ns()] == [SimFS(3).random_bytes(8), SimFS(3).time_ns()]
    assert SimFS(3).random_bytes(8) != SimFS(4).random_bytes(8)


def test_machines_in_the_same_state_have_the_same_key() -> None:
    """The search visits a state once: equal states have equal keys, different ones do not."""
    fs, layout = sim_store()
    same = fs.copy()
    other = fs.copy()
    written(other, layout.tmp("x"), b"")

    assert fs.state_key() == same.state_key()
    assert len({fs.state_key(), other.state_key(), other.crash(keep_all).state_key()}) == 3
