"""The tree of a turn, from the log alone: a snapshot, and the file events after it (docs/design.md §14).

`tree_at` is a fold over the events of one turn. It reads only the trees on the way to a changed path and,
for a moment between two captures, those that differ in the next one. A path whose content an event does not
name (it was not captured) is listed and left out. The certainty of the moment is part of the tree: a wrong
file is worse than a missing one (P1, P7, docs/certainty.md).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import InvalidEvent, NotFound, NoTree, Refused
from eventlog.base.paths import path_bytes, path_text
from eventlog.base.types import Event
from eventlog.blobs.deferred import sentence_of
from eventlog.blobs.ids import blob_id, from_text, to_text, tree_id
from eventlog.blobs.tree import (
    DIRECTORY,
    FILE,
    FILES,
    MODE_OF_KIND,
    SIZE_UNKNOWN,
    SKIPPED,
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    decode_tree,
    unsafe_path,
)
from eventlog.query.lookup import TurnRef
from eventlog.replay import certainty
from eventlog.replay.certainty import EVERYTHING, NONE, Certainty, certainty_of, doubt_bytes
from eventlog.replay.deferred import DeferredContents, lists_of
from eventlog.replay.edited_tree import EditedTree

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore
    from eventlog.checkout.materialize import Report

# The columns of a turn's events that this fold, the fold of certainty and the test of liveness read.
COLUMNS = (
    *certainty.COLUMNS, "after_hash", "before_hash", "payload",
    "agent_session_id", "agent_turn_id", "recorded_at",
)  # fmt: skip
# Other events matter only when the caller asks for the moment of one.
TYPES = ("snapshot", "file", "action", "turn")

# `Store.events`, or the same of one view.
Events = Callable[..., Iterator[Event]]
# Whether the process of the turn with these events is alive.
Running = Callable[[Sequence[Mapping[str, Any]]], bool]

_KIND_OF_MODE = {
    **{f"100{mode:03o}": kind for kind, mode in MODE_OF_KIND.items()}, "120000": SYMLINK, "160000": SUBMODULE,
}  # fmt: skip


def no_tree(turn: str, known: Certainty, why: str = "") -> NoTree:
    """The error of a turn without a tree. Args: known: the certainty of its files; why: other reasons."""
    reason = f" ({known.state}: {known.why})" if known.state != NONE else why
    return NoTree(f"{turn}: no tree was recorded in this turn{reason}, so its files are not known", known)


@dataclass(frozen=True, slots=True)
class TreeState:
    """The files at one moment of a turn.

    `root` is the id of the whole tree, as it is stored. `snapshot` is the event that names it, empty where no
    event was read. `applied` are the file events after the snapshot,
    `missing` the (path, reason) of the contents that those events do not name. `certainty` says how well the
    moment is known, and lists every path that is not exact, these included. `blobs` reads the contents of all
    its entries.
    """

    turn: str
    at: str
    root: bytes
    snapshot: str
    applied: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]
    blobs: "BlobStore"
    made: Mapping[bytes, bytes]  # encodings of trees that are in no pack, by id
    certainty: Certainty
    deferred: DeferredContents = field(compare=False)
    ignored_count: int | None = None  # entries left out because git ignored them; None: unknown
    root_mode: int | None = None  # of the directory itself; None: 0755, or unknown

    @property
    def tree_hash(self) -> str:
        return to_text(self.root)

    def get_tree(self, id: bytes, folder: bytes) -> tuple[TreeEntry, ...]:
        """The entries of this tree's directory at the path `folder` (b"" is the root)."""
        return self.deferred.entries(self.stored_tree(id), folder)

    def stored_tree(self, id: bytes) -> tuple[TreeEntry, ...]:
        """The same as it was recorded, with deferred contents unresolved."""
        encoding = self.made.get(id)
        return self.blobs.get_tree(id) if encoding is None else decode_tree(encoding)

    def walk(self) -> Iterator[tuple[bytes, TreeEntry]]:
        """Every path with its entry, a directory before its entries, in order of names."""
        from eventlog.checkout.materialize import walk

        for path, entry in walk(self.blobs, self.root, self.stored_tree):
            yield path, self.deferred.entry(entry, path)

    def find(self, path: bytes) -> TreeEntry | None:
        """The entry at `path` as it was recorded, None where there is none."""
        return EditedTree(self.stored_tree, self.root).get(path)

    def entry(self, path: str) -> TreeEntry:
        """The entry at `path`. Raises: NotFound."""
        wanted = _wanted(path)
        entry = self.find(wanted)
        if entry is None:
            why = dict(self.missing).get(path, "no such path")
            doubt = self.certainty.doubt(path)
            unsure = f" (not known for sure: {doubt})" if doubt not in (None, why) else ""
            raise NotFound(f"{path}: {why} in {self.turn} at {self.at}{unsure}")
        return self.deferred.entry(entry, wanted)

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
        """Put the tree, or the named files and folders of it, into a directory.

        Raises: NotFound (a path), Refused (the directory holds something and `force` is not set).
        """
        report = self.check_out(target, [path_bytes(path) for path in paths], force=force)
        named = {path for path, _ in (*report.missing, *report.skipped)}
        doubts = [(doubt_bytes(path), why) for path, why in self.certainty.doubts(paths)]
        unknown = [doubt for doubt in doubts if doubt[0] not in named]
        return replace(report, missing=[*report.missing, *unknown]) if unknown else report

    def check_out(self, target: str, paths: Sequence[bytes] = (), *, force: bool = False) -> "Report":
        """The same without a word about paths that are not exact."""
        from eventlog.checkout.materialize import TreeSource, materialize

        source = TreeSource(self.stored_tree, self.deferred.entries, self.root_mode)
        return materialize(self.blobs, self.root, target, force=force, paths=paths, source=source)


