"""Plans of undo and redo: what is taken back, from the log; what that does to a directory (docs/undo.md).

A plan is one of a restore (docs/design.md §18), so carrying it out, its token, its safety and its recovery
are the same. Planning reads the log, the store and the directory, and changes nothing.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from eventlog.base.errors import Corruption, NotFound, NoTree, Refused
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.paths import path_bytes, path_text
from eventlog.blobs.tree import DIRECTORY, SKIPPED, SUBMODULE, SYMLINK
from eventlog.checkout.directory import NO_ID, OpenDirectory, State, state_of_entry
from eventlog.checkout.parallel import Listed
from eventlog.projections import operations
from eventlog.projections.operations import REDO, UNDO, Operation, Operations
from eventlog.query.lookup import Query, TurnRef
from eventlog.replay.compare import PathChange, compare
from eventlog.replay.deferred import DeferredContents, hashed
from eventlog.replay.liveness import is_running
from eventlog.replay.trees import Running, TreeState, events_of, runs, trees_of
from eventlog.restore import journal
from eventlog.restore.plan import (
    RestoreGoal,
    RestorePlan,
    directory_of,
    make_plan,
    read_plan,
    readable_plan,
    target_directory,
)
from eventlog.restore.plan import plan_of_undo as plan_of_undone_restore
from eventlog.restore.wanted import Wanted, selection, ways
from eventlog.restore.worktrees import project_of, refuse_other_worktree, worktree_of, worktrees_of
from eventlog.undo.agent_turns import agent_turns, has_worked_since, none_left, only_took_back, turns_of
from eventlog.undo.change import (
    COLUMNS,
    ERASED_PATHS,
    ErasedChanges,
    RecordedChange,
    changes_of,
    is_wanted,
    moves_in,
    paths_of,
)
from eventlog.undo.take_back import MARKED, MERGED, TakeBack, UndoConflict

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore

# A restore that is undone as a whole: the last one, or that of a start event.
_RESTORE = re.compile(r"restore(?::(.+))?|([0-9a-f]{32})")

# Events that name a call; the causes of a change are among their ids.
_OF_CALLS = ("tool_start", "action", "mcp_action")

# How many turns with nothing to take back a plain undo passes over before it asks for a name.
_PASSED_MAX = 20

REFUSE, SKIP, MARKERS = CONFLICTS = ("refuse", "skip", "markers")


class UndoStore(Protocol):
    """What this needs of a store."""

    fs: FileSystem
    layout: Layout
    blobs: "BlobStore"

    @property
    def query(self) -> Query: ...
    @property
    def repo_hash(self) -> str: ...
    def rows(self, since: int = 0, until: int | None = None, **which: Any) -> Iterator[dict[str, Any]]: ...
    def turn(self, name: str) -> TurnRef: ...
    def event(self, event_id: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class UndoPlan(RestorePlan):
    """The plan of an undo or redo.

    `of` names what is taken back. `outcomes` says of each path whether it is taken back exactly, merged, with
    markers, or was before. `clashes` are the conflicts with their lines. `skipped` are paths that are left
    alone: conflicts that were to be skipped, what is missing, and changes whose author is not known.
    `changes` are what is taken back. `passed_over` are later turns with nothing to take back, and why.
    """

    operation: str = UNDO
    of: tuple[str, ...] = ()
    outcomes: Mapping[bytes, str] = field(default_factory=dict)
    clashes: tuple[UndoConflict, ...] = ()
    skipped: Listed = field(default_factory=list)
    changes: tuple[RecordedChange, ...] = ()
    passed_over: tuple[tuple[str, str], ...] = ()

    def ids_at(self, path: bytes) -> set[bytes]:
        """The contents that take part in what is done to a path; where a rename led to it, of all paths."""
        of_path = [change for change in self.changes if path in change.paths] or self.changes
        sides = (state for change in of_path for state in (change.before, change.after))
        return {state.id for state in sides if state is not None}

    @property
    def partial(self) -> bool:
        return bool(self.conflicts or self.skipped or self.missing) or MARKED in self.outcomes.values()


@dataclass(frozen=True, slots=True)
class _Target:
    """One thing to take back: its name, its changes oldest first, and what is not known to be its own.

    What is `doubtful` is taken back where a path names it.
    """

    name: str
    changes: tuple[RecordedChange, ...]
    unknown: Listed = field(default_factory=list)
    doubtful: tuple[RecordedChange, ...] = ()  # that one of its calls made, or one of another turn
    operation: str | None = None  # the start event of the restore, undo or redo that it is


def plan_of_undo(
    store: UndoStore,
    what: str | Sequence[str] | None = None,
    *,
    paths: Sequence[str] = (),
    since: bool = False,
    into: str | os.PathLike[str] | None = None,
    conflicts: str = REFUSE,
    force: bool = False,
    session: tuple[str, str] | str | None = None,
) -> RestorePlan:
    """What it would take to undo `what`; see docs/undo.md for names.

    Args:
        what: None for the newest turn; `restore`, or the start event of a restore, for what brings back
            all that it replaced, whatever came later.
        since: the turn and all later ones of its session.
        conflicts: "refuse", "skip" or "markers".
        force: also a turn that is running.
        session: agent and the agent's id of the session that asks; without `what` its newest turn is meant.
            `RECORDED_LIVE`: the newest turn that hooks recorded in this work tree.
    Raises: NotFound, Ambiguous, Refused, Corruption.
    """
    if conflicts not in CONFLICTS:
        raise ValueError(f"conflicts is one of {', '.join(CONFLICTS)}, not {conflicts!r}")
    journal.refuse_unfinished(store.fs, store.layout)
    names = [what] if isinstance(what, str) else list(what or ())
    if len(names) == 1 and (of_restore := _RESTORE.fullmatch(names[0])):
        start = of_restore[1] or of_restore[2]
        event_id = None if start is None else str(store.event(start)["event_id"])
        return plan_of_undone_restore(store.blobs, store.rows, event_id, into)
    done = _Done(store, into)
    if not names:
        return _plan_of_newest(store, done, session, paths, into, conflicts, since=since)
    targets = [target for name in names for target in _targets(store, name, done, since=since, force=force)]
    for operation in filter(None, (done.all.named(target.operation or "") for target in targets)):
        into = _directory_of(store, operation, into)
    undo_of = targets[0].operation if len(names) == 1 and targets else None
    return _plan(store, UNDO, targets, paths, into, conflicts, undo_of)


def _plan_of_newest(
    store: UndoStore,
    done: "_Done",
    session: tuple[str, str] | str | None,
    paths: Sequence[str],
    into: str | os.PathLike[str] | None,
    conflicts: str,
    *,
    since: bool,
) -> UndoPlan:
    """The plan for the newest turn of which something is left to take back; without one, for the newest turn.

    Raises: as `plan_of_undo`.
    """
    passed: list[tuple[str, str]] = []
    newest: UndoPlan | None = None
    for name in _newest_first(store, done, session, passed):
        targets = list(_targets(store, name, done, since=since, force=False))
        try:
            plan = _plan(store, UNDO, targets, paths, into, conflicts, None)
        except ErasedChanges as error:
            if paths or since:
                raise
            passed.append((f"turn:{name}", error.why))
            continue  # to an older one
        newest = newest or plan
        if plan.steps or plan.conflicts or paths or since:
            return replace(plan, passed_over=tuple(passed))
        why = "nothing of it can be taken back" if plan.partial else "all of it is as it was before"
        passed.append((f"turn:{name}", why))
        if len(passed) >= _PASSED_MAX:
            break
    if newest is None:
        raise ErasedChanges([passed[0][0]], passed[0][1])
    return replace(newest, passed_over=tuple(passed))


def plan_of_redo(store: UndoStore, *, into: str | os.PathLike[str] | None = None) -> UndoPlan:
    """What it would take to redo the last undo. Raises: NotFound, Refused, Corruption."""
    journal.refuse_unfinished(store.fs, store.layout)
    done = operations_of(store)
    operation = done.next_redo()
    if operation is None:
        raise NotFound("nothing is undone, so there is nothing to redo. `locus undo --list` lists what was.")
    into = _directory_of(store, operation, into)
    worktree = worktree_of(into or project_of(store.layout.root) or "/")
    if has_worked_since(store, done, operation, worktree):
        raise NotFound(
            "an agent has worked since the last undo, so there is nothing to redo. "
            f"`locus undo event:{operation.id}` takes that undo back all the same."
        )
    target = _of_operation(store, operation)
    return _plan(store, REDO, [target], (), into, REFUSE, operation.id)


def _directory_of(
    store: UndoStore, operation: Operation, into: str | os.PathLike[str] | None
) -> str | os.PathLike[str] | None:
    """Where an operation is taken back, as `directory_of` says. Raises: Refused."""
    made_in = os.fsdecode(path_bytes(operation.target))
    return directory_of(store.layout.root, made_in, operation.in_place, into)


class _Done:
    """What was undone so far, read at the first use: a question for a turn has numbered the tail by then.

    `worktree` is that of the directory which would be written, `by_name` whether somebody named it.
    """

    def __init__(self, store: UndoStore, into: str | os.PathLike[str] | None) -> None:
        self._store = store
        self.by_name = into is not None
        self.worktree = worktree_of(into or project_of(store.layout.root) or "/")

    @cached_property
    def all(self) -> Operations:
        return operations_of(self._store)


def operations_of(store: UndoStore) -> Operations:
    return operations.operations_in(
        store.rows(event_types=(operations.EVENT_TYPE,), columns=operations.COLUMNS)
    )


def documents_of(store: UndoStore) -> Iterator[tuple[Operation, journal.Document]]:
    """All of them whose plan can be read, each with it."""
    for operation in operations_of(store).done:
        document = readable_plan(store.blobs, operation.plan)
        if document is not None:
            yield operation, document


# -- what is taken back --------------------------------------------------------------------------------


def _targets(store: UndoStore, name: str, done: _Done, *, since: bool, force: bool) -> Iterator[_Target]:
    """What one name means: a turn, with `since` all from there on, a session, a call, an event."""
    kind, colon, id = name.partition(":")
    if colon and kind == "session":
        yield from (_of_turn(store, ref, done) for ref in turns_of(store, id))
    elif colon and kind == "action":
        yield _of_action(store, id, done)
    elif colon and kind == "event":
        yield _of_event(store, id, done)
    else:
        ref = store.turn(name)
        for each in turns_of(store, ref.session_id) if since else [ref]:
            if each.turn >= ref.turn:
                _refuse_running(store, each, force)
                yield _of_turn(store, each, done, must=not since)


def _newest_first(
    store: UndoStore,
    done: _Done,
    session: tuple[str, str] | str | None,
    passed: list[tuple[str, str]],
) -> Iterator[str]:
    """The turns of agents that have ended and are not undone; those undone in part are added to `passed`.

    Raises: NotFound, where there is none.
    """
    some_run = some_ended = False
    for ref in agent_turns(store, session, done.worktree):
        if done.all.undo_of_turn(ref.context_id) is not None or only_took_back(store, done.all, ref):
            continue
        in_part = done.all.undo_in_part(ref.context_id)
        if in_part is not None:
            passed.append((ref.context_id, f"event:{in_part.id} took it back but for what it left"))
        elif _is_running(store, ref):
            some_run = True
        else:
            some_ended = True
            yield ref.name
    if some_ended:
        return
    if some_run:
        raise NotFound(
            "the only turn to undo is still running. Name it, with --force, or wait until it ends."
        )
    raise none_left(session, passed)


def _is_running(store: UndoStore, ref: TurnRef) -> bool:
    return runs(events_of(store.rows, ref, "end"), _running(store, ref))


def _running(store: UndoStore, ref: TurnRef) -> Running:
    """A test whether the process of a turn is alive, from its events."""
    return partial(is_running, store.layout, store.rows, ref, store.fs.time_ns())


def _refuse_running(store: UndoStore, ref: TurnRef, force: bool) -> None:
    if not force and _is_running(store, ref):
        raise Refused(
            f"{ref.context_id} is still running. Wait until it ends, or take back what it has changed so far "
            "with --force."
        )


def _of_turn(store: UndoStore, ref: TurnRef, done: _Done, *, must: bool = False) -> _Target:
    """What a turn changed. Args: must: refuse one that is undone, instead of passing over it."""
    undone = done.all.undo_of_turn(ref.context_id)
    if undone is not None:
        if must:
            raise Refused(
                f"{ref.context_id} is undone already, by event:{undone.id}. `locus redo` brings it back."
            )
        return _Target(ref.context_id, ())
    worked_in = worktrees_of(store.rows, ref)
    if not done.by_name:
        refuse_other_worktree(store.layout.root, ref, worked_in)
    window = list(store.rows(ref.since, ref.until, event_types=("file",), columns=COLUMNS))
    own = [e for e in window if e["session_id"] == ref.session_id and e["turn"] == ref.turn]
    if len(worked_in) > 1 and done.worktree in worked_in:
        own = [e for e in own if e["worktree"] == done.worktree]
    changes, unknown = _changes_of(store, own)
    doubtful, unnamed = _changes_of(store, _possibly_of(store, ref, window))
    more, strange = ([], []) if len(worked_in) > 1 else _beside_events(store, ref, window)
    return _Target(ref.context_id, (*changes, *more), [*unknown, *unnamed, *strange], tuple(doubtful))


def _possibly_of(
    store: UndoStore, ref: TurnRef, window: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The changes in no turn that one of a turn's calls may have made, as their events list the causes."""
    listed = [
        (event, (event["payload"] or {}).get("causes", ())) for event in window if event["turn"] is None
    ]
    if not any(causes for _, causes in listed):
        return []
    which = {"session_id": ref.session_id, "turn": ref.turn, "event_types": _OF_CALLS}
    calls = {str(e["event_id"]) for e in store.rows(ref.since, ref.until, columns=("event_id",), **which)}
    return [event for event, causes in listed if not calls.isdisjoint(map(str, causes))]


