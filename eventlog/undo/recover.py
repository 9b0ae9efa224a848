"""Every recorded state of a path: of events, of all trees, and of what restores saved (docs/undo.md).

A path may be a pattern. A directory of a tree is read once, however many trees share it. Changes nothing.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from eventlog.base.errors import Corruption, InvalidEvent, NotFound
from eventlog.base.names import turn_id_of
from eventlog.base.paths import path_bytes, path_text
from eventlog.blobs.ids import from_text, to_text
from eventlog.blobs.tree import DIRECTORY, FILES, SIZE_UNKNOWN, SKIPPED, SYMLINK, TreeEntry
from eventlog.checkout.directory import State, state_of_entry
from eventlog.projections.operations import EVENT_TYPE, RESTORE
from eventlog.replay.deferred import DeferredContents, elsewhere_of, hashed
from eventlog.restore import journal
from eventlog.restore.plan import RestoreGoal, RestorePlan, make_plan, target_directory
from eventlog.undo.change import COLUMNS, RecordedChange, changes_of, paths_of
from eventlog.undo.plan import UndoStore, documents_of, wanted_of

_WILD = b"*?["
_LISTED = FILES | {SYMLINK, SKIPPED}
BEFORE, AFTER, SEEN = "before", "after", "seen"


@dataclass(frozen=True, slots=True)
class RecordedState:
    """A file as it was from some moment on.

    `turn` and `recorded_at` (microseconds since 1970) are those of the first event that shows it. `moment`
    says whether it was there before that event, was made by it, or was only seen. Where a deletion ended it,
    `deleted_in` names the turn, `deleted_by` the event. `lost` says why its content is not
    there; `hash` is None where it was not captured. `operation` is the kind of the restore.
    """

    path: str
    hash: str | None
    state: State
    position: int
    turn: str | None
    recorded_at: int | None
    source: str  # "event", "tree" or "restore"
    moment: str  # BEFORE, AFTER or SEEN
    operation: str | None = None
    deleted_in: str | None = None
    deleted_by: str | None = None
    lost: str | None = None

    @property
    def size_bytes(self) -> int | None:
        return None if self.state.size == SIZE_UNKNOWN else self.state.size


def recorded_states(store: UndoStore, pattern: str) -> list[RecordedState]:
    """The states of all paths that fit, newest first.

    Equal states of a path that follow each other are one, as first seen, until a deletion ends it.

    Args: pattern: a path of the repository, or one with `*`, `?` or `[…]`, of which `*` fits a slash too.
    Raises: ValueError for a quoted form that is malformed.
    """
    wish = path_bytes(pattern) if pattern.startswith('"') else os.fsencode(pattern)
    states = [*_of_events(store, wish), *_of_trees(store, wish), *_of_restores(store, wish)]
    states.sort(key=lambda state: (state.position, state.source == "event"))
    distinct: list[RecordedState] = []
    newest: dict[str, int] = {}  # of each path, the index in `distinct`
    for state in states:
        at = newest.get(state.path)
        last = None if at is None else distinct[at]
        if at is None or last is None or last.deleted_by or not _are_equal(last.state, state.state):
            newest[state.path] = len(distinct)
            distinct.append(state)
        else:
            distinct[at] = replace(last, deleted_in=state.deleted_in, deleted_by=state.deleted_by)
    distinct = sorted(distinct, key=lambda state: (-state.position, state.path))
    return [_checked(store, state) for state in distinct]


def _are_equal(a: State, b: State) -> bool:
    return (a.kind, a.id) == (b.kind, b.id)


def plan_of_recovery(
    store: UndoStore, recorded: RecordedState, into: str | os.PathLike[str] | None = None
) -> RestorePlan:
    """What it would take to bring a state back to its path. Raises: NotFound, Refused."""
    journal.refuse_unfinished(store.fs, store.layout)
    path = path_bytes(recorded.path)
    with target_directory(store.layout.root, into) as directory:
        wanted = wanted_of({path: recorded.state}, lambda path: directory.state_at(path)[0])
        goal = RestoreGoal(recorded.turn or "", "end")
        bound = ["recover", to_text(recorded.state.id), recorded.path]
        plan = make_plan(directory, wanted, store.blobs, goal, bound=bound)
    return replace(plan, title=f"Recover {recorded.path}", notes={"operation_of": "recover"})


def _fits(path: bytes, wish: bytes) -> bool:
    if any(sign in _WILD for sign in wish):
        return fnmatchcase(path.decode("utf-8", "surrogateescape"), wish.decode("utf-8", "surrogateescape"))
    return path == wish


def _of_events(store: UndoStore, wish: bytes) -> Iterator[RecordedState]:
    deferred = DeferredContents(store.blobs, store.rows)
    for event in store.rows(event_types=("file",), columns=(*COLUMNS, "recorded_at")):
        if not any(_fits(path, wish) for path in paths_of(event)):
            continue
        changes, _ = changes_of([event], deferred, store.rows)
        for change in changes:
            yield from _of_change(change, event, wish)


def _of_change(change: RecordedChange, event: Mapping[str, Any], wish: bytes) -> Iterator[RecordedState]:
    """What a file event says of states: the one before, and the one after."""
    turn = _turn_of(event)
    for path, state, is_before in (
        (change.old_path, change.before, True),
        (change.new_path, change.after, False),
    ):
        if path is None or state is None or state.kind == DIRECTORY or not _fits(path, wish):
            continue
        gone = is_before and change.new_path != change.old_path
        yield RecordedState(
            path=path_text(path),
            hash=to_text(state.id),
            state=state,
            position=2 * change.position + (not is_before),
            turn=turn,
            recorded_at=event["recorded_at"],
            source="event",
            moment=BEFORE if is_before else AFTER,
            deleted_in=turn if gone else None,
            deleted_by=str(event["cause"] or event["event_id"]) if gone else None,
        )


def _of_trees(store: UndoStore, wish: bytes) -> Iterator[RecordedState]:
    """Of captured trees, and of those that restores saved of which the log has no end."""
    columns = (
        "position", "operation", "tree_hash", "session_id", "turn", "recorded_at", "event_type", "event_id",
    )  # fmt: skip
    walk = _TreeWalk(store, wish)
    ends = store.rows(event_types=(EVENT_TYPE,), columns=("operation", "cause"))
    ended = {event["cause"] for event in ends if event["operation"] == "end"}
    for event in store.rows(event_types=("snapshot", EVENT_TYPE), columns=columns):
        is_restore = event["event_type"] == EVENT_TYPE
        if event["tree_hash"] is None or (is_restore and event["event_id"] in ended):
            continue
        try:
            root = from_text(str(event["tree_hash"]))
        except InvalidEvent:
            continue
        for path, state in walk.files(root, b""):
            yield RecordedState(
                path=path_text(path),
                hash=None if state.kind == SKIPPED else to_text(state.id),
                state=state,
                position=2 * int(event["position"]),
                turn=_turn_of(event),
                recorded_at=event["recorded_at"],
                source="restore" if is_restore else "tree",
                moment=BEFORE if is_restore or event["operation"] == "turn_start" else SEEN,
                operation=RESTORE if is_restore else None,
            )


class _TreeWalk:
    """Finds the files that fit in trees, each directory once.

    Contents that were deferred, or that git holds, count too.
    """

    def __init__(self, store: UndoStore, wish: bytes) -> None:
        self._blobs = store.blobs
        self._deferred = DeferredContents(store.blobs, store.rows)
        self._wish = wish
        self._known: dict[tuple[bytes, bytes], list[tuple[bytes, State]]] = {}

    def files(self, id: bytes, folder: bytes) -> list[tuple[bytes, State]]:
        """The paths below a directory of a tree that fit, each with its state: of kind SKIPPED where its
        content is not to be had, with the id of the sentence that says why."""
        key = (id, folder)
        if key not in self._known:
            self._known[key] = list(self._read(id, folder))
        return self._known[key]

    def _read(self, id: bytes, folder: bytes) -> Iterator[tuple[bytes, State]]:
        try:
            entries: tuple[TreeEntry, ...] = self._blobs.get_tree(id)
        except (NotFound, Corruption):
            return
        for entry in entries:
            path = folder + b"/" + entry.name if folder else entry.name
            if entry.kind == DIRECTORY:
                if self._leads(path):
                    yield from self.files(entry.id, path)
            elif entry.kind in _LISTED and _fits(path, self._wish):
                yield path, self._state(self._deferred.entry(entry, path))

    def _state(self, entry: TreeEntry) -> State:
        if entry.kind != SKIPPED:
            try:
                entry = hashed(self._blobs, entry)
            except NotFound as error:
                id = elsewhere_of(self._blobs).add_text(str(error))
                return State(SKIPPED, None, id, entry.size)
            return state_of_entry(entry.kind, entry.id, entry.size)
        return State(SKIPPED, None, entry.id, entry.size)

    def _leads(self, folder: bytes) -> bool:
        """Whether something that fits may be in a directory."""
        fixed = self._wish
        for at, sign in enumerate(self._wish):
            if sign in _WILD:
                fixed = self._wish[:at]
                break
        return (folder + b"/").startswith(fixed) or fixed.startswith(folder + b"/")


def _of_restores(store: UndoStore, wish: bytes) -> Iterator[RecordedState]:
    """What restores, undos and redos replaced, and what they made in the directory that holds the store."""
    here = os.fsencode(os.path.realpath(os.path.dirname(store.layout.root)))
    for operation, document in documents_of(store):
        is_here = operation.in_place or document.target == here
        for step in document.steps:
            if not _fits(step.path, wish):
                continue
            for state, is_before in ((step.before, True), (step.after, False)):
                if state is None or state.kind == DIRECTORY or not (is_before or is_here):
                    continue
                yield RecordedState(
                    path=path_text(step.path),
                    hash=to_text(state.id),
                    state=state,
                    position=2 * operation.position + (not is_before),
                    turn=None,
                    recorded_at=operation.recorded_at,
                    source="restore",
                    moment=BEFORE if is_before else AFTER,
                    operation=operation.kind,
                    deleted_by=operation.id if is_here and step.after is None else None,
                )


def _checked(store: UndoStore, recorded: RecordedState) -> RecordedState:
    """The state, with why its content is not to be had, where it is not."""
    if recorded.state.kind == SKIPPED:
        return replace(recorded, lost=_sentence(store, recorded.state.id))
    stored = store.blobs.locations([recorded.state.id]).get(recorded.state.id)
    if stored is not None:
        return replace(recorded, state=recorded.state._replace(size=stored[4]))
    try:
        data = store.blobs.get(recorded.state.id)
    except (NotFound, Corruption) as error:
        return replace(recorded, lost=str(error))
    return replace(recorded, state=recorded.state._replace(size=len(data)))


def _sentence(store: UndoStore, id: bytes) -> str:
    """Why a content was not captured, as its tree says it."""
    try:
        return store.blobs.get(id).decode("utf-8", "replace")
    except (NotFound, Corruption) as error:
        return str(error)


def _turn_of(event: Mapping[str, Any]) -> str | None:
    return None if event["turn"] is None else f"{event['session_id']}_{turn_id_of(event['turn'])}"
