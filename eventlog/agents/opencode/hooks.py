"""What OpenCode tells our plugin: `interpret`, from that to a `Call`, and what an import shares.

Pure: reads no file and no clock; what is not known here is kept raw. Facts that it rests on: a turn is the
user message that began it; a subagent is a session of its own with a parent, and what it does belongs to the
turn of the session at the top; the ids of tool calls are the provider's, unique within a session only; a tool
that throws is told by its part, any other by `tool.execute.after`; a model call is one `step-finish` part,
whose input leaves the cache out and whose output leaves reasoning out. On the hook path.
"""

from eventlog.agents.kit.call import (
    SESSION,
    SESSION_END,
    TOOL,
    TOOL_START,
    TURN_END,
    TURN_START,
    Call,
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

    from eventlog.base.types import Event

    Said = dict[str, object]

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
    waits=SUBAGENT_TOOL,  # a subagent's calls are told by its own session
    quiet="read grep glob list ls webfetch websearch codesearch todoread todowrite question skill lsp "
    "invalid",
)
_ABORTED = "MessageAbortedError"


def interpret(said: "Said") -> Call:
    """The call that the plugin makes."""
    call = Call(AGENT, columns_of(AGENT, said, _COLUMNS))
    call.scope = text_of(said, "agent_id") or call.session
    name = text_of(said, "hook_event_name")
    meaning = _MEANINGS.get(name or "")
    if meaning is None or call.session is None:
        raw(call, said, name, text_of(said, "id"))
    else:
        meaning(call, said)
    return call


# -- what an import shares -----------------------------------------------------------------------


def prompt_of(parts: "list[dict[str, object]]") -> "str | None":
    """What a person wrote in a user message; None when every part of it is the client's own."""
    mine = [one for one in parts if one.get("synthetic") is not True and one.get("type") != "compaction"]
    if not mine:
        return None
    texts = [one["text"] for one in mine if one.get("type") == "text" and isinstance(one.get("text"), str)]
    tasks = [
        one["prompt"] for one in mine if one.get("type") == "subtask" and isinstance(one.get("prompt"), str)
    ]
    return "\n".join(map(str, texts or tasks))


def usage_of(tokens: "Said") -> "Event":
    """The columns of a model call: the cache is no part of the input, nor reasoning of the output."""
    cache = object_of(tokens, "cache")
    unread, written = int_of(tokens, "input"), int_of(tokens, "output")
    read, kept, thought = int_of(cache, "read"), int_of(cache, "write"), int_of(tokens, "reasoning")
    columns: "Event" = {
        "prompt_tokens": None if unread is None else unread + (read or 0) + (kept or 0),
        "completion_tokens": None if written is None else written + (thought or 0),
        "reasoning_tokens": thought,
        "cache_read_tokens": read,
        "cache_write_tokens": kept,
    }
    return columns


def success_of(metadata: "Said") -> bool:
    """Whether a tool that came to its end succeeded: a command says its exit code."""
    code = metadata.get("exit")
    return code == 0 if isinstance(code, int) else "exit" not in metadata


def duration_of(time: "Said") -> "int | None":
    start, end = int_of(time, "start"), int_of(time, "end")
    return None if start is None or end is None or end < start else end - start


def lean(metadata: "Said") -> "Said":
    """What a tool says beside its result, without the contents and diffs that file events hold."""
    found = without(metadata, "filediff", "diff", "display", "output")
    if isinstance(found.get("files"), list):
        found["files"] = [
            without(one, "before", "after", "diff", "patch") if isinstance(one, dict) else one
            for one in metadata["files"]  # type: ignore[attr-defined]
        ]
    return found


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


def _session_start(call: Call, said: "Said") -> None:
    info = object_of(said, "info")
    if call.columns.get("subagent_id") is not None:
        _subagent_start(call, info)
        return
    begins = said.get("hook_event_name") == "session.created"
    call.add(
        "session",
        head_of(info),
        *(("session", call.session) if begins else ()),
        operation="start" if begins else "resume",
        status="active",
    )
    call.moment = SESSION


def head_of(info: "Said") -> "Said":
    """What is said of a session when it begins, and stays so."""
    names = ("slug", "projectID", "directory", "path", "parentID")
    return {name: info[name] for name in names if info.get(name)}


def _subagent_start(call: Call, info: "Said") -> None:
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


