"""A power cut and a kill at every call of a collection: what is kept stays, and what is to go goes at last.

Before each call of releasing and collecting the simulated machine is copied, and each copy ends in every way
that `crash_choices` knows. On the machine that comes back the kept session is whole, the deep check finds no
damage, and the same work, done to its end, frees what it was to free. By default one end in EVERY is looked
at, which ones LOCUS_SEED (1) says; with LOCUS_HUNT all are.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count

import pytest

from eventlog.base import locks
from eventlog.base.errors import EventLogError
from eventlog.base.layout import CONDEMNED_DIR
from eventlog.blobs.ids import from_text
from eventlog.gc.collect import plan_collection
from eventlog.gc.live_contents import live_ids
from eventlog.log.retained import hashes_in, retention_in
from eventlog.retention import collection, retention
from eventlog.retention.retention import ReleaseCandidate
from eventlog.store import Store
from tests.blobs.support import as_process
from tests.recorder.kept import DAY_S, files_of, record
from tests.simfs import Call, SimFS, crash_choices

ROOT = "/source"
KEPT, GONE = "aaaaaaaa", "bbbbbbbb"
EVERY = 1 if os.environ.get("LOCUS_HUNT") else 47
SEED = int(os.environ.get("LOCUS_SEED", "1"))


class World:
    """A machine with a session that is kept, and one that a rule releases; `dead` is what only that names."""

    def __init__(self) -> None:
        self.fs = SimFS()
        with Store.init(
            ROOT, project_name="sample", repo_hash="9f86d081884c", force=True, fs=self.fs
        ) as store:
            record(store, KEPT)
            kept = ids(store)
            record(store, GONE, 1)
            self.dead = ids(store) - kept
        self.fs.settle()

    def work(self, fs: SimFS) -> None:
        """Release, collect, and let a day pass; once more."""
        with Store.open(ROOT, fs=fs) as store:
            for _ in range(2):
                collection.collect(store, due_plan(store), lock_timeout_s=0)
                a_day_passes(store)


def due_plan(store: Store) -> collection.CollectionPlan:
    """As `collection.plan`, for a rule that chose the session; without questions to the projections."""
    with store.view() as view:
        reported = retention_in(view)
        due = [] if GONE in reported.ever else [ReleaseCandidate(GONE, "max_sessions")]
        limits = reported.limits | {one.session_id: 1 << 62 for one in due}
        live = live_ids(store.blobs, collection._roots(store, view, limits))
        packs = plan_collection(store.blobs, live, dead_share_max=0.1)
        return collection.CollectionPlan(packs, tuple(due), (), 0, None, live, view.next_position)


def a_day_passes(store: Store) -> None:
    fs, directory = store.fs, store.layout.directory(CONDEMNED_DIR)
    for name in fs.listdir(directory):
        since, _, rest = name.partition("-")
        fs.rename(f"{directory}/{name}", f"{directory}/{int(since) - DAY_S - 60}-{rest}")


def ids(store: Store) -> set[bytes]:
    return {id for tables in store.blobs.tables() for id in tables.ids()}


def below(store: Store, id: bytes) -> Iterator[bytes]:
    yield store.blobs.get(id)
    if store.blobs.kind_of(id) == "tree":
        for entry in store.blobs.get_tree(id):
            yield from below(store, entry.id)


def problems_of(
    world: World, fs: SimFS, *, finished: bool = False, needed: Iterable[bytes] = ()
) -> list[str]:
    try:
        with Store.open(ROOT, fs=fs) as store:
            trees = [e["tree_hash"] for e in store.events(session_id=KEPT, event_types=("snapshot",))]
            assert len(trees) == 2
            for tree in trees:
                assert len(list(below(store, from_text(str(tree))))) == 6
            for tree in needed:
                list(below(store, tree))
            # A frame that was cut short is reported too: it was not acknowledged.
            findings = [finding for finding in store.verify("deep") if "/snapshots/" in finding.path]
            found = [str(finding) for finding in findings if finding.damage]
            if finished and not world.dead.isdisjoint(ids(store)):
                found.append("something that should be gone is there")
            if finished and fs.listdir(store.layout.directory(CONDEMNED_DIR)):
                found.append("something waits in condemned/")
            return found
    except EventLogError as error:
        return [f"{type(error).__name__}: {error}"]


def wrong_at_some_end(every: int = EVERY) -> list[str]:
    world = World()
    problems: list[str] = []
    seen: set[bytes] = set()

    def after(fs: SimFS) -> list[str]:
        found = problems_of(world, fs)
        world.work(fs)
        return found + problems_of(world, fs, finished=True) + problems_of(world, fs.crash())

    def end_here(call: Call) -> None:
        for how, choice in [*crash_choices(world.fs.pending), ("kill", None)]:
            fs = world.fs.kill() if choice is None else world.fs.crash(choice)
            key = fs.state_key()
            if key not in seen:
                seen.add(key)
                if (len(seen) + SEED) % every == 0:
                    found = as_process(partial(after, fs))
                    problems.extend(f"{call}, {how}: {what}" for what in found)

    world.fs.before = end_here
    world.work(world.fs)
    world.fs.before = None
    assert len(seen) > 40
    return problems + problems_of(world, world.fs, finished=True)


def test_what_is_kept_stays_after_any_end() -> None:
    """I24, I29, I32: release, condemn, note and sweep may end at any call."""
    assert wrong_at_some_end() == []


@pytest.mark.parametrize("how", ["all is collected", "the release is not read", "limits reach ahead"])
def test_a_collection_without_one_of_its_steps_is_noticed(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """I24: forgetting a kept session's roots, sweeping without marking, or a limit on kept sessions shows."""
    if how == "all is collected":
        monkeypatch.setattr(collection, "hashes_in", lambda *given: iter(()))
    elif how == "the release is not read":
        monkeypatch.setattr(retention, "release_all", lambda store, candidates: [])
    else:
        real = hashes_in
        limits = {KEPT: 1 << 62, GONE: 1 << 62}
        monkeypatch.setattr(collection, "hashes_in", lambda view, _, since=0: real(view, limits, since))
    world = World()

    def wrong() -> list[str]:
        try:
            world.work(world.fs)
        except EventLogError as error:
            return [str(error)]
        return problems_of(world, world.fs, finished=True)

    assert wrong()


