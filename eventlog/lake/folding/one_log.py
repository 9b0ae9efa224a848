"""The stores of a lake as one log: each event once, with a position and a turn of its own.

`settle` decides by a few columns of all events, with the statements of the wide tables (`wide.py`); `moved`
then gives the events of a store as it decided (docs/lake-questions.md). Stores have numbers, in the order of
their ids. Text and a connection; the caller brings both.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from eventlog.base.types import COLUMNS, LIFECYCLE_TYPES
from eventlog.lake.folding import wide
from eventlog.projections import fold, source
from eventlog.projections.definitions import HAPPENED_AT
from eventlog.projections.lives import POSITION_BITS

if TYPE_CHECKING:
    import duckdb

# What is read of each event to decide.
READ = (
    "position", "event_id", "event_type", "session_id", "turn", "agent_turn_id", "operation", "agent",
    "agent_session_id", "occurred_at", "recorded_at",
)  # fmt: skip
# What is remembered of it.
KEYS = (
    "store_id, position, event_id, event_type, session_id, turn, agent_turn_id, operation, "
    f"{HAPPENED_AT} AS happened"
)

# As the fold counts the events of a session, and says when it began.
_SESSIONS = f"""(
    SELECT store_id, session_id, count(*) FILTER (event_type NOT IN {LIFECYCLE_TYPES}) AS events,
        coalesce(min(happened) FILTER (event_type = 'session' AND operation = 'start'), min(happened))
            AS started_at, max(happened) AS last_at
    FROM keys WHERE session_id IS NOT NULL AND event_type <> 'sessions' GROUP BY ALL)"""

# Sessions that several stores have, and those with an event that is in another session elsewhere.
_TOUCHED = """
    SELECT session_id FROM keys WHERE session_id IS NOT NULL GROUP BY session_id
    HAVING min(store_id) <> max(store_id)
    UNION SELECT session_id FROM keys WHERE session_id IS NOT NULL
    AND event_id IN (SELECT event_id FROM keys GROUP BY event_id HAVING count(*) > 1)"""

# What is of no session counts as the first store has it, and where none has it in a session.
_LOOSE = """
    SELECT store_id, position FROM keys WHERE (session_id IS NULL OR event_type = 'sessions')
    AND event_id IN (SELECT event_id FROM keys GROUP BY event_id HAVING count(*) > 1)
    AND (event_id IN (SELECT event_id FROM work.copies)
        OR (store_id, event_id) NOT IN (
            SELECT (min(store_id), event_id) FROM keys
            WHERE session_id IS NULL OR event_type = 'sessions' GROUP BY event_id))"""


def settle(con: "duckdb.DuckDBPyConnection") -> None:
    """Decide which events of the table `keys` (KEYS, of all stores) count, and what numbers turns get."""
    con.execute(fold.WORK)
    con.execute(f"CREATE TABLE work.touched AS {_TOUCHED}")
    wide.settle(con, "keys", _SESSIONS)
    con.execute(f"CREATE TABLE work.loose AS {_LOOSE}")


def moved(events: str, present: "Collection[str]", store_id: str, number: int, stores: int) -> str:
    """A query of the events of one store that count, in their places in the one log, as a segment has them.

    Args: events: a relation of the columns `present`; others are null; number: of the store; stores: how many
    there are, 1 where nothing had to be settled.
    """
    kinds = {name: source.SQL_TYPE_OF[kind] for name, kind in COLUMNS} | {"anchor_payload": "VARCHAR"}
    changed = _CHANGED if stores > 1 else {}
    shown = ", ".join(
        (changed.get(name, f'e."{name}"') if name in present else f"NULL::{kind}") + f' AS "{name}"'
        for name, kind in kinds.items()
    )
    if stores == 1:
        return f"SELECT {shown} FROM {events} AS e"
    own = f"WHERE store_id = {source.literal(store_id)}"
    return f"""
        SELECT {shown.format(home=number, elsewhere=number + stores, store_id=store_id)} FROM {events} AS e
        LEFT JOIN (SELECT position, rank, counts FROM work.copies {own}) AS c ON c.position = e.position
        LEFT JOIN (SELECT session_id, own, turn AS number FROM work.numbers {own} AND turn <> own) AS n
            ON n.session_id = e.session_id AND n.own = e.turn
        LEFT JOIN (SELECT session_id, store_id AS home FROM work.homes WHERE rank = 1) AS h
            ON h.session_id = e.session_id
        WHERE coalesce(c.counts, true) AND e.position NOT IN (SELECT position FROM work.loose {own})"""


_TURN_ID = "format('{{:03d}}', n.number)"


def _renamed(context_id: str) -> str:
    """`turn:SESSION_TURN` or `TYPE:SESSION_TURN_SEQ` with the turn's other number; any other form stays."""
    kind = f"split_part({context_id}, ':', 1)"
    name = f"{context_id}[len({kind}) + 2:]"
    begins = "e.session_id || '_' || e.turn_id"
    renamed = f"{kind} || ':' || e.session_id || '_' || {_TURN_ID} || ({name})[len({begins}) + 1:]"
    is_named = f"{name} = {begins} OR starts_with({name}, {begins} || '_')"
    return f"CASE WHEN {is_named} THEN {renamed} ELSE {context_id} END"


# What another home does not have comes after the logs of all stores: after the last event of any session.
_BLOCK = "if(coalesce(c.rank, 1) > 1, {elsewhere}, {home})"
_LINKS = f"list_transform(e.extends, lambda link: {_renamed('link')})"
# An id that programs use again (`m0`) names a call of its own store alone: with the store it names one here.
_OF_STORE = "{0} || '@' || coalesce(h.home, '{{store_id}}')[:8]"
_HAS_ID = "(message_id IS NOT NULL OR request_id IS NOT NULL)"
_IS_REUSED = f"{_HAS_ID} AND {wide.OF_SESSION}".replace("{", "{{").replace("}", "}}")
_CHANGED = {
    "message_id": f"CASE WHEN {_IS_REUSED} THEN {_OF_STORE.format('message_id')} ELSE message_id END",
    "request_id": f"CASE WHEN {_IS_REUSED} AND message_id IS NULL THEN {_OF_STORE.format('request_id')} "
    "ELSE request_id END",
    "position": f"e.position + (({_BLOCK})::BIGINT << {POSITION_BITS})",
    "turn": "coalesce(n.number, e.turn)",
    "turn_id": f"if(n.number IS NULL, e.turn_id, {_TURN_ID})",
    "context_id": f"if(n.number IS NULL, e.context_id, {_renamed('e.context_id')})",
    "extends": f"if(n.number IS NULL, e.extends, {_LINKS})",
}
