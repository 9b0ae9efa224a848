"""Transcripts of sessions that never were, in the form of Claude Code, the same for the same seed.

Each session edits a few files of some thousand bytes in turn: prompts, reasoning, texts, commands with
output, whole reads and edits with the content before them; answers are on several lines and repeat their
usage as it grows. Sizes follow true sessions: 1 to 3 kB a line in the mean, a few lines of 40 kB.
"""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

from benchmarks.workload import WORDS

_LINES_PER_FILE = 160


def write_transcripts(directory: str, seed: int, sessions: int, turns: int) -> list[str]:
    """Write that many sessions of that many turns each; their paths, in order."""
    os.makedirs(directory, exist_ok=True)
    paths = []
    for number in range(sessions):
        random = Random(f"{seed}/{number}")
        path = os.path.join(directory, f"{_uuid(random)}.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for line in _Session(random).lines(turns):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
        paths.append(path)
    return paths


class _Session:
    """One session: its counters, and what its files hold."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._session = _uuid(random)
        self._parent: str | None = None
        self._second = 0
        self._files = {f"/home/dev/shop/src/{name}.py": self._source() for name in WORDS[:6]}

    def lines(self, turns: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _ in range(turns):
            prompt = _uuid(self._random)
            found.append(self._user(prompt, self._words(30)))
            for _ in range(self._random.randint(3, 9)):
                found += self._step(prompt)
            found += self._answer([{"type": "text", "text": self._words(60)}])
        return found

    def _step(self, prompt: str) -> list[dict[str, Any]]:
        tool, args, result, shown = self._random.choice(
            (self._edit, self._read, self._command, self._command)
        )()
        call = f"toolu_{self._random.randrange(1 << 80):020x}"
        blocks: list[dict[str, Any]] = []
        if self._random.random() < 0.4:
            blocks.append(
                {"type": "thinking", "thinking": self._words(80), "signature": _noise(self._random)}
            )
        if self._random.random() < 0.5:
            blocks.append({"type": "text", "text": self._words(25)})
        blocks.append({"type": "tool_use", "id": call, "name": tool, "input": args})
        answer = {"type": "tool_result", "tool_use_id": call, "content": shown}
        return [*self._answer(blocks), self._user(prompt, [answer], toolUseResult=result)]

    def _edit(self) -> tuple[str, dict[str, Any], dict[str, Any], str]:
        path = self._random.choice(list(self._files))
        before = self._files[path]
        lines = before.split("\n")
        at = self._random.randrange(len(lines) - 3)
        old = "\n".join(lines[at : at + 3])
        new = f"{lines[at]}\n    {self._words(6)}\n{lines[at + 2]}"
        if before.count(old) != 1:
            return self._read()
        after = self._files[path] = before.replace(old, new)
        hunk = {
            "oldStart": at + 1,
            "oldLines": 3,
            "newStart": at + 1,
            "newLines": 3,
            "lines": [f" {lines[at]}", f"-{lines[at + 1]}", f"+{new.split(chr(10))[1]}", f" {lines[at + 2]}"],
        }
        args = {"file_path": path, "old_string": old, "new_string": new}
        result = {
            "filePath": path,
            "oldString": old,
            "newString": new,
            "originalFile": before,
            "structuredPatch": [hunk],
            "userModified": False,
            "replaceAll": False,
        }
        shown = "\n".join(after.split("\n")[max(0, at - 3) : at + 6])
        return "Edit", args, result, f"The file {path} has been updated.\n{shown}"

    def _read(self) -> tuple[str, dict[str, Any], dict[str, Any], str]:
        path = self._random.choice(list(self._files))
        content = self._files[path]
        count = content.count("\n") + 1
        file = {"filePath": path, "content": content, "numLines": count, "startLine": 1, "totalLines": count}
        shown = "\n".join(f"{n:>6}→{line}" for n, line in enumerate(content.split("\n"), 1))
        return "Read", {"file_path": path}, {"type": "text", "file": file}, shown

    def _command(self) -> tuple[str, dict[str, Any], dict[str, Any], str]:
        output = "\n".join(self._words(12) for _ in range(self._random.choice((1, 5, 20, 120))))
        args = {"command": f"grep -rn '{self._words(1)}' src", "description": self._words(5)}
        return "Bash", args, {"stdout": output, "stderr": "", "interrupted": False}, output

    def _answer(self, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        message, request = (
            f"msg_{self._random.randrange(1 << 80):020x}",
            f"req_{self._random.randrange(1 << 80):020x}",
        )
        found = []
        for number, block in enumerate(blocks, 1):
            usage = {
                "input_tokens": 10,
                "cache_creation_input_tokens": self._random.randrange(3_000),
                "cache_read_input_tokens": 40_000,
                "output_tokens": 90 * number,
                "service_tier": "standard",
            }
            payload = {"id": message, "type": "message", "role": "assistant", "model": "model-large-1"}
            content = {**payload, "content": [block], "stop_reason": None, "usage": usage}
            found.append(self._line("assistant", content, requestId=request))
        return found

    def _user(self, prompt: str, content: object, **more: object) -> dict[str, Any]:
        return self._line("user", {"role": "user", "content": content}, promptId=prompt, **more)

    def _line(self, kind: str, message: dict[str, Any], **more: object) -> dict[str, Any]:
        uuid, parent = _uuid(self._random), self._parent
        self._parent = uuid
        self._second += 1
        hour, minute, second = self._second // 3600 % 24, self._second // 60 % 60, self._second % 60
        return {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/dev/shop",
            "sessionId": self._session,
            "version": "2.1.330",
            "gitBranch": "main",
            "type": kind,
            "message": message,
            "uuid": uuid,
            "timestamp": f"2026-11-20T{hour:02d}:{minute:02d}:{second:02d}.000Z",
            **more,
        }

    def _source(self) -> str:
        return (
            "\n".join(f"    {self._words(self._random.randint(2, 9))}" for _ in range(_LINES_PER_FILE)) + "\n"
        )

    def _words(self, count: int) -> str:
        return " ".join(self._random.choices(WORDS, k=count))


def _uuid(random: Random) -> str:
    digits = f"{random.randrange(1 << 128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _noise(random: Random) -> str:
    """What says nothing to anybody but the provider; true signatures are some hundred characters."""
    return f"{random.randrange(1 << 1600):0400x}"
