"""Columns that no fold and no index holds: the person and host of work, and the cost of model calls.

They are made only for a statement that names them, on the connection that answers it, in tables of the schema
`plain`; else they are null and cost nothing. Text and a connection; nothing is shared between threads.

**People.** The start of a session names `person` and `host` (docs/people.md), the `intent` of an imported
commit its author. An event has those of its turn, else of its session. Data that leaves the machine has only
what `People` allows, and its payloads then lack the keys with the same facts (P5).
"""

import duckdb

from eventlog.projections import definitions as d
from eventlog.query.people import FULL, HOME, KEYS, MARK, NO, TRAILER, TRAILER_IN_JSON, Digest, People

PEOPLE: d.Columns = (
    ("person", "VARCHAR", "who worked: `Name <address>` as git has them; null when unknown (docs/people.md)"),
    ("host", "VARCHAR", "the machine on which the session began; null when unknown"),
)
_COST = (
    "cost_usd",
    "DECIMAL(38,12)",
    "what the calls cost by list prices, of those that have one; null without any (docs/costs.md)",
)
COST: d.Columns = (_COST, ("unpriced_calls", "BIGINT", "model calls without a price"))
COST_OF_CALL: d.Columns = (
    (_COST[0], _COST[1], "what it cost by list prices; null where it has none (docs/costs.md)"),
    (
        "saved_usd", _COST[1],
        "how much more its prompt would have cost without a cache; below 0 where writing into one cost more",
    ),
)  # fmt: skip

COLUMNS_OF: "dict[str, d.Columns]" = {
    "events": PEOPLE,
    "sessions": PEOPLE + COST,
    "turns": PEOPLE + COST,
    "llm_calls": COST_OF_CALL,
}
OF_PEOPLE = frozenset(d.names_of(PEOPLE))
OF_COST = frozenset(d.names_of(COST + COST_OF_CALL))

# The schema of the tables that are made for a question.
SCHEMA = "memory.plain"
CALL_COSTS = f"{SCHEMA}.call_costs"

_NO_KEYS = ", ".join(f'"{key}": null' for key in KEYS)
_WITHOUT = f"json_merge_patch(payload, '{{{_NO_KEYS}}}')::VARCHAR"
_NAMED = " OR ".join(f"contains(payload, '\"{key}\"')" for key in KEYS)
_NAMES = f"(event_type = 'session' OR (event_type = 'intent' AND agent = 'git')) AND ({_NAMED})"


# Texts of rows that may hold names in a recognizable form.
_TEXTS = {
    "events": ("title", "cwd", "worktree"),
    "turns": ("title", "user_request", "outcome"),
    "sessions": ("title", "summary", "focus", "description"),
}
_LISTS = {"turns": ("files_read", "decisions", "actions_taken")}


def nameless(people: People, value: str, trailer: str = TRAILER) -> str:
    """`people.text_without` of a column."""

    def without(value: str, pattern: str, *signs: str) -> str:
        has = " OR ".join(f"contains({value}, '{sign}')" for sign in signs)
        pattern = pattern.replace("'", "''")
        return f"CASE WHEN {has} THEN regexp_replace({value}, '{pattern}', '\\1{MARK}', 'g') ELSE {value} END"

    value = without(value, trailer, "-by:", "-By:", "-BY:")
    return value if people.homes else without(f"({value})", HOME, "home", "Users")


def _texts(name: str, people: People, row: str = "") -> list[str]:
    if people.mode == FULL or name not in _TEXTS:
        return []
    texts = [f"{nameless(people, f'{row}{column}')} AS {column}" for column in _TEXTS[name]]
    return texts + [
        f"list_transform({row}{column}, lambda x: {nameless(people, 'x')}) AS {column}"
        for column in _LISTS.get(name, ())
    ]


