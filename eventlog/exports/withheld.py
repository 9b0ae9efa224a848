"""What may leave the store: the one place that every export asks (P5).

Secrets are taken out of events before they are written, so the text of an event in the log may leave.
What may not leave is a content that holds a secret, or was not looked through for one: it is kept for
replay on this machine only. Such a content is called withheld, and everything made from it (its bytes, a
diff) is withheld with it. The log says which ones are (docs/design.md §25). One thread, one view.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eventlog import config
from eventlog.log.withheld import withheld_in

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

# Who wrote and who committed, in the payload of a git commit's `intent`.
_PEOPLE = ("author", "committer")
_NAMES_PEOPLE = "event_type = 'intent' AND agent = 'git'"
_WITHOUT = "json_merge_patch(payload, '{" + ", ".join(f'"{key}": null' for key in _PEOPLE) + "}')::VARCHAR"

WITHHELD = "withheld: it holds a secret, or may hold one, and is kept for replay on this machine only"


class Exposure:
    """What of a view may leave. Asked for the first time it reads one type of events."""

    def __init__(self, view: "LogView") -> None:
        self._view = view
        self._withheld: frozenset[str] | None = None

    def may_leave(self, content_hash: str) -> bool:
        """Whether the content of that hash, and what is made of it, may be exported."""
        if self._withheld is None:
            self._withheld = withheld_in(self._view)
        return content_hash not in self._withheld


def names_people(store: "Store") -> bool:
    """Whether authors and committers may leave by name: `people` under [export] in config.toml."""
    return config.read(store.fs, store.layout).people


def without_people(event: Mapping[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The payload of an event without who wrote and committed it."""
    if event["event_type"] != "intent":
        return payload
    return {name: value for name, value in payload.items() if name not in _PEOPLE}


def events_for(store: "Store") -> str:
    """The relation of events that may leave, in SQL."""
    if names_people(store):
        return "events"
    payload = f"CASE WHEN {_NAMES_PEOPLE} THEN {_WITHOUT} ELSE payload END"
    return f"(SELECT * REPLACE ({payload} AS payload) FROM events)"
