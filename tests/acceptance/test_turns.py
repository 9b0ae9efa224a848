"""What agents leave of their turns, field by field, in the form of the requirements' own examples.

One day is recorded through the doors (tests/acceptance/story.py); each test looks at one record of it, as the
log, SQL or a strict server has it.
"""

import re
from typing import Any

import pytest

from eventlog.base.types import KIND_OF_TYPE
from eventlog.blobs.ids import blob_id, to_text
from tests.acceptance.door import unlike_the_door
from tests.acceptance.story import AUTH, JWT, NEW, OLD, REQUEST, Story

Json = dict[str, Any]

CATEGORY = {"file": ["action:editor"], "decision": ["decision:decisions"], "error": ["observation:errors"]}


def whole(record: Json, event_type: str, kind: str, source: str) -> Json:
    """The payload of a timeline record, whose envelope is as the example of its type has it."""
    assert record["context_id"].startswith(f"{event_type}:")
    assert (record["event_kind"], record["source"]) == (kind, source)
    assert record["extends"] == [f"turn:{record['context_id'].partition(':')[2].rpartition('_')[0]}"]
    assert record.get("related_to", []) == CATEGORY.get(event_type, [])
    payload = record["payload"]
    reported = payload["data"] if event_type == "snapshot" else payload
    assert reported["seq"] == int(record["context_id"].rpartition("_")[2])
    assert isinstance(reported, dict)
    return reported


def some(said: Json, *names: str) -> Json:
    return {name: said.get(name) for name in names}


def test_a_message(story: Story) -> None:
    """S1-29: the user's message in full, an observation from the user; its summary, where one is reported."""
    asked = whole(story.one("claude", "intent"), "intent", "observation", "user")
    reported = whole(story.one("script", "intent"), "intent", "observation", "user")

    assert some(asked, "message", "seq") == {"message": REQUEST, "seq": 2}
    assert reported == {"message": "Count the words, please", "intent_summary": "Count words", "seq": 2}


def test_a_tool_call(story: Story) -> None:
    """S1-30: tool, arguments, result, duration and success, an action of the executor; a failure too."""
    read = whole(story.one("claude", "action", tool="Read"), "action", "action", "executor")
    failed = whole(story.one("claude", "action", tool="Bash", success=False), "action", "action", "executor")
    names = ("tool", "duration_ms", "success")

    assert some(read, *names) == {"tool": "Read", "duration_ms": 9, "success": True}
    assert read["args"] == {"file_path": JWT}
    assert some(read["result"]["file"], "filePath", "numLines") == {"filePath": JWT, "numLines": 1}
    assert some(failed, *names) == {"tool": "Bash", "duration_ms": 21, "success": False}
    assert failed["args"]["command"] == "test -e made"


def test_a_file_that_changed(story: Story) -> None:
    """S1-31, S1-42, S1-52: path, operation, diff, lines, size and both hashes, related to the editor."""
    reported = whole(story.one("claude", "file", path=JWT), "file", "action", "executor")
    diff = f"--- a/{JWT}\n+++ b/{JWT}\n@@ -1 +1 @@\n-{OLD}+{NEW}"

    assert some(reported, "path", "operation", "diff") == {"path": JWT, "operation": "edit", "diff": diff}
    assert some(reported, "lines_added", "lines_removed") == {"lines_added": 1, "lines_removed": 1}
    assert some(reported, "before_hash", "after_hash", "after_size") == {
        "before_hash": to_text(blob_id(OLD.encode())),
        "after_hash": to_text(blob_id(NEW.encode())),
        "after_size": len(NEW),
    }


@pytest.mark.parametrize(("who", "path", "turn", "lines"), [
    ("claude", "README.md", 2, (2, 0)), ("claude", "made", 1, (0, 0)), ("codex", JWT, 1, (1, 1)),
])  # fmt: skip
def test_lines_are_counted_where_no_tool_tells_them(
    story: Story, who: str, path: str, turn: int, lines: tuple[int, int]
) -> None:
    """S1-31: of a file that a tool wrote, that nobody spoke of, and of a patch: lines added and removed, on
    the wire as in SQL."""
    reported = story.one(who, "file", turn, path=path)["payload"]
    [row] = [
        row for row in story.views["files"]
        if (row["session_id"], row["turn"], row["path"]) == (story.sessions[who], turn, path)
    ]  # fmt: skip

    assert (
        (reported["lines_added"], reported["lines_removed"])
        == lines
        == (row["lines_added"], row["lines_removed"])
    )


