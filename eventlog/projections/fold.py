"""Folding events into projections on a DuckDB connection: from nothing, or onto an index.

The same few statements serve three callers: building an index from the log, bringing a copy of one up
to date, and answering a query from an index that is behind the log (I19, I20, I21).

Onto an index, with `fresh` the events it does not know:
1. A call is kept or replaced by key: the best of the index's rows for the keys in `fresh`, and of `fresh`.
2. Touched are the sessions of `fresh`, and those that lost a call to a better row.
3. Touched sessions are folded anew from all their events; rows of others stay as they are.

What is computed on the way lies in the schema `work` of the connection's own database. Not for
concurrent use of one connection.
"""

from collections.abc import Callable, Collection

import duckdb

from eventlog.projections import definitions as d

# What must be made for each projection, in order.
_NEEDS = {
    "llm_calls": ("llm_calls",),
    "turns": ("llm_calls", "turns"),
    "sessions": ("llm_calls", "turns", "sessions"),
    "sessions_master": ("llm_calls", "turns", "sessions", "master_keys", "sessions_master"),
}
PROJECTIONS = tuple(_NEEDS)

_MASTER_ROWS = (
    "SELECT repo, context_id, title AS project_name, extends, position FROM {events} "
    "WHERE event_type = 'sessions'"
)

_IN_TOUCHED = "session_id IN (SELECT session_id FROM work.touched)"
_NO_RIVAL = "position NOT IN (SELECT position FROM work.rivals)"


def fold(
    con: duckdb.DuckDBPyConnection, events: str, wanted: "Collection[str]", schema: str = "main"
) -> None:
    """Make tables in `schema` of the projections of `wanted`, and of those they rest on, from all events."""
    made = _closure(wanted)

    def make(projection: str, select: str) -> str:
        con.execute(f"CREATE TABLE {schema}.{projection} AS {select}")
        return f"{schema}.{projection}"

    con.execute("CREATE SCHEMA IF NOT EXISTS work")
    calls = make("llm_calls", d.llm_rows(events))
    con.execute(f"DELETE FROM {calls} WHERE position IN ({d.beaten_calls(calls)})")
    if "turns" not in made:
        return
    con.execute(f"CREATE TABLE work.parts AS {d.parts(events)}")
    con.execute(f"CREATE TABLE work.marks AS {d.marks(events)}")
    turns = make("turns", d.turns("work.parts", "work.marks", calls))
    if "sessions" not in made:
        return
    sessions = make("sessions", d.sessions("work.parts", "work.marks", calls, turns))
    if "sessions_master" in made:
        keys = make("master_keys", d.master_keys(f"({_MASTER_ROWS.format(events='work.marks')})"))
        make("sessions_master", d.sessions_master(sessions, keys))


def merge(
    con: duckdb.DuckDBPyConnection,
    index: str,
    fresh: str,
    history: "Callable[[int | None], str]",
    wanted: "Collection[str]",
) -> None:
    """Make views of the projections of `wanted` from an index and the events it does not know.

    Args: index: the catalog of the index's tables; fresh: relation of the events behind it; history:
    gives a relation of at least all events from a position on, and of `fresh` alone for None.
    """
    made = _closure(wanted)
    _fold_fresh(con, index, fresh, history, made)
    for projection in ("llm_calls", "turns", "sessions"):
        if projection not in made:
            continue
        stays, anew = (_NO_RIVAL, "best") if projection == "llm_calls" else (f"NOT {_IN_TOUCHED}", projection)
        con.execute(
            f"CREATE VIEW {projection} AS SELECT * FROM {index}.{projection} WHERE {stays} "
            f"UNION ALL SELECT * FROM work.{anew}"
        )
    if "sessions_master" in made:
        con.execute(f"CREATE VIEW work.master_keys AS {_merged_keys(index)}")
        con.execute(f"CREATE VIEW sessions_master AS {d.sessions_master('sessions', 'work.master_keys')}")


