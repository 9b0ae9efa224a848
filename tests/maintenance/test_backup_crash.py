"""A power cut at every call of a backup: the copy is no store yet, or a whole one that is no older.

Before each call the simulated machine is copied, and each copy ends in every way that `crash_choices` knows,
and as a killed process. The protocol's steps are also taken away one by one; each must be noticed.
By default one end in so many is tested, which ones LOCUS_SEED (1) decides; with LOCUS_HUNT all are.
"""

import errno
import os
from collections.abc import Callable

import pytest

from eventlog.base.errors import EventLogError, NoStore, NotDurable
from eventlog.base.layout import StoreFiles
from eventlog.blobs.ids import from_text
from eventlog.log.reader import open_view
from eventlog.maintenance import backup as module
from eventlog.maintenance.backup import backup
from eventlog.maintenance.copying import Copier
from eventlog.store import Store
from tests.blobs.support import as_process
from tests.maintenance.support import append, event, make_store, snapshot
from tests.simfs import Call, Fault, SimFS, crash_choices, fail_from, fail_nth

SOURCE, DEST = "/source", "/dest"

# Of the ends of the machine one in EVERY is read, and one in 3 * EVERY written to and completed.
EVERY = 1 if os.environ.get("LOCUS_HUNT") else 41
SEED = int(os.environ.get("LOCUS_SEED", "1"))


class Noticed(Exception):
    """The first problem, where one is enough."""


class World:
    """A machine with a store, and how far its copy came when a backup was last reported as done."""

    def __init__(self) -> None:
        self.fs = SimFS()
        self.store = make_store(SOURCE, self.fs)
        self.done = 0
        self.damaged: list[str] = []

    def backup(self) -> None:
        as_process(lambda: self._backup())

    def _backup(self) -> None:
        with Store.open(SOURCE, fs=self.fs) as store:
            report = backup(store, DEST, lock_timeout_s=0)
            self.done = max(self.done, report.next_position)
            self.damaged += report.damaged


def program_grow(world: World) -> None:
    """From nothing to a tail, and to a longer one in two journals."""
    append(world.store, 0, 2)
    world.backup()
    snapshot(world.store, 2)
    world.store.journal.rotate()
    append(world.store, 3)
    world.backup()


def program_seal(world: World) -> None:
    """What the copy has as a tail is sealed in the source, and more: no journal of the copy goes on."""
    append(world.store, 0, 2)
    world.backup()
    append(world.store, 2)
    world.store.journal.rotate()
    append(world.store, 3)
    world.store.seal()
    append(world.store, 4)
    world.backup()


PROGRAMS = [program_grow, program_seal]


def lost_at_some_crash(
    program: Callable[[World], None], *, every: int = EVERY, one: bool = False
) -> list[str]:
    world = World()
    problems: list[str] = []
    seen: set[bytes] = set()
    read = 0

    def end_here(call: Call) -> None:
        if DEST not in repr(call.args) and call.name not in ("pwrite", "fsync", "rename"):
            return  # nothing of the copy can have changed since the call before
        for how, choice in crash_choices(world.fs.pending):
            check(f"{call}, {how}", world.fs.crash(choice))
        check(f"{call}, kill", world.fs.kill())

    def check(where: str, fs: SimFS) -> None:
        nonlocal read
        key = fs.state_key()
        if key in seen:
            return
        seen.add(key)
        if len(seen) % every == SEED % every:
            read += 1
            whole = read % 3 == 0 or every == 1
            problems.extend(f"{where}: {p}" for p in as_process(lambda: wrong_with(world, fs, go_on=whole)))
            if one and problems:
                raise Noticed(problems[0])

    real = world.backup

    def watched() -> None:
        world.fs.before = end_here
        try:
            real()
        finally:
            world.fs.before = None
        for how, choice in crash_choices(world.fs.pending):
            check(f"at the end, {how}", world.fs.crash(choice))

    world.backup = watched  # type: ignore[method-assign]
    program(world)
    assert one or len(seen) > 100
    return problems


def wrong_with(world: World, fs: SimFS, *, go_on: bool = True) -> list[str]:
    """Read the copy; then go on in the copy alone, and back up once more."""
    try:
        with Store.open(SOURCE, fs=fs) as source:
            whole = list(source.events())
            if problem := wrong_copy(world, fs, whole):
                return [problem]
            if not go_on:
                return []
            used = fs.kill()
            if problem := wrong_after_use(used, whole):
                return [problem]
            backup(source, DEST, lock_timeout_s=0)
        with Store.open(DEST, fs=fs) as copy:
            if list(copy.events()) != whole or copy.verify("read"):
                return ["the backup after it is not whole"]
    except EventLogError as error:
        return [f"{type(error).__name__}: {error}"]
    return []


