"""A turn as a page: its prompt, what the agent wrote, and each call once with its result (docs/reading.md).

`PageReader.turn` makes it from the events of the turn, in the order in which they happened. A page holds
texts as they were recorded: what renders it makes them harmless. Withheld contents give no text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventlog.base.display import call_target, event_words
from eventlog.blobs.payload_texts import payload_with_texts
from eventlog.log.erasures import TextErasures
from eventlog.projections.happened import happened_at, in_order_of_time
from eventlog.query.lookup import TurnRef
from eventlog.replay.certainty import changes_without_events, status_words
from eventlog.replay.diffs import diff_of
from eventlog.undo.plan import operations_of

if TYPE_CHECKING:
    from eventlog.projections.operations import Operations
    from eventlog.store import Store

USER, AGENT, THINKING = "user", "agent", "thinking"

# Of more changes than these, a call's files are summed up, and no diff is made.
CHANGES_SHOWN = 8

# What a page has of its turn's row in the view `turns`.
_ANCHOR = (
    "title", "agent", "models", "status", "started_at", "completed_at", "duration_ms", "tool_calls", "errors",
    "prompt_tokens", "completion_tokens", "cost_usd", "unpriced_calls",
)  # fmt: skip

_CALLS = frozenset(("action", "mcp_action"))
_NOTES = frozenset(("decision", "restore", "subagent"))
_NOTED_LINES = frozenset(("interrupted", "compact_boundary"))  # of transcripts

# What a tool gave back, the most telling member first; agents spell it in different ways.
_RESULT_TEXTS = (
    "stdout", "stderr", "output", "content", "text", "message", "llmContent", "returnDisplay", "error",
    "response", "functionResponse", "result",
)  # fmt: skip
_NESTED_MAX = 6  # levels of a result that are read
# Sequences that colour a terminal or move its cursor; a tool's result is full of them.
_TERMINAL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# What a tool says about a command before what the command printed.
_ABOUT_OUTPUT = re.compile(r"\A(?:[A-Z][^\n]{0,80}\n){1,6}Output:\n?")


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A file that changed. `diff` is None where a content is binary, unknown or withheld, or not wanted."""

    event_id: str
    path: str
    old_path: "str | None"
    operation: str
    lines_added: "int | None"
    lines_removed: "int | None"
    withheld: bool
    diff: "str | None" = None


@dataclass(frozen=True, slots=True)
class WordsBlock:
    """What somebody wrote: USER, AGENT or THINKING. `at` is in microseconds since 1970, None if unknown."""

    event_id: str
    at: "int | None"
    author: str
    text: str
    subagent_id: "str | None" = None


