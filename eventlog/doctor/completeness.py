"""What a session's record holds of what happened, and what it lacks: a fold of the log (P7).

Tool calls are counted by the agent's own id of the call. One is *seen* when any event names it: a start,
an action, a hook that was kept as it came, a batch that lists it. It is *captured* when its outcome is in the
log. An action without such an id is a call of its own. What the log cannot show is None, not zero.

Reads only; may be called at once with anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventlog.base import activity
from eventlog.base.errors import EventLogError, NotFound
from eventlog.replay import certainty

if TYPE_CHECKING:
    from eventlog.store import Store

# Hooks kept raw that report an outcome, and the one that lists calls.
_OUTCOMES = frozenset(("PostToolUse", "PostToolUseFailure", "AfterTool", "postToolUse", "postToolUseFailure"))
_BATCH = "PostToolBatch"
# Captures without a word, or the first one of a directory, which show no changes.
_WHOLE = (None, "baseline")

_NAMED_MAX = 3  # skipped paths that the sentence names
_COLUMNS = tuple(dict.fromkeys((
    *certainty.COLUMNS, "tool_use_id", "agent", "agent_session_id", "agent_turn_id", "turn", "turn_id",
    "payload",
)))  # fmt: skip
_BOUNDS = "select first_position, last_position + 1 from sessions where session_id = $1"
# Ends of turns whose files are not those of a capture at that moment (docs/certainty.md).
_UNSURE = (certainty.FAILED, certainty.UNFINISHED)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path whose content the last snapshot does not hold."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnsureTurn:
    """A turn whose files at its end are not known: its name, the state of its end, and why."""

    turn: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class Completeness:
    """The statement about one session. None is unknown.

    `without_outcome` are the ids of calls of which only the beginning is known. `partial` counts the
    captures of the working directory that did not see all of it; the next whole one recorded the rest.
    `skipped` is what the session's last snapshot leaves out; None when there is none, or it cannot be read.
    `ignored` is how many entries git ignored at that snapshot and were left out, a directory as one; None is
    unknown. `unsure_turns` are those that hooks reported and whose last capture failed, or whose end nobody
    saw.
    """

    session_id: str
    ended: bool
    tool_calls: int | None
    captured: int | None
    without_outcome: tuple[str, ...]
    partial: int | None
    skipped: tuple[Skipped, ...] | None
    unsure_turns: tuple[UnsureTurn, ...] = ()
    ignored: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return not (self.tool_calls != self.captured or self.partial or self.skipped or self.unsure_turns)

    def __str__(self) -> str:
        parts = [
            "tool calls unknown"
            if self.tool_calls is None
            else f"captured {self.captured:,} of {self.tool_calls:,} tool calls"
        ]
        if self.partial:
            parts.append(f"{self.partial:,} {'capture' if self.partial == 1 else 'captures'} partial")
        if self.unsure_turns:
            number = len(self.unsure_turns)
            parts.append(f"the files at the end of {number:,} {'turn' if number == 1 else 'turns'} unknown")
        parts.append(_skipped_text(self.skipped))
        if self.ignored:
            parts.append(f"{self.ignored:,} ignored {'entry' if self.ignored == 1 else 'entries'} left out")
        return ", ".join(parts)


def completeness(store: "Store", session_id: str) -> Completeness:
    """The statement about a session, as the log is now. Raises: NotFound."""
    fold = _Fold(session_id)
    bounds = store.query(_BOUNDS, [session_id]).rows
    since, until = bounds[0] if bounds else (0, None)
    events = store.events(since, until, session_id=session_id, columns=_COLUMNS)
    for event in events:
        fold.take(event)
    if not fold.count:
        raise NotFound(f"no session is called {session_id!r}. `locus session ls --all` lists them.")
    return Completeness(
        session_id=session_id,
        ended=fold.ended,
        tool_calls=len(fold.seen) + fold.unnamed if fold.could_tell else None,
        captured=len(fold.captured) + fold.unnamed if fold.could_tell else None,
        without_outcome=tuple(sorted(fold.seen - fold.captured)),
        partial=fold.partial if fold.has_hooks else None,
        skipped=skipped_in(store, fold.tree_hash),
        unsure_turns=tuple(_unsure(store, fold)) if fold.has_hooks else (),
        ignored=fold.ignored,
    )


def _unsure(store: "Store", fold: "_Fold") -> Iterator[UnsureTurn]:
    """The turns of a session whose end is failed or unfinished; those under way are not at their end."""
    now_s = store.fs.time_ns() / 1e9
    under_way = {
        (turn.agent, turn.session, turn.turn)
        for turn in activity.open_turns(store.layout)
        if turn.state(now_s) != activity.DEAD
    }
    for number, events in sorted(fold.turns.items()):
        last = events[-1]
        is_running = (last["agent"], last["agent_session_id"], last["agent_turn_id"]) in under_way
        certainty_of_turn = certainty.certainty_of(events, running=is_running)
        if certainty_of_turn.state in _UNSURE:
            name = last["turn_id"] or f"{number:03d}"
            yield UnsureTurn(f"{fold.session_id}_{name}", certainty_of_turn.state, certainty_of_turn.why)


def skipped_in(store: "Store", tree_hash: str | None) -> tuple[Skipped, ...] | None:
    """The paths that a tree leaves out, with the reasons; None when the tree is not to be had."""
    from eventlog.base.paths import path_text
    from eventlog.blobs.ids import from_text
    from eventlog.blobs.tree import SKIPPED
    from eventlog.checkout.materialize import walk
    from eventlog.replay.deferred import DeferredContents

    if tree_hash is None:
        return None
    deferred = DeferredContents(store.blobs, store.events)
    try:
        entries = (
            (path, deferred.entry(entry, path))
            for path, entry in walk(store.blobs, from_text(tree_hash))
            if entry.kind == SKIPPED
        )
        return tuple(
            Skipped(path_text(path), store.blobs.get(entry.id).decode("utf-8", "replace"))
            for path, entry in entries
            if entry.kind == SKIPPED
        )
    except EventLogError:
        return None  # `verify` says what is wrong with it


class _Fold:
    """What the events of one session say, in order of position."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.count = 0
        self.turns: dict[int, list[Mapping[str, Any]]] = {}  # what their certainty rests on
        self.ended = False
        self.seen: set[str] = set()
        self.captured: set[str] = set()
        self.unnamed = 0
        self.could_tell = self.has_hooks = False
        self.partial = 0
        self.tree_hash: str | None = None
        self.ignored: int | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        self.count += 1
        kind, operation = event["event_type"], event["operation"]
        payload = event["payload"] if isinstance(event["payload"], dict) else {}
        if kind == "session":
            self.ended = operation == "end"
        elif kind == "snapshot" and event["tree_hash"] is not None:
            self.tree_hash = event["tree_hash"]
            count = payload.get("ignored_count")
            self.ignored = count if isinstance(count, int) else None
        if kind == "hook" or "hook_us" in payload:
            self.could_tell = self.has_hooks = True
        self.partial += not is_whole(payload.get("capture"))
        if event["turn"] is not None and (kind == "turn" or certainty.is_capture(event)):
            self.turns.setdefault(event["turn"], []).append(event)
        self._tool(kind, operation, event, payload)

    def _tool(self, kind: str, operation: object, event: Mapping[str, Any], payload: dict[str, Any]) -> None:
        id = event["tool_use_id"]
        if kind in ("action", "tool_start"):
            self.could_tell = True
        if id is not None and kind in ("action", "tool_start", "hook"):
            self.seen.add(id)
            has_outcome = event["success"] is not None or payload.get("result") is not None
            if (kind == "action" and has_outcome) or (kind == "hook" and operation in _OUTCOMES):
                self.captured.add(id)
        elif id is None and kind == "action":
            self.unnamed += 1
        if kind == "hook" and operation == _BATCH:
            listed = set(_ids_of(payload.get("tool_calls")))
            self.seen |= listed
            self.captured |= listed  # a batch has what the model was answered


def is_whole(capture: object) -> bool:
    """Whether a capture, as its event describes it, saw all it should."""
    if isinstance(capture, Mapping):
        capture = capture.get("state")
    return capture in _WHOLE


def _ids_of(calls: object) -> Iterable[str]:
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and isinstance(call.get("tool_use_id"), str):
            yield call["tool_use_id"]


def _skipped_text(skipped: tuple[Skipped, ...] | None) -> str:
    if skipped is None:
        return "files unknown: no snapshot"
    if not skipped:
        return "no file skipped"
    named = ", ".join(f"{entry.path} ({entry.reason})" for entry in skipped[:_NAMED_MAX])
    more = f" and {len(skipped) - _NAMED_MAX:,} more" if len(skipped) > _NAMED_MAX else ""
    return f"{len(skipped):,} {'file' if len(skipped) == 1 else 'files'} skipped: {named}{more}"
