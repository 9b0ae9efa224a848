"""What Claude Code says in its hooks: `interpret`, from hook input to a `Call`.

Pure: reads no file and no clock. Whatever is not known here, an event of a later version or one without
its fields, is kept raw. Facts that it rests on: `prompt_id` names a turn and stands on every event from the
prompt on, a subagent's too; PostToolBatch alone reports a refused call and one with bad input; a
background subagent reports through a prompt of its own, which no person wrote. On the hook path.
"""

from blake3 import blake3

from eventlog.agents.kit.call import (
    SESSION,
    SESSION_END,
    TOOL,
    TOOL_START,
    TURN_END,
    TURN_START,
    Call,
    EditedFile,
    columns_of,
    int_of,
    object_of,
    raw,
    text_of,
    without,
)
from eventlog.agents.kit.tools import QUIET, AgentTools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Payload = dict[str, object]

AGENT = "claude-code"

_COLUMNS = (
    ("agent_session_id", "session_id"),
    ("agent_turn_id", "prompt_id"),
    ("subagent_id", "agent_id"),
    ("cwd", "cwd"),
)

# What every call repeats, and what columns hold.
_SHARED = ("session_id", "prompt_id", "agent_id", "cwd", "hook_event_name", "transcript_path")
_OF_TOOL = (*_SHARED, "tool_name", "tool_use_id", "tool_input", "tool_response", "duration_ms")

TOOLS = AgentTools(
    edits={
        "Write": ("file_path",),
        "Edit": ("file_path",),
        "MultiEdit": ("file_path",),
        "NotebookEdit": ("notebook_path", "file_path"),
    },
    waits="Agent Task Workflow TaskOutput BashOutput",  # a subagent's own hooks report its calls
    quiet="Read Grep Glob LS NotebookRead WebFetch WebSearch ToolSearch TodoWrite ListAgents AskUserQuestion "
    "ReportFindings ScheduleWakeup TaskCreate TaskGet TaskList TaskUpdate SendMessage KillShell TaskStop",
)
_ORIGINALS = ("originalFile", "originalFileContents")

_OF_COMPACTION = ("PreCompact", "PostCompact")
_NOTIFICATION = "<task-notification>"
_TOOL_ERROR = "<tool_use_error>"


def interpret(payload: "Payload") -> Call:
    """The call that this hook input makes."""
    call = Call(AGENT, columns_of(AGENT, payload, _COLUMNS))
    name = text_of(payload, "hook_event_name")
    if name in _OF_COMPACTION or (name == "SubagentStop" and payload.get("agent_type") == ""):
        call.columns.pop("agent_turn_id", None)  # a command's own prompt id, with which no turn begins
    meaning = _MEANINGS.get(name or "")
    if meaning is None or call.session is None:
        _raw(call, payload, name)
    else:
        meaning(call, payload)
    return call


def _raw(call: Call, payload: "Payload", name: "str | None") -> None:
    tool_use_id, message_id = text_of(payload, "tool_use_id"), text_of(payload, "message_id")
    if tool_use_id is not None:
        raw(call, payload, name, tool_use_id)
    elif message_id is not None:
        raw(call, payload, name, message_id, str(int_of(payload, "index") or 0))
    else:
        raw(call, payload, name)


def _session_start(call: Call, payload: "Payload") -> None:
    source = text_of(payload, "source") or "startup"
    begins = source in ("startup", "clear")
    call.add(
        "session",
        without(payload, *_SHARED[:-1], "model"),
        *(("session", call.session) if begins else ()),
        operation="start" if begins else source,
        status="active",
        model=text_of(payload, "model"),
    )
    if source != "compact":  # which happens in the middle of a turn
        call.moment = SESSION


def _session_end(call: Call, payload: "Payload") -> None:
    reason = text_of(payload, "reason") or "other"
    call.add(
        "session",
        {**without(payload, *_SHARED, "reason"), "end_reason": reason},
        operation="end",
        status="closed",
    )
    call.moment = SESSION_END
    _read_transcript(call, payload, "transcript_path")


def _prompt(call: Call, payload: "Payload") -> None:
    prompt = payload.get("prompt")
    message = prompt if isinstance(prompt, str) else ""
    origin = text_of(payload, "source") or "user"
    if message.lstrip().startswith(_NOTIFICATION):
        origin = "task_notification"
    by_person = origin in ("user", "sdk")
    turn = call.turn
    call.add(
        "turn",
        {"user_message": message, "origin": origin},
        "turn",
        turn,
        "start",
        operation="start",
        status="active",
        title=None if by_person else f"({origin.replace('_', ' ')})",
    )
    call.add("snapshot", {"snapshot_type": "turn_start"}, "snapshot", turn, "start", operation="turn_start")
    call.add(
        "intent",
        {"message": message, "origin": origin, **without(payload, *_SHARED, "prompt", "source")},
        "intent",
        turn,
        source="user" if by_person else "system",
    )
    call.moment = TURN_START
    call.prompt = message if by_person else None


def _tool_start(call: Call, payload: "Payload") -> None:
    tool_use_id = text_of(payload, "tool_use_id")
    call.add_of_tool(
        "tool_start",
        {"args": payload.get("tool_input"), **without(payload, *_OF_TOOL)},
        tool_use_id,
        payload.get("tool_input"),
        source="agent",
        tool=text_of(payload, "tool_name"),
    )
    call.moment = TOOL_START
    TOOLS.describe(call, text_of(payload, "tool_name"), payload.get("tool_input"))


