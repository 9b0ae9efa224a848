"""What tools of Codex were called with, gave and did to files: its reader between call and output.

A call waits for its output; what the client reports in between (an exit code, changes of files) belongs to
it. A command within a script of `exec`, or of the user's own, has no call in the file and is an action by
itself.
"""

import json
import os
from typing import Any, NamedTuple

from eventlog.agents.codex.hooks import ERROR_SIZE_MAX, is_zero, script_success, words_of
from eventlog.agents.codex.texts import PASSTHROUGH
from eventlog.agents.kit.call import ToolUse, int_of, is_global, object_of, text_of
from eventlog.agents.kit.draft import DELETE, PATCH, WRITE, Draft, FileEdit, rest_of
from eventlog.agents.kit.patches import edits_of, patch_in
from eventlog.agents.kit.words import text_in
from eventlog.base import jsontext
from eventlog.base.types import Event

_CALLS = frozenset(
    ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "web_search_call")
)
_OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output", "tool_search_output"))
# What ends a tool: in events, and as items.
_ENDS = {
    "exec_command_end": "exec_command",
    "patch_apply_end": "apply_patch",
    "mcp_tool_call_end": "mcp",
    "web_search_end": "web_search",
    "CommandExecution": "exec_command",
    "FileChange": "apply_patch",
    "McpToolCall": "mcp",
    "WebSearch": "web_search",
}
_OF_CALL = frozenset(("type", "name", "arguments", "input", "action", "call_id", "status", "id", PASSTHROUGH))
_OF_OUTPUT = frozenset(("type", "call_id", "output", "id", "status", PASSTHROUGH))
_OF_DETAILS = frozenset(("type", "call_id", "id", "turn_id", "duration", "changes", "parsed_cmd"))
_OUTPUT_TEXTS = ("aggregated_output", "formatted_output", "stdout", "stderr")
_EXIT_CODES = ("Exit code: ", "Process exited with code ")
_WALL_TIMES = ("Wall time: ", "Wall time ")
_HEAD_SIZE = 400
_FAILURES = (
    "aborted",
    "exec_command failed",
    "apply_patch verification failed",
    "failed to parse",
    "execution error",
)


class _Call(NamedTuple):
    """A call that waits for its output: what its line says, the columns of that, and what ended it."""

    name: str | None
    args: Any
    rest: dict[str, Any]
    columns: Event
    details: dict[str, Any]