def update(
    con: duckdb.DuckDBPyConnection, index: str, fresh: str, history: "Callable[[int | None], str]"
) -> None:
    """Bring the tables of a writable index up to date; arguments as in `merge`."""
    _fold_fresh(con, index, fresh, history, _closure(PROJECTIONS))
    con.execute(f"DELETE FROM {index}.llm_calls WHERE NOT ({_NO_RIVAL})")
    con.execute(f"INSERT INTO {index}.llm_calls SELECT * FROM work.best")
    for projection in ("turns", "sessions"):
        con.execute(f"DELETE FROM {index}.{projection} WHERE {_IN_TOUCHED}")
        con.execute(f"INSERT INTO {index}.{projection} SELECT * FROM work.{projection}")
    con.execute(f"CREATE TABLE work.master_keys AS {_merged_keys(index)}")
    con.execute(f"CREATE OR REPLACE TABLE {index}.master_keys AS FROM work.master_keys")
    master = d.sessions_master(f"{index}.sessions", f"{index}.master_keys")
    con.execute(f"CREATE OR REPLACE TABLE {index}.sessions_master AS {master}")


def _closure(wanted: "Collection[str]") -> set[str]:
    return {needed for projection in wanted for needed in _NEEDS[projection]}


def _fold_fresh(
    con: duckdb.DuckDBPyConnection,
    index: str,
    fresh: str,
    history: "Callable[[int | None], str]",
    made: set[str],
) -> None:
    con.execute("CREATE SCHEMA IF NOT EXISTS work")
    _fold_calls(con, index, fresh)
    if "turns" in made:
        _fold_touched(con, index, history(_touch(con, index, fresh)))
    if "sessions_master" in made:
        con.execute(f"CREATE TABLE work.master_rows AS {_MASTER_ROWS.format(events=fresh)}")


def _fold_calls(con: duckdb.DuckDBPyConnection, index: str, fresh: str) -> None:
    """Make `work.best`, the calls that `fresh` speaks of, and `work.rivals`, the index's rows for them."""
    con.execute(f"CREATE TABLE work.rows AS {d.llm_rows(fresh)}")
    con.execute(
        f"CREATE TABLE work.rivals AS SELECT * FROM {index}.llm_calls old "
        f"WHERE EXISTS (SELECT 1 FROM work.rows new WHERE {d.same_call('old', 'new')})"
    )
    con.execute("CREATE VIEW work.candidates AS SELECT * FROM work.rivals UNION ALL SELECT * FROM work.rows")
    con.execute(
        "CREATE TABLE work.best AS SELECT * FROM work.candidates "
        f"WHERE position NOT IN ({d.beaten_calls('work.candidates')})"
    )


def _touch(con: duckdb.DuckDBPyConnection, index: str, fresh: str) -> "int | None":
    """Make `work.touched`; the position of the first event of any of its sessions that the index knows."""
    con.execute(
        "CREATE TABLE work.touched AS SELECT DISTINCT session_id FROM ("
        f"SELECT session_id FROM {fresh} UNION ALL SELECT session_id FROM work.rivals "
        "WHERE position NOT IN (SELECT position FROM work.best)) WHERE session_id IS NOT NULL"
    )
    row = con.execute(f"SELECT min(first_position) FROM {index}.sessions WHERE {_IN_TOUCHED}").fetchone()
    first: int | None = row[0] if row else None
    return first


def _fold_touched(con: duckdb.DuckDBPyConnection, index: str, history: str) -> None:
    """Make `work.turns` and `work.sessions`, the touched sessions anew."""
    con.execute(f"CREATE VIEW work.history AS SELECT * FROM {history} WHERE {_IN_TOUCHED}")
    con.execute(
        f"CREATE TABLE work.calls AS SELECT * FROM {index}.llm_calls WHERE {_IN_TOUCHED} AND {_NO_RIVAL} "
        f"UNION ALL SELECT * FROM work.best WHERE {_IN_TOUCHED}"
    )
    con.execute(f"CREATE TABLE work.parts AS {d.parts('work.history')}")
    con.execute(f"CREATE TABLE work.marks AS {d.marks('work.history')}")
    con.execute(f"CREATE TABLE work.turns AS {d.turns('work.parts', 'work.marks', 'work.calls')}")
    sessions = d.sessions("work.parts", "work.marks", "work.calls", "work.turns")
    con.execute(f"CREATE TABLE work.sessions AS {sessions}")


def _merged_keys(index: str) -> str:
    return d.master_keys(f"(SELECT * FROM {index}.master_keys UNION ALL SELECT * FROM work.master_rows)")