def trees_of(
    events: Events, blobs: "BlobStore", ref: TurnRef, *moments: str, running: Running | None = None
) -> list[TreeState]:
    """The trees at some moments of one turn, its events read once. Raises: NotFound, as `tree_at`."""
    deferred = DeferredContents(blobs, events)
    timeline = events_of(events, ref, *moments)
    now = runs(timeline, running)
    return [tree_at(timeline, blobs, ref.name, at, running=now, deferred=deferred) for at in moments]


def recorded_tree(deferred: DeferredContents, blobs: "BlobStore", turn: str, at: str, tree: str) -> TreeState:
    """The files at a moment that is known to be exact, from the tree that the log names for it.

    Raises: InvalidEvent for another system's hash.
    """
    return TreeState(
        turn=turn, at=at, root=from_text(tree), snapshot="", applied=(), missing=(), blobs=blobs, made={},
        certainty=Certainty(certainty.EXACT), deferred=deferred,
    )  # fmt: skip


def runs(timeline: Sequence[Mapping[str, Any]], running: Running | None) -> bool:
    """Whether the turn with these events has no end yet, and its process lives."""
    return running is not None and certainty.is_open(timeline) and running(timeline)


def events_of(events: Events, ref: TurnRef, *moments: str) -> list[Event]:
    """The events of a turn from which its files at these moments follow, in order."""
    of_turn = partial(events, ref.since, ref.until, session_id=ref.session_id, turn=ref.turn, columns=COLUMNS)
    timeline = list(of_turn(event_types=TYPES)) if all(at in ("start", "end") for at in moments) else []
    return timeline or list(of_turn(event_types=None))  # at least their names are of interest


def tree_at(
    events: Iterable[Mapping[str, Any]],
    blobs: "BlobStore",
    turn: str,
    at: str = "end",
    *,
    running: bool = False,
    deferred: DeferredContents | None = None,
) -> TreeState:
    """The tree of a turn at "start", at "end", or just after the event of id `at`.

    Args: events: all events of the turn in position order; turn: its name, for messages; running: whether
    its process lives; deferred: what became of deferred contents.
    Raises: NotFound when the turn has no snapshot by then, or no such event.
    """
    timeline = list(events)
    snapshot, files = moment(timeline, turn, at, running=running)
    root = from_text(str(snapshot["tree_hash"]))
    made: dict[bytes, bytes] = {}
    missing: dict[str, str] = {}
    if files:
        root, made = applied(EditedTree(blobs.get_tree, root), files, missing)
    state = TreeState(
        turn=turn,
        at=at,
        root=root,
        snapshot=str(snapshot["event_id"]),
        applied=tuple(str(event["event_id"]) for event in files),
        missing=tuple(sorted(missing.items())),
        blobs=blobs,
        made=made,
        certainty=certainty_of(timeline, at, running=running),
        deferred=deferred or DeferredContents(blobs),
        ignored_count=_ignored_count(snapshot),
        root_mode=_root_mode(snapshot),
    )
    return replace(state, certainty=_with_contents(state, timeline, [snapshot, *files]))


def _ignored_count(snapshot: Mapping[str, Any]) -> int | None:
    count = (snapshot.get("payload") or {}).get("ignored_count")
    return count if isinstance(count, int) else None


def _root_mode(snapshot: Mapping[str, Any]) -> int | None:
    """The mode of the directory, where a snapshot states a narrower one than the usual."""
    text = (snapshot.get("payload") or {}).get("root_mode")
    try:
        mode = int(text[3:], 8) if isinstance(text, str) and text.startswith("040") else 0o755
    except ValueError:
        return None
    return mode & 0o755 if mode != 0o755 else None


def _with_contents(
    state: TreeState, timeline: Sequence[Mapping[str, Any]], made_of: Sequence[Mapping[str, Any]]
) -> Certainty:
    """The certainty of a state, with the doubts that only the trees show."""
    known = state.certainty.with_doubts(state.missing, "some contents were not captured")
    lists = {id for event in made_of for id in (*lists_of(event), list_named_by(event)) if id is not None}
    tree = EditedTree(state.stored_tree, state.root) if lists else None
    open_contents = () if tree is None else state.deferred.doubts(sorted(lists), tree)
    known = known.with_doubts(open_contents, "some contents were deferred, and are not known")
    if state.at in ("start", "end") or known.doubt(EVERYTHING) is not None:
        return known
    return known.with_doubts(_found_later(state, timeline), "some paths changed before the next capture")


