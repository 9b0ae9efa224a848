"""Many stores in one fold: with `keys` each log is folded as if it were alone (docs/lake-tables.md §2)."""

import re
from collections.abc import Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.projections import definitions as d
from eventlog.projections import fold, lives, source
from eventlog.projections.master import master_keys, master_rows, sessions_master
from tests.conftest import examples
from tests.projections.logs import event, events
from tests.projections.test_fold import a_log

KEYS = ("store_id",)
TABLES = ("calls", "beaten", "llm_calls", "turns", "sessions", "master_keys", "sessions_master", "limited")
AGES = 1_000_000  # hours without an event, until an active session is over

Event = dict[str, Any]
Logs = dict[str, list[Event]]  # by store, in the order of positions


def texts(keys: tuple[str, ...]) -> dict[str, str]:
    """Every text that takes keys."""
    return {
        "call_rows": d.call_rows("e", keys),
        "superseded_calls": d.superseded_calls("e", "p", keys),
        "llm_calls": d.llm_calls("e", "s", keys),
        "event_rows": d.event_rows("e", keys),
        "lifecycle_rows": d.lifecycle_rows("e", keys),
        "token_sums": d.token_sums("c", keys),
        "turns": d.turns("p", "t", "u", keys),
        "sessions": d.sessions("p", "t", "u", "a", keys),
        "master_rows": master_rows("e", keys),
        "master_keys": master_keys("r", keys),
        "sessions_master": sessions_master("s", "k", keys),
        "master": lives.master("m", "s", 1.5, keys),
    }


def without(key: str, text: str) -> str:
    """A text without the places where a key occurs: in conditions of joins, in names of rows, in lists."""
    text = re.sub(rf"\w+\.{key} = \w+\.{key} AND ", "", text)
    text = re.sub(rf"(?<!USING )\({key}, (\w+)\)", r"\1", text)
    return re.sub(rf"(\w+\.)?\b{key}, ", "", text)


@pytest.mark.parametrize("name", texts(()))
def test_keys_add_to_the_texts_and_change_nothing_else(name: str) -> None:
    """I19: a store of its own is folded by the text of before, to the letter, and its indexes stay in use."""
    keyed = texts(("zz",))[name]

    assert "zz" in keyed
    assert without("zz", keyed) == texts(())[name]


def in_order(appended: Sequence[Event]) -> list[Event]:
    """The events as a log of its own numbers them."""
    if not appended:
        return []
    with a_log() as log:
        log.append(*appended)
        return log.events()


def load(con: duckdb.DuckDBPyConnection, name: str, logs: Logs) -> None:
    """Make the table `name` of the events of all stores."""
    for store, rows in logs.items():
        source.load_tail(con, f"{name}_{store}", rows)
    selects = (
        f"SELECT '{store}' AS store_id, * FROM ({source.events_with_anchors((), f'{name}_{store}')})"
        for store in logs
    )
    con.execute(f"CREATE TABLE {name} AS {' UNION ALL '.join(selects)}")


def fold_all(con: duckdb.DuckDBPyConnection, relation: str, keys: tuple[str, ...] = ()) -> None:
    fold.fold(con, relation, fold.PROJECTIONS, keys=keys)
    finish(con, relation, keys)


def finish(con: duckdb.DuckDBPyConnection, relation: str, keys: tuple[str, ...]) -> None:
    """Make what no index keeps: the calls that count, and the masters with an idle limit."""
    con.execute(f"CREATE TABLE llm_calls AS {d.llm_calls(relation, 'FROM beaten', keys)}")
    con.execute(f"CREATE TABLE limited AS {lives.master('sessions_master', 'sessions', AGES, keys)}")


def rows_of(con: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, ...]]:
    """All rows, without the hashes of calls: these only mean something among themselves."""
    return con.execute(
        f"SELECT coalesce(COLUMNS(lambda name: name <> 'key')::VARCHAR, 'null') FROM {relation} ORDER BY ALL"
    ).fetchall()