def wrong_copy(world: World, fs: SimFS, whole: list) -> str | None:
    try:
        copy = Store.open(DEST, fs=fs)
    except NoStore:
        return "the copy is gone" if world.done else None
    with copy:
        found = list(copy.events())
        if found != whole[: len(found)]:
            return "it is no prefix"
        if len(found) < world.done:
            return f"{len(found)} events after a backup of {world.done}"
        if findings := copy.verify("read"):
            return str(findings[0])
        with open_view(StoreFiles(fs, copy.layout, copy.identity.store_id)) as view:
            if view.damaged:
                return f"positions are missing: {view.damaged}"
        for one in found:
            for id in one["blobs"] or ():
                if not world.damaged:  # a pack that could not be read was named
                    copy.blobs.get(from_text(id))
    return None


def wrong_after_use(fs: SimFS, whole: list) -> str | None:
    """The source is gone, and work goes on in what there is of the copy."""
    try:
        copy = Store.open(DEST, fs=fs)
    except NoStore:
        return None
    with copy:
        found = len(list(copy.events()))
        at = copy.append([event(999)])[0]
        expected = [*whole[:found], event(999)["event_id"]]
        after = list(copy.events())
        ids = [one["event_id"] for one in after]
        if at != found or ids != [one if isinstance(one, str) else one["event_id"] for one in expected]:
            return f"an event after it got position {at} after {found} events: {ids}"
    return None


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_backup_that_is_cut_short_leaves_a_whole_copy(program):
    """I32, I6: killed at any call a copy is no store yet, or holds a prefix of the log, no shorter than
    before; it verifies, work can go on in it, and the next backup completes it."""
    assert lost_at_some_crash(program) == []


def _no_sync(self, out, tmp, target):
    self._fs.rename(tmp, target)
    self._fs.close(out)


def _without_stubs(monkeypatch):
    monkeypatch.setattr("eventlog.maintenance.copying.encode_header", lambda header: b"")


def _journals_first(monkeypatch):
    commit, copy = module._Backup._commit_manifest, module._Backup._copy_journals
    monkeypatch.setattr(module._Backup, "_copy_journals", commit)
    monkeypatch.setattr(module._Backup, "_commit_manifest", copy)


def _segments_last(monkeypatch):
    segments, journals = module._Backup._copy_segments, module._Backup._copy_journals
    monkeypatch.setattr(module._Backup, "_copy_segments", lambda self: None)
    monkeypatch.setattr(module._Backup, "_copy_journals", lambda self: (journals(self), segments(self)))


MUTANTS = {
    "the bytes of a file are not synced": lambda m: m.setattr(Copier, "_finish", _no_sync),
    "no directory is synced": lambda m: m.setattr(SimFS, "fsync_dir", lambda self, path: None),
    "no stub is between old and new journals": _without_stubs,
    "the journals come before the manifest": _journals_first,
    "the segments come after the manifest": _segments_last,
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_leaving_out_a_step_is_noticed(mutant, monkeypatch):
    """I32: without one of the steps of a backup the crash search finds a copy that is not whole."""
    MUTANTS[mutant](monkeypatch)
    try:
        problems = lost_at_some_crash(program_seal, every=5, one=True)
    except (EventLogError, Noticed) as error:
        problems = [str(error)]
    assert problems


@pytest.mark.parametrize("make_fault", [fail_nth, fail_from], ids=["once", "for good"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_refusing_disk_leaves_the_copy_and_a_retry_completes_it(make_fault, error):
    """I32, I10: whatever call fails, the error is ours, the copy stays whole, the next backup is good."""
    world = World()
    append(world.store, 0, 2)
    world.backup()
    append(world.store, 2)
    world.store.seal()
    snapshot(world.store, 3)
    first = world.fs.copy()
    world.fs.call_count = 0
    world.backup()
    calls = world.fs.call_count
    world.store = Store.open(SOURCE, fs=first)
    for n in range(SEED % EVERY, calls, EVERY):
        world.fs = first.copy()
        world.done, world.damaged = 2, []
        world.fs.fault = make_fault(n, error)
        try:
            world.backup()
        except EventLogError as refused:
            assert str(refused)
        world.fs.fault = None
        assert as_process(lambda: wrong_with(world, world.fs)) == [], f"call {n}"


def test_a_full_disk_is_reported_with_the_place_of_the_copy():
    """P7: a disk that takes no more is an error that names the copy; the store is untouched."""
    world = World()
    append(world.store, 0, 2)
    before = {path: data for path, data in world.fs.tree().items() if path.startswith(SOURCE)}
    world.fs.fault = fail_from(0, errno.ENOSPC, name="pwrite")
    with pytest.raises(NotDurable, match=r"/dest.*free space"):
        world.backup()
    after = {path: data for path, data in world.fs.tree().items() if path.startswith(SOURCE)}
    assert after == before


def test_a_file_that_cannot_be_read_is_reported_with_what_to_do():
    """P7: a journal of the source that the disk refuses ends the backup with its name and a way out."""
    world = World()
    append(world.store, 0, 2)
    path = world.store.layout.journal(1)
    reported = 0
    for nth in range(1, 20):
        opens = iter(range(1, 1000))
        world.fs.fault = lambda call, nth=nth, opens=opens: (
            Fault(errno.EIO) if call.name == "open" and call.args[0] == path and next(opens) >= nth else None
        )
        try:
            world.backup()
            break
        except EventLogError as error:
            assert path in str(error) and "try again" in str(error), error
            reported += 1
    assert reported > 1