def _found_later(state: TreeState, timeline: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The paths that differ between this moment, between two captures, and the next capture.

    The events of the turn do not name all of them: other turns recorded some of the changes.
    """
    index = next(n for n, event in enumerate(timeline) if event["event_id"] == state.at)
    end = certainty.effects_end(timeline, index)
    snapshot = certainty.next_capture(timeline, end)
    if snapshot is None or snapshot.get("tree_hash") is None or timeline[index].get("agent") == "git":
        return
    if any(map(certainty.is_full, timeline[index:end])):
        return
    exact = {doubt_bytes(path) for path in certainty.scope_of(timeline[end - 1])}
    from eventlog.replay.compare import differing

    after = replace(state, root=from_text(str(snapshot["tree_hash"])), made={})
    for path in differing(state, after):
        if path in exact:
            continue
        yield path_text(path), "the next capture of the directory found it different"


def moment(
    events: Iterable[Mapping[str, Any]], turn: str, at: str, *, running: bool = False
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The snapshot that a moment of a turn rests on, and the changes between the two.

    A moment before the first finished capture rests on that capture.
    Raises: as `tree_at`.
    """
    whole = timeline = list(events)
    if at == "start":
        timeline = []
    elif at == "end":
        timeline = timeline[: certainty.end_of_captures(timeline)]
    else:
        index = next((i for i, event in enumerate(timeline) if event["event_id"] == at), None)
        if index is None:
            raise NotFound(f"{turn} has no event {at}; `locus timeline {turn}` lists its events")
        timeline = timeline[: certainty.effects_end(timeline, index)]
    base = next((i for i in range(len(timeline) - 1, -1, -1) if _has_tree(timeline[i])), None)
    if base is None:
        later = next((event for event in whole if _has_tree(event)), None)
        if later is None:
            raise no_tree(turn, certainty_of(whole, at, running=running))
        return later, []
    return timeline[base], [event for event in timeline[base + 1 :] if certainty.is_change(event)]


def applied(
    tree: EditedTree, events: Iterable[Mapping[str, Any]], missing: dict[str, str]
) -> tuple[bytes, dict[bytes, bytes]]:
    """The root of `tree` after some file events, and the encodings of its new trees by their ids."""
    for event in events:
        apply(tree, event, missing)
    made: dict[bytes, bytes] = {}

    def store(encoding: bytes) -> bytes:
        id = tree_id(encoding)
        made[id] = encoding
        return id

    return tree.write(store), made


def apply(tree: EditedTree, event: Mapping[str, Any], missing: dict[str, str]) -> None:
    """Apply one file event to `tree`; a path whose content it does not name goes to `missing`."""
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
        # Git names files only: a folder that is there now comes from another file of the commit.
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
    """The entry after a file event, or the reason why it is not known."""
    mode = payload.get("after_mode")
    kind = kind_of_mode(mode)
    if kind is None:
        kind = before.kind if before is not None and before.kind in FILES | {SYMLINK} else FILE
    content = event.get("after_hash")
    if content is None:
        list_id = list_named_by(event)
        if list_id is not None:
            size = payload.get("after_size")
            sentence = blob_id(sentence_of(list_id))
            return TreeEntry(b"-", SKIPPED, sentence, size if isinstance(size, int) else SIZE_UNKNOWN)
        if event.get("operation") == "rename" and before is not None:
            return TreeEntry(before.name, before.kind if mode is None else kind, before.id, before.size)
        return str(payload.get("skipped") or "its content after this event was not captured")
    try:
        id = from_text(str(content))
    except InvalidEvent:
        return f"its content is only known as {content}, which this store does not hold"
    size = payload.get("after_size")
    return TreeEntry(b"-", kind, id, size if isinstance(size, int) else 0)


def list_named_by(event: Mapping[str, Any]) -> bytes | None:
    """The list of deferred contents that a file event names."""
    payload = event.get("payload")
    named = payload.get("deferred") if isinstance(payload, Mapping) and certainty.is_change(event) else None
    try:
        return None if named is None else from_text(str(named))
    except InvalidEvent:
        return None  # it names no list; the content counts as not captured


def kind_of_mode(mode: object) -> bytes | None:
    """The kind of entry that a git mode in a file event's payload means; None when there is none."""
    return _KIND_OF_MODE.get(str(mode)) if mode is not None else None


def _wanted(path: str) -> bytes:
    """The bytes of a path, if a tree can hold it. Raises: NotFound, also for a malformed one."""
    name = path_bytes(path)
    problem = unsafe_path(name)
    if problem is not None:
        raise NotFound(f"{path!r} cannot be in a tree: it {problem}")
    return name


def _has_tree(event: Mapping[str, Any]) -> bool:
    return event["event_type"] == "snapshot" and event.get("tree_hash") is not None