def columns_of(con: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    return [name for name, *_ in con.execute(f"DESCRIBE {table}").fetchall()]


def check_each_alone(logs: Logs) -> None:
    """One call over all logs gives what a call for each gives."""
    alone: dict[str, list[tuple[str, ...]]] = {table: [] for table in TABLES}
    for store, rows in logs.items():
        with source.connect() as con:
            load(con, "ev", {store: rows})
            fold_all(con, "(SELECT * EXCLUDE (store_id) FROM ev)")
            for table in TABLES:
                alone[table] += [(store, *row) for row in rows_of(con, table)]
            columns = {table: columns_of(con, table) for table in TABLES}
    with source.connect() as con:
        load(con, "ev", logs)
        fold_all(con, "ev", KEYS)
        for table in TABLES:
            assert columns_of(con, table) == ["store_id", *columns[table]]
            assert rows_of(con, table) == sorted(alone[table]), table


def check_step_by_step(known: Logs, fresh: Logs) -> None:
    """Onto an index of `known`, by a merge and by an update, `fresh` gives what a fold of all gives."""
    every_event = "(FROM known UNION ALL FROM fresh)"
    every = {store: known.get(store, []) + fresh.get(store, []) for store in {**known, **fresh}}

    def history(first: "int | None") -> str:
        return "fresh" if first is None else f"(FROM {every_event} WHERE position >= {first})"

    with source.connect() as con:
        load(con, "ev", every)
        fold_all(con, "ev", KEYS)
        expected = {table: rows_of(con, table) for table in TABLES}
    with source.connect() as con:
        load(con, "known", known)
        load(con, "fresh", fresh)
        fold.fold(con, "known", fold.STORED, keys=KEYS)
        con.execute("DETACH work")

        merged = fold.merge(con, "memory", "fresh", history, fold.PROJECTIONS, keys=KEYS)
        merged["llm_calls"] = f"({d.llm_calls(every_event, merged['llm_calls'], KEYS)})"
        for name, relation in merged.items():
            assert rows_of(con, relation) == expected[name], f"{name} by a merge"
        con.execute("DETACH work")

        fold.update(con, "memory", "fresh", history, KEYS)
        finish(con, every_event, KEYS)
        for table in TABLES:
            assert rows_of(con, table) == expected[table], f"{table} by an update"


@st.composite
def drawn_logs(draw: st.DrawFn) -> Logs:
    """What two or three stores append: events of their own around some that all have."""
    shared = draw(st.lists(events(), max_size=8))
    own = st.lists(events(), max_size=8)
    return {
        store: [*draw(own), *shared[: draw(st.integers(0, len(shared)))], *draw(own)]
        for store in draw(st.sampled_from(("ab", "abc")))
    }


@settings(max_examples=examples(6, 100))
@given(drawn_logs())
def test_one_fold_of_many_stores_is_the_fold_of_each(logs: Logs) -> None:
    """I20: whatever ids, calls and positions they share, each store's rows are those of its own fold."""
    check_each_alone({store: in_order(appended) for store, appended in logs.items()})


@settings(max_examples=examples(6, 100))
@given(drawn_logs(), st.data())
def test_stores_are_brought_up_to_date_together(logs: Logs, data: st.DataObject) -> None:
    """I19, I20, I21: some stores with nothing new, some with nothing known, each cut wherever it may be."""
    known, fresh = {}, {}
    for store, appended in logs.items():
        rows = in_order(appended)
        cut = data.draw(st.integers(0, len(rows)))
        known[store], fresh[store] = rows[:cut], rows[cut:]

    check_step_by_step(known, fresh)


def session(number: int, session_id: str, operation: str = "start", **columns: Any) -> Event:
    by_a_hook = {"agent": "codex", "agent_session_id": session_id, "repo": "r1", "payload": {"hook_us": 1}}
    return event("session", number, session_id=session_id, operation=operation, **by_a_hook | columns)


def call(number: int, session_id: str, message_id: "str | None", tokens: int) -> Event:
    named = {"agent": "codex", "message_id": message_id, "request_id": message_id and "q"}
    return event("llm", number, session_id=session_id, turn=1, completion_tokens=tokens, **named)


def worked(number: int, session_id: str, **columns: Any) -> Event:
    return event("action", number, session_id=session_id, turn=1, tool="Bash", **columns)


def test_copies_of_a_session_stay_apart() -> None:
    """I20, P3: two stores with one session, one turn and one call: each has its own of everything, once."""

    def copy(title: str, tokens: int) -> list[Event]:
        asked = {"user_request": title, "files_modified": [title], "line_place": tokens}
        return in_order(
            [
                event("sessions", 1, operation="start", repo="r1", title=title),
                session(2, "s1", title=title, extends=[f"{title}:sessions"]),
                event("turn", 3, session_id="s1", turn=1, operation="start", title=title, payload=asked),
                event("file", 4, session_id="s1", turn=1, operation="edit", path=f"{title}.py"),
                event("snapshot", 5, session_id="s1", turn=1, tree_hash=f"blake3:0{tokens}"),
                call(6, "s1", "m1", tokens),
                call(7, "s1", "m1", 5),
                call(8, "s1", None, 1),
                session(9, "s1", "end", payload={"summary": title}),
            ]
        )

    check_each_alone({"a": copy("one", 4), "b": copy("two", 6)})


def test_what_sessions_are_to_each_other_stays_in_their_store() -> None:
    """I20: a session of another store neither continues one, nor ends it, nor opens it again."""
    fill = [event("intent", 100 + number) for number in range(6)]
    check_each_alone(  # a session that the same agent began in another store, later by its position
        {"a": in_order([session(1, "s1")]), "b": in_order([*fill, session(2, "s2")])}
    )
    of_x = {"agent_session_id": "x"}
    check_each_alone(  # a conversation of which the other store has the beginning
        {
            "a": in_order([session(1, "s1", title="begun", **of_x)]),
            "b": in_order([*fill, worked(2, "s2", agent="codex", repo="r1", **of_x)]),
        }
    )
    check_each_alone(  # a part of a conversation, and a session of another store between the two
        {
            "a": in_order([*fill[:2], session(1, "s1", **of_x)]),
            "b": in_order(
                [session(2, "s2", **of_x), *fill, worked(3, "s3", agent="codex", repo="r1", **of_x)]
            ),
        }
    )
    check_each_alone(  # a session that the other store ended before it was resumed here
        {
            "a": in_order([session(1, "s1"), *fill[:2], session(2, "s1", "resume")]),
            "b": in_order([session(3, "s1"), session(4, "s1", "end")]),
        }
    )


def test_a_call_is_taken_from_a_session_of_its_own_store() -> None:
    """P3, I21: a better row takes the call from a session that nothing new names, in one store and not in
    the other; what lost a call before stays without it, whatever another store has at its position."""
    check_step_by_step(
        {"a": in_order([call(1, "s1", "m1", 3)]), "b": in_order([call(1, "s1", "m1", 3)])},
        {"a": in_order([call(1, "s1", "m1", 3), call(2, "s2", "m1", 4)])[1:], "b": []},
    )
    beaten = [call(1, "s1", "m1", 3), call(2, "s2", "m1", 9)]
    counts = [call(1, "s1", "m2", 5), call(2, "s2", "m3", 5)]
    goes_on = worked(3, "s1")
    check_step_by_step(
        {"a": in_order(beaten), "b": in_order(counts)},
        {"a": in_order([*beaten, goes_on])[2:], "b": in_order([*counts, goes_on])[2:]},
    )


def test_a_session_of_two_stores_is_folded_again_in_both() -> None:
    """I21: new events of one session id in stores that have it at other positions, or did not know it; and a
    store with the same session and nothing new."""
    begun = [session(1, "s1", title="begun"), worked(2, "s1")]
    fill = [event("intent", 100 + number) for number in range(4)]
    check_step_by_step(
        {"a": in_order([*fill, *begun]), "b": [], "c": in_order(begun), "d": in_order(begun)},
        {
            "a": in_order([*fill, *begun, worked(3, "s1"), session(4, "s1", "end")])[6:],
            "b": in_order([worked(5, "s1"), worked(6, "s1")]),
            "c": [],
            "d": in_order([*begun, worked(7, "s1")])[2:],
        },
    )
    early, late = [*begun, *fill], [*fill, *begun]  # equally long: new is what comes after
    check_step_by_step(
        {"a": in_order(early), "b": in_order(late)},
        {store: in_order([*known, worked(8, "s1")])[6:] for store, known in (("a", early), ("b", late))},
    )


def test_what_is_new_may_lie_before_what_is_read_again() -> None:
    """I21: a store of a few events beside a longer one, of which only the end is read again."""
    long = [*(event("intent", 100 + number) for number in range(6)), session(1, "s1"), call(2, "s1", "m1", 3)]
    short = [session(1, "s1"), call(2, "s2", "m2", 4), call(3, "s3", "m2", 5)]
    check_step_by_step(
        {"a": in_order(long), "b": in_order(short)[:1]},
        {"a": in_order([*long, call(3, "s1", "m1", 9)])[8:], "b": in_order(short)[1:]},
    )


def test_sessions_are_folded_in_parts() -> None:
    """I20: `fold_sessions` makes turns and sessions of whole sessions, part by part on one connection."""
    logs = {
        "a": in_order([session(1, "s1"), call(2, "s1", "m1", 3), session(3, "s2"), worked(4, "s2")]),
        "b": in_order([session(1, "s1"), call(2, "s1", "m1", 7), worked(3, "s3")]),
    }
    with source.connect() as con:
        load(con, "ev", logs)
        fold_all(con, "ev", KEYS)
        calls = d.call_rows("ev", KEYS)
        used = f"({d.token_sums(f'({calls})', KEYS)})"
        for number, condition in enumerate(("= 's1'", "<> 's1'")):
            con.execute(f"CREATE SCHEMA part{number}")
            part = f"(FROM ev WHERE session_id {condition})"
            fold.fold_sessions(con, part, used, f"part{number}", ("turns", "sessions"), KEYS)
        for table in ("turns", "sessions"):
            parts = f"(FROM part0.{table} UNION ALL FROM part1.{table})"
            assert rows_of(con, parts) == rows_of(con, table)
