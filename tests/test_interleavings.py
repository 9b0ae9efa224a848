"""Every order, or a random one, in which two to four processes can make their calls (tests/interleaver.py).

A `Scene` is a simulated machine with a small store, and an oracle outside of it: what was acknowledged when,
what is named, what readers saw. Of tiny programs all schedules are run, of any others random ones, in which a
process may die as well. After each the laws are checked, then once more after a power cut, and after the
store has been worked with again.

By default a small part is run. `LOCUS_HUNT=minutes` gives each of the two hunts that long: all schedules of
one program after the other, and random programs with random schedules, each with a seed of its own that is
printed when it fails. `LOCUS_SEED=n` runs that seed alone.
"""

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from typing import Any

import pytest

from eventlog.base.errors import Conflict, EventLogError, NoStore, NotFound, Refused
from eventlog.base.layout import TMP_DIR
from eventlog.base.types import Event
from eventlog.blobs.ids import from_text, to_text
from eventlog.blobs.tree import FILE, TreeEntry
from eventlog.erasure import erasure
from eventlog.gc import condemn as condemning
from eventlog.log import pins
from eventlog.log.reader import LogView
from eventlog.log.sweep import sweep
from eventlog.maintenance.backup import backup
from eventlog.retention import collection, retention
from eventlog.store import Store
from tests.interleaver import (
    Chooser,
    Explored,
    Machine,
    Process,
    Schedule,
    every_schedule,
    one_switch,
    random_schedule,
    told_schedule,
)
from tests.recorder.kept import record
from tests.recorder.test_collection_crash import GONE, KEPT, a_day_passes, below, due_plan
from tests.simfs import keep_all, keep_none

ROOT, DEST = "/source", "/dest"
CANARY = "tulipFox81zebra-Q7"
OWN = ("action", "snapshot", "session", "turn", "file")  # others are notes of maintenance


@dataclass(slots=True)
class Batch:
    """An append: its events, when it began and ended (in steps of the schedule), and where it was
    acknowledged."""

    ids: list[str]
    begin: int
    end: int = -1
    base: int = -1


@dataclass(slots=True)
class Seen:
    """A view: the ids of its events, and when it was opened and closed."""

    begin: int
    end: int
    ids: list[str]


@dataclass
class Scene:
    """A machine, and what is known of it outside."""

    machine: Machine
    named: list[bytes] = field(default_factory=list)  # trees that must resolve, with all below
    first: list[str] = field(default_factory=list)  # ids of events that were there at the beginning
    batches: list[Batch] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    copied: int = 0  # how many events a backup was reported to have
    erased: bool = False
    schedule: Schedule | None = None
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def step(self) -> int:
        return self.schedule.step if self.schedule is not None else -1

    def copy(self) -> "Scene":
        machine = self.machine.kill()
        assert isinstance(machine, Machine)
        return Scene(machine, list(self.named), list(self.first))

    def new_id(self, who: Process) -> str:
        number = self.numbers[who.name] = self.numbers.get(who.name, 0) + 1
        return f"{who.number + 1:08x}{number:024x}"

    def append(self, store: Store, events: list[Event], **options: Any) -> int:
        batch = Batch([str(event["event_id"]) for event in events], self.step)
        self.batches.append(batch)
        base = store.append(events, **options)[0]
        batch.end, batch.base = self.step, base
        return base


@cache
def template(whole: bool) -> Scene:
    """`whole`: two segments, a closed journal and a tail, packs of a kept session, of one that is to go,
    and of a dead content, and a secret; else a log of a batch, closed, and another."""
    scene = Scene(Machine())
    with Store.init(ROOT, project_name="p", repo_hash="9f86d081884c", force=True, fs=scene.machine) as store:
        if whole:
            record(store, KEPT, 1)
            store.seal()
            record(store, GONE, 1)
            store.append([_event("c" * 32, payload={"text": CANARY})])
            store.seal()
        store.append([_event(f"{1:032x}"), _event(f"{2:032x}")])
        store.journal.rotate()
        store.append([_event(f"{3:032x}")])
        events = list(store.events())
    scene.first = [str(event["event_id"]) for event in events]
    trees = [event["tree_hash"] for event in events if event["session_id"] == KEPT and event["tree_hash"]]
    scene.named = [from_text(str(tree)) for tree in trees]
    scene.machine.settle()
    return scene


