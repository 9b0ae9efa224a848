"""What Codex says in its hooks: `interpret`, from hook input to a `Call`.

Pure: reads no file and no clock; what is not known here is kept raw. Facts that it rests on: `turn_id` names
a turn, but a subagent counts turns of its own, and what it does belongs to the session's turn under way; a
shell command that fails gives a PostToolUse with its output and no exit code, so whether it succeeded is
unknown; a patch names its files in its text, and one within a shell command gives no PostToolUse; before a
model is asked, the tools that it asked for have ended; model calls have no ids, so
one is named by its turn and figures (`call_key`), and their input counts what came from the cache. On the
hook path.
"""

from eventlog.agents.kit.call import Call, ToolUse, columns_of, int_of, object_of, raw, text_of, without
from eventlog.agents.kit.tools import AgentTools
from eventlog.base import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Payload = dict[str, object]

AGENT = "codex"

_COLUMNS = (
    ("agent_session_id", "session_id"),
    ("agent_turn_id", "turn_id"),
    ("subagent_id", "agent_id"),
    ("cwd", "cwd"),
    ("model", "model"),
)
_SHARED = ("session_id", "turn_id", "agent_id", "cwd", "hook_event_name", "model", "transcript_path")
_OF_TOOL = (*_SHARED, "tool_name", "tool_use_id", "tool_input", "tool_response")

TOOLS = AgentTools(
    edits={},
    patches={"apply_patch": "command"},
    waits="wait_agent",  # a subagent's own hooks report its calls
    quiet="spawn_agent send_message send_input followup_task list_agents interrupt_agent close_agent "
    "resume_agent update_plan request_user_input view_image web_search tool_search read_file list_dir "
    "grep_files list_mcp_resources list_mcp_resource_templates read_mcp_resource",
    prefix="collaboration",
)
_EXIT_CODE = "Exit code: "
_SCRIPT_COMPLETED, _SCRIPT_FAILED = "Script completed", "Script failed"
ERROR_SIZE_MAX = 2_000
_KEY_SIZE = 4  # of a model call whose place and figures are known
_FIGURES = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")


def interpret(payload: "Payload") -> Call:
    """The call that this hook input makes."""
    call = Call(AGENT, columns_of(AGENT, payload, _COLUMNS))
    inner = call.columns.pop("agent_turn_id", None) if "subagent_id" in call.columns else None
    call.take(payload, _MEANINGS, text_of(payload, "tool_use_id"))
    for event in call.events if inner is not None else ():
        event["payload"] = {**object_of(event, "payload"), "turn_id": inner}
    return call


def words_of(args: object) -> object:
    """What a call was made with, in the form that hooks and rollouts share: its command, patch or arguments.

    A hook says `{"command": …}` where the model wrote `{"cmd": …}`, the bare patch or a list of words.
    """
    if isinstance(args, dict):
        for name in ("cmd", "command"):
            command = args.get(name)
            if isinstance(command, list) and command:
                command = command[-1]
            if isinstance(command, str):
                return command
    return args


def _session_start(call: Call, payload: "Payload") -> None:
    call.begin_session(text_of(payload, "source") or "startup", without(payload, *_SHARED[:-1]))


def _session_end(call: Call, payload: "Payload") -> None:
    call.end_session(text_of(payload, "reason") or "other", without(payload, *_SHARED, "reason"))


def _prompt(call: Call, payload: "Payload") -> None:
    prompt = payload.get("prompt")
    call.begin_turn(prompt if isinstance(prompt, str) else "", without(payload, *_SHARED, "prompt"))


def _use(payload: "Payload") -> ToolUse:
    args = payload.get("tool_input")
    return ToolUse(TOOLS.name(payload), text_of(payload, "tool_use_id"), args, words_of(args))


def _tool_start(call: Call, payload: "Payload") -> None:
    TOOLS.begin(call, _use(payload), without(payload, *_OF_TOOL))


def _tool_end(call: Call, payload: "Payload") -> None:
    result = payload.get("tool_response")
    success = _success_of(result)
    error = "\n".join(_texts_of(result))[:ERROR_SIZE_MAX] if success is False else None
    fields = {"result": result, **without(payload, *_OF_TOOL)}
    TOOLS.end(call, _use(payload), fields, success=success, error=error)


