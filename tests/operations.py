"""A small store with everything in it, and everything that can be done to it, for failing disks and kills.

An operation may be done twice, and must come to the same end. `check` says whether the store holds what it
promises afterwards.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from eventlog.base.errors import EventLogError
from eventlog.base.types import Event
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.tree import DIRECTORY, FILE, SYMLINK, TreeEntry
from eventlog.checkout.materialize import materialize
from eventlog.erasure import erasure
from eventlog.gc.collect import carry_out, plan_collection
from eventlog.gc.condemn import sweep_condemned
from eventlog.gc.live_contents import Needed, baseline_trees, live_ids
from eventlog.maintenance.backup import backup
from eventlog.maintenance.upkeep import maintain
from eventlog.repair.repair import plan_repair, repair
from eventlog.repair.salvage import salvage
from eventlog.retention import collection, retention
from eventlog.store import Store
from eventlog.worktree.capture import capture


@dataclass
class Scene:
    """A copy of the store, beside room for what operations make; `acked` are (position, event id)."""

    directory: Path
    acked: list[tuple[int, str]] = field(default_factory=list)
    report: Callable[[bytes], object] | None = None  # called with what is acknowledged, at once

    @property
    def root(self) -> Path:
        return self.directory / ".locus"

    def append(self, store: Store, *ids: str) -> None:
        """Append one batch of events of these ids; a repetition is dropped by the log (I8)."""
        events: list[Event] = [{"event_type": "note", "event_id": id, "payload": {"id": id}} for id in ids]
        first = store.append(events)[0]
        known = {id for _, id in self.acked}
        new = [(first + i, id) for i, id in enumerate(ids) if id not in known]
        self.acked += new
        if self.report is not None:
            self.report("".join(f"{position} {id}\n" for position, id in new).encode())


def id_of(text: str) -> str:
    return text.encode().hex().ljust(32, "0")


def _append(scene: Scene, store: Store) -> None:
    scene.append(store, id_of("one"))
    scene.append(store, id_of("two"))


def _batch(scene: Scene, store: Store) -> None:
    scene.append(store, *(id_of(f"b{i}") for i in range(5)))


def _rotate(scene: Scene, store: Store) -> None:
    store.journal.rotate()
    scene.append(store, id_of("rotated"))


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
        store.append([{"event_type": "snapshot", "operation": "turn_end", "tree_hash": to_text(root)}])
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
    with store.blobs.writer() as writer:
        writer.put(b"what no event names")
        writer.flush()
    live = live_ids(store.blobs, [_ROOT, *baseline_trees(store.fs, store.layout)])
    carry_out(store.blobs, plan_collection(store.blobs, live), Needed(live, list))
    sweep_condemned(store.blobs, Needed(live), age_s_min=0)
    assert store.blobs.get(_OLD) == b"old"


def _erase(_scene: Scene, store: Store) -> None:
    store.append([{"event_type": "note", "event_id": id_of("said"), "payload": {"text": "tulip fox"}}])
    erasure.erase(store, erasure.plan_secret(store, "tulip fox"))
    assert store.event(id_of("said"))["redacted"]
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


def _backup(scene: Scene, store: Store) -> None:
    report = backup(store, scene.directory / "copy", check=True)
    if report.damaged:
        raise EventLogError(f"not read: {report.damaged}; check the disk")
    with Store.open(scene.directory / "copy") as copy:
        assert copy.verify("read") == []
        assert list(copy.events()) == list(store.events())
        assert copy.blobs.get(_OLD) == b"old"


def _damaged(scene: Scene) -> None:
    """A copy elsewhere, and rot in a segment."""
    with Store.open(scene.root) as store:
        backup(store, scene.directory / "copy")
    (segment,) = (scene.root / "log/segments").iterdir()
    data = bytearray(segment.read_bytes())
    data[len(data) // 3] ^= 4
    segment.write_bytes(data)


def _repair(scene: Scene, store: Store) -> None:
    copy = str(scene.directory / "copy")
    report = repair(store, plan_repair(store, copy=copy), copy=copy)
    if report.remaining:
        raise EventLogError(f"{report.remaining[0]} check the disk")


def _salvage(scene: Scene, store: Store) -> None:
    saved = scene.directory / "saved"
    shutil.rmtree(saved, ignore_errors=True)  # what an attempt that failed left there
    report = salvage(scene.root, saved, fs=store.fs)
    if report.skipped:
        raise EventLogError(f"{report.skipped} were left behind; check the disk")
    with Store.open(saved) as one:
        assert {event["event_id"] for event in one.events()} >= {id for _, id in scene.acked}
        assert one.blobs.get(_OLD) == b"old"


def _capture(scene: Scene, store: Store) -> None:
    work = scene.directory / "captured"
    work.mkdir(exist_ok=True)
    (work / "file").write_bytes(b"captured content")
    with store.blobs.writer() as writer:
        tree = capture(writer, str(work))
        writer.flush()
        store.append([{"event_type": "snapshot", "operation": "turn_end", "tree_hash": to_text(tree.root)}])
    if tree.skipped or tree.partial:
        raise EventLogError(f"{work}: not captured, try again: {tree.skipped}")
    assert store.blobs.get(blob_id(b"captured content")) == b"captured content"


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
    "backup": _backup,
    "repair": _repair,
    "salvage": _salvage,
    "capture": _capture,
}
PREPARE = {"repair": _damaged}  # what is there before the operation; it is not to fail
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
    "backup",
    "repair",
    "salvage",
    "capture",
)
# A store that they leave as it is.
READING = ("materialize", "read", "verify", "open", "query", "replay", "deep", "salvage")

_OLD = b""
_ROOT = b""


def make(directory: Path) -> Scene:
    """A segment, two closed journals, an active one, three packs of which an idx covers two, an index."""
    global _OLD, _ROOT
    scene = Scene(directory)
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
                store.append(
                    [
                        {
                            "event_type": "snapshot",
                            "operation": "turn_end",
                            "tree_hash": to_text(_ROOT),
                            **place,
                        }
                    ]
                )
            if number == 0:
                scene.append(store, id_of("sealed"), id_of("sealed2"))
                store.seal()
                store.reindex()
            else:
                scene.append(store, id_of("closed"))
                store.journal.rotate()
                scene.append(store, id_of("closed2"))
                store.journal.rotate()
        scene.append(store, id_of("active"), id_of("active2"))
        assert store.verify("deep") == []
    return scene


def copy_of(template: Scene, directory: Path, operation: str) -> Scene:
    """A scene of its own, ready for the operation."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(template.directory, directory)
    scene = Scene(directory, list(template.acked))
    if operation in PREPARE:
        PREPARE[operation](scene)
    return scene


def check(scene: Scene, sound: bool) -> None:
    """Everything acknowledged is there once; `sound`: and only what was cut off torn writes is named."""
    with Store.open(scene.root) as store:
        there = [(e["position"], e["event_id"]) for e in store.events(columns=["position", "event_id"])]
        assert sorted(there) == there
        ids = [id for _, id in there]
        assert len(set(ids)) == len(ids)
        for position, id in scene.acked:
            assert (position, id) in there or (id in ids and ids.index(id) < position), (position, id, there)
        findings = store.verify("read")
    cut = ("(torn tail", *(() if sound else ("after the last valid frame",)))
    wrong = [f for f in findings if not any(what in f.what for what in cut)]
    assert wrong == [], wrong