class PendingCalls:
    """The calls of one thread that wait for their outputs."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._ended: dict[
            str, bool
        ] = {}  # calls whose end the client reported → whether a former import has it
        self._open: dict[str, list[_Call]] = {}  # those with one id in their order
        self._done: dict[str, int] = {}  # call → what stands for its arguments
        self._searches: list[object] = []  # that an event reported
        self._present: set[str] = set()  # files that exist after an edit of the thread

    def takes(self, kind: str) -> bool:
        return kind in _CALLS or kind in _OUTPUTS

    def ends(self, kind: str) -> bool:
        return kind in _ENDS

    def item(self, kind: str, item: "dict[str, Any]") -> None:
        """A call, or its output."""
        call = text_of(item, "call_id") or text_of(item, "id")
        if kind in _OUTPUTS:
            self._output(call, item)
            return
        rest = rest_of(item, _OF_CALL)
        name = text_of(item, "name") or kind.removesuffix("_call")
        if kind == "web_search_call":
            self._search(call, item, rest)
            return
        args = item.get("arguments", item.get("input", item.get("action")))
        if isinstance(args, str) and args[:1] == "{":
            args = _parsed(args)
        key = call or f"{len(self._open)}"
        known = [_sum_of(pending.args) for pending in self._open.get(key, ())] + [self._done.get(key)]
        if is_global(key) and _sum_of(args) in known:
            self._draft.raw(item, f"response_item/{kind}")
            return
        self._open.setdefault(key, []).append(_Call(name, args, rest, dict(self._draft.of_line), {}))

    def _is_done(self, call: str | None) -> bool:
        """Whether the call has ended: one whose id comes again may be another."""
        return call is not None and call in self._done and is_global(call)

    def _first(self, call: str | None, *, take: bool = False) -> "_Call | None":
        """The call with this id that waits longest."""
        waiting = self._open.get(call or "")
        if not waiting:
            return None
        if take and len(waiting) == 1:
            del self._open[call or ""]
        return waiting.pop(0) if take else waiting[0]

    def _search(self, call: str | None, item: "dict[str, Any]", rest: "dict[str, Any]") -> None:
        """A search by the provider; an event before the item, which may have no id, reports it too."""
        action = item.get("action")
        if (call is None or not is_global(call)) and action in self._searches:
            self._searches.remove(action)
        elif call is None and self._draft.is_copy:  # which lacks the event that has the id
            self._draft.raw(item, "response_item/web_search_call")
        elif not self._is_done(call):
            self._action(call, "web_search", action, None, rest, {}, True)

    def details(self, kind: str, record: "dict[str, Any]", call: str | None) -> None:
        """What the client reports of a tool that ended."""
        waiting = self._first(call)
        if waiting is not None:
            waiting.details.update(record)
            line = self._draft.line
            self._ended[call or ""] = line is not None and line.is_imported
        elif self._is_done(call):
            self._draft.raw(record, kind)
        else:
            within = [key for key, calls in self._open.items() for pending in calls if pending.name == "exec"]
            rest = {"within": within[0]} if len(within) == 1 else {}
            name = _ENDS[kind]
            invocation = object_of(record, "invocation") or record
            if name == "mcp":
                name = f"mcp__{invocation.get('server')}__{invocation.get('tool')}"
            args = record.get("action") or invocation.get("arguments")
            if kind == "web_search_end":
                self._searches.append(args)
            self._action(call, name, args, None, rest, record, None)

    def end(self) -> None:
        """Calls without an output: where the client reported their end, that is one."""
        for call, (name, args, rest, columns, details) in [
            (call, pending) for call, calls in self._open.items() for pending in calls
        ]:
            self._draft.of_line = columns
            if details:
                self._action(call, name, args, None, rest, details, None)
                continue
            use = ToolUse(name, call, args, words_of(args))
            self._draft.tool_event("tool_start", use, {"args": args, **rest}, source="agent")
        self._open.clear()

    def _output(self, call: str | None, item: "dict[str, Any]") -> None:
        waiting = self._first(call, take=True)
        if waiting is None and (call is None or self._is_done(call)):
            self._draft.raw(item, f"response_item/{text_of(item, 'type')}")
            return
        name, args, rest, columns, details = waiting or (None, None, {}, {}, {})
        extra = rest_of(item, _OF_OUTPUT)
        output = item.get("output")
        if output is None and "tools" in extra:
            output = extra.pop("tools")
        self._action(call, name, args, output, {**rest, **extra}, details, None, columns=columns)
        more = {**extra, "result": output} if details else {}
        self._draft.add_rest("action", more, was_imported=self._ended.pop(call or "", False))

    def _action(
        self,
        call: str | None,
        name: str | None,
        args: object,
        output: object,
        rest: "dict[str, Any]",
        details: "dict[str, Any]",
        success: bool | None,
        *,
        columns: "Event | None" = None,
    ) -> None:
        """Record a call that ended; `columns` are those of its line, where its output is on another."""
        draft = self._draft
        text, shown_success = _output_of(output)
        if success is None:
            success = _success_of(details)
        if success is None:
            success = script_success(output) if shown_success is None else shown_success
        patch = _patch_of(args)
        changes = details.get("changes")
        payload: dict[str, object] = {"args": args, "result": output, **rest}
        if details:
            payload["told"] = _lean(details, text, args)
            if isinstance(changes, dict) and patch is None:
                payload["changes"] = {path: _kind_of(change) for path, change in changes.items()}
        if call is not None:
            self._done[call] = _sum_of(args)
        called_at = None if columns is None else columns.get("occurred_at")
        # What `end` records where the file ends between the client's word and the output.
        half: Event | None = None
        if details and columns is not None:
            half = {"occurred_at": called_at, "payload": {"args": args}}
        use = ToolUse(name, call, args, words_of(args))
        action = draft.tool_event(
            "action",
            use,
            payload,
            called_at=called_at,
            half=half,
            duration_ms=_duration_of(details, text),
            success=success,
        )
        if success is False:
            by_client = _output_of(details.get("aggregated_output") or details.get("stderr"))[0]
            command = _command_of(args)
            failed_call = {"message": by_client[:ERROR_SIZE_MAX], "tool": name, "command": command}
            half = half and {**half, "payload": failed_call}
            draft.tool_failed(use, (text or by_client)[:ERROR_SIZE_MAX], command=command, half=half)
            return
        if isinstance(changes, dict):
            edits = [edit for path, change in changes.items() for edit in _edit_of(path, change)]
        elif patch is not None and (success or "Success. Updated" in text):
            edits = _placed(edits_of(patch), args)
        else:
            return
        for edit in edits:
            self._tell(action, edit)

    def _tell(self, action: Event, edit: FileEdit) -> None:
        """An added file is new, unless this thread knows that it was there."""
        if edit.kind == WRITE and edit.path not in self._present:
            edit.created = True
        if edit.old_path is not None:
            self._present.discard(edit.old_path)
        if edit.kind == DELETE:
            self._present.discard(edit.path)
        else:
            self._present.add(edit.path)
        self._draft.file(action, edit)


def _sum_of(args: object) -> int:
    return hash(jsontext.encode_without_floats(args))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _output_of(output: object) -> "tuple[str, bool | None]":
    """The text of an output, and whether it says that the tool succeeded."""
    if isinstance(output, str):
        if output.startswith('{"output"'):  # of 2025: an object as text
            parsed = _parsed(output)
            if isinstance(parsed, dict) and isinstance(parsed.get("output"), str):
                code = object_of(parsed, "metadata").get("exit_code")
                return parsed["output"], None if not isinstance(code, int) else code == 0
        return output, _success_in(output)
    if isinstance(output, list):
        text = text_in(output)
        return text, _success_in(text)
    if isinstance(output, dict):
        success = output.get("success")
        content = output.get("content")
        return content if isinstance(content, str) else "", success if isinstance(success, bool) else None
    return "", None


def _success_in(text: str) -> bool | None:
    """What the first lines of an output say; those of most tools say nothing."""
    head = text[:_HEAD_SIZE].partition("\nOutput:")[0]
    for mark in _EXIT_CODES:
        before, is_there, after = head.partition(mark)
        if is_there and (not before or before.endswith("\n")):
            return is_zero(after)
    return False if text.startswith(_FAILURES) else None


def _success_of(details: "dict[str, Any]") -> bool | None:
    code, success, status = details.get("exit_code"), details.get("success"), details.get("status")
    if isinstance(success, bool):
        return success
    if isinstance(code, int):
        return code == 0
    if status in ("failed", "declined"):
        return False
    result = details.get("result")
    if isinstance(result, dict) and ("Err" in result or "Ok" in result):
        return "Ok" in result and object_of(result, "Ok").get("isError") is not True
    return True if status == "completed" else None


def _duration_of(details: "dict[str, Any]", text: str) -> int | None:
    duration = details.get("duration")
    if isinstance(duration, dict):
        seconds, nanos = int_of(duration, "secs"), int_of(duration, "nanos")
        return None if seconds is None else seconds * 1000 + (nanos or 0) // 1_000_000
    head = text[:_HEAD_SIZE]
    mark = next((mark for mark in _WALL_TIMES if mark in head), None)
    number = "" if mark is None else head.partition(mark)[2].partition(" ")[0]
    return (
        round(float(number) * 1000) if number.replace(".", "", 1).isdecimal() and len(number) < 16 else None
    )


def _lean(details: "dict[str, Any]", output: str, args: object) -> "dict[str, Any]":
    """What the client reported, without what the arguments or the output say too."""
    rest = rest_of(details, _OF_DETAILS)
    for name in _OUTPUT_TEXTS:
        text = rest.get(name)
        if isinstance(text, str) and text in output:
            del rest[name]
    command = rest.get("command")
    if isinstance(command, list) and command and command[-1] == _command_of(args):
        rest["command"] = command[:-1]
    invocation = rest.get("invocation")
    if isinstance(invocation, dict) and invocation.get("arguments") == args:
        rest["invocation"] = {key: value for key, value in invocation.items() if key != "arguments"}
    if "action" in rest and rest["action"] == args:
        del rest["action"]
    result = object_of(object_of(rest, "result"), "Ok")
    structured = result.get("structuredContent")
    if structured is not None and structured == _parsed(output.partition("Output:\n")[2] or output):
        rest["result"] = {"Ok": {key: value for key, value in result.items() if key != "structuredContent"}}
    return rest


def _command_of(args: object) -> str | None:
    command = words_of(args)
    return command if isinstance(args, dict) and isinstance(command, str) else None


def _patch_of(args: object) -> str | None:
    """The patch in a tool's arguments: they are it, name it, or are a shell command that has it."""
    if isinstance(args, str):
        return patch_in(args) if args.lstrip().startswith("*** Begin Patch") else None
    if not isinstance(args, dict):
        return None
    for name in ("input", "patch"):
        if isinstance(args.get(name), str):
            return patch_in(args[name])
    command = args.get("command")
    if isinstance(command, list) and len(command) == 2 and command[0] in ("apply_patch", "applypatch"):
        return patch_in(str(command[1]))
    text = _command_of(args)
    return (
        patch_in(text) if text is not None and "apply_patch" in text.partition("*** Begin Patch")[0] else None
    )


