"""Gemini CLI as its hooks and its chat file show it: fictional, in the true shapes."""

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.cli.hook_support import run_hook, unique

Json = dict[str, Any]
_BEGAN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


class Gemini:
    """One session in the working directory `work`; its chat is in `chats`."""

    def __init__(self, work: Path, session: str = "") -> None:
        self.work = work
        self.session = session or unique("session")
        self.chats = work.parent / "gemini/chats"
        self.chats.mkdir(parents=True, exist_ok=True)
        self.chat = self.chats / f"session-{self.session}.jsonl"
        self.times = (_BEGAN + timedelta(milliseconds=37 * n) for n in itertools.count())
        self.asked = ""
        self.repeats = 1  # how many hooks tell each call

    def now(self) -> str:
        return next(self.times).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"

    def say(self, name: str, **fields: Any) -> None:
        payload = {
            "session_id": self.session,
            "transcript_path": str(self.chat),
            "cwd": str(self.work),
            "hook_event_name": name,
            "timestamp": self.now(),
            **fields,
        }
        for _ in range(self.repeats):
            run_hook(json.dumps(payload).encode(), "gemini-cli", self.work.parent)

    def write(self, line: Json) -> None:
        with self.chat.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def start(self, source: str = "startup") -> None:
        self.write({"sessionId": self.session, "projectHash": "00", "startTime": self.now(), "kind": "main"})
        self.say("SessionStart", source=source)

    def prompt(self, text: str) -> None:
        self.asked = text
        self.say("BeforeAgent", prompt=text)
        self.write({"id": unique("m"), "timestamp": self.now(), "type": "user", "content": [{"text": text}]})

    def answer(self, text: str, *calls: Json) -> None:
        """What the model said and asked for, written to the chat before its tools run and after."""
        line = {"id": unique("m"), "timestamp": self.now(), "type": "gemini", "content": text, "thoughts": []}
        tokens = {"input": 800, "output": 20, "cached": 300, "thoughts": 7, "tool": 0, "total": 827}
        self.write({**line, "tokens": tokens, "model": "gemini-2.5-flash"})
        if calls:
            self.write({**line, "tokens": tokens, "model": "gemini-2.5-flash", "toolCalls": list(calls)})

    def tool(
        self, tool: str, args: Json, act: "Callable[[], Json] | None", *, cancelled: bool = False
    ) -> Json:
        """A tool's hooks, and its call as the chat has it; `act` None: somebody refuses it."""
        self.say("BeforeTool", tool_name=tool, tool_input=args)
        call = {"id": unique(tool), "name": tool, "args": args, "timestamp": self.now()}
        if act is None:
            status = "cancelled" if cancelled else "error"
            return {**call, "status": status, "result": _given("Tool execution blocked: no")}
        response = act()
        self.say("AfterTool", tool_name=tool, tool_input=args, tool_response=response)
        failed = response.get("error")
        return {
            **call,
            "status": "error" if failed else "success",
            "result": _given(response["llmContent"]),
            "resultDisplay": response.get("returnDisplay"),
        }

    def edit(self, path: str, content: str) -> Json:
        """The whole file rewritten."""
        target = self.work / path
        args = {"file_path": str(target), "content": content}

        def act() -> Json:
            original = target.read_text() if target.exists() else None
            target.write_text(content)
            shown = {
                "fileDiff": "…",
                "fileName": path,
                "filePath": str(target),
                "originalContent": original or "",
                "newContent": content,
                "diffStat": {"model_added_lines": 1, "model_removed_lines": 0},
                "isNewFile": original is None,
            }
            return {"llmContent": "Successfully wrote", "returnDisplay": shown}

        return self.tool("write_file", args, act)

    def shell(self, command: str, act: "Callable[[], object] | None", *, code: int = 0) -> Json:
        args = {"command": command, "description": "Run it"}
        if act is None:
            return self.tool("run_shell_command", args, None)
        done = act

        def run() -> Json:
            done()
            lines = ["Output: (empty)", *([f"Exit Code: {code}"] if code else []), "Process Group PGID: 7"]
            return {"llmContent": "\n".join(lines), "returnDisplay": "ok"}

        return self.tool("run_shell_command", args, run)

    def stop(self, words: str = "All done.") -> None:
        self.answer(words)
        self.say("AfterAgent", prompt=self.asked, prompt_response=words, stop_hook_active=False)

    def finish(self) -> None:
        self.say("SessionEnd", reason="exit")


def _given(output: str) -> list[Json]:
    return [{"functionResponse": {"response": {"output": output}}}]
