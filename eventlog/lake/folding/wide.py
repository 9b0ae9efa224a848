"""Over all stores: every session, turn and model call once (docs/lake-tables.md §3).

Statements for DuckDB over relations with `store_id`; neither objects nor tables. What only one store has
keeps its store's row. Sessions that stores share are *touched*: their events are put together as one log,
each event once, and folded once more by the fold of every store.

`touch` says from the stores' own rows which sessions these are; `fold_wide` is then given the events of
these alone. What is computed on the way lies in the in-memory database `work`. Not for concurrent use of one
connection.
"""

from typing import TYPE_CHECKING

from eventlog.log.numbering import INT_MAX
from eventlog.projections import definitions as d
from eventlog.projections import fold

if TYPE_CHECKING:
    import duckdb

TABLES = ("wide_calls", "wide_turns", "wide_sessions")

# The columns of events that a wide fold needs.
EVENT_COLUMNS = (
    "store_id", "position", "event_id", "event_type", "session_id", "turn", "context_id", "extends",
    "agent", "agent_session_id", "agent_turn_id", "subagent_id", "message_id", "request_id", "repo", "branch",
    "commit", "occurred_at", "recorded_at", "title", "status", "path", "operation", "model",
    "prompt_tokens", "completion_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens",
    "cache_write_1h_tokens", "duration_ms", "success", "tree_hash", "anchor_payload",
)  # fmt: skip


def _is_global(column: str) -> str:
    """`agents.kit.call.is_global` in SQL: whether an id is unique by itself."""
    word = f"regexp_extract({column}, '[A-Za-z0-9]*$')"
    return f"""CASE WHEN regexp_full_match({word}, '[A-Za-z]*')
            THEN len({word}) >= 12 AND {word} <> lower({word}) AND {word} <> upper({word})
            WHEN regexp_full_match({word}, '[0-9]*') THEN len({word}) >= 12 ELSE len({word}) >= 5 END"""


# What makes two rows of several stores one call: as in one store, but ids that programs use again (`m0`) name
# a call of their session alone, since the programs of two stores know nothing of each other. And which of
# these rows counts: positions of several stores are no places in one log.
OF_SESSION = (
    f"NOT (coalesce({_is_global('message_id')}, false) OR coalesce({_is_global('request_id')}, false))"
)
_WITHIN = f"""CASE WHEN message_id IS NULL AND request_id IS NULL THEN event_id
            WHEN {OF_SESSION} THEN session_id END"""
_CALL_KEY = f"agent, message_id, request_id, {_WITHIN}"
_CALL_ORDER = f"{d.CALL_ORDER.removesuffix('position')}store_id, position"

_HOME_AND_STORES = "arg_min(store_id, rank) AS home, list_sort(list_distinct(list(store_id))) AS stores"
_IN_TOUCHED = "session_id IN (SELECT session_id FROM work.touched)"


def touch(con: "duckdb.DuckDBPyConnection", calls: str, turns: str, sessions: str) -> None:
    """Make `work.shared`, rows of calls that several stores have, and `work.touched`, the sessions to fold
    once more: at least those whose wide row may differ from the row of their only store.

    Args: calls, turns, sessions: the rows of all stores, as the fold makes them, with `store_id`.
    """
    con.execute(fold.WORK)
    con.execute(f"CREATE TABLE work.shared AS {_shared(calls)}")
    con.execute(
        f"""CREATE TABLE work.touched AS
        SELECT session_id FROM {sessions} GROUP BY session_id HAVING count(*) > 1
        UNION SELECT session_id FROM work.shared WHERE session_id IS NOT NULL
        UNION SELECT unnest(copies) FROM ({_copied_turns(turns)})"""
    )


def fold_wide(con: "duckdb.DuckDBPyConnection", events: str, calls: str, turns: str, sessions: str) -> None:
    """Make the views `wide_calls`, `wide_turns` and `wide_sessions`, after `touch`.

    Args: events: at least the events of `work.touched`, of all stores, with EVENT_COLUMNS.
    """
    settle(con, events, sessions)
    con.execute(f"CREATE TABLE work.events AS {_events(events)}")
    con.execute(f"CREATE TABLE work.counting AS {_counting(calls)}")
    counted = "(SELECT * FROM work.events WHERE event_id IN (SELECT event_id FROM work.counting))"
    con.execute(f"CREATE TABLE work.used AS {d.token_sums(f'({d.call_rows(counted)})')}")
    fold.fold_sessions(con, "work.events", "work.used", "work", ("turns", "sessions"))
    con.execute(f"CREATE VIEW wide_calls AS {_wide_calls(calls)}")
    con.execute(f"CREATE VIEW wide_turns AS {_wide_turns(turns)}")
    con.execute(f"CREATE VIEW wide_sessions AS {_wide_sessions(sessions)}")


