"""Chats of Gemini CLI: one JSON document (older), or lines (newer) of which a message's last one counts.

What it rests on: a message is written again with more fields until it is complete, so it is recorded when
another one follows; `tokens.input` holds what came from the cache, and thoughts are not part of the
output; a tool call is in the answer that made it, with its result, and for edits with both contents of the
file. The chat of a subagent is in a directory named after the session that it works for, under the
subagent's id, which the tool call that launched it gives when it is over; its lines are merged with the
session's by time.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

from eventlog.agents.gemini_cli.chat_tail import columns_of, key_of
from eventlog.agents.gemini_cli.hooks import CONTENTS, TOOLS, WRITE_FILE, exit_code_of, without_context
from eventlog.agents.kit.call import ToolUse, int_of, is_global, known, object_of, text_of, time_of, without
from eventlog.agents.kit.draft import REPLACE, WRITE, Draft, FileEdit, digest_of, rest_of
from eventlog.agents.kit.lines import FileSource, head_of
from eventlog.agents.kit.words import objects_of, text_in
from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.base.names import event_id_of
from eventlog.base.types import Event

AGENT = "gemini-cli"
SUFFIXES = (".json", ".jsonl")

_OF_HEAD = frozenset(("messages", "sessionId"))
_OF_MESSAGE = frozenset(("id", "timestamp", "type", "content", "thoughts", "tokens", "model", "toolCalls"))
_OF_TOOL = frozenset(("id", "name", "args", "result", "status", "timestamp", "resultDisplay"))
_DONE = frozenset(("success", "error", "cancelled"))
_NO_PROMPTS = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
_IS_ID = re.compile(r"[A-Za-z0-9_-]+")


def directories_of_transcripts(environ: "Mapping[str, str]") -> list[str]:
    """Where Gemini CLI keeps the chats of all projects (docs/adapters.md)."""
    home = environ.get("GEMINI_CLI_HOME") or environ.get("HOME", "")
    return [f"{home}/.gemini/tmp"]


def sources_in(path: str) -> list[FileSource]:
    """A chat with those of its subagents; these and other files of the same directories are none."""
    if os.path.basename(os.path.dirname(path)) != "chats":
        return []
    return [FileSource(AGENT, [path, *_of_subagents(path)])]


def _of_subagents(path: str) -> list[str]:
    """The chats of the subagents of a session: those in a directory beside it that has its id."""
    try:
        head = head_of(path) if path.endswith(".jsonl") else []
    except EventLogError:
        return []
    session = next((text_of(record, "sessionId") for record in head if "projectHash" in record), None)
    directory = f"{os.path.dirname(path)}/{session}"
    if session is None or not _IS_ID.fullmatch(session) or os.path.islink(directory):
        return []
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        entry.path
        for entry in entries
        if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False)
    ]


def root_of(_: FileSource, head: "list[dict[str, Any]]", roots: "list[str]") -> str | None:
    """Which of `roots` the chat was held in: its head has the SHA-256 of that path."""
    digest = next(
        (record["projectHash"] for record in head if isinstance(record.get("projectHash"), str)), None
    )
    return next((root for root in roots if hashlib.sha256(os.fsencode(root)).hexdigest() == digest), None)


def recognises(record: "dict[str, Any]") -> bool:
    return "sessionId" in record and "projectHash" in record


class _Chat:
    """One file of a source: the session's own, or a `subagent`'s, which works in a `turn` of the session."""

    __slots__ = ("head", "subagent", "turn", "waiting", "written")

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        self.subagent: str | None = None
        self.turn: str | None = None
        self.waiting: dict[str, Any] | None = None  # the message that may be written again
        self.written: set[str] = set()  # messages, which a session that goes on writes once more


class GeminiReader:
    """Reads one session: its chat, and those of its subagents."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._own = _Chat()
        self._chats: dict[int, _Chat] = {0: self._own}
        self._chat = self._own  # of the line at hand
        self._tools: set[tuple[object, ...]] = set()
        self._written: object = None  # when the message at hand was
        self._times: dict[str, str] = {}  # of the first message with an id that may come again

    def take(self, record: "dict[str, Any]") -> None:
        draft = self._draft
        part = 0 if draft.line is None else draft.line.part
        self._chat = self._chats.setdefault(part, _Chat())
        if part and self._chat.subagent is None:
            if "projectHash" in record:
                self._chat.head = record  # it has no time: what comes next says where it belongs
                return
            self._begin_subagent(part)
        if "projectHash" in record and draft.session is None:
            self._begin(record)
            for message in objects_of(record.get("messages")):
                self._message(message)
        elif "$set" in record:
            self._set(object_of(record, "$set"))
        elif text_of(record, "id") is not None and text_of(record, "type") is not None:
            self._message(record)
        else:
            self._tell_waiting()
            draft.of_line = self._columns_of_message({}) if self._chat.subagent else {}
            draft.raw(record, text_of(record, "type"))

    def end(self) -> None:
        # That of the session last: it ends what its subagents did.
        for part in sorted(self._chats, reverse=True):
            self._chat = self._chats[part]
            self._end_chat(part)

    def _end_chat(self, part: int) -> None:
        waiting = self._chat.waiting
        self._tell_waiting()
        if self._chat.head and self._chat.subagent is None:
            self._begin_subagent(part)
        for call in objects_of((waiting or {}).get("toolCalls")):
            tool_use_id = text_of(call, "id")
            if tool_use_id is not None and self._name_of(tool_use_id, call) not in self._tools:
                use = ToolUse(text_of(call, "name"), tool_use_id, call.get("args"))
                self._draft.tool_event("tool_start", use, {"args": use.args}, source="agent")

    def _begin(self, record: "dict[str, Any]") -> None:
        draft = self._draft
        draft.of_line = known(occurred_at=time_of(text_of(record, "startTime")))
        draft.begin_session(str(record.get("sessionId")), without(record, *_OF_HEAD))

    def _begin_subagent(self, part: int) -> None:
        """A subagent in the turn under way; the call that launched it is in the message that waits."""
        draft, chat, main = self._draft, self._chat, self._own.waiting or {}
        if main.get("type") == "user":  # the prompt that it works for
            self._settle(self._own)
        named = os.path.basename(draft.parts[part]).removesuffix(".jsonl")
        chat.subagent, chat.turn = text_of(chat.head, "sessionId") or named, draft.turn
        launch = next((c for c in objects_of(main.get("toolCalls")) if c.get("agentId") == chat.subagent), {})
        draft.of_line = self._columns_of_message({"timestamp": chat.head.get("startTime")})
        draft.subagent(
            "start",
            chat.subagent,
            without(chat.head, *_OF_HEAD),
            title=text_of(object_of(launch, "args"), "agent_name"),
            tool_use_id=text_of(launch, "id"),
        )

    def _set(self, changed: "dict[str, Any]") -> None:
        """Fields of the head, written again; of messages that were recorded before only what tools did
        since."""
        for message in objects_of(changed.get("messages")):
            if text_of(message, "id") not in self._chat.written:
                self._message(message)
                continue
            self._draft.of_line, self._written = self._columns_of_message(message), message.get("timestamp")
            for call in objects_of(message.get("toolCalls")):
                self._tool(call)
        rest = without(changed, "messages", "lastUpdated")
        if rest:
            self._draft.of_line = self._columns_of_message({})
            self._draft.raw(rest, "$set")

    def _message(self, record: "dict[str, Any]") -> None:
        waiting = self._chat.waiting
        if waiting is not None and not _is_same(waiting, record):
            self._tell_waiting()
        self._chat.waiting = record

    def _tell_waiting(self) -> None:
        record, self._chat.waiting = self._chat.waiting, None
        if record is None:
            return
        self._chat.written.add(str(record.get("id")))
        self._draft.of_line, self._written = self._columns_of_message(record), record.get("timestamp")
        kind = record.get("type")
        if kind == "user":
            self._user(record)
        elif kind == "gemini":
            self._answer(record)
        elif kind == "error":
            payload = {"message": text_in(record.get("content")), **rest_of(record, _OF_MESSAGE)}
            self._draft.error(payload, "error", text_of(record, "id"), error_type="client")
        else:
            self._raw(record)

    def _settle(self, chat: _Chat) -> None:
        """Tell what waits in another chat than that of the line at hand."""
        here, of_line = self._chat, self._draft.of_line
        self._chat = chat
        self._tell_waiting()
        self._chat, self._draft.of_line = here, of_line

    def _columns_of_message(self, record: "dict[str, Any]") -> Event:
        turn = self._draft.turn if self._chat.subagent is None else self._chat.turn
        at = time_of(text_of(record, "timestamp"))
        return known(occurred_at=at, subagent_id=self._chat.subagent, agent_turn_id=turn)

    def _raw(self, record: "dict[str, Any]") -> None:
        rest = without(record, "type", "timestamp")
        self._draft.raw(rest, text_of(record, "type"), text_of(record, "id"), digest_of(rest))

    def _user(self, record: "dict[str, Any]") -> None:
        content = record.get("content")
        parts = content if isinstance(content, list) else []
        if any(isinstance(part, dict) and "functionResponse" in part for part in parts):
            return  # results of tools are in their calls
        text = text_in(content)
        if text.startswith(_NO_PROMPTS):
            if self._draft.cwd is None:
                self._draft.cwd = _workspace_in(text)
            self._raw(record)
            return
        if self._chat.subagent is not None:
            self._draft.raw({"text": text, **rest_of(record, _OF_MESSAGE)}, "prompt", text_of(record, "id"))
            return
        injected, text = without_context(text)
        self._draft.begin_turn(str(record.get("id")), text)
        if injected:
            self._draft.raw({"text": injected}, "hook_context", text_of(record, "id"))
        others = [part for part in parts if not (isinstance(part, dict) and set(part) == {"text"})]
        rest = {**rest_of(record, _OF_MESSAGE), **({"content": others} if others else {})}
        if rest:
            self._draft.raw(rest, "user", text_of(record, "id"))

    def _answer(self, record: "dict[str, Any]") -> None:
        draft, key = self._draft, text_of(record, "id")
        rest = rest_of(record, _OF_MESSAGE)
        for number, thought in enumerate(objects_of(record.get("thoughts"))):
            subject, words = thought.get("subject"), thought.get("description")
            text = "\n".join(part for part in (subject, words) if isinstance(part, str))
            draft.message("reasoning", text, key, "thought", str(number))
        text = text_in(record.get("content"))
        if text:
            draft.message("text", text, key, "0", **rest)
        elif rest:
            draft.raw(rest, "gemini", key, digest_of(rest))
        self._usage(record, key)
        for call in objects_of(record.get("toolCalls")):
            self._tool(call)

    def _usage(self, record: "dict[str, Any]", key: "str | None") -> None:
        tokens, draft = object_of(record, "tokens"), self._draft
        if tokens:
            columns, message = columns_of(record, tokens), self._message_id(record)
            if message is not None:
                message = columns["message_id"] = draft.answer_id(message, lambda: columns)
            call = draft.event(
                "llm", {"tokens": tokens}, *key_of(message, tokens), source="system", **columns
            )
            if message is not None and key is not None and message != key:
                draft.was(str(call["event_id"]), event_id_of(AGENT, "llm", key, key_of(key, tokens)[2] or ""))

    def _message_id(self, record: "dict[str, Any]") -> str | None:
        """The id of a message; with its time where another one had it first."""
        message, at = text_of(record, "id"), text_of(record, "timestamp") or ""
        if message is None or is_global(message) or self._times.setdefault(message, at) == at:
            return message
        return f"{message}:{at}"

    def _name_of(self, tool_use_id: str, call: "dict[str, Any]") -> tuple[object, ...]:
        """What tells a call from the others of the source: a message that is written again tells it again."""
        values = [call.get(name) for name in ("args", "result", "resultDisplay")]
        name = tool_use_id, hash(jsontext.encode_without_floats(values))
        return name if is_global(tool_use_id) else (*name, call.get("timestamp"), self._written)

    def _tool(self, call: "dict[str, Any]") -> None:
        tool_use_id, tool = text_of(call, "id"), text_of(call, "name")
        status = call.get("status")
        if (
            tool_use_id is None
            or self._name_of(tool_use_id, call) in self._tools
            or (status not in _DONE and "result" not in call)
        ):
            return  # it is recorded when it has ended
        self._tools.add(self._name_of(tool_use_id, call))
        draft, subagent = self._draft, text_of(call, "agentId")
        if subagent is not None:  # it is over
            for chat in [other for other in self._chats.values() if other.subagent == subagent]:
                self._settle(chat)
        draft.of_line = {**draft.of_line, **self._columns_of_message(call)}
        use = ToolUse(tool, tool_use_id, call.get("args"))
        shown, result = call.get("resultDisplay"), call.get("result")
        output = _output_of(result)
        code = exit_code_of(tool, output)
        failed = status in ("error", "cancelled") or bool(code)
        edit = None if failed else _edit(use, shown)
        payload = {
            "args": use.args,
            "result": result,
            "exit_code": code,
            "shown": _lean(shown) if edit is not None else shown,
            "status": status,
            **without(call, *_OF_TOOL),
        }
        success = None if status not in _DONE else not failed
        action = draft.tool_event("action", use, payload, success=success)
        if failed:
            draft.tool_failed(use, output, error_type="refused" if status == "cancelled" else "tool_failure")
        if edit is not None:
            draft.file(action, edit)
        if subagent is not None:
            draft.subagent("end", subagent, {}, tool_use_id, subagent_id=subagent)


