"""A coding agent as hooks see it: fictional payloads in the true shapes, given to the real hook program."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eventlog.store import Store
from tests import forked
from tests.worktree.support import git, on_disk

HOOK = [sys.executable, "-m", "locus_cli.hook_entry"]

_numbers = itertools.count(1)


def unique(kind: str) -> str:
    """An id that no other test uses. The letters make it look random (`is_global`), whatever the process."""
    return f"{kind}_x{os.getpid():x}n{next(_numbers):08x}"


def run_hook(
    stdin: bytes, agent: str, cwd: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """One hook process, which must be silent and end well (P4)."""
    # Maintenance is tested by itself; elsewhere no process is to be left behind.
    variables = {**os.environ, "LOCUS_NO_MAINTENANCE": "1", "LOCUS_HOOK_PATIENCE": "20", **(environ or {})}
    done = forked.hook(stdin, agent, cwd, variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return done


class Agent:
    """One session of an agent in the working directory `work`."""

    name = "claude-code"
    turn_key = "prompt_id"

    def __init__(self, work: Path, session: str = "", environ: Mapping[str, str] | None = None) -> None:
        self.work = work
        self.session = session or unique("session")
        self.turn = ""
        self.environ = environ
        self.transcript = work.parent / f"{self.session}.jsonl"

    def payload(self, name: str, **fields: Any) -> dict[str, Any]:
        body = {
            "session_id": self.session,
            "transcript_path": str(self.transcript),
            "cwd": str(self.work),
            "hook_event_name": name,
        }
        if self.turn:
            body[self.turn_key] = self.turn
        return {**body, **fields}

    def say(self, name: str, **fields: Any) -> None:
        run_hook(json.dumps(self.payload(name, **fields)).encode(), self.name, self.work.parent, self.environ)

    def start(self, source: str = "startup") -> None:
        self.say("SessionStart", source=source)

    def prompt(self, text: str, **fields: Any) -> str:
        self.turn = unique("turn")
        self.say("UserPromptSubmit", prompt=text, **fields)
        return self.turn

    def begin(self, tool: str, args: dict[str, Any], **fields: Any) -> str:
        tool_use_id = unique("toolu")
        self.say("PreToolUse", tool_name=tool, tool_input=args, tool_use_id=tool_use_id, **fields)
        return tool_use_id

    def end(self, tool_use_id: str, tool: str, args: dict[str, Any], result: Any, **fields: Any) -> None:
        self.say(
            "PostToolUse",
            tool_name=tool,
            tool_input=args,
            tool_response=result,
            tool_use_id=tool_use_id,
            duration_ms=9,
            **fields,
        )

    def write(self, path: str, content: str, **fields: Any) -> str:
        target = self.work / path
        args = {"file_path": str(target), "content": content}
        tool_use_id = self.begin("Write", args, **fields)
        original = target.read_text() if target.exists() else None
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        result: dict[str, Any] = {
            "type": "create" if original is None else "update", "filePath": str(target), "content": content,
            "structuredPatch": [], "originalFile": original, "userModified": False,
        }  # fmt: skip
        self.end(tool_use_id, "Write", args, result, **fields)
        return tool_use_id

    def edit(self, path: str, old: str, new: str, **fields: Any) -> str:
        target = self.work / path
        args = {"file_path": str(target), "old_string": old, "new_string": new, "replace_all": False}
        tool_use_id = self.begin("Edit", args, **fields)
        original = target.read_text()
        target.write_text(original.replace(old, new, 1))
        hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": [f"-{old}", f"+{new}"]}
        result = {
            "filePath": str(target), "oldString": old, "newString": new, "originalFile": original,
            "structuredPatch": [hunk], "userModified": False, "replaceAll": False,
        }  # fmt: skip
        self.end(tool_use_id, "Edit", args, result, **fields)
        return tool_use_id

    def bash(self, command: str, **fields: Any) -> str:
        args = {"command": command, "description": "Run it"}
        tool_use_id = self.begin("Bash", args, **fields)
        done = subprocess.run(command, shell=True, cwd=self.work, capture_output=True, text=True)
        if done.returncode:
            self.say(
                "PostToolUseFailure",
                tool_name="Bash",
                tool_input=args,
                tool_use_id=tool_use_id,
                error=f"Exit code {done.returncode}\n{done.stderr}",
                is_interrupt=False,
                duration_ms=21,
                **fields,
            )
        else:
            result = {"stdout": done.stdout, "stderr": "", "interrupted": False, "isImage": False}
            self.end(tool_use_id, "Bash", args, result, **fields)
        return tool_use_id

    def batch(self, *calls: tuple[str, str, dict[str, Any], str]) -> None:
        """Args: calls: (tool_use_id, tool, args, what the model is given)."""
        listed = [
            {"tool_name": tool, "tool_input": args, "tool_use_id": id, "tool_response": answer}
            for id, tool, args, answer in calls
        ]
        self.say("PostToolBatch", tool_calls=listed)

    def stop(self, words: str = "All done.", **fields: Any) -> None:
        self.say("Stop", stop_hook_active=False, last_assistant_message=words, **fields)

    def finish(self, reason: str = "other") -> None:
        self.say("SessionEnd", reason=reason)


class Codex(Agent):
    """The same for Codex, whose shell calls tell their output and no exit code."""

    name = "codex"
    turn_key = "turn_id"

    def payload(self, name: str, **fields: Any) -> dict[str, Any]:
        fields.pop("duration_ms", None)
        return super().payload(name, **{"model": "model-of-codex", "permission_mode": "default", **fields})

    def patch(self, text: str, apply: Any) -> str:
        """Apply a patch: `apply` does to the directory what its text says."""
        args = {"command": text}
        tool_use_id = self.begin("apply_patch", args)
        apply()
        self.end(tool_use_id, "apply_patch", args, "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.\n")
        return tool_use_id

    def shell(self, command: str) -> str:
        args = {"command": command}
        tool_use_id = self.begin("Bash", args)
        done = subprocess.run(command, shell=True, cwd=self.work, capture_output=True, text=True)
        self.end(tool_use_id, "Bash", args, done.stdout + done.stderr)
        return tool_use_id


def project(place: Path) -> Path:
    """A small git repository with a store, committed once."""
    work = place / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    (work / "readme.md").write_text("# Sample\n")
    (work / "src").mkdir()
    (work / "src/app.py").write_text("print('one')\n")
    (work / ".gitignore").write_text("*.log\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    Store.init(work / ".locus").close()
    return work


def events(work: Path, *types: str) -> list[dict[str, Any]]:
    with Store.open(work / ".locus") as store:
        return [dict(event) for event in store.events() if not types or event["event_type"] in types]


def replayed(work: Path, event: Mapping[str, Any], target: Path, at: str = "end") -> dict[Any, Any]:
    """The files of an event's turn, from the log alone."""
    with Store.open(work / ".locus") as store:
        report = store.replay(f"turn:{event['session_id']}_{event['turn_id']}", to=target, at=at)
    assert not report.missing
    return on_disk(target)


def here(work: Path) -> dict[Any, Any]:
    return on_disk(work)


def notes(work: Path) -> str:
    path = work / ".locus/tmp/hook-errors.log"
    return path.read_text() if path.exists() else ""