def _event(event_id: str, **columns: object) -> Event:
    return {"event_id": event_id, "event_type": "action", "agent": "pi", "session_id": KEPT, **columns}


# -- what a process may do --------------------------------------------------------------------------

Work = Callable[[Scene, Store, Process], object]


def append(scene: Scene, store: Store, who: Process) -> None:
    scene.append(store, [_event(scene.new_id(who)), _event(scene.new_id(who))])


def expect(scene: Scene, store: Store, who: Process) -> None:
    """I9: where the log ended when it read, or not at all."""
    position = store.journal.next_position()
    with suppress(Conflict):
        base = scene.append(store, [_event(scene.new_id(who))], expect_position=position)
        assert base == position, f"I9: {base} for {position}"


def rotate(scene: Scene, store: Store, who: Process) -> None:
    store.journal.rotate()


def seal(scene: Scene, store: Store, who: Process) -> None:
    store.seal()


def compact(scene: Scene, store: Store, who: Process) -> None:
    store.compact(everything=True)


def read(scene: Scene, store: Store, who: Process) -> None:
    """I5, I6, I17: what a view shows it shows again, whatever happens; the next one goes on after it."""
    for _ in range(2):
        begin = scene.step
        with store.view() as view:
            ids = _ids(view)
            assert ids == _ids(view), "I17: a view shows something else than before"
        scene.seen.append(Seen(begin, scene.step, ids))


def _ids(view: LogView) -> list[str]:
    return [str(row["event_id"]) for row in view.iterate(columns=("event_id",))]


def put(scene: Scene, store: Store, who: Process) -> None:
    """A new content, and one that the session which is to go named too."""
    own = f"{GONE} 1\n".encode() * 3000
    with store.blobs.writer() as writer:
        entries = [
            TreeEntry(b"new", FILE, writer.put(b"new content of %d" % who.number), 0),
            TreeEntry(b"own", FILE, writer.put(own[:3000]), 3000),
        ]
        root = writer.put_tree(entries)
        writer.flush()
        event = _event(scene.new_id(who), event_type="snapshot", tree_hash=to_text(root))
        scene.append(store, [event])
    scene.named.append(root)
    list(below(store, root))


def look(scene: Scene, store: Store, who: Process) -> None:
    """I24: at every instant."""
    for tree in list(scene.named):
        list(below(store, tree))


def repack(scene: Scene, store: Store, who: Process) -> None:
    store.repack(everything=True)


def collect(scene: Scene, store: Store, who: Process) -> None:
    for _ in range(2):
        with suppress(Refused):  # somebody else collected meanwhile, or pinned
            collection.collect(store, due_plan(store))
        with suppress(FileNotFoundError):
            a_day_passes(store)


def pin(scene: Scene, store: Store, who: Process) -> None:
    """A process that can read it when it is reported as kept can read it ever after."""
    retention.pin(store, GONE)
    (tree,) = [e["tree_hash"] for e in store.events(session_id=GONE, event_types=("snapshot",))]
    root = from_text(str(tree))
    try:
        list(below(store, root))
    except NotFound:
        return
    scene.named.append(root)


def erase(scene: Scene, store: Store, who: Process) -> None:
    done = erasure.erase(store, erasure.plan_secret(store, CANARY))
    scene.erased = scene.erased or not done.waiting


def copy(scene: Scene, store: Store, who: Process) -> None:
    report = backup(store, DEST)
    assert report.damaged == [], report.damaged
    scene.copied = max(scene.copied, report.next_position)


def verify(scene: Scene, store: Store, who: Process) -> None:
    """A sound store is found sound while others work."""
    findings = [str(finding) for finding in store.verify("read") if finding.damage]
    assert findings == [], findings


