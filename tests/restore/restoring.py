"""What the tests of restore share: a directory, and a store that recorded it twice."""

import os
from collections.abc import Callable
from pathlib import Path

from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import EXECUTABLE, SYMLINK
from eventlog.query.lookup import TurnRef
from eventlog.recorder import lifecycle
from eventlog.restore.plan import RestorePlan
from eventlog.store import Store
from tests.blobs.support import Node, put_node
from tests.conftest import closed_later

WANTED = TurnRef("s1", 1)


def put_tree(store: Store, node: Node) -> str:
    with store.blobs.writer() as writer:
        root = put_node(writer, node)
        writer.flush()
    return to_text(root)


def record(store: Store, wanted: Node, *later: Node) -> None:
    """Turn 1 ends with the tree `wanted`, and each further turn with one of `later`."""
    events: list[Event] = []
    for number, node in enumerate((wanted, *later), 1):
        tree = put_tree(store, node)
        events.append(lifecycle.turn_start("s1", number, "go"))
        events.append(lifecycle.snapshot("s1", number, lifecycle.TURN_END, tree))
    store.append(events)


def write_node(directory: bytes, node: Node) -> None:
    """Make the files of `node` in a directory that is there."""
    for name, below in node.items():
        path = directory + b"/" + name
        if isinstance(below, dict):
            os.mkdir(path)
            write_node(path, below)
        elif below[0] == SYMLINK:
            os.symlink(below[1], path)
        else:
            with open(path, "wb") as file:
                file.write(below[1])
            os.chmod(path, 0o755 if below[0] == EXECUTABLE else 0o644)


class World:
    """A store, and a directory beside it that the store recorded."""

    def __init__(
        self, root: Path, *, wanted: Node, disk: Node, later: tuple[Node, ...] | None = None
    ) -> None:
        self.root = root
        self.work = root / "work"
        self.work.mkdir()
        write_node(os.fsencode(self.work), disk)
        self.store = closed_later(Store.init(root / ".locus", repo_hash="0123456789ab", project_name="p"))
        record(self.store, wanted, *((disk,) if later is None else later))

    def plan(self, *paths: str, at: str = "end", delete: bool = True) -> RestorePlan:
        return self.store.restore_plan(WANTED, paths=paths, at=at, into=self.work, delete=delete)


Make = Callable[..., World]


def actions(plan: RestorePlan) -> dict[bytes, str]:
    return {step.path: step.action for step in plan.steps}
