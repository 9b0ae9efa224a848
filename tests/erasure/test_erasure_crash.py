"""A power cut or a kill at every call of an erasure: readers see all or nothing, and it can be finished.

By default few calls, and few ends of the machine there, are tested, which ones LOCUS_SEED (1) decides; with
LOCUS_HUNT all are.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.base.errors import EventLogError
from eventlog.blobs.ids import to_text
from eventlog.erasure import contents, erasure
from eventlog.log import erase as log
from eventlog.log import manifest as manifests
from eventlog.store import Store
from tests.blobs.support import as_process
from tests.erasure.test_erasure import found_in
from tests.faultfs import FAULTS, FaultFS
from tests.maintenance.support import append, event, make_store
from tests.simfs import Call, SimFS, crash_choices

ROOT = "/work"
CANARY = "tulipFox81zebra-Q7"

HUNT = bool(os.environ.get("LOCUS_HUNT"))
CALLS, ENDS = (1, 1) if HUNT else (17, 23)  # of so many, one
CUT_SHORT = "an append that a crash cut short"  # stays until somebody writes
SEED = int(os.environ.get("LOCUS_SEED", "1"))


class World:
    """A machine with a store that contains a secret; what a reader saw before, and who did not hold it."""

    def __init__(self) -> None:
        self.fs = SimFS()
        self.store = store = make_store(ROOT, self.fs)
        append(store, 1, 2)
        store.append([event(11, payload={"x": CANARY, "y": "a"})])
        store.seal()
        store.append([event(12, payload={"x": f"say {CANARY}"}), event(13, title="other")])
        with store.blobs.writer() as writer:
            self.gone, self.kept = writer.put(CANARY.encode() * 2), writer.put(b"kept\n")
            writer.flush()
            store.append([event(14, blobs=[to_text(self.gone), to_text(self.kept)])])
        self.fs.settle()
        self.before = {str(e["event_id"]): e for e in store.events()}
        self.ended = False


def problems_of(world: World, fs: SimFS) -> list[str]:
    with Store.open(ROOT, fs=fs) as store:
        rows = [e for e in store.events() if e["event_type"] != "erasure"]
        if [e["event_id"] for e in rows if e["event_id"] in world.before] != list(world.before):
            return ["an event is missing"]
        holding = [CANARY in repr(world.before[str(e["event_id"])]) for e in rows]
        now = [CANARY in repr(e) for e in rows]
        if any(now) and now != holding:
            return ["it was half erased"]
        if any(
            e != world.before[str(e["event_id"])] for e, held in zip(rows, holding, strict=True) if not held
        ):
            return ["another event changed"]
        if found := [str(f) for f in store.verify("read") if f.damage and CUT_SHORT not in f.what]:
            return found
        if world.ended and (problem := left_over(world, store)):
            return [f"after its end, {problem}"]
        erasure.resume(store)
        if not (plan := erasure.plan_secret(store, CANARY)).is_empty or erasure.is_unfinished(store):
            erasure.erase(store, plan)
        if problem := left_over(world, store):
            return [f"once finished, {problem}"]
        if found := [str(f) for f in store.verify("read") if f.damage]:
            return found
    return []


def left_over(world: World, store: Store) -> str:
    current = manifests.read_current(store.files)
    listed = {entry.name for entry in current.segments}
    if set(store.fs.listdir(store.layout.directory("log/segments"))) != listed:
        return "an old segment is there"
    if manifests.numbers(store.files) != [current.number]:
        return "an old manifest is there"
    if store.fs.listdir(store.layout.directory("snapshots/condemned")) or store.blobs.contains(world.gone):
        return "a content is there"
    if store.blobs.get(world.kept) != b"kept\n":
        return "another content is gone"
    if any(CANARY in repr(e) for e in store.events()) or erasure.is_unfinished(store):
        return "it is not over"
    tree = store.fs.tree() if isinstance(store.fs, SimFS) else {}
    return next((f"{name} holds it" for name, data in tree.items() if CANARY.encode() in (data or b"")), "")


def run(*, crashes: bool = True) -> list[str]:
    world = World()
    problems: list[str] = []
    seen: set[bytes] = set()

    def check(where: str, fs: SimFS) -> None:
        key = fs.state_key()
        if key not in seen:
            seen.add(key)
            if len(seen) % ENDS == SEED % ENDS:
                problems.extend(f"{where}: {p}" for p in as_process(lambda: problems_of(world, fs)))

    def end_here(call: Call) -> None:
        if call.index % CALLS != SEED % CALLS:
            return
        for how, choice in crash_choices(world.fs.pending):
            check(f"{call}, {how}", world.fs.crash(choice))
        check(f"{call}, kill", world.fs.kill())

    def erase() -> None:
        with Store.open(ROOT, fs=world.fs) as store:
            plan = erasure.plan_secret(store, CANARY)
            world.fs.before = end_here if crashes else None
            assert not erasure.erase(store, plan).waiting
            world.fs.before = None

    as_process(erase)
    world.ended = True
    for how, choice in crash_choices(world.fs.pending):
        check(f"at the end, {how}", world.fs.crash(choice))
    problems.extend(as_process(lambda: problems_of(world, world.fs.crash())))
    assert not crashes or len(seen) > 100
    return problems


def test_an_erasure_survives_a_crash_at_every_call() -> None:
    """I30, I32, I24, I14: all or nothing for readers, nothing else changes, and resuming ends it."""
    assert run() == []


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "release nothing": lambda patch: patch.setattr(log, "release", lambda *_, **__: log.Waiting()),
    "leave the contents": lambda patch: patch.setattr(contents, "remove", lambda *_, **__: []),
    "no note": lambda patch: patch.setattr(erasure, "_note", lambda _: None),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_step_that_is_left_out_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I30: each step of the protocol is needed."""
    MUTANTS[name](monkeypatch)
    assert run(crashes=False)


def test_a_sync_that_fails_leaves_no_erasure_that_says_it_is_done(tmp_path: Path) -> None:
    """I30, I35: whichever sync of the log fails once, nothing of it is left, or an error says to go on."""
    syncs: list[int] = []
    failed = 0
    for round_ in range(10):
        root = tmp_path / str(round_) / ".locus"
        root.parent.mkdir()
        with make_store(root) as store:
            store.append([event(1, payload={"x": CANARY})])
        fs = FaultFS()
        with Store.open(root, fs=fs) as store:
            fs.made.clear()
            if round_:
                fs.nth, fs.fault = syncs[round_ - 1], FAULTS["EIO"]
            try:
                done = erasure.erase(store, erasure.plan_secret(store, CANARY))
            except EventLogError as error:
                failed += 1
                assert str(root) in str(error)
            else:
                assert not done.waiting and found_in(root, CANARY.encode()) == []
            fs.heal()
            erasure.resume(store)
            recorded = any(e["operation"] == "start" for e in store.events(event_types=("erasure",)))
            assert not recorded or found_in(root, CANARY.encode()) == []
        if not round_:
            syncs = [n for n, name in enumerate(fs.made) if name == "fdatasync"]
        if round_ == len(syncs):
            break
    assert failed and len(syncs) > 2
