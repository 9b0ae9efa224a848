"""What Gemini CLI says in its hooks: `interpret`, from hook input to a `Call`.

Pure: reads no file and no clock; what is not known here is kept raw. Facts that it rests on: every hook has a
`timestamp`, but neither its turn nor its tool call an id, so a turn is named by session and time of its
BeforeAgent, and a tool call by what it asks for (`call_key`); tools of one answer run beside one another, but
for edits; one that is refused, or stopped, gives no AfterTool, and all have ended when the agent has; model
calls come by the piece, so they are read from the chat (`chat_tail.py`); what other hooks put before a
prompt is not the person's. On the hook path.
"""

from blake3 import blake3

from eventlog.agents.kit.call import (
    Call,
    EditedFile,
    ToolUse,
    columns_of,
    int_of,
    object_of,
    text_of,
    without,
)
from eventlog.agents.kit.tools import AgentTools
from eventlog.base import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Payload = dict[str, object]

AGENT = "gemini-cli"

_COLUMNS = (("agent_session_id", "session_id"), ("cwd", "cwd"))
_SHARED = ("session_id", "cwd", "hook_event_name", "transcript_path", "timestamp")
_OF_TOOL = (*_SHARED, "tool_name", "tool_input", "tool_response")

WRITE_FILE = "write_file"
TOOLS = AgentTools(
    edits={WRITE_FILE: ("file_path",), "replace": ("file_path",)},
    waits="codebase_investigator cli_help",
    quiet="read_file read_many_files list_directory glob grep_search search_file_content google_web_search "
    "web_fetch write_todos ask_user update_topic complete_task get_internal_docs activate_skill "
    "enter_plan_mode exit_plan_mode read_mcp_resource list_mcp_resources",
)
_SHELL = "run_shell_command"
CONTENTS = ("originalContent", "newContent")
_EXIT_CODE = "Exit Code: "
_CONTEXT, _CONTEXT_END = "<hook_context>", "</hook_context>"


def interpret(payload: "Payload") -> Call:
    """The call that this hook input makes."""
    call = Call(AGENT, columns_of(AGENT, payload, _COLUMNS))
    call.keys.called_at = text_of(payload, "timestamp")
    return call.take(payload, _MEANINGS)


def turn_of(session: str, stamp: str) -> str:
    """The name of the turn that began at a time; sessions begin turns in the same millisecond."""
    return f"{session}:{stamp}"


def call_key(turn: str, tool: str, args: object, number: int) -> "tuple[str, ...]":
    """What stands in for the id of a tool call: the `number`th of its turn that asks for just this."""
    return turn, tool, digest_of(args), str(number)


def digest_of(args: object) -> str:
    ordered = dict(sorted(args.items())) if isinstance(args, dict) else args
    return blake3(jsontext.encode(ordered)).hexdigest()[:32]


def without_context(text: str) -> "tuple[str, str]":
    """What hooks put before a prompt, and the prompt."""
    if not text.startswith(_CONTEXT) or _CONTEXT_END not in text:
        return "", text
    injected, _, prompt = text.partition(_CONTEXT_END)
    return injected[len(_CONTEXT) :], prompt.lstrip("\n")


def exit_code_of(tool: "str | None", output: object) -> "int | None":
    """The exit code that a command's output names, which it does when it is not 0."""
    if tool != _SHELL or not isinstance(output, str):
        return None
    for line in reversed(output.split("\n")):
        digits = line[len(_EXIT_CODE) :].strip()
        if line.startswith(_EXIT_CODE) and digits.isascii() and digits.isdigit():
            return int(digits[:9])
    return None


def _session_start(call: Call, payload: "Payload") -> None:
    call.begin_session(text_of(payload, "source") or "startup", without(payload, *_SHARED[:3], "timestamp"))


def _session_end(call: Call, payload: "Payload") -> None:
    call.end_session(text_of(payload, "reason") or "other", without(payload, *_SHARED, "reason"))
    call.read_transcript(text_of(payload, "transcript_path"))


def _prompt(call: Call, payload: "Payload") -> None:
    prompt = payload.get("prompt")
    injected, message = without_context(prompt if isinstance(prompt, str) else "")
    if call.session is not None and call.keys.called_at is not None:
        call.columns["agent_turn_id"] = turn_of(call.session, call.keys.called_at)
    call.begin_turn(message, {"hook_context": injected or None, **without(payload, *_SHARED, "prompt")})


def _use(call: Call, payload: "Payload") -> ToolUse:
    """The tool, which names the call in place of an id."""
    use = ToolUse(text_of(payload, "tool_name"), None, payload.get("tool_input"))
    if use.name is not None:
        call.keys.tool_call = (use.name, digest_of(use.args))
    return use


def _tool_start(call: Call, payload: "Payload") -> None:
    TOOLS.begin(call, _use(call, payload), without(payload, *_OF_TOOL))


def _tool_end(call: Call, payload: "Payload") -> None:
    use, result = _use(call, payload), payload.get("tool_response")
    response = object_of(payload, "tool_response")
    error, shown = object_of(response, "error"), object_of(response, "returnDisplay")
    output = response.get("llmContent")
    if shown and isinstance(result, dict):
        result = {**result, "returnDisplay": _lean(shown)}
    code = exit_code_of(use.name, output)
    failed, message = bool(error) or bool(code), error.get("message") if error else output
    TOOLS.end(
        call,
        use,
        {"result": result, "exit_code": code, **without(payload, *_OF_TOOL)},
        success=not failed,
        error=(message if isinstance(message, str) else "") if failed else None,
    )
    if call.tool.named and shown:
        _count(call.tool.named[0], shown)


def _count(named: EditedFile, shown: "Payload") -> None:
    """The text that the tool found, and the lines of its own patch."""
    original = shown.get("originalContent")
    if isinstance(original, str) and shown.get("isNewFile") is not True:
        named.original = original
    stat = object_of(shown, "diffStat")
    named.added, named.removed = int_of(stat, "model_added_lines"), int_of(stat, "model_removed_lines")


def _lean(shown: "Payload") -> "Payload":
    """What was shown, without the contents of the file: the file event names them by their hashes."""
    lean = dict(shown)
    for name in CONTENTS:
        text = lean.get(name)
        if isinstance(text, str):
            lean[name] = {"size": len(text.encode("utf-8", "replace"))}
    return lean


def _agent_end(call: Call, payload: "Payload") -> None:
    rest = without(payload, *_SHARED, "prompt", "prompt_response")
    key = ("turn", call.session, call.keys.called_at, "end")
    call.end_turn(payload.get("prompt_response"), rest, *key, status="completed")
    prompt = payload.get("prompt")
    call.answers = without_context(prompt)[1] if isinstance(prompt, str) else None
    call.tool.all_ended = True
    call.read_transcript(text_of(payload, "transcript_path"))


_MEANINGS: "dict[str, Callable[[Call, Payload], None]]" = {
    "SessionStart": _session_start,
    "SessionEnd": _session_end,
    "BeforeAgent": _prompt,
    "AfterAgent": _agent_end,
    "BeforeTool": _tool_start,
    "AfterTool": _tool_end,
}
