"""Sessions and turns as contexts: what the builders make, and what the log makes of it."""

import re
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from eventlog import Recorder, Store


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.init(tmp_path / ".locus", project_name="sample", repo_hash="0123456789ab") as opened:
        yield opened


def record(store: Store, **options: Any) -> Recorder:
    """A session of two turns with events of several types."""
    recorder = Recorder(store, agent="script", **options)
    turn = recorder.start_turn("Fix the parser")
    turn.action("pytest", {"args": []}, {"exit": 1}, success=False)
    turn.decision("Rewrite the tokenizer", "it is quadratic")
    turn.file("parser.py", before=b"old\n", after=b"new\n")
    turn.end(
        title="Parser fixed",
        outcome="tests pass",
        actions_taken=["rewrote the tokenizer"],
        decisions=["rewrite"],
        files_read=["grammar.txt"],
    )
    turn = recorder.start_turn("Document it")
    turn.error("ToolError", "no such file", resolved=True)
    turn.end()
    return recorder


def test_looking_records_nothing(store: Store) -> None:
    """S0-1: the store appends what it is given, and nothing by itself."""
    record(store)
    before = store.status().events
    list(store.events())
    store.query("select * from turns")
    store.timeline("last")
    store.seal()

    assert store.status().events == before


def test_a_turns_summary(store: Store) -> None:
    """S0-8, S0-15, S1-47: title, request, actions, outcome, decisions, files read and modified, count."""
    record(store)
    found = store.query(
        "select title, user_request, actions_taken, outcome, decisions, files_read, files_modified, "
        "event_count from turns where turn = 1"
    )

    assert found.rows == [
        (
            "Parser fixed",
            "Fix the parser",
            ["rewrote the tokenizer"],
            "tests pass",
            ["rewrite"],
            ["grammar.txt"],
            ["parser.py"],
            5,
        )
    ]


def test_the_end_of_a_session_has_the_id_of_its_start(store: Store) -> None:
    """S0-12: same context, closed, with summary; the totals are those of its turns."""
    recorder = record(store)
    assert recorder.session is not None
    context = recorder.session.context_id
    recorder.end_session("Parser done")
    ends = [e for e in store.events(event_types=["session"]) if e["operation"] == "end"]
    (row,) = store.query(
        "select context_id, status, summary, turn_count, errors, tool_calls from sessions"
    ).rows

    assert [e["context_id"] for e in ends] == [context]
    assert row == (context, "closed", "Parser done", 2, 1, 1)


def test_the_start_of_a_turn(store: Store) -> None:
    """S0-14: three digits, the session as parent, the user's message in full."""
    message = "Fix " + "x" * 5000
    turn = Recorder(store, agent="script").start_turn(message)
    (start,) = [e for e in store.timeline(turn.ref) if e["event_type"] == "turn"]
    (session,) = store.query("select context_id from sessions").rows[0]

    assert start["context_id"] == f"turn:{turn.ref.session_id}_001"
    assert start["extends"] == [session]
    assert (start["event_kind"], start["source"], start["status"]) == ("observation", "system", "active")
    assert start["payload"]["user_message"] == message  # type: ignore[index]


def test_an_event_of_a_turn(store: Store) -> None:
    """S0-16: its type, session, turn and number are its name, the turn its parent, the payload as given."""
    turn = Recorder(store, agent="script").start_turn("Fix the parser")
    payload = {"any": ["thing", 1, None, {"deep": True}]}
    position = turn.event("mcp_action", payload, related_to=["tools"])
    (event,) = store.events(position, position + 1)

    assert event["context_id"] == f"mcp_action:{turn.ref.session_id}_001_003"
    assert event["extends"] == [turn.ref.context_id]
    assert event["related_to"] == ["tools"]
    assert event["payload"] == payload


def test_ids_have_two_layers(store: Store) -> None:
    """S0-22, S1-4: every context id is one type and one name."""
    record(store)
    ids = [str(event["context_id"]) for event in store.events()]

    assert len(ids) > 10
    assert [i for i in ids if not re.fullmatch(r"[a-z0-9_-]+:[a-z0-9_-]+", i)] == []


def test_anchors_and_events_are_two_layers(store: Store) -> None:
    """S1-2, S1-15: a turn's summary is one row; its events are there when they are asked for."""
    record(store)

    assert store.query("select count(*) from turns").rows == [(2,)]
    assert [e["event_type"] for e in store.timeline("last")] == [
        "turn",
        "snapshot",
        "intent",
        "error",
        "turn",
    ]
    assert [e["seq"] for e in store.timeline("last")] == [None, 1, 2, 3, None]


def test_questions_by_type_turn_category_and_text(store: Store) -> None:
    """S1-16, S1-53: each is one SELECT across sessions."""
    record(store).end_session()
    record(store)

    def count(condition: str) -> int:
        return int(store.query(f"select count(*) from events where {condition}").rows[0][0])

    assert count("starts_with(context_id, 'decision:')") == 2
    assert count("list_contains(related_to, 'errors')") == 2
    assert (
        count("list_contains(extends, (select context_id from turns order by first_position limit 1))") == 5
    )
    assert count("payload ilike '%quadratic%'") == 2


def test_a_hash_is_that_of_the_bytes(store: Store) -> None:
    """S1-42: the value names the algorithm and is the digest of exactly these bytes."""
    record(store)
    (event,) = store.events(event_types=["file"])

    assert event["after_hash"] == f"blake3:{blake3(b'new' + bytes([10])).hexdigest()}"
    assert store.blob(str(event["after_hash"])) == b"new\n"


def test_what_happens_when(store: Store) -> None:
    """S1-57: a cold start makes the master, a message a session and a turn, an end closes the session."""
    assert list(store.events()) == []
    recorder = record(store)
    recorder.end_session()
    lifecycle_events = [
        (e["event_type"], e["operation"]) for e in store.events(event_types=["sessions", "session", "turn"])
    ]

    assert lifecycle_events == [
        ("sessions", "start"),
        ("session", "start"),
        ("turn", "start"),
        ("turn", "end"),
        ("turn", "start"),
        ("turn", "end"),
        ("session", "end"),
    ]
