"""Transcripts of Claude Code, all versions from 1.0 on: a reader (docs/adapters.md, docs/transcripts.md).

What it rests on: each content block of an answer is a line of its own, and repeats the answer's usage as it
grows, so the last line counts; a tool's result is a line of the user's; lines of subagents are marked
(`isSidechain`), in the same file in old versions and in files of their own in newer ones; `promptId` names a
turn where there is one, else the prompt's own line does; a fork's file begins with its parent's lines.
"""

from typing import Any, NamedTuple

from eventlog.agents.claude_code import texts as own
from eventlog.agents.claude_code.backups import NamedBackups
from eventlog.agents.claude_code.files import (
    AGENT,
    backups_of,
    directories_of_transcripts,
    parts_of,
    recognises,
    sources_in,
    subagents_in,
)
from eventlog.agents.claude_code.subagents import LAUNCHERS, Subagents
from eventlog.agents.claude_code.texts import texts_of
from eventlog.agents.claude_code.tools import beyond, edits_of, is_work, lean
from eventlog.agents.claude_code.usage_tail import call_of, message_id_of, plain_id_of
from eventlog.agents.kit.call import ToolUse, int_of, is_global, object_of, text_of
from eventlog.agents.kit.draft import Draft, rest_of
from eventlog.agents.kit.times import time_of
from eventlog.agents.kit.words import objects_of
from eventlog.base.names import event_id_of
from eventlog.base.types import Event

__all__ = [
    "AGENT",
    "ClaudeCodeReader",
    "backups_of",
    "directories_of_transcripts",
    "parts_of",
    "recognises",
    "sources_in",
]

_Object = dict[str, Any]

# What columns hold, what the id of an event is made of, and what is recorded elsewhere.
_COMMON = frozenset((
    "type", "uuid", "parentUuid", "sessionId", "session_id", "timestamp", "cwd", "gitBranch", "version",
    "agentId", "promptId", "isSidechain", "userType", "message", "requestId", "toolUseResult",
    "sourceToolAssistantUUID",
))  # fmt: skip
# What every message repeats: it is recorded where it changes.
_STEADY = frozenset((
    "slug", "entrypoint", "effort", "permissionMode", "thinkingMetadata", "isApiErrorMessage",
))  # fmt: skip
_OF_MESSAGE = frozenset(("id", "type", "role", "model", "content", "usage", "stop_reason"))
_OF_LINE_OF_CALL = ("timestamp", "promptId", "agentId", "requestId")
_OF_CALL_OF_MODEL = ("id", "model", "usage", "stop_reason")
_OF_TEXT = frozenset(("type", "text", "thinking"))
_OF_CALL = frozenset(("type", "name", "input", "id"))
_OF_RESULT = frozenset(("type", "tool_use_id", "content", "is_error"))
_OF_QUEUED = frozenset(("type", "prompt"))
_PLAIN_CALLER = {"type": "direct"}

_SYNTHETIC = "<synthetic>"
_EARLY_LINES_MAX, _EVENTS_MAX = 1_000, 100_000


class _Call(NamedTuple):
    """A tool call that waits for its result: what its line gave."""

    name: str | None
    args: object
    columns: Event
    rest: _Object
    uuid: str | None


_UNKNOWN_CALL = _Call(None, None, {}, {}, None)


