"""Trajectories of SWE-agent: one JSON document, as `trajectory` with `history`, or only one of them.

What it rests on: `history` has all messages in order, `trajectory` the steps with what their commands gave;
an answer belongs to the first step with the same response, thought or action. There are no ids and no times;
token counts are those of the whole run.
"""

from typing import Any

from eventlog.agents.kit.call import int_of, object_of, text_of, without
from eventlog.agents.kit.draft import Draft, digest_of
from eventlog.agents.kit.steps import StepsReader, arguments_of
from eventlog.agents.kit.words import objects_of, text_in

AGENT = "swe-agent"
SUFFIXES = (".traj", ".json")
_Object = dict[str, Any]

# `query` repeats the history as the model was given it.
_OF_STEP = ("action", "observation", "response", "thought", "query")
_OF_MESSAGE = ("role", "content", "thought", "action", "tool_calls", "tool_call_ids", "agent", "message_type")


def recognises(record: _Object) -> bool:
    if "schema_version" in record:
        return False
    steps, messages = objects_of(record.get("trajectory")), objects_of(record.get("history"))
    return any("action" in element for element in steps) or any("role" in element for element in messages)


class SweAgentReader(StepsReader):
    """Reads one run."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._steps: list[_Object] = []
        self._open: list[tuple[str, _Object]] = []  # calls without a result, and their steps
        self._is_answered = False

    def take(self, record: _Object) -> None:
        draft, history = self._draft, objects_of(record.get("history"))
        self._steps = objects_of(record.get("trajectory"))
        if not history and not self._steps:
            draft.raw(record, "document", digest_of(record))
            return
        if draft.session is None:
            about = without(record, "trajectory", "history", "info")
            draft.begin_session(session_of(history, self._steps, record.get("environment")), about)
        for number, message in enumerate(history):
            self._tell.begin(number)
            self._message(number, message)
        for number, step in enumerate(self._steps, len(history)):  # that no message has
            self._tell.begin(number)
            self._answer(number, {}, step)
        self._close_calls()
        self._tell.begin("info")
        self._info(object_of(record, "info"))

    def _message(self, number: int, message: _Object) -> None:
        role, text = message.get("role"), text_in(message.get("content"))
        if role == "assistant":
            self._answer(number, message, self._step_of(message))
        elif self._open and role in ("user", "tool"):
            (call, step), *self._open = self._open
            given = step.get("observation", text)
            shown = None if given == text else text
            self._tell.result(call, given, shown=shown, **without(message, *_OF_MESSAGE))
        elif (
            role == "user"
            and not self._is_answered
            and self._draft.turn is None
            and not message.get("is_demo")
        ):
            self._tell.prompt(text, without(message, *_OF_MESSAGE))
        else:
            self._tell.rest(message, role if isinstance(role, str) else None)

    def _step_of(self, message: _Object) -> _Object:
        """The step that an answer is, if there is one."""
        for number, step in enumerate(self._steps):
            thought, response = step.get("thought"), step.get("response")
            if (response and response == message.get("content")) or (
                thought and thought == message.get("thought") and step.get("action") == message.get("action")
            ):
                return self._steps.pop(number)
        return {}

    def _answer(self, number: int, message: _Object, step: _Object) -> None:
        self._close_calls()
        self._is_answered = True
        thought = message.get("thought") or step.get("thought")
        text = text_in(message.get("content")) or step.get("response") or thought
        more = thought if isinstance(text, str) and isinstance(thought, str) and thought not in text else None
        calls = objects_of(message.get("tool_calls"))
        action, rest = step.get("action") or message.get("action"), without(step, *_OF_STEP)
        self._tell.say("text", text, thought=more, **without(message, *_OF_MESSAGE))
        for nth, call in enumerate(calls):
            function = object_of(call, "function")
            call_id = text_of(call, "id") or f"{number}.{nth}"
            self._tell.call(call_id, text_of(function, "name"), arguments_of(function), **rest)
            self._open.append((call_id, step))
        if not calls and action:
            self._tell.call(str(number), "shell", {"command": action}, **rest)
            self._open.append((str(number), step))

    def _close_calls(self) -> None:
        """Results of calls that no message shows."""
        for call, step in self._open:
            if "observation" in step:
                self._tell.result(call, step["observation"])
            else:
                self._tell.unfinished(call)
        self._open = []

    def _info(self, info: _Object) -> None:
        stats = object_of(info, "model_stats")
        read, written = int_of(stats, "tokens_sent"), int_of(stats, "tokens_received")
        if read or written:
            self._tell.usage(stats, None, prompt_tokens=read, completion_tokens=written)
        self._tell.rest(info, "info")


def session_of(history: "list[_Object]", steps: "list[_Object]", environment: object) -> str:
    """A run has no id: the digest of its environment, its prompts and its first answer."""
    first = next((n for n, message in enumerate(history) if message.get("role") == "assistant"), len(history))
    return digest_of([environment, history[: first + 1], steps[:1]])


READER = SweAgentReader