def test_nothing_goes_by_a_release_that_a_power_cut_could_undo() -> None:
    """I5, I24: a process is killed between its release and the sync; who collects makes it last first."""
    world = World()
    fs = world.fs
    killed: list[SimFS] = []
    fs.before = lambda call: killed.append(fs.kill()) if call.name == "fdatasync" else None
    with Store.open(ROOT, fs=fs) as store:
        retention.archive(store, GONE)

    def collect(fs: SimFS) -> None:
        moments: list[SimFS] = []
        fs.before = lambda call: moments.append(fs.crash()) if call.name == "rename" else None
        with Store.open(ROOT, fs=fs) as store:
            collection.collect(store, due_plan(store), lock_timeout_s=0)
        assert moments
        for moment in moments:
            with Store.open(ROOT, fs=moment) as store, store.view() as view:
                assert GONE in retention_in(view).released

    as_process(lambda: collect(killed[-1]))


Step = Callable[[Store], object]
OTHER = "cccccccc"
SAME = {1: files_of(GONE, 1)}


def pin_it(store: Store) -> None:
    retention.pin(store, GONE, lock_timeout_s=0)


@pytest.mark.parametrize(
    ("step", "place"),
    [
        (pin_it, (GONE, 1)),
        (lambda store: retention.archive(store, GONE, undo=True, lock_timeout_s=0), (GONE, 1)),
        (lambda store: record(store, GONE, 1, first=2, lock_timeout_s=0), (GONE, 2)),
        (lambda store: record(store, OTHER, 1, files=SAME, lock_timeout_s=0), (OTHER, 1)),
    ],
    ids=["pin", "hold", "resume", "same contents"],
)
def test_what_others_say_at_any_call_is_kept(
    monkeypatch: pytest.MonkeyPatch, step: Step, place: tuple[str, int]
) -> None:
    """I24, I29: another process pins, holds, resumes or names the same contents before a call of collecting:
    what can be read when that was answered can be read ever after."""
    clock = count(step=100)  # who waits for a lock that the other holds waits in vain
    monkeypatch.setattr(SimFS, "monotonic", lambda self: float(next(clock)))
    begin = SEED % EVERY
    while True:
        world = World()
        needed: list[bytes] = []
        calls = 0

        def other(world: World = world, needed: list[bytes] = needed) -> None:
            with Store.open(ROOT, fs=world.fs) as store, suppress(EventLogError):
                with store.view() as view:
                    was_released = GONE in retention_in(view).released
                step(store)
                if not was_released and place[0] == GONE and step is not pin_it:
                    return  # it was answered before the release, which then counts
                (event,) = store.events(session_id=place[0], turn=place[1], event_types=("snapshot",))
                tree = from_text(str(event["tree_hash"]))
                list(below(store, tree))
                needed.append(tree)

        def between(call: Call, world: World = world, begin: int = begin) -> None:
            nonlocal calls
            calls += 1
            if calls == begin + 1:
                world.fs.before = None
                # Not in a thread: `cached_property` of Python 3.11 holds a lock over what it computes.
                books, locks._held.names = getattr(locks._held, "names", []), []
                other()
                locks._held.names = books
                world.fs.before = between

        world.fs.before = between
        with suppress(EventLogError):  # pinned since the plan
            world.work(world.fs)
        world.fs.before = None
        assert problems_of(world, world.fs, needed=needed) == [], begin
        with suppress(EventLogError):
            world.work(world.fs)
        assert problems_of(world, world.fs, needed=needed) == [], begin
        if calls <= begin:
            return
        begin += EVERY