class ClaudeCodeReader:
    """Reads one session's lines."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._early: list[_Object] = []  # lines before the first one with a session
        self._turns: set[str] = set()
        self._tools: dict[str, list[_Call]] = {}
        self._calls: dict[tuple[str, str], tuple[_Object, Event]] = {}  # their last lines
        self._command: tuple[str, str, Event] | None = None  # of the client's, if the model gets it: a prompt
        self._shell: tuple[str, str] | None = None
        self._of_shell: list[Event] = []  # of a person's command, until it is known whether it begins a turn
        self._steady: _Object = {}
        self._previous: dict[str, str] = {}  # subagent, or nothing → its last line
        self._event_of: dict[str, tuple[str, str | None]] = {}  # line → event, turn
        self._others: set[str] = set()  # sessions of the file that go on from nothing in it
        self._subagents = Subagents(subagents_in(draft.parts))
        self._backups = NamedBackups()

    def take(self, record: _Object) -> None:
        draft = self._draft
        meta_parts = self._subagents.meta_parts
        if meta_parts and draft.line is not None and draft.line.part in meta_parts:
            self._subagents.metas[meta_parts[draft.line.part]] = record
            return
        if draft.session is None and not self._begin(record):
            return
        self._columns_of_line(record)
        made = len(draft.items)
        kind = record.get("type")
        if kind == "assistant":
            self._assistant(record)
        elif kind == "user":
            self._user(record)
        else:
            self._other(record)
        uuid = record.get("uuid")
        if type(uuid) is str:
            columns = draft.of_line
            self._previous[columns.get("subagent_id", "")] = uuid  # type: ignore[index]
            for item in draft.items[made:]:
                if isinstance(item, dict) and item["event_type"] != "llm":
                    if len(self._event_of) >= _EVENTS_MAX:
                        self._event_of.clear()  # bounds the memory; few lines go on from one far above
                    self._event_of[uuid] = str(item["event_id"]), columns.get("agent_turn_id")  # type: ignore[assignment]
                    break

    def end(self) -> None:
        draft = self._draft
        for early in self._early:
            self._raw(early)
        self._early = []
        for tool_use_id, call in [(name, call) for name, calls in self._tools.items() for call in calls]:
            draft.of_line = call.columns
            use = ToolUse(call.name, tool_use_id, call.args)
            draft.tool_event("tool_start", use, {"args": call.args, **call.rest}, source="agent")
        self._tools.clear()
        self._tell_shell()
        self._flush_calls()
        draft.of_line = {}
        for subagent, meta in self._subagents.metas.items():
            draft.raw({"subagent": subagent, **meta}, "subagent_meta")
        self._subagents.metas.clear()

    # -- place -----------------------------------------------------------------------------------

    def _begin(self, record: _Object) -> bool:
        """Begin the session with the first line that names it; those before it wait."""
        draft = self._draft
        session = text_of(record, "sessionId")
        if session is None:
            self._early.append(record)
            if len(self._early) > _EARLY_LINES_MAX:
                self._raw(self._early.pop(0))
            return False
        self._columns_of_line(record)
        draft.of_line.pop("subagent_id", None)
        draft.begin_session(session, {"entrypoint": record.get("entrypoint")})
        for early in self._early:
            at = _time_of(early)
            draft.of_line = {} if at is None else {"occurred_at": at}
            self._raw(early)
        draft.of_line = {}
        self._early = []
        return True

    def _columns_of_line(self, record: _Object) -> None:
        """The columns of a line."""
        draft = self._draft
        columns: Event = {}
        get = record.get
        at = _time_of(record)
        if at is not None:
            columns["occurred_at"] = at
        cwd = get("cwd")
        if cwd and type(cwd) is str:
            columns["cwd"] = cwd
            if draft.cwd is None:
                draft.cwd = cwd
        branch = get("gitBranch")
        if branch and type(branch) is str:
            columns["branch"] = branch
        version = get("version")
        if version and type(version) is str:
            columns["agent_version"] = version
        turn = get("promptId")
        above = get("parentUuid")
        parent = self._event_of.get(above) if type(above) is str else None
        # Some of the client's own lines have one with which no turn begins.
        if type(turn) is not str or not (turn in self._turns or is_work(record)):
            turn = (parent[1] if parent is not None else None) or draft.turn
        if get("isSidechain") is True:
            subagent = columns["subagent_id"] = self._subagents.of_line(record)
            turn = self._subagents.turns.setdefault(subagent, turn)
        if turn is not None:
            columns["agent_turn_id"] = turn
        session = get("sessionId")
        if (
            session != draft.session
            and draft.session is not None
            and self._is_other(record, parent is not None)
        ):
            columns["agent_session_id"] = session
        draft.of_line = columns

    def _is_other(self, record: _Object, goes_on: bool) -> bool:
        """Whether a line of another session id is of another session: one that a message before it began.

        Else it is another name of the session at hand, which goes on in the same chain of lines.
        """
        draft, session = self._draft, text_of(record, "sessionId")
        if session is None or session == draft.session:
            return False
        if session not in self._others and session not in draft.aliases:
            begins = record.get("type") == "user" and not goes_on and record.get("isSidechain") is not True
            if begins:
                self._others.add(session)
            else:
                draft.aliases.append(session)
        return session in self._others

    def _rest(self, record: _Object) -> _Object:
        """What a line says that no column holds, and where it goes on when that is not the line before."""
        rest: _Object = {}
        for name in record.keys() - _COMMON:
            value = record[name]
            if value is None:
                continue
            if name in _STEADY and "uuid" in record:
                if self._steady.get(name) == value:
                    continue
                self._steady[name] = value
            rest[name] = value
        if len(rest) > 1:
            rest = {name: rest[name] for name in record if name in rest}
        parent = record.get("parentUuid")
        if type(parent) is str:
            subagent: Any = self._draft.of_line.get("subagent_id", "")
            if parent != self._previous.get(subagent):
                rest["parent"] = self._event_of.get(parent, (parent,))[0]
        return rest

    # -- what the user's side says ---------------------------------------------------------------

    def _user(self, record: _Object) -> None:
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        results = [block for block in objects_of(content) if block.get("type") == "tool_result"]
        if isinstance(content, list) and results:
            self._results(record, content, results)
            return
        texts = texts_of(content)
        asked = [text for text in texts if own.is_persons(text)]
        has_more = isinstance(content, list) and len(content) > len(texts)
        if record.get("isCompactSummary") is True:
            self._raw(record, "compact_summary")
        elif record.get("isMeta") is True or record.get("isVisibleInTranscriptOnly") is True:
            self._raw(record)
        elif "subagent_id" in self._draft.of_line:
            self._subagent_prompt(record, "\n".join(texts))
        elif asked or has_more:
            self._prompt(record, "\n".join(texts), content)
        else:
            self._of_client(record, "\n".join(texts).lstrip())

    def _prompt(self, record: _Object, text: str, content: object) -> None:
        begins = text.lstrip()[:40]
        turn, message = text_of(record, "promptId") or text_of(record, "uuid") or "", text
        is_command = begins.startswith((own.COMMAND_OF_CLIENT, own.COMMAND_OF_MODEL))
        if is_command:
            message = own.command_of(text)
            if begins.startswith(own.COMMAND_OF_CLIENT):
                self._tell_shell()
                self._raw(record)
                self._command = turn, message, self._draft.of_line
                return
        self._command = None
        self._tell_shell()
        rest = self._rest(record)
        if is_command:
            rest["text"] = text
        if isinstance(content, list):
            blocks = [
                block for block in content if not (isinstance(block, dict) and block.get("type") == "text")
            ]
            if blocks:
                rest["content"] = blocks
        origin = "task_notification" if begins.startswith(own.NOTIFICATION) else "user"
        if turn in self._turns:  # a second message of the same turn
            self._intent(message, rest, text_of(record, "uuid"))
            return
        self._begin_turn(turn, message, origin, rest, own.attached(rest.get("content")))

    def _begin_turn(
        self, turn: str, message: str, origin: str, rest: _Object, wordless: str | None = None
    ) -> None:
        draft = self._draft
        self._flush_calls()
        self._turns.add(turn)
        intent = draft.begin_turn(turn, message, origin=origin, wordless=wordless)
        payload = object_of(intent, "payload")
        for name, value in rest.items():
            payload.setdefault(name, value)

    def _intent(self, message: str, rest: _Object, uuid: str | None) -> None:
        payload = {**rest, "message": message, "origin": "user"}
        self._draft.event("intent", payload, "intent", uuid, source="user")

    def _of_client(self, record: _Object, text: str) -> None:
        """A text of the client's: an interruption, a command that it ran itself, or what came of that."""
        draft = self._draft
        if text.startswith(own.INTERRUPTED):
            draft.status = "interrupted"
            self._raw(record, "interrupted")
        elif text.startswith(own.SHELL):
            self._shell_command(record, text)
        else:
            if text.startswith(own.OUTPUT_OF_CLIENT):
                self._command = None
            self._raw(record)

    def _shell_command(self, record: _Object, text: str) -> None:
        """A command that a person ran in the prompt, on one line, and what it printed, on the next."""
        tags, uuid = own.tags_of(text), text_of(record, "uuid")
        command = tags.pop("bash-input", None)
        if command is not None:
            self._tell_shell()
        event_type, payload, key = "action", self._rest(record), uuid
        if command is not None and uuid is not None:
            self._shell = uuid, command
            self._command = (
                text_of(record, "promptId") or uuid,
                f"{own.SHELL_SIGN}{command}",
                self._draft.of_line,
            )
            event_type = "tool_start"
        elif self._shell is not None:
            (key, command), self._shell = self._shell, None
        payload["args"] = {"command": command}
        if event_type == "action":
            payload["result"] = {name.removeprefix("bash-"): value for name, value in tags.items()} or text
        draft = self._draft
        columns = {"source": "user", "tool": "Bash", "tool_use_id": key}
        event = draft.event(event_type, payload, event_type, key, **columns)
        draft.items.pop()
        self._of_shell.append(event)
        if uuid is not None:
            self._event_of[uuid] = str(event["event_id"]), event.get("agent_turn_id")  # type: ignore[assignment]

    def _tell_shell(self, turn: str | None = None) -> None:
        """Tell a person's command in the turn under way, or in `turn`, which began with it."""
        for event in self._of_shell:
            if turn is not None:
                event["agent_turn_id"] = turn
            self._draft.tell(event)
        self._of_shell = []

    def _subagent_prompt(self, record: _Object, text: str) -> None:
        subagent = str(self._draft.of_line["subagent_id"])
        begun = self._subagents.begin(subagent, text)
        if begun is None:
            self._raw(record)
            return
        meta, tool_use_id, kind = begun
        payload = {**self._rest(record), **meta, "prompt": text}
        self._draft.subagent("start", subagent, payload, title=kind, tool_use_id=tool_use_id)

    # -- what tools gave -------------------------------------------------------------------------

    def _results(self, record: _Object, content: list[Any], results: list[_Object]) -> None:
        rest = self._rest(record)
        outcome = record.get("toolUseResult")
        source = record.get("sourceToolAssistantUUID")
        if len(content) > len(results):
            rest["beside"] = [block for block in content if block not in results]
        if len(results) > 1 and outcome is not None:
            rest["told"], outcome = outcome, None
        for result in results:
            tool_use_id = text_of(result, "tool_use_id")
            call = self._call_of(tool_use_id or "", (source, record.get("parentUuid")))
            if source is not None and source != call.uuid:
                rest["sourceToolAssistantUUID"] = source
            if "parent" in rest and rest["parent"] == self._name_of(tool_use_id or "", call.uuid):
                del rest["parent"]
            self._result(call, tool_use_id, result, outcome, {**call.rest, **rest})
            rest = {}

    def _name_of(self, tool_use_id: str, uuid: str | None) -> str | None:
        """What names a call before its result is read: its action, if its id is unique, else its line."""
        if not is_global(tool_use_id) or self._draft.is_of_another(tool_use_id):
            return uuid
        return event_id_of(AGENT, "action", tool_use_id)

    def _call_of(self, tool_use_id: str, lines: tuple[object, object]) -> _Call:
        """The call of a result: of those with its id that of one of these lines, else the first."""
        calls = self._tools.get(tool_use_id)
        if not calls:
            return _UNKNOWN_CALL
        if len(calls) == 1:
            return self._tools.pop(tool_use_id)[0]
        return calls.pop(next((nth for nth, call in enumerate(calls) if call.uuid in lines), 0))

    def _result(
        self, call: _Call, tool_use_id: str | None, block: _Object, outcome: object, record: _Object
    ) -> None:
        draft, use = self._draft, ToolUse(call.name, tool_use_id, call.args)
        shown = block.get("content")
        structured: _Object = outcome if isinstance(outcome, dict) else {}
        failed = block.get("is_error") is True
        interrupted = structured.get("interrupted") is True
        payload = {**record, **rest_of(block, _OF_RESULT), "args": call.args, "shown": beyond(shown, outcome)}
        payload["result"] = shown if outcome is None else lean(call.name, outcome, call.args)
        action = draft.tool_event(
            "action",
            use,
            payload,
            called_at=call.columns.get("occurred_at"),
            message_id=call.columns.get("message_id"),
            duration_ms=int_of(structured, "durationMs"),
            success=not (failed or interrupted),
        )
        if call.uuid is not None and self._event_of.get(call.uuid, ("",))[0] == call.uuid:
            self._event_of[call.uuid] = str(action["event_id"]), call.columns.get("agent_turn_id")  # type: ignore[assignment]
        if failed:
            text = "\n".join(texts_of(shown))
            refused = "toolDenialKind" in payload or own.is_refusal(text)
            otherwise = "interrupted" if text.startswith(own.INTERRUPTED) else "tool_failure"
            draft.tool_failed(use, text, error_type="refused" if refused else otherwise)
        else:
            for edit in edits_of(call.name, call.args, outcome):
                draft.file(action, edit)
        if call.name in LAUNCHERS:
            shown = "\n".join(texts_of(structured.get("content")))
            ended = self._subagents.ended(tool_use_id, structured, shown)
            if ended is not None:
                draft.of_line = {**draft.of_line, "subagent_id": ended[0]}
                draft.subagent("end", ended[0], {}, ended[1], tool_use_id=tool_use_id)

    # -- what the model says ---------------------------------------------------------------------

    def _assistant(self, record: _Object) -> None:
        draft = self._draft
        message = object_of(record, "message")
        columns = draft.of_line
        if self._command is not None and "subagent_id" not in columns:
            # The model answers a command of the client's, or what one of the person's printed: a prompt.
            (turn, prompt, uuid), self._command = self._command, None
            goes_on = message.get("model") == _SYNTHETIC or record.get("promptId", turn) != turn
            if not (prompt.startswith(own.SHELL_SIGN) and goes_on):
                draft.of_line = uuid
                if turn not in self._turns:
                    self._begin_turn(turn, prompt, "user", {})
                self._tell_shell(turn)
                draft.of_line = columns
                columns["agent_turn_id"] = turn
        self._tell_shell()
        if record.get("isApiErrorMessage") is True or message.get("model") == _SYNTHETIC:
            self._of_no_model(record, message)
            return
        session = draft.owner or text_of(columns, "agent_session_id") or draft.session
        message_id = message_id_of(record, session)
        if message_id is not None:
            own_id = draft.answer_id(message_id, lambda: call_of(AGENT, record, session) or {}, grows=True)
            columns["message_id"] = own_id
            if message.get("usage"):
                of_answer = {name: message.get(name) for name in _OF_CALL_OF_MODEL}
                if own_id != message_id:
                    of_answer["id"] = message_id = own_id
                shared = {name: record.get(name) for name in _OF_LINE_OF_CALL}
                shared.update(message=of_answer, sessionId=session)
                self._calls[message_id, text_of(record, "requestId") or ""] = shared, columns
        if "subagent_id" not in columns:
            draft.status = None
        rest = self._rest(record)
        if len(message) > 7:
            rest.update(rest_of(message, _OF_MESSAGE))
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for number, block in enumerate(blocks):
            self._block(record, number, block if isinstance(block, dict) else {"block": block}, rest)
            rest = {}

    def _block(self, record: _Object, number: int, block: _Object, rest: _Object) -> None:
        draft = self._draft
        kind, uuid = block.get("type"), text_of(record, "uuid")
        text = block.get("text" if kind == "text" else "thinking")
        if kind == "tool_use" and (tool_use_id := text_of(block, "id")) is not None:
            self._tool_use(tool_use_id, block, rest, uuid)
        elif kind in ("text", "thinking") and isinstance(text, str):
            if len(block) > 2:
                rest = {**rest, **rest_of(block, _OF_TEXT)}
            operation = "text" if kind == "text" else "reasoning"
            payload = {"text": text, **rest}
            draft.event("message", payload, "message", uuid, str(number), source="agent", operation=operation)
            if kind == "text":
                if "subagent_id" in draft.of_line:
                    self._subagents.note_text(str(draft.of_line["subagent_id"]), text)
                else:
                    draft.outcome = text
        else:
            draft.raw({**rest, "block": block}, f"assistant/{kind}"[:200], uuid, str(number))

    def _tool_use(self, tool_use_id: str, block: _Object, rest: _Object, uuid: str | None) -> None:
        args, name = block.get("input"), text_of(block, "name")
        if len(block) > 4:
            rest = {**rest, **rest_of(block, _OF_CALL)}
            if rest.get("caller") == _PLAIN_CALLER:
                del rest["caller"]
        columns = self._draft.of_line
        self._tools.setdefault(tool_use_id, []).append(_Call(name, args, columns, rest, uuid))
        if uuid is not None:
            event_id = self._name_of(tool_use_id, uuid) or uuid
            self._event_of[uuid] = event_id, columns.get("agent_turn_id")  # type: ignore[assignment]
        self._subagents.launch(name, tool_use_id, args)

    def _of_no_model(self, record: _Object, message: _Object) -> None:
        """An answer that the client made up: the provider's error, or a word of its own."""
        if record.get("isApiErrorMessage") is not True:
            self._raw(record, "synthetic")
            return
        self._draft.status = "failed"
        payload = {**self._rest(record), "message": "\n".join(texts_of(message.get("content")))}
        error_type = text_of(record, "error") or "api_error"
        self._draft.error(payload, "error", text_of(record, "uuid"), error_type=error_type)

    def _flush_calls(self) -> None:
        """Tell the calls whose lines are all read."""
        draft = self._draft
        for record, columns in self._calls.values():
            call = call_of(AGENT, record)
            if call is not None:
                draft.tell({**draft.columns, **columns, **call})
                if record["message"]["id"] != call["message_id"]:
                    draft.was(str(call["event_id"]), plain_id_of(AGENT, record))
        self._calls.clear()

    # -- the rest --------------------------------------------------------------------------------

    def _other(self, record: _Object) -> None:
        attachment = record.get("attachment")
        if isinstance(attachment, dict) and attachment.get("type") == "queued_command":
            text = "\n".join(texts_of(attachment.get("prompt")))
            if text and not text.lstrip().startswith(own.NOTIFICATION):
                # What a person said while the model worked.
                rest = self._rest(record)
                if isinstance(attachment.get("prompt"), str):
                    rest["attachment"] = rest_of(attachment, _OF_QUEUED)
                self._intent(text, rest, text_of(record, "uuid"))
                return
        self._raw(record)

    def _raw(self, record: _Object, kind: str | None = None) -> None:
        rest = self._rest(record)
        message = record.get("message")
        if isinstance(message, dict) and len(message) == 2 and "content" in message and "content" not in rest:
            rest["content"] = message["content"]
        elif message is not None:
            rest["message"] = message
        if record.get("toolUseResult") is not None:
            rest["toolUseResult"] = record["toolUseResult"]
        if kind is None:
            kind = text_of(record, "type")
            if kind == "system" and (subtype := text_of(record, "subtype")) is not None:
                kind = subtype
                del rest["subtype"]
        event = self._draft.raw(rest, kind, text_of(record, "uuid"))
        for backup in self._backups.new_in(record, self._draft.cwd):
            self._draft.file(event, backup)


def _time_of(record: _Object) -> int | None:
    """When a line was written; that of a `file-history-snapshot` is in its `snapshot`."""
    at = time_of(record.get("timestamp"))
    return time_of(object_of(record, "snapshot").get("timestamp")) if at is None else at


READER = ClaudeCodeReader
