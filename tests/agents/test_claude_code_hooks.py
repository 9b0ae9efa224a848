"""What the hooks of Claude Code mean: from hook input to events, without a store."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from eventlog.agents.claude_code.hooks import interpret
from eventlog.agents.claude_code.usage_tail import read_calls
from eventlog.agents.kit.call import Call, TranscriptOffset, time_of
from eventlog.base.names import event_id_of
from eventlog.blobs.ids import blob_id
from eventlog.hooks.texts import move

SAID = {"session_id": "s", "prompt_id": "p", "cwd": "/w", "transcript_path": "/t.jsonl"}

# Every event that the client has hooks for, with the type that it becomes.
EVENT_TYPES = {
    "SessionStart": ["session"],
    "SessionEnd": ["session"],
    "UserPromptSubmit": ["turn", "snapshot", "intent"],
    "PreToolUse": ["tool_start"],
    "PostToolUse": ["action"],
    "PostToolUseFailure": ["action", "error"],
    "PostToolBatch": ["action"],
    "Stop": ["snapshot", "turn"],
    "StopFailure": ["error", "snapshot", "turn"],
    "SubagentStart": ["subagent"],
    "SubagentStop": ["subagent"],
}
RAW = (
    "Notification UserPromptExpansion PreCompact PostCompact PreModelSwitch PostModelSwitch Setup "
    "PermissionRequest PermissionDenied TeammateIdle TaskCreated TaskCompleted Elicitation ElicitationResult "
    "ConfigChange WorktreeCreate WorktreeRemove InstructionsLoaded CwdChanged FileChanged DirectoryAdded "
    "MessageDisplay NotYetInvented"
)
EVENT_TYPES.update((name, ["hook"]) for name in RAW.split())
FIELDS = {
    "tool_name": "Bash", "tool_use_id": "t_1a2b3", "tool_input": {"command": "ls"}, "error": "Exit code 2",
    "agent_id": "a1", "agent_type": "general-purpose", "prompt": "Go", "source": "startup",
    "tool_calls": [{"tool_name": "Bash", "tool_use_id": "t_1a2b3", "tool_response": "refused"}],
}  # fmt: skip


def hook_input(name: str, **fields: Any) -> dict[str, Any]:
    return {**SAID, "hook_event_name": name, **fields}


def types(call: Call) -> list[object]:
    return [event["event_type"] for event in call.events]


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_event_has_a_meaning_or_is_kept_raw(name: str) -> None:
    """S0-21: of each of the 33 events, and of ones to come, nothing is dropped."""
    fields = FIELDS if name != "PostToolUse" else {k: v for k, v in FIELDS.items() if k != "error"}
    call = interpret(hook_input(name, **fields))
    # A compaction by command has a prompt id of its own, with which no turn begins.
    turn = {} if name in ("PreCompact", "PostCompact") else {"agent_turn_id": "p"}

    assert types(call) == EVENT_TYPES[name]
    assert call.columns == {
        "agent": "claude-code", "agent_session_id": "s", "subagent_id": "a1", "cwd": "/w", **turn,
    }  # fmt: skip
    if EVENT_TYPES[name] == ["hook"]:
        assert call.events[0]["payload"] == hook_input(name, **fields)
        assert call.events[0]["operation"] == name


def test_ids_come_from_the_agents_own_keys() -> None:
    """I8, S1-30: an action has one id whether its own hook or its batch tells it, in whichever session; a
    prompt's turn, snapshot and intent have ids of the prompt."""
    (action,) = interpret(hook_input("PostToolUse", tool_use_id="t_1a2b3", tool_name="Bash")).events
    batch = interpret({**hook_input("PostToolBatch", tool_calls=FIELDS["tool_calls"]), "session_id": "fork"})
    prompt = interpret(hook_input("UserPromptSubmit", prompt="Go"))

    assert (
        action["event_id"] == batch.events[0]["event_id"] == event_id_of("claude-code", "action", "t_1a2b3")
    )
    assert batch.events[0]["success"] is False
    assert [event["event_id"] for event in prompt.events] == [
        event_id_of("claude-code", "turn", "p", "start"),
        event_id_of("claude-code", "snapshot", "p", "start"),
        event_id_of("claude-code", "intent", "p"),
    ]
    assert "event_id" not in interpret({"session_id": "s", "hook_event_name": "UserPromptSubmit"}).events[0]