def make_idx(scene: Scene, store: Store, who: Process) -> None:
    store.blobs.build_idx()


def clean(scene: Scene, store: Store, who: Process) -> None:
    sweep(store.fs, store.layout, 0)


WORKS: dict[str, Work] = {
    work.__name__: work
    for work in (
        append, expect, rotate, seal, compact, read, put, look, repack, collect, pin, erase, copy, verify,
        make_idx, clean,
    )
}  # fmt: skip


# -- running ----------------------------------------------------------------------------------------


def run(
    scene: Scene, names: tuple[str, ...], choose: Chooser, deaths: dict[int, int] | None = None
) -> Schedule:
    """Let processes do what is named, in the order that is chosen; `deaths`: who dies, before which call."""
    schedule = scene.schedule = Schedule(scene.machine, choose)
    works = []
    for number, name in enumerate(names):
        process = Process(number, f"{name} {number}")
        process.dies_at = (deaths or {}).get(number)
        with scene.machine.by(process):
            store = Store.open(ROOT, fs=scene.machine)
        works.append((process, _bound(scene, store, process, WORKS[name])))
    schedule.run(works)
    return schedule


def _bound(scene: Scene, store: Store, process: Process, work: Work) -> Callable[[], None]:
    def act() -> None:
        with store:
            work(scene, store, process)

    return act


def problems_of(scene: Scene) -> list[str]:
    """Everything that is wrong when all processes have ended."""
    schedule = scene.schedule
    assert schedule is not None
    problems = list(schedule.problems)
    for process in schedule.processes:
        if process.error is not None:
            problems.append(f"{process.name}: {type(process.error).__name__}: {process.error}")
    problems += _wrong_order(scene)
    if problems:
        return problems
    machine = scene.machine.kill()
    problems += _wrong_on(scene, machine, "at the end")
    for how, choice in (("nothing", keep_none), ("all", keep_all)):
        problems += _wrong_on(scene, scene.machine.crash(choice), f"after a cut that keeps {how}")
    return problems or _wrong_once_used(scene, machine)


def _wrong_on(scene: Scene, machine: Any, when: str) -> list[str]:
    problems = []
    try:
        with Store.open(ROOT, fs=machine) as store:
            events = list(store.events(columns=["position", "event_id", "event_type", "payload"]))
            problems += _wrong_log(scene, events)
            for tree in scene.named:
                list(below(store, tree))
            problems += [str(f) for f in store.verify("read") if f.damage]
            if scene.erased and when == "at the end":
                tree = machine.tree()
                held = [p for p, data in tree.items() if CANARY.encode() in (data or b"") and DEST not in p]
                problems += [f"I30: {path} holds what was erased" for path in held]
        problems += _wrong_copy(scene, machine, [str(event["event_id"]) for event in events])
    except EventLogError as error:
        problems.append(f"{type(error).__name__}: {error}")
    return [f"{when}: {problem}" for problem in problems]


def _wrong_log(scene: Scene, events: list[Event]) -> list[str]:
    problems = []
    where = {str(event["event_id"]): int(str(event["position"])) for event in events}
    if len(where) != len(events):
        problems.append("I7: an event is visible twice")
    problems += [f"I1: {id} is gone" for id in scene.first if id not in where]
    for batch in scene.batches:
        found = [where.get(id) for id in batch.ids]
        if batch.base >= 0 and found != list(range(batch.base, batch.base + len(found))):
            problems.append(f"I1: {batch.ids} was answered {batch.base} and is at {found}")
        elif None in found and any(place is not None for place in found):
            problems.append(f"I3: half of a batch: {found}")
    order = [str(event["event_id"]) for event in events]
    for seen in scene.seen:
        if seen.ids != order[: len(seen.ids)]:
            problems.append(f"I6: a view of {len(seen.ids)} events is no prefix of the log")
    return problems