def _success_of(result: object) -> "bool | None":
    """Only the results that begin with an exit code, or are a script's, tell; the others are unknown."""
    if not isinstance(result, str) or not result.startswith(_EXIT_CODE):
        return script_success(result)
    return is_zero(result[len(_EXIT_CODE) :])


def is_zero(text: str) -> "bool | None":
    """Whether the exit code that a text begins with is 0; None where it is no number."""
    digits = text.partition("\n")[0].strip()
    return digits == "0" if digits.lstrip("-").isdigit() else None


def script_success(result: object) -> "bool | None":
    """Whether a script of `exec` did what it was for, by what it says; None: it is none, or goes on.

    One that completed failed too when it passes on that a command of it did: `{"exit_code": 101, …}`.
    """
    texts = _texts_of(result)
    head, _, output = texts[0].partition("\nOutput:\n") if texts else ("", "", "")
    status = head.partition("\n")[0]
    if status != _SCRIPT_COMPLETED:
        return False if status == _SCRIPT_FAILED else None
    return not any(_tells_failure(text) for text in (output, *texts[1:]))


def _tells_failure(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")) or '"exit_code"' not in text:
        return False
    try:
        outcome = jsontext.decode(text)
    except (ValueError, RecursionError):
        return False
    results = outcome if isinstance(outcome, list) else [outcome]
    codes = [result.get("exit_code") for result in results if isinstance(result, dict)]
    return any(type(code) is int and code != 0 for code in codes)


def _texts_of(result: object) -> "list[str]":
    if isinstance(result, str):
        return [result]
    parts = result if isinstance(result, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]


def _model_asked(call: Call, payload: "Payload") -> None:
    raw(call, payload, text_of(payload, "hook_event_name"))
    call.tool.all_ended = "agent_id" not in payload


def _model_call(call: Call, payload: "Payload") -> None:
    usage = object_of(payload, "token_usage")
    key = [part for part in call_key(text_of(payload, "agent_id") or call.turn, usage) if part is not None]
    if len(key) == _KEY_SIZE:
        call.keys.model_call = tuple(key[:-1])
    call.add(
        "llm",
        without(payload, *_SHARED),
        **usage_of(usage),
        success=None if payload.get("status") is None else payload.get("status") == "completed",
    )


def usage_of(usage: "Mapping[str, object]") -> "dict[str, int | None]":
    """The columns of a model call."""
    return {
        "prompt_tokens": int_of(usage, "input_tokens"),
        "completion_tokens": int_of(usage, "output_tokens"),
        "reasoning_tokens": int_of(usage, "reasoning_output_tokens"),
        "cache_read_tokens": int_of(usage, "cached_input_tokens"),
        "cache_write_tokens": int_of(usage, "cache_write_input_tokens"),
    }


def call_key(scope: "str | None", usage: "Mapping[str, object]", number: int = 0) -> "tuple[str | None, ...]":
    """The key of a model call: its subagent, or else its turn, its figures, its number among equal ones."""
    figures = [int_of(usage, name) for name in _FIGURES]
    known = None if None in figures[:2] else ":".join(str(figure or 0) for figure in figures)
    return "llm", scope, known, str(number)


def _stop(call: Call, payload: "Payload") -> None:
    interrupted = payload.get("hook_event_name") == "Interrupt"
    outcome = payload.get("last_assistant_message")
    rest = without(payload, *_SHARED, "last_assistant_message")
    call.end_turn(outcome, rest, status="interrupted" if interrupted else "completed")
    if "subagent_id" not in call.columns:
        call.read_transcript(text_of(payload, "transcript_path"))


def _subagent(call: Call, payload: "Payload") -> None:
    ended = payload.get("hook_event_name") == "SubagentStop"
    call.add(
        "subagent",
        without(payload, *_SHARED),
        *(() if ended else ("subagent", text_of(payload, "agent_id"), "start")),
        operation="end" if ended else "start",
        title=text_of(payload, "agent_type"),
        source="agent",
    )


_MEANINGS: "dict[str, Callable[[Call, Payload], None]]" = {
    "SessionStart": _session_start,
    "SessionEnd": _session_end,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _tool_start,
    "PostToolUse": _tool_end,
    "PreModelRequest": _model_asked,
    "PostModelRequest": _model_call,
    "Stop": _stop,
    "Interrupt": _stop,
    "SubagentStart": _subagent,
    "SubagentStop": _subagent,
}
