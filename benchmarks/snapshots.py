"""A store of many snapshots of one directory, as hooks record a long project and maintenance leaves it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from benchmarks.frame import Bench
from eventlog import Store
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.blobs.pack import TREE
from eventlog.blobs.tree import FILE
from eventlog.blobs.writer import BlobWriter
from eventlog.replay.edited_tree import EditedTree

_FILES_IN_DIRECTORY = 20
_DIRECTORIES_IN_DIRECTORY = 16
_PACKS = 8  # as many as trigger a merge
_SESSIONS = 50
_FIRST_TIME_US = 1_735_689_600_000_000  # 2025-01-01


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    path: str
    snapshots: int
    files: int
    trees: int


def snapshot_store(bench: Bench, snapshots: int, files: int) -> SnapshotStore:
    """Snapshots of so many files, between any two of which one to three files changed.

    Contents are a few bytes, so that a store of many trees is made in short time: marking reads none.
    """
    path = bench.new_directory("snapshots") + "/store"
    rng = Random(bench.seed)
    paths = [_path(number) for number in range(files)]
    tree = EditedTree(lambda _: ())
    with Store.init(path) as store:
        changed = paths
        for part in range(_PACKS):
            events: list[Event] = []
            with store.blobs.writer(codec="zstd") as writer:
                for number in range(part * snapshots // _PACKS, (part + 1) * snapshots // _PACKS):
                    events += _snapshot(tree, writer, number, snapshots, changed)
                    changed = rng.sample(paths, rng.randint(1, 3))
                writer.flush()
            store.append(events)
        store.seal()
        store.repack()
        trees = sum(
            tables.entry(index)[1] == TREE for tables in store.blobs.tables() for index in range(len(tables))
        )
        store.reindex()
    return SnapshotStore(path, snapshots, files, trees)


def _snapshot(
    tree: EditedTree, writer: BlobWriter, number: int, snapshots: int, changed: list[bytes]
) -> list[Event]:
    """Edit these files and record the tree, as a turn does."""
    session = number * _SESSIONS // snapshots
    about: Event = {
        "source": "system",
        "event_kind": "fact",
        "agent": "bench",
        "agent_session_id": f"session-{session}",
        "agent_turn_id": f"turn-{number}",
        "occurred_at": _FIRST_TIME_US + number * 1_000_000,
    }
    events: list[Event] = []
    for path in changed:
        content = b"%b as of snapshot %d\n" % (path, number)
        id = writer.put(content)
        tree.put(path, FILE, id, len(content))
        if number:
            events.append(
                {
                    **about,
                    "event_type": "file",
                    "operation": "edit",
                    "path": path.decode(),
                    "after_hash": to_text(id),
                    "blobs": [to_text(id)],
                    "payload": {},
                }
            )
    root = to_text(tree.write(writer.put_encoded_tree))
    snapshot: Event = {**about, "event_type": "snapshot", "operation": "turn_end", "payload": {}}
    return [*events, {**snapshot, "tree_hash": root, "blobs": [root]}]


def _path(number: int) -> bytes:
    directory = number // _FILES_IN_DIRECTORY
    above, below = divmod(directory, _DIRECTORIES_IN_DIRECTORY)
    return b"src/package%02d/part%02d/module_%04d.py" % (above, below, number)