def test_a_decision(story: Story) -> None:
    """S1-1, S1-32, S1-52: decision, reasoning, confidence and alternatives, recorded by the agent over
    MCP."""
    reported = whole(story.one("claude", "decision"), "decision", "decision", "agent")

    assert some(reported, "decision", "reasoning", "confidence", "alternatives_considered") == {
        "decision": "Validate before refresh",
        "reasoning": "Validation is skipped when a refresh token is present",
        "confidence": 0.9,
        "alternatives_considered": ["Reject all refresh tokens", "Add rate limiting"],
    }


def test_an_error_that_an_agent_tells(story: Story) -> None:
    """S1-33, S1-52: type, message, file, line, command, and how it was resolved, over MCP."""
    reported = whole(
        story.one("claude", "error", error_type="compile_error"), "error", "observation", "system"
    )

    assert {name: reported[name] for name in reported if name not in ("seq", "path")} == {
        "error_type": "compile_error",
        "message": "mismatched types: expected &str, found String",
        "file": JWT,
        "line": 44,
        "command": "cargo check",
        "resolved": True,
        "resolution": "Added .as_str()",
    }


def test_an_error_that_a_hook_tells(story: Story) -> None:
    """S1-33: of a tool that failed the type, the message, the tool and its command; whether it was resolved
    later is derived."""
    reported = whole(
        story.one("claude", "error", error_type="tool_failure"), "error", "observation", "system"
    )
    [row] = [row for row in story.views["errors"] if row["tool"] == "Bash"]

    assert some(reported, "error_type", "message", "tool", "command", "resolved") == {
        "error_type": "tool_failure",
        "message": "Exit code 1\n",
        "tool": "Bash",
        "command": "test -e made",
        "resolved": False,
    }
    assert (row["resolved"], row["resolved_how"]) == (True, "seen")


def test_an_error_with_a_file(story: Story) -> None:
    """S1-33: of a tool that failed on a file, its `file`."""
    reported = story.one("claude", "error", 2)["payload"]

    assert some(reported, "tool", "file") == {"tool": "Edit", "file": AUTH}


def test_a_model_call(story: Story) -> None:
    """S1-34: model, tokens and why it stopped, from an agent's transcript; also duration and memories, where
    a program tells them."""
    read = whole(story.one("claude", "llm"), "llm", "action", "system")
    reported = whole(story.one("script", "llm"), "llm", "action", "system")

    assert some(read, "model", "prompt_tokens", "completion_tokens", "stop_reason") == {
        "model": "model-1",
        "prompt_tokens": 2400,
        "completion_tokens": 800,
        "stop_reason": "end_turn",
    }
    assert reported == {
        "model": "model-2",
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "duration_ms": 3500,
        "context_memories": 5,
        "stop_reason": "end_turn",
        "seq": 3,
    }


def test_feedback(story: Story) -> None:
    """S1-35: type, message and sentiment of the user, over MCP, after the turn's end."""
    reported = whole(story.one("claude", "feedback"), "feedback", "feedback", "user")

    assert {name: reported[name] for name in reported if name != "seq"} == {
        "type": "approval",
        "message": "That looks good, now run the tests",
        "sentiment": "positive",
    }


@pytest.mark.parametrize("who", ["claude", "codex"])
def test_a_snapshot_at_the_start(story: Story, who: str) -> None:
    """S1-24, S1-36: the first event of the turn: commit, branch, dirty and staged files, tree, count."""
    record = story.one(who, "snapshot", operation="turn_start")
    reported = whole(record, "snapshot", "fact", "system")
    dirty = [AUTH] if who == "claude" else ["README.md", JWT, AUTH]

    assert re.fullmatch(r"blake3:[0-9a-f]{64}", reported["tree_hash"])
    assert some(
        reported, "git_head", "git_branch", "git_dirty", "git_staged", "tracked_files", "snapshot_type", "seq"
    ) == {
        "git_head": story.head,
        "git_branch": "main",
        "git_dirty": dirty,
        "git_staged": ["README.md"],
        "tracked_files": 3 if who == "claude" else 4,
        "snapshot_type": "turn_start",
        "seq": 1,
    }
    assert "files_changed" not in reported


