"""Notes of an import for the hooks of an agent that gives its turns and tool calls no ids.

Hooks do not ask the log. Where an adapter names turns and tool calls (`HookSpec.makes_ids`), what an import
records before them goes to the notes of its session: hooks that tell it again give it the same ids
(docs/hooks.md).
The lines stand there before the events do: an import that is killed in between gives the same ids when it is
repeated. One thread.
"""

from typing import Any

from eventlog import agents
from eventlog.agents.kit.call import object_of
from eventlog.base.layout import Layout
from eventlog.base.types import Event
from eventlog.hooks import state
from eventlog.hooks.state import short

_LINES_MAX = 2_048  # of a session at once: late hooks concern its end
_OF_CALL = ("tool_start", "action", "error")


class ToHooks:
    """Lines for the notes of sessions, from the events that an import adds."""

    def __init__(self, layout: Layout, agent: str) -> None:
        self._layout = layout
        spec = agents.spec_of(agent)
        hooks = None if spec is None else spec.hooks
        is_needed = hooks is not None and hooks.makes_ids
        self._adapter: Any = agents.loaded(hooks.adapter) if hooks is not None and is_needed else None
        self._lines: dict[str, list[list[str]]] = {}
        self._keys: dict[str, str] = {}  # of the latest calls, by id

    def take(self, event: Event) -> None:
        """Take an event that is about to be added."""
        session, turn = event.get("agent_session_id"), event.get("agent_turn_id")
        if self._adapter is None or not isinstance(session, str) or not isinstance(turn, str):
            return
        if turn.startswith(f"{session}:"):
            return  # hooks named it
        line = self._line_of(event, turn)
        if line is not None and all(len(word.split()) == 1 for word in line):
            self._lines.setdefault(session, []).append(line)

    def write(self) -> None:
        """Write the notes. If that fails, hooks lack them; nothing else depends on it."""
        lines, self._lines = self._lines, {}
        for session, of_session in lines.items():
            try:
                state.note_calls(self._layout, session, of_session[-_LINES_MAX:])
            except OSError:
                return

    def _line_of(self, event: Event, turn: str) -> "list[str] | None":
        event_type, occurred_us = str(event["event_type"]), event.get("occurred_at")
        if event_type == "turn" and event.get("operation") == "start" and isinstance(occurred_us, int):
            prompt = object_of(event, "payload").get("user_message")
            return ["imported", turn, str(occurred_us), short(str(prompt))]
        if event_type in _OF_CALL and event.get("tool") is not None:
            return ["imported_call", short(turn), self._key_of(event), event_type, str(event["event_id"])]
        return None

    def _key_of(self, event: Event) -> str:
        """The hooks' key of the tool call; an error comes after its action, which has the arguments."""
        call = str(event.get("tool_use_id"))
        if event["event_type"] != "error":
            self._keys.clear()
            args = object_of(event, "payload").get("args")
            self._keys[call] = short("\0".join((str(event["tool"]), self._adapter.digest_of(args))))
        return self._keys.get(call, "-")
