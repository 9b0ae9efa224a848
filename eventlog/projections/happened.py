"""When an event happened, as far as it says, and which agents' events may not say.

`definitions.HAPPENED_AT` says the same in SQL. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from eventlog import agents

Timed = TypeVar("Timed", bound=Mapping[str, Any])

# Agents whose sessions are also read from the files they left, perhaps years later. What an import records of
# such a session without a time has an unknown one: it did not happen when it was read.
IMPORTED_AGENTS = tuple(sorted(["git", *(spec.name for spec in agents.importable())]))


def is_undated(event: Mapping[str, object]) -> bool:
    """Whether nobody knows when an event happened; `definitions.HAPPENED_AT` says it in SQL."""
    if event.get("occurred_at") is not None or event.get("agent") not in IMPORTED_AGENTS:
        return False
    return event.get("agent_session_id") is not None or event.get("event_type") == "transcript"


def happened_at(event: Mapping[str, Any]) -> int | None:
    """When an event happened, in microseconds; where it does not say, when it was recorded, unless an import
    wrote it (docs/design.md, section 9)."""
    at: int | None = event.get("occurred_at")
    return at if at is not None or is_undated(event) else event.get("recorded_at")


def in_order_of_time(events: Iterable[Timed]) -> list[Timed]:
    """Events, given in the order of the log, by when they happened (docs/times.md): those of one moment in
    the order of the log, an undated one with the one before it."""
    at: int | None = None
    keyed = []
    for event in events:
        known = happened_at(event)
        at = at if known is None else known
        keyed.append(((at is not None, at), event))
    return [event for _, event in sorted(keyed, key=lambda pair: pair[0])]