def test_a_snapshot_at_the_end(story: Story) -> None:
    """S1-37: the last event that the turn itself makes: another tree, what is dirty, how many files
    changed."""
    first = story.one("claude", "snapshot", operation="turn_start")["payload"]["data"]
    record = story.one("claude", "snapshot", operation="turn_end")
    reported = whole(record, "snapshot", "fact", "system")
    after = [e["event_type"] for e in story.events if e["turn"] == 1 and (e["seq"] or 0) > reported["seq"]
             and e["session_id"] == story.sessions["claude"]]  # fmt: skip

    assert reported["tree_hash"] != first["tree_hash"]
    assert some(reported, "git_head", "git_dirty", "files_changed", "snapshot_type") == {
        "git_head": story.head,
        "git_dirty": [JWT, AUTH],
        "files_changed": 2,
        "snapshot_type": "turn_end",
    }
    assert after == ["feedback"]


def test_a_turn_that_ended(story: Story) -> None:
    """S0-8, S0-15, S1-23, S1-47: of a real agent's turn each field of the summary, under the id of its
    start."""
    context = f"turn:{story.sessions['claude']}_001"
    payload = dict(story.data(context))
    times = [payload.pop("started_at"), payload.pop("completed_at")]

    assert times == sorted(times) and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:.+Z", time) for time in times)
    assert payload == {
        "turn_id": "001",
        "sequence": 1,
        "status": "completed",
        "title": REQUEST,
        "user_request": REQUEST,
        "actions_taken": [f"read {JWT}", f"edit {JWT}", "run test -e made"],
        "outcome": "Added validation before the refresh. Tests pass.",
        "decisions": ["Validate before refresh"],
        "files_read": [JWT],
        "files_modified": ["made", JWT],
        "event_count": 20,
        "tokens_used": 3200,
    }
    assert story.sent[context]["source"] == "agent"


def test_a_turn_of_another_agent(story: Story) -> None:
    """S1-47: what Codex read by a shell and changed by a patch; what nobody reported is zero or empty."""
    payload = story.data(f"turn:{story.sessions['codex']}_001")

    assert some(payload, "actions_taken", "files_read", "files_modified", "outcome", "decisions") == {
        "actions_taken": [f"run cat {JWT}", f"edit {JWT}"],
        "files_read": [JWT],
        "files_modified": [JWT],
        "outcome": "Renamed.",
        "decisions": [],
    }


def test_a_turn_that_goes_on(story: Story) -> None:
    """S0-14, S1-11, S1-23: the anchor is there from its start: number, message, active, below its session."""
    record = story.sent[f"turn:{story.sessions['codex']}_002"]
    reported = record["payload"]["data"]

    assert reported.pop("started_at")
    assert (record["source"], reported) == (
        "system",
        {"turn_id": "002", "sequence": 2, "status": "active", "user_message": "Rename its callers"},
    )


def test_a_session_that_ended(story: Story) -> None:
    """S1-10, S1-13, S1-48, S1-49: title, slug, end, summary, last turn, and totals of all turns, files
    once."""
    session = story.sessions["claude"]
    context = f"session:fix-jwt-refresh-bug-auth_{session}"
    payload = dict(story.data(context))

    assert payload.pop("ended_at") >= payload.pop("started_at")
    assert payload == {
        "title": REQUEST,
        "slug": "fix-jwt-refresh-bug-auth",
        "session_id": session,
        "status": "closed",
        "end_reason": "other",
        "turn_count": 2,
        "last_turn": f"turn:{session}_002",
        "summary": "The readme says so.",
        "totals": {
            "events": 30,
            "tool_calls": 6,
            "llm_calls": 1,
            "prompt_tokens": 2400,
            "completion_tokens": 800,
            "files_modified": ["README.md", "made", JWT],
            "errors": 3,
            "errors_resolved": 2,
        },
    }