def settle(con: "duckdb.DuckDBPyConnection", events: str, sessions: str) -> None:
    """Make `work.homes`, `work.copies` and `work.numbers` of the sessions in `work.touched`.

    Args: as for `fold_wide`; of `events` store_id, position, event_id, session_id, event_type, agent_turn_id
    and turn, of `sessions` store_id, session_id, events, started_at and last_at.
    """
    con.execute(f"CREATE TABLE work.homes AS {_homes(sessions)}")
    con.execute(f"CREATE TABLE work.copies AS {_copies(events)}")
    con.execute(f"CREATE TABLE work.numbers AS {_numbers()}")


def texts() -> "list[str]":
    """The statements, of which the hash of their code is made."""
    parts = (_shared("c"), _copied_turns("t"), _homes("s"), _copies("e"), _numbers(), _events("e"))
    return [*parts, _counting("c"), _wide_calls("c"), _wide_turns("t"), _wide_sessions("s")]


def _shared(calls: str) -> str:
    """Of the rows of calls that several stores have: whether it counts over all, and the stores."""
    several = "GROUP BY 1 HAVING min(store_id) <> max(store_id)"
    return f"""
        SELECT store_id, position, event_id, session_id,
            row_number() OVER (PARTITION BY {_CALL_KEY} ORDER BY {_CALL_ORDER}) = 1 AS counts,
            list_sort(list_distinct(list(store_id) OVER (PARTITION BY {_CALL_KEY}))) AS stores
        FROM {calls} WHERE hash({_CALL_KEY}) IN (SELECT hash({_CALL_KEY}) FROM {calls} {several})
        OR event_id IN (SELECT event_id FROM {calls} WHERE {OF_SESSION} {several})"""


def _copied_turns(turns: str) -> str:
    """Sessions with a turn that another store has in another session: one agent, begun at one moment.

    This may list too many: to fold a session once more changes nothing.
    """
    return f"""
        SELECT list(DISTINCT session_id) AS copies FROM {turns} WHERE happened_at IS NOT NULL
        GROUP BY agent, happened_at
        HAVING min(store_id) <> max(store_id) AND min(session_id) <> max(session_id)"""


def _homes(sessions: str) -> str:
    """The stores of each touched session in their order, its home first, and when it began and ended."""
    return f"""
        SELECT session_id, store_id,
            row_number() OVER (PARTITION BY session_id ORDER BY events DESC, store_id) AS rank,
            min(started_at) OVER (PARTITION BY session_id) AS began,
            max(last_at) OVER (PARTITION BY session_id) AS ended
        FROM {sessions} WHERE {_IN_TOUCHED}"""


def _copies(events: str) -> str:
    """Every event of touched sessions in every store, and whether it counts: of one id only one does."""
    return f"""
        SELECT e.store_id, e.position, e.event_id, e.session_id, h.rank, e.event_type, e.agent_turn_id,
            CASE WHEN e.event_type <> 'session' THEN e.turn END AS turn,
            row_number() OVER (PARTITION BY e.event_id
                ORDER BY h.began NULLS LAST, h.ended NULLS LAST, e.session_id, h.rank) = 1 AS counts
        FROM {events} e JOIN work.homes h ON h.store_id = e.store_id AND h.session_id = e.session_id
        WHERE e.event_type <> 'sessions'"""


