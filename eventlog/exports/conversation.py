"""One session in one view of the log, as the exports of conversations need it. One thread.

Model calls are those that count (P3): an `llm` event that another one supersedes is left out.
"""

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from eventlog.base import jsontext, runs
from eventlog.blobs.payload_texts import PayloadTexts
from eventlog.exports import streams
from eventlog.log import upcast
from eventlog.projections import source
from eventlog.projections.definitions import HAPPENED_AT
from eventlog.query.people import People, allowed, payload_within
from eventlog.replay.certainty import EXACT, NONE, certainty_of

if TYPE_CHECKING:
    import duckdb

    from eventlog.log.reader import LogView
    from eventlog.store import Store

JsonObject = dict[str, Any]

# Events of sessions that are read together: a log is read once, and not once for each session.
_EVENTS_AT_ONCE = 16_384
_FETCH_ROWS = 1_000
_LIFECYCLE_OF_TURN = 2  # events of a turn that `events` of its session does not count

_SOURCE = "select max(source) from prices"

_SESSION = (
    "session_id", "context_id", "agent", "agent_session_id", "repo", "title", "status", "llm_calls",
    "prompt_tokens", "completion_tokens", "cache_read_tokens", "events", "turn_count", "first_position",
    "last_position",
)  # fmt: skip


@dataclass(frozen=True)  # without slots: `cached_property` needs a dict
class Conversation:
    """The row of a session, and its events in order without calls that do not count.

    `begun` has the starts of calls whose duration is derived from other events: position → µs. `costs` are
    those of model calls that have a price: position → dollars; `prices` is the price library with its
    version, None without any cost (docs/costs.md).
    """

    session: JsonObject
    events: list[JsonObject]
    begun: dict[int, int] = field(default_factory=dict)
    costs: dict[int, Decimal] = field(default_factory=dict)
    prices: "str | None" = None

    @cached_property
    def by_turn(self) -> "dict[int | None, list[JsonObject]]":
        """The events of each turn, and under None those of no turn, in the order of their first ones."""
        turns: dict[int | None, list[JsonObject]] = {}
        for event in self.events:
            turns.setdefault(event["turn"], []).append(event)
        return turns

    @cached_property
    def agent_version(self) -> "str | None":
        """The last one that was recorded."""
        return next((e["agent_version"] for e in reversed(self.events) if e["agent_version"]), None)

    @cached_property
    def model(self) -> "str | None":
        """The model that was called most."""
        calls = Counter(e["model"] for e in self.events if e["event_type"] == "llm" and e["model"])
        return max(sorted(calls), key=calls.__getitem__, default=None)


def conversations(
    store: "Store",
    view: "LogView",
    *,
    session_id: "str | Sequence[str] | None" = None,
    since: "int | None" = None,
    derived: bool = False,
    priced: bool = False,
) -> "Iterator[Conversation]":
    """That session, or those, or all in which something happened since (µs), in the order of the log.

    One connection answers for all sessions, and events are read for many sessions at a time.
    Args: derived: with `begun`; priced: with `costs` and `prices`.
    """
    only = [session_id] if isinstance(session_id, str) else session_id
    ask = partial(_ask, only, since, derived, priced)
    views = {"sessions", "llm_calls"}
    columns = {"position"}  # of events, and of calls those that rest on other events
    for name, added_columns, is_named in (
        ("events", (), since is not None),
        ("actions", ("derived_ms",), derived),
        ("prices", ("cost_usd",), priced),
    ):
        if is_named:
            views.add(name)
            columns.update(added_columns)
    answers = streams.of_views(view, store, views, ask, frozenset(columns))
    sessions, prices = cast("_Sessions", next(answers))
    calls = _ByKey(cast("Iterator[_Call]", answers))
    read = partial(_read, store, PayloadTexts.of(view, store.blobs), allowed(store.fs, store.layout))
    for together in runs.bounded(sessions, _size_of, _EVENTS_AT_ONCE):
        events = _events_of(view, together)
        for session in together:
            key = session["session_id"]
            yield read(session, events.pop(key, []), calls.of(key), prices)


# What `_ask` yields first: the rows of sessions, and where prices come from. Then a row for each call.
_Sessions = tuple[list[JsonObject], "str | None"]
_Call = tuple[str, int, "Decimal | None", "int | None"]  # session, position, cost, begun


