"""Partial trees: the files in a turn's file events, where no tree of the whole directory was recorded.

A transcript says what tools did to some files and nothing of the others. From that come two trees with only
those files: as they were before the turn's first change to each, and as they are after its last. They serve
differences and single files, not a replay (P1). Pure but for what `blobs` reads.
"""

from collections.abc import Mapping, Sequence
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
    Events,
    Running,
    TreeState,
    applied,
    events_of,
    kind_of_mode,
    no_tree,
    runs,
    tree_at,
)

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore

_UNKNOWN = "its content before this turn is not known"


def trees_or_partial(
    events: Events, blobs: "BlobStore", ref: TurnRef, *moments: str, running: Running | None = None
) -> list[TreeState]:
    """The trees at some moments of a turn, as `trees_of`; where none was recorded, the partial trees."""
    timeline = events_of(events, ref, *moments)
    deferred = DeferredContents(blobs, events)
    return trees_in(timeline, blobs, ref.name, moments, deferred, running=runs(timeline, running))


def trees_in(
    timeline: Sequence[Mapping[str, Any]],
    blobs: "BlobStore",
    turn: str,
    moments: Sequence[str],
    deferred: DeferredContents,
    *,
    running: bool = False,
) -> list[TreeState]:
    """The same from the events of a turn. Raises: NoTree when they have no files either."""
    try:
        return [tree_at(timeline, blobs, turn, at, running=running, deferred=deferred) for at in moments]
    except NoTree as error:
        if not {"start", "end"}.issuperset(moments):
            raise
        files = [e for e in timeline if e["event_type"] == "file" and e["operation"] != "read"]
        if not files:
            raise no_tree(turn, error.known, ", and it has no file events") from None
        # Files outside of the repository are in no tree.
        files = [event for event in files if is_change(event)]
        return [_state(files, files if at == "end" else (), blobs, turn, at) for at in moments]


def _state(
    files: Sequence[Mapping[str, Any]],
    later: Sequence[Mapping[str, Any]],
    blobs: "BlobStore",
    turn: str,
    at: str,
) -> TreeState:
    tree, missing = EditedTree(no_trees), dict[str, str]()
    seen: set[str] = set()
    for event in files:
        _put_before(tree, event, seen, missing)
    root, made = applied(tree, later, missing)
    ids = tuple(str(event["event_id"]) for event in later)
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