def _changes_of(store: UndoStore, events: Iterable[Mapping[str, Any]]) -> tuple[list[RecordedChange], Listed]:
    return changes_of(events, DeferredContents(store.blobs, store.rows), store.rows)


def _beside_events(
    store: UndoStore, ref: TurnRef, window: Sequence[Mapping[str, Any]]
) -> tuple[list[RecordedChange], Listed]:
    """What differs between the trees of a turn, and no event of anybody names."""
    try:
        before, after = trees_of(store.rows, store.blobs, ref, "start", "end", running=_running(store, ref))
        comparison = compare(before, after)
    except (NoTree, NotFound, Corruption):
        return [], []  # the events are all that is known
    named = {path for event in window for path in paths_of(event)}
    rest = [c for c in comparison.changes if c.path not in named and c.old_path not in named]
    if not rest:
        return [], []
    others = store.rows(ref.since, ref.until, columns=("session_id", "agent"))
    if any(e["session_id"] not in (ref.session_id, None) and e["agent"] != "locus" for e in others):
        why = "it changed while others worked too, and nothing says by whom"
        return [], [(change.path, why) for change in rest]
    position = (ref.until or 1) - 1
    return [_of_trees(change, position, before, after) for change in rest], []


def _of_trees(change: PathChange, position: int, before: TreeState, after: TreeState) -> RecordedChange:
    sides: list[State | None] = []
    unknown = None
    for entry, tree in ((change.before, before), (change.after, after)):
        if entry is not None and entry.kind in (SKIPPED, SUBMODULE):
            unknown = "what was there was not captured"
        if entry is None or unknown:
            sides.append(None)
        elif entry.kind == DIRECTORY:
            sides.append(State(DIRECTORY, None, NO_ID, 0))
        else:
            entry = hashed(tree.blobs, entry)
            sides.append(state_of_entry(entry.kind, entry.id, entry.size))
    old_path = None if change.before is None else change.old_path or change.path
    new_path = None if change.after is None else change.path
    return RecordedChange(old_path, sides[0], new_path, sides[1], position, unknown)


