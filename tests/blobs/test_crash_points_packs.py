"""A power cut, a kill and another process at every call of a merge and a collection of packs (I24, I29, I32).

Before each call the simulated machine is copied, and each copy ends in every way that `crash_choices` knows.
The log is a list of ids outside the machine: what it names when the machine ends must resolve on the one that
comes back, then after the same work is done again, and after a sweep of all that was condemned. At every call
another process may also look up, put, tell the log, and close, in steps of its own. The protocol's steps are
taken away one by one; each must be noticed.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from eventlog.base.errors import EventLogError, LockTimeout, NotFound, Refused
from eventlog.base.layout import CONDEMNED_DIR
from eventlog.base.locks import Lock
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, FILE, TreeEntry
from eventlog.blobs.verify import verify
from eventlog.gc import condemn as condemning
from eventlog.gc import repack as repacking
from eventlog.gc.collect import carry_out, plan_collection
from eventlog.gc.condemn import sweep_condemned
from eventlog.gc.live_contents import Needed, live_ids
from eventlog.gc.repack import repack
from tests.blobs.support import as_process, open_store
from tests.simfs import Call, SimFS, crash_choices, sim_store

FIRST = (b"first " * 40, b"shared " * 30)
SECOND = (b"second " * 40, b"shared " * 30, b"")
DEAD = (b"dead " * 40, b"shared " * 30)
BOTH = (b"dead and " * 40, b"alive " * 30)


class World:
    """A machine with four packs, and a log of the trees that its events name."""

    def __init__(self) -> None:
        self.fs, self.layout = sim_store()
        self.log: list[bytes] = []
        for contents in (FIRST, SECOND, DEAD):
            self.store(contents)
        self.dead = self.log.pop()
        # A pack of which most is dead.
        with open_store(self.layout, self.fs) as blobs, blobs.writer(codec="raw") as writer:
            self.log.append(put_tree(writer, (BOTH[1],)))
            self.half = put_tree(writer, (BOTH[0] * 9,))
            writer.flush()
        self.fs.settle()

    def store(self, contents: tuple[bytes, ...]) -> None:
        with open_store(self.layout, self.fs) as blobs, blobs.writer(lock_timeout_s=0) as writer:
            root = put_tree(writer, contents)
            writer.flush()
            self.log.append(root)


def put_tree(writer: object, contents: tuple[bytes, ...]) -> bytes:
    ids = [writer.put(content) for content in contents]  # type: ignore[attr-defined]
    below = writer.put_tree([TreeEntry(b"%d" % n, FILE, id) for n, id in enumerate(ids)])  # type: ignore[attr-defined]
    root: bytes = writer.put_tree([TreeEntry(b"d", DIRECTORY, below)])  # type: ignore[attr-defined]
    return root


def merge(world: World, fs: SimFS, log: list[bytes]) -> None:
    with open_store(world.layout, fs) as blobs:
        repack(blobs, everything=True, lock_timeout_s=0)


def collect(world: World, fs: SimFS, log: list[bytes]) -> None:
    with open_store(world.layout, fs) as blobs:
        live = live_ids(blobs, list(log))
        plan = plan_collection(blobs, live)
        with suppress(Refused):  # another collection was quicker
            carry_out(blobs, plan, Needed(live, lambda: list(log)), lock_timeout_s=0)


def sweep(world: World, fs: SimFS, log: list[bytes]) -> None:
    with open_store(world.layout, fs) as blobs:
        sweep_condemned(blobs, Needed(live_ids(blobs, log), lambda: log), age_s_min=0, lock_timeout_s=0)


Work = Callable[[World, SimFS, list[bytes]], None]
WORKS: list[Work] = [merge, collect]


def resolve(blobs: BlobStore, id: bytes) -> None:
    """Read all below a tree, hashed on the way; a copy that is condemned does not count."""
    if not blobs.locations((id,)):
        raise NotFound(f"{id.hex()} is in no live pack")
    if blobs.kind_of(id) == "tree":
        for entry in blobs.get_tree(id):
            resolve(blobs, entry.id)


def unresolved(world: World, fs: SimFS, log: list[bytes]) -> list[str]:
    try:
        with open_store(world.layout, fs) as blobs:
            for root in log:
                resolve(blobs, root)
            return [str(finding) for finding in verify(blobs, "read")]
    except EventLogError as error:
        return [f"{type(error).__name__}: {error}"]


def wrong_with(world: World, fs: SimFS, work: Work) -> list[str]:
    """On the machine that came back: at once, after the work, after a sweep, after one more power cut."""
    log = list(world.log)

    def again() -> list[str]:
        problems = unresolved(world, fs, log)
        for step in (work, sweep):
            step(world, fs, log)
            problems += unresolved(world, fs, log)
        return problems + unresolved(world, fs.crash(), log)

    return as_process(again)


def lost_at_some_end(work: Work, sweeps: bool = False) -> list[str]:
    """Do the work once, end the machine before every call in every way; what went wrong where."""
    world = World()
    problems: list[str] = []
    ends = 0
    seen: set[bytes] = set()

    def end_here(call: Call) -> None:
        nonlocal ends
        for how, choice in [*crash_choices(world.fs.pending), ("kill", None)]:
            fs = world.fs.kill() if choice is None else world.fs.crash(choice)
            key = fs.state_key()
            if key not in seen:
                seen.add(key)
                ends += 1
                problems.extend(f"{call}, {how}: {what}" for what in wrong_with(world, fs, work))

    world.fs.before = end_here
    work(world, world.fs, world.log)
    if sweeps:
        sweep(world, world.fs, world.log)
    world.fs.before = None
    problems.extend(f"at the end: {what}" for what in wrong_with(world, world.fs.crash(), work))
    assert ends > 20
    return problems


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_whatever_the_log_names_resolves_after_any_end(work: Work) -> None:
    """A merge, a collection, and the sweep after them may end at any call: nothing is lost (I24, I32)."""
    assert lost_at_some_end(work, sweeps=True) == []


def test_a_collection_removes_what_is_dead() -> None:
    """What no event names is gone after collection and sweep, what is named is there (I24, I29)."""
    world = World()
    collect(world, world.fs, world.log)
    sweep(world, world.fs, world.log)
    with open_store(world.layout, world.fs) as blobs:
        for root in (world.dead, world.half):
            with pytest.raises(NotFound):
                blobs.get(root)
        assert world.fs.listdir(world.layout.directory(CONDEMNED_DIR)) == []
    assert unresolved(world, world.fs, world.log) == []


class Other:
    """Another process, in steps: each `next` does one more, in a thread with lock books of its own."""

    def __init__(self, steps: Iterator[None]) -> None:
        self._asked: queue.Queue[bool] = queue.Queue()
        self._done: queue.Queue[BaseException | None] = queue.Queue()
        self._steps = steps
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._asked.get():
            try:
                next(self._steps, None)
                self._done.put(None)
            except BaseException as error:
                self._done.put(error)

    def next(self) -> None:
        self._asked.put(True)
        error = self._done.get()
        if error is not None:
            raise error

    def end(self) -> None:
        self._asked.put(False)
        self._thread.join()


def writing(world: World, contents: tuple[bytes, ...]) -> Iterator[None]:
    """A writer that finds what is dead, and tells the log of it later."""
    blobs = open_store(world.layout, world.fs)
    try:
        writer = blobs.writer(lock_timeout_s=0)
    except LockTimeout:
        return
    with writer:
        root = put_tree(writer, contents)
        yield
        writer.flush()
        yield
        world.log.append(root)
        yield


def lost_beside_a_writer(work: Work, contents: tuple[bytes, ...], pace: int) -> list[str]:
    """Let the writer begin before each call of the work in turn, and go a step further every `pace` calls."""
    problems = []
    begin = 0
    while True:
        world = World()
        other = Other(writing(world, contents))
        calls = 0

        def between(call: Call, world: World = world, other: Other = other, begin: int = begin) -> None:
            nonlocal calls
            calls += 1
            if calls > begin and (calls - begin - 1) % pace == 0 and calls - begin <= 4 * pace:
                hook, world.fs.before = world.fs.before, None
                try:
                    other.next()
                finally:
                    world.fs.before = hook

        world.fs.before = between
        with suppress(LockTimeout):
            work(world, world.fs, world.log)
        world.fs.before = None
        for _ in range(4):
            other.next()
        other.end()
        for what in unresolved(world, world.fs, world.log):
            problems.append(f"begun at call {begin}: {what}")
        problems += [f"begun at call {begin}: {what}" for what in wrong_with(world, world.fs.kill(), work)]
        if calls <= begin or problems:
            return problems
        begin += 1


@pytest.mark.parametrize("pace", [1, 7, 40] if os.environ.get("LOCUS_HUNT") else [7])
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_a_writer_beside_it_may_rely_on_what_it_finds(work: Work, pace: int) -> None:
    """A content that a writer found or put resolves once its event is in the log (I24)."""
    assert lost_beside_a_writer(work, DEAD if pace != 7 else (BOTH[0] * 9,), pace) == []


# -- the protocol without one of its steps -------------------------------------------------------------


@contextmanager
def _no_lock(*_given: object, **_options: object) -> Iterator[None]:
    yield


def test_collecting_without_the_lock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the gc lock a writer relies on what goes at the same moment (I24)."""
    monkeypatch.setattr(condemning, "acquire", lambda *given, **options: _no_lock())
    assert lost_beside_a_writer(collect, DEAD, 7)


