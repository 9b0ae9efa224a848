"""Folding events into projections on a DuckDB connection: from nothing, or onto an index.

The same few statements serve all callers: building an index from the log, bringing a copy of one up
to date, answering a query from an index that lags the log (I19, I20, I21), and folding the stores of a lake.

An index holds the tables `turns`, `sessions`, `master_keys`, `sessions_master`; `calls`: for each model
call the hash of its key, and position and session of the row that counts; and `beaten`: the positions of
the other rows of calls, so that a reader of calls leaves out a few instead of looking for a million. Onto an
index, with `fresh` the events it does not know:
1. Rows of `fresh` meet the index's rows of the same calls, and all but the best are superseded.
2. Touched are the sessions of `fresh`, and those that lost a call to a better row.
3. Touched sessions are folded again from all their events; rows of others stay as they are.

With `keys`, columns before every key (keyed.py), one call folds the logs of many stores, each as if it were
alone: the relations of events have these columns, and so has every table of an index.

What is computed on the way lies in the in-memory database `work`. Not for concurrent use of one
connection.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb

from eventlog.projections import definitions as d
from eventlog.projections import joins, lives
from eventlog.projections.keyed import Keys, led, whole
from eventlog.projections.master import master_keys, master_rows, sessions_master

# What must be made for each projection.
_NEEDS = {
    "llm_calls": ("llm_calls",),
    "turns": ("turns",),
    "sessions": ("turns", "sessions"),
    "sessions_master": ("turns", "sessions", "sessions_master"),
}
PROJECTIONS = tuple(_NEEDS)
ACTIVE = frozenset(("sessions", "sessions_master"))  # those that say which sessions are active
STORED = ("turns", "sessions", "sessions_master")

# Where intermediate results lie. DuckDB works in parallel on row groups: with its usual ones of 122,880
# rows, the turns of 300,000 events would all be one thread's work.
WORK = "ATTACH IF NOT EXISTS ':memory:' AS work (ROW_GROUP_SIZE 8192)"

# Gives a relation of at least all events from a position on, of every log the same, and of the fresh ones
# alone for None.
History = Callable[["int | None"], str]


def fold(
    con: duckdb.DuckDBPyConnection,
    events: str,
    wanted: "Collection[str]",
    schema: str = "main",
    beside: "Sequence[str]" = (),
    known: "Collection[str]" = (),
    keys: Keys = (),
) -> None:
    """Make the tables of an index for the projections of `wanted`, and of those they rest on, in `schema`.

    Args: beside: statements to run in between, where one thread would be idle; known: what earlier calls made
    of the same events on this connection; keys: see the module.
    """
    missing = closure(wanted) - set(known)
    if not known:
        con.execute(WORK)
        con.execute(f"CREATE TABLE work.rows AS {d.call_rows(events, keys)}")
        _beat(con, "SELECT key FROM work.rows GROUP BY key HAVING count(*) > 1", lambda _: events, keys)
        con.execute(f"CREATE TABLE {schema}.calls AS {_calls_of_index(keys)}")
        con.execute(f"CREATE TABLE {schema}.beaten AS FROM work.beaten")
    if "turns" in missing:
        counted = f"(SELECT * FROM work.rows WHERE {_not_beaten(keys)})"
        con.execute(f"CREATE TABLE work.used AS {d.token_sums(counted, keys)}")
        con.execute("DROP TABLE work.rows")
    if "sessions_master" in missing:
        masters = master_keys(f"({master_rows(events, keys)})", keys)
        beside = [f"CREATE TABLE {schema}.master_keys AS {masters}", *beside]
    fold_sessions(con, events, "work.used", schema, missing, keys, beside)
    if "sessions_master" in missing:
        master = sessions_master(f"{schema}.sessions", f"{schema}.master_keys", keys)
        con.execute(f"CREATE TABLE {schema}.sessions_master AS {master}")


def fold_sessions(
    con: duckdb.DuckDBPyConnection,
    events: str,
    used: str,
    schema: str,
    wanted: "Collection[str]",
    keys: Keys = (),
    beside: "Sequence[str]" = (),
) -> None:
    """Make those of `turns` and `sessions` that are in `wanted`, in `schema`, of some whole sessions.

    `sessions` without `turns` are made of the same events as the `turns` of the call before.

    Args: events: relation of all events of these sessions; used: `definitions.token_sums` of those of their
    calls that count; keys, beside: as for `fold`.
    """
    con.execute(WORK)
    if "turns" in wanted:
        con.execute(f"CREATE OR REPLACE TABLE work.lifecycle AS {d.lifecycle_rows(events, keys)}")
        con.execute(f"CREATE OR REPLACE TABLE work.parts AS {d.event_rows(events, keys)}")
        con.execute(f"CREATE TABLE {schema}.turns AS {d.turns('work.parts', 'work.lifecycle', used, keys)}")
    with _beside(con, beside):
        if "sessions" in wanted:
            select = d.sessions("work.parts", "work.lifecycle", used, f"{schema}.turns", keys)
            con.execute(f"CREATE TABLE {schema}.sessions AS {select}")


def merge(
    con: duckdb.DuckDBPyConnection,
    index: str,
    fresh: str,
    history: History,
    wanted: "Collection[str]",
    known: "Collection[str]" = (),
    keys: Keys = (),
) -> "dict[str, str]":
    """The projections of `wanted` from an index and the events it does not know: as `exact` gives them.

    Args: index: the catalog of the index's tables; fresh: relation of the events after the index; known,
    keys: as for `fold`.
    """
    made = closure(wanted)
    _fold_fresh(con, index, fresh, history, made, known, keys)
    folded: dict[str, str] = {
        projection: f"(SELECT * FROM {index}.{projection} WHERE NOT {_in_touched(keys)} "
        f"UNION ALL SELECT * FROM work.{projection})"
        for projection in ("turns", "sessions")
        if projection in made
    }
    if "llm_calls" in made:
        folded["llm_calls"] = f"FROM {index}.beaten UNION ALL FROM work.beaten"
    if "sessions_master" in made:
        con.execute(f"CREATE OR REPLACE VIEW work.master_keys AS {_merged_keys(index, fresh, keys)}")
        master = sessions_master(folded["sessions"], "work.master_keys", keys)
        folded["sessions_master"] = f"({master})"
    return folded


def concerns(event: Mapping[str, Any]) -> bool:
    """Whether an event can change a projection: one of no session can where it says a call or the master."""
    return event["session_id"] is not None or event["event_type"] in ("llm", "sessions")


def exact(index: str, wanted: "Collection[str]") -> "dict[str, str]":
    """Relations of the projections of `wanted` as an index has them that knows all events; of `llm_calls`
    the query of those that do not count.

    Args: index: the catalog or schema of its tables.
    """
    return {
        projection: f"FROM {index}.beaten" if projection == "llm_calls" else f"{index}.{projection}"
        for projection in wanted
    }


def shown(
    projection: str,
    all_folded: "dict[str, str]",
    events: str,
    derived: joins.Derived,
    extras: frozenset[str],
    idle_hours: "float | None" = None,
) -> str:
    """The query of a projection with the columns that need other events.

    Args: all_folded: what `merge` or `exact` gives of it and of those it rests on; idle_hours: as in
    `lives.lived`; events: relation of all events; extras: which of
    these columns have their values (`query.views.EXTRAS`).
    """
    folded = all_folded[projection]
    if projection == "llm_calls":
        return joins.llm_calls(events, folded, extras)
    if projection == "turns":
        return joins.turns(folded, derived, extras)
    if projection == "sessions":
        return joins.sessions(folded, derived, extras, idle_hours)
    if idle_hours is not None:
        return lives.master(folded, all_folded["sessions"], idle_hours)
    return f"SELECT * FROM {folded}"


def update(con: duckdb.DuckDBPyConnection, index: str, fresh: str, history: History, keys: Keys = ()) -> None:
    """Bring the tables of a writable index up to date; arguments as in `merge`."""
    _fold_fresh(con, index, fresh, history, closure(STORED), keys=keys)
    con.execute(f"DELETE FROM {index}.calls WHERE NOT ({_not_beaten(keys)})")
    con.execute(f"INSERT INTO {index}.calls {_calls_of_index(keys)}")
    con.execute(f"INSERT INTO {index}.beaten FROM work.beaten")
    for projection in ("turns", "sessions"):
        con.execute(f"DELETE FROM {index}.{projection} WHERE {_in_touched(keys)}")
        con.execute(f"INSERT INTO {index}.{projection} SELECT * FROM work.{projection}")
    con.execute(f"CREATE TABLE work.master_keys AS {_merged_keys(index, fresh, keys)}")
    con.execute(f"CREATE OR REPLACE TABLE {index}.master_keys AS FROM work.master_keys")
    master = sessions_master(f"{index}.sessions", f"{index}.master_keys", keys)
    con.execute(f"CREATE OR REPLACE TABLE {index}.sessions_master AS {master}")


def _calls_of_index(keys: Keys) -> str:
    """The calls of `work.rows`, as an index keeps them."""
    return f"SELECT {led(keys)}key, position, session_id FROM work.rows WHERE {_not_beaten(keys)}"


def _not_beaten(keys: Keys) -> str:
    return f"{whole(keys, 'position')} NOT IN (SELECT {led(keys)}position FROM work.beaten)"


def _in_touched(keys: Keys) -> str:
    return f"{whole(keys, 'session_id')} IN (SELECT {led(keys)}session_id FROM work.touched)"


def closure(wanted: "Collection[str]") -> set[str]:
    """The projections of `wanted`, and those that are made on the way."""
    return {needed for projection in wanted for needed in _NEEDS[projection]}


def _fold_fresh(
    con: duckdb.DuckDBPyConnection,
    index: str,
    fresh: str,
    history: History,
    made: set[str],
    known: "Collection[str]" = (),
    keys: Keys = (),
) -> None:
    missing = made - set(known)
    if keys:
        history = _with_fresh(con, fresh, history)
    if not known:
        _meet(con, index, fresh, history, keys)
    if "turns" in missing:
        _touch(con, index, fresh, history, keys)
    fold_sessions(con, "work.history", "work.used", "work", missing, keys)


def _with_fresh(con: duckdb.DuckDBPyConnection, fresh: str, history: History) -> History:
    """`history` with all fresh events: those of one log may begin before what is wanted of another."""
    begin = _first_value(con, f"SELECT min(position) FROM {fresh}")
    if begin is None:
        return history
    return lambda first: history(None if first is None else min(first, begin))


def _meet(con: duckdb.DuckDBPyConnection, index: str, fresh: str, history: History, keys: Keys) -> None:
    """Make `work.rows`, `work.rivals` and `work.beaten`: the calls of `fresh` beside those of the index."""
    con.execute(WORK)
    con.execute(f"CREATE TABLE work.rows AS {d.call_rows(fresh, keys)}")
    con.execute(
        f"CREATE TABLE work.rivals AS SELECT * FROM {index}.calls WHERE key IN (SELECT key FROM work.rows)"
    )
    _beat(
        con,
        "SELECT key FROM (SELECT key FROM work.rows UNION ALL SELECT key FROM work.rivals) "
        "GROUP BY key HAVING count(*) > 1",
        history,
        keys,
        rivals=True,
    )


def _touch(con: duckdb.DuckDBPyConnection, index: str, fresh: str, history: History, keys: Keys) -> None:
    """Make `work.touched`, `work.history` and `work.used`: the sessions to fold again, and their events."""
    session, position, touched = f"{led(keys)}session_id", f"{led(keys)}position", _in_touched(keys)
    con.execute(
        f"CREATE TABLE work.touched AS SELECT DISTINCT {session} FROM ("
        f"SELECT {session} FROM {fresh} UNION ALL "
        f"SELECT {session} FROM work.rivals WHERE NOT ({_not_beaten(keys)})) WHERE session_id IS NOT NULL"
    )
    first = _first_value(con, f"SELECT min(first_position) FROM {index}.sessions WHERE {touched}")
    con.execute(f"CREATE VIEW work.history AS SELECT * FROM {history(first)} WHERE {touched}")
    con.execute(
        f"CREATE TABLE work.calls AS SELECT * FROM ({d.call_rows('work.history', keys)}) "
        f"WHERE {_not_beaten(keys)} AND {whole(keys, 'position')} IN "
        f"(SELECT {position} FROM {index}.calls WHERE {touched} UNION ALL SELECT {position} FROM work.rows)"
    )
    con.execute(f"CREATE TABLE work.used AS {d.token_sums('work.calls', keys)}")


def _beat(
    con: duckdb.DuckDBPyConnection, met: str, history: History, keys: Keys, rivals: bool = False
) -> None:
    """Make `work.beaten`: positions of rows that lose a call, of rows and rivals with a hash of `met`."""
    position = f"{led(keys)}position"
    rows = f"SELECT key, {position} FROM work.rows"
    if rivals:
        rows += f" UNION ALL SELECT key, {position} FROM work.rivals"
    con.execute(f"CREATE TABLE work.met AS SELECT {position} FROM ({rows}) WHERE key IN ({met})")
    first = _first_value(con, "SELECT min(position) FROM work.met")
    if first is None:  # nearly always: then no text is read
        con.execute("CREATE TABLE work.beaten AS FROM work.met")
        return
    superseded = d.superseded_calls(history(first), f"SELECT {position} FROM work.met", keys)
    con.execute(f"CREATE TABLE work.beaten AS {superseded}")


@contextmanager
def _beside(con: duckdb.DuckDBPyConnection, statements: "Sequence[str]") -> Iterator[None]:
    """Run `statements` on a second connection to the same databases while the block runs.

    What follows scans of the whole log is small and keeps one thread busy: scans fill the other.
    """
    if not statements:
        yield
        return
    failures: list[Exception] = []

    def execute() -> None:
        try:
            for statement in statements:
                second.execute(statement)
        except Exception as error:  # raised in the thread that waits, whatever it is
            failures.append(error)

    with con.cursor() as second:
        thread = threading.Thread(target=execute)
        thread.start()
        try:
            yield
        finally:
            thread.join()
    if failures:
        raise failures[0]


def _merged_keys(index: str, fresh: str, keys: Keys) -> str:
    rows = master_rows(fresh, keys)
    return master_keys(f"(SELECT * FROM {index}.master_keys UNION ALL {rows})", keys)


def _first_value(con: duckdb.DuckDBPyConnection, sql: str) -> "int | None":
    row = con.execute(sql).fetchone()
    value: int | None = row[0] if row else None
    return value