def _placed(edits: "list[FileEdit]", args: object) -> "list[FileEdit]":
    """Edits with paths from where the shell command ran: its directory, and that which it changed to."""
    directory = text_of(args, "workdir") if isinstance(args, dict) else None
    before = (_command_of(args) or "").partition("apply_patch")[0].strip()
    if before.startswith("cd ") and before.endswith("&&"):
        directory = os.path.join(directory or "", before[3:-2].strip().strip("'\""))
    if directory is not None:
        for edit in edits:
            edit.path = os.path.join(directory, edit.path)
            edit.old_path = None if edit.old_path is None else os.path.join(directory, edit.old_path)
    return edits


def _kind_of(change: object) -> object:
    """A change without the contents, which a file event has."""
    if not isinstance(change, dict):
        return change
    rest = {name: value for name, value in change.items() if name != "content"}
    if isinstance(change.get("content"), str):
        rest["size"] = len(change["content"].encode("utf-8", "replace"))
    return rest


def _edit_of(path: str, change: object) -> "list[FileEdit]":
    if not isinstance(change, dict):
        return []
    kind = change.get("type")
    content = change.get("content")
    if kind is None and len(change) == 1:  # of 2025: {"add": {…}}
        ((kind, inner),) = change.items()
        return _edit_of(path, {**inner, "type": kind}) if isinstance(inner, dict) else []
    if kind == "add" and isinstance(content, str):
        return [FileEdit(WRITE, path, content=content, added=content.count("\n"))]
    if kind == "delete":
        return [FileEdit(DELETE, path, original=content if isinstance(content, str) else None)]
    diff = change.get("unified_diff")
    if kind != "update" or not isinstance(diff, str):
        return []
    moved = text_of(change, "move_path")
    lines = diff.split("\n")
    return [
        FileEdit(
            PATCH,
            moved or path,
            patch=diff,
            old_path=None if moved is None else path,
            added=sum(line.startswith("+") for line in lines),
            removed=sum(line.startswith("-") for line in lines),
        )
    ]
