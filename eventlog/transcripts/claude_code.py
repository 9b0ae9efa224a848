"""Transcripts of Claude Code, all versions from 1.0 on: a reader (docs/adapters.md, docs/transcripts.md).

What it rests on: each content block of an answer is a line of its own, and repeats the answer's usage as it
grows, so the last line counts; a tool's result is a line of the user's; lines of subagents are marked
(`isSidechain`), stand in the file in old versions and in files of their own in newer ones; `promptId` names a
turn where it stands, else the prompt's own line does; a fork's file begins with its parent's lines.
"""

from collections.abc import Mapping
from typing import Any

from eventlog.agents.call import int_of, object_of, text_of
from eventlog.agents.transcript import call_of, time_of
from eventlog.transcripts.draft import REPLACE, SEEN, WRITE, Draft, FileEdit
from eventlog.types import Event

AGENT = "claude-code"

# What columns hold, or what repeats on every line.
_COMMON = frozenset(
    (
        "type",
        "sessionId",
        "session_id",
        "timestamp",
        "cwd",
        "gitBranch",
        "version",
        "agentId",
        "promptId",
        "isSidechain",
        "userType",
        "message",
        "requestId",
        "toolUseResult",
    )
)
_OF_MESSAGE = frozenset(("id", "type", "role", "model", "content", "usage", "stop_reason", "stop_sequence"))
_OF_BLOCK = frozenset(("type", "text", "thinking", "name", "input", "id"))
# Texts of the client's own that stand where a person's prompt would.
_NO_PROMPTS = (
    "<command-",
    "<local-command-",
    "<bash-",
    "[Request interrupted",
    "Caveat:",
    "<system-reminder>",
)
_NOTIFICATION = "<task-notification>"
_REFUSALS = (
    "The user doesn't want to proceed",
    "Permission to use ",
    "The user doesn't want to take this action",
)
_SYNTHETIC = "<synthetic>"
_WRITES = ("Write", "Edit", "MultiEdit", "NotebookEdit")


def places(environ: "Mapping[str, str]") -> list[str]:
    """Where Claude Code keeps the transcripts of all projects (docs/adapters.md)."""
    return [f"{environ.get('CLAUDE_CONFIG_DIR') or environ.get('HOME', '') + '/.claude'}/projects"]


def recognises(said: "dict[str, Any]") -> bool:
    """Whether a line is one of this format."""
    return "sessionId" in said and (
        "uuid" in said or "message" in said or "leafUuid" in said or "type" in said
    )


