"""Sessions of the pi coding agent and those that share its format (version 3): a tree of lines with ids.

What it rests on: ids of lines are unique in a session only; a call stands in the answer, its result is a
message of its own; `input` excludes what came from the cache. A branch that was left is told too.
"""

from collections.abc import Mapping
from typing import Any

from eventlog.agents.kit.call import int_of, object_of, text_of
from eventlog.agents.kit.draft import Draft, digest_of
from eventlog.agents.kit.steps import Steps, left_of, objects_of, others_in, text_in

AGENT = "pi"
_Said = dict[str, Any]
_OF_LINE = ("type", "id", "parentId", "timestamp", "message")
_OF_ANSWER = ("role", "content", "usage", "model", "responseId", "timestamp")
_OF_RESULT = ("role", "content", "toolCallId", "toolName", "isError", "timestamp")


def places(environ: "Mapping[str, str]") -> list[str]:
    home = environ.get("HOME", "")
    return [f"{environ.get('PI_CODING_AGENT_DIR') or home + '/.pi/agent'}/sessions"]


def recognises(said: _Said) -> bool:
    return said.get("type") == "session" and "id" in said and "cwd" in said


class PiReader:
    """Reads one session."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._tell = Steps(draft)
        self._early: list[_Said] = []
        self._previous: object = None
        self._started: dict[object, _Said] = {}  # what tools were started with, by call

    def take(self, said: _Said) -> None:
        draft = self._draft
        if draft.session is None and recognises(said):
            draft.cwd = text_of(said, "cwd")
            self._tell.begin("session", said.get("timestamp"), cwd=draft.cwd)
            draft.begin_session(
                text_of(said, "id") or digest_of(said), left_of(said, "type", "id", "timestamp")
            )
            for number, one in enumerate(self._early):
                self._tell.begin(f"early-{number}", one.get("updatedAt"))
                self._tell.rest(one, text_of(one, "type"))
            self._early = []
            return
        if draft.session is None and len(self._early) < 100:
            self._early.append(said)
            return
        self._tell.begin(text_of(said, "id") or digest_of(said), said.get("timestamp"))
        parent = said.get("parentId")
        branch = {"parent": parent} if parent != self._previous and self._previous is not None else {}
        self._previous = said.get("id", self._previous)
        message = said.get("message")
        if said.get("type") == "message" and isinstance(message, dict):
            self._message(said, message, {**left_of(said, *_OF_LINE), **branch})
        elif not self._is_start(said):
            self._tell.rest(
                {**left_of(said, "type", "parentId", "timestamp"), **branch}, text_of(said, "type")
            )

    def end(self) -> None:
        for one in self._early:
            self._draft.raw(one, text_of(one, "type"), digest_of(one))
        for call_id, started in self._started.items():
            self._tell.begin(f"started-{call_id}")
            self._tell.rest(started, "tool_execution_start")
        self._tell.end()

    def _is_start(self, said: _Said) -> bool:
        """Whether a line repeats a call that the answer behind it tells."""
        data = object_of(said, "data")
        call_id = text_of(data, "toolCallId")
        if said.get("customType") != "tool_execution_start" or call_id is None:
            return False
        self._started[call_id] = data
        return True

    def _message(self, line: _Said, said: _Said, rest: _Said) -> None:
        role, tell = said.get("role"), self._tell
        if role == "user":
            content = said.get("content")
            rest = {**rest, **left_of(said, "role", "content", "timestamp"), "content": others_in(content)}
            key = text_of(line, "id")
            tell.prompt(text_in(content), rest, None if key is None else f"{self._draft.session}:{key}")
        elif role == "assistant":
            self._answer(said, {**rest, **left_of(said, *_OF_ANSWER)})
        elif role == "toolResult" and text_of(said, "toolCallId") is not None:
            self._result(said, {**rest, **left_of(said, *_OF_RESULT)})
        else:
            tell.rest({**said, **rest}, text_of(said, "role"))

    def _answer(self, said: _Said, rest: _Said) -> None:
        tell = self._tell
        for block in objects_of(said.get("content")):
            kind, call_id = block.get("type"), text_of(block, "id")
            if kind == "text":
                tell.say("text", block.get("text"), **left_of(block, "type", "text"))
            elif kind == "thinking":
                tell.say("reasoning", block.get("thinking"), **left_of(block, "type", "thinking"))
            elif kind == "toolCall" and call_id is not None:
                others, args = left_of(block, "type", "id", "name", "arguments"), block.get("arguments")
                executed = self._started.pop(call_id, {}).get("args")
                if executed is not None and executed != left_of(object_of(block, "arguments"), "i"):
                    others["executed"] = executed
                tell.call(call_id, text_of(block, "name"), args, **others)
            else:
                tell.rest(block, text_of(block, "type"))
        usage = object_of(said, "usage")
        if usage:
            read, cached, written = (int_of(usage, name) for name in ("input", "cacheRead", "cacheWrite"))
            response = text_of(said, "responseId")
            tell.usage(
                usage, response, model=text_of(said, "model"), completion_tokens=int_of(usage, "output"),
                prompt_tokens=None if read is None else read + (cached or 0) + (written or 0),
                cache_read_tokens=cached, cache_write_tokens=written,
                reasoning_tokens=int_of(usage, "reasoningTokens"),
                stop_reason=text_of(said, "stopReason"),
            )  # fmt: skip
        if said.get("stopReason") in ("error", "aborted"):
            tell.error(said.get("errorMessage") or said["stopReason"], str(said["stopReason"]))
        tell.rest(rest, "assistant")

    def _result(self, said: _Said, rest: _Said) -> None:
        tell, call_id, failed = self._tell, str(said["toolCallId"]), said.get("isError")
        content = said.get("content")
        result = content if others_in(content) else text_in(content)
        success = None if not isinstance(failed, bool) else not failed
        tool = text_of(said, "toolName")
        tell.result(call_id, result, success, tool, **rest)
        if failed is True:
            tell.error(result, "tool_failure", tool=tool, tool_use_id=call_id)


READER = PiReader