def _wrong_order(scene: Scene) -> list[str]:
    """What began when something had ended comes after it, and sees it."""
    problems = []
    for batch in scene.batches:
        for other in scene.batches:
            if 0 <= other.end < batch.begin and 0 <= batch.base < other.base:
                problems.append(f"I4: {batch} is before {other}")
        for seen in scene.seen:
            if 0 <= batch.end < seen.begin and not set(batch.ids) <= set(seen.ids):
                problems.append(f"I6: a view that began later lacks {batch}")
    for seen in scene.seen:
        for later in scene.seen:
            if seen.end < later.begin and len(later.ids) < len(seen.ids):
                problems.append("I6: a later view is shorter")
    return problems


def _wrong_copy(scene: Scene, machine: Any, order: list[str]) -> list[str]:
    """The backup is no store yet, or a prefix of the log that verifies and has all it names."""
    try:
        with Store.open(DEST, fs=machine) as store:
            found = [str(event["event_id"]) for event in store.events(columns=["event_id"])]
            problems = [f"in the copy: {f}" for f in store.verify("read") if f.damage]
    except NoStore:
        return ["the copy is gone"] if scene.copied else []
    if found != order[: len(found)]:
        problems.append("the copy is no prefix of the log")
    return problems


def _wrong_once_used(scene: Scene, machine: Any) -> list[str]:
    """I32: what comes later needs no repair, and cleans up."""
    try:
        with Store.open(ROOT, fs=machine) as store:
            erasure.resume(store)
            base = store.append([_event("f" * 32)])[0]
            store.seal()
            store.compact(everything=True)
            store.repack(everything=True)
            sweep(store.fs, store.layout, 0)
            (row,) = list(store.events(base))[:1]
            assert row["event_id"] == "f" * 32
            problems = _wrong_on(scene, machine.crash(keep_none), "used again")
            left = machine.listdir(store.layout.directory(TMP_DIR))
            return problems + [f"{name} stays in tmp/" for name in left if name != "clock"]
    except EventLogError as error:
        return [f"used again: {type(error).__name__}: {error}"]