class Reader:
    """Reads one session's lines."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._early: list[dict[str, Any]] = []  # lines in front of the first one with a session
        self._turns: set[str] = set()
        self._tools: dict[str, tuple[str | None, Any, Event]] = {}
        self._calls: dict[tuple[str, str], Event] = {}
        self._subagents: dict[str, str] = {}  # line → subagent, where lines name none
        self._told_subagents: set[str] = set()

    def take(self, said: "dict[str, Any]") -> None:
        draft = self._draft
        session = said.get("sessionId")
        if draft.session is None:
            if not isinstance(session, str) or not session:
                self._early.append(said)
                return
            self._begin(session, said)
        self._place(said)
        kind = said.get("type")
        if kind == "assistant":
            self._assistant(said)
        elif kind == "user":
            self._user(said)
        else:
            self._raw(said)

    def end(self) -> None:
        draft = self._draft
        if draft.session is None and self._early:
            self._begin("", {})
        for tool_use_id, (name, args, columns) in self._tools.items():
            draft.of_line = columns
            draft.event(
                "tool_start", {"args": args}, "tool_start", tool_use_id, source="agent", tool=name,
                tool_use_id=tool_use_id,
            )  # fmt: skip
        self._tools.clear()
        self._flush_calls()

    # -- place -----------------------------------------------------------------------------------

    def _begin(self, session: str, said: "dict[str, Any]") -> None:
        draft = self._draft
        self._place(said)
        draft.begin_session(session, {"entrypoint": said.get("entrypoint")})
        early, self._early = self._early, []
        for one in early:
            draft.of_line = {}
            self._raw(one)

    def _place(self, said: "dict[str, Any]") -> None:
        """The columns of a line."""
        draft = self._draft
        columns: Event = {}
        at = time_of(text_of(said, "timestamp"))
        if at is not None:
            columns["occurred_at"] = at
        cwd = said.get("cwd")
        if isinstance(cwd, str) and cwd:
            columns["cwd"] = cwd
            if draft.cwd is None:
                draft.cwd = cwd
        branch = said.get("gitBranch")
        if isinstance(branch, str) and branch:
            columns["branch"] = branch
        version = said.get("version")
        if isinstance(version, str):
            columns["agent_version"] = version
        subagent = said.get("agentId")
        if said.get("isSidechain") is True:
            if not isinstance(subagent, str):
                uuid, parent = str(said.get("uuid")), str(said.get("parentUuid"))
                subagent = self._subagents[uuid] = self._subagents.get(parent, uuid)
            columns["subagent_id"] = subagent
        turn = said.get("promptId")
        if isinstance(turn, str) and turn in self._turns:
            columns["agent_turn_id"] = turn
        elif draft.turn is not None:
            columns["agent_turn_id"] = draft.turn
        if (
            said.get("sessionId") != draft.session
            and draft.session
            and isinstance(said.get("sessionId"), str)
        ):
            columns["agent_session_id"] = said["sessionId"]
        draft.of_line = columns

    # -- what the user's side says ---------------------------------------------------------------

    def _user(self, said: "dict[str, Any]") -> None:
        content = object_of(said, "message").get("content")
        if isinstance(content, list):
            results = [one for one in content if isinstance(one, dict) and one.get("type") == "tool_result"]
            if results:
                for number, result in enumerate(results):
                    self._result(said, result, alone=len(results) == 1, first=number == 0)
                return
        text = _text_of(content)
        if "subagent_id" in self._draft.of_line:
            self._subagent_prompt(said, text)
        elif self._is_prompt(said, text):
            self._prompt(said, text, content)
        else:
            self._raw(said)

    def _is_prompt(self, said: "dict[str, Any]", text: str) -> bool:
        if said.get("isMeta") is True or said.get("isCompactSummary") is True:
            return False
        turn = said.get("promptId")
        if isinstance(turn, str) and turn in self._turns:
            return False
        return not text.lstrip().startswith(_NO_PROMPTS)

    def _prompt(self, said: "dict[str, Any]", text: str, content: object) -> None:
        draft = self._draft
        self._flush_calls()
        turn = text_of(said, "promptId") or text_of(said, "uuid") or ""
        self._turns.add(turn)
        origin = "task_notification" if text.lstrip().startswith(_NOTIFICATION) else "user"
        draft.begin_turn(turn, text, origin=origin)
        intent = draft.items[-1]
        assert isinstance(intent, dict)
        payload = intent["payload"]
        assert isinstance(payload, dict)
        payload.update(_rest(said, _COMMON))
        if isinstance(content, list) and any(
            one.get("type") != "text" for one in content if isinstance(one, dict)
        ):
            payload["content"] = content

    def _subagent_prompt(self, said: "dict[str, Any]", text: str) -> None:
        subagent = str(self._draft.of_line["subagent_id"])
        if subagent in self._told_subagents:
            self._raw(said)
            return
        self._told_subagents.add(subagent)
        self._draft.event(
            "subagent",
            {"prompt": text, **_rest(said, _COMMON)},
            "subagent",
            subagent,
            "start",
            operation="start",
            source="agent",
        )

    def _result(self, said: "dict[str, Any]", block: "dict[str, Any]", *, alone: bool, first: bool) -> None:
        draft = self._draft
        tool_use_id = text_of(block, "tool_use_id")
        name, args, _ = self._tools.pop(tool_use_id or "", (None, None, {}))
        told = said.get("toolUseResult") if alone else None
        shown = block.get("content")
        failed = block.get("is_error") is True
        text = _text_of(shown)
        edits = [] if failed else _edits(name, args, told)
        result: object = told if told is not None else shown
        payload: dict[str, object] = {"args": args, "result": _lean(result, args) if edits else result}
        if (
            told is not None
            and shown != told
            and not (isinstance(told, dict) and told.get("stdout") == shown)
        ):
            payload["shown"] = shown
        if first:
            payload.update(_rest(said, _COMMON))
        action = draft.event(
            "action",
            payload,
            "action",
            tool_use_id,
            tool=name,
            tool_use_id=tool_use_id,
            duration_ms=int_of(told, "durationMs") if isinstance(told, dict) else None,
            success=not failed,
        )
        if failed:
            refused = text_of(said, "toolDenialKind") is not None or text.startswith(_REFUSALS)
            draft.event(
                "error",
                {"message": text, "tool": name, "command": object_of({"args": args}, "args").get("command")},
                "error",
                tool_use_id,
                tool=name,
                tool_use_id=tool_use_id,
                error_type="refused" if refused else "tool_failure",
                resolved=False,
                related_to=["errors"],
            )
        for edit in edits:
            draft.file(action, edit)

    # -- what the model says ---------------------------------------------------------------------

    def _assistant(self, said: "dict[str, Any]") -> None:
        draft = self._draft
        message = object_of(said, "message")
        uuid = text_of(said, "uuid")
        call = call_of(AGENT, said)
        if call is not None:
            call.update((name, value) for name, value in draft.of_line.items() if name not in call)
            self._calls[str(call["message_id"]), str(call.get("request_id", ""))] = call
            draft.of_line["message_id"] = call["message_id"]
        if said.get("isApiErrorMessage") is True or message.get("model") == _SYNTHETIC:
            self._api_error(said, message, uuid)
            return
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        rest = {**_rest(said, _COMMON), **_rest(message, _OF_MESSAGE)}
        for number, block in enumerate(blocks):
            if not isinstance(block, dict):
                block = {"type": "text", "text": str(block)}
            kind = block.get("type")
            extra = _rest(block, _OF_BLOCK)
            if kind == "tool_use" and text_of(block, "id") is not None:
                self._tools[block["id"]] = (text_of(block, "name"), block.get("input"), dict(draft.of_line))
                if len(rest) > 2 or extra:  # more than uuid and parentUuid
                    draft.raw({**rest, **extra, "tool_use_id": block["id"]}, "tool_use", uuid, str(number))
            elif kind == "text" and isinstance(block.get("text"), str):
                draft.message("text", block["text"], uuid, str(number), **rest, **extra)
            elif kind == "thinking" and isinstance(block.get("thinking"), str):
                draft.message("reasoning", block["thinking"], uuid, str(number), **rest, **extra)
            else:
                draft.raw({**rest, "block": block}, f"assistant/{kind}", uuid, str(number))
            rest = {}

    def _api_error(self, said: "dict[str, Any]", message: "dict[str, Any]", uuid: str | None) -> None:
        self._draft.event(
            "error",
            {"message": _text_of(message.get("content")), **_rest(said, _COMMON)},
            "error",
            uuid,
            error_type=text_of(said, "error") or "api_error",
            resolved=False,
            related_to=["errors"],
        )

    def _flush_calls(self) -> None:
        """Tell the calls whose lines are all read."""
        self._draft.items += [{**self._draft.columns, **call} for call in self._calls.values()]
        self._calls.clear()

    # -- the rest --------------------------------------------------------------------------------

    def _raw(self, said: "dict[str, Any]") -> None:
        kind = text_of(said, "subtype") if said.get("type") == "system" else text_of(said, "type")
        rest = {name: value for name, value in said.items() if name not in _COMMON or name == "message"}
        uuid = text_of(said, "uuid")
        self._draft.raw(rest, kind, *((uuid,) if uuid else ()))


def _rest(said: "dict[str, Any]", known: "frozenset[str]") -> "dict[str, Any]":
    return {name: value for name, value in said.items() if name not in known and value is not None}


def _text_of(content: object) -> str:
    """The text of a message's content: itself, or that of its text blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [one.get("text") for one in content if isinstance(one, dict) and one.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def _edits(tool: "str | None", args: object, told: object) -> "list[FileEdit]":
    """What a tool did to files, by its arguments and its structured result."""
    if not isinstance(args, dict):
        return []
    path = text_of(args, "file_path") or text_of(args, "notebook_path")
    if path is None:
        return []
    result = told if isinstance(told, dict) else {}
    if tool == "Read":
        file = object_of(result, "file")
        content = file.get("content")
        whole = file.get("startLine") == 1 and file.get("numLines") == file.get("totalLines")
        if result.get("type") == "text" and whole and isinstance(content, str):
            return [FileEdit(SEEN, path, content=content, loose=True)]
        return []
    if tool not in _WRITES:
        return []
    original = result.get("originalFile")
    if original is None:
        original = result.get("originalFileContents")
    patch, added, removed = _patch(result.get("structuredPatch"))
    common: dict[str, Any] = {
        "original": original if isinstance(original, str) else None,
        "patch": patch,
        "added": added,
        "removed": removed,
    }
    if tool == "Write" and isinstance(args.get("content"), str):
        if result.get("type") == "create":
            common["created"] = True
            common["original"] = None
        return [FileEdit(WRITE, path, content=args["content"], **common)]
    replacements = []
    several = args.get("edits") if tool == "MultiEdit" else None
    for one in several if isinstance(several, list) else [args]:
        if (
            isinstance(one, dict)
            and isinstance(one.get("old_string"), str)
            and isinstance(one.get("new_string"), str)
        ):
            replacements.append((one["old_string"], one["new_string"], one.get("replace_all") is True))
    if not replacements:
        return []
    if replacements[0][0] == "" and original in (None, ""):
        common["created"], common["original"] = True, None
        return [FileEdit(WRITE, path, content=replacements[0][1], **common)] if len(replacements) == 1 else []
    return [FileEdit(REPLACE, path, replacements=tuple(replacements), **common)]


def _patch(hunks: object) -> "tuple[str | None, int | None, int | None]":
    """A structured patch as text, and the lines that it adds and removes."""
    if not isinstance(hunks, list) or not hunks:
        return None, None, None
    lines: list[str] = []
    added = removed = 0
    for hunk in hunks:
        if not isinstance(hunk, dict) or not isinstance(hunk.get("lines"), list):
            return None, None, None
        numbers = [hunk.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        lines.append("@@ -{},{} +{},{} @@".format(*numbers))
        for text in hunk["lines"]:
            if isinstance(text, str):
                lines.append(text)
                added += text.startswith("+")
                removed += text.startswith("-")
    return "\n".join(lines), added, removed


def _lean(result: object, args: object) -> object:
    """A result without what the arguments say too, and without contents that a file event names."""
    if not isinstance(result, dict) or not isinstance(args, dict):
        return result
    said = {*(value for value in args.values() if isinstance(value, str))}
    lean = {}
    for name, value in result.items():
        if name in ("originalFile", "originalFileContents") and isinstance(value, str):
            lean[name] = {"size": len(value.encode("utf-8", "replace"))}
        elif not (isinstance(value, str) and value in said):
            lean[name] = value
    return lean
