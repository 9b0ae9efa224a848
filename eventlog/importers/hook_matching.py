"""A session that hooks recorded under ids of their own, matched with its transcript.

Hooks of an agent with `HookSpec.makes_ids` have no ids of turns and tool calls. A prompt is the hooks' turn
that comes next with the same text, else the one under way at its time; what follows it belongs to that turn.
A tool call is that of the same turn, tool and arguments whose outcome does not contradict. `adopt` gives the
events of the transcript the names that the hooks used, so that they are known. Pure; it must be given every
event of a source, in order.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from eventlog import agents
from eventlog.agents.kit.call import object_of, time_of
from eventlog.base.layout import Layout
from eventlog.base.names import event_id_of, short
from eventlog.base.types import Event
from eventlog.hooks import state

_LINES_MAX = 2_048  # of a session at once: late hooks concern its end
_OF_CALL = ("tool_start", "action", "error")
_MORE = 8  # equal calls beyond those that the transcript has


class HookMatcher:
    """Ids for the events of one session.

    Args: turns: (name, prompt) of the turns that hooks named, in order; actions: id and success; joined:
    turns that hooks recorded under the transcript's names, because an import had recorded them before.
    """

    def __init__(
        self,
        agent: str,
        turns: "Sequence[tuple[str, str]]",
        actions: "Mapping[str, bool | None]",
        joined: "Collection[str]" = (),
    ) -> None:
        self._agent = agent
        self._adapter = _adapter(agent)
        self._joined = joined
        self._turns = list(turns)
        self._actions = dict(actions)
        self._name_of: dict[str, str] = {}
        self._key_of: dict[str, tuple[str, ...]] = {}  # of tool calls, by the transcript's id
        self._call_counts: dict[tuple[str, ...], int] = {}

    def adopt(self, event: Event) -> None:
        """Give `event`, or the columns of one, the ids that hooks gave it."""
        kind, turn = event.get("event_type"), event.get("agent_turn_id")
        if kind == "turn" and event.get("operation") == "start" and turn not in self._name_of:
            if turn in self._joined:
                self._name_of[str(turn)] = str(turn)
            else:
                self._find_turn(str(turn), event)
        name = self._name_of.get(str(turn))
        if name is None:
            return
        event["agent_turn_id"] = name
        if kind == "turn" and event.get("operation") == "start":
            event["event_id"] = event_id_of(self._agent, "turn", name, "start")
        elif kind == "intent":
            event["event_id"] = event_id_of(self._agent, "intent", name)
        elif kind == "action":
            self._find_call(name, event)
        elif kind == "tool_start":  # of a call that never ended
            args = object_of(event, "payload").get("args")
            first_key = self._adapter.call_key(name, str(event.get("tool")), args, 0)
            key = (*first_key[:-1], str(self._call_counts.get(first_key, 0)))
            event["event_id"] = event_id_of(self._agent, "tool_start", *key)
        elif kind == "error":
            call_key_parts = self._key_of.get(str(event.get("tool_use_id")))
            if call_key_parts is not None:
                event["event_id"] = event_id_of(self._agent, "error", *call_key_parts)

    def _find_turn(self, turn: str, event: Event) -> None:
        text = object_of(event, "payload").get("user_message")
        occurred_us = event.get("occurred_at")
        matches = [number for number, (_, prompt) in enumerate(self._turns) if prompt == text]
        if not matches and isinstance(occurred_us, int):
            begun = [
                number
                for number, (name, _) in enumerate(self._turns)
                if (time_of(name.partition(":")[2]) or occurred_us + 1) <= occurred_us
            ]
            matches = begun[-1:]
        if matches:
            self._name_of[turn] = self._turns[matches[0]][0]
            del self._turns[: matches[0] + 1]

    def _find_call(self, turn: str, event: Event) -> None:
        tool, args = str(event.get("tool")), object_of(event, "payload").get("args")
        first_key: tuple[str, ...] = self._adapter.call_key(turn, tool, args, 0)
        equal_count = self._call_counts[first_key] = self._call_counts.get(first_key, 0) + 1
        if event["event_id"] in self._actions:
            return  # an import recorded it before the hooks
        for number in range(equal_count + _MORE):
            key = (*first_key[:-1], str(number))
            event_id = event_id_of(self._agent, "action", *key)
            if event_id not in self._actions:
                continue
            success = self._actions[event_id]
            if success is None or event.get("success") in (None, success):
                del self._actions[event_id]
                event["event_id"] = event_id
                self._key_of[str(event.get("tool_use_id"))] = key
                return


def prompt_of(agent: str, payload: "Mapping[str, object]") -> str:
    """The prompt that the start of a turn holds, as `HookMatcher` compares it."""
    message = payload.get("user_message")
    return str(_adapter(agent).without_context(message)[1]) if isinstance(message, str) else ""


def _adapter(agent: str) -> Any:
    spec = agents.spec_of(agent)
    assert spec is not None and spec.hooks is not None, "its hooks make ids"
    return agents.loaded(spec.hooks.adapter)


class ToHooks:
    """Notes for hooks that come after the import, from the events that it adds.

    Hooks do not ask the log. What is recorded before them goes to the notes of its session, so that hooks
    that report it again give it the same ids (docs/hooks.md). The lines are there before the events are: an
    import that is killed in between gives the same ids when it is repeated.
    """

    def __init__(self, layout: Layout, agent: str) -> None:
        self._layout = layout
        spec = agents.spec_of(agent)
        makes_ids = spec is not None and spec.hooks is not None and spec.hooks.makes_ids
        self._adapter: Any = _adapter(agent) if makes_ids else None
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
