"""Partial trees: the files in a turn's file events, where no tree of the whole directory was recorded.

A transcript says what tools did to some files and nothing of the others. From that come two trees with only
those files: as they were before the turn's first change to each, and as they are after its last. They serve
differences and single files, not a replay (P1). Pure but for what `blobs` reads.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import InvalidEvent, NoTree
from eventlog.base.paths import path_bytes
from eventlog.blobs.ids import from_text
from eventlog.blobs.tree import FILE
from eventlog.query.lookup import TurnRef
from eventlog.replay.certainty import EVERYTHING, NONE, Certainty, is_change
from eventlog.replay.deferred import DeferredContents
from eventlog.replay.edited_tree import EditedTree, no_trees
from eventlog.replay.trees import (
    COLUMNS,
    Events,
    Running,
    TreeState,
    apply,
    kind_of_mode,
    no_tree,
    store_encoding,
    trees_of,
)

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore

_UNKNOWN = "its content before this turn is not known"


def trees_or_partial(
    events: Events, blobs: "BlobStore", ref: TurnRef, running: Running | None = None
) -> tuple[TreeState, TreeState]:
    """The trees at start and end of a turn; where none was recorded, the partial trees."""
    try:
        before, after = trees_of(events, blobs, ref, "start", "end", running=running)
    except NoTree as error:
        return trees_from_file_events(events, blobs, ref, error.known)
    return before, after


def files_at(
    tree: Callable[[TurnRef, str], TreeState], events: Events, blobs: "BlobStore", ref: TurnRef, at: str
) -> TreeState:
    """The tree at a moment of a turn; where none was recorded, the partial tree.

    Args: tree: `Store.tree`. Raises: NoTree.
    """
    try:
        return tree(ref, at)
    except NoTree as error:
        if at not in ("start", "end"):
            raise
        return trees_from_file_events(events, blobs, ref, error.known)[at == "end"]


def trees_from_file_events(
    events: Events, blobs: "BlobStore", ref: TurnRef, known: Certainty | None = None
) -> tuple[TreeState, TreeState]:
    """The files in a turn's file events, at its start and at its end. Raises: NoTree when it has none.

    Files outside of the repository stand in neither tree. Args: known: the certainty of the turn's files, for
    that error.
    """
    of_turn = events(ref.since, ref.until, session_id=ref.session_id, turn=ref.turn, columns=COLUMNS)
    files = [event for event in of_turn if event["event_type"] == "file" and event["operation"] != "read"]
    if not files:
        raise no_tree(ref.name, known, ", and it has no file events")
    files = [event for event in files if is_change(event)]
    return _state(files, (), blobs, ref.name, "start"), _state(files, files, blobs, ref.name, "end")


def _state(
    files: Iterable[Mapping[str, Any]],
    applied: Iterable[Mapping[str, Any]],
    blobs: "BlobStore",
    turn: str,
    at: str,
) -> TreeState:
    tree, missing = EditedTree(no_trees), dict[str, str]()
    seen: set[str] = set()
    for event in files:
        _put_before(tree, event, seen, missing)
    events = list(applied)
    for event in events:
        apply(tree, event, missing)
    made: dict[bytes, bytes] = {}
    root = tree.write(lambda encoding: store_encoding(made, encoding))
    ids = tuple(str(event["event_id"]) for event in events)
    unsaid = tuple(sorted(missing.items()))
    why = "no tree was recorded then; these are the files in the turn's file events"
    certainty = Certainty(NONE, why, ((EVERYTHING, why),)).with_doubts(unsaid, why)
    return TreeState(turn, at, root, "", ids, unsaid, blobs, made, certainty, DeferredContents(blobs))


def _put_before(tree: EditedTree, event: Mapping[str, Any], seen: set[str], missing: dict[str, str]) -> None:
    """Put a file into the tree as it was before the first event about it."""
    payload = event.get("payload") or {}
    path = str(event.get("path") or "")
    source = str(payload.get("old_path") or path)
    first = source not in seen
    seen.update((path, source))
    if not first or event.get("operation") == "add":
        return
    content = event.get("before_hash")
    try:
        id = None if content is None else from_text(str(content))
        name = path_bytes(source)
    except (InvalidEvent, ValueError):
        id, name = None, b""
    if id is None:
        missing[source] = _UNKNOWN
        return
    tree.put(name, kind_of_mode(payload.get("before_mode")) or FILE, id, 0)
