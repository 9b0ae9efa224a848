"""Every call to the machine fails once, and from then on: what the store promises holds after each.

Goal: I1, I3, I10, I12, I32, I35, P7. Method: an operation is run once on a copy of a small store to count its
calls. Then for each n and each way to fail, on a fresh copy, call n fails. The operation must succeed
or raise one of our errors, with the place and what to do; it must leave no descriptor behind. With a
healthy disk the store is then opened by another process: everything acknowledged is there, once,
at its position; the check finds nothing (or the torn tail that the next append puts aside); and the
same operation, tried again, succeeds.

By default a sample is run, chosen by LOCUS_SEED (1). LOCUS_HUNT=minutes runs as many cases as fit, all
of them in a random order; a failure names the case, which `LOCUS_FAULT="OPERATION N FAULT MODE"` repeats.
"""

import itertools
import os
import random
import re
import shutil
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlog.errors import EventLogError
from eventlog.keep import erasure
from eventlog.keep.upkeep import maintain
from eventlog.recorder import collection, retention
from eventlog.snapshots.condemn import carry_out, plan_collection, sweep_condemned
from eventlog.snapshots.ids import blob_id, to_text
from eventlog.snapshots.mark import live_ids, told_trees
from eventlog.snapshots.materialize import materialize
from eventlog.snapshots.tree import DIRECTORY, FILE, SYMLINK, TreeEntry
from eventlog.store import Store
from eventlog.types import Event
from tests.faultfs import FAULTS, SHORT, FaultFS

ADVICE = re.compile(
    r"\b(again|free|restore|make room|check|raise|run|move|close|bring|put|use|name|stop|see to)\b", re.I
)


