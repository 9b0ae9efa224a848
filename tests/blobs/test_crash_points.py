"""A power cut at every call of put and flush: what was acknowledged resolves, the rest is no harm.

Before each call the simulated machine is copied, and each copy ends in every way that `crash_choices`
knows, and as a killed process. An oracle outside the store says what was acknowledged by then. The
protocol's steps are also taken away one by one; each must be noticed.
"""

import errno
from collections.abc import Callable

import pytest

from eventlog.base.errors import EventLogError, NotDurable
from eventlog.base.layout import PACK_DIR, parse_pack
from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import FILE, TreeEntry
from eventlog.blobs.verify import verify
from eventlog.blobs.writer import BlobWriter
from tests.blobs.support import as_process, open_store
from tests.simfs import Call, SimFS, crash_choices, fail_from, fail_nth, short_write, sim_store

FIRST = (b"first " * 40, b"shared " * 30)
SECOND = (b"second " * 40, b"shared " * 30, b"")


class World:
    """A machine, and what was acknowledged to its processes."""

    def __init__(self) -> None:
        self.fs, self.layout = sim_store()
        self.acknowledged: dict[bytes, bytes] = {}

    def store_in_packs(self, *packs: tuple[bytes, ...]) -> None:
        """A process of its own puts a batch of packs, whose last flush is acknowledged."""
        blobs = open_store(self.layout, self.fs)
        with blobs.writer(lock_timeout_s=0) as writer:
            put = {}
            for contents in packs:
                put |= {writer.put(content): content for content in contents}
                writer.flush(more=True)
            writer.flush()
            self.acknowledged |= put
        blobs.close()

    def store(self, contents: tuple[bytes, ...]) -> None:
        """A process of its own puts, flushes, and is acknowledged."""
        blobs = open_store(self.layout, self.fs)
        with blobs.writer(lock_timeout_s=0) as writer:
            put = {writer.put(content): content for content in contents}
            tree = writer.put_tree([TreeEntry(b"%d" % n, FILE, id) for n, id in enumerate(sorted(put))])
            writer.flush()
            self.acknowledged |= put
            self.acknowledged[tree] = blobs.get(tree)
        blobs.close()


def program_two_processes(world: World) -> None:
    world.store(FIRST)
    world.store(SECOND)


def program_idx(world: World) -> None:
    world.store(FIRST)
    blobs = open_store(world.layout, world.fs)
    blobs.build_idx()
    blobs.close()
    world.store(SECOND)
    blobs.build_idx()
    blobs.close()


def program_overlap(world: World) -> None:
    """The second process finds the first one's pack before its name is durable."""
    other = _at_first("fsync_dir", lambda: as_process(lambda: world.store(FIRST)))
    world.fs.before = _chain(other, world.fs.before)
    world.store(FIRST)


def program_batch(world: World) -> None:
    world.store_in_packs(FIRST, SECOND)


PROGRAMS = [program_two_processes, program_idx, program_overlap, program_batch]


def _at_first(name: str, do: Callable[[], None]) -> Callable[[Call], None]:
    done = []

    def before(call: Call) -> None:
        if call.name == name and not done:
            done.append(True)
            do()

    return before


def _chain(*hooks: Callable[[Call], None] | None) -> Callable[[Call], None]:
    def before(call: Call) -> None:
        for hook in hooks:
            if hook is not None:
                hook(call)

    return before


def lost_at_some_crash(program: Callable[[World], None]) -> list[str]:
    """Run the program once, end the machine before every call in every way; what went wrong where."""
    world = World()
    problems: list[str] = []
    ends = 0

    def end_here(call: Call) -> None:
        nonlocal ends
        for how, choice in crash_choices(world.fs.pending):
            ends += 1
            problems.extend(f"{call}, {how}: {p}" for p in wrong_with(world, world.fs.crash(choice)))
        problems.extend(f"{call}, kill: {p}" for p in wrong_with(world, world.fs.kill()))

    world.fs.before = end_here
    program(world)
    world.fs.before = None
    for how, choice in crash_choices(world.fs.pending):
        problems.extend(f"at the end, {how}: {p}" for p in wrong_with(world, world.fs.crash(choice)))
    assert ends > 50
    return problems


def wrong_with(world: World, fs: SimFS) -> list[str]:
    """Open the store on the machine that came back."""
    return as_process(lambda: _wrong_with(world, fs))


