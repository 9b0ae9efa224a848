"""Sessions of the pi coding agent and those that share its format (version 3): a tree of lines with ids.

What it rests on: ids of lines are unique in a session only; a call is part of the answer, its result is a
message of its own; `input` excludes what came from the cache. A branch that was left is recorded too.
"""

from collections.abc import Mapping
from typing import Any

from eventlog.agents.kit.call import int_of, object_of, text_of, without
from eventlog.agents.kit.draft import Draft, digest_of
from eventlog.agents.kit.steps import StepsReader, others_in
from eventlog.agents.kit.words import objects_of, text_in

AGENT = "pi"
_Object = dict[str, Any]
_OF_LINE = ("type", "id", "parentId", "timestamp", "message")
_OF_ANSWER = ("role", "content", "usage", "model", "responseId", "timestamp")
_OF_RESULT = ("role", "content", "toolCallId", "toolName", "isError", "timestamp")


def directories_of_transcripts(environ: "Mapping[str, str]") -> list[str]:
    home = environ.get("HOME", "")
    return [f"{environ.get('PI_CODING_AGENT_DIR') or home + '/.pi/agent'}/sessions"]


def recognises(record: _Object) -> bool:
    return record.get("type") == "session" and "id" in record and "cwd" in record


class PiReader(StepsReader):
    """Reads one session."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._early: list[_Object] = []
        self._previous: object = None
        self._started: dict[object, _Object] = {}  # what tools were started with, by call

    def take(self, record: _Object) -> None:
        draft = self._draft
        if draft.session is None and recognises(record):
            draft.cwd = text_of(record, "cwd")
            self._tell.begin("session", record.get("timestamp"), cwd=draft.cwd)
            draft.begin_session(
                text_of(record, "id") or digest_of(record), without(record, "type", "id", "timestamp")
            )
            for number, early in enumerate(self._early):
                self._tell.begin(f"early-{number}", early.get("updatedAt"))
                self._tell.rest(early, text_of(early, "type"))
            self._early = []
            return
        if draft.session is None and len(self._early) < 100:
            self._early.append(record)
            return
        self._tell.begin(text_of(record, "id") or digest_of(record), record.get("timestamp"))
        parent = record.get("parentId")
        branch = {"parent": parent} if parent != self._previous and self._previous is not None else {}
        self._previous = record.get("id", self._previous)
        message = record.get("message")
        if record.get("type") == "message" and isinstance(message, dict):
            self._message(record, message, {**without(record, *_OF_LINE), **branch})
        elif not self._is_start(record):
            self._tell.rest(
                {**without(record, "type", "parentId", "timestamp"), **branch}, text_of(record, "type")
            )

    def end(self) -> None:
        for early in self._early:
            self._draft.raw(early, text_of(early, "type"), digest_of(early))
        for call_id, started in self._started.items():
            self._tell.begin(f"started-{call_id}")
            self._tell.rest(started, "tool_execution_start")
        self._tell.end()

    def _is_start(self, record: _Object) -> bool:
        """Whether a line repeats a call that the answer after it reports."""
        data = object_of(record, "data")
        call_id = text_of(data, "toolCallId")
        if record.get("customType") != "tool_execution_start" or call_id is None:
            return False
        self._started[call_id] = data
        return True

    def _message(self, line: _Object, message: _Object, rest: _Object) -> None:
        role, tell = message.get("role"), self._tell
        if role == "user":
            content = message.get("content")
            rest = {**rest, **without(message, "role", "content", "timestamp"), "content": others_in(content)}
            key = text_of(line, "id")
            tell.prompt(text_in(content), rest, None if key is None else f"{self._draft.session}:{key}")
        elif role == "assistant":
            self._answer(message, {**rest, **without(message, *_OF_ANSWER)})
        elif role == "toolResult" and text_of(message, "toolCallId") is not None:
            self._result(message, {**rest, **without(message, *_OF_RESULT)})
        else:
            tell.rest({**message, **rest}, text_of(message, "role"))

    def _answer(self, message: _Object, rest: _Object) -> None:
        tell = self._tell
        for block in objects_of(message.get("content")):
            kind, call_id = block.get("type"), text_of(block, "id")
            if kind == "text":
                tell.say("text", block.get("text"), **without(block, "type", "text"))
            elif kind == "thinking":
                tell.say("reasoning", block.get("thinking"), **without(block, "type", "thinking"))
            elif kind == "toolCall" and call_id is not None:
                others, args = without(block, "type", "id", "name", "arguments"), block.get("arguments")
                executed = self._started.pop(call_id, {}).get("args")
                if executed is not None and executed != without(object_of(block, "arguments"), "i"):
                    others["executed"] = executed
                tell.call(call_id, text_of(block, "name"), args, **others)
            else:
                tell.rest(block, text_of(block, "type"))
        usage = object_of(message, "usage")
        if usage:
            read, cached, written = (int_of(usage, name) for name in ("input", "cacheRead", "cacheWrite"))
            response = text_of(message, "responseId")
            tell.usage(
                usage, response, model=text_of(message, "model"), completion_tokens=int_of(usage, "output"),
                prompt_tokens=None if read is None else read + (cached or 0) + (written or 0),
                cache_read_tokens=cached, cache_write_tokens=written,
                reasoning_tokens=int_of(usage, "reasoningTokens"),
                stop_reason=text_of(message, "stopReason"),
            )  # fmt: skip
        if message.get("stopReason") in ("error", "aborted"):
            tell.error(message.get("errorMessage") or message["stopReason"], str(message["stopReason"]))
        tell.rest(rest, "assistant")

    def _result(self, message: _Object, rest: _Object) -> None:
        tell, call_id, failed = self._tell, str(message["toolCallId"]), message.get("isError")
        content = message.get("content")
        result = content if others_in(content) else text_in(content)
        success = None if not isinstance(failed, bool) else not failed
        tool = text_of(message, "toolName")
        tell.result(call_id, result, success, tool, **rest)
        if failed is True:
            tell.error(result, "tool_failure", tool=tool, tool_use_id=call_id)


READER = PiReader
