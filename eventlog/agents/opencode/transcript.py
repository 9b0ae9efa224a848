"""Sessions of OpenCode: messages and their parts, from its database, its older files, or `opencode export`.

What it rests on: a row may be written again until its message is complete; a model call is one `step-finish`
part, and in older sessions a message without such parts; the cache is no part of `input`, reasoning none of
`output`; a subagent is a session with a parent, recorded in the turn of its parent; the messages that a fork
copies are older than the session itself.

`rows.py` makes the lines; an exported document is one line and says the same.
"""

import os
from collections.abc import Mapping
from typing import Any

from eventlog.agents.kit.call import ToolUse, int_of, known, object_of, text_of, without
from eventlog.agents.kit.draft import Draft, digest_of
from eventlog.agents.kit.lines import FileSource
from eventlog.agents.kit.words import objects_of
from eventlog.agents.opencode.edits import edits_of, seen_in
from eventlog.agents.opencode.hooks import (
    SUBAGENT_TOOL,
    duration_of,
    error_text,
    error_type_of,
    head_of,
    lean,
    prompt_of,
    status_of,
    success_of,
    usage_of,
    usage_payload,
)
from eventlog.agents.opencode.rows import HEAD, MESSAGE, PART, TOTALS, sessions_in
from eventlog.base.types import Event

AGENT = "opencode"
SUFFIXES = (".db", ".json")

_OF_USER = frozenset(("id", "sessionID", "role", "time", "summary"))
_OF_ASSISTANT_NAMES = (
    "id sessionID role time parentID modelID providerID path cost tokens finish error mode agent system"
)
_OF_ASSISTANT = frozenset(_OF_ASSISTANT_NAMES.split())
_OF_PART = frozenset(("id", "messageID", "sessionID", "type"))
_OF_TEXT = _OF_PART | {"text", "time"}
_OF_TOOL = _OF_PART | {"tool", "callID", "state"}
_OF_STATE = frozenset(("status", "input", "output", "title", "metadata", "time", "error", "raw"))
_OF_STEP = _OF_PART | {"tokens", "cost", "reason", "snapshot"}


def directories_of_transcripts(environ: "Mapping[str, str]") -> list[str]:
    """Where OpenCode keeps its sessions: databases, and the files of older versions (docs/adapters.md)."""
    home = environ.get("XDG_DATA_HOME") or f"{environ.get('HOME', '')}/.local/share"
    data = f"{home}/opencode"
    named = environ.get("OPENCODE_DB")
    try:
        others = [name for name in os.listdir(data) if name.startswith("opencode-") and name.endswith(".db")]
    except OSError:
        others = []
    paths = [f"{data}/opencode.db", *(f"{data}/{name}" for name in sorted(others)), f"{data}/storage/session"]
    return paths if not named or named == ":memory:" else [os.path.join(data, named), *paths]


def sources_in(path: str) -> "list[FileSource]":
    """The sessions that are no other's subagents."""
    return list(sessions_in(path))


def recognises(record: "dict[str, Any]") -> bool:
    return record.get("opencode") == HEAD or (
        "messages" in record and "directory" in object_of(record, "info")
    )


