"""What Claude Code says in its hooks: `interpret`, from hook input to a `Call`.

Pure: reads no file and no clock. Whatever is not known here, an event of a later version or one without
its fields, is kept raw. Facts that it rests on: `prompt_id` names a turn and is in every event from the
prompt on, a subagent's too; PostToolBatch alone reports a refused call and one with bad input; a
background subagent reports through a prompt of its own, which no person wrote. On the hook path.
"""

from blake3 import blake3

from eventlog.agents.kit.call import Call, EditedFile, ToolUse, columns_of, int_of, raw, text_of, without
from eventlog.agents.kit.tools import AgentTools

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
ORIGINALS = ("originalFile", "originalFileContents")  # in results of edits: the former text

_OF_COMPACTION = ("PreCompact", "PostCompact")
NOTIFICATION = "<task-notification>"
TOOL_ERROR = "<tool_use_error>"


def interpret(payload: "Payload") -> Call:
    """The call that this hook input makes."""
    call = Call(AGENT, columns_of(AGENT, payload, _COLUMNS))
    name = text_of(payload, "hook_event_name")
    if name in _OF_COMPACTION or (name == "SubagentStop" and payload.get("agent_type") == ""):
        call.columns.pop("agent_turn_id", None)  # a command's own prompt id, with which no turn begins
    return call.take(payload, _MEANINGS, *_raw_key(payload))


def _raw_key(payload: "Payload") -> "tuple[str | None, ...]":
    tool_use_id, message_id = text_of(payload, "tool_use_id"), text_of(payload, "message_id")
    if tool_use_id is None and message_id is not None:
        return message_id, str(int_of(payload, "index") or 0)
    return (tool_use_id,)


def _session_start(call: Call, payload: "Payload") -> None:
    source, facts = text_of(payload, "source") or "startup", without(payload, *_SHARED[:-1], "model")
    call.begin_session(source, facts, model=text_of(payload, "model"))


def _session_end(call: Call, payload: "Payload") -> None:
    call.end_session(text_of(payload, "reason") or "other", without(payload, *_SHARED, "reason"))
    call.read_transcript(text_of(payload, "transcript_path"))


def _prompt(call: Call, payload: "Payload") -> None:
    prompt = payload.get("prompt")
    message = prompt if isinstance(prompt, str) else ""
    origin = text_of(payload, "source") or "user"
    if message.lstrip().startswith(NOTIFICATION):
        origin = "task_notification"
    call.begin_turn(message, without(payload, *_SHARED, "prompt", "source"), origin=origin)


def _use(payload: "Payload") -> ToolUse:
    return ToolUse(text_of(payload, "tool_name"), text_of(payload, "tool_use_id"), payload.get("tool_input"))


def _tool_start(call: Call, payload: "Payload") -> None:
    TOOLS.begin(call, _use(payload), without(payload, *_OF_TOOL))


def _tool_end(call: Call, payload: "Payload") -> None:
    use, result, error = _use(payload), payload.get("tool_response"), payload.get("error")
    failed = payload.get("hook_event_name") == "PostToolUseFailure"
    if isinstance(result, dict):
        result = dict(result)  # the text of the file that it may hold is taken out below
        failed = failed or result.get("interrupted") is True
    TOOLS.end(
        call,
        use,
        {"result": result, **without(payload, *_OF_TOOL)},
        duration_ms=int_of(payload, "duration_ms"),
        success=not failed,
        error=error if isinstance(error, str) else None,
        error_type="interrupted" if payload.get("is_interrupt") is True else "tool_failure",
    )
    if use.name in TOOLS.edits and isinstance(result, dict):
        _take_out_text(call, result)


def _take_out_text(call: Call, result: "Payload") -> None:
    """The file event names the former text of the edited file by its hash: the result need not hold it."""
    named = call.tool.named[0] if call.tool.named else EditedFile("")
    named.added, named.removed = _count_lines(result.get("structuredPatch"))
    for name in ORIGINALS:
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
        raw(call, payload, text_of(payload, "hook_event_name"), *_raw_key(payload))
        return
    call.may_duplicate = True
    for call_payload in calls:
        if not isinstance(call_payload, dict):
            continue
        use, result = _use(call_payload), call_payload.get("tool_response")
        fields = {
            "args": use.args,
            "result": result,
            "told_by": "PostToolBatch",
            "tool_error": True if isinstance(result, str) and result.startswith(TOOL_ERROR) else None,
            **without(call_payload, *_OF_TOOL),
        }
        call.add_of_tool("action", use, fields, success=False)


def _stop(call: Call, payload: "Payload") -> None:
    failed = payload.get("hook_event_name") == "StopFailure"
    if failed:
        error_type = text_of(payload, "error") or "unknown"
        details = payload.get("error_details")
        message = details if isinstance(details, str) else error_type
        call.add("error", {"message": message}, error_type=error_type, resolved=False, related_to=["errors"])
    outcome = payload.get("last_assistant_message")
    rest = without(payload, *_SHARED, "last_assistant_message")
    call.end_turn(outcome, rest, status="failed" if failed else "completed")
    call.read_transcript(text_of(payload, "transcript_path"))


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
        call.read_transcript(text_of(payload, "agent_transcript_path"))


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
