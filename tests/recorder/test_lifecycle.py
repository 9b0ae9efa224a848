"""The shape of lifecycle and timeline events."""

import pytest

from eventlog.base import names
from eventlog.base.types import KIND_OF_TYPE
from eventlog.recorder import lifecycle


def test_example_ids_of_the_seed_are_constructible() -> None:
    """S0-7, S1-4…S1-9, S1-14: the ids of the worked example come out exactly."""
    sid = "a1b2c3d4"

    assert names.sessions_context("9f8e7d") == "9f8e7d:sessions"
    assert names.session_context("fix-jwt-refresh", sid) == "session:fix-jwt-refresh_a1b2c3d4"
    assert [names.turn_context(sid, n) for n in (1, 2, 3)] == [
        "turn:a1b2c3d4_001",
        "turn:a1b2c3d4_002",
        "turn:a1b2c3d4_003",
    ]
    assert [
        names.event_context(t, sid, 1, s) for t, s in [("snapshot", 1), ("intent", 2), ("action", 3)]
    ] == [
        "snapshot:a1b2c3d4_001_001",
        "intent:a1b2c3d4_001_002",
        "action:a1b2c3d4_001_003",
    ]
    assert names.project_context("locus", "9f8e7d") == "knowledge:locus_9f8e7d"


def test_counters_grow_past_three_digits() -> None:
    """S1-11, S1-12: the thousandth turn and event keep their order by number, and their names grow."""
    assert names.turn_id_of(1000) == "1000"
    assert names.event_context("action", "a1b2c3d4", 1000, 12345) == "action:a1b2c3d4_1000_12345"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fix-jwt-refresh", "fix-jwt-refresh"),
        ("My Project!", "my_project_"),
        ("abc/123", "abc_123"),
        ("Ünï_cødé", "_n__c_d_"),
    ],
)
def test_safe_context_name(text: str, expected: str) -> None:
    """S0-9: ASCII letters, digits, `_` and `-` stay, the rest becomes `_`, all in lower case."""
    assert names.safe_context_name(text) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Fix the JWT refresh bug in auth middleware", "fix-jwt-refresh-bug-auth"),
        ("hi", "session-a1b2c3d4"),
        ("", "session-a1b2c3d4"),
        ("!!!", "session-a1b2c3d4"),
        ("the of to", "the-of-to"),
        ("x" * 50, "x" * 30),
    ],
)
def test_slug_is_kebab_case_and_bounded(message: str, expected: str) -> None:
    """S1-13: kebab-case, at most 30 characters, never ending in `-`, with a fallback when vague."""
    assert names.slugify(message, "a1b2c3d4") == expected


def test_session_ids_are_short_and_lower_case() -> None:
    """S1-10: eight characters of [0-9a-z], the same for the same agent's session, else different."""
    ids = {names.session_id_of("claude-code", str(n)) for n in range(1000)}

    assert len(ids) == 1000
    assert all(len(i) == 8 and set(i) <= set("0123456789abcdefghijklmnopqrstuvwxyz") for i in ids)
    assert names.session_id_of("claude-code", "7") == names.session_id_of("claude-code", "7")
    assert names.session_id_of("codex", "7") != names.session_id_of("claude-code", "7")


def test_event_ids_tell_keys_apart() -> None:
    """I8: parts of a key cannot run into each other, so two different keys give two ids."""
    assert names.event_id_of("a", "bc") != names.event_id_of("ab", "c")
    assert names.event_id_of("a", "b", "c") != names.event_id_of("a", "bc")


def test_lifecycle_events_extend_their_parents() -> None:
    """S0-10, S0-19, S1-5, S1-6, S1-51: master extends the project, a session extends the master."""
    master = lifecycle.sessions_master("9f8e7d", "locus")
    session = lifecycle.session_start("a1b2c3d4", "fix-jwt", "Fix JWT", "9f8e7d")

    assert (master["context_id"], master["extends"]) == ("9f8e7d:sessions", ["knowledge:locus_9f8e7d"])
    assert (session["context_id"], session["extends"]) == ("session:fix-jwt_a1b2c3d4", ["9f8e7d:sessions"])
    assert (master["event_kind"], master["source"]) == ("fact", "system")
    assert master["payload"] == {"total_sessions": 0}
    assert session["status"] == "active"


@pytest.mark.parametrize(("event_type", "kind"), sorted(KIND_OF_TYPE.items()))
def test_kinds_follow_the_prefix(event_type: str, kind: str) -> None:
    """S1-38: the kind of an event follows from its type."""
    event = lifecycle.timeline_event(event_type, "a1b2c3d4", 1, {})

    assert event["event_kind"] == kind


def test_an_open_set_of_types() -> None:
    """S0-23: a type nobody knew before is recorded by the same call."""
    event = lifecycle.timeline_event("mcp_action", "a1b2c3d4", 1, {"server": "x"})

    assert (event["event_type"], event["event_kind"], event["payload"]) == (
        "mcp_action",
        "observation",
        {"server": "x"},
    )


def test_categories_are_kept() -> None:
    """S1-31…S1-33, S1-52: files, decisions and errors name their category."""
    related = {
        t: lifecycle.timeline_event(t, "a1b2c3d4", 1, {}).get("related_to")
        for t in ("file", "decision", "error", "action")
    }

    assert related == {"file": ["editor"], "decision": ["decisions"], "error": ["errors"], "action": None}


def test_a_file_event_names_the_blobs_it_needs() -> None:
    """S1-31, S1-39: contents are named by hash, in the column that garbage collection marks."""
    event = lifecycle.file("a1b2c3d4", 1, "a.py", "edit", before_hash="blake3:1", after_hash="blake3:2")

    assert event["blobs"] == ["blake3:1", "blake3:2"]
    assert "diff" not in event["payload"]  # type: ignore[operator]