@dataclass
class Scene:
    """A copy of the store, beside room for what operations make; `acked` are (position, event id)."""

    directory: Path
    acked: list[tuple[int, str]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.directory / ".locus"

    def append(self, store: Store, *ids: str) -> None:
        """Append one batch of events of these ids; a repetition is dropped by the log (I8)."""
        events: list[Event] = [{"event_type": "note", "event_id": id, "payload": {"id": id}} for id in ids]
        first = store.append(events)[0]
        known = {id for _, id in self.acked}
        self.acked += [(first + i, id) for i, id in enumerate(ids) if id not in known]


def _id(text: str) -> str:
    return text.encode().hex().ljust(32, "0")


def _append(scene: Scene, store: Store) -> None:
    scene.append(store, _id("one"))
    scene.append(store, _id("two"))


def _batch(scene: Scene, store: Store) -> None:
    scene.append(store, *(_id(f"b{i}") for i in range(5)))


def _rotate(scene: Scene, store: Store) -> None:
    store.journal.rotate()
    scene.append(store, _id("rotated"))


def _seal(_scene: Scene, store: Store) -> None:
    store.seal()


def _compact(_scene: Scene, store: Store) -> None:
    store.seal()
    store.compact(everything=True)
    assert store.status().segments == 1


def _put(scene: Scene, store: Store) -> None:
    with store.blobs.writer() as writer:
        root = writer.put_tree(
            [TreeEntry(b"new", FILE, writer.put(b"new content"), 11), TreeEntry(b"old", FILE, _OLD, 3)]
        )
        writer.flush()
        store.append([{"event_type": "snapshot", "tree_hash": to_text(root)}])
    assert store.blobs.get(root)


def _put_much(scene: Scene, store: Store) -> None:
    data = random.Random(1).randbytes(5 << 20)
    with store.blobs.writer(codec="raw") as writer:
        ids = [writer.put(bytes([i]) + data) for i in range(3)]
        writer.flush()
        store.append([{"event_type": "file", "path": "x", "blobs": [to_text(id) for id in ids]}])


def _materialize(scene: Scene, store: Store) -> None:
    report = materialize(store.blobs, _ROOT, str(scene.directory / "target"), force=True)
    if report.missing:
        raise EventLogError(f"{scene.directory}: listed as missing, try again: {report.missing}")
    assert (scene.directory / "target/d/f1").read_bytes() == b"content 1"


def _replay(scene: Scene, store: Store) -> None:
    report = store.replay("last", scene.directory / "target", force=True)
    if report.missing:
        raise EventLogError(f"{scene.directory}: listed as missing, try again: {report.missing}")
    assert (scene.directory / "target/d/f1").read_bytes() == b"content 1"


def _restore(scene: Scene, store: Store) -> None:
    work = scene.directory / "work"
    if not work.exists():
        work.mkdir()
        (work / "old").write_bytes(b"mine")
    store.recover_restore()
    store.restore(store.restore_plan("last", into=work))
    assert (work / "old").read_bytes() == b"old"
    assert (work / "d/f1").read_bytes() == b"content 1"
    assert store.blobs.get(blob_id(b"mine")) == b"mine"  # what it replaced was saved


def _reindex(_scene: Scene, store: Store) -> None:
    assert store.reindex() is not None


def _verify(_scene: Scene, store: Store) -> None:
    findings = store.verify("read")
    for finding in findings:
        assert finding.path and finding.what.endswith("."), finding
    if findings:
        raise EventLogError(f"{findings[0]} check the disk")


def _verify_deep(_scene: Scene, store: Store) -> None:
    findings = store.verify("deep")
    for finding in findings:
        assert finding.path and finding.what.endswith("."), finding
    if findings:
        raise EventLogError(f"{findings[0]} check the disk")


def _repack(_scene: Scene, store: Store) -> None:
    store.repack(everything=True)
    assert store.blobs.get(_OLD) == b"old"


def _collect(_scene: Scene, store: Store) -> None:
    live = live_ids(store.blobs, [_ROOT, *told_trees(store.fs, store.layout)])
    carry_out(store.blobs, plan_collection(store.blobs, live), live, list)
    sweep_condemned(store.blobs, live=live, age_s_min=0)
    assert store.blobs.get(_OLD) == b"old"


def _erase(_scene: Scene, store: Store) -> None:
    store.append([{"event_type": "note", "event_id": _id("said"), "payload": {"text": "tulip fox"}}])
    erasure.erase(store, erasure.plan_secret(store, "tulip fox"))
    assert store.event(_id("said"))["redacted"]
    assert store.blobs.get(_OLD) == b"old"


def _release(_scene: Scene, store: Store) -> None:
    retention.archive(store, "s")
    collection.collect(store, collection.plan(store))
    assert store.blobs.get(_OLD) == b"old"  # set aside, for a day


def _read(scene: Scene, store: Store) -> None:
    assert len(list(store.events())) >= 10
    assert store.blobs.get(_OLD) == b"old"
    assert len(store.blobs.get_tree(_ROOT)) == 3
    assert store.blobs.resolve(_OLD.hex()[:12]) == _OLD


def _query(_scene: Scene, store: Store) -> None:
    assert store.query("select count(*) from turns").rows == [(2,)]
    assert store.status().turns == 2


def _maintain(_scene: Scene, store: Store) -> None:
    maintain(store)


def _open(_scene: Scene, store: Store) -> None:
    Store.open(store.layout.root, fs=store.fs).close()


def _init(scene: Scene, store: Store) -> None:
    (scene.directory / "new").mkdir(exist_ok=True)
    with Store.init(scene.directory / "new/.locus", fs=store.fs, force=True) as made:
        made.append([{"event_type": "note"}])


Operation = Callable[[Scene, Store], None]
OPERATIONS: dict[str, Operation] = {
    "append": _append,
    "batch": _batch,
    "rotate": _rotate,
    "seal": _seal,
    "compact": _compact,
    "put": _put,
    "materialize": _materialize,
    "read": _read,
    "reindex": _reindex,
    "verify": _verify,
    "open": _open,
    "init": _init,
    "maintain": _maintain,
    "query": _query,
    "replay": _replay,
    "restore": _restore,
    "deep": _verify_deep,
    "put-much": _put_much,
    "repack": _repack,
    "collect": _collect,
    "release": _release,
    "erase": _erase,
}
SLOW = (
    "query",
    "compact",
    "replay",
    "restore",
    "deep",
    "put-much",
    "reindex",
    "maintain",
    "repack",
    "collect",
    "erase",
    "release",
)
READING = ("materialize", "read", "verify", "open", "query", "replay", "deep")

_OLD = b""
_ROOT = b""


@dataclass(frozen=True)
class Case:
    """Which call fails, how, and whether all later ones do."""

    operation: str
    nth: int
    fault: str
    persistent: bool

    def __str__(self) -> str:
        return f"{self.operation} {self.nth} {self.fault} {'persistent' if self.persistent else 'once'}"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A segment, two closed journals, an active one, three packs of which an idx covers two, an index."""
    global _OLD, _ROOT
    scene = Scene(tmp_path_factory.mktemp("faults"))
    with Store.init(scene.root, repo_hash="0123456789ab", project_name="p", force=True) as store:
        for number in range(2):
            with store.blobs.writer() as writer:
                _OLD = writer.put(b"old")
                below = writer.put_tree(
                    [TreeEntry(b"f%d" % i, FILE, writer.put(b"content %d" % i), 9) for i in range(number + 1)]
                )
                link = writer.put(b"d/f0")
                entries = [TreeEntry(b"d", DIRECTORY, below, 0), TreeEntry(b"old", FILE, _OLD, 3)]
                _ROOT = writer.put_tree([*entries, TreeEntry(b"link", SYMLINK, link, 4)])
                writer.flush()
                place = {"session_id": "s", "turn": number + 1}
                store.append([{"event_type": "turn", "operation": "start", **place}])
                store.append([{"event_type": "snapshot", "tree_hash": to_text(_ROOT), **place}])
            if number == 0:
                scene.append(store, _id("sealed"), _id("sealed2"))
                store.seal()
                store.reindex()
            else:
                scene.append(store, _id("closed"))
                store.journal.rotate()
                scene.append(store, _id("closed2"))
                store.journal.rotate()
        scene.append(store, _id("active"), _id("active2"))
        assert store.verify("deep") == []
    return scene


def _copy(template: Scene, directory: Path) -> Scene:
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(template.directory, directory)
    return Scene(directory, list(template.acked))


def run_case(template: Scene, directory: Path, case: Case) -> None:
    """Run one case."""
    scene = _copy(template, directory)
    fs = FaultFS()
    store = Store.open(scene.root, fs=fs)
    fs.made.clear()
    fs.nth, fs.fault, fs.persistent = case.nth, FAULTS[case.fault], case.persistent
    try:
        OPERATIONS[case.operation](scene, store)
    except EventLogError as error:
        text = str(error)
        assert str(scene.directory) in text, f"no place: {text}"
        assert ADVICE.search(text), f"no advice: {text}"
    store.close()
    fs.heal()
    leaked = set(fs.open_fds.values())
    for fd in list(fs.open_fds):
        with suppress(OSError):
            fs.close(fd)
    assert not leaked, f"descriptors left open: {leaked}"
    _check(scene, case.operation in READING)
    with Store.open(scene.root) as again:
        OPERATIONS[case.operation](scene, again)
    _check(scene, True)


def _check(scene: Scene, sound: bool) -> None:
    """Everything acknowledged is there once; `sound`: and nothing is wrong."""
    with Store.open(scene.root) as store:
        there = [(e["position"], e["event_id"]) for e in store.events(columns=["position", "event_id"])]
        assert sorted(there) == there
        ids = [id for _, id in there]
        assert len(set(ids)) == len(ids)
        for position, id in scene.acked:
            assert (position, id) in there or (id in ids and ids.index(id) < position), (position, id, there)
        findings = store.verify("read")
    torn = [f for f in findings if "behind the last valid frame" in f.what]
    assert findings == ([] if sound else torn)


# How many cases of each operation are tried by default.
SAMPLE = {name: 1 if name in SLOW else 6 for name in OPERATIONS}


def all_cases(template: Scene, directory: Path) -> dict[str, list[Case]]:
    """Every case of every operation; a short write only where there is a write."""
    cases = {}
    for name, operation in OPERATIONS.items():
        scene = _copy(template, directory)
        fs = FaultFS()
        with Store.open(scene.root, fs=fs) as store:
            fs.made.clear()
            operation(scene, store)
            cases[name] = [
                Case(name, nth, fault, persistent)
                for nth, call in enumerate(fs.made)
                for fault, number in FAULTS.items()
                for persistent in (False, True)
                if number != SHORT or call == "pwrite"
            ]
    return cases


def failures_of(template: Scene, directory: Path, cases: Iterable[Case]) -> list[str]:
    """Run cases; which ones failed, and how."""
    failed = []
    for case in cases:
        try:
            run_case(template, directory, case)
        except Exception as error:  # everything is to be told with its case
            failed.append(f'LOCUS_FAULT="{case}": {"".join(traceback.format_exception(error)[-4:])}')
    return failed


def test_whatever_call_fails_nothing_acknowledged_is_lost(template: Scene, tmp_path: Path) -> None:
    """I1, I3, I10, I32, I35, P7: one of our errors with place and advice, no descriptor kept, all there.

    And the same operation succeeds when it is tried again.
    """
    if given := os.environ.get("LOCUS_FAULT"):
        operation, nth, fault, mode = given.split()
        run_case(template, tmp_path / "case", Case(operation, int(nth), fault, mode == "persistent"))
        return
    chosen = random.Random(int(os.environ.get("LOCUS_SEED", "1")))
    cases = all_cases(template, tmp_path / "case")
    sample = [case for name, of in cases.items() for case in chosen.sample(of, min(SAMPLE[name], len(of)))]

    assert failures_of(template, tmp_path / "case", sample) == []


def test_hunt_whatever_call_fails(template: Scene, tmp_path: Path, hunt_minutes: float) -> None:
    """The same for as many cases as the hunt's minutes allow, the operations in turn (LOCUS_HUNT)."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT=minutes hunts")
    seed = int(os.environ.get("LOCUS_SEED", str(time.time_ns() % 10_000)))
    until = time.monotonic() + hunt_minutes * 60
    orders = list(all_cases(template, tmp_path / "case").values())
    for order in orders:
        random.Random(seed).shuffle(order)
    count = 0
    failed: list[str] = []
    for round_of in itertools.zip_longest(*orders):
        for case in filter(None, round_of):
            failed += failures_of(template, tmp_path / "case", [case])
            count += 1
        if time.monotonic() > until:
            break
    print(f"{count} cases of {sum(map(len, orders))}, seed {seed}")

    assert failed == []


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_the_faulty_disk_does_as_it_is_told(fault: str, tmp_path: Path) -> None:
    """The test's own disk: the n-th call fails once, or from then on, with the error asked for."""
    path = str(tmp_path / "file")
    for persistent in (False, True):
        fs = FaultFS(2, FAULTS[fault], persistent=persistent)
        fd = fs.open(path, os.O_RDWR | os.O_CREAT)
        outcomes: list[object] = []
        for _ in range(3):
            try:
                outcomes.append(fs.pwrite(fd, b"four", 0))
            except OSError as error:
                outcomes.append(error.errno)
        fs.close(fd)
        refused = 2 if fault == "short" else FAULTS[fault]
        assert outcomes == [4, refused, refused if persistent else 4]
        assert fs.open_fds == {}
