"""The stores of a lake as one log: each event once, with a position and a turn of its own (docs/lake-tables.md §3).

`settle` reads a few columns of all events and decides; `moved` gives the events as it decided. Stores go by
numbers here, in the order of their ids. Text and a connection; the caller brings both.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from eventlog.base.types import COLUMNS
from eventlog.projections import source
from eventlog.projections.lives import POSITION_BITS

if TYPE_CHECKING:
    import duckdb

# What `settle` reads of each event, beside the number of its store, and the types.
KEYS = {
    "position": "BIGINT",
    "event_id": "VARCHAR",
    "session_id": "VARCHAR",
    "turn": "BIGINT",
    "agent_turn_id": "VARCHAR",
}


def settle(con: "duckdb.DuckDBPyConnection", keys: str, schema: str = "main") -> None:
    """Make `copies`, `homes` and `numbers` in `schema`, from a relation `keys` with the columns `store` and KEYS.

    `copies` are the events that do not count (store, position), since another store's copy does. `homes` has for
    each session that several stores have the `place` of each of them, 1 the home. `numbers` are the turns that
    have another number in the one log than in their store (store, session_id, turn, number).
    """
    con.execute(f"CREATE TABLE {schema}.homes AS {_HOMES.format(keys=keys)}")
    con.execute(f"CREATE TABLE {schema}.copies AS {_COPIES.format(keys=keys, homes=f'{schema}.homes')}")
    con.execute(f"CREATE TABLE {schema}.numbers AS {_NUMBERS.format(keys=keys, homes=f'{schema}.homes')}")


# The order of the stores of a session: most of its events, then the lowest number.
_HOMES = """
    SELECT session_id, store, row_number() OVER (PARTITION BY session_id ORDER BY events DESC, store) AS place
    FROM (SELECT session_id, store, count(*) AS events FROM {keys} WHERE session_id IS NOT NULL GROUP BY ALL)
    QUALIFY count(*) OVER (PARTITION BY session_id) > 1"""

# Of an event without a session, or of a session that is another's elsewhere, the lowest number counts.
_COPIES = """
    SELECT k.store, k.position
    FROM {keys} AS k LEFT JOIN {homes} AS h ON h.session_id = k.session_id AND h.store = k.store
    WHERE k.event_id IN (SELECT event_id FROM {keys} GROUP BY event_id HAVING count(*) > 1)
    QUALIFY row_number() OVER (PARTITION BY k.event_id ORDER BY coalesce(h.place, 1), k.store) > 1"""

# A turn is named by its agent's id where an event of it has one, else by its number. A name that the home has
# keeps the home's number; the others follow after the home's last.
_NUMBERS = """
    WITH named AS (
        SELECT k.session_id, k.store, any_value(h.place) AS place, k.turn,
            coalesce('id ' || min(k.agent_turn_id), 'number ' || k.turn) AS name
        FROM {keys} AS k JOIN {homes} AS h ON h.session_id = k.session_id AND h.store = k.store
        WHERE k.turn IS NOT NULL GROUP BY k.session_id, k.store, k.turn
    ), firsts AS (
        SELECT session_id, name, min({{'place': place, 'turn': turn}}) AS first FROM named GROUP BY ALL
    ), last AS (
        SELECT session_id, max(turn) AS turn FROM named WHERE place = 1 GROUP BY session_id
    ), numbered AS (
        SELECT f.session_id, f.name, CASE WHEN f.first.place = 1 THEN f.first.turn
            ELSE coalesce(l.turn, 0) + row_number() OVER (
                PARTITION BY f.session_id, f.first.place = 1 ORDER BY f.first) END AS number
        FROM firsts AS f LEFT JOIN last AS l ON l.session_id = f.session_id
    )
    SELECT n.store, n.session_id, n.turn, o.number FROM named AS n
    JOIN numbered AS o ON o.session_id = n.session_id AND o.name = n.name
    WHERE n.place > 1 AND n.turn <> o.number"""


def moved(events: str, present: "Collection[str]", store: str, stores: int, schema: str = "main") -> str:
    """A query of the events of `events` that count, in their places in the one log; the columns are those of a segment.

    Args: present: the columns that `events` has, at least `position`, `session_id` and `turn`; others are null.
    store: an expression, the number of a row's store; stores: how many there are.
    """
    is_elsewhere = "coalesce(h.place, 1) > 1"
    changed = {
        "position": f"e.position + ((({store} + if({is_elsewhere}, {stores}, 0))::BIGINT) << {POSITION_BITS})",
        "turn": "coalesce(n.number, e.turn)",
        "turn_id": f"if(n.number IS NULL, e.turn_id, {_TURN_ID})",
        "context_id": f"if(n.number IS NULL, e.context_id, {_renamed('e.context_id')})",
        "extends": f"if(n.number IS NULL, e.extends, list_transform(e.extends, lambda link: {_renamed('link')}))",
    }
    kinds = {name: source.SQL_TYPE_OF[kind] for name, kind in COLUMNS} | {"anchor_payload": "VARCHAR"}
    shown = ", ".join(
        (changed.get(name, f'e."{name}"') if name in present else f"NULL::{kind}") + f' AS "{name}"'
        for name, kind in kinds.items()
    )
    return f"""
        SELECT {shown} FROM {events} AS e
        LEFT JOIN {schema}.homes AS h ON h.session_id = e.session_id AND h.store = {store}
        LEFT JOIN {schema}.numbers AS n
            ON n.session_id = e.session_id AND n.turn = e.turn AND n.store = {store}
        WHERE NOT EXISTS (FROM {schema}.copies AS c WHERE c.position = e.position AND c.store = {store})"""


_TURN_ID = "format('{:03d}', n.number)"


def _renamed(context_id: str) -> str:
    """`turn:SESSION_TURN` or `TYPE:SESSION_TURN_SEQ` with the turn's other number; what has another form stays."""
    kind, name = (
        f"split_part({context_id}, ':', 1)",
        f"{context_id}[len(split_part({context_id}, ':', 1)) + 2:]",
    )
    begins = "e.session_id || '_' || e.turn_id"
    return (
        f"CASE WHEN {name} = {begins} OR starts_with({name}, {begins} || '_') THEN "
        f"{kind} || ':' || e.session_id || '_' || {_TURN_ID} || ({name})[len({begins}) + 1:] ELSE {context_id} END"
    )
