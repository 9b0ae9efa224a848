"""What an agent wrote, from the tail of its transcript: `message` events as an import of the file makes them.

An import gives each text the same id, so it counts once, in either order (docs/event-ids.md). A text
whose id is not unique by itself is left to the import, which knows all sessions. Pure. On the hook path.
"""

from eventlog.agents.kit.call import is_global
from eventlog.base.names import event_id_of
from eventlog.base.types import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TEXT = "text"


def message(agent: str, text: str, *key: "str | None", **columns: object) -> "Event | None":
    """The event of a text; None where no part of `key` names it in all sessions."""
    if any(part is None for part in key) or not any(is_global(part) for part in key if part is not None):
        return None
    event: Event = {
        "event_type": "message",
        "event_kind": "observation",
        "source": "agent",
        "operation": TEXT,
        "payload": {"text": text},
        "event_id": event_id_of(agent, "message", *(part or "" for part in key)),
    }
    event.update((name, value) for name, value in columns.items() if value is not None)
    return event


def objects_of(value: object) -> "list[dict[str, Any]]":
    """Those of a list that are objects."""
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def text_in(content: object) -> str:
    """The texts of a content that is one, or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in objects_of(content) if isinstance(block.get("text"), str))
