"""Stores that share sessions, made up: any mixture of copies, forks and parts of one session."""

import json
from typing import Any

import duckdb
from hypothesis import strategies as st

from eventlog.base.types import COLUMN_NAMES
from eventlog.lake.folding import wide
from eventlog.projections import definitions as d
from eventlog.projections import fold, source
from tests.lake.wide_oracle import Row, Stores
from tests.projections import logs

STORE_IDS = [letter * 32 for letter in "abcd"]
_MOMENT = 1_700_000_000_000_000


@st.composite
def stores_that_share(draw: st.DrawFn) -> Stores:
    """Up to four stores, each with some of the same facts in an order of its own."""
    facts = draw(_facts())
    chosen = draw(st.lists(st.sampled_from(STORE_IDS), min_size=1, max_size=4, unique=True))
    return {store_id: _recorded(draw, facts) for store_id in chosen}


@st.composite
def _facts(draw: st.DrawFn) -> "list[list[Row]]":
    """What happened, in groups: the turns of three sessions, each begun at a moment of its own, and events
    outside of any turn."""
    groups = []
    for number in range(draw(st.integers(1, 6))):
        session = draw(st.sampled_from(["s1", "s2", "s3"]))
        turn_id = draw(st.sampled_from([f"x{number}", f"x{number}", None]))
        named = {"session_id": session, "agent_turn_id": turn_id, "agent": "claude-code", "turn": -1}
        start = _fact(draw, "turn", operation="start", occurred_at=_MOMENT + 9 + number, **named)
        others = [_fact(draw, None, **named) for _ in range(draw(st.integers(0, 4)))]
        groups.append([start, *(event for event in others if event["event_type"] != "session")])
    alone = [_fact(draw, None, turn=None) for _ in range(draw(st.integers(0, 4)))]
    groups += [[event] for event in alone]
    for number, event in enumerate(event for group in groups for event in group):
        event["event_id"] = f"{number:032x}"
    return groups


def _fact(draw: st.DrawFn, event_type: "str | None", **columns: Any) -> Row:
    event = draw(logs.events()) if event_type is None else logs.event(event_type, 0)
    event = dict.fromkeys(COLUMN_NAMES) | event | columns
    if event["event_type"] == "turn" and event_type is None:
        event |= {"operation": draw(st.sampled_from(["end", "resume", None]))}
    if event["event_type"] == "session":
        event["context_id"] = event["context_id"] or f"session:session-{event['session_id']}_"
    if event["message_id"] == "m1":
        event["message_id"] = "msg_01a2b"  # unique by itself, unlike the others
    return event | {"payload": json.dumps(event["payload"])}


def _recorded(draw: st.DrawFn, facts: "list[list[Row]]") -> "list[Row]":
    """Some of the facts as one store has them: in its order, by its turns, some of these in a fork."""
    numbers: dict[Any, int] = {}
    highest: dict[str, int] = {}
    events = []
    for group in draw(st.permutations(facts)) if draw(st.booleans()) else facts:
        part = draw(st.sampled_from([len(group), len(group), len(group), 0, 1]))
        is_fork = len(group) > 0 and group[0]["turn"] is not None and draw(st.integers(0, 5)) == 5
        for event in group[:part]:
            session = "f1" if is_fork else event["session_id"]
            turn = event["turn"]
            if turn is not None and session is not None:
                name = (session, group[0]["event_id"])
                if name not in numbers:
                    numbers[name] = highest[session] = highest.get(session, 0) + 1
                turn = numbers[name]
            events.append({**event, "session_id": session, "turn": turn})
    first = draw(st.integers(0, 3))
    return [{**event, "position": first + number} for number, event in enumerate(events)]


def stores_into(con: "duckdb.DuckDBPyConnection", stores: Stores) -> None:
    """Make `events`, `llm_calls`, `turns` and `sessions` of all stores, each store folded by itself."""
    selects: dict[str, list[str]] = {name: [] for name in ("events", "llm_calls", "turns", "sessions")}
    for number, (store_id, events) in enumerate(stores.items()):
        with source.connect() as own:
            source.load_tail(own, "tail", events)
            own.execute(f"CREATE TABLE events AS {source.events_with_anchors((), 'tail')}")
            fold.fold(own, "events", fold.PROJECTIONS)
            own.execute(f"CREATE TABLE llm_calls AS {d.llm_calls('events', 'FROM beaten')}")
            for name, parts in selects.items():
                relation = f"{name}{number}"
                con.register(relation, own.sql(f"FROM {name}").to_arrow_table())
                parts.append(f"SELECT '{store_id}' AS store_id, * FROM {relation}")
    for name, parts in selects.items():
        con.execute(f"CREATE TABLE {name} AS {' UNION ALL '.join(parts)}")


def folded(stores: Stores) -> "dict[str, dict[Any, Row]]":
    """The wide tables of stores, as the oracle gives them, and the `touched` sessions."""
    with source.connect() as con:
        stores_into(con, stores)
        wide.touch(con, "llm_calls", "turns", "sessions")
        con.execute(
            "CREATE TABLE of_touched AS SELECT * FROM events "
            "WHERE session_id IN (SELECT session_id FROM work.touched)"
        )
        wide.fold_wide(con, "of_touched", "llm_calls", "turns", "sessions")
        return {name: by_key(name, con.sql(f"FROM {name}").to_arrow_table().to_pylist()) for name in KEYS}


def by_key(table: str, rows: "list[Row]") -> "dict[Any, Row]":
    """The rows of a wide table by what tells them apart."""
    found = {_key(row, KEYS[table]): row for row in rows}
    assert len(found) == len(rows), f"{table} has two rows of one key"
    return found


KEYS = {
    "wide_calls": ("event_id",),
    "wide_turns": ("session_id", "turn"),
    "wide_sessions": ("session_id",),
    "work.touched": ("session_id",),
}


def _key(row: Row, names: "tuple[str, ...]") -> Any:
    return row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)