@pytest.fixture(autouse=True)
def _no_locks_over_what_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cached_property` of Python 3.11 holds one lock for all objects over what it computes: other
    processes have none of that."""

    class NoLock:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *exc: object) -> None:
            pass

    for kind in (LogView, Store):
        for value in vars(kind).values():
            if isinstance(value, cached_property) and hasattr(value, "lock"):
                monkeypatch.setattr(value, "lock", NoLock())


# -- all schedules of tiny programs -------------------------------------------------------------------

TINY = [
    ("append", "append"),
    ("append", "rotate"),
    ("expect", "append"),
    ("append", "seal"),
    ("read", "seal"),
    ("seal", "seal"),
]


def explore(names: tuple[str, ...], whole: bool, go_on: Callable[[Explored], bool]) -> Explored:
    problems: list[str] = []
    scenes: list[Scene] = []
    ends: set[bytes] = set()

    def make(choose: Chooser) -> Schedule:
        scenes[:] = [template(whole).copy()]
        return run(scenes[0], names, choose)

    def check(schedule: Schedule, choices: tuple[int, ...]) -> None:
        scene = scenes[0]
        reported = repr(
            ([(batch.ids, batch.base) for batch in scene.batches], [seen.ids for seen in scene.seen])
        )
        end = scene.machine.key() + reported.encode()
        failed = any(process.error is not None for process in schedule.processes)
        if end in ends and not failed and not _wrong_order(scene):
            return  # another order has led here
        ends.add(end)
        found = problems_of(scene)
        problems.extend(f"{names} in the order {choices}: {problem}" for problem in found)

    explored = every_schedule(make, check, go_on=lambda found: not problems and go_on(found))
    assert problems == [], problems[:3]
    return explored


@pytest.mark.parametrize("names", [TINY[0], TINY[2]], ids=" and ".join)
def test_every_order_of_the_calls_of_two_processes(names: tuple[str, ...]) -> None:
    """I1–I4, I6, I7, I9, I31: all schedules of a tiny program keep the laws."""
    explored = explore(names, False, lambda found: found.runs < 4000)
    print(f"{names}: {explored}")


def test_hunt_in_every_order_of_the_calls_of_two_processes(hunt_minutes: float) -> None:
    """I1–I7, I13, I16, I17, I24, I31: all schedules of larger programs, as far as the minutes go."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT=minutes hunts")
    for names in TINY:
        until = time.monotonic() + hunt_minutes * 60 / len(TINY)
        explored = explore(names, False, lambda _, until=until: time.monotonic() < until)  # type: ignore[misc]
        print(f"{names}: {explored}", flush=True)


# -- random schedules of any programs -----------------------------------------------------------------


def random_run(seed: int) -> tuple[str, list[str]]:
    """Two to four processes with anything to do; what was done, and what is wrong."""
    draw = random.Random(seed)
    names = tuple(draw.choice(list(WORKS)) for _ in range(draw.choice((2, 2, 3, 3, 4))))
    deaths = {draw.randrange(len(names)): draw.randrange(150)} if draw.random() < 0.3 else {}
    scene = template(True).copy()
    schedule = run(scene, names, random_schedule(seed, draw.choice((0.01, 0.03, 0.1, 0.3))), deaths)
    payload = f"LOCUS_SEED={seed}: {names}, {schedule.step} calls, deaths {deaths}"
    return payload, [f"{payload}: {problem}" for problem in problems_of(scene)]


def switched_once(scene: Scene, names: tuple[str, ...], at: int) -> list[str]:
    """What is wrong when the first is interrupted once, by all others, before its call `at`."""
    run(scene, names, one_switch(at))
    return [f"{names}, interrupted before call {at}: {problem}" for problem in problems_of(scene)]


def test_hunt_in_all_pairs_of_which_one_interrupts_the_other(hunt_minutes: float) -> None:
    """I1–I7, I13, I16, I17, I24, I30–I32: each work before each call of each other one, in random order."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT=minutes hunts")
    seed = int(os.environ.get("LOCUS_SEED", random.randrange(2**31)))
    calls = {}
    for name in WORKS:
        calls[name] = run(template(True).copy(), (name,), one_switch(0)).step
    cases = [(a, b, at) for a, b in product(WORKS, WORKS) for at in range(calls[a] + 1)]
    random.Random(seed).shuffle(cases)
    until = time.monotonic() + hunt_minutes * 60
    done = 0
    for a, b, at in cases:
        if time.monotonic() > until:
            break
        assert switched_once(template(True).copy(), (a, b), at) == [], f"seed {seed}"
        done += 1
    print(f"{done} of {len(cases)} interruptions, seed {seed}")


def test_random_orders_of_the_calls_of_several_processes() -> None:
    """I1–I7, I13, I16, I17, I24, I30–I32: whatever two to four processes do, in whatever order of calls."""
    given = os.environ.get("LOCUS_SEED")
    seeds = [int(given)] if given else range(3)
    assert [problem for seed in seeds for problem in random_run(seed)[1]] == []


def test_hunt_in_random_orders_of_the_calls_of_several_processes(hunt_minutes: float) -> None:
    """I1–I7, I13, I16, I17, I24, I30–I32: fresh seeds, for as long as LOCUS_HUNT says."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT=minutes hunts")
    first = seed = random.randrange(2**31)
    until = time.monotonic() + hunt_minutes * 60
    calls = 0
    while time.monotonic() < until:
        reported, problems = random_run(seed)
        calls += int(reported.partition(" calls")[0].rpartition(" ")[2])
        assert problems == []
        seed += 1
    print(f"{seed - first} schedules, {calls} calls, seeds {first} to {seed - 1}")


# Orders in which something went wrong once: what processes did, the seed of the schedule, its odds.
FOUND = [
    (("copy", "copy"), 2171, 0.03),
    (("copy", "copy", "repack"), 1180, 0.3),
    (("repack", "collect", "repack"), 2069, 0.03),
    (("erase", "seal", "collect", "look"), 1352441819, 0.03),
    (("read", "make_idx", "clean"), 1682242126, 0.3),
]


@pytest.mark.parametrize(("names", "seed", "odds"), FOUND, ids=[str(seed) for _, seed, _ in FOUND])
def test_an_order_that_went_wrong_once(names: tuple[str, ...], seed: int, odds: float) -> None:
    """I31, I32: what others copied, merged, collected or swept meanwhile is no error."""
    scene = template(True).copy()
    run(scene, names, random_schedule(seed, odds))
    assert problems_of(scene) == []


# -- the search itself ----------------------------------------------------------------------------------


def test_a_schedule_repeats() -> None:
    """The same seed gives the same calls, answers and files."""
    ends = []
    for _ in range(2):
        scene = template(True).copy()
        schedule = run(scene, ("put", "repack", "append"), random_schedule(5, 0.3))
        ends.append((schedule.step, [one.answers for one in schedule.processes], scene.machine.key()))
    assert ends[0] == ends[1]


def test_all_orders_of_two_calls_each_are_found() -> None:
    """Two processes that write two bytes each to one file leave it in the six ways there are."""
    found = set()

    def make(choose: Chooser) -> Schedule:
        machine = Machine()
        schedule = Schedule(machine, choose)
        fd = machine.open("/file", os.O_CREAT | os.O_RDWR)

        def write(letter: bytes) -> Callable[[], object]:
            return lambda: [
                machine.pwrite(fd, letter, len(machine._described(fd).inode.data)) for _ in range(2)
            ]

        schedule.run(
            [(Process(number, letter), write(letter.encode())) for number, letter in enumerate("ab")]
        )
        return schedule

    explored = every_schedule(
        make, lambda schedule, _: found.add(bytes(schedule.machine.tree()["/file"] or b""))
    )
    # Where to write is decided before the call, so that what another wrote meanwhile may be overwritten.
    assert {b"aabb", b"abab", b"abba", b"baab", b"baba", b"bbaa"} & found
    assert explored.left == 0 and len(found) >= 6


def test_a_process_that_waits_for_a_lock_that_is_never_given_back_is_found() -> None:
    """I31: processes that wait for each other are reported."""
    machine = Machine()
    fds = [machine.open(f"/{n}", os.O_CREAT | os.O_RDWR) for n in range(4)]

    def take(first: int, then: int) -> None:
        for fd in (first, then):
            while not machine.flock(fd, True):
                machine.sleep(0.001)

    # Two files, each opened by both: 0 and 1 are of one process, 2 and 3 of the other.
    machine._open[fds[2]], machine._open[fds[3]] = (
        type(machine._open[fds[0]])(machine._open[fd].inode, os.O_RDWR) for fd in fds[:2]
    )
    schedule = Schedule(machine, told_schedule((0, 0, 1, 1)))
    schedule.run(
        [
            (Process(0, "one"), lambda: take(fds[0], fds[1])),
            (Process(1, "other"), lambda: take(fds[3], fds[2])),
        ]
    )
    assert [problem[:3] for problem in schedule.problems] == ["I31"]


def _free(*_given: object, **_options: object) -> Any:
    class NoLock:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *exc: object) -> None:
            pass

        def release(self) -> None:
            pass

    return NoLock()


Patch = pytest.MonkeyPatch
MUTANTS: dict[str, tuple[tuple[str, ...], bool, Callable[[Patch], None]]] = {
    "no append lock": (
        ("append", "append"),
        False,
        lambda patch: patch.setattr(Machine, "flock", lambda self, fd, exclusive: True),
    ),
    "no check of pins": (
        ("read", "compact"),
        True,
        lambda patch: patch.setattr(pins, "lock", lambda fs, path, descriptors: True),
    ),
    "no gc lock": (("put", "collect"), True, lambda patch: patch.setattr(condemning, "acquire", _free)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_lock_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I2, I17, I24: without a lock that keeps two processes apart some order of their calls goes wrong."""
    names, whole, mutate = MUTANTS[name]
    first = template(whole)  # made before the step is left out
    mutate(monkeypatch)
    assert any(switched_once(first.copy(), names, at) for at in sorted(range(200), key=lambda n: n % 5)), (
        f"{name}: nothing was noticed"
    )