def _refuse_event_elsewhere(event: Mapping[str, Any], done: _Done) -> None:
    """Raises: Refused for an event of another worktree, when no directory was named."""
    if not done.by_name and event["worktree"] not in (None, done.worktree):
        raise Refused(
            f"event {event['event_id']} was in the git worktree {event['worktree']}. Nothing was touched; to "
            "change that worktree, name its directory with --into."
        )


def _of_action(store: UndoStore, name: str, done: _Done) -> _Target:
    action = store.event(name)
    _refuse_event_elsewhere(action, done)
    id = str(action["event_id"])
    since = int(str(action["position"]))
    caused = [e for e in store.rows(event_types=("file",), columns=COLUMNS) if e["cause"] == id]
    changes, unknown = _changes_of(store, caused)
    if not caused:
        raise NotFound(
            f"event {id} (position {since}) changed no file. `locus timeline` lists those that did."
        )
    return _Target(f"event:{id}", tuple(changes), unknown)


def _of_event(store: UndoStore, name: str, done: _Done) -> _Target:
    event = store.event(name)
    operation = done.all.named(str(event["event_id"]))
    if operation is not None:
        return _of_operation(store, operation)
    if event["event_type"] == "file":
        _refuse_event_elsewhere(event, done)
        changes, unknown = _changes_of(store, [event])
        return _Target(f"event:{event['event_id']}", tuple(changes), unknown)
    return _of_action(store, name, done)


