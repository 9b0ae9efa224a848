"""What readers of formats share that give their facts no ids: ids made of session, step and content.

An id is made of the session, the number of the step and a digest of the content, so that the same file gives
the same events, a file that grew adds what is new, and one that was rewritten loses nothing. Used by readers
only; one thread.
"""

from collections.abc import Mapping
from typing import Any

from eventlog.agents.kit.call import int_of, is_global, known
from eventlog.agents.kit.draft import Draft, digest_of
from eventlog.agents.kit.times import time_of
from eventlog.base import jsontext
from eventlog.base.types import Event

_TIME_MS_MAX = 253_402_300_800_000


class _Call:
    """A tool call that waits for its result: its arguments and fields, and the columns of its line."""

    __slots__ = ("args", "columns", "fields", "is_started", "tool")

    def __init__(self, tool: str | None, args: object, columns: Event, fields: dict[str, Any]) -> None:
        self.tool = tool
        self.args = args
        self.columns = columns
        self.fields = fields
        self.is_started = False


class Steps:
    """Tells the facts of a session, step by step; the session has begun."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._step: str | None = ""
        self._number = 0
        self._waiting: dict[str, list[_Call]] = {}  # those with one id in their order
        self._messages: dict[str, int] = {}  # how often each was counted whose id is not unique

    def begin(self, step: object, at: object = None, **columns: object) -> None:
        """A step begins: its number or its own id, its time (text, or milliseconds), its columns."""
        self._step, self._number = str(step), 0
        stated = known(occurred_at=moment_of(at), agent_turn_id=self._draft.turn)
        self._draft.of_line = known(**columns) | stated

    def prompt(self, text: str, rest: "Mapping[str, Any] | None" = None, key: str | None = None) -> None:
        """A person's message begins a turn; `rest` is what else its step says."""
        self._draft.begin_turn(key or ":".join(self._key(text)), text)
        self.rest(rest or {}, "prompt")

    def say(self, kind: str, text: object, **fields: object) -> None:
        """What the model said, and what else its line holds."""
        if isinstance(text, str) and text:
            self._draft.message(kind, text, *self._key(text), **fields)
        else:
            self.rest({**fields, "text": text or None}, kind)

    def call(self, call_id: str, tool: str | None, args: object, **fields: Any) -> None:
        """A tool is called; `call_id` is the session's own name of the call."""
        self._waiting.setdefault(call_id, []).append(_Call(tool, args, self._draft.of_line, fields))

    def started(self, call_id: str, tool: str | None, args: object, **fields: Any) -> None:
        """A call begins: of those that were asked for under its id one with its arguments, else the first."""
        asked = [waiting for waiting in self._waiting.get(call_id, ()) if not waiting.is_started]
        if not asked:
            self.call(call_id, tool, args, **fields)
            asked = self._waiting[call_id][-1:]
        waiting = next((call for call in asked if call.args == args), asked[0])
        if waiting.args != args:
            fields["requested"] = waiting.args
        waiting.tool, waiting.args, waiting.columns = tool or waiting.tool, args, self._draft.of_line
        waiting.fields, waiting.is_started = {**waiting.fields, **fields}, True

    def result(
        self,
        call_id: str,
        result: object,
        success: bool | None = None,
        tool: str | None = None,
        **fields: Any,
    ) -> Event:
        """What came of a call of `tool`; of one that nobody made, too."""
        draft = self._draft
        calls = self._waiting.get(call_id)
        call = calls.pop(0) if calls else _Call(tool, None, draft.of_line, {})
        if calls == []:
            del self._waiting[call_id]
        if "subagent_id" in call.columns:
            draft.of_line = {**draft.of_line, "subagent_id": call.columns["subagent_id"]}
        payload = {**call.fields, **fields, "args": call.args, "result": result}
        key = (draft.session, call_id)
        return draft.event(
            "action", payload, "action", *key, tool=call.tool, tool_use_id=call_id, success=success
        )  # fmt: skip

    def unfinished(self, call_id: str) -> None:
        """Nothing more comes of the first call with this id: what comes later is another's."""
        calls = self._waiting.get(call_id, [])
        if calls:
            self._tell_start(call_id, calls.pop(0))

    def usage(
        self,
        usage: "Mapping[str, Any]",
        message: str | None,
        *,
        stop_reason: object = None,
        **columns: object,
    ) -> None:
        """A model call, recorded again when its counts grew; `message` names it, the step if nothing does."""
        draft = self._draft
        message = message or self.name_of_step()
        if not is_global(message):
            number = self._messages[message] = self._messages.get(message, -1) + 1
            message = f"{message}#{number}" if number else message
        stopped = {} if stop_reason is None else {"stop_reason": stop_reason}
        message = draft.answer_id(message, lambda: columns)
        draft.event(
            "llm", {"usage": dict(usage), **stopped}, "llm", message, digest_of(usage),
            message_id=message, **columns,
        )  # fmt: skip

    def name_of_step(self) -> str:
        """What stands in for the id of a message that has none."""
        return f"{self._draft.session}:{self._step}"

    def error(self, message: object, kind: str, **columns: Any) -> None:
        self._draft.error({"message": message}, "error", *self._key(message), error_type=kind, **columns)

    def rest(self, fields: "Mapping[str, Any]", kind: str | None) -> None:
        """Keep what nothing else records, unless it is nothing."""
        rest = {name: value for name, value in fields.items() if value is not None and value != []}
        if rest:
            self._draft.raw(rest, kind, *self._key(rest))

    def end(self) -> None:
        """Calls of which nothing came."""
        for call_id, calls in self._waiting.items():
            for call in calls:
                self._tell_start(call_id, call)
        self._waiting.clear()

    def _tell_start(self, call_id: str, call: _Call) -> None:
        key = (self._draft.session, call_id)
        here, self._draft.of_line = self._draft.of_line, call.columns
        self._draft.event(
            "tool_start", {**call.fields, "args": call.args}, "tool_start", *key, source="agent",
            tool=call.tool, tool_use_id=call_id,
        )  # fmt: skip
        self._draft.of_line = here

    def _key(self, fields: object) -> tuple[str, str, str, str]:
        self._number += 1
        return str(self._draft.session), str(self._step), str(self._number), digest_of(fields)


class StepsReader:
    """A reader that tells the facts of one session by `Steps`."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._tell = Steps(draft)

    def end(self) -> None:
        """What is still pending at the end."""
        self._tell.end()


def moment_of(at: object) -> int | None:
    """Microseconds of a time that is a text, or milliseconds since 1970."""
    if isinstance(at, (int, float)) and not isinstance(at, bool):
        return int(at) * 1000 if 0 < at < _TIME_MS_MAX else None
    return time_of(at)


def counts(usage: "Mapping[str, Any]", **names: str) -> dict[str, int | None]:
    """Columns of token counts, by the names that a format gives them."""
    return {column: int_of(usage, name) for column, name in names.items()}


def arguments_of(call: "Mapping[str, Any]") -> object:
    """The arguments of a call, which are JSON as text; as they are where they are none."""
    try:
        return jsontext.decode(str(call.get("arguments")))
    except (ValueError, RecursionError):
        return call.get("arguments")


def others_in(content: object) -> "list[Any] | None":
    """The blocks of a content that are more than text."""
    blocks = content if isinstance(content, list) else []
    others = [block for block in blocks if not (isinstance(block, dict) and set(block) <= {"type", "text"})]
    return others or None
