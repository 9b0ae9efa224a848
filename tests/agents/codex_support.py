"""Fictional rollouts of Codex in the shapes of its versions, and where real ones are."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from eventlog.agents.codex.transcript import CodexReader
from eventlog.agents.kit.draft import Draft, FileItem
from eventlog.agents.kit.lines import FileSource
from eventlog.importers import importer
from eventlog.importers.importer import ImportReport
from eventlog.store import Store

Line = dict[str, Any]

THREAD = "01a1ff00-0000-7000-8000-000000000001"
CHILD = "01a1ff00-5000-7000-8000-000000000002"
TURN = "01a1ff00-0100-7000-8000-0000000000a1"
TURN_2 = "01a1ff00-0200-7000-8000-0000000000a2"
CHILD_TURN = "01a1ff00-5100-7000-8000-0000000000a3"
HOME = "/home/dev/shop"


def line(second: float, kind: str, **payload: Any) -> Line:
    return {"timestamp": f"2026-11-20T10:00:{second:06.3f}Z", "type": kind, "payload": payload}


def item(second: float, kind: str, **fields: Any) -> Line:
    return line(second, "response_item", type=kind, **fields)


def event(second: float, kind: str, **fields: Any) -> Line:
    return line(second, "event_msg", type=kind, **fields)


def completed(second: float, turn: str, kind: str, **fields: Any) -> Line:
    payload = {"type": kind, **fields}
    return event(second, "item_completed", thread_id=THREAD, turn_id=turn, item=payload)


def meta(second: float = 0, thread: str = THREAD, **more: Any) -> Line:
    payload = {
        "id": thread,
        "cwd": HOME,
        "cli_version": "0.140.0",
        "source": "cli",
        "originator": "codex-tui",
    }
    git = {"commit_hash": "c" * 40, "branch": "main"}
    return line(second, "session_meta", timestamp="2026-11-20T10:00:00Z", git=git, **{**payload, **more})


def begin(second: float, turn: str, **more: Any) -> list[Line]:
    return [
        event(second, "task_started", turn_id=turn, **more),
        line(second, "turn_context", turn_id=turn, cwd=HOME, model="model-x", **more),
    ]


def prompt(second: float, text: str) -> list[Line]:
    content = [{"type": "input_text", "text": text}]
    return [
        item(second, "message", role="user", content=content),
        event(second, "user_message", message=text),
    ]


def answer(second: float, text: str, number: int = 1) -> list[Line]:
    content = [{"type": "output_text", "text": text}]
    return [
        event(second, "agent_message", message=text, phase="commentary"),
        item(second, "message", role="assistant", id=f"msg_{number}", content=content),
    ]


def usage(tokens: int, output: int = 5) -> Line:
    return {
        "input_tokens": tokens, "cached_input_tokens": tokens // 2, "output_tokens": output,
        "reasoning_output_tokens": 2, "total_tokens": tokens + output,
    }  # fmt: skip


def count(second: float, total: int, last: int, **more: Any) -> Line:
    info = {"total_token_usage": usage(total, total // 10), "last_token_usage": usage(last)}
    return event(second, "token_count", info=info, **more)


def record(second: float, turn: str, response: str, tokens: int, **more: Any) -> Line:
    return line(
        second, "token_usage_record", thread_id=THREAD, turn_id=turn, response_id=response,
        usage=usage(tokens), **more,
    )  # fmt: skip


def shell(second: float, call: str, command: str, output: str) -> list[Line]:
    args = json.dumps({"cmd": command})
    return [
        item(second, "function_call", name="exec_command", arguments=args, call_id=call),
        item(second, "function_call_output", call_id=call, output=output),
    ]


def patch(second: float, call: str, text: str, changes: Any, *, success: bool = True) -> list[Line]:
    output = f"Exit code: {0 if success else 1}\nWall time: 0.5 seconds\nOutput:\nSuccess.\n"
    return [
        item(second, "custom_tool_call", name="apply_patch", input=text, call_id=call, status="completed"),
        event(
            second, "patch_apply_end", call_id=call, success=success, changes=changes, stdout="", stderr=""
        ),
        item(second, "custom_tool_call_output", call_id=call, output=output),
    ]


def end(second: float, turn: str, last: str | None = "Done.") -> Line:
    return event(second, "task_complete", turn_id=turn, last_agent_message=last, duration_ms=900)


ADD = "*** Begin Patch\n*** Add File: a.py\n+price = 1\n*** End Patch\n"
ADDED = {f"{HOME}/a.py": {"type": "add", "content": "price = 1\n"}}
UPDATE = "*** Begin Patch\n*** Update File: a.py\n@@\n-price = 1\n+price = 2\n*** End Patch\n"
UPDATED = {"type": "update", "unified_diff": "@@ -1 +1 @@\n-price = 1\n+price = 2\n", "move_path": None}

SESSION = [
    meta(),
    *begin(1, TURN),
    *prompt(1, "add a price"),
    item(2, "reasoning", id="rs_1", summary=[{"text": "A file."}], encrypted_content="x"),
    *answer(3, "I add it."),
    *patch(4, "call_1a2b1", ADD, ADDED),
    count(5, 100, 100),
    count(5, 100, 100),
    *patch(6, "call_2", UPDATE, {f"{HOME}/a.py": UPDATED}),
    *shell(7, "call_3", "ls x", "Wall time: 0.2 seconds\nProcess exited with code 2\nOutput:\nno x\n"),
    *answer(8, "Done.", 2),
    count(8, 250, 150),
    end(9, TURN),
]  # fmt: skip


def drafts(lines: list[Line]) -> list[Any]:
    """What a reader says of lines, without an importer."""
    draft = Draft("codex")
    reader = CodexReader(draft)
    for one in lines:
        reader.take(one)
    reader.end()
    return draft.take()


def events_in(lines: list[Line], *types: str) -> list[Any]:
    return [one for one in drafts(lines) if not isinstance(one, FileItem) and one["event_type"] in types]


def edits_in(lines: list[Line]) -> list[FileItem]:
    return [one for one in drafts(lines) if isinstance(one, FileItem)]


def write(path: Path, lines: list[Line]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def run(store: Store, *paths: Path) -> ImportReport:
    return importer.run(store, "codex", [FileSource("codex", [str(path)]) for path in paths])


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.query(sql).rows]


def real_rollouts() -> list[Path]:
    """Rollouts of true sessions, below the directories of LOCUS_TRANSCRIPTS; none is in the project."""
    places = os.environ.get("LOCUS_TRANSCRIPTS", "").split(os.pathsep)
    found = [path for place in places if place for path in Path(place).rglob("*.jsonl")]
    return sorted(path for path in found if _is_rollout(path))


def _is_rollout(path: Path) -> bool:
    return b'"session_meta"' in path.read_bytes().partition(b"\n")[0]


def need_real_rollouts() -> list[Path]:
    return real_rollouts() or pytest.skip("LOCUS_TRANSCRIPTS names no directory with rollouts")
