"""`locus replay` on a disk that is too small, and when it is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.blobs import disk_space
from eventlog.blobs.tree import FILE
from eventlog.recorder import lifecycle
from eventlog.store import Store
from tests.cli.support import Locus, Recorded
from tests.restore.restoring import put_tree


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file system has ten bytes left."""
    leave(monkeypatch, lambda _: 10)


def leave(monkeypatch: pytest.MonkeyPatch, free: Callable[[str], int]) -> None:
    """Let the file system of each path have so many bytes left."""
    real = os.statvfs

    def statvfs(path: str) -> os.statvfs_result:
        fields = list(real(path))
        fields[0] = fields[1] = 1
        fields[3] = fields[4] = free(path)
        return os.statvfs_result(fields)

    monkeypatch.setattr(os, "statvfs", statvfs)


def test_a_replay_without_room_says_what_it_needs_and_makes_nothing(
    recorded: Recorded, locus: Locus, tmp_path: Path, crowded: None
) -> None:
    """Both figures and what to do, exit code 3, before the first byte."""
    ended = locus("replay", "last", "--to", tmp_path / "out")
    assert ended.code == 3
    assert "the files take" in ended.err and "no more room than 10 bytes" in ended.err
    assert "name only the paths that you need" in ended.err
    assert not (tmp_path / "out").exists()


def test_a_restore_without_room_is_not_begun(copied: Recorded, locus: Locus, crowded: None) -> None:
    """Its plan is refused, whether it is only shown or to be carried out."""
    (copied.root / "src/app.py").unlink()
    (copied.root / "data.bin").unlink()
    for how in ("--dry-run", "--yes"):
        ended = locus("restore", "last", how)
        assert ended.code == 3 and "no more room than 10 bytes" in ended.err
    assert not (copied.root / "data.bin").exists()


# A replay by two processes that take their time over each file.
_SLOW_REPLAY = """
import os, sys, time
from eventlog.checkout import parallel
from eventlog.worktree.userfiles import UserFiles
from locus_cli.main import run

create = UserFiles.create

def slowly(*arguments):
    time.sleep(0.01)
    return create(*arguments)

UserFiles.create = slowly
os.sched_getaffinity = lambda _: {0, 1}
sys.exit(run(sys.argv[1:]))
"""


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _lives(pid: int) -> bool:
    """Whether a process still does something; one that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="only there does a replay fork")
def test_a_killed_replay_stops_writing(tmp_path: Path) -> None:
    """kill -9 of the command ends the processes that write for it, before their next file."""
    (tmp_path / "w").mkdir()
    with Store.init(tmp_path / "w/.locus") as store:
        tree = put_tree(store, {b"%03d" % n: (FILE, b"%d" % n) for n in range(600)})
        end = lifecycle.snapshot("s1", 1, lifecycle.TURN_END, tree)
        store.append([lifecycle.turn_start("s1", 1, "go"), end])
    out = tmp_path / "out"
    command = [sys.executable, "-c", _SLOW_REPLAY]
    command += ["--store", str(tmp_path / "w/.locus"), "replay", "last", "--to", str(out)]
    replay = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not (workers := _children(replay.pid)) or len(os.listdir(out)) < 20:
            assert time.monotonic() < deadline and replay.poll() is None
            time.sleep(0.01)
    finally:
        replay.send_signal(signal.SIGKILL)
        replay.wait()
    at_death = len(os.listdir(out))
    while any(map(_lives, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(os.listdir(out)) <= at_death + len(workers)
    assert len(os.listdir(out)) < 600


def test_a_restore_needs_room_in_the_store_for_what_it_replaces(
    copied: Recorded, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: what it saves before it begins is written to the store, which may be on another disk."""
    (copied.root / "src/app.py").write_bytes(os.urandom(5000))
    device = os.stat(copied.root).st_dev
    leave(monkeypatch, lambda path: 4000 if ".locus" in path else 1 << 30)
    monkeypatch.setattr(disk_space, "_device_of", lambda path: 1 if ".locus" in path else device + 1)
    for how in ("--dry-run", "--yes"):
        ended = locus("restore", "last", how)
        assert ended.code == 3, ended
        assert ".locus: what is replaced is saved there first; that takes 5,000 bytes" in ended.err
    assert (copied.root / "src/app.py").stat().st_size == 5000


def test_a_restore_on_one_disk_needs_room_for_both(
    copied: Recorded, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: the new contents, and the safety copy of the old ones."""
    (copied.root / "src/app.py").write_bytes(os.urandom(5000))
    leave(monkeypatch, lambda _: 5010)
    ended = locus("restore", "last", "--dry-run")
    assert ended.code == 3 and "no more room than 5,010 bytes" in ended.err, ended