def _prompt(call: Call, said: "Said") -> None:
    message = object_of(said, "message")
    parts = [one for one in _list_of(said, "parts") if isinstance(one, dict)]
    if call.columns.get("subagent_id") is not None:
        raw(call, said, "chat.message", text_of(message, "id"))
        return
    prompt, turn = prompt_of(parts) or "", call.turn
    others = [one for one in parts if one.get("type") != "text" or one.get("synthetic") is True]
    call.add(
        "turn",
        {"user_message": prompt, "origin": "user"},
        "turn",
        turn,
        "start",
        operation="start",
        status="active",
    )
    call.add("snapshot", {"snapshot_type": "turn_start"}, "snapshot", turn, "start", operation="turn_start")
    call.add(
        "intent",
        {
            "message": prompt,
            "origin": "user",
            "parts": others or None,
            **without(message, "id", "sessionID", "role", "time"),
        },
        "intent",
        turn,
    )
    call.moment = TURN_START
    call.prompt = prompt


def _tool_start(call: Call, said: "Said") -> None:
    tool, tool_use_id = text_of(said, "tool_name"), text_of(said, "tool_use_id")
    call.add_of_tool(
        "tool_start", {"args": said.get("args")}, tool_use_id, said.get("args"), source="agent", tool=tool
    )
    call.moment = TOOL_START
    TOOLS.describe(call, tool, said.get("args"))


def _tool_end(call: Call, said: "Said") -> None:
    tool, tool_use_id = text_of(said, "tool_name"), text_of(said, "tool_use_id")
    failed = said.get("hook_event_name") == "tool.error"
    metadata = object_of(said, "metadata")
    call.add_of_tool(
        "action",
        {
            "args": said.get("args"),
            "result": said.get("error") if failed else said.get("output"),
            "title": said.get("title"),
            "metadata": lean(metadata) or None,
            **without(said, *_OF_TOOL),
        },
        tool_use_id,
        said.get("args"),
        tool=tool,
        success=False if failed else success_of(metadata),
        duration_ms=duration_of(object_of(said, "time")),
        title=text_of(said, "title"),
    )
    if failed:
        call.add_of_tool(
            "error",
            {
                "message": error_text(said.get("error")),
                "tool": tool,
                "command": object_of(said, "args").get("command"),
            },
            tool_use_id,
            said.get("args"),
            tool=tool,
            error_type="tool_failure",
            resolved=False,
            related_to=["errors"],
        )
    child = text_of(metadata, "sessionId")
    if tool == SUBAGENT_TOOL and child is not None:
        call.add(
            "subagent", {}, "subagent", child, "end", tool_use_id,
            operation="end", source="agent", subagent_id=child,
        )  # fmt: skip
    call.cause = call.ended[0] if call.ended else None
    TOOLS.describe(call, tool, said.get("args"))
    if call.kind != QUIET:
        call.moment = TOOL
    if tool in TOOLS.edits and call.named:
        shown, named = object_of(metadata, "filediff"), call.named[0]
        before = shown.get("before")
        named.original = before if isinstance(before, str) else None
        named.added, named.removed = int_of(shown, "additions"), int_of(shown, "deletions")


def _model_call(call: Call, said: "Said") -> None:
    part, model = object_of(said, "part"), object_of(said, "model")
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


def usage_payload(part: "Said", model: "Said") -> "Said":
    names = ("tokens", "cost", "reason", "snapshot")
    said = {name: part.get(name) for name in names}
    return {**said, "provider": text_of(model, "providerID")}


def _turn_end(call: Call, said: "Said") -> None:
    outcome = said.get("last_assistant_message")
    call.add("snapshot", {"snapshot_type": "turn_end"}, operation="turn_end")
    call.add(
        "turn",
        {"outcome": outcome if isinstance(outcome, str) else None, "error": said.get("error")},
        source="agent",
        operation="end",
        status=status_of(said.get("error")),
    )
    call.moment = TURN_END


def _message_error(call: Call, said: "Said") -> None:
    error, message_id = said.get("error"), text_of(said, "message_id")
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


def _session_end(call: Call, said: "Said") -> None:
    deleted = said.get("hook_event_name") == "session.deleted"
    call.add(
        "session",
        {"end_reason": "deleted" if deleted else "exit", **without(said, *_SHARED, "info")},
        operation="end",
        status="closed",
    )
    call.moment = SESSION_END


def _list_of(said: "Said", name: str) -> "list[object]":
    value = said.get(name)
    return value if isinstance(value, list) else []


_MEANINGS: "dict[str, Callable[[Call, Said], None]]" = {
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
