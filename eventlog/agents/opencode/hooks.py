"""What our plugin reports of OpenCode: `interpret`, from that to a `Call`, and what an import shares.

Pure: reads no file and no clock; what is not known here is kept raw. Facts that it rests on: a turn is the
user message that began it; a subagent is a session of its own with a parent, and what it does belongs to the
turn of the session at the top; the ids of tool calls are the provider's, unique within a session only; a tool
that throws is reported by its part, any other by `tool.execute.after`; a model call is one `step-finish`
part, whose input leaves the cache out and whose output leaves reasoning out. On the hook path.
"""

from eventlog.agents.kit.call import Call, ToolUse, columns_of, int_of, object_of, raw, text_of, without
from eventlog.agents.kit.tools import AgentTools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.base.types import Event

    Payload = dict[str, object]

AGENT = "opencode"

_COLUMNS = (
    ("agent_session_id", "session_id"),
    ("agent_turn_id", "turn_id"),
    ("subagent_id", "agent_id"),
    ("cwd", "cwd"),
    ("agent_version", "version"),
)
_SHARED = ("session_id", "turn_id", "agent_id", "cwd", "version", "hook_event_name")
_OF_TOOL = (
    *_SHARED, "tool_name", "tool_use_id", "args", "output", "title", "metadata", "time", "error",
)  # fmt: skip

SUBAGENT_TOOL = "task"
TOOLS = AgentTools(
    edits={"edit": ("filePath",), "write": ("filePath",), "multiedit": ("filePath",)},
    patches={"patch": "patchText", "apply_patch": "patchText"},
    waits=SUBAGENT_TOOL,  # a subagent's own session reports its calls
    quiet="read grep glob list ls webfetch websearch codesearch todoread todowrite question skill lsp "
    "invalid",
)
_ABORTED = "MessageAbortedError"


def interpret(payload: "Payload") -> Call:
    """The call that the plugin makes."""
    call = Call(AGENT, columns_of(AGENT, payload, _COLUMNS))
    return call.take(payload, _MEANINGS, text_of(payload, "id"))


# -- what an import shares -----------------------------------------------------------------------


def prompt_of(parts: "list[dict[str, object]]") -> "str | None":
    """What a person wrote in a user message; None when every part of it is the client's own."""
    mine = [part for part in parts if part.get("synthetic") is not True and part.get("type") != "compaction"]
    if not mine:
        return None
    texts = [
        part["text"] for part in mine if part.get("type") == "text" and isinstance(part.get("text"), str)
    ]
    tasks = [
        part["prompt"]
        for part in mine
        if part.get("type") == "subtask" and isinstance(part.get("prompt"), str)
    ]
    return "\n".join(map(str, texts or tasks))


def usage_of(tokens: "Payload") -> "Event":
    """The columns of a model call: the cache is no part of the input, nor reasoning of the output."""
    cache = object_of(tokens, "cache")
    unread, written = int_of(tokens, "input"), int_of(tokens, "output")
    read, cached, thought = int_of(cache, "read"), int_of(cache, "write"), int_of(tokens, "reasoning")
    columns: "Event" = {
        "prompt_tokens": None if unread is None else unread + (read or 0) + (cached or 0),
        "completion_tokens": None if written is None else written + (thought or 0),
        "reasoning_tokens": thought,
        "cache_read_tokens": read,
        "cache_write_tokens": cached,
    }
    return columns


def success_of(metadata: "Payload") -> bool:
    """Whether a tool that came to its end succeeded: a command says its exit code."""
    code = metadata.get("exit")
    return code == 0 if isinstance(code, int) else "exit" not in metadata


def duration_of(time: "Payload") -> "int | None":
    start, end = int_of(time, "start"), int_of(time, "end")
    return None if start is None or end is None or end < start else end - start


def lean(metadata: "Payload") -> "Payload":
    """What a tool says beside its result, without the contents and diffs that file events hold."""
    rest = without(metadata, "filediff", "diff", "display", "output")
    if isinstance(rest.get("files"), list):
        rest["files"] = [
            without(file, "before", "after", "diff", "patch") if isinstance(file, dict) else file
            for file in metadata["files"]  # type: ignore[attr-defined]
        ]
    return rest


def error_text(error: object) -> str:
    if isinstance(error, dict):
        message = object_of(error, "data").get("message") or error.get("message") or error.get("name")
        return str(message or "")
    return error if isinstance(error, str) else ""


def error_type_of(error: object) -> str:
    return "interrupted" if status_of(error) == "interrupted" else "api_error"


def status_of(error: object) -> str:
    """How a turn ends in which the model's answer ended with `error`."""
    if not isinstance(error, dict):
        return "completed"
    return "interrupted" if error.get("name") == _ABORTED else "failed"


# -- what each moment says -----------------------------------------------------------------------


