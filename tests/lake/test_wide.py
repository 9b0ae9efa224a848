"""Sessions, turns and calls of many stores, each once: docs/lake-tables.md §3 as laws, and rule by rule."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.agents.kit.call import is_global
from eventlog.base.types import COLUMN_NAMES
from eventlog.lake.folding import wide
from eventlog.projections import source
from tests.conftest import examples
from tests.lake import wide_oracle
from tests.lake.wide_lakes import of_tables
from tests.lake.wide_oracle import Row, Stores
from tests.lake.wide_stores import STORE_IDS, folded, stores_into, stores_that_share
from tests.projections.test_fold import differences

A, B, C, D = STORE_IDS
_LAST = "e" * 32

# -- laws ------------------------------------------------------------------------------------------


@settings(max_examples=examples(20, 600))
@given(stores_that_share())
def test_any_stores_fold_to_what_the_rules_say(stores: Stores) -> None:
    """Copies, forks and parts of sessions in several stores: all rows and columns are those of the plain fold
    over each event once."""
    assert differences(of_tables(folded(stores)), of_tables(wide_oracle.wide(stores))) == []


@settings(max_examples=examples(8, 200))
@given(stores_that_share(), st.data())
def test_a_copy_of_a_store_changes_nothing(stores: Stores, data: st.DataObject) -> None:
    """Whichever store is copied, and in whichever order stores come: only `stores` names the copy."""
    original = data.draw(st.sampled_from(sorted(stores)))
    more = {_LAST: stores[original]} | dict(reversed(stores.items()))
    before, after = of_tables(folded(stores)), of_tables(folded(more))
    for table in wide.TABLES:
        for row in after[table].values():
            assert (_LAST in row["stores"]) == (original in row["stores"])
            row["stores"] = [store for store in row["stores"] if store != _LAST]
    assert differences(after, before) == []


@settings(max_examples=examples(8, 200))
@given(stores_that_share())
def test_what_is_counted_adds_up(stores: Stores) -> None:
    """Tokens of calls are those of their sessions, and calls are the distinct ones; sessions that share
    nothing have the rows of their store."""
    with source.connect() as con:
        stores_into(con, stores)
        wide.touch(con, "llm_calls", "turns", "sessions")
        wide.fold_wide(con, "events", "llm_calls", "turns", "sessions")
        figures = "coalesce(sum({}), 0), coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0)"
        of_calls = f"SELECT {figures.format('1')} FROM wide_calls WHERE session_id IS NOT NULL"
        of_sessions = f"SELECT {figures.format('llm_calls')} FROM wide_sessions"
        assert con.sql(of_calls).fetchall() == con.sql(of_sessions).fetchall()
        best = wide_oracle._calls(stores)
        assert con.sql("SELECT count(*) FROM wide_calls").fetchall() == [(len(best),)]
        for table in ("turns", "sessions"):
            alone = "session_id NOT IN (SELECT session_id FROM work.touched)"
            own = f"SELECT * FROM {table} WHERE {alone}"
            found = f"SELECT * EXCLUDE (stores) FROM wide_{table} WHERE {alone}"
            assert con.sql(f"({own}) EXCEPT ALL ({found})").to_arrow_table().num_rows == 0
            assert con.sql(f"({found}) EXCEPT ALL ({own})").to_arrow_table().num_rows == 0


# -- the rules, one by one ---------------------------------------------------------------------------


def event(number: int, event_type: str = "intent", turn: "int | None" = 1, **columns: Any) -> Row:
    """An event of the session `s`, which happened in the second of its number."""
    usual = {
        "event_id": f"{number:032x}",
        "event_type": event_type,
        "session_id": "s",
        "turn": turn,
        "agent": "claude-code",
        "occurred_at": 1_700_000_000_000_000 + number * 1_000_000,
        "payload": "{}",
    }
    return dict.fromkeys(COLUMN_NAMES) | usual | columns


def call(number: int, tokens: int, **columns: Any) -> Row:
    figures = {"prompt_tokens": tokens, "completion_tokens": tokens}
    return event(number, "llm", **{"message_id": "msg_01a2b", **figures, **columns})


def store_of(*events: Row, first: int = 0) -> "list[Row]":
    return [{**event, "position": first + number} for number, event in enumerate(events)]


def column(rows: "dict[Any, Row]", *names: str) -> "list[Any]":
    return [tuple(row[name] for name in names) for _, row in sorted(rows.items())]


def test_the_home_is_the_store_with_most_events() -> None:
    """The home's positions and words count; what only another store has comes after them."""
    shared = [event(1), event(2)]
    few, most = [event(9, path="x"), *shared], [*shared, event(3), event(4)]
    found = folded({A: store_of(*few), B: store_of(*most, first=50)})
    (session,) = found["wide_sessions"].values()
    assert (session["store_id"], session["stores"], session["events"]) == (B, [A, B], 5)
    assert (session["first_position"], session["last_position"]) == (50, 54)


def test_of_equal_homes_the_one_with_the_lowest_id_counts() -> None:
    """Whatever the order in which stores come."""
    for order in ((B, A), (A, B)):
        (session,) = folded({id: store_of(event(1), event(2)) for id in order})["wide_sessions"].values()
        assert session["store_id"] == A


def test_an_event_that_the_home_lacks_comes_from_the_next_store() -> None:
    """In the order of the stores of a session, however many have it."""
    home, second, third = [event(n) for n in (1, 2, 3)], [event(1), event(7)], [event(8), event(7)]
    found = folded({C: store_of(*home), B: store_of(*second, first=30), A: store_of(*third, first=60)})
    (session,) = found["wide_sessions"].values()
    assert (session["store_id"], session["events"], session["last_position"]) == (C, 5, 4)