def _of_operation(store: UndoStore, operation: Operation) -> _Target:
    """What a restore, undo or redo did, from its plan document."""
    document = read_plan(store.blobs, operation.plan)
    changes = [
        RecordedChange(
            None if step.before is None else step.path,
            step.before,
            None if step.after is None else step.path,
            step.after,
            operation.position,
        )
        for step in document.steps
    ]
    return _Target(f"event:{operation.id}", tuple(changes), operation=operation.id)


# -- what that does to the directory ---------------------------------------------------------------------


def _plan(
    store: UndoStore,
    operation: str,
    targets: Sequence[_Target],
    paths: Sequence[str],
    into: str | os.PathLike[str] | None,
    conflicts: str,
    undo_of: str | None,
) -> UndoPlan:
    wishes = selection(paths)
    of = tuple(target.name for target in targets)
    changes, doubtful = _chosen(targets, wishes)
    skipped = [
        (path, why) for target in targets for path, why in target.unknown if is_wanted((path,), wishes)
    ]
    skipped += [(change.path, "it changed in this turn, by whom is not known") for change in doubtful]
    if skipped and not changes and all(path == ERASED_PATHS for path, _ in skipped):
        raise ErasedChanges(of, skipped[0][1])
    if wishes and not changes and not skipped:
        names = ", ".join(map(path_text, wishes))
        raise NotFound(
            f"{', '.join(of)} did not change {names}. `locus undo --dry-run` shows what it changed."
        )
    with target_directory(store.layout.root, into) as directory:
        work = _work(store, directory, of[0] if of else "", conflicts)
        work.take_back(changes)
        skipped += work.missing
        refused = [(conflict.path, conflict.why) for conflict in work.conflicts]
        if conflicts != REFUSE:
            skipped += refused
            refused = []
        plan = make_plan(
            directory,
            wanted_of(work.writes(), work.state_at),
            store.blobs,
            RestoreGoal(of[0].partition(":")[2] if of else "", "start", undo_of=undo_of),
            contents=work.made,
            bound=[operation, *of],
        )
    merged = sorted(path for path, how in work.outcomes.items() if how in (MERGED, MARKED))
    notes = {
        "operation_of": operation,
        "of": list(of),
        "paths": [path_text(path) for path in wishes],
        "merged": [path_text(path) for path in merged],
        "skipped": [[path_text(path), why] for path, why in sorted(skipped)],
    }
    values: dict[str, Any] = {f.name: getattr(plan, f.name) for f in fields(RestorePlan)}
    values |= {
        "conflicts": sorted([*plan.conflicts, *refused]),
        "title": f"{operation.capitalize()} {', '.join(of)}",
        "notes": notes,
        "operation": operation,
        "of": of,
        "outcomes": work.outcomes,
        "clashes": tuple(work.conflicts),
        "skipped": sorted(skipped),
        "changes": tuple(changes),
        "recorded": frozenset(side.id for c in changes for side in (c.before, c.after) if side is not None),
    }
    return UndoPlan(**values)