@dataclass(frozen=True, slots=True)
class CallBlock:
    """One call of a tool. `success` is None where nobody knows, `ended` False where no end was recorded."""

    event_id: str
    at: "int | None"
    tool: str
    target: str
    success: "bool | None"
    ended: bool
    duration_ms: "int | None"
    result: str
    subagent_id: "str | None"
    changes: tuple[ShownChange, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangesBlock:
    """Files that changed while no call explains it: by a person, or another program."""

    at: "int | None"
    changes: tuple[ShownChange, ...]


@dataclass(frozen=True, slots=True)
class NoteBlock:
    """Something else that a reader wants to know, in one line."""

    event_id: str
    at: "int | None"
    text: str


# Gives the row of a turn in the view `turns`, with the columns that an anchor has.
RowOf = Callable[[TurnRef], Mapping[str, Any]]
Block = WordsBlock | CallBlock | ChangesBlock | NoteBlock


@dataclass(frozen=True, slots=True)
class TurnPage:
    """A turn to read. `anchor` has columns of its row in the view `turns`; `uncertain` says what of its files
    is not known exactly; `undone_at` is when all of it was taken back, in microseconds since 1970."""

    turn: TurnRef
    anchor: Mapping[str, Any]
    status: str
    uncertain: str
    undone_at: "int | None"
    blocks: tuple[Block, ...]


class PageReader:
    """Makes the pages of a store's turns, for one answer: what it has read it keeps. One thread."""

    def __init__(self, store: "Store", row_of: "RowOf | None" = None, *, whole: bool = False) -> None:
        """Args: row_of: gives the row of a turn in the view `turns`, from a caller that keeps them; whole:
        with the diffs of all changes, and what the agent thought."""
        self._store = store
        self._row_of = row_of or self._asked
        self._whole = whole
        self._withheld = store.withheld()
        self._erasures = TextErasures(store.rows)
        self._operations: Operations | None = None
        self._anchors: tuple[str, dict[int, dict[str, Any]]] = ("", {})  # of the session read last

    def turn(self, turn: TurnRef) -> TurnPage:
        """Raises: NotFound, Corruption."""
        events = self._store.timeline(turn)  # first, with all that is read of it afterwards
        certainty = self._store.certainty(turn)
        row = self._row_of(turn)
        anchor = {name: row[name] for name in _ANCHOR}
        return TurnPage(
            turn,
            anchor,
            status_words(anchor["status"], certainty),
            "" if certainty.exact else f"{certainty.state}: {certainty.why}",
            self._undone_at(turn),
            tuple(self._blocks(events)),
        )

    def _asked(self, turn: TurnRef) -> "Mapping[str, Any]":
        """The turn's row; those of a session are read at once, for its pages follow each other."""
        session, anchors = self._anchors
        if session != turn.session_id or turn.turn not in anchors:
            result = self._store.query(
                f"select turn, {', '.join(_ANCHOR)} from turns where session_id = $1", [turn.session_id]
            )
            anchors = {row[0]: dict(zip(_ANCHOR, row[1:], strict=True)) for row in result.rows}
            self._anchors = turn.session_id, anchors
        return anchors[turn.turn]

    def _undone_at(self, turn: TurnRef) -> "int | None":
        if self._operations is None:
            self._operations = operations_of(self._store)
        undo = self._operations.undo_of_turn(turn.context_id)
        return None if undo is None else undo.recorded_at

    # -- blocks ------------------------------------------------------------------------------------

    def _blocks(self, events: "Sequence[Any]") -> Iterator[Block]:
        calls = _Calls(events)
        self._store.line_counts.fill([event for event in events if event["event_type"] == "file"])
        written: set[str] = set()
        beside: list[Mapping[str, Any]] = []
        for event in in_order_of_time(events):
            why_erased = self._erasures.why(event)
            if event["event_type"] == "file" and why_erased is None:
                if event["operation"] != "read" and not calls.explain(event):
                    beside.append(event)
                continue
            if why_erased is None:
                block = self._block(event, calls, written)
            else:
                block = _erased(event, why_erased, written)
            if block is None:
                continue
            if beside:
                yield self._beside(beside)
                beside = []
            yield block
        if beside:
            yield self._beside(beside)

    def _block(self, event: "Mapping[str, Any]", calls: "_Calls", written: "set[str]") -> "Block | None":
        """What an event adds to the page. Args: written: texts that are on it; this one joins them."""
        kind, payload = event["event_type"], event["payload"] or {}
        if kind in _CALLS or kind == "tool_start":
            return self._call(event, calls)
        if kind == "intent":
            return _words(event, USER, payload.get("message"), written)
        if kind == "message":
            author = AGENT if event["operation"] == "text" else THINKING
            if author == THINKING and not self._whole:
                return None
            return _words(event, author, self._payload(event).get("text"), written)
        if kind == "turn" and event["operation"] == "start":
            return _words(event, USER, payload.get("user_message"), written)
        if kind == "turn" and event["operation"] == "end":
            return _words(event, AGENT, payload.get("outcome"), written)
        if kind == "error" and not calls.has_call_of(event):
            return NoteBlock(event["event_id"], happened_at(event), f"error: {event_words(event)}")
        if kind == "snapshot" and (changes := changes_without_events(event)):
            return NoteBlock(event["event_id"], happened_at(event), _too_many_changes(event, changes))
        if kind in _NOTES or (kind == "transcript" and event["operation"] in _NOTED_LINES):
            return NoteBlock(event["event_id"], happened_at(event), _noted(event))
        return None

    def _call(self, event: "Mapping[str, Any]", calls: "_Calls") -> "CallBlock | None":
        """The call that begins with this event; None where it is on the page already."""
        if calls.start_of(event) is not event:
            return None
        end = calls.end_of(event)
        recorded = end or event
        payload = self._payload(recorded)
        args = (event["payload"] or {}).get("args") or payload.get("args")
        return CallBlock(
            recorded["event_id"],
            happened_at(event),
            recorded["tool"] or event["tool"] or "",
            call_target(recorded["path"], args) or "",
            None if end is None else end["success"],
            end is not None,
            None if end is None else end["duration_ms"],
            result_text(payload),
            recorded["subagent_id"],
            self._changes(calls.changes_of(recorded)),
        )

    def _beside(self, events: "Sequence[Mapping[str, Any]]") -> ChangesBlock:
        return ChangesBlock(happened_at(events[0]), self._changes(events))

    def _changes(self, events: "Sequence[Mapping[str, Any]]") -> tuple[ShownChange, ...]:
        with_diff = self._whole or len(events) <= CHANGES_SHOWN
        return tuple(self._change(event, with_diff=with_diff) for event in events)

    def _change(self, event: "Mapping[str, Any]", *, with_diff: bool) -> ShownChange:
        withheld = not self._withheld.isdisjoint({event["before_hash"], event["after_hash"]})
        return ShownChange(
            event["event_id"],
            event["path"] or "",
            (event["payload"] or {}).get("old_path"),
            event["operation"] or "",
            event["lines_added"],
            event["lines_removed"],
            withheld,
            diff_of(event, self._store.blobs) if with_diff and not withheld else None,
        )

    def _payload(self, event: "Mapping[str, Any]") -> "Mapping[str, Any]":
        """The payload with its long texts, which are stored apart."""
        filled: Mapping[str, Any] = payload_with_texts(self._store, event["payload"]) or {}
        return filled


def _erased(event: "Mapping[str, Any]", why: str, written: "set[str]") -> "NoteBlock | None":
    """What stands for all events of an erasure that have lost their texts and paths: one note."""
    if why in written:
        return None
    written.add(why)
    return NoteBlock(event["event_id"], happened_at(event), f"what was recorded here is gone: {why}")


def _words(event: "Mapping[str, Any]", author: str, text: object, written: "set[str]") -> "WordsBlock | None":
    if not isinstance(text, str) or not text.strip() or text.strip() in written:
        return None
    written.add(text.strip())
    return WordsBlock(event["event_id"], happened_at(event), author, text.strip("\n"), event["subagent_id"])


def _noted(event: "Mapping[str, Any]") -> str:
    kind = event["operation"] if event["event_type"] == "transcript" else event["event_type"]
    words = event_words(event)
    return f"{kind}: {words}" if words and words != kind else str(kind).replace("_", " ")


def _too_many_changes(event: "Mapping[str, Any]", changes: int) -> str:
    turn = f"{event['session_id']}_{event['turn_id']}"
    return f"{changes:,} files changed at once, too many for an event each: `locus diff {turn}` shows them"


@dataclass(slots=True)
class _Calls:
    """The events of a turn's calls: which start belongs to which end, and which changes to which call."""

    events: "Sequence[Mapping[str, Any]]"
    _end_of: "dict[str, Mapping[str, Any]]" = field(default_factory=dict)  # by the id of the start
    _start_of: "dict[str, Mapping[str, Any]]" = field(default_factory=dict)  # by the id of the end
    _changes: "dict[str, list[Mapping[str, Any]]]" = field(default_factory=dict)  # by the id of the end
    _by_use: "dict[str, str]" = field(default_factory=dict)  # the same, by the agent's id of the call

    def __post_init__(self) -> None:
        open_starts: list[Mapping[str, Any]] = []
        # In the order of the log: by their times an end may come before its start, where clocks disagree.
        for event in sorted(self.events, key=lambda event: int(event["position"])):
            if event["event_type"] == "tool_start":
                open_starts.append(event)
            elif event["event_type"] in _CALLS:
                self._changes[event["event_id"]] = []
                if event["tool_use_id"]:
                    self._by_use[event["tool_use_id"]] = event["event_id"]
                start = next((start for start in open_starts if _is_end(event, start)), None)
                if start is not None:
                    open_starts.remove(start)
                    self._end_of[start["event_id"]] = event
                    self._start_of[event["event_id"]] = start
        for event in self.events:
            if event["event_type"] == "file" and event["operation"] != "read" and self.explain(event):
                self._changes[self._call_of(event)].append(event)

    def _call_of(self, change: "Mapping[str, Any]") -> str:
        """The id of the end of the call that made a change; "" or an unknown one where none did."""
        return str(change["cause"] or self._by_use.get(change["tool_use_id"] or "", ""))

    def start_of(self, event: "Mapping[str, Any]") -> "Mapping[str, Any]":
        """Where the call of this event begins: the event itself where no other one does."""
        return self._start_of.get(event["event_id"], event)

    def end_of(self, start: "Mapping[str, Any]") -> "Mapping[str, Any] | None":
        """The end of the call that begins here; None where none was recorded."""
        return self._end_of.get(start["event_id"], start if start["event_type"] in _CALLS else None)

    def changes_of(self, end: "Mapping[str, Any]") -> "list[Mapping[str, Any]]":
        return self._changes.get(end["event_id"], [])

    def explain(self, change: "Mapping[str, Any]") -> bool:
        """Whether a change belongs to a call."""
        return self._call_of(change) in self._changes

    def has_call_of(self, error: "Mapping[str, Any]") -> bool:
        """Whether an error is that of a call, whose result says it."""
        return (
            error["cause"] in self._changes
            or (error["tool_use_id"] or "") in self._by_use
            or bool(error["tool"])
        )


def _is_end(action: "Mapping[str, Any]", start: "Mapping[str, Any]") -> bool:
    """Whether an action ends the call that a start began: by the agent's id, else by tool and arguments, if
    the end has them: one that the agent did not report has none."""
    if action["tool_use_id"] or start["tool_use_id"]:
        return bool(action["tool_use_id"] == start["tool_use_id"])
    asked, done = ((event["payload"] or {}).get("args") for event in (start, action))
    return bool(action["tool"] == start["tool"] and done in (None, asked))


def result_text(payload: "Mapping[str, Any]") -> str:
    """What a tool gave back, as text without what colours a terminal; "" where nothing was recorded.

    Args: payload: of an action, with its long texts.
    """
    for text in (payload.get("error"), payload.get("shown"), payload.get("result")):
        joined = "\n".join(_texts(text, _NESTED_MAX)).replace("\r\n", "\n").strip("\n")
        if joined:
            return _ABOUT_OUTPUT.sub("", _TERMINAL_SEQUENCE.sub("", joined)).strip("\n")
    return ""


def _texts(value: object, depth: int) -> "Iterable[str]":
    if isinstance(value, str):
        return [value] if value.strip() else []
    if depth == 0:
        return []
    if isinstance(value, Mapping):
        return [text for name in _RESULT_TEXTS for text in _texts(value.get(name), depth - 1)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item, depth - 1)]
    return []