def test_the_text_of_a_changed_file_is_left_to_the_blob_store() -> None:
    """S1-39: what an edit tool found in its file is handed over, and not repeated in the event."""
    for key in ("originalFile", "originalFileContents"):
        answer = {"filePath": "/w/a", key: "é\n", "structuredPatch": [{"lines": [" x", "-a", "+b", "+c"]}]}
        call = interpret(
            hook_input(
                "PostToolUse", tool_name="Edit", tool_input={"file_path": "/w/a"}, tool_response=answer
            )
        )
        (named,) = call.tool.named
        result = call.events[0]["payload"]["result"]  # type: ignore[index]
        assert (named.path, named.original, named.added, named.removed) == ("/w/a", "é\n", 2, 1)
        assert result[key] == {"size": 3}
        assert answer[key] == "é\n"


def test_sessions_begin_once_and_come_back() -> None:
    """A session's start has its own id; what resumes, compacts or forks it is stated each time."""
    operations = {
        source: interpret(hook_input("SessionStart", source=source)).events[0]
        for source in ("startup", "clear", "resume", "compact", "fork")
    }

    assert operations["startup"]["event_id"] == operations["clear"]["event_id"]
    assert [event["operation"] for event in operations.values()] == [
        "start", "start", "resume", "compact", "fork",
    ]  # fmt: skip
    assert not any("event_id" in operations[source] for source in ("resume", "compact", "fork"))
    assert interpret(hook_input("SessionStart", source="compact")).moment is None


def test_model_calls_are_read_on_from_where_they_were(tmp_path: Path) -> None:
    """P3, S1-34: of the lines of one answer the last counts; half a line waits; what is read is bounded."""
    path = tmp_path / "t.jsonl"

    def line(id: str, output: int, **more: Any) -> bytes:
        usage = {"input_tokens": 1, "cache_read_input_tokens": 20, "output_tokens": output}
        message = {"id": id, "model": more.pop("model", "m"), "usage": usage}
        hook_input = {"type": "assistant", "requestId": "r", "message": message, **more}
        return json.dumps(hook_input, separators=(",", ":")).encode() + b"\n"

    first = b'{"type":"user","promptId":"p-7"}\n' + line("a", 5) + line("a", 9)
    rest = (
        line("b", 1, model="<synthetic>")
        + b'not json \xff "usage" "assistant"\n'
        + line("c", 3, agentId="sub")
    )
    path.write_bytes(first + rest + line("d", 1)[:-10])
    calls, mark = read_calls("claude-code", str(path), TranscriptOffset(), 1 << 20)

    assert [(c["message_id"], c["completion_tokens"], c["prompt_tokens"]) for c in calls] == [
        ("a", 9, 21),
        ("c", 3, 21),
    ]
    assert [c.get("subagent_id") for c in calls] == [None, "sub"]
    assert calls[0]["agent_turn_id"] == "p-7"
    assert mark.offset == len(first + rest)
    again, end = read_calls("claude-code", str(path), mark, 1 << 20)
    assert (again, end.offset) == ([], mark.offset)
    bounded, part = read_calls("claude-code", str(path), TranscriptOffset(), len(first) + 5)
    assert ([c["message_id"] for c in bounded], part.offset) == (["a"], len(first))
    path.unlink()
    path.write_bytes(line("e", 2))  # another file, shorter than the last one
    anew, _ = read_calls("claude-code", str(path), mark, 1 << 20)
    assert [c["message_id"] for c in anew] == ["e"]


def test_only_plain_files_are_read_for_model_calls(tmp_path: Path) -> None:
    """P4, P5: a pipe, a link or a file of another name is not opened as a transcript."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to("/etc/passwd")
    assert read_calls("a", str(tmp_path / "pipe.jsonl"), TranscriptOffset(), 100)[0] == []
    assert read_calls("a", "/etc/passwd", TranscriptOffset(), 100)[0] == []
    with pytest.raises(OSError, match="symbolic"):
        read_calls("a", str(tmp_path / "link.jsonl"), TranscriptOffset(), 100)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-21T20:46:31.966Z", 1_795_293_991_966_000),
        ("2024-02-29T12:00:00.5Z", 1_709_208_000_500_000),
        ("yesterday", None),
        ("2026-11-21T20:46:31", None),
        (None, None),
    ],
)
def test_times_of_lines(text: str | None, expected: int | None) -> None:
    """P7: a time that is none is unknown."""
    assert time_of(text) == expected


def test_many_small_parts_are_moved_as_a_whole() -> None:
    """S1-39: a payload that no frame could hold is kept as one content."""
    event: dict[str, Any] = {
        "event_type": "action",
        "payload": {"result": ["x" * 100] * 60_000, "hook_us": 1},
    }
    stored: dict[bytes, bytes] = {}

    def put(data: bytes) -> bytes:
        stored[blob_id(data)] = data
        return blob_id(data)

    moved = move(event, put, suspect=True)
    (content,) = stored.values()

    assert json.loads(content) == event["payload"]
    assert moved["blobs"] == [moved["payload"]["in_blobs"][""]["blob"]]  # type: ignore[index]
    assert len(json.dumps(moved)) < 1000
