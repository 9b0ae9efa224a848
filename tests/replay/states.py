"""Trees of nested dicts as replay sees them."""

from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import EXECUTABLE, FILE, SYMLINK
from eventlog.recorder import lifecycle
from eventlog.replay.trees import TreeState, tree_at
from eventlog.store import Store
from tests.blobs.support import Node, store_node


def state(store: Store, node: Node, *, id: str = "s") -> TreeState:
    """The tree of a turn that holds nothing but a snapshot of `node`."""
    root = to_text(store_node(store.blobs, node))
    events = [lifecycle.snapshot("s1", 1, lifecycle.TURN_END, root, event_id=id)]
    return tree_at(events, store.blobs, "s1_001")


def file(content: bytes) -> tuple[bytes, bytes]:
    return FILE, content


def program(content: bytes) -> tuple[bytes, bytes]:
    return EXECUTABLE, content


def link(target: bytes) -> tuple[bytes, bytes]:
    return SYMLINK, target
