"""What each event of a turn says, field by field, as it is in the log."""

from pathlib import Path
from typing import Any

from eventlog.blobs.ids import blob_id, to_text
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store


def fields_of(store: Store, event_type: str, *columns: str) -> dict[str, Any]:
    """The payload of the only event of a type, with some of its columns."""
    [event] = store.events(event_types=[event_type])
    payload = event["payload"]
    assert isinstance(payload, dict)
    return {**payload, **{name: event[name] for name in ("event_kind", "source", *columns)}}


def test_what_an_agent_records_is_in_the_log(store: Store) -> None:
    """S1-9, S1-29…S1-36, S1-38, S1-40: message, arguments, result, contents, reasons, details, tokens,
    words, state."""
    facts = {"git_dirty": ["a.py"], "git_staged": [], "tracked_files": 3}
    git = {"git_head": "c0ffee", "git_branch": "main", **facts}
    turn = Recorder(store, agent="script").start_turn("Fix the login", git=git)
    turn.action("bash", {"command": "pytest"}, {"exit": 1}, duration_ms=12, success=False)
    turn.file("auth.py", before=b"old\n", after=b"newer\n", lines_added=1, lines_removed=1)
    turn.decision("rotate", "they leak", confidence=0.9, alternatives_considered=["expire"])
    turn.error("TestFailure", "1 failed", resolved=False, tool="bash", file="auth.py", line=7)
    turn.llm("m-1", prompt_tokens=100, completion_tokens=20, duration_ms=5)
    turn.feedback("correction", "not so", sentiment="negative")

    assert len(list((Path(store.layout.root) / "snapshots/packs").iterdir())) > 0
    assert fields_of(store, "snapshot") == {
        **git, "snapshot_type": "turn_start", "event_kind": "fact", "source": "system",
    }  # fmt: skip
    assert fields_of(store, "intent") == {
        "message": "Fix the login", "event_kind": "observation", "source": "user",
    }  # fmt: skip
    assert fields_of(store, "action", "tool", "duration_ms", "success") == {
        "tool": "bash", "args": {"command": "pytest"}, "result": {"exit": 1}, "duration_ms": 12,
        "success": False, "event_kind": "action", "source": "executor",
    }  # fmt: skip
    old, new = (to_text(blob_id(data)) for data in (b"old\n", b"newer\n"))
    assert fields_of(store, "file", "path", "operation", "before_hash", "after_hash", "lines_added") == {
        "after_size": 6, "path": "auth.py", "operation": "edit", "before_hash": old, "after_hash": new,
        "lines_added": 1, "event_kind": "action", "source": "executor",
    }  # fmt: skip
    assert fields_of(store, "decision") == {
        "decision": "rotate", "reasoning": "they leak", "confidence": 0.9,
        "alternatives_considered": ["expire"], "event_kind": "decision", "source": "agent",
    }  # fmt: skip
    assert fields_of(store, "error", "path") == {
        "error_type": "TestFailure", "message": "1 failed", "resolved": False, "tool": "bash",
        "file": "auth.py", "line": 7, "path": "auth.py", "event_kind": "observation", "source": "system",
    }  # fmt: skip
    assert fields_of(store, "llm", "model", "prompt_tokens", "completion_tokens", "duration_ms") == {
        "model": "m-1", "prompt_tokens": 100, "completion_tokens": 20, "duration_ms": 5,
        "event_kind": "action", "source": "system",
    }  # fmt: skip
    assert fields_of(store, "feedback") == {
        "type": "correction", "message": "not so", "sentiment": "negative", "event_kind": "feedback",
        "source": "user",
    }  # fmt: skip
