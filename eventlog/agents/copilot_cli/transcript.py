"""Sessions of GitHub Copilot: `events.jsonl` of its command line, and chats of VS Code (`chat`).

What it rests on: each line is {type, data, id, timestamp, parentId}; a message may count its output, and the
end of a run counts all of its model calls by model: what its messages did not count goes to the last of them.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from eventlog.agents.copilot_cli import chat
from eventlog.agents.kit.call import int_of, known, object_of, text_of, without
from eventlog.agents.kit.draft import Draft, digest_of
from eventlog.agents.kit.lines import FileSource
from eventlog.agents.kit.steps import StepsReader, counts
from eventlog.agents.kit.words import objects_of, text_in
from eventlog.base.names import event_id_of
from eventlog.base.types import Event

AGENT = "copilot-cli"
SUFFIXES = (".jsonl", ".json")
_Object = dict[str, Any]
_OF_LINE = ("type", "data", "id", "parentId", "timestamp")
_OF_MESSAGE = (
    "content",
    "reasoningText",
    "toolRequests",
    "model",
    "outputTokens",
    "usage",
    "parentToolCallId",
)
_OF_RESULT = ("toolCallId", "success", "result", "error", "model", "parentToolCallId")


def directories_of_transcripts(environ: "Mapping[str, str]") -> list[str]:
    return [environ.get("COPILOT_HOME") or f"{environ.get('HOME', '')}/.copilot"]


def sources_in(path: str) -> list[FileSource]:
    return [FileSource(AGENT, [path])] if os.path.basename(path) == "events.jsonl" else []


def root_of(_: FileSource, head: "list[_Object]", roots: "list[str]") -> str | None:
    contexts = [object_of(object_of(record, "data"), "context") for record in head]
    cwd = next((os.path.normpath(path) for context in contexts if (path := text_of(context, "cwd"))), None)
    return None if cwd is None else next((root for root in roots if f"{cwd}/".startswith(f"{root}/")), None)


def recognises(record: _Object) -> bool:
    is_start = record.get("type") == "session.start" and "sessionId" in object_of(record, "data")
    return is_start or chat.recognises(record)


class _Answer(NamedTuple):
    """A message that counts its tokens, until it is known whether the end of the run counts more."""

    message: str
    model: str | None
    usage: _Object
    read: int | None
    written: int
    columns: Event


class CopilotCliReader(StepsReader):
    """Reads one session."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._chat: chat.Chat | None = None
        self._model: str | None = None
        self._answers: dict[str | None, list[_Answer]] = {}  # model → those that this run counted
        self._reasoned: object = None

    def take(self, record: _Object) -> None:
        if self._chat is None and chat.recognises(record):
            self._chat = chat.Chat(self._draft, self._tell)
        if self._chat is not None:
            self._chat.take(record)
            return
        draft = self._draft
        data = {**object_of(record, "data"), **without(record, *_OF_LINE)}
        kind = text_of(record, "type")
        context = object_of(data, "context")
        self._tell.begin(
            text_of(record, "id") or digest_of(record),
            record.get("timestamp"),
            **_columns_of_context(data, context),
        )
        if kind == "session.start" and draft.session is None:
            draft.cwd, draft.commit = text_of(context, "cwd"), text_of(context, "headCommit")
            draft.columns |= known(agent_version=text_of(data, "copilotVersion"))
            self._model = text_of(data, "selectedModel")
            draft.begin_session(text_of(data, "sessionId") or digest_of(data), data)
        elif kind == "user.message":
            self._tell.prompt(text_in(data.get("content")), without(data, "content"), text_of(record, "id"))
        elif kind == "assistant.message":
            self._answer(data)
        elif kind == "assistant.reasoning":
            self._reasoned = data.get("content")
            self._tell.say("reasoning", self._reasoned, **without(data, "content"))
        elif kind == "tool.execution_start" and (call_id := text_of(data, "toolCallId")):
            others = without(data, "toolCallId", "toolName", "arguments", "parentToolCallId")
            self._tell.started(call_id, text_of(data, "toolName"), data.get("arguments"), **others)
        elif kind == "tool.execution_complete" and (call_id := text_of(data, "toolCallId")):
            self._result(call_id, data)
        elif kind == "session.error":
            self._tell.error(data.get("message"), text_of(data, "errorType") or "client")
            self._tell.rest(without(data, "message", "errorType"), kind)
        else:
            if kind == "abort":
                draft.status = "interrupted"
            elif kind == "session.model_change":
                self._model = text_of(data, "newModel")
            elif kind == "session.shutdown":
                self._run_ended(str(record.get("id")), object_of(data, "modelMetrics"))
            self._tell.rest(data, kind)

    def end(self) -> None:
        if self._chat is not None:
            self._chat.end()
        self._tell_last()
        self._tell.end()

    def _answer(self, data: _Object) -> None:
        tell, reasoning = self._tell, data.get("reasoningText")
        if reasoning != self._reasoned:
            tell.say("reasoning", reasoning)
        self._reasoned = None
        tell.say("text", data.get("content"), **without(data, *_OF_MESSAGE))
        for call in objects_of(data.get("toolRequests")):
            if (call_id := text_of(call, "toolCallId")) is not None:
                others = without(call, "toolCallId", "name", "arguments")
                tell.call(call_id, text_of(call, "name"), call.get("arguments"), **others)
        usage = {
            **({"outputTokens": data["outputTokens"]} if "outputTokens" in data else {}),
            **object_of(data, "usage"),
        }
        written = int_of(usage, "completion_tokens")
        written = int_of(usage, "outputTokens") if written is None else written
        if written is not None:
            read, model = int_of(usage, "prompt_tokens"), text_of(data, "model") or self._model
            before = self._answers.setdefault(model, [])
            if before:
                self._count(before[-1])
            message = text_of(data, "messageId") or tell.name_of_step()
            before.append(_Answer(message, model, usage, read, written, self._draft.of_line))

    def _result(self, call_id: str, data: _Object) -> None:
        success = data.get("success")
        success = success if isinstance(success, bool) else None
        result = data.get("result", data.get("error"))
        action = self._tell.result(call_id, result, success, **without(data, *_OF_RESULT))
        if success is False:
            shown = data.get("error", result)
            message = shown.get("message", shown) if isinstance(shown, dict) else shown
            self._tell.error(message, "tool_failure", tool=action.get("tool"), tool_use_id=call_id)

    def _run_ended(self, line: str, metrics: _Object) -> None:
        """What the model calls of a run used besides what its messages counted.

        It is recorded with the last message of the model, whose row then says that it is a sum if others went
        before it: so a run has as many calls as messages. A model that no message names has its own row.
        """
        draft, alone = self._draft, len(metrics) == 1
        for model in metrics:
            usage = object_of(object_of(metrics, model), "usage")
            answers = self._answers.get(model, [])
            if alone and not answers:
                answers = next(iter(self._answers.values()), [])
            counted = [answer for of in self._answers.values() for answer in of] if alone else answers
            figures = counts(
                usage, prompt_tokens="inputTokens", completion_tokens="outputTokens",
                cache_read_tokens="cacheReadTokens", cache_write_tokens="cacheWriteTokens",
            )  # fmt: skip
            for name, count in (
                ("prompt_tokens", sum(answer.read or 0 for answer in counted)),
                ("completion_tokens", sum(answer.written for answer in counted)),
            ):
                total = figures[name]
                figures[name] = None if total is None else max(0, total - count)
            own = f"{draft.session}:{line}:{model}"
            if answers and any(figures.values()):
                self._count(answers[-1], figures, usage, len(counted))
                answers.clear()
                draft.was(str(draft.items[-1]["event_id"]), event_id_of(AGENT, "llm", own, digest_of(usage)))  # type: ignore[index]
            elif any(figures.values()):
                self._tell.usage(usage, own, model=model, **figures)
        self._tell_last()

    def _tell_last(self) -> None:
        """The calls of messages that nothing more follows."""
        for answers in self._answers.values():
            if answers:
                self._count(answers[-1])
        self._answers = {}

    def _count(
        self,
        answer: "_Answer",
        more: "Mapping[str, int | None] | None" = None,
        run: object = None,
        of: int = 1,
    ) -> None:
        """The model call of a message, with what the end of its run counts `more`, of so many messages."""
        draft, more = self._draft, more or {}
        here, draft.of_line = draft.of_line, answer.columns
        usage = answer.usage
        if run is not None:
            usage = {**usage, "run": run, **({"sum_of": of} if of > 1 else {})}
        read, written = more.get("prompt_tokens"), more.get("completion_tokens") or 0
        self._tell.usage(
            usage, answer.message, model=answer.model,
            prompt_tokens=answer.read if read is None else read + (answer.read or 0),
            completion_tokens=answer.written + written, cache_read_tokens=more.get("cache_read_tokens"),
            cache_write_tokens=more.get("cache_write_tokens"),
        )  # fmt: skip
        draft.of_line = here


def _columns_of_context(data: _Object, context: _Object) -> dict[str, str | None]:
    return {
        "subagent_id": text_of(data, "parentToolCallId"),
        "cwd": text_of(context, "cwd"),
        "branch": text_of(context, "branch"),
    }


READER = CopilotCliReader
