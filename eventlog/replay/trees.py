"""The tree of a turn, from the log alone: a snapshot, and the file events behind it (docs/design.md §14).

`tree_at` is a pure fold over the events of one turn; nothing is read but the trees on the way to a
changed path. What an event does not say (a content that was not captured) is listed, and the path is
left out: a wrong file is worse than a missing one (P1, P7).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from eventlog.errors import InvalidEvent, NotFound, Refused
from eventlog.paths import path_bytes, path_text
from eventlog.query.lookup import TurnRef
from eventlog.replay.edited_tree import EditedTree
from eventlog.snapshots.ids import from_text, to_text, tree_id
from eventlog.snapshots.tree import (
    DIRECTORY,
    EXECUTABLE,
    FILE,
    SKIPPED,
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    decode_tree,
    legal_name,
)
from eventlog.types import Event

if TYPE_CHECKING:
    from eventlog.snapshots.materialize import Report
    from eventlog.snapshots.store import BlobStore

# What the fold reads of an event. The payload is most of an event's bytes, and only changes behind the
# snapshot need it: usually there are none.
COLUMNS = ("event_id", "event_type", "agent", "operation", "path", "tree_hash", "after_hash", "success")
COLUMNS_OF_CHANGES = (*COLUMNS, "payload")

# `Store.events`, or the same of one view.
Events = Callable[..., Iterator[Event]]

_KIND_OF_MODE = {"100644": FILE, "100755": EXECUTABLE, "120000": SYMLINK, "160000": SUBMODULE}


class NoTree(NotFound):
    """A turn of which no tree was recorded."""


@dataclass(frozen=True, slots=True)
class TreeState:
    """The files at one moment of a turn.

    `root` is the id of the whole tree. `applied` are the file events that came after the snapshot,
    `missing` the (path, reason) of what those events could not say.
    """

    turn: str
    at: str
    root: bytes
    snapshot: str
    applied: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]
    blobs: "BlobStore"
    made: Mapping[bytes, bytes]  # encodings of trees that are in no pack, by id

    @property
    def tree_hash(self) -> str:
        return to_text(self.root)

    def get_tree(self, id: bytes) -> tuple[TreeEntry, ...]:
        """The entries of one of this tree's directories."""
        encoding = self.made.get(id)
        return self.blobs.get_tree(id) if encoding is None else decode_tree(encoding)

    def walk(self) -> Iterator[tuple[bytes, TreeEntry]]:
        """Every path with its entry, a directory before what is in it, in order of names."""
        from eventlog.snapshots.materialize import walk

        return walk(self.blobs, self.root, self.made)

    def entry(self, path: str) -> TreeEntry:
        """What stands at `path`. Raises: NotFound."""
        found = EditedTree(self.get_tree, self.root).get(_wanted(path))
        if found is None:
            why = dict(self.missing).get(path, "no such path")
            raise NotFound(f"{path}: {why} in {self.turn} at {self.at}")
        return found

    def file(self, path: str) -> bytes:
        """The content of the file at `path`; of a symlink, its target. Raises: NotFound, Refused."""
        entry = self.entry(path)
        if entry.kind in (DIRECTORY, SUBMODULE):
            what = "a directory" if entry.kind == DIRECTORY else "a submodule"
            raise Refused(f"{path} is {what} in {self.turn} at {self.at}; name a file")
        data = self.blobs.get(entry.id)
        if entry.kind == SKIPPED:
            reason = data.decode("utf-8", "replace")
            raise NotFound(f"{path}: its content was not captured in {self.turn}: {reason}")
        return data

    def materialize(self, target: str, *, paths: Sequence[str] = (), force: bool = False) -> "Report":
        """Put the tree, or the named files and folders of it, into a directory (P1).

        Raises: NotFound (a path), Refused (the directory holds something and `force` is not set).
        """
        from eventlog.snapshots.materialize import materialize

        wanted = [_bytes_of(path) for path in paths]
        report = materialize(self.blobs, self.root, target, force=force, paths=wanted, trees=self.made)
        unsaid = [(path.encode("utf-8", "surrogateescape"), why) for path, why in self.missing]
        return replace(report, missing=[*report.missing, *unsaid]) if unsaid else report


def trees_of(events: Events, blobs: "BlobStore", ref: TurnRef, *moments: str) -> list[TreeState]:
    """The trees at some moments of one turn, its events read once. Raises: NotFound, as `tree_at`."""
    of_turn = partial(events, ref.since, ref.until, session_id=ref.session_id, turn=ref.turn)
    found = list(of_turn(columns=COLUMNS))
    if any(moment(found, ref.name, at)[1] for at in moments):
        found = list(of_turn(columns=COLUMNS_OF_CHANGES))
    return [tree_at(found, blobs, ref.name, at) for at in moments]