def _wrong_with(world: World, fs: SimFS) -> list[str]:
    layout = world.layout
    try:
        blobs = open_store(layout, fs)
        for id, content in world.acknowledged.items():
            if blobs.get(id) != content:
                return ["other bytes"]
        if any(parse_pack(name) is None for name in fs.listdir(layout.directory(PACK_DIR))):
            return ["a stray beside the packs"]
        if findings := verify(blobs, "read"):
            return [str(findings[0])]
        with blobs.writer(lock_timeout_s=0) as writer:
            again = [writer.put(content) for content in (*FIRST, *SECOND)]
            writer.flush()
        blobs.close()
        after = open_store(layout, fs.crash())
        for id, content in zip(again, (*FIRST, *SECOND), strict=True):
            if after.get(id) != content:
                return ["other bytes after recovery"]
        after.close()
    except EventLogError as error:
        return [f"{type(error).__name__}: {error}"]
    return []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_a_flush_acknowledged_resolves_after_any_crash(program):
    """Every id acknowledged by a flush hashes to itself after a power cut at any call (I24, I32)."""
    assert lost_at_some_crash(program) == []


class NoFsync(SimFS):
    """The bytes of a pack are not synced."""

    def fsync(self, fd: int) -> None:
        self._described(fd)


class NoDirSync(SimFS):
    """The name of a pack is not synced."""

    def fsync_dir(self, path: str) -> None:
        pass


@pytest.mark.parametrize("mutant", [NoFsync, NoDirSync])
def test_leaving_out_a_sync_is_noticed(mutant, monkeypatch):
    """Without one of the two syncs of a flush the crash search finds a loss (I24)."""
    monkeypatch.setattr("tests.simfs.SimFS.fsync", mutant.fsync)
    monkeypatch.setattr("tests.simfs.SimFS.fsync_dir", mutant.fsync_dir)
    assert lost_at_some_crash(program_two_processes)


def test_relying_on_a_name_that_is_not_durable_is_noticed(monkeypatch):
    """A writer that finds content in another's fresh pack must sync that name before it says so (I24)."""
    monkeypatch.setattr(BlobWriter, "_settle_found", lambda self: None)
    assert lost_at_some_crash(program_overlap)


def test_a_batch_of_packs_syncs_their_names_once():
    """The directory is synced once, whether the last flush has contents or not (I24)."""
    for packs in ((FIRST, SECOND), (FIRST, SECOND, FIRST)):
        world = World()
        synced: list[str] = []
        world.fs.before = lambda call, synced=synced: synced.append(call.name)
        world.store_in_packs(*packs)
        assert synced.count("fsync") == 2 and synced.count("fsync_dir") == 1


def calls_of_a_flush() -> int:
    world = World()
    world.store(FIRST)
    return world.fs.call_count


@pytest.mark.parametrize("make_fault", [fail_nth, fail_from], ids=["once", "for good"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failing_call_is_an_error_and_a_retry_is_safe(make_fault, error):
    """Whatever call fails, nothing false is acknowledged, and putting again works (I24, I25)."""
    for n in range(calls_of_a_flush()):
        world = World()
        world.fs.fault = make_fault(n, error)
        try:
            world.store(FIRST)
        except (EventLogError, OSError):
            pass
        world.fs.fault = None
        assert wrong_with(world, world.fs.crash()) == [], f"call {n}"
        assert wrong_with(world, world.fs.kill()) == [], f"call {n}"


def test_a_failing_sync_is_reported_as_not_durable():
    """The error of a sync or of the commit reaches the caller, and nothing counts as durable (I1)."""
    for name in ("fsync", "fsync_dir", "link"):
        world = World()
        world.fs.fault = fail_nth(0, errno.EIO, name=name)
        with pytest.raises(NotDurable):
            world.store(FIRST)
        assert world.acknowledged == {}


def test_a_flush_after_a_failed_put_acknowledges_nothing():
    """An id that was handed out before another put failed is void, and the flush says so (I24)."""
    world = World()
    with open_store(world.layout, world.fs).writer(codec="raw") as writer:
        id = writer.put(FIRST[0])
        world.fs.fault = fail_nth(0, errno.ENOSPC, name="pwrite")
        with pytest.raises(NotDurable):
            writer.put(bytes(9 << 20))
        world.fs.fault = None
        with pytest.raises(NotDurable):
            writer.flush()
        assert writer.put(FIRST[0]) == id and writer.flush() is not None


def test_a_short_write_is_continued():
    """A pwrite that takes only a part of the pack is not the end of it."""
    world = World()
    world.fs.fault = short_write(0, 10)
    world.store(FIRST)
    assert wrong_with(world, world.fs.crash()) == []


def test_a_crash_leaves_no_lock():
    """A writer that died keeps no lock: the next one starts at once (I32)."""
    world = World()
    writer = open_store(world.layout, world.fs).writer()
    writer.put(FIRST[0])
    fs = world.fs.kill()

    def next_process() -> None:
        with open_store(world.layout, fs).writer(lock_timeout_s=0) as after:
            assert after.put(FIRST[0]) == blob_id(FIRST[0])
            assert after.flush() is not None

    as_process(next_process)
    writer.close()
