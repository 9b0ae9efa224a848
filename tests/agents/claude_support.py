"""Fictional sessions of Claude Code in the shapes of its versions, and where real ones are."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eventlog.agents import formats
from eventlog.agents.claude_code.transcript import ClaudeCodeReader
from eventlog.agents.kit.draft import Draft, FileItem
from eventlog.base.types import Event
from eventlog.importers import importer
from eventlog.importers.importer import ImportReport
from eventlog.store import Store

Line = dict[str, Any]

SESSION = "0b5f3c1e-0000-4000-8000-000000000001"
FORK = "0b5f3c1e-0000-4000-8000-000000000002"
HOME = "/home/dev/shop"


class Teller:
    """Writes the lines of a session: each goes on from the one before."""

    def __init__(self, session: str = SESSION, *, name: str = "line", **steady: Any) -> None:
        self._common = {
            "sessionId": session,
            "cwd": HOME,
            "version": "2.1.330",
            "gitBranch": "main",
            **steady,
        }
        self._name = name
        self._count = 0
        self.last: str | None = None

    def line(self, kind: str, **fields: Any) -> Line:
        self._count += 1
        uuid = f"{self._name}-{self._count}"
        time = f"2026-11-20T10:{self._count // 60:02d}:{self._count % 60:02d}.000Z"
        line = {
            "type": kind,
            "uuid": uuid,
            "parentUuid": self.last,
            "timestamp": time,
            **self._common,
            **fields,
        }
        self.last = uuid
        return line

    def user(self, content: Any, **fields: Any) -> Line:
        return self.line("user", message={"role": "user", "content": content}, **fields)

    def answer(self, message: str, block: Line, output: int = 1, **fields: Any) -> Line:
        usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": output}
        whole = {"id": message, "type": "message", "role": "assistant", "model": "claude-opus-5"}
        return self.line(
            "assistant",
            message={**whole, "content": [block], "stop_reason": None, "usage": usage},
            requestId=f"req_{message}",
            **fields,
        )

    def result(self, tool: str, shown: Any, told: Any = None, *, failed: bool = False, **fields: Any) -> Line:
        block = {"type": "tool_result", "tool_use_id": tool, "content": shown, "is_error": failed}
        return self.user([block], **({} if told is None else {"toolUseResult": told}), **fields)

    def call(
        self, message: str, tool: str, name: str, args: Any, shown: Any, told: Any = None, **fields: Any
    ) -> list[Line]:
        use = {"type": "tool_use", "id": tool, "name": name, "input": args}
        return [self.answer(message, use), self.result(tool, shown, told, **fields)]


def text(words: str) -> Line:
    return {"type": "text", "text": words}


def patch(at: int, *lines: str) -> list[Line]:
    old, new = (sum(line[0] in marks for line in lines) for marks in (" -", " +"))
    return [{"oldStart": at, "oldLines": old, "newStart": at, "newLines": new, "lines": list(lines)}]


def drafts(lines: list[Line], parts: tuple[str, ...] = ()) -> list[Any]:
    """What a reader says of lines, without an importer."""
    draft = Draft("claude-code", parts)
    reader = ClaudeCodeReader(draft)
    for line in lines:
        reader.take(line)
    reader.end()
    return draft.take()


def events_in(lines: list[Line], *types: str) -> list[Event]:
    found = [one for one in drafts(lines) if not isinstance(one, FileItem)]
    return [one for one in found if not types or one["event_type"] in types]


def write(path: Path, lines: list[Line], end: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines) + end)
    return path


def run(store: Store, *paths: Path, root: str | None = HOME) -> ImportReport:
    sources = [formats.source_of("claude-code", str(path)) for path in paths]
    for source in sources:
        source.root = root
    return importer.run(store, "claude-code", sources)


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.query(sql).rows]


def payload(event: Event) -> Mapping[str, Any]:
    found = event["payload"]
    assert isinstance(found, dict)
    return found


def real() -> list[Path]:
    """Transcripts of true sessions, below the directories of LOCUS_TRANSCRIPTS; none is in the project."""
    found: set[Path] = set()
    for place in filter(None, os.environ.get("LOCUS_TRANSCRIPTS", "").split(os.pathsep)):
        for path in sorted(Path(place).rglob("*.jsonl")):
            with path.open("rb") as file:
                if any(
                    b'"sessionId"' in line and b'"parentUuid"' in line for line in file.readlines(1 << 20)
                ):
                    found.add(path)
    if not found:
        pytest.skip("no transcripts of true sessions are here (LOCUS_TRANSCRIPTS)")
    return sorted(found)
