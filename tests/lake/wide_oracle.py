"""The wide tables as plain Python makes them: docs/lake-tables.md §3 over lists of events, rule by rule.

Written from the rules, not from the SQL. Each event is put into the log of its session once; what such a log
means is then given by the oracle of one store's projections. Events are dicts with the columns of
`types.COLUMNS`, the payload as text.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from eventlog.agents.kit.call import is_global
from tests.projections import oracle

Row = dict[str, Any]
Stores = dict[str, list[Row]]  # the events of each store, in the order of their positions

_NO_TIMELINE = ("session", "turn", "sessions")


@dataclass
class _Session:
    """What stores have of one session: its events by store."""

    id: str
    events: Stores = field(default_factory=lambda: defaultdict(list))

    @property
    def stores(self) -> list[str]:
        """Its home, then the others."""

        def most_first(store: str) -> tuple[int, str]:
            return -sum(event["event_type"] not in _NO_TIMELINE for event in self.events[store]), store

        return sorted(self.events, key=most_first)

    @property
    def order(self) -> tuple[float, float, str]:
        """What sessions are ordered by: when they began and ended, those of which nobody knows last."""
        rows = [oracle.project(events)["sessions"][self.id] for events in self.events.values()]
        began = [row["started_at"].timestamp() for row in rows if row["started_at"] is not None]
        ended = [row["last_at"].timestamp() for row in rows if row["last_at"] is not None]
        return min(began, default=math.inf), max(ended, default=math.inf), self.id


def wide(stores: Stores) -> "dict[str, dict[Any, Row]]":
    """`wide_calls` by event, `wide_turns` by session and number, `wide_sessions` by session."""
    sessions: dict[str, _Session] = {}
    for store in sorted(stores):
        for event in stores[store]:
            if event["session_id"] is not None and event["event_type"] != "sessions":
                known = sessions.setdefault(event["session_id"], _Session(event["session_id"]))
                known.events[store].append(event)
    owners = _owners(sessions)
    calls = _calls(stores)
    found: dict[str, dict[Any, Row]] = {"wide_calls": {}, "wide_turns": {}, "wide_sessions": {}}
    for session in sessions.values():
        log, turns = _log(session, owners)
        if log:
            _project(session, log, turns, calls, found)
    for event_id, (event, store, having) in calls.items():
        if event_id not in owners:
            found["wide_calls"][event_id] = _call(event) | {"store_id": store, "stores": having}
    return found


def _owners(sessions: "dict[str, _Session]") -> "dict[str, str]":
    """The session of each event: of those that have it the one that began first."""
    owners: dict[str, str] = {}
    for session in sorted(sessions.values(), key=lambda session: session.order):
        for events in session.events.values():
            for event in events:
                owners.setdefault(event["event_id"], session.id)
    return owners


def _log(session: _Session, owners: "dict[str, str]") -> "tuple[list[Row], dict[int, list[str]]]":
    """The events of a session, each once, with positions and turns; and the stores of each turn in order."""
    first: dict[str, str] = {}  # by event: the first store that has it
    for store in session.stores:
        for event in session.events[store]:
            if owners[event["event_id"]] == session.id:
                first.setdefault(event["event_id"], store)
    numbers, having = _numbers(session, first)
    home = session.stores[0]
    last = max(event["position"] for event in session.events[home])
    log = []
    for store in session.stores:
        for event in session.events[store]:
            if first.get(event["event_id"]) != store:
                continue
            last += store != home
            log.append(_placed(event, event["position"] if store == home else last, numbers[store]))
            log[-1]["store_id"] = store
    return sorted(log, key=lambda event: event["position"]), having


def _placed(event: Row, position: int, numbers: "dict[int, int]") -> Row:
    own = event["turn"]
    if own is None or event["event_type"] == "session":
        return {**event, "position": position}
    number = numbers[own]
    placed = {**event, "position": position, "turn": number}
    if event["event_type"] == "turn" and number != own:
        placed["context_id"] = f"turn:{event['session_id']}_{number:03d}"
    return placed


def _numbers(
    session: _Session, first: "dict[str, str]"
) -> "tuple[dict[str, dict[int, int]], dict[int, list[str]]]":
    """By store, the number of each of its turns in the session; and which stores have each turn."""
    named: dict[str, dict[int, Any]] = {store: _names(session.events[store]) for store in session.stores}
    counting = {
        named[store][event["turn"]]
        for store in session.stores
        for event in session.events[store]
        if _is_of_turn(event) and first.get(event["event_id"]) == store
    }
    home = session.stores[0]
    number_of = {name: number for number, name in named[home].items()}
    after = max(named[home], default=0)
    for store in session.stores[1:]:
        for _, name in sorted(named[store].items()):
            if name not in number_of and name in counting:
                after += 1
                number_of[name] = after
    numbers = {
        store: {own: number_of[name] for own, name in named[store].items() if name in number_of}
        for store in session.stores
    }
    having: dict[int, list[str]] = defaultdict(list)
    for store in session.stores:
        for number in numbers[store].values():
            having[number].append(store)
    return numbers, having


def _is_of_turn(event: Row) -> bool:
    return event["turn"] is not None and event["event_type"] != "session"


def _names(events: "list[Row]") -> "dict[int, Any]":
    """What names each turn of a store over all stores."""
    ids: dict[int, dict[bool, str]] = defaultdict(dict)
    for event in events:
        if _is_of_turn(event):
            of_turn = ids[event["turn"]]
            if event["agent_turn_id"] is not None:
                of_turn.setdefault(event["event_type"] == "turn", event["agent_turn_id"])
    names: dict[int, Any] = {}
    times: dict[str, int] = defaultdict(int)
    for number in sorted(ids):
        own = ids[number].get(True, ids[number].get(False))
        if own is None:
            names[number] = ("number", number)
        else:
            times[own] += 1
            names[number] = ("id", own, times[own])
    return names


def _calls(stores: Stores) -> "dict[str, tuple[Row, str, list[str]]]":
    """By the id of the event that counts: a row of it, its store, and the stores that have the call."""
    rows: dict[Any, list[tuple[Row, str]]] = defaultdict(list)
    for store in sorted(stores):
        counting = {row["position"] for row in oracle._calls(stores[store]).values()}
        for event in stores[store]:
            if event["position"] in counting:
                rows[_call_key(event)].append((event, store))
    found: dict[str, tuple[Row, str, list[str]]] = {}
    for copies in rows.values():
        best = copies[0]
        for copy in copies[1:]:
            if oracle._weight(copy[0]) > oracle._weight(best[0]):
                best = copy
        event_id = best[0]["event_id"]
        known = found[event_id][2] if event_id in found else []  # by the key that it has in another session
        found[event_id] = (*best, sorted({*known, *(store for _, store in copies)}))
    return found


def _call_key(event: Row) -> Any:
    ids = [id for id in (event["message_id"], event["request_id"]) if id is not None]
    if not ids:
        return event["event_id"]
    session = None if any(map(is_global, ids)) else event["session_id"]
    return event["agent"], event["message_id"], event["request_id"], session


def _call(event: Row) -> Row:
    row = {name: event[name] for name in oracle.CALL_COLUMNS}
    return row | {"occurred_at": oracle._moment(event["occurred_at"])}


def _project(
    session: _Session,
    log: "list[Row]",
    turns: "dict[int, list[str]]",
    calls: "dict[str, tuple[Row, str, list[str]]]",
    found: "dict[str, dict[Any, Row]]",
) -> None:
    """Add the rows of a session to what was `found`."""
    counted = []
    for event in log:
        if event["event_type"] == "llm" and event["event_id"] in calls:
            having = calls[event["event_id"]][2]
            row = _call(event) | {"store_id": event["store_id"], "stores": having}
            found["wide_calls"][event["event_id"]] = row
            # Nothing else is this call: rows that do not count are no calls in what follows.
            counted.append({**event, "message_id": None, "request_id": None})
        else:
            counted.append({**event, "event_type": "x"} if event["event_type"] == "llm" else event)
    projected = oracle.project(counted)
    for (_, number), row in projected["turns"].items():
        home = {"store_id": turns[number][0], "stores": sorted(set(turns[number]))}
        found["wide_turns"][session.id, number] = row | home
    home = {"store_id": session.stores[0], "stores": sorted(session.events)}
    found["wide_sessions"][session.id] = projected["sessions"][session.id] | home