def _is_same(before: "dict[str, Any]", record: "dict[str, Any]") -> bool:
    """Whether a line writes the message of the line before once more."""
    return all(before.get(name) == record.get(name) for name in ("id", "type", "timestamp"))


def _edit(use: ToolUse, shown: object) -> "FileEdit | None":
    """What a tool did to its file, by its result or, in older chats, by its arguments."""
    args = use.args
    if use.name not in TOOLS.edits or not isinstance(args, dict):
        return None
    result = shown if isinstance(shown, dict) else {}
    path = text_of(result, "filePath") or text_of(args, "file_path")
    if path is None:
        return None
    after, before = result.get("newContent"), result.get("originalContent")
    stat = object_of(result, "diffStat")
    if isinstance(after, str):
        created = result.get("isNewFile") is True
        return FileEdit(
            WRITE,
            path,
            content=after,
            original=before if isinstance(before, str) and not created else None,
            created=created,
            added=_sum_of(stat, "model_added_lines", "user_added_lines"),
            removed=_sum_of(stat, "model_removed_lines", "user_removed_lines"),
        )
    if use.name == WRITE_FILE and isinstance(args.get("content"), str):
        return FileEdit(WRITE, path, content=args["content"])
    old, new = args.get("old_string"), args.get("new_string")
    if isinstance(old, str) and isinstance(new, str):
        everywhere = (int_of(args, "expected_replacements") or 1) > 1
        return FileEdit(REPLACE, path, replacements=((old, new, everywhere),))
    return None


def _lean(shown: object) -> object:
    """A displayed result without the contents that the file event names."""
    return without(shown, *CONTENTS, "fileDiff") if isinstance(shown, dict) else shown


def _sum_of(stat: "dict[str, Any]", *names: str) -> int | None:
    values = [value for name in names if (value := int_of(stat, name)) is not None]
    return sum(values) if values else None


def _output_of(result: object) -> str:
    for part in result if isinstance(result, list) else []:
        response = (
            object_of(object_of(part, "functionResponse"), "response") if isinstance(part, dict) else {}
        )
        for name in ("error", "output"):
            if isinstance(response.get(name), str):
                return str(response[name])
    return ""


def _workspace_in(text: str) -> str | None:
    """The first directory that the client lists as its workspace."""
    _, mark, rest = text.partition("Workspace Directories:**\n  - ")
    directory = rest.partition("\n")[0].strip()
    return directory if mark and directory.startswith("/") else None


READER = GeminiReader
