"""Every recorded state of a path: of events, of all trees, and of what restores saved (docs/undo.md).

A path may be a pattern. A directory of a tree is read once, however many trees share it. Changes nothing.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import Corruption, InvalidEvent, NotFound
from eventlog.base.names import turn_id_of
from eventlog.base.paths import path_bytes, path_text
from eventlog.blobs.ids import from_text, to_text
from eventlog.blobs.tree import DIRECTORY, FILES, SYMLINK
from eventlog.checkout.directory import State, state_of_entry
from eventlog.projections.operations import EVENT_TYPE
from eventlog.replay.deferred import DeferredContents
from eventlog.restore import journal
from eventlog.restore.plan import RestoreGoal, RestorePlan, make_plan, target_directory
from eventlog.undo.change import COLUMNS, RecordedChange, changes_of, paths_of
from eventlog.undo.plan import UndoStore, documents_of, wanted_of

if TYPE_CHECKING:
    from eventlog.blobs.tree import TreeEntry

_WILD = b"*?["


@dataclass(frozen=True, slots=True)
class RecordedState:
    """A file as it was at some moment.

    `turn` and `recorded_at` (microseconds since 1970) are those of the event that tells of it. `deleted_in`
    names the turn that deleted this state, `deleted_by` the event. `lost` says why its content is not there.
    """

    path: str
    hash: str
    state: State
    position: int
    turn: str | None
    recorded_at: int | None
    source: str  # "event", "tree" or "restore"
    deleted_in: str | None = None
    deleted_by: str | None = None
    lost: str | None = None


def recorded_states(store: UndoStore, pattern: str) -> list[RecordedState]:
    """The states of all paths that fit, newest first; of equal states that follow each other, the first seen.

    Args: pattern: a path of the repository, or one with `*`, `?` or `[…]`, of which `*` fits a slash too.
    """
    wish = path_bytes(pattern) if pattern.startswith('"') else os.fsencode(pattern)
    states = [*_of_events(store, wish), *_of_trees(store, wish), *_of_restores(store, wish)]
    states.sort(key=lambda state: (state.position, state.source == "event"))
    newest: dict[str, RecordedState] = {}
    distinct: list[RecordedState] = []
    for state in states:
        last = newest.get(state.path)
        if last is not None and last.hash == state.hash and last.state.kind == state.state.kind:
            if state.deleted_in or state.deleted_by:
                distinct[distinct.index(last)] = newest[state.path] = state
            continue
        newest[state.path] = state
        distinct.append(state)
    return [_checked(store, state) for state in reversed(distinct)]


def plan_of_recovery(
    store: UndoStore, recorded: RecordedState, into: str | os.PathLike[str] | None = None
) -> RestorePlan:
    """What it would take to bring a state back to its path. Raises: NotFound, Refused."""
    journal.refuse_unfinished(store.fs, store.layout)
    path = path_bytes(recorded.path)
    with target_directory(store.layout.root, into) as directory:
        wanted = wanted_of({path: recorded.state}, lambda path: directory.state_at(path)[0])
        goal = RestoreGoal(recorded.turn or "", "end")
        bound = ["recover", recorded.hash, recorded.path]
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
        changes, _ = changes_of([event], deferred)
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
            deleted_in=turn if gone else None,
            deleted_by=str(event["cause"] or event["event_id"]) if gone else None,
        )


def _of_trees(store: UndoStore, wish: bytes) -> Iterator[RecordedState]:
    """Of captured trees, and of those that restores saved of which the log has no end."""
    columns = ("position", "tree_hash", "session_id", "turn", "recorded_at", "event_type", "event_id")
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
        for path, kind, id, size in walk.files(root, b""):
            yield RecordedState(
                path=path_text(path),
                hash=to_text(id),
                state=state_of_entry(kind, id, size),
                position=2 * int(event["position"]),
                turn=_turn_of(event),
                recorded_at=event["recorded_at"],
                source="restore" if is_restore else "tree",
            )


class _TreeWalk:
    """Finds the files that fit in trees, each directory once."""

    def __init__(self, store: UndoStore, wish: bytes) -> None:
        self._blobs = store.blobs
        self._wish = wish
        self._known: dict[tuple[bytes, bytes], list[tuple[bytes, bytes, bytes, int]]] = {}

    def files(self, id: bytes, folder: bytes) -> list[tuple[bytes, bytes, bytes, int]]:
        """(path, kind, id, size) of the files below a directory of a tree that fit."""
        key = (id, folder)
        if key not in self._known:
            self._known[key] = list(self._read(id, folder))
        return self._known[key]

    def _read(self, id: bytes, folder: bytes) -> Iterator[tuple[bytes, bytes, bytes, int]]:
        try:
            entries: tuple[TreeEntry, ...] = self._blobs.get_tree(id)
        except (NotFound, Corruption):
            return
        for name, kind, content, size in entries:
            path = folder + b"/" + name if folder else name
            if kind == DIRECTORY:
                if self._leads(path):
                    yield from self.files(content, path)
            elif (kind in FILES or kind == SYMLINK) and _fits(path, self._wish):
                yield path, kind, content, size

    def _leads(self, folder: bytes) -> bool:
        """Whether something that fits may be in a directory."""
        fixed = self._wish
        for at, sign in enumerate(self._wish):
            if sign in _WILD:
                fixed = self._wish[:at]
                break
        return (folder + b"/").startswith(fixed) or fixed.startswith(folder + b"/")


def _of_restores(store: UndoStore, wish: bytes) -> Iterator[RecordedState]:
    """What restores, undos and redos replaced."""
    for operation, document in documents_of(store):
        for step in document.steps:
            state = step.before
            if state is not None and state.kind != DIRECTORY and _fits(step.path, wish):
                yield RecordedState(
                    path=path_text(step.path),
                    hash=to_text(state.id),
                    state=state,
                    position=2 * operation.position,
                    turn=None,
                    recorded_at=operation.recorded_at,
                    source="restore",
                    deleted_by=operation.id if step.after is None else None,
                )


def _checked(store: UndoStore, recorded: RecordedState) -> RecordedState:
    """The state, with why its content is not to be had, where it is not."""
    stored = store.blobs.locations([recorded.state.id]).get(recorded.state.id)
    if stored is not None:
        return replace(recorded, state=recorded.state._replace(size=stored[4]))
    try:
        data = store.blobs.get(recorded.state.id)
    except (NotFound, Corruption) as error:
        return replace(recorded, lost=str(error))
    return replace(recorded, state=recorded.state._replace(size=len(data)))


def _turn_of(event: Mapping[str, Any]) -> str | None:
    return None if event["turn"] is None else f"{event['session_id']}_{turn_id_of(event['turn'])}"
