"""The agent's words from a rollout of Codex: the lines after a remembered offset, up to a bound.

Most texts are there as an item and as an event: `Texts` counts each once. The id of a text has the turn and
its number among equal ones of it. So an import is left lines before the first that names a turn, and
all that is read at once where it holds the history of another thread. Hooks report the model calls. On the
hook path.
"""

from blake3 import blake3

from eventlog.agents.kit.call import TranscriptOffset, object_of, read_tail, text_of, time_of
from eventlog.agents.kit.words import TEXT, message, text_in
from eventlog.base import jsontext
from eventlog.base.types import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ITEM, EVENT = 0, 1  # where a text is: in an item of the conversation, or in an event of the client

# Each line that is needed here has one of these words.
_NEEDED = (
    b'"session_meta"', b'"turn_context"', b'"task_started"', b'"task_complete"', b'"turn_aborted"',
    b'"thread_settings_applied"', b'"assistant"', b'"agent_message"', b'"AgentMessage"',
)  # fmt: skip


class Texts:
    """The texts of one turn, and how often each channel had them."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], list[int]] = {}

    def clear(self) -> None:
        self._counts.clear()

    def nth(self, kind: str, text: str, channel: int) -> int:
        """Which one of its kind a text is in its turn, from 1; 0 when the other channel had it."""
        counts = self._counts.setdefault((kind, text), [0, 0])
        counts[channel] += 1
        return counts[channel] if counts[channel] > counts[1 - channel] else 0


def read_calls(
    agent: str,
    path: str,
    mark: TranscriptOffset,
    bytes_max: int,
    turns: "dict[str, str] | None" = None,  # noqa: ARG001 -- lines name their turn
) -> "tuple[list[Event], TranscriptOffset]":
    """`message` events of the texts after `mark`, and the mark to go on from.

    Raises: OSError when the file cannot be read.
    """
    data, mark = read_tail(path, mark, bytes_max)
    tail = _Tail(agent)
    for line in data.split(b"\n"):
        if not any(word in line for word in _NEEDED):
            continue
        record = jsontext.object_if_any(line)
        if isinstance(record.get("payload"), dict):
            tail.take(record, record["payload"])
        if tail.is_mixed:
            return [], mark
    return tail.events, mark


class _Tail:
    """Reads the lines of one thread."""

    def __init__(self, agent: str) -> None:
        self.events: "list[Event]" = []
        self.is_mixed = False  # with the history of another thread
        self._agent = agent
        self._thread: "str | None" = None
        self._turn: "str | None" = None
        self._model: "str | None" = None
        self._cwd: "str | None" = None
        self._version: "str | None" = None
        self._texts = Texts()

    def take(self, record: "dict[str, Any]", payload: "dict[str, Any]") -> None:
        kind, inner = record.get("type"), payload.get("type")
        at = time_of(text_of(record, "timestamp"))
        if kind == "session_meta":
            self._begin(payload)
        elif kind == "turn_context":
            self._enter(text_of(payload, "turn_id"))
            self._model = text_of(payload, "model") or self._model
            self._cwd = text_of(payload, "cwd") or self._cwd
        elif kind == "response_item":
            if inner == "message" and payload.get("role") == "assistant":
                self._say(text_in(payload.get("content")), ITEM, at)
        elif kind == "event_msg":
            self._event(inner, payload, at)

    def _event(self, kind: object, payload: "dict[str, Any]", at: "int | None") -> None:
        words, item = payload.get("message"), object_of(payload, "item")
        if kind == "task_started":
            self._enter(text_of(payload, "turn_id"))
        elif kind in ("task_complete", "turn_aborted"):
            self._turn = None
            self._texts.clear()
        elif kind == "thread_settings_applied":
            self._model = text_of(object_of(payload, "thread_settings"), "model") or self._model
        elif kind == "agent_message" and isinstance(words, str):
            self._say(words, EVENT, at)
        elif kind == "item_completed" and item.get("type") == "AgentMessage":
            if self._turn is None:
                self._enter(text_of(payload, "turn_id"))
            self._say(text_in(item.get("content")), EVENT, at)

    def _begin(self, payload: "dict[str, Any]") -> None:
        thread = text_of(payload, "id")
        has_history = payload.get("forked_from_id") is not None or thread != (self._thread or thread)
        self.is_mixed = has_history or text_of(payload, "session_id") not in (None, thread)
        self._thread = thread
        self._cwd = text_of(payload, "cwd") or self._cwd
        self._version = text_of(payload, "cli_version") or self._version

    def _enter(self, turn: "str | None") -> None:
        if turn is not None and turn != self._turn:
            self._turn = turn
            self._texts.clear()

    def _say(self, text: str, channel: int, at: "int | None") -> None:
        nth = self._texts.nth(TEXT, text, channel)
        if not nth or self._turn is None:
            return
        digest = blake3(jsontext.encode(text)).hexdigest()[:32]
        columns = {
            "agent_turn_id": self._turn,
            "model": self._model,
            "cwd": self._cwd,
            "agent_version": self._version,
            "occurred_at": at,
        }
        event = message(self._agent, text, TEXT, f":{self._turn}", digest, str(nth), **columns)
        if event is not None:
            self.events.append(event)