def _ask(
    only: "Sequence[str] | None",
    since: "int | None",
    derived: bool,
    priced: bool,
    con: "duckdb.DuckDBPyConnection",
) -> "Iterator[_Sessions | _Call]":
    """The sessions in the order of the log, and then their calls, session after session."""
    which = "true" if only is None else f"session_id in ({', '.join(map(source.literal, only)) or 'null'})"
    active = f" and session_id in (select session_id from events where epoch_us({HAPPENED_AT}) >= {since})"
    chosen = which if since is None else which + active
    con.execute(f"create table chosen as select {', '.join(_SESSION)} from sessions where {chosen}")
    rows = list(streams.rows(con, "from chosen order by first_position"))
    yield rows, con.execute(_SOURCE).fetchall()[0][0] if priced else None
    begun = "if(derived_ms is null, null, epoch_us(started_at))" if derived else "null"
    calls = f"select session_id, position, {'cost_usd' if priced else 'null'} as cost, {begun} as begun"
    calls = f"{calls} from llm_calls where {which}"
    if derived:
        calls += f" union all select session_id, position, null, {begun} from actions where {which}"
    # A cursor: numbering the tail asks on the connection itself.
    answer = con.cursor().execute(
        f"select session_id, position, cost, begun from ({calls}) join chosen using (session_id) "
        "order by first_position, position"
    )
    while batch := answer.fetchmany(_FETCH_ROWS):
        yield from batch


class _ByKey:
    """Rows that are sorted by their first value, as the callers ask for them."""

    def __init__(self, rows: "Iterator[_Call]") -> None:
        self._groups = groupby(rows, lambda row: row[0])
        self._next = next(self._groups, None)

    def of(self, key: str) -> "list[_Call]":
        """The rows of `key`, none where there are none; rows before them must have been asked for."""
        if self._next is None or self._next[0] != key:
            return []
        rows = list(self._next[1])
        self._next = next(self._groups, None)
        return rows


def _size_of(session: JsonObject) -> int:
    """About how many events a session has."""
    return int(session["events"] + _LIFECYCLE_OF_TURN * (session["turn_count"] + 1))


def _events_of(view: "LogView", sessions: "Sequence[JsonObject]") -> "dict[str, list[JsonObject]]":
    """The events of each of these sessions, in order."""
    events: dict[str, list[JsonObject]] = {session["session_id"]: [] for session in sessions}
    since = min(session["first_position"] for session in sessions)
    until = max(session["last_position"] for session in sessions) + 1
    for event in view.iterate(since, until, session_id=frozenset(events)):
        events[str(event["session_id"])].append(event)
    return events


def _read(
    store: "Store",
    texts: PayloadTexts,
    policy: People,
    session: JsonObject,
    rows: "list[JsonObject]",
    calls: "Sequence[_Call]",
    prices: "str | None",
) -> Conversation:
    counted = {position for _, position, _, _ in calls}
    begun = {position: began_us for _, position, _, began_us in calls if began_us is not None}
    costs = {position: cost for _, position, cost, _ in calls if cost is not None}
    events = []
    for event in map(store.redactor.leaving, rows):
        if event["event_type"] == "llm" and event["position"] not in counted:
            continue
        payload = event["payload"]
        if isinstance(payload, str):
            payload = payload_within(policy, event, texts.fill_json(payload))
        event["payload"] = jsontext.decode(payload) if isinstance(payload, str) else payload or {}
        events.append(upcast.upcast(event))
    store.line_counts.fill(events)
    return Conversation(session, events, begun, costs, prices if costs else None)


def doubt_at_end(events: "Iterable[JsonObject]") -> "str | None":
    """How well the files at the end of the turn with these events are known, where that is not `exact`
    (docs/certainty.md); None also where the turn records no tree."""
    state = certainty_of(events).state
    return None if state in (EXACT, NONE) else state


def payload_of(event: JsonObject) -> JsonObject:
    """The payload where it is an object."""
    payload = event["payload"]
    return payload if isinstance(payload, dict) else {}


def moment(us: "int | None") -> "str | None":
    """ISO 8601 in UTC, to the microsecond."""
    if us is None:
        return None
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        time = epoch + datetime.timedelta(microseconds=us)
    except OverflowError:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def text_of(value: Any) -> str:
    """An argument or result of a tool as text: a text as it is, texts of blocks joined, others as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(map(_is_text, value)):
        return "\n".join(block["text"] for block in value)
    return jsontext.encode_fast(value).decode("utf-8", "replace")


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and set(block) == {"type", "text"} and isinstance(block["text"], str)
