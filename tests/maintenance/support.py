"""Stores to be copied, damaged and saved: on a real disk or on a simulated one."""

from pathlib import Path

from eventlog.base.fs import REAL, FileSystem
from eventlog.base.layout import Layout
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import FILE, TreeEntry
from eventlog.store import Store


def make_store(root: "str | Path", fs: FileSystem = REAL) -> Store:
    return Store.init(str(root), project_name="sample", repo_hash="9f86d081884c", force=True, fs=fs)


def event(number: int, **columns: object) -> Event:
    return {
        "event_id": f"{number:032x}",
        "event_type": "action",
        "agent": "script",
        "agent_session_id": f"s{number // 7}",
        "payload": {"number": number, "text": "ä\t€ " * 9},
        **columns,
    }


def append(store: Store, first: int, count: int = 1) -> None:
    """Events of the numbers from `first` on, one append each."""
    for number in range(first, first + count):
        store.append([event(number)])


def content(number: int) -> bytes:
    return b"content %d\n" % number * 40


def snapshot(store: Store, number: int, *, turn: bool = False) -> str:
    """A turn with a tree of one file; the tree's hash."""
    with store.blobs.writer() as writer:
        entry = TreeEntry(b"file", FILE, writer.put(content(number)), len(content(number)))
        root = to_text(writer.put_tree([entry]))
        writer.flush()
        events: list[Event] = [
            event(number, event_type="turn", operation="start", agent_turn_id=f"t{number}")
        ]
        payload = {
            "event_type": "snapshot",
            "tree_hash": root,
            "blobs": [root],
            "agent_turn_id": f"t{number}",
        }
        events.append(event(number + 1_000_000, agent_session_id=f"s{number // 7}", **payload))
        store.append(events)
    return root


def rows(root: "str | Path", fs: FileSystem = REAL) -> list[Event]:
    """What a reader of the store at `root` sees."""
    with Store.open(str(root), fs=fs) as store:
        return list(store.events())


def layout_of(root: "str | Path") -> Layout:
    return Layout(str(root))