def bind_people(con: duckdb.DuckDBPyConnection, events: str, people: People, schema: str = SCHEMA) -> None:
    """Make the tables of persons and hosts, from all events: `people`, and `authors` of turns."""
    of_sessions, of_turns = f"{schema}.people", f"{schema}.authors"
    of_type = f"FROM ({events}) WHERE session_id IS NOT NULL AND event_type"
    con.execute(
        f"CREATE TABLE {of_sessions} AS SELECT session_id, arg_max(person, position) AS person, "
        f"arg_max(host, position) AS host FROM (SELECT session_id, position, {_ident('$.person')} AS person, "
        f"TRY(json_extract_string(payload, '$.host')) AS host {of_type} = 'session') GROUP BY session_id"
    )
    con.execute(
        f"CREATE TABLE {of_turns} AS SELECT session_id, turn, arg_max(person, position) AS person FROM "
        f"(SELECT session_id, turn, position, {_ident('$.author')} AS person {of_type} = 'intent' "
        "AND agent = 'git') WHERE person IS NOT NULL GROUP BY session_id, turn"
    )
    if people.digest is not None:
        for table, column in ((of_sessions, "person"), (of_sessions, "host"), (of_turns, "person")):
            _replace(con, table, column, people.digest)


def _ident(key: str) -> str:
    """`Name <address>`, or the known part of it."""
    name, email = (f"TRY(json_extract_string(payload, '{key}.{part}'))" for part in ("name", "email"))
    return f"nullif(trim(concat_ws(' ', {name}, '<' || nullif({email}, '') || '>')), '')"


def _replace(con: duckdb.DuckDBPyConnection, table: str, column: str, digest: Digest) -> None:
    values = con.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()
    for (value,) in values:
        con.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", [digest(value), value])


def events(relation: str, people: People, *, named: bool, schema: str = SCHEMA) -> str:
    """The view `events` of a relation of all events. `named`: with persons and hosts."""
    payload = ""
    if people.mode != FULL:
        payload_without_names = f"(CASE WHEN {_NAMES} THEN {_WITHOUT} ELSE payload END)"
        payload = f"{nameless(people, payload_without_names, TRAILER_IN_JSON)} AS payload"
        shown = [payload, *_texts("events", people)]
        payload = f" REPLACE ({', '.join(shown)})"
    if not named or people.mode == NO:
        return f"SELECT *{payload}, NULL::VARCHAR AS person, NULL::VARCHAR AS host FROM ({relation})"
    return (
        f"SELECT e.*, coalesce(a.person, s.person) AS person, s.host FROM "
        f"(SELECT *{payload} FROM ({relation})) AS e {_of_sessions('e', schema)}{_of_turns('e', schema)}"
    )


def _of_sessions(row: str, schema: str = SCHEMA) -> str:
    return f" LEFT JOIN {schema}.people AS s ON s.session_id = {row}.session_id"


def _of_turns(row: str, schema: str = SCHEMA) -> str:
    return f" LEFT JOIN {schema}.authors AS a ON a.session_id = {row}.session_id AND a.turn = {row}.turn"


def projection(name: str, relation: str, people: People, *, named: bool, priced: bool) -> str:
    """The view of a projection: the query `relation`, with the columns of this module that it has."""
    shown = ", ".join(_texts(name, people, "p."))
    select, joins = [f"p.* REPLACE ({shown})" if shown else "p.*"], []
    if name in ("turns", "sessions"):
        if named and people.mode != NO:
            select += ["coalesce(a.person, s.person) AS person" if name == "turns" else "s.person", "s.host"]
            joins.append(_of_sessions("p") + (_of_turns("p") if name == "turns" else ""))
        else:
            select += ["NULL::VARCHAR AS person", "NULL::VARCHAR AS host"]
    if name in COLUMNS_OF and not priced:
        select += [f"NULL::{kind} AS {column}" for column, kind, _ in COLUMNS_OF[name] if column in OF_COST]
    elif name == "llm_calls":
        select += [f"c.{column}" for column in d.names_of(COST_OF_CALL)]
        joins.append(f"LEFT JOIN {CALL_COSTS} AS c ON c.position = p.position")
    elif name in COLUMNS_OF:
        keys = ("session_id", "turn") if name == "turns" else ("session_id",)
        select += ["c.cost_usd", "coalesce(c.unpriced_calls, 0) AS unpriced_calls"]
        same = " AND ".join(f"c.{key} = p.{key}" for key in keys)
        joins.append(
            f"LEFT JOIN (SELECT {', '.join(keys)}, sum(cost_usd)::{_COST[1]} AS cost_usd, "
            f"count(*) FILTER (cost_usd IS NULL) AS unpriced_calls FROM {CALL_COSTS} "
            f"WHERE session_id IS NOT NULL GROUP BY {', '.join(keys)}) AS c ON {same}"
        )
    return f"SELECT {', '.join(select)} FROM ({relation}) AS p {' '.join(joins)}"
