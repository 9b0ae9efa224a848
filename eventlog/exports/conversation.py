"""One session in one view of the log, as the exports of conversations need it. One thread.

Model calls are those that count (P3): an `llm` event that another one supersedes is left out.
"""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from eventlog.base import jsontext
from eventlog.blobs.payload_texts import PayloadTexts
from eventlog.log import upcast
from eventlog.projections.definitions import HAPPENED_AT
from eventlog.query.lookup import Query
from eventlog.query.people import allowed, payload_within
from eventlog.replay.certainty import EXACT, NONE, certainty_of

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.query.engine import Result
    from eventlog.store import Store

JsonObject = dict[str, Any]

_COUNTED = "select position, null from llm_calls where session_id = $1"
_BEGUN = "select position, if(derived_ms is null, null, epoch_us(started_at)) from"
# Each statement looks up the prices of all calls, so it covers this many sessions.
_PRICED_AT_ONCE = 500
_COSTS = (
    "select position, cost_usd, (select max(source) from prices) from llm_calls "
    "where cost_usd is not null and session_id in ({sessions})"
)
_CALLS = f"{_BEGUN} llm_calls where session_id = $1 union all {_BEGUN} actions where session_id = $1"

_SESSION = (
    "session_id", "context_id", "agent", "agent_session_id", "repo", "title", "status",
    "started_at", "ended_at",
    "llm_calls", "prompt_tokens", "completion_tokens", "cache_read_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
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

    @property
    def agent_version(self) -> "str | None":
        """The last one that was recorded."""
        return next((e["agent_version"] for e in reversed(self.events) if e["agent_version"]), None)

    @property
    def model(self) -> "str | None":
        """The model that was called most."""
        called = [e["model"] for e in self.events if e["event_type"] == "llm" and e["model"]]
        return max(sorted(set(called)), key=called.count, default=None)


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

    Args: derived: with `begun`; priced: with `costs` and `prices`.
    """
    from eventlog.query.connection_cache import ConnectionCache
    from eventlog.query.engine import Bound, Snapshot, run

    conditions, parameters = ["true"], list[Any]()
    if session_id is not None:
        parameters.append([session_id] if isinstance(session_id, str) else list(session_id))
        conditions.append(f"list_contains(${len(parameters)}, session_id)")
    if since is not None:
        conditions.append(
            f"session_id in (select session_id from events where epoch_us({HAPPENED_AT}) >= {since:d})"
        )
    listed = f"select {', '.join(_SESSION)} from sessions where {' and '.join(conditions)}"
    people = allowed(store.fs, store.layout)
    with ConnectionCache[Bound]() as cache:
        ask = partial(run, Snapshot(view, store.layout, store.fs, cache=cache, people=people))
        rows = ask(f"{listed} order by first_position", parameters).rows
        sessions = [dict(zip(_SESSION, row, strict=True)) for row in rows]
        for start in range(0, len(sessions), _PRICED_AT_ONCE):
            chunk = sessions[start : start + _PRICED_AT_ONCE]
            costs, prices = _costs(ask, chunk) if priced else ({}, None)
            for session in chunk:
                calls = ask(_CALLS if derived else _COUNTED, [session["session_id"]])
                yield _read(store, view, session, calls, costs, prices)


def _costs(ask: Query, sessions: "Sequence[JsonObject]") -> "tuple[dict[int, Decimal], str | None]":
    """The costs of the calls of these sessions, by position, and the source of the prices."""
    names = [session["session_id"] for session in sessions]
    placeholders = ", ".join(f"${n}" for n in range(1, len(names) + 1))
    rows = ask(_COSTS.format(sessions=placeholders), names).rows if names else []
    return {position: cost for position, cost, _ in rows}, rows[0][2] if rows else None


def _read(
    store: "Store",
    view: "LogView",
    session: JsonObject,
    calls: "Result",
    costs: "dict[int, Decimal]",
    prices: "str | None",
) -> Conversation:
    counted = {row[0] for row in calls.rows}
    begun = {position: began_us for position, began_us, *_ in calls.rows if began_us is not None}
    events = []
    policy = allowed(store.fs, store.layout)
    texts = PayloadTexts.of(view, store.blobs)
    for event in map(store.redactor.leaving, view.iterate(session_id=session["session_id"])):
        if event["event_type"] == "llm" and event["position"] not in counted:
            continue
        payload = event["payload"]
        if isinstance(payload, str):
            payload = payload_within(policy, event, texts.fill_json(payload))
        event["payload"] = jsontext.decode(payload) if isinstance(payload, str) else payload or {}
        events.append(upcast.upcast(event))
    store.line_counts.fill(events)
    session_costs = {position: costs[position] for position in counted if position in costs}
    return Conversation(session, events, begun, session_costs, prices if session_costs else None)


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
