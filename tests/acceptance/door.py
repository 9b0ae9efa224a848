"""Whether events are what the one door for events of a turn makes, whoever made them."""

from collections.abc import Iterable, Mapping
from typing import Any

from eventlog.base.types import KIND_OF_TYPE, LIFECYCLE_TYPES
from eventlog.recorder import lifecycle


def unlike_the_door(events: Iterable[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """(context id, column, what the door makes, what the event has), where these differ.

    Who stated it (`source`) is known better by the agent's own adapter: a person's command, a file that
    changed by itself.
    """
    found = []
    for event in events:
        if event["event_type"] in KIND_OF_TYPE and event["event_type"] not in LIFECYCLE_TYPES:
            place = event["session_id"], event["turn"]
            made = lifecycle.timeline_event(event["event_type"], *place, event["payload"])
            found += [
                (event["context_id"], name, value, event.get(name))
                for name, value in made.items()
                if name not in ("payload", "source") and event.get(name) != value
            ]
    return found
