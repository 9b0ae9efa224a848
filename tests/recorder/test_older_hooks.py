"""The twelve older hooks: one context per subject."""

import json
from typing import Any

import pytest

from eventlog.recorder.hooks import Hooks
from eventlog.recorder.requests import EventLinks
from eventlog.store import Store
from tests.recorder.test_hooks import SESSION, SID, last, row


@pytest.fixture
def hooks(store: Store) -> Hooks:
    return Hooks(store, agent="script")


LINKS = EventLinks(related_to=("fact:mine",))
OLDER: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    (
        "store_tool_run",
        ("bash", {"command": "ls"}, "out", 5, True),
        {
            "context_id": "action:terminal_bash",
            "event_type": "action",
            "event_kind": "observation",
            "source": "executor",
            "related_to": ["observation:user_intent", "fact:mine"],
            "tool": "bash",
            "duration_ms": 5,
            "success": False,
        },
    ),
    (
        "store_file_edit",
        ("src/a b.py", "Fixes it", "+x"),
        {
            "context_id": "action:editor_src_a_b_py",
            "event_type": "file",
            "event_kind": "action",
            "path": "src/a b.py",
            "operation": "edit",
            "related_to": ["decision:decisions", "fact:mine"],
        },
    ),
    (
        "store_user_intent",
        ("Fix it " + "x" * 900, "fix"),
        {"context_id": "observation:user_intent", "event_type": "intent", "source": "user"},
    ),
    (
        "store_error",
        ("bash", "boom", "make"),
        {
            "context_id": "observation:errors",
            "event_type": "error",
            "source": "system",
            "error_type": "bash",
        },
    ),
    (
        "store_decision",
        ("Use tokens", "safer"),
        {
            "context_id": "decision:decisions",
            "event_type": "decision",
            "event_kind": "decision",
            "source": "agent",
            "extends": ["observation:user_intent"],
            "title": "Use tokens",
        },
    ),
    (
        "store_project_convention",
        ("My Repo", "tabs", ["a"]),
        {"context_id": "fact:project_my_repo", "event_type": "project_convention", "event_kind": "fact"},
    ),
    (
        "store_skill",
        ("Refresh JWT", "how", ["one"], True),
        {"context_id": "fact:skill_refresh_jwt", "event_type": "skill", "source": "agent"},
    ),
    (
        "store_llm_call",
        ("claude-3.5", 10, 4, 9, False),
        {
            "context_id": "action:llm_claude-3_5",
            "event_type": "llm",
            "event_kind": "action",
            "model": "claude-3.5",
            "prompt_tokens": 10,
            "completion_tokens": 4,
            "related_to": ["decision:decisions", "fact:mine"],
        },
    ),
    (
        "store_test_run",
        ("tests/a.py", 3, 1, 7),
        {
            "context_id": "action:test_tests_a_py",
            "event_kind": "observation",
            "contradicts": ["action:editor"],
            "success": False,
        },
    ),
    (
        "store_git_op",
        ("repo", "commit", "abc", False),
        {
            "context_id": "action:git_repo",
            "related_to": ["action:editor", "fact:mine"],
            "event_kind": "action",
        },
    ),
    (
        "store_tool_schema",
        ("bash", "runs", {"type": "object"}, "mcp", ["t"]),
        {"context_id": "fact:tool_bash", "related_to": ["fact:tools", "fact:mine"], "source": "system"},
    ),
    (
        "store_tool_usage",
        ("bash", "list files", True, 3),
        {
            "context_id": "action:tool_usage_bash",
            "related_to": ["fact:tool_bash", "fact:mine"],
            "event_kind": "action",
        },
    ),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), OLDER)
def test_an_older_hook(
    store: Store, hooks: Hooks, name: str, arguments: tuple[Any, ...], expected: dict[str, Any]
) -> None:
    """S0-4, S0-7: each subject has a context whose type is the event's kind; our links and the caller's."""
    stored = getattr(hooks.strict, name)(*arguments, links=LINKS)
    event = last(store)

    assert stored.event_id == event["event_id"]
    assert {key: event.get(key) for key in expected} == expected
    assert "fact:mine" in event["related_to"]
    assert all(str(text) in json.dumps(event["payload"]) for text in arguments if isinstance(text, str))


def test_a_passing_test_confirms_the_edits(store: Store, hooks: Hooks) -> None:
    """S0-4: tests that pass reinforce what was edited."""
    hooks.store_test_run("tests/a.py", 3, 0)
    event = last(store)

    assert (event["reinforces"], event["event_kind"], "contradicts" in event) == (
        ["action:editor"],
        "action",
        False,
    )


def test_older_hooks_can_be_in_a_session(store: Store) -> None:
    """S0-4, S1-8, S1-28: with a session given once, what happens is an event of its current turn, with an id
    of its own; what is known keeps its context."""
    hooks = Hooks(store, agent="script", session_id=f"sess-{SID}")
    hooks.store_turn_start(SID, SESSION, 2, "Fix it")
    hooks.store_tool_run("bash", {}, None, 1, False)
    event = last(store)

    assert (event["session_id"], event["turn"], event["seq"]) == (SID, 2, 1)
    assert event["context_id"] == f"action:{SID}_002_001"
    hooks.store_decision("Use UTC")
    assert (last(store)["context_id"], last(store)["extends"]) == (
        f"decision:{SID}_002_002",
        [f"turn:{SID}_002"],
    )
    hooks.store_skill("deploy", "How to deploy")
    assert last(store)["context_id"] == "fact:skill_deploy"
    assert row(store, "select tool_calls from turns") == {"tool_calls": 1}
