"""A power cut at every call of a repair: no byte is destroyed, and the next repair ends where it would have.

By default one end of the machine in so many is tested; LOCUS_SEED (1) decides which, with LOCUS_HUNT all are.
"""

import os
from functools import partial

from eventlog.base.errors import EventLogError
from eventlog.base.fs import read_file
from eventlog.base.layout import PACK_DIR, QUARANTINE_DIR, SEGMENT_DIR
from eventlog.blobs.closure import missing_contents
from eventlog.log.repair_notes import known_losses
from eventlog.log.seal import seal
from eventlog.maintenance.backup import backup
from eventlog.repair import repair as module
from eventlog.repair.repair import plan_repair, repair
from eventlog.store import Store
from tests.blobs.support import as_process
from tests.maintenance.support import append, event, make_store, snapshot
from tests.simfs import Call, SimFS, crash_choices

ROOT = "/store"
EVERY = 1 if os.environ.get("LOCUS_HUNT") else 61
SEED = int(os.environ.get("LOCUS_SEED", "1"))


class World:
    """A store of which a segment, a pack and a journal's header are damaged."""

    copy: "str | None" = None

    def __init__(self) -> None:
        self.fs = SimFS()
        store = make_store(ROOT, self.fs)
        snapshot(store, 0)
        store.seal()
        append(store, 10, 2)
        store.seal()
        snapshot(store, 20)
        store.journal.rotate()
        append(store, 30, 2)
        self.layout = store.layout
        store.close()
        segment = store.layout.segment(self.fs.listdir(store.layout.directory(SEGMENT_DIR))[0])
        pack = f"{store.layout.directory(PACK_DIR)}/{self.fs.listdir(store.layout.directory(PACK_DIR))[0]}"
        self.damaged = [
            self._flip(segment, 300),
            self._flip(pack, 45),
            self._flip(store.layout.journal(3), 60),
        ]
        self.fs.settle()

    def _flip(self, path: str, at: int) -> bytes:
        fd = self.fs.open(path, os.O_RDWR)
        byte = self.fs.pread(fd, 1, at)
        self.fs.pwrite(fd, bytes([byte[0] ^ 0xFF]), at)
        self.fs.close(fd)
        return read_file(self.fs, path)


class CopiedWorld(World):
    """A store of which a segment, a frame and a pack are damaged or gone since a backup without segments."""

    copy: "str | None" = "/copy"

    def __init__(self) -> None:
        self.fs = SimFS()
        store = make_store(ROOT, self.fs)
        snapshot(store, 0)
        store.journal.rotate()
        snapshot(store, 20)
        append(store, 30, 2)
        backup(store, "/copy")
        seal(store.files, store.journal, rotate_active=False)
        self.layout = store.layout
        store.close()
        segment = store.layout.segment(self.fs.listdir(store.layout.directory(SEGMENT_DIR))[0])
        packs = store.layout.directory(PACK_DIR)
        self.damaged = [self._flip(segment, 300), self._flip(store.layout.journal(2), 260)]
        self.fs.unlink(f"{packs}/{self.fs.listdir(packs)[0]}")
        self.fs.settle()


def mend(world: World, fs: SimFS) -> list[str]:
    """A repair from its plan to its end; the ids of the events there are then."""
    with Store.open(ROOT, fs=fs) as store:
        plan = plan_repair(store, copy=world.copy)
        report = repair(store, plan, copy=world.copy, accept_older=True, lock_timeout_s=0)
        assert report.remaining == [], report.remaining
        if world.copy is not None:
            with store.view() as view:
                assert (missing_contents(store.blobs, view), known_losses(view)) == (set(), set())
        return [str(one["event_id"]) for one in store.events()]


def wrong_with(world: World, fs: SimFS, expected: list[str]) -> list[str]:
    try:
        if mend(world, fs) != expected:
            return ["other events are left"]
        directory = world.layout.directory(QUARANTINE_DIR)
        kept = [read_file(fs, f"{directory}/{name}") for name in fs.listdir(directory)]
        if any(data not in kept for data in world.damaged):
            return ["damaged bytes are gone"]
        with Store.open(ROOT, fs=fs) as store:
            store.append([event(99)])
            if [f for f in store.verify("read") if f.damage]:
                return ["something is damaged after it"]
    except EventLogError as error:
        return [f"{type(error).__name__}: {error}"]
    return []


def lost_at_some_crash(every: int = EVERY, kind: "type[World]" = World) -> list[str]:
    other, world = kind(), kind()
    expected = as_process(lambda: mend(other, other.fs))
    problems: list[str] = []
    ends = 0
    changes = -1

    def end_here(call: Call) -> None:
        nonlocal ends, changes
        if changes == world.fs.change_count:
            return  # every end here would be like one at the call before
        changes = world.fs.change_count
        for how, choice in [*crash_choices(world.fs.pending), ("kill", None)]:
            ends += 1
            if ends % every == SEED % every:
                fs = world.fs.kill() if choice is None else world.fs.crash(choice)
                where = f"{call}, {how}"
                problems.extend(f"{where}: {p}" for p in as_process(partial(wrong_with, world, fs, expected)))

    world.fs.before = end_here
    as_process(lambda: mend(world, world.fs))
    assert ends > 100
    return problems


def test_a_repair_that_is_cut_short_destroys_nothing_and_is_finished_by_the_next():
    """I10, I12, I32: killed at any call, the next repair leaves the same events; damaged bytes are kept."""
    assert lost_at_some_crash() == []


def test_a_repair_with_a_copy_that_is_cut_short_is_finished_by_the_next():
    """I10, I12, I32: killed at any call, the next repair brings back all that the copy has."""
    assert lost_at_some_crash(kind=CopiedWorld) == []


def test_removing_before_it_is_kept_is_noticed(monkeypatch):
    """I10: without the names in quarantine being made first the search finds bytes that are gone."""
    monkeypatch.setattr(module._Repair, "_set_aside", lambda self, step: step.path)
    assert lost_at_some_crash(every=40)