def _tool_end(call: Call, payload: "Payload") -> None:
    tool, tool_use_id = text_of(payload, "tool_name"), text_of(payload, "tool_use_id")
    failed = payload.get("hook_event_name") == "PostToolUseFailure"
    result = payload.get("tool_response")
    if isinstance(result, dict):
        result = dict(result)  # the text of the file that it may hold is taken out below
        failed = failed or result.get("interrupted") is True
    args = payload.get("tool_input")
    call.add_of_tool(
        "action",
        {"args": args, "result": result, **without(payload, *_OF_TOOL)},
        tool_use_id,
        args,
        tool=tool,
        duration_ms=int_of(payload, "duration_ms"),
        success=not failed,
    )
    call.cause = call.ended[0] if call.ended else None
    error = payload.get("error")
    if isinstance(error, str):
        call.add_of_tool(
            "error",
            {"message": error, "tool": tool, "command": object_of(payload, "tool_input").get("command")},
            tool_use_id,
            args,
            tool=tool,
            error_type="interrupted" if payload.get("is_interrupt") is True else "tool_failure",
            resolved=False,
            related_to=["errors"],
        )
    TOOLS.describe(call, tool, args)
    if call.kind != QUIET:
        call.moment = TOOL
    if tool in TOOLS.edits and isinstance(result, dict):
        _take_out_text(call, result)


def _take_out_text(call: Call, result: "Payload") -> None:
    """The file event names the former text of the edited file by its hash: the result need not hold it."""
    named = call.named[0] if call.named else EditedFile("")
    named.added, named.removed = _count_lines(result.get("structuredPatch"))
    for name in _ORIGINALS:
        original = result.get(name)
        if isinstance(original, str):
            named.original = original
            result[name] = {"size": len(original.encode("utf-8", "replace"))}


def _count_lines(patch: object) -> "tuple[int | None, int | None]":
    """The lines that a patch of the agent adds and removes; unknown without one."""
    if not isinstance(patch, list) or not patch:
        return None, None
    lines = [line for hunk in patch if isinstance(hunk, dict) for line in hunk.get("lines") or ()]
    marks = [line[:1] for line in lines if isinstance(line, str)]
    return marks.count("+"), marks.count("-")


def _tool_batch(call: Call, payload: "Payload") -> None:
    """An action for each call of the batch: the only word on what was refused or made no sense.

    Each has the id of the action that its own hooks write, and of two events with one id the first counts.
    """
    calls = payload.get("tool_calls")
    if not isinstance(calls, list):
        _raw(call, payload, text_of(payload, "hook_event_name"))
        return
    call.may_duplicate = True
    for call_payload in calls:
        if not isinstance(call_payload, dict):
            continue
        tool_use_id = text_of(call_payload, "tool_use_id")
        call.add_of_tool(
            "action",
            {
                "args": call_payload.get("tool_input"),
                "result": call_payload.get("tool_response"),
                "told_by": "PostToolBatch",
                "tool_error": _is_tool_error(call_payload.get("tool_response")) or None,
                **without(call_payload, *_OF_TOOL),
            },
            tool_use_id,
            call_payload.get("tool_input"),
            tool=text_of(call_payload, "tool_name"),
            success=False,
        )


def _is_tool_error(result: object) -> bool:
    return isinstance(result, str) and result.startswith(_TOOL_ERROR)


def _stop(call: Call, payload: "Payload") -> None:
    failed = payload.get("hook_event_name") == "StopFailure"
    if failed:
        error_type = text_of(payload, "error") or "unknown"
        details = payload.get("error_details")
        message = details if isinstance(details, str) else error_type
        call.add("error", {"message": message}, error_type=error_type, resolved=False, related_to=["errors"])
    call.add("snapshot", {"snapshot_type": "turn_end"}, operation="turn_end")
    outcome = payload.get("last_assistant_message")
    call.add(
        "turn",
        {
            "outcome": outcome if isinstance(outcome, str) else None,
            **without(payload, *_SHARED, "last_assistant_message"),
        },
        source="agent",
        operation="end",
        status="failed" if failed else "completed",
    )
    call.moment = TURN_END
    _read_transcript(call, payload, "transcript_path")


def _subagent(call: Call, payload: "Payload") -> None:
    ended = payload.get("hook_event_name") == "SubagentStop"
    agent_id = text_of(payload, "agent_id")
    words = payload.get("last_assistant_message")
    digest = blake3(words.encode("utf-8", "replace") if isinstance(words, str) else b"").hexdigest()[:16]
    call.add(
        "subagent",
        without(payload, *_SHARED),
        "subagent",
        agent_id,
        *(("end", digest) if ended else ("start",)),
        operation="end" if ended else "start",
        title=text_of(payload, "agent_type"),
        source="agent",
    )
    if ended:
        _read_transcript(call, payload, "agent_transcript_path")


def _read_transcript(call: Call, payload: "Payload", name: str) -> None:
    path = text_of(payload, name)
    if path is not None:
        call.transcripts.append(path)


_MEANINGS: "dict[str, Callable[[Call, Payload], None]]" = {
    "SessionStart": _session_start,
    "SessionEnd": _session_end,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _tool_start,
    "PostToolUse": _tool_end,
    "PostToolUseFailure": _tool_end,
    "PostToolBatch": _tool_batch,
    "Stop": _stop,
    "StopFailure": _stop,
    "SubagentStart": _subagent,
    "SubagentStop": _subagent,
}