def _numbers() -> str:
    """The number over all stores of each store's turns.

    What makes turns of two stores one: the agent's id, and which turn with this id it is; without an id the
    number in its store.
    """
    return f"""
        WITH units AS (
            SELECT session_id, store_id, rank, turn, bool_or(counts) AS counts,
                coalesce(arg_min(agent_turn_id, position) FILTER (event_type = 'turn'),
                    arg_min(agent_turn_id, position)) AS id
            FROM work.copies WHERE turn IS NOT NULL GROUP BY ALL
        ), named AS (
            SELECT *, CASE WHEN id IS NULL THEN turn
                ELSE row_number() OVER (PARTITION BY session_id, rank, id ORDER BY turn) END AS nth
            FROM units
        ), met AS (
            SELECT session_id, id, nth, min(rank) AS rank, arg_min(turn, rank) AS turn,
                bool_or(counts) AS counts
            FROM named GROUP BY ALL
        ), numbered AS (
            SELECT * REPLACE (CASE WHEN rank = 1 THEN turn ELSE least({INT_MAX},
                coalesce(max(CASE WHEN rank = 1 THEN turn END) OVER (PARTITION BY session_id), 0)::HUGEINT
                + row_number() OVER (PARTITION BY session_id, rank = 1 ORDER BY rank, turn)
                )::BIGINT END AS turn)
            FROM met WHERE rank = 1 OR counts
        )
        SELECT n.session_id, n.store_id, n.rank, n.turn AS own, m.turn
        FROM named n JOIN numbered m
        ON m.session_id = n.session_id AND m.id IS NOT DISTINCT FROM n.id AND m.nth = n.nth"""


def _events(events: str) -> str:
    """The events that count, as one log of each touched session: with their positions and turns in it."""
    return f"""
        WITH placed AS (
            SELECT store_id, session_id, position AS own, turn AS own_turn,
                CASE WHEN rank = 1 THEN position ELSE last
                    + row_number() OVER (PARTITION BY session_id, rank = 1 ORDER BY rank, position)
                    END AS position
            FROM (SELECT *, coalesce(
                    max(CASE WHEN rank = 1 THEN position END) OVER (PARTITION BY session_id), 0) AS last
                FROM work.copies)
            WHERE counts
        )
        SELECT e.* REPLACE (p.position AS position, n.turn AS turn,
            CASE WHEN e.event_type = 'turn' AND n.turn <> e.turn
                THEN format('turn:{{}}_{{:03d}}', e.session_id, n.turn) ELSE e.context_id END AS context_id)
        FROM placed p JOIN {events} e ON e.store_id = p.store_id AND e.position = p.own
        LEFT JOIN work.numbers n
        ON n.session_id = p.session_id AND n.store_id = p.store_id AND n.own = p.own_turn"""


def _counting(calls: str) -> str:
    """The ids of the events whose calls count over all stores, in touched sessions and among shared calls."""
    return f"""
        SELECT event_id, list_sort(list_distinct(flatten(list(stores)))) AS stores FROM (
            SELECT event_id, stores FROM work.shared WHERE counts
            UNION ALL
            SELECT event_id, [store_id] FROM {calls} ANTI JOIN work.shared USING (store_id, position)
            WHERE {_IN_TOUCHED})
        GROUP BY event_id"""


def _wide_calls(calls: str) -> str:
    columns = d.all_of("llm_calls")
    return f"""
        SELECT store_id, [store_id] AS stores, {columns}
        FROM {calls} ANTI JOIN work.shared USING (store_id, position)
        WHERE session_id IS NULL OR NOT {_IN_TOUCHED}
        UNION ALL
        SELECT store_id, stores, {columns}
        FROM work.events JOIN work.counting USING (event_id) WHERE event_type = 'llm'
        UNION ALL
        SELECT store_id, stores, {columns}
        FROM {calls} JOIN (SELECT store_id, position, stores FROM work.shared WHERE counts)
            USING (store_id, position)
        WHERE event_id NOT IN (SELECT event_id FROM work.events)"""


def _wide_turns(turns: str) -> str:
    columns = d.all_of("turns")
    return f"""
        SELECT store_id, [store_id] AS stores, {columns} FROM {turns} WHERE NOT {_IN_TOUCHED}
        UNION ALL
        SELECT home, stores, {columns} FROM work.turns
        JOIN (SELECT session_id, turn, {_HOME_AND_STORES} FROM work.numbers GROUP BY ALL)
            USING (session_id, turn)"""


def _wide_sessions(sessions: str) -> str:
    columns = d.all_of("sessions")
    return f"""
        SELECT store_id, [store_id] AS stores, {columns} FROM {sessions} WHERE NOT {_IN_TOUCHED}
        UNION ALL
        SELECT home, stores, {columns} FROM work.sessions
        JOIN (SELECT session_id, {_HOME_AND_STORES} FROM work.homes GROUP BY ALL) USING (session_id)"""