class OpenCodeReader:
    """Reads one session with its subagents."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._message: dict[str, Any] | None = None  # until its last part has come
        self._parts: list[dict[str, Any]] = []
        self._began: dict[str, int] = {}  # session → when it began
        self._children: set[str] = set()
        self._snapshot: str | None = None

    def take(self, record: "dict[str, Any]") -> None:
        kind = record.get("opencode")
        if kind is None and isinstance(record.get("messages"), list):
            self._document(record)
        elif kind == HEAD:
            self._tell_message()
            self._head(object_of(record, "info"))
        elif kind == MESSAGE:
            self._tell_message()
            self._message, self._parts = object_of(record, "info"), []
        elif kind == PART and self._message is not None:
            self._parts.append(object_of(record, "part"))
        else:
            self._tell_message()
            self._draft.of_line = {}
            if kind == TOTALS:
                self._totals(object_of(record, "info"))
            else:
                self._draft.raw(record, text_of(record, "type"))

    def end(self) -> None:
        self._tell_message()

    def _document(self, document: "dict[str, Any]") -> None:
        info = object_of(document, "info")
        self._head(info)
        self._totals(info)
        for message in document["messages"]:
            if isinstance(message, dict) and isinstance(message.get("info"), dict):
                self._message, self._parts = message["info"], objects_of(message.get("parts"))
                self._tell_message()
            else:
                self._draft.of_line = {}
                self._draft.raw({"message": message}, "message")

    # -- sessions ----------------------------------------------------------------------------------

    def _head(self, info: "dict[str, Any]") -> None:
        draft, session = self._draft, text_of(info, "id") or "unknown"
        created = int_of(object_of(info, "time"), "created")
        draft.of_line = {} if created is None else {"occurred_at": created * 1000}
        self._began[session] = created or 0
        if draft.session is None:
            draft.cwd = text_of(info, "directory")
            draft.of_line |= known(cwd=draft.cwd)
            draft.columns |= known(agent_version=text_of(info, "version"))
            draft.begin_session(session, head_of(info))
            return
        self._children.add(session)
        draft.of_line |= known(subagent_id=session, agent_turn_id=draft.turn)
        payload = {"session": session, **head_of(info)}
        draft.subagent("start", session, payload, title=text_of(info, "title"))

    def _totals(self, info: "dict[str, Any]") -> None:
        """What changes while a session goes on: its title, sums, state."""
        head = head_of(info)
        rest = {name: value for name, value in info.items() if name not in head and value is not None}
        if rest:
            self._draft.raw(rest, "session", text_of(info, "id"), digest_of(rest))

    # -- messages ----------------------------------------------------------------------------------

    def _tell_message(self) -> None:
        message, parts = self._message, self._parts
        self._message, self._parts = None, []
        if message is None:
            return
        draft = self._draft
        session, created = text_of(message, "sessionID"), int_of(object_of(message, "time"), "created")
        draft.of_line = {} if created is None else {"occurred_at": created * 1000}
        subagent = session if session in self._children else None
        draft.of_line |= known(subagent_id=subagent, agent_turn_id=draft.turn)
        is_copied = created is not None and created < self._began.get(session or "", 0)
        if not is_copied and message.get("role") == "user":
            self._user(message, parts)
        elif not is_copied and message.get("role") == "assistant":
            self._assistant(message, parts)
        else:
            kind, key = "copied" if is_copied else "message", text_of(message, "id")
            draft.raw({"info": message, "parts": parts}, kind, key, digest_of([message, parts]))

    def _user(self, message: "dict[str, Any]", parts: "list[dict[str, Any]]") -> None:
        draft, key = self._draft, text_of(message, "id")
        prompt = prompt_of(parts)
        begins = prompt is not None and key is not None and "subagent_id" not in draft.of_line
        if begins:
            assert prompt is not None and key is not None
            draft.begin_turn(key, prompt)
        others = [
            part
            for part in parts
            if not begins or part.get("type") != "text" or part.get("synthetic") is True
        ]
        rest = without(message, *_OF_USER)
        if not begins:
            rest["parts"] = [_bare(part) for part in others]
            draft.raw(rest, "user", key, digest_of(rest))
        else:
            draft.raw(rest, "user", key)
            for part in others:
                self._raw_part(part)
        summary = message.get("summary")
        if summary and summary != {"diffs": []}:
            draft.raw({"summary": summary}, "summary", key, digest_of(summary))

    def _assistant(self, message: "dict[str, Any]", parts: "list[dict[str, Any]]") -> None:
        draft, key = self._draft, text_of(message, "id")
        cwd = text_of(object_of(message, "path"), "cwd")
        draft.of_line |= known(model=text_of(message, "modelID"), cwd=cwd)
        of_message, steps = draft.of_line, 0
        for part in parts:
            draft.of_line = dict(of_message)
            steps += part.get("type") == "step-finish"
            self._part(part, message)
        draft.of_line = of_message
        tokens = object_of(message, "tokens")
        if not steps and any(usage_of(tokens).values()):
            payload = {
                "tokens": tokens,
                "cost": message.get("cost"),
                "provider": text_of(message, "providerID"),
            }
            self._llm(key, key, None, payload, tokens)
        rest = without(message, *_OF_ASSISTANT)
        if rest:
            draft.raw(rest, "assistant", key, digest_of(rest))
        error = message.get("error")
        if error:
            failure = {"message": error_text(error), "error": error}
            draft.error(failure, "error", key, message_id=key, error_type=error_type_of(error))
        if "subagent_id" not in of_message:
            status = status_of(error)
            draft.status = None if status == "completed" else status

    # -- parts -------------------------------------------------------------------------------------

    def _part(self, part: "dict[str, Any]", message: "dict[str, Any]") -> None:
        draft, kind, key = self._draft, part.get("type"), text_of(part, "id")
        began = int_of(object_of(part, "time"), "start")
        if began is not None:
            draft.of_line["occurred_at"] = began * 1000
        text = part.get("text")
        if kind in ("text", "reasoning") and isinstance(text, str):
            rest = without(part, *_OF_TEXT)
            if text or rest:
                draft.message("text" if kind == "text" else "reasoning", text, key, **rest)
        elif kind == "tool":
            self._tool(part)
        elif kind == "step-start" and set(part) <= _OF_PART | {"snapshot"}:
            self._snapshot = text_of(part, "snapshot")
        elif kind == "step-finish":
            self._step(part, message)
        elif kind == "retry":
            error = part.get("error")
            payload = {"message": error_text(error), **_bare(part)}
            draft.error(payload, "error", key, error_type="api_error", resolved=True)
        else:
            self._raw_part(part)

    def _raw_part(self, part: "dict[str, Any]") -> None:
        rest = _bare(part)
        self._draft.raw(rest, text_of(part, "type"), text_of(part, "id"), digest_of(rest))

    def _step(self, part: "dict[str, Any]", message: "dict[str, Any]") -> None:
        tokens, key = object_of(part, "tokens"), text_of(part, "id")
        rest = without(part, *_OF_STEP)
        payload = {**usage_payload(part, message), "snapshot_before": self._snapshot, **rest}
        self._snapshot = None
        ended = int_of(object_of(message, "time"), "completed")
        if ended is not None:
            self._draft.of_line["occurred_at"] = ended * 1000
        self._llm(key, text_of(message, "id"), key, payload, tokens)

    def _llm(
        self,
        key: str | None,
        message_id: str | None,
        request_id: str | None,
        payload: "Mapping[str, object]",
        tokens: "dict[str, Any]",
    ) -> None:
        columns: Event = {"request_id": request_id, **usage_of(tokens)}
        parts = ["llm", key]
        if message_id is not None:
            columns["message_id"] = self._draft.answer_id(message_id, lambda: columns)
            if columns["message_id"] != message_id:
                parts.append(self._draft.session)
        self._draft.event("llm", payload, *parts, source="system", **columns)

    def _tool(self, part: "dict[str, Any]") -> None:
        draft, state = self._draft, object_of(part, "state")
        scope = (text_of(part, "sessionID") or draft.session or "",)
        status, args = state.get("status"), state.get("input")
        use = ToolUse(text_of(part, "tool"), text_of(part, "callID"), args, scope=scope)
        if status not in ("completed", "error"):
            draft.tool_event("tool_start", use, {"args": args or state.get("raw")}, source="agent")
            return
        failed = status == "error"
        metadata, time = object_of(state, "metadata"), object_of(state, "time")
        ended = int_of(time, "end")
        if ended is not None:
            draft.of_line["occurred_at"] = ended * 1000
        output = state.get("error") if failed else state.get("output")
        payload = {
            "args": args,
            "result": output,
            "title": state.get("title"),
            "metadata": lean(metadata) or None,
            **without(state, *_OF_STATE),
            **without(part, *_OF_TOOL),
        }
        edits = [] if failed else edits_of(use.name, args if isinstance(args, dict) else {}, metadata)
        action = draft.tool_event(
            "action",
            use,
            payload,
            success=False if failed else success_of(metadata),
            duration_ms=duration_of(time),
            title=text_of(state, "title"),
        )
        if failed:
            draft.tool_failed(use, error_text(output))
        child = text_of(metadata, "sessionId")
        if use.name == SUBAGENT_TOOL and child is not None:
            draft.subagent("end", child, {}, use.id, subagent_id=child)
        for edit in edits:
            draft.file(action, edit)
        if use.name == "read" and not failed and (shown := seen_in(args, metadata)) is not None:
            draft.file(action, shown)


def _bare(part: "dict[str, Any]") -> "dict[str, Any]":
    """A part without what its event says in columns."""
    return {name: value for name, value in part.items() if name not in _OF_PART or name == "type"}


READER = OpenCodeReader
