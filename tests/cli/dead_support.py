"""Coding agents as processes that can be killed; a prompt comes from the process itself."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cli.hook_support import run_hook, unique

AGENTS = ("claude-code", "codex", "gemini-cli", "opencode")
_SHELL = {"claude-code": "Bash", "codex": "Bash", "gemini-cli": "run_shell_command", "opencode": "bash"}
_GEMINI = {
    "start": "SessionStart", "prompt": "BeforeAgent", "begin": "BeforeTool", "end": "AfterTool",
    "stop": "AfterAgent", "finish": "SessionEnd",
}  # fmt: skip
_OPENCODE = {
    "start": "session.created", "resume": "session.resumed", "prompt": "chat.message",
    "begin": "tool.execute.before", "end": "tool.execute.after", "stop": "session.idle",
    "finish": "session.end",
}  # fmt: skip
_OTHERS = {
    "start": "SessionStart", "prompt": "UserPromptSubmit", "begin": "PreToolUse", "end": "PostToolUse",
    "stop": "Stop", "finish": "SessionEnd",
}  # fmt: skip


class Client:
    """One session of an agent. `process` is what its hooks find as the agent, once it has started."""

    def __init__(self, name: str, work: Path, session: str = "") -> None:
        self.name = name
        self.work = work
        self.session = session or unique("session")
        self.turn = ""
        self.process: subprocess.Popen[str] | None = None
        self._seconds = 0

    def start(self, source: str = "startup") -> None:
        """Begin a session, or go on with it, in a process of its own."""
        self.turn = ""
        bin = self.work.parent / "bin"
        bin.mkdir(exist_ok=True)
        program = bin / self.name.partition("-")[0]
        if not program.exists():
            program.symlink_to("/bin/bash")
        loop = 'while read -r line; do eval "$line"; echo done; done'
        if self.name in ("claude-code", "opencode"):
            loop = f"export CLAUDE_PID=$$; {loop}"
        self.process = subprocess.Popen(
            [program, "-c", loop], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        kind = "resume" if source == "resume" and self.name == "opencode" else "start"
        self.say(kind, source=source, info={})

    def prompt(self, text: str = "Go on") -> None:
        """Told by the process itself."""
        self.turn = unique("turn")
        self.say("prompt", from_process=True, prompt=text)

    def begin(self, command: str, **fields: Any) -> "tuple[str, str]":
        call = unique("call"), command
        self.say("begin", **self._tool(*call), **fields)
        return call

    def end(self, call: "tuple[str, str]", **fields: Any) -> None:
        response: Any = {"llmContent": "Output: (empty)"} if self.name == "gemini-cli" else ""
        self.say("end", **self._tool(*call), tool_response=response, output="", **fields)

    def shell(self, path: str, text: str = "x\n") -> "tuple[str, str]":
        """A command that writes a file."""
        call = self.begin(f"make {path}")
        (self.work / path).write_text(text)
        self.end(call)
        return call

    def stop(self) -> None:
        self.say("stop", last_assistant_message="Done.", prompt_response="Done.")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def payload(self, kind: str, **fields: Any) -> dict[str, Any]:
        names = {"gemini-cli": _GEMINI, "opencode": _OPENCODE}.get(self.name, _OTHERS)
        body: dict[str, Any] = {
            "session_id": self.session, "cwd": str(self.work), "hook_event_name": names[kind], **fields,
        }  # fmt: skip
        if self.name == "gemini-cli":
            self._seconds += 1
            body["timestamp"] = f"2026-11-20T09:{self._seconds // 60:02d}:{self._seconds % 60:02d}.000Z"
        elif self.turn:
            body["prompt_id" if self.name == "claude-code" else "turn_id"] = self.turn
        if self.name == "opencode" and kind == "prompt":
            body |= {"message": {"id": self.turn}, "parts": [{"type": "text", "text": body.pop("prompt")}]}
        return body

    def say(self, kind: str, *, from_process: bool = False, **fields: Any) -> None:
        data = json.dumps(self.payload(kind, **fields)).encode()
        if not from_process:
            run_hook(data, self.name, self.work.parent, self.environ())
            return
        path = self.work.parent / f"{unique('said')}.json"
        path.write_bytes(data)
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        hook = f"{sys.executable} -m locus_cli.hook_entry {self.name} <{path}; true"
        self.process.stdin.write(f"LOCUS_NO_MAINTENANCE=1 LOCUS_HOOK_PATIENCE=20 sh -c '{hook}'\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def environ(self) -> Mapping[str, str]:
        named = self.process is not None and self.name in ("claude-code", "opencode")
        return {"CLAUDE_PID": str(self.process.pid)} if named and self.process is not None else {}

    def _tool(self, id: str, command: str) -> dict[str, Any]:
        args = {"command": command}
        payload: dict[str, Any] = {"tool_name": _SHELL[self.name]}
        payload |= {"args": args} if self.name == "opencode" else {"tool_input": args}
        return payload if self.name == "gemini-cli" else {**payload, "tool_use_id": id}


def killed_in_a_command(name: str, work: Path, path: str = "half.txt") -> Client:
    """An agent that was killed while its command had written half of a file."""
    client = Client(name, work)
    client.start()
    client.prompt("Make it")
    client.begin(f"make {path}")
    (work / path).write_text("half")
    client.kill()
    return client
