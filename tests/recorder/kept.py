"""Stores with sessions whose contents are known, and what they must look like when they are replayed."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from blake3 import blake3

from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import DIRECTORY, FILE, TreeEntry
from eventlog.blobs.writer import BlobWriter
from eventlog.store import Store
from tests.conftest import closed_later

Files = Mapping[str, bytes]

DAY_S = 24 * 3600


def make_store(root: Path) -> Store:
    return closed_later(
        Store.init(root / ".locus", project_name="sample", repo_hash="9f86d081884c", force=True)
    )


def new_store(root: Path) -> Store:
    return Store.init(root, repo_hash="0123456789ab", project_name="locus")


def recorded_once(root: Path, record: Callable[[Store], object]) -> Path:
    """A store that `record` fills, sealed and indexed as most of a store is; what a test adds comes after."""
    with new_store(root) as store:
        record(store)
        store.seal()
        store.reindex()
    return root


def copy_of(store: Path, root: Path) -> Store:
    """A copy to write to of a store that is recorded once: recording asks much, copying nothing."""
    shutil.copytree(store, root)
    return Store.open(root)


def files_of(session: str, turn: int, *, size: int = 3000, noise: bool = False) -> Files:
    """Files of a turn: two of its own, one that all turns of the session share, one that everybody does."""
    unit = f"{session} {turn}\n".encode()
    own = blake3(unit).digest(size) if noise else (unit * size)[:size]
    return {
        "own": own,
        "below/own": own[::-1],
        "below/session": f"content of all turns of {session}\n".encode() * 50,
        "everybody": b"the same everywhere\n" * 50,
    }


def record(
    store: Store,
    session: str,
    turns: int = 2,
    *,
    end: bool = True,
    size: int = 3000,
    noise: bool = False,
    first: int = 1,
    files: Mapping[int, Files] | None = None,
    lock_timeout_s: float = 10.0,
) -> dict[str, Files]:
    """A session of `turns` turns, each with a tree and a file event; the files of each turn, by its name."""
    payload: dict[str, Files] = {}
    place = {"agent": "pi", "session_id": session}
    if first == 1:
        store.append([{"event_type": "session", "operation": "start", **place, "payload": {}}])
    for turn in range(first, first + turns):
        now = files_of(session, turn, size=size, noise=noise) if files is None else files[turn]
        with store.blobs.writer(lock_timeout_s=lock_timeout_s) as writer:
            below = [_file(writer, name[6:], data) for name, data in now.items() if name.startswith("below/")]
            top = [_file(writer, name, data) for name, data in now.items() if "/" not in name]
            directory = TreeEntry(
                b"below", DIRECTORY, writer.put_tree(sorted(below, key=lambda entry: entry[0])), 0
            )
            root = to_text(writer.put_tree(sorted([*top, directory], key=lambda entry: entry[0])))
            own = to_text(writer.put(now["own"]))
            writer.flush()
            here = {**place, "turn": turn, "payload": {}}
            events: list[Event] = [
                {"event_type": "turn", "operation": "start", **here},
                {
                    "event_type": "file",
                    "operation": "edit",
                    "path": "own",
                    "after_hash": own,
                    "blobs": [own],
                    **here,
                },
                {
                    "event_type": "snapshot",
                    "operation": "turn_end",
                    "tree_hash": root,
                    "blobs": [root],
                    **here,
                },
                {"event_type": "turn", "operation": "end", **here},
            ]
            store.append(events)
        payload[f"{session}_{turn:03d}"] = now
    if end:
        store.append([{"event_type": "session", "operation": "end", **place, "payload": {}}])
    return payload


def _file(writer: BlobWriter, name: str, data: bytes) -> TreeEntry:
    return TreeEntry(name.encode(), FILE, writer.put(data), len(data))


def replayed(store: Store, turn: str, to: Path) -> Files:
    report = store.replay(turn, to)
    assert report.missing == []
    return {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}


def a_day_passes(store: Store) -> None:
    """What is condemned was condemned a day earlier."""
    directory = Path(store.layout.directory("snapshots/condemned"))
    for path in directory.iterdir():
        since, _, name = path.name.partition("-")
        path.rename(directory / f"{int(since) - DAY_S - 60}-{name}")


def pack_bytes(store: Store) -> int:
    return sum(path.stat().st_size for path in Path(store.layout.directory("snapshots/packs")).iterdir())