def test_writing_without_the_lock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer must hold the gc lock from its first lookup to its event (I24)."""

    class NoLock(Lock):
        def __init__(self) -> None:
            pass

        def release(self) -> None:
            pass

    monkeypatch.setattr("eventlog.blobs.writer.acquire", lambda *given, **options: NoLock())
    assert lost_beside_a_writer(collect, DEAD, 7)


def test_leaving_out_what_came_late_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded between the mark and the lock must be marked under the lock (I24)."""
    monkeypatch.setattr(Needed, "include_late", lambda self, blobs: None)
    problems = lost_beside_a_writer(collect, DEAD, 1)
    assert problems


def test_condemning_before_the_new_pack_lasts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new pack and its name are synced before an input goes for good (I24, I32)."""
    monkeypatch.setattr(SimFS, "fsync_dir", lambda self, path: None)
    monkeypatch.setattr(SimFS, "fsync", lambda self, fd: self._described(fd) and None)
    assert lost_at_some_end(merge, sweeps=True)


def test_condemning_what_was_not_proven_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An input goes only for ids that were read in a pack that stays (I24)."""
    monkeypatch.setattr(repacking, "prove", lambda blobs, name: frozenset())
    world = World()
    merge(world, world.fs, world.log)
    assert world.fs.listdir(world.layout.directory(CONDEMNED_DIR)) == []


def test_unlinking_without_a_check_of_what_is_live_is_noticed() -> None:
    """A condemned pack that alone holds what was kept again goes back, and is not unlinked (I24)."""
    world = World()
    collect(world, world.fs, world.log)
    world.log.append(world.dead)  # its session is held again
    sweep(world, world.fs, world.log)
    assert unresolved(world, world.fs, world.log) == []

    world = World()
    collect(world, world.fs, world.log)
    world.log.append(world.dead)
    with open_store(world.layout, world.fs) as blobs:
        sweep_condemned(blobs, Needed(set()), age_s_min=0)
    assert unresolved(world, world.fs, world.log)