def _chosen(
    targets: Sequence[_Target], wishes: Sequence[bytes]
) -> tuple[list[RecordedChange], list[RecordedChange]]:
    """The changes that are taken back, oldest first, and the doubtful ones that are left alone.

    Args: wishes: the only paths to change; none for all that is certain.
    """
    certain = [c for target in targets for c in target.changes if is_wanted(c.paths, wishes)]
    doubtful = [c for target in targets for c in target.doubtful if is_wanted(c.paths, wishes)]
    if wishes and doubtful:
        return sorted([*certain, *doubtful], key=lambda change: change.position), []
    return certain, doubtful


def _work(store: UndoStore, directory: OpenDirectory, name: str, conflicts: str) -> TakeBack:
    states: dict[bytes, State | None] = {}

    def state_at(path: bytes) -> State | None:
        if path not in states:
            try:
                states[path] = directory.state_at(path)[0]
            except OSError as error:
                raise NotFound(f"{path_text(path)} cannot be read: {error.strerror}") from error
        return states[path]

    def names(path: bytes) -> Mapping[bytes, bool] | None:
        try:
            return directory.names(path)
        except OSError as error:
            raise NotFound(f"{path_text(path)} cannot be listed: {error.strerror}") from error

    return TakeBack(
        state_at=state_at,
        names=names,
        read=lambda path: directory.read(path)[2],
        content=store.blobs.get,
        moved=moves_in(store.rows),
        name=name,
        markers=conflicts == MARKERS,
    )


def wanted_of(writes: Mapping[bytes, State | None], state_at: Callable[[bytes], State | None]) -> Wanted:
    """What has to be at some paths, None for nothing. Args: state_at: what is at a path now."""
    wanted = Wanted(whole=False)
    for path, state in writes.items():
        if state is not None:
            for above in ways(path)[1:]:  # the directories that it needs
                wanted.entries.setdefault(above, State(DIRECTORY, None, NO_ID, 0))
            wanted.entries[path] = state
    for path in writes:
        now = state_at(path)
        if now is not None and now.kind == SYMLINK:
            wanted.links.add(path)
        if path in wanted.entries:
            continue  # also where a directory takes the place of the file that goes
        if now is not None and now.kind == DIRECTORY:
            wanted.gone_dirs.add(path)
        else:
            wanted.gone.add(path)
    for path in wanted.gone:
        wanted.gone_dirs.update(above for above in ways(path)[1:] if above not in wanted.entries)
    return wanted
