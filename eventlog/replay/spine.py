"""The spine: the files of every moment, as what changed since an earlier one (docs/view.md).

For each turn, in the order in which turns happened, two stops: its start and its end. A stop has the changes
from the files of its `base`, the last stop before it with a whole tree, so that all trees of a store cost
what changed and not what there is. Changes depend on two trees alone; `KnownChanges` keeps them. Reads the
log by SQL, hundreds of turns at a time, and trees as they are needed. One thread.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eventlog.base.errors import Corruption, EventLogError, NotFound, NoTree
from eventlog.base.types import Event
from eventlog.projections.definitions import TURNS_NEWEST_FIRST
from eventlog.query.lookup import Query, TurnRef, find_session
from eventlog.replay.certainty import EXACT, NONE, Certainty
from eventlog.replay.deferred import DeferredContents, content_events_by_sql
from eventlog.replay.leaf_changes import LeafChange, LeafChanges, TooManyChanges, leaf_changes
from eventlog.replay.partial_tree import trees_in
from eventlog.replay.trees import Running, TreeState, recorded_tree, runs
from eventlog.replay.turn_events import OF_PROCESS, TurnKey, events_of_turns

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore

# What a stop's files come from.
TREE, PARTIAL, NO_FILES = "tree", "partial", "none"
NO_BASE = -1

# Of one spine: a larger one is cut to its newest turns, and says so.
CHANGES_MAX = 200_000

_TURNS_AT_ONCE = 512

_TURNS = f"""
    select session_id, turn, first_position, last_position + 1, start_tree, end_tree, start_certainty,
        end_certainty
    from turns where {{condition}} order by {TURNS_NEWEST_FIRST}"""
# Snapshots that name lists of deferred contents: columns do not show what became of these.
_WITH_LISTS = """
    select distinct session_id, turn from events
    where event_type = 'snapshot' and turn is not null and contains(payload, '"lists"')"""


@dataclass(frozen=True, slots=True)
class SpineStop:
    """The start or the end (`at`) of a turn.

    `changes` make its files of those of the stop with the number `base`; of the empty tree, where that is -1.
    `files` counts them, None where that is not known. `state` and `why` are its certainty's. `source` is
    "tree"; "partial": only the files that tool calls name; or "none": it has no files, and no changes.
    """

    turn: TurnRef
    at: str
    base: int
    files: int | None
    state: str
    why: str
    source: str
    changes: tuple[LeafChange, ...]


@dataclass(frozen=True, slots=True)
class Spine:
    """The stops of turns, in the order in which these happened. `session` is None for all of the repository.

    `until` is the position up to which all events are in it. `cut` says why it lacks turns or files, None
    where it has all.
    """

    session: str | None
    until: int
    stops: tuple[SpineStop, ...]
    cut: str | None = None


class KnownChanges(Protocol):
    """Changes between trees, by the ids of both; the first is None for the empty tree."""

    def get(self, before: bytes | None, after: bytes) -> LeafChanges | None: ...
    def put(self, before: bytes | None, after: bytes, changes: LeafChanges) -> None: ...


class SpineStore(Protocol):
    """What a spine needs of a store."""

    blobs: "BlobStore"

    @property
    def query(self) -> Query: ...


@dataclass(frozen=True, slots=True)
class _Turn:
    ref: TurnRef
    trees: tuple[str | None, str | None]  # at start and end, where its columns say all
    key: TurnKey


def spine(
    store: SpineStore,
    until: int,
    known: KnownChanges,
    running: Callable[[TurnRef], Running],
    session: str | None = None,
) -> Spine:
    """The spine of a session, or of all turns that a line of the repository reaches.

    Args: until: the position after the last event when the caller asked; session: its id, or a unique
    beginning. Raises: NotFound, Ambiguous (the session), Corruption.
    """
    session = None if session is None else find_session(store.query, session)
    maker = _Maker(store, known, running)
    turns = _turns(store.query, session)
    count = len(turns)
    while True:
        try:
            stops = maker.stops(turns)
            cut = None if len(turns) == count else f"only the newest {len(turns):,} of {count:,} turns"
            return Spine(session, until, stops, cut and f"{cut}, since there are too many changes")
        except TooManyChanges:
            if len(turns) == 1:
                return Spine(session, until, (), "one tree alone has too many files")
            turns = turns[(len(turns) + 1) // 2 :]


def _turns(query: Query, session: str | None) -> list[_Turn]:
    condition = "rewritten is not true" if session is None else "session_id = $1"
    rows = query(_TURNS.format(condition=condition), [] if session is None else [session]).rows
    with_lists = set(query(_WITH_LISTS, []).rows)
    turns = []
    for session_id, turn, since, until, start, end, at_start, at_end in reversed(rows):
        plain = at_start == at_end == EXACT and (session_id, turn) not in with_lists
        ref = TurnRef(session_id, turn, since, until)
        turns.append(_Turn(ref, (start, end) if plain else (None, None), (session_id, turn)))
    return turns


class _Maker:
    """Makes the stops of turns."""

    def __init__(self, store: SpineStore, known: KnownChanges, running: Callable[[TurnRef], Running]) -> None:
        self._query = store.query
        self._blobs = store.blobs
        self._known = known
        self._running = running
        self._deferred = DeferredContents(store.blobs, content_events_by_sql(store.query))

    def stops(self, turns: Sequence[_Turn]) -> tuple[SpineStop, ...]:
        """Raises: TooManyChanges, Corruption."""
        stops: list[SpineStop] = []
        last: tuple[int, TreeState] | None = None  # the last stop with a whole tree
        left = CHANGES_MAX
        for ref, states in self._states(turns):
            before = last
            for at, state in zip(("start", "end"), states, strict=True):
                stop = self._stop(ref, at, state, before, stops, left)
                left -= len(stop.changes)
                stops.append(stop)
                if isinstance(state, TreeState) and stop.source != NO_FILES:
                    before = len(stops) - 1, state
                    last = before if stop.source == TREE else last
        return tuple(stops)

    def _stop(
        self,
        ref: TurnRef,
        at: str,
        state: "TreeState | Certainty",
        before: "tuple[int, TreeState] | None",
        stops: Sequence[SpineStop],
        left: int,
    ) -> SpineStop:
        if isinstance(state, Certainty):
            return self._without_files(ref, at, state, before, stops)
        known = state.certainty
        source = TREE if state.snapshot or known.state != NONE else PARTIAL
        if source == PARTIAL and at == "start":
            before = None
        try:
            base, differing = self._since(before, state, left)
        except EventLogError as error:
            if isinstance(error, TooManyChanges):
                raise
            return self._without_files(ref, at, _unreadable(error), before, stops)
        files = differing.added + ((stops[base].files or 0) if base >= 0 else 0)
        return SpineStop(ref, at, base, files, known.state, known.why, source, differing.changes)

    def _without_files(
        self,
        ref: TurnRef,
        at: str,
        known: Certainty,
        before: "tuple[int, TreeState] | None",
        stops: Sequence[SpineStop],
    ) -> SpineStop:
        base = NO_BASE if before is None else before[0]
        files = None if before is None else stops[base].files
        return SpineStop(ref, at, base, files, known.state, known.why, NO_FILES, ())

    def _since(
        self, before: "tuple[int, TreeState] | None", state: TreeState, left: int
    ) -> "tuple[int, LeafChanges]":
        """The base of a stop, and its changes; from the empty tree where the one before is gone."""
        if before is not None:
            try:
                return before[0], self._changes(before[1], state, left)
            except (NotFound, Corruption):
                pass  # what is wrong with the later tree shows now
        return NO_BASE, self._changes(None, state, left)

    def _changes(self, before: TreeState | None, after: TreeState, left: int) -> LeafChanges:
        id = None if before is None else before.root
        if id == after.root:
            return _NOTHING
        changes = self._known.get(id, after.root)
        if changes is None:
            changes = leaf_changes(before, after, left)
            if changes.lasting:
                self._known.put(id, after.root, changes)
        if len(changes.changes) > left:
            raise TooManyChanges("more files differ than can be listed")
        return changes

    # -- the trees at the stops --------------------------------------------------------------------

    def _states(
        self, turns: Sequence[_Turn]
    ) -> Iterator[tuple[TurnRef, "tuple[TreeState | Certainty, TreeState | Certainty]"]]:
        """The trees at the start and the end of each turn; how well its files are known where it has none."""
        for first in range(0, len(turns), _TURNS_AT_ONCE):
            group = turns[first : first + _TURNS_AT_ONCE]
            events = events_of_turns(
                self._query, [turn.ref for turn in group if None in turn.trees], OF_PROCESS
            )
            for turn in group:
                yield turn.ref, self._of_turn(turn, events.get(turn.key, []))

    def _of_turn(
        self, turn: _Turn, events: Sequence[Event]
    ) -> "tuple[TreeState | Certainty, TreeState | Certainty]":
        name, (start, end) = turn.ref.name, turn.trees
        try:
            if start is not None and end is not None:
                return (
                    recorded_tree(self._deferred, self._blobs, name, "start", start),
                    recorded_tree(self._deferred, self._blobs, name, "end", end),
                )
            running = runs(events, self._running(turn.ref))
            states = trees_in(events, self._blobs, name, ("start", "end"), self._deferred, running=running)
            return states[0], states[1]
        except NoTree as error:
            return error.known, error.known
        except EventLogError as error:
            return _unreadable(error), _unreadable(error)


def _unreadable(error: EventLogError) -> Certainty:
    return Certainty(NONE, f"its files cannot be read: {error}")


_NOTHING = LeafChanges((), 0, True)
