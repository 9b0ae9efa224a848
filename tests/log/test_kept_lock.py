"""The append lock that a journal keeps open: between threads, in forked children, in a moved store."""

import os
import shutil
import signal
import threading

import pytest

from eventlog.base.errors import LockTimeout
from eventlog.base.fs import REAL, Detaching, FileSystem
from eventlog.base.layout import Layout, StoreFiles
from eventlog.base.locks import APPEND, WORKTREE, KeptLock
from eventlog.log.journal import Journal
from eventlog.log.journal_reading import live_journals, scan_journal
from tests.conftest import STORE_ID, files_of


def lines_of(layout: Layout) -> list[bytes]:
    scans = [
        scan_journal(REAL, layout.journal(n), store_id=STORE_ID)
        for n in live_journals(files_of(REAL, layout))
    ]
    return [line for scan in scans for frame in scan.frames for line in frame.lines]


def test_a_child_does_not_keep_the_lock_of_a_killed_parent(layout: Layout) -> None:
    """I32: a lock is free when its holder was killed, though a child forked before still runs."""
    reported, parent_says = os.pipe()
    child_waits, until = os.pipe()
    parent = os.fork()
    if parent == 0:
        try:
            os.close(until)
            journal = Journal(files_of(REAL, layout))
            journal.append([b"parent"])
            child = os.fork()
            if child == 0:
                os.read(child_waits, 1)  # until the test is done
            else:
                journal._take_lock()
                os.write(parent_says, b"%d\n" % child)
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.close(parent_says)
    os.close(child_waits)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(parent, 0)[1]) == -signal.SIGKILL
        os.kill(int(os.read(reported, 100)), 0)  # the child is there
        assert Journal(files_of(REAL, layout), lock_timeout_s=10.0).append([b"a"]) == 1
    finally:
        os.close(until)
        os.close(reported)


def test_a_process_that_leaves_its_sync_to_a_child_leaves_it_the_lock(layout: Layout) -> None:
    """I31, I2: who makes a journal syncs it under the lock; where a child does that, the lock is the child's
    until the sync is done, though the process that took it has ended."""
    reading, writing = os.pipe()

    class Slow(Detaching):
        def fsync(self, fd: int) -> None:
            self._detach()
            os.read(reading, 1)
            super().fsync(fd)

    parent = os.fork()
    if parent == 0:
        os.close(writing)
        try:
            Journal(StoreFiles(Slow(0.0, lambda: os._exit(0)), layout, STORE_ID)).append([b"slow"])
        finally:
            os._exit(1)
    os.close(reading)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(parent, 0)[1]) == 0
        with pytest.raises(LockTimeout):
            KeptLock(REAL, layout, APPEND).acquire(0.0)
    finally:
        os.close(writing)
    assert Journal(files_of(REAL, layout)).append([b"next"]) == 1
    assert lines_of(layout) == [b"slow", b"next"]


def test_a_lock_that_cannot_be_given_back_holds_up_no_other(layout: Layout) -> None:
    """I32: a child gives back every lock that it inherited, whatever one of them raises."""

    class Broken(FileSystem):
        def close(self, fd: int) -> None:
            super().close(fd)
            raise RuntimeError("not an error of the system")

    broken = [KeptLock(Broken(), layout, WORKTREE + f"{number:016x}") for number in range(8)]
    lock = KeptLock(REAL, layout, APPEND)
    for one in (*broken, lock):
        one._open()
    child = os.fork()
    if child == 0:
        os._exit(0 if lock._fd < 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for one in (*broken, lock):
        one._fs = REAL
        one.close()


def test_a_kept_lock_keeps_the_threads_of_its_process_apart(layout: Layout) -> None:
    """I31: a thread waits for another that holds the same kept lock, until its deadline and no longer."""
    lock = KeptLock(REAL, layout, APPEND)
    outcomes: list[str] = []

    def try_it() -> None:
        try:
            lock.acquire(0.02)
        except LockTimeout as error:
            outcomes.append(str(error))
        else:
            outcomes.append("taken")
            lock.release()

    def in_a_thread() -> None:
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()

    lock.acquire(0.0)
    in_a_thread()
    lock.close()  # leaves the lock to its holder
    in_a_thread()
    lock.release()
    in_a_thread()
    lock.close()

    assert [layout.lock(APPEND) in outcome for outcome in outcomes] == [True, True, False]
    assert outcomes[2] == "taken"


def test_a_store_that_was_put_back_is_locked_by_its_own_file(layout: Layout) -> None:
    """I2: a kept lock of a store that was moved away is not taken for the lock of the one in its place."""
    journal = Journal(files_of(REAL, layout), lock_timeout_s=0.02)
    journal.append([b"a"])
    shutil.copytree(layout.root, f"{layout.root}.copy")
    os.rename(layout.root, f"{layout.root}.away")
    os.rename(f"{layout.root}.copy", layout.root)
    fd = REAL.open(layout.lock(APPEND), os.O_RDWR)
    assert REAL.flock(fd, exclusive=True)
    with pytest.raises(LockTimeout):
        journal.append([b"b"])
    REAL.close(fd)

    assert journal.append([b"c"]) == 1
    assert lines_of(layout) == [b"a", b"c"]
    assert lines_of(Layout(f"{layout.root}.away")) == [b"a"]
    journal.close()