def test_the_best_row_of_a_call_counts_in_its_session_alone() -> None:
    """An earlier row of an answer that another store imported in another session counts nowhere."""
    early, late = call(1, 5), call(2, 700, session_id="t")
    found = folded({A: store_of(early), B: store_of(late)})
    assert column(found["wide_calls"], "session_id", "prompt_tokens", "stores") == [("t", 700, [A, B])]
    assert column(found["wide_sessions"], "session_id", "llm_calls", "tokens_used") == [
        ("s", 0, 0),
        ("t", 1, 1400),
    ]


def test_of_equal_rows_of_a_call_that_of_the_lowest_store_counts() -> None:
    """Positions of several stores are no places in one log."""
    found = folded({B: store_of(call(1, 5)), A: store_of(call(2, 5, session_id="t"), first=70)})
    assert column(found["wide_calls"], "session_id", "store_id") == [("t", A)]


def test_calls_without_ids_are_their_events() -> None:
    """Two of equal figures at one position in two stores are two, and a copy is none."""
    first, second = call(1, 5, message_id=None), call(2, 5, message_id=None, session_id="t")
    found = folded({A: store_of(first), B: store_of(second), C: store_of(second)})
    assert column(found["wide_calls"], "session_id", "stores") == [("s", [A]), ("t", [B, C])]


def test_an_id_that_programs_use_again_names_calls_of_one_session() -> None:
    """`m0` in the sessions of two stores are two calls; its copies in one session are one."""
    found = folded(
        {
            A: store_of(call(1, 5, message_id="m0")),
            B: store_of(call(2, 5, message_id="m0", session_id="t")),
            C: store_of(call(1, 5, message_id="m0")),
        }
    )
    assert column(found["wide_calls"], "session_id", "stores") == [("s", [A, C]), ("t", [B])]


def test_calls_outside_of_sessions_count_once() -> None:
    """They touch no session, and `stores` names all that have them."""
    outside = call(1, 5, session_id=None, turn=None)
    found = folded({A: store_of(outside), B: store_of(outside)})
    assert column(found["wide_calls"], "store_id", "stores", "prompt_tokens") == [(A, [A, B], 5)]
    assert not found["work.touched"]


def test_turns_meet_by_the_agents_own_id() -> None:
    """The home keeps its numbers; what only others know comes after, in the order of stores and numbers."""
    home = [event(n, turn=n, agent_turn_id=f"x{n}") for n in (1, 2, 3)]
    other = [
        event(14, "turn", turn=1, agent_turn_id="x4", context_id="turn:s_001", title="Fourth"),
        event(12, turn=2, agent_turn_id="x2"),
        event(15, turn=3, agent_turn_id="x5"),
    ]
    more = event(4, turn=3, agent_turn_id="x3")
    found = folded({A: store_of(*other), B: store_of(*home, more)})
    assert column(found["wide_turns"], "turn", "turn_id", "context_id", "event_count", "stores") == [
        (1, "001", "turn:s_001", 1, [B]),
        (2, "002", "turn:s_002", 2, [A, B]),
        (3, "003", "turn:s_003", 2, [B]),
        (4, "004", "turn:s_004", 0, [A]),
        (5, "005", "turn:s_005", 1, [A]),
    ]
    assert column(found["wide_turns"], "store_id")[2:] == [(B,), (A,), (A,)]


def test_turns_without_an_id_meet_by_their_number() -> None:
    """With turns of another store that have none, either."""
    found = folded(
        {A: store_of(event(1), event(2)), B: store_of(event(3)), C: store_of(event(4, agent_turn_id="x"))}
    )
    assert column(found["wide_turns"], "turn", "event_count", "stores") == [(1, 3, [A, B]), (2, 1, [C])]


def test_a_turn_that_another_session_has_too_belongs_to_the_one_that_began_first() -> None:
    """A fork whose parent only another store has: copied turns count in the parent, also without any call."""
    start = event(5, "turn", operation="start", agent_turn_id="x")
    parent = [event(1, turn=None), start, event(6, agent_turn_id="x")]
    own = event(8, turn=2, agent_turn_id="y")
    fork = [{**row, "session_id": "f"} for row in (start, event(6, agent_turn_id="x"), own)]
    found = folded({A: store_of(*parent), B: store_of(*fork)})
    assert column(found["wide_turns"], "session_id", "turn", "event_count") == [("f", 2, 1), ("s", 1, 1)]


def test_only_sessions_that_stores_share_are_folded_once_more() -> None:
    """All others keep the rows of their store, and nobody reads their events."""
    shared, own = event(1), event(2, session_id="t")
    found = folded({A: store_of(shared, own), B: store_of(shared)})
    assert set(found["work.touched"]) == {"s"}


@pytest.mark.parametrize(
    "id",
    [
        "",
        "m0",
        "a1b2c",
        "1",
        "123456789012",
        "ABCDEFGHIJKLM",
        "abcDEFghijkl",
        "call_abcde",
        "x:12345678901",
        "é1b2c",
    ],
)
def test_an_id_is_unique_by_itself_as_hooks_and_readers_say_it(id: str) -> None:
    """docs/event-ids.md: one rule, in Python and in SQL."""
    with source.connect() as con:
        found = con.execute(f"SELECT {wide._is_global('id')} FROM (SELECT ?::VARCHAR AS id)", [id]).fetchall()
    assert found == [(is_global(id),)]