def test_a_session_that_goes_on(story: Story) -> None:
    """S1-18, S1-48: active, and its totals follow its turns."""
    session = story.sessions["codex"]
    reported = story.data(f"session:rename-function_{session}")

    assert some(reported, "status", "turn_count", "last_turn") == {
        "status": "active",
        "turn_count": 2,
        "last_turn": f"turn:{session}_002",
    }
    assert (reported["totals"]["tool_calls"], reported["totals"]["files_modified"]) == (2, [JWT])
    assert "ended_at" not in reported


def test_the_master(story: Story) -> None:
    """S1-5, S1-17, S1-19, S1-50: made once by the first hook, below the project; it names the session that
    goes on, and none that ended."""
    [made] = [event for event in story.events if event["event_type"] == "sessions"]
    [row] = story.views["sessions_master"]
    repo = made["repo"]
    codex = f"session:rename-function_{story.sessions['codex']}"

    assert made["extends"] == row["extends"] == [f"knowledge:shop_{repo}"]
    assert story.sent[f"{repo}:sessions"]["extends"] == [f"knowledge:shop_{repo}"]
    assert story.data(f"{repo}:sessions") == {"active_session": codex, "total_sessions": 3}
    assert row["active_session"] == codex


def test_all_is_one_graph(story: Story) -> None:
    """S1-4…S1-8, S1-51: each id has two layers, and each `extends` leads over turn, session and master to the
    project; no record was sent before its parent."""
    repo = story.views["sessions_master"][0]["repo"]

    def root(context: str) -> str:
        links = story.sent[context].get("extends", [])
        return root(links[0]) if links else context

    events = [one for one in story.sent if re.fullmatch(r"[a-z]+:[0-9a-z]{8}_\d{3}_\d{3}", one)]
    assert len(events) > 25 and story.orphans == []
    assert {root(one) for one in events} == {f"knowledge:shop_{repo}"}
    assert [
        e for e in story.events if not re.fullmatch(r"[a-z0-9_-]+:[a-z0-9_-]+", str(e["context_id"]))
    ] == []


def test_one_counter_for_all_types(story: Story) -> None:
    """S1-9, S1-12, S1-28, S1-38: the events of a turn are 001, 002 … whatever their type and door; each name
    is made of type, session, turn and number, and each kind follows from the type."""
    for who, turn in (("claude", 1), ("claude", 2), ("codex", 1), ("script", 1)):
        session = story.sessions[who]
        listed = [e for e in story.events if (e["session_id"], e["turn"]) == (session, turn) and e["seq"]]
        assert sorted(e["seq"] for e in listed) == list(range(1, len(listed) + 1))
        names = [f"{e['event_type']}:{session}_{turn:03d}_{e['seq']:03d}" for e in listed]
        assert [e["context_id"] for e in listed] == names
    assert {e["event_type"] for e in story.events} >= {
        "intent", "action", "file", "snapshot", "decision", "error", "llm", "feedback",
    }  # fmt: skip
    assert [
        e for e in story.events if KIND_OF_TYPE.get(e["event_type"], e["event_kind"]) != e["event_kind"]
    ] == []


def test_no_content_is_in_an_event(story: Story) -> None:
    """S1-39, S1-40, S1-41, S1-44: what was read and written is in the store, once, and events name it."""
    read = story.one("claude", "action", tool="Read")["payload"]
    wrote = story.one("claude", "action", 2, tool="Write")["payload"]
    text = "# The shop\n\nRefreshes safely.\n"
    [(place, content)] = read["in_blobs"].items()

    assert (place, read["result"]["file"]["content"]) == ("result.file.content", "")
    assert content == {"blob": to_text(blob_id(OLD.encode())), "size": len(OLD)}
    assert {one["blob"] for one in wrote["in_blobs"].values()} == {to_text(blob_id(text.encode()))}
    assert not any(text in str(event["payload"]) for event in story.events)
    assert any((story.work / ".locus/snapshots/packs").iterdir())


def test_every_door_makes_the_same_event(story: Story) -> None:
    """S0-16, S1-29…S1-38, S1-52: what hooks, MCP and programs leave is what `lifecycle.timeline_event` makes
    of its payload: kind, links and columns."""
    assert unlike_the_door(story.events) == []
