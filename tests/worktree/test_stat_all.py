"""The comparison of all known paths of a working directory, by one process or several."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.layout import Layout
from eventlog.worktree import rows, stat_all
from eventlog.worktree.rows import STAT_SIZE
from tests.worktree.support import Bench, age, on_disk


@pytest.fixture
def bench(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A directory of 200 files, enough for three children."""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("only /proc tells whether this process has one thread; elsewhere nothing is forked")
    monkeypatch.setattr(stat_all, "_ROWS_MIN", 50)
    monkeypatch.setattr(rows, "_RANGE", 20)
    # Other tests of this process may have left threads of libraries behind.
    links = os.stat("/proc/self/task").st_nlink
    monkeypatch.setattr(stat_all, "_LINKS_OF_ONE_THREAD", links)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(4), raising=False)
    bench = Bench(layout, tmp_path / "work")
    for number in range(200):
        place = bench.work / f"d{number // 20}"
        place.mkdir(exist_ok=True)
        (place / f"f{number}").write_bytes(b"%d" % number)
    age(bench.work)
    return bench


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The children that were made."""
    made: list[int] = []
    fork = os.fork

    def noted() -> int:
        pid = fork()
        if pid:
            made.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", noted)
    return made


def _is_gone(pid: int) -> bool:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def test_children_see_what_one_process_sees(bench: Bench, forks: list[int]) -> None:
    """P1: a capture whose children compare a part of the directory finds the same changes and tree."""
    bench.capture()
    (bench.work / "d0" / "f1").write_bytes(b"changed")
    (bench.work / "d5" / "f101").unlink()
    (bench.work / "d9" / "new").write_bytes(b"new")

    done = bench.capture(may_fork=True)

    assert len(forks) == 3
    while not all(_is_gone(pid) for pid in forks):
        time.sleep(0.01)
    assert [change[:2] for change in done.changes] == [
        ("edit", b"d0/f1"),
        ("delete", b"d5/f101"),
        ("add", b"d9/new"),
    ]
    assert bench.tree() == on_disk(bench.work)
    assert done.root == bench.uncached().root


def test_nothing_is_forked_unless_asked(bench: Bench, forks: list[int]) -> None:
    """P4: without the caller's word no child is made, nor in a process of several threads."""
    bench.capture()
    bench.capture()
    assert forks == []


def test_a_process_of_two_threads_is_not_forked(bench: Bench, forks: list[int]) -> None:
    """P4: a fork would leave a child with locks that no thread of it opens."""
    import threading

    bench.capture()
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        bench.capture(may_fork=True)
    finally:
        end.set()
        other.join()
    assert forks == []


@pytest.mark.slow
@pytest.mark.parametrize("words", [0, 1, STAT_SIZE, STAT_SIZE * 7 + 5])
def test_what_a_dead_child_did_not_report_is_compared(
    bench: Bench, forks: list[int], monkeypatch: pytest.MonkeyPatch, words: int
) -> None:
    """P1: a child that is killed at any moment costs time and hides no change."""
    bench.capture()
    for name in ("d0/f0", "d3/f60", "d6/f120", "d9/f199"):
        (bench.work / name).write_bytes(b"changed")
    answer, write = stat_all._answer, os.write

    def killed(root: int, into: int, *args: Any) -> None:
        def dies(fd: int, data: memoryview) -> int:
            write(fd, bytes(data)[:words])
            os.kill(os.getpid(), signal.SIGKILL)
            return 0

        os.write = dies  # type: ignore[assignment]
        answer(root, into, *args)

    monkeypatch.setattr(stat_all, "_answer", killed)
    done = bench.capture(may_fork=True)

    assert len(forks) == 3
    assert not done.partial
    assert len(done.changes) == 4
    assert bench.tree() == on_disk(bench.work)


def test_without_more_processes_all_is_compared_here(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: a system that refuses a process takes nothing from the result."""
    bench.capture()
    (bench.work / "d9" / "f199").write_bytes(b"changed")
    before = os.listdir("/dev/fd")

    def refused() -> int:
        raise BlockingIOError(11, "no more processes")

    monkeypatch.setattr(os, "fork", refused)
    done = bench.capture(may_fork=True)

    assert [change[:2] for change in done.changes] == [("edit", b"d9/f199")]
    del done  # it holds the stat cache
    assert len(os.listdir("/dev/fd")) == len(before)


def test_a_child_that_hangs_holds_nobody_up(
    bench: Bench, forks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: at the deadline a capture ends, whatever its children do, and names what was not compared."""
    bench.capture()

    def hangs(*args: object) -> None:
        time.sleep(600)

    monkeypatch.setattr(stat_all, "_answer", hangs)
    late = bench.capture(may_fork=True, deadline=time.monotonic() + 0.3)
    while not all(_is_gone(pid) for pid in forks):
        time.sleep(0.01)
    monkeypatch.undo()

    assert late.partial
    assert late.pending_count > 100
    assert not bench.capture().partial


def test_a_child_keeps_no_descriptor_of_its_parent(
    bench: Bench, forks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: a pipe that an agent reads to its end, and a lock, end with the hook, not with a child of it."""
    bench.capture()
    out, into = os.pipe()
    stat_stride = stat_all._stat_stride

    def looks(root: int, paths: Any) -> list[bytes]:
        if os.getpid() != parent:
            time.sleep(600)
        return stat_stride(root, paths)

    parent = os.getpid()
    monkeypatch.setattr(stat_all, "_stat_stride", looks)
    monkeypatch.setattr(stat_all, "_SIGKILL", 0)
    bench.capture(may_fork=True, deadline=time.monotonic() + 0.5)
    os.close(into)
    try:
        assert os.read(out, 1) == b""  # it would wait for the children
        assert not any(_is_gone(pid) for pid in forks)
    finally:
        os.close(out)
        for pid in forks:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
