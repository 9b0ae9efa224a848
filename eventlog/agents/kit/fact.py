"""A fact as a reader of transcripts met it, and what its payload says. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eventlog.base.types import Event

# The parts of a payload that hold the fact, where it has them.
_WORDS = ("text", "message", "user_message", "args", "result")


def words_in(payload: "dict[str, Any]") -> object:
    """What a payload says; the copy that a fork begins with differs only in where it is."""
    texts = [payload[name] for name in _WORDS if name in payload]
    return texts or {name: value for name, value in payload.items() if name != "parent"}


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact as a reader met it. `event_of` gives the event with its payload, or the columns of a model call:
    they are seldom asked for.

    `sessions` are that of the line and that which had the turn first. `tool_call` is the key of a tool call,
    after the event's type, and `called_at` when it was made; of a model call `message_id` is the id of its
    answer.
    """

    event_of: "Callable[[], Event]"
    sessions: "tuple[str, ...]"
    tool_call: "tuple[str, ...] | None" = None
    called_at: object = None
    message_id: str | None = None
    grows: bool = False  # the line is not the last of its answer

    @property
    def event(self) -> Event:
        return self.event_of()
