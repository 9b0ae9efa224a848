"""The event that maintenance leaves in the log when it changed something.

Pure. One event for one piece of work: agent `locus`, operation the work (`compact`, `repack`, `collect`, …),
payload its figures. It belongs to no session, hence has no turn, no seq and no context, and counts in no
total. It only notes the work: a process that dies between the two leaves the work done and unnoted.
"""

from typing import Any

from eventlog.base.types import Event

MAINTENANCE = "maintenance"


def maintenance_event(operation: str, figures: "dict[str, Any]") -> Event:
    """The event to append when `operation` is done. Args: figures: counts and bytes; unknown is None."""
    return {
        "event_type": MAINTENANCE,
        "event_kind": "fact",
        "source": "system",
        "agent": "locus",
        "operation": operation,
        "payload": figures,
    }
