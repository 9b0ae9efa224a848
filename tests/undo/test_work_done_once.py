"""What an undo does once, or not at all: questions, folds, searches for secrets, syncs. Counts, no times."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.fs import FileSystem
from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import FILE
from eventlog.projections import fold, source
from eventlog.query import instances
from eventlog.restore.run import run
from eventlog.secrets.redaction import Redactor
from eventlog.store import Store
from eventlog.undo import change
from eventlog.worktree.userfiles import UserFiles
from tests.cli.hook_support import Agent, project
from tests.restore.restoring import World

FILES = 30
SECRET = "AKIA" + "Q3EGRZLKMWNP7XVT"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project after a turn that changed many files, sealed and indexed, as after maintenance."""
    work = project(tmp_path)
    for number in range(FILES):
        (work / f"f{number}.txt").write_text(f"first {number}\n" + "kept\n" * 3)
    agent = Agent(work)
    agent.start()
    agent.prompt("Change them all")
    agent.bash("for f in f*.txt; do echo changed >> $f; done")
    agent.stop()
    with Store.open(work / ".locus") as store:
        store.seal()
        store.reindex()
    return work


class Calls:
    """Counts calls of a function that goes on as before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> None:
        self.count = 0
        real = getattr(where, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            return real(*arguments, **named)

        monkeypatch.setattr(where, name, counted)


def texts(work: Path) -> list[str]:
    return [(work / f"f{number}.txt").read_text() for number in range(FILES)]


def test_events_of_restores_are_not_folded(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I21: after an undo and a redo the log ends without a turn: the next undo opens one connection,
    which serves the numbering of that end too, and folds nothing. An event of a session is folded."""
    with Store.open(work / ".locus") as store:
        changed = texts(work)
        store.restore(store.undo_plan())
        undone = texts(work)
        store.restore(store.redo_plan())
        folds = Calls(monkeypatch, fold, "merge")
        instances.release()
        connections = Calls(monkeypatch, source, "connect")
        plan = store.undo_plan(store.turn("last").context_id)
        assert (folds.count, connections.count) == (0, 1)
        assert texts(work) == changed != undone
        store.restore(plan)
        assert texts(work) == undone

        title = "Said later"
        session = store.query("select session_id from turns limit 1", []).rows[0][0]
        store.append([{"event_type": "intent", "session_id": session, "turn": 1, "title": title}])
        assert store.query("select count(*) from turns", []).rows == [(1,)]
        assert folds.count == 1


def test_contents_that_the_log_names_are_not_searched_again(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: what a turn left was searched for secrets when it was recorded; what a person changed since is
    searched when an undo saves it, and withheld, also where a writer stored it and died before its event."""
    with Store.open(work / ".locus") as store:
        plan = store.undo_plan()
        searched = Calls(monkeypatch, Redactor, "kinds_in")
        store.restore(plan)
        assert searched.count == 1  # the plan document
        store.restore(store.redo_plan())
        assert searched.count == 2
        withheld = store.withheld()
        mine = f"key = {SECRET}\n" + (work / "f3.txt").read_text()
        (work / "f3.txt").write_text(mine)
        with store.blobs.writer() as writer:
            writer.put(mine.encode())
            writer.flush()
        store.blobs.forget_withheld()
        store.restore(store.undo_plan())
        assert searched.count == 6  # the file as it stood, as it is now, and the plan document
        assert SECRET in (work / "f3.txt").read_text()
        assert len(store.withheld() - withheld) == 2


def test_what_only_passes_for_recorded_is_saved(tmp_path: Path) -> None:
    """P1: a content that an event names, and that no pack has, is saved before it is replaced."""
    world = World(tmp_path, wanted={b"f": (FILE, b"wanted")}, disk={})
    (Path(world.work) / "f").write_bytes(b"never stored")
    plan = replace(world.plan(), recorded=frozenset([blob_id(b"never stored")]))
    assert not world.store.blobs.contains(blob_id(b"never stored"))
    run(plan, world.store.blobs, lambda event: world.store.append_rows([event])[0])
    assert world.store.blobs.get(blob_id(b"never stored")) == b"never stored"


class Traced(UserFiles):
    """Notes the calls that bring files to the disk, in order."""

    def __init__(self) -> None:
        self.trace: list[tuple[str, int]] = []

    def begin_sync(self, fd: int) -> None:
        self.trace.append(("begin", os.fstat(fd).st_ino))
        super().begin_sync(fd)

    def fsync(self, fd: int) -> None:
        self.trace.append(("fsync", os.fstat(fd).st_ino))
        super().fsync(fd)

    def rename(self, dir_fd: int, source: bytes, name: bytes) -> None:
        self.trace.append(("rename", dir_fd))
        super().rename(dir_fd, source, name)


def test_files_are_on_their_way_to_the_disk_before_one_is_waited_for(work: Path) -> None:
    """I32: each new file begins to be written before the first sync, each is synced once before a name
    changes, and the directory once after that."""
    with Store.open(work / ".locus") as store:
        calls = Traced()
        run(store.undo_plan(), store.blobs, lambda event: store.append_rows([event])[0], calls=calls)
        whats = "".join(what[0] for what, _ in calls.trace)
        assert whats == "b" * FILES + "f" * FILES + "r" * FILES + "f"
        begun, synced = calls.trace[:FILES], calls.trace[FILES : 2 * FILES]
        assert sorted(inode for _, inode in begun) == sorted(inode for _, inode in synced)
        assert calls.trace[-1][1] == work.stat().st_ino


def test_the_store_syncs_the_same_few_times_however_many_files_change(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack, the start, the restore journal, the end: their number does not follow that of the files."""
    with Store.open(work / ".locus") as store:
        plan = store.undo_plan(paths=["f1.txt"])
        syncs = [Calls(monkeypatch, FileSystem, name) for name in ("fsync", "fdatasync", "fsync_dir")]

        def count() -> int:
            return sum(calls.count for calls in syncs)

        own = Traced()
        run(plan, store.blobs, lambda event: store.append_rows([event])[0], calls=own)
        of_one = count() - sum(what == "fsync" for what, _ in own.trace)
        before, many = count(), Traced()
        run(store.undo_plan(), store.blobs, lambda event: store.append_rows([event])[0], calls=many)
        assert len([what for what, _ in many.trace if what == "rename"]) == FILES - 1
        assert 0 < count() - before - sum(what == "fsync" for what, _ in many.trace) <= of_one <= 8


def test_a_sealed_turn_is_undone_without_pyarrow(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: the command reads what was sealed with the connection's library alone, and blame only for a
    conflict: loading either takes longer than the undo."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    locus = os.path.join(os.path.dirname(sys.executable), "locus")
    for verb in ("undo", "redo"):
        ended = subprocess.run([locus, verb, "--yes"], cwd=work, capture_output=True, check=True)
        imported = {line.rpartition(b"|")[2].strip() for line in ended.stderr.splitlines()}
        assert b"duckdb" in imported and b"eventlog.undo.plan" in imported
        assert not {b"pyarrow", b"eventlog.undo.blame", b"eventlog.undo.blame_cache"} & imported
    assert texts(work)[3].endswith("changed\n")


def test_changes_of_different_files_are_not_compared(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change goes through the earlier ones only where one of them has its path."""
    with Store.open(work / ".locus") as store:
        joins = Calls(monkeypatch, change, "joined")
        assert len(store.undo_plan().steps) == FILES
        assert joins.count == 0