def tree_at(events: Iterable[Mapping[str, Any]], blobs: "BlobStore", turn: str, at: str = "end") -> TreeState:
    """The tree of a turn at "start", at "end", or just after the event of id `at`.

    Args: events: all events of the turn in position order; turn: its name, for messages.
    Raises: NotFound when the turn has no snapshot by then, or no such event.
    """
    snapshot, files = moment(events, turn, at)
    root = from_text(str(snapshot["tree_hash"]))
    made: dict[bytes, bytes] = {}
    missing: dict[str, str] = {}
    if snapshot.get("success") is False:
        missing["."] = (
            f"its capture was not finished in time; `locus show {snapshot['event_id']}` has the rest"
        )
    if files:
        tree = EditedTree(blobs.get_tree, root)
        for event in files:
            apply(tree, event, missing)
        root = tree.write(lambda encoding: keep(made, encoding))
    return TreeState(
        turn=turn,
        at=at,
        root=root,
        snapshot=str(snapshot["event_id"]),
        applied=tuple(str(event["event_id"]) for event in files),
        missing=tuple(sorted(missing.items())),
        blobs=blobs,
        made=made,
    )


def moment(
    events: Iterable[Mapping[str, Any]], turn: str, at: str
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The snapshot that a moment of a turn rests on, and the changes between the two.

    Raises: as `tree_at`.
    """
    timeline = [
        event for event in events if event["event_type"] in ("snapshot", "file") or event["event_id"] == at
    ]
    if at == "start":
        first = next((i for i, event in enumerate(timeline) if event["event_type"] == "snapshot"), -1)
        timeline = timeline[first : first + 1]
    elif at != "end":
        found = next((i for i, event in enumerate(timeline) if event["event_id"] == at), None)
        if found is None:
            raise NotFound(f"{turn} has no event {at}; `locus timeline {turn}` lists its events")
        timeline = timeline[: found + 1]
    base = next((i for i in range(len(timeline) - 1, -1, -1) if _has_tree(timeline[i])), None)
    if base is None:
        raise NoTree(
            f"{turn}: no tree was recorded in this turn{'' if at == 'end' else f' for {at}'}, "
            "so its files are not known"
        )
    return timeline[base], [event for event in timeline[base + 1 :] if event["event_type"] == "file"]


def apply(tree: EditedTree, event: Mapping[str, Any], missing: dict[str, str]) -> None:
    """Let one file event happen to `tree`; what it does not say goes to `missing`."""
    payload = event.get("payload") or {}
    path = str(event.get("path") or "")
    operation = event.get("operation")
    prune = event.get("agent") == "git"  # git keeps no empty directories; a working tree does
    try:
        name, old_name = _wanted(path), _wanted(str(payload.get("old_path") or path))
    except NotFound as error:
        missing[path] = str(error)
        return
    before = tree.get(old_name)
    if operation in ("delete", "rename"):
        # Git tells of files only: where a folder stands by now, another file of the commit put it there.
        if before is not None and not (prune and before.kind == DIRECTORY):
            tree.remove(old_name, prune=prune)
        missing.pop(path_text(old_name), None)
    if operation == "delete":
        return
    after = _after(event, payload, before)
    if isinstance(after, str):
        tree.remove(name, prune=prune)
        missing[path] = after
        return
    missing.pop(path, None)
    tree.put(name, after.kind, after.id, after.size)


def _after(event: Mapping[str, Any], payload: Mapping[str, Any], before: TreeEntry | None) -> TreeEntry | str:
    """The entry that a file event leaves behind, or the reason why it is not known."""
    mode = payload.get("after_mode")
    kind = kind_of_mode(mode)
    if kind is None:
        kind = before.kind if before is not None and before.kind in (EXECUTABLE, SYMLINK) else FILE
    content = event.get("after_hash")
    if content is None:
        if event.get("operation") == "rename" and before is not None:
            return TreeEntry(before.name, before.kind if mode is None else kind, before.id, before.size)
        return str(payload.get("skipped") or "its content after this event was not captured")
    try:
        id = from_text(str(content))
    except InvalidEvent:
        return f"its content is only known as {content}, which this store does not hold"
    size = payload.get("after_size")
    return TreeEntry(b"-", kind, id, size if isinstance(size, int) else 0)


def kind_of_mode(mode: object) -> bytes | None:
    """The kind of entry that a git mode in a file event's payload says; None when it says none."""
    return _KIND_OF_MODE.get(str(mode)) if mode is not None else None


def _wanted(path: str) -> bytes:
    """The bytes of a path, if it can stand in a tree. Raises: NotFound."""
    name = _bytes_of(path)
    for part in name.split(b"/"):
        problem = legal_name(part)
        if problem is not None:
            raise NotFound(f"{path!r} cannot stand in a tree: its part {path_text(part)!r} {problem}")
    return name


def _bytes_of(path: str) -> bytes:
    try:
        return path_bytes(path)
    except ValueError as error:
        raise NotFound(str(error)) from error


def _has_tree(event: Mapping[str, Any]) -> bool:
    return event["event_type"] == "snapshot" and event.get("tree_hash") is not None


def keep(made: dict[bytes, bytes], encoding: bytes) -> bytes:
    id = tree_id(encoding)
    made[id] = encoding
    return id
