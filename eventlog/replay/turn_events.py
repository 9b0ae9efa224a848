"""The events of turns from which their files follow, of many turns by one question. Any thread."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eventlog.base import jsontext
from eventlog.query.lookup import TurnRef

if TYPE_CHECKING:
    from eventlog.query.lookup import Query

TurnKey = tuple[str, int]  # session and turn

# With the payloads of changes and of actions with a capture. `{more}`: columns that the caller needs besides.
_EVENTS = """
    select e.session_id, e.turn, position, event_id, event_type, agent, operation, path, tree_hash,
        before_hash, after_hash, success, cause, {more}
        case when event_type <> 'action' or contains(payload, '"capture"') then payload end as payload
    from events as e
    semi join (select unnest($1::varchar[]) as session_id, unnest($2::bigint[]) as turn) as wanted
        using (session_id, turn)
    where event_type in ('snapshot', 'file', 'action', 'turn') and position >= $3 and position < $4
    order by position"""
# Columns that say whether the process of a turn is alive (`liveness.is_running`).
OF_PROCESS = "agent_session_id, agent_turn_id, epoch_us(recorded_at) as recorded_at,"


def events_of_turns(
    ask: "Query", refs: Sequence[TurnRef], more: str = ""
) -> dict[TurnKey, list[dict[str, Any]]]:
    """Their events in the order of the log. Args: more: columns of SQL, each with a comma after it."""
    events: dict[TurnKey, list[dict[str, Any]]] = {}
    if not refs:
        return events
    until = max(ref.until for ref in refs if ref.until is not None)
    asked = [[r.session_id for r in refs], [r.turn for r in refs], min(r.since for r in refs), until]
    result = ask(_EVENTS.format(more=more), asked)
    for row in result.rows:
        event = dict(zip(result.columns, row, strict=True))
        if isinstance(event["payload"], str):
            event["payload"] = jsontext.decode(event["payload"])
        events.setdefault((row[0], row[1]), []).append(event)
    return events