def _session_start(call: Call, payload: "Payload") -> None:
    info = object_of(payload, "info")
    if call.columns.get("subagent_id") is not None:
        _subagent_start(call, info)
        return
    begins = payload.get("hook_event_name") == "session.created"
    call.begin_session("startup" if begins else "resume", head_of(info))


def head_of(info: "Payload") -> "Payload":
    """What is recorded of a session when it begins, and never changes."""
    names = ("slug", "projectID", "directory", "path", "parentID")
    return {name: info[name] for name in names if info.get(name)}


def _subagent_start(call: Call, info: "Payload") -> None:
    subagent = text_of(call.columns, "subagent_id")
    call.add(
        "subagent",
        {"session": subagent, **head_of(info)},
        "subagent",
        subagent,
        "start",
        operation="start",
        title=text_of(info, "title"),
        source="agent",
    )


def _prompt(call: Call, payload: "Payload") -> None:
    message = object_of(payload, "message")
    parts = [part for part in _list_of(payload, "parts") if isinstance(part, dict)]
    if call.columns.get("subagent_id") is not None:
        raw(call, payload, "chat.message", text_of(message, "id"))
        return
    others = [part for part in parts if part.get("type") != "text" or part.get("synthetic") is True]
    rest = {"parts": others or None, **without(message, "id", "sessionID", "role", "time")}
    call.begin_turn(prompt_of(parts) or "", rest, origin="user")


def _use(call: Call, payload: "Payload") -> ToolUse:
    scope = text_of(payload, "agent_id") or call.session
    name, id = text_of(payload, "tool_name"), text_of(payload, "tool_use_id")
    return ToolUse(name, id, payload.get("args"), scope=() if scope is None else (scope,))


def _tool_start(call: Call, payload: "Payload") -> None:
    TOOLS.begin(call, _use(call, payload), {})


def _tool_end(call: Call, payload: "Payload") -> None:
    use, metadata = _use(call, payload), object_of(payload, "metadata")
    failed = payload.get("hook_event_name") == "tool.error"
    fields = {
        "result": payload.get("error") if failed else payload.get("output"),
        "title": payload.get("title"),
        "metadata": lean(metadata) or None,
        **without(payload, *_OF_TOOL),
    }
    TOOLS.end(
        call,
        use,
        fields,
        success=False if failed else success_of(metadata),
        error=error_text(payload.get("error")) if failed else None,
        duration_ms=duration_of(object_of(payload, "time")),
        title=text_of(payload, "title"),
    )
    child = text_of(metadata, "sessionId")
    if use.name == SUBAGENT_TOOL and child is not None:
        call.add(
            "subagent", {}, "subagent", child, "end", use.id,
            operation="end", source="agent", subagent_id=child,
        )  # fmt: skip
    if use.name in TOOLS.edits and call.tool.named:
        shown, named = object_of(metadata, "filediff"), call.tool.named[0]
        before = shown.get("before")
        named.original = before if isinstance(before, str) else None
        named.added, named.removed = int_of(shown, "additions"), int_of(shown, "deletions")


def _model_call(call: Call, payload: "Payload") -> None:
    part, model = object_of(payload, "part"), object_of(payload, "model")
    key, message_id = text_of(part, "id"), text_of(part, "messageID")
    call.add(
        "llm",
        usage_payload(part, model),
        "llm",
        key,
        model=text_of(model, "modelID"),
        message_id=message_id,
        request_id=key,
        **usage_of(object_of(part, "tokens")),
    )


def usage_payload(part: "Payload", model: "Payload") -> "Payload":
    names = ("tokens", "cost", "reason", "snapshot")
    payload = {name: part.get(name) for name in names}
    return {**payload, "provider": text_of(model, "providerID")}


def _turn_end(call: Call, payload: "Payload") -> None:
    error = payload.get("error")
    call.end_turn(payload.get("last_assistant_message"), {"error": error}, status=status_of(error))


def _message_error(call: Call, payload: "Payload") -> None:
    error, message_id = payload.get("error"), text_of(payload, "message_id")
    call.add(
        "error",
        {"message": error_text(error), "error": error},
        "error",
        message_id,
        message_id=message_id,
        error_type=error_type_of(error),
        resolved=False,
        related_to=["errors"],
    )


def _session_end(call: Call, payload: "Payload") -> None:
    deleted = payload.get("hook_event_name") == "session.deleted"
    call.end_session("deleted" if deleted else "exit", without(payload, *_SHARED, "info"))


def _list_of(payload: "Payload", name: str) -> "list[object]":
    value = payload.get(name)
    return value if isinstance(value, list) else []


_MEANINGS: "dict[str, Callable[[Call, Payload], None]]" = {
    "session.created": _session_start,
    "session.resumed": _session_start,
    "chat.message": _prompt,
    "tool.execute.before": _tool_start,
    "tool.execute.after": _tool_end,
    "tool.error": _tool_end,
    "step.finish": _model_call,
    "session.idle": _turn_end,
    "message.error": _message_error,
    "session.deleted": _session_end,
    "session.end": _session_end,
}
