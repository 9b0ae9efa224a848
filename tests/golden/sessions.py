"""Fictional sessions of four agents, each reported twice: by hooks, and in the file that the agent leaves.

A step is `{"agent", "changes", "lines", "call"}`: what changed in the project since the step before, the
lines that the agent added to its transcript, and the JSON that its hook was given. `@PROJECT@` and `@LEFT@`
stand for the project and for the directory of transcripts; in transcripts the project is always `HOME`.
Arguments of Gemini CLI name files relative to the project, because its tool calls are recognised by them.
"""

import json
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Step = dict[str, Any]

# Where the project stood when the transcripts were written; the same words on every machine.
HOME = "/tmp/golden/kiosk"

FIRST_FILES = {
    "README.md": "# Kiosk\n\nSells tea and cake.\n",
    "tea.py": "TEA = 2\nprint(TEA)\n",
    "cake.py": "CAKE = 3\nprint(CAKE)\n",
    "juice.py": "JUICE = 4\nprint(JUICE)\n",
    "soup.py": "SOUP = 5\nprint(SOUP)\n",
}
FAILED = "Traceback (most recent call last):\nAssertionError: too cheap\n"


def claude_code(words: str = "Tea is too cheap, make it 3") -> list[Step]:
    session, file = "5e55c1a0-0000-4000-8000-00000000c1a0", "claude-code/5e55c1a0.jsonl"
    log = _Told("claude-code", "2026-11-20T09:%02d:%02d.000Z")
    steady = {"session_id": session, "transcript_path": f"@LEFT@/{file}", "cwd": "@PROJECT@"}
    last: list[str | None] = [None]

    def line(kind: str, prompt: str, message: Json, **more: Any) -> None:
        uuid = f"c1a0{len(log.seconds):04d}-0000-4000-8000-000000000000"
        log.line(
            file,
            {
                "type": kind, "uuid": uuid, "parentUuid": last[0], "isSidechain": False, "sessionId": session,
                "promptId": prompt, "timestamp": log.time(), "cwd": "@PROJECT@", "version": "2.1.330",
                "gitBranch": "main", "message": message, **more,
            },
        )  # fmt: skip
        last[0] = uuid

    def answer(prompt: str, number: int, block: Json) -> None:
        usage = {
            "input_tokens": 100 + number, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 900,
            "output_tokens": 40,
        }  # fmt: skip
        message = {
            "id": f"msg_c1a0{number}", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn", "content": [block],
            "usage": usage,
        }  # fmt: skip
        line("assistant", prompt, message, requestId=f"req_c1a0{number}")

    def call(prompt: str, number: int, tool: str, args: Json, result: Json, changes: Json) -> None:
        id = f"toolu_c1a0{number}"
        answer(prompt, number, {"type": "tool_use", "id": id, "name": tool, "input": args})
        payload = {**steady, "prompt_id": prompt, "tool_name": tool, "tool_input": args, "tool_use_id": id}
        log.call({**payload, "hook_event_name": "PreToolUse"})
        failed = "error" in result
        if failed:
            log.call({**payload, "hook_event_name": "PostToolUseFailure", **result}, changes)
        else:
            end = {**payload, "hook_event_name": "PostToolUse", "tool_response": result, "duration_ms": 9}
            log.call(end, changes)
        shown = result["error"] if failed else "done"
        block = {"type": "tool_result", "tool_use_id": id, "content": shown, "is_error": failed}
        more = {} if failed else {"toolUseResult": result}
        line("user", prompt, {"role": "user", "content": [block]}, **more)

    log.changed(FIRST_FILES)
    log.call({**steady, "hook_event_name": "SessionStart", "source": "startup"})
    for turn, (asked, answered) in enumerate([(words, "Tea costs 3."), ("Write a note", "It is noted.")]):
        prompt = f"c1a0000{turn}-0000-4000-8000-00000000aaaa"
        log.call({**steady, "prompt_id": prompt, "hook_event_name": "UserPromptSubmit", "prompt": asked})
        line("user", prompt, {"role": "user", "content": asked})
        if turn == 0:
            old, new, path = "TEA = 2", "TEA = 3", "@PROJECT@/tea.py"
            result = _edited(path, old, new, FIRST_FILES["tea.py"])
            args = {"file_path": path, "old_string": old, "new_string": new, "replace_all": False}
            call(prompt, 1, "Edit", args, result, {"tea.py": "TEA = 3\nprint(TEA)\n"})
            args = {"command": "python3 check.py", "description": "Check the prices"}
            call(prompt, 2, "Bash", args, {"error": f"Exit code 1\n{FAILED}", "is_interrupt": False}, {})
        else:
            args = {"file_path": "@PROJECT@/notes/tea.md", "content": "Tea: 3\n"}
            result = {
                "type": "create", "filePath": args["file_path"], "content": args["content"],
                "structuredPatch": [], "originalFile": None, "userModified": False,
            }  # fmt: skip
            call(prompt, 3, "Write", args, result, {"notes/tea.md": "Tea: 3\n"})
        answer(prompt, 4 + turn, {"type": "text", "text": answered})
        stop = {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": answered}
        log.call({**steady, "prompt_id": prompt, **stop})
    log.call({**steady, "hook_event_name": "SessionEnd", "reason": "other"})
    return log.steps


def codex() -> list[Step]:
    thread, turn = "01a1ff00-0000-7000-8000-00000000c0de", "01a1ff00-0100-7000-8000-00000000c0de"
    file = f"codex/rollout-2026-11-20T10-00-00-{thread}.jsonl"
    log = _Told("codex", "2026-11-20T10:%02d:%02d.000Z")
    steady = {
        "session_id": thread, "transcript_path": f"@LEFT@/{file}", "cwd": "@PROJECT@",
        "model": "gpt-5.5-codex", "permission_mode": "bypassPermissions",
    }  # fmt: skip
    totals = {"input": 0, "output": 0}

    def line(kind: str, **payload: Any) -> None:
        log.line(file, {"timestamp": log.time(), "type": kind, "payload": payload})

    def usage(given: int, output: int) -> Json:
        return {
            "input_tokens": given, "cached_input_tokens": given // 2, "output_tokens": output,
            "reasoning_output_tokens": 5, "total_tokens": given + output,
        }  # fmt: skip

    def model_call(given: int) -> None:
        totals["input"] += given
        totals["output"] += 50
        line(
            "event_msg", type="token_count",
            info={
                "total_token_usage": usage(totals["input"], totals["output"]),
                "last_token_usage": usage(given, 50),
            },
        )  # fmt: skip
        fields = {**steady, "turn_id": turn}
        log.call({**fields, "hook_event_name": "PreModelRequest"})
        end = {"token_usage": {**usage(given, 50), "cache_write_input_tokens": 0}}
        end |= {"status": "completed", "error": None}
        log.call({**fields, "hook_event_name": "PostModelRequest", **end})

    def call(id: str, tool: str, command: str, output: str, changes: Json) -> None:
        fields = {**steady, "turn_id": turn, "tool_name": tool, "tool_use_id": id}
        fields["tool_input"] = {"command": command}
        log.call({**fields, "hook_event_name": "PreToolUse"})
        log.call({**fields, "hook_event_name": "PostToolUse", "tool_response": output}, changes)
        if tool == "apply_patch":
            begun = {"type": "custom_tool_call", "name": tool, "input": command, "call_id": id}
            line("response_item", **begun, status="completed")
            diff = "@@ -1,2 +1,2 @@\n-CAKE = 3\n+CAKE = 4\n print(CAKE)\n"
            change = {"type": "update", "unified_diff": diff, "move_path": None}
            line(
                "event_msg", type="patch_apply_end", call_id=id, success=True, stdout="", stderr="",
                changes={"@PROJECT@/cake.py": change},
            )  # fmt: skip
            line("response_item", type="custom_tool_call_output", call_id=id, output=output)
        else:
            args = json.dumps({"cmd": command})
            line("response_item", type="function_call", name="exec_command", arguments=args, call_id=id)
            line("response_item", type="function_call_output", call_id=id, output=output)

    meta = {"id": thread, "cwd": "@PROJECT@", "cli_version": "0.169.0", "source": "cli"}
    line("session_meta", **meta, originator="codex-tui", timestamp="2026-11-20T10:00:00Z")
    log.call({**steady, "hook_event_name": "SessionStart", "source": "startup"})
    asked = "Cake is too cheap, make it 4"
    log.call({**steady, "turn_id": turn, "hook_event_name": "UserPromptSubmit", "prompt": asked})
    line("event_msg", type="task_started", turn_id=turn)
    line("turn_context", turn_id=turn, cwd="@PROJECT@", model="gpt-5.5-codex")
    line("event_msg", type="user_message", message=asked)
    model_call(1000)
    patch = "*** Begin Patch\n*** Update File: cake.py\n@@\n-CAKE = 3\n+CAKE = 4\n*** End Patch\n"
    updated = "Success. Updated the following files:\nM cake.py\n"
    output = f"Exit code: 0\nWall time: 0 seconds\nOutput:\n{updated}"
    call("call_c0de1", "apply_patch", patch, output, {"cake.py": "CAKE = 4\nprint(CAKE)\n"})
    model_call(1100)
    call("call_c0de2", "Bash", "touch sold.txt", "", {"sold.txt": ""})
    line("event_msg", type="agent_message", message="Cake costs 4.")
    stop = {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": "Cake costs 4."}
    log.call({**steady, "turn_id": turn, **stop})
    line("event_msg", type="task_complete", turn_id=turn, last_agent_message="Cake costs 4.", duration_ms=900)
    log.call({**steady, "hook_event_name": "SessionEnd", "reason": "other"})
    return log.steps


def gemini_cli() -> list[Step]:
    session = "9e111111-0000-4000-8000-000000009e11"
    file = f"gemini-cli/chats/session-{session}.jsonl"
    log = _Told("gemini-cli", "2026-11-20T11:%02d:%02d.000Z")
    steady = {"session_id": session, "transcript_path": f"@LEFT@/{file}", "cwd": "@PROJECT@"}

    def say(name: str, changes: Json | None = None, **fields: Any) -> None:
        log.call({**steady, "hook_event_name": name, "timestamp": log.time(), **fields}, changes or {})

    def answer(number: int, text: str, calls: list[Json]) -> None:
        tokens = {"input": 800 + number, "output": 20, "cached": 300, "thoughts": 7, "tool": 0, "total": 827}
        line = {
            "id": f"9e110000-0000-4000-8000-00000000000{number}", "timestamp": log.time(), "type": "gemini",
            "content": text, "thoughts": [], "tokens": tokens, "model": "gemini-2.5-flash",
        }  # fmt: skip
        log.line(file, line)
        if calls:
            log.line(file, {**line, "toolCalls": calls})

    def call(number: int, tool: str, args: Json, response: Json, changes: Json) -> Json:
        say("BeforeTool", tool_name=tool, tool_input=args)
        say("AfterTool", changes, tool_name=tool, tool_input=args, tool_response=response)
        given = [{"functionResponse": {"response": {"output": response["llmContent"]}}}]
        return {
            "id": f"{tool}_9e11{number}", "name": tool, "args": args, "timestamp": log.time(),
            "status": "success", "result": given, "resultDisplay": response["returnDisplay"],
        }  # fmt: skip

    log.line(file, {"sessionId": session, "projectHash": "00", "startTime": log.time(), "kind": "main"})
    say("SessionStart", source="startup")
    asked = "Juice is too cheap, make it 5"
    say("BeforeAgent", prompt=asked)
    user = {"id": "9e110000-0000-4000-8000-0000000000aa", "timestamp": log.time(), "type": "user"}
    log.line(file, {**user, "content": [{"text": asked}]})
    new = "JUICE = 5\nprint(JUICE)\n"
    shown = {
        "fileDiff": "…", "fileName": "juice.py", "filePath": "juice.py",
        "originalContent": FIRST_FILES["juice.py"], "newContent": new, "isNewFile": False,
        "diffStat": {"model_added_lines": 1, "model_removed_lines": 1},
    }  # fmt: skip
    written = {"llmContent": "Successfully wrote", "returnDisplay": shown}
    args = {"file_path": "juice.py", "content": new}
    answer(1, "I write it.", [call(1, "write_file", args, written, {"juice.py": new})])
    ran = {"llmContent": "Output: 5\nProcess Group PGID: 7", "returnDisplay": "5"}
    answer(2, "I try it.", [call(2, "run_shell_command", {"command": "python3 juice.py"}, ran, {})])
    answer(3, "Juice costs 5.", [])
    say("AfterAgent", prompt=asked, prompt_response="Juice costs 5.", stop_hook_active=False)
    say("SessionEnd", reason="exit")
    return log.steps


def opencode() -> list[Step]:
    session, user = "ses_0000000000000c0de0", "msg_0000000000000c0de1"
    log = _Told("opencode", "")
    began = 1_795_176_000_000
    steady = {"session_id": session, "turn_id": user, "cwd": "@PROJECT@", "version": "1.18.33"}
    model = {"providerID": "fake", "modelID": "fake-model"}
    tokens = {"total": 930, "input": 395, "output": 25, "reasoning": 5, "cache": {"read": 500, "write": 5}}
    info = {
        "id": session, "slug": "calm-fox", "version": "1.18.33", "projectID": "p1", "directory": "@PROJECT@",
        "title": "Soup", "time": {"created": began, "updated": began},
    }  # fmt: skip
    asked = {"id": user, "role": "user", "sessionID": session, "model": model}
    asked["time"] = {"created": began + 100}
    text = {
        "id": "prt_0000000000000c0de2", "type": "text", "text": "Soup is too cheap, make it 6",
        "messageID": user, "sessionID": session,
    }  # fmt: skip
    messages: list[Json] = [{"info": asked, "parts": [text]}]

    def part(number: int, **payload: Any) -> Json:
        of = {"id": f"prt_0000000000001c0de{number}", "messageID": f"msg_0000000000001c0de{number // 10}"}
        return {**of, "sessionID": session, **payload}

    def answer(number: int, parts: list[Json]) -> None:
        time = {"created": began + number * 100, "completed": began + number * 100 + 90}
        payload = {
            "id": parts[0]["messageID"], "sessionID": session, "role": "assistant", "time": time,
            "parentID": user, **model, "path": {"cwd": "@PROJECT@", "root": "@PROJECT@"}, "cost": 0,
            "tokens": tokens,
        }  # fmt: skip
        messages.append({"info": payload, "parts": parts})

    def call(number: int, tool: str, id: str, args: Json, told_of: Json, changes: Json) -> None:
        time = {"start": began + number * 10, "end": began + number * 10 + 5}
        payload = {**steady, "tool_name": tool, "tool_use_id": id, "args": args}
        log.call({"hook_event_name": "tool.execute.before", **payload})
        log.call({"hook_event_name": "tool.execute.after", **payload, **told_of, "time": time}, changes)
        step = part(number + 1, type="step-finish", reason="tool-calls", tokens=tokens, cost=0.5)
        log.call({"hook_event_name": "step.finish", **steady, "part": step, "model": model})
        state = {"status": "completed", "input": args, **told_of, "time": time}
        answer(number // 10, [part(number, type="tool", tool=tool, callID=id, state=state), step])

    log.call({**steady, "turn_id": None, "hook_event_name": "session.created", "info": info})
    log.call({**steady, "hook_event_name": "chat.message", "message": asked, "parts": [text]})
    old, new = FIRST_FILES["soup.py"], FIRST_FILES["soup.py"].replace("5", "6")
    args = {"filePath": "@PROJECT@/soup.py", "oldString": "SOUP = 5", "newString": "SOUP = 6"}
    patch = "@@ -1,2 +1,2 @@\n-SOUP = 5\n+SOUP = 6\n print(SOUP)\n"
    change = {"file": "@PROJECT@/soup.py", "additions": 1, "deletions": 1, "patch": patch}
    change |= {"before": old, "after": new}
    edited = {"title": "soup.py", "output": "Edit applied successfully.", "metadata": {"filediff": change}}
    call(10, "edit", "call_0c0de1", args, edited, {"soup.py": new})
    ran = {"title": "wc", "output": "2 soup.py\n", "metadata": {"output": "2 soup.py\n", "exit": 0}}
    call(20, "bash", "call_0c0de2", {"command": "wc -l soup.py"}, ran, {})
    done = "Soup costs 6."
    step = part(31, type="step-finish", reason="stop", tokens=tokens, cost=0.5)
    answer(3, [part(30, type="text", text=done), step])
    log.call({"hook_event_name": "step.finish", **steady, "part": step, "model": model})
    log.call({**steady, "hook_event_name": "session.idle", "last_assistant_message": done})
    log.call({**steady, "hook_event_name": "session.end"})
    log.line("opencode/export.json", {"info": info, "messages": messages})
    log.steps.append({"agent": "opencode", "changes": {}, "lines": log.lines, "call": None})
    return log.steps


AGENTS: dict[str, Callable[[], list[Step]]] = {
    "claude-code": claude_code,
    "codex": codex,
    "gemini-cli": gemini_cli,
    "opencode": opencode,
}


class _Told:
    """Collects the steps of one session; its clock goes on by a second each time it is asked."""

    def __init__(self, agent: str, times: str) -> None:
        self.agent = agent
        self.times = times
        self.steps: list[Step] = []
        self.seconds: list[int] = []
        self.lines: dict[str, list[Json]] = {}
        self._changes: Json = {}

    def time(self) -> str:
        self.seconds.append(len(self.seconds))
        return self.times % divmod(len(self.seconds), 60)

    def line(self, file: str, said: Json) -> None:
        self.lines.setdefault(file, []).append(said)

    def changed(self, changes: Json) -> None:
        self._changes = changes

    def call(self, said: Json, changes: Json | None = None) -> None:
        changes = {**self._changes, **(changes or {})}
        self.steps.append({"agent": self.agent, "changes": changes, "lines": self.lines, "call": said})
        self.lines, self._changes = {}, {}


def _edited(path: str, old: str, new: str, original: str) -> Json:
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": [f"-{old}", f"+{new}"]}
    return {
        "filePath": path, "oldString": old, "newString": new, "originalFile": original,
        "structuredPatch": [hunk], "userModified": False, "replaceAll": False,
    }  # fmt: skip
