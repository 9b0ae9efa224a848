"""What the anchors, the totals and the master say, requirement by requirement."""

from datetime import UTC, datetime
from typing import Any

from tests.projections.logs import Log, event

US = 1_700_000_000_000_000


def row(log: Log, sql: str) -> dict[str, Any]:
    result = log.query(sql)
    assert len(result.rows) == 1, result.rows
    return dict(zip(result.columns, result.rows[0], strict=True))


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(US // 1_000_000 + seconds, UTC)


def turn(number: int, operation: str, **columns: Any) -> dict[str, Any]:
    return event("turn", number, session_id="a1b2c3d4", operation=operation, **columns)


def test_an_anchor_is_written_key_by_key(log: Log) -> None:
    """P2, S0-13, S1-47: the last event that gives a key wins; a key left out stays what it was."""
    log.append(
        turn(1, "start", title="first", occurred_at=US, payload={"user_message": "please"}),
        turn(2, "update", payload={"user_request": "asked", "outcome": "half", "decisions": ["d1"]}),
        turn(3, "end", title="done", occurred_at=US + 5_000_000, payload={"outcome": "whole"}),
    )
    found = row(log, "SELECT * FROM turns")

    assert found["context_id"] == "turn:a1b2c3d4_001"
    assert (found["title"], found["user_request"], found["outcome"]) == ("done", "asked", "whole")
    assert (found["decisions"], found["actions_taken"]) == (["d1"], [])
    assert (found["status"], found["started_at"], found["completed_at"]) == ("completed", at(0), at(5))
    assert found["event_count"] == 0  # anchors are not counted


def test_a_turn_that_nobody_ended_is_active(log: Log) -> None:
    """S1-23: an anchor exists from the start of its turn; what is not over has no end."""
    log.append(turn(1, "start", occurred_at=US))

    assert row(log, "SELECT status, completed_at, turn_id FROM turns") == {
        "status": "active",
        "completed_at": None,
        "turn_id": "001",
    }


def test_a_lifecycle_payload_of_another_shape_is_an_unknown_key(log: Log) -> None:
    """P7: `decisions` that is no list gives null; a number is its text."""
    shapes = {"decisions": "no list", "files_read": 7, "outcome": 12}
    log.append(turn(1, "end", turn=1, payload=shapes))
    found = row(log, "SELECT decisions, files_read, outcome FROM turns")

    assert found == {"decisions": [], "files_read": [], "outcome": "12"}


def test_files_of_a_turn(log: Log) -> None:
    """S1-47: modified and read are sorted sets of file events and of what the end names besides."""
    log.append(
        turn(1, "start"),
        *(
            event("file", 10 + i, session_id="a1b2c3d4", path=path, operation=operation)
            for i, (path, operation) in enumerate(
                [("b.py", "edit"), ("a.py", "add"), ("b.py", "edit"), ("r.md", "read"), ("x", None)]
            )
        ),
        turn(2, "end", payload={"files_modified": ["c.py", "a.py"], "files_read": ["q.md"]}),
    )
    found = row(log, "SELECT files_modified, files_read, event_count FROM turns")

    assert found["files_modified"] == ["a.py", "b.py", "c.py", "x"]
    assert (found["files_read"], found["event_count"]) == (["q.md", "r.md"], 5)


def test_totals_of_a_session(log: Log) -> None:
    """S0-11, S1-48, S1-56: eight totals, added up over the turns; cost = prompt + completion tokens."""
    log.append(
        event("session", 1, session_id="a1b2c3d4", operation="start", repo="r1", title="S"),
        turn(2, "start"),
        event("action", 3, session_id="a1b2c3d4"),
        event("llm", 4, session_id="a1b2c3d4", message_id="m1", prompt_tokens=100, completion_tokens=20),
        event("file", 5, session_id="a1b2c3d4", path="a.py", operation="edit"),
        turn(6, "end"),
        turn(7, "start"),
        event("error", 8, session_id="a1b2c3d4", resolved=True),
        event("error", 9, session_id="a1b2c3d4", resolved=False),
        event("llm", 10, session_id="a1b2c3d4", message_id="m2", prompt_tokens=5, completion_tokens=1),
        event("file", 11, session_id="a1b2c3d4", path="b.py", operation="add"),
    )
    found = row(log, "SELECT * FROM sessions")

    assert (found["events"], found["tool_calls"], found["llm_calls"]) == (7, 1, 2)
    assert (found["prompt_tokens"], found["completion_tokens"], found["tokens_used"]) == (105, 21, 126)
    assert (found["errors"], found["errors_resolved"]) == (2, 1)
    assert found["files_modified"] == ["a.py", "b.py"]
    assert (found["turn_count"], found["last_turn"]) == (2, "002")


def test_totals_begin_at_zero_and_are_null_when_unknown(log: Log) -> None:
    """S0-11, P7: no call at all costs nothing; a call that does not say what it cost is unknown."""
    log.append(turn(1, "start"), turn(2, "start"), event("llm", 3, session_id="a1b2c3d4", message_id="m"))
    found = log.rows("SELECT llm_calls, prompt_tokens, tokens_used FROM turns ORDER BY turn")

    assert found == [(0, 0, 0), (1, None, None)]


def test_a_call_is_counted_once(log: Log) -> None:
    """P3: of the lines of one response, in any session, the one with the most completion tokens counts,
    where it is; the others cost nothing."""
    call = {"agent": "claude-code", "message_id": "m1", "request_id": "q1", "prompt_tokens": 10}
    log.append(
        event("llm", 1, session_id="s1", turn=1, **call, completion_tokens=3),
        event("llm", 2, session_id="s2", turn=1, **call, completion_tokens=9),
        event("llm", 3, session_id="s3", turn=1, **call, completion_tokens=9),
        event("llm", 4, session_id="s1", turn=1, completion_tokens=1),
        event("llm", 5, session_id="s1", turn=1, completion_tokens=1),
    )

    assert log.rows("SELECT event_id[-1:], session_id FROM llm_calls ORDER BY position") == [
        ("2", "s2"),
        ("4", "s1"),
        ("5", "s1"),
    ]
    assert log.rows("SELECT session_id, completion_tokens FROM turns ORDER BY ALL") == [
        ("s1", 2),
        ("s2", 9),
        ("s3", 0),
    ]


def test_a_better_row_in_the_tail_takes_a_call_from_an_indexed_session(log: Log) -> None:
    """P3, I21: a session that no newer event names still loses a call to a better row elsewhere."""
    call = {"agent": "claude-code", "message_id": "m1", "request_id": "q1"}
    log.append(event("llm", 1, session_id="s1", turn=1, **call, completion_tokens=3))
    log.seal()
    log.make_index()
    log.append(event("llm", 2, session_id="s2", turn=1, **call, completion_tokens=4))

    assert log.rows("SELECT session_id, completion_tokens FROM sessions ORDER BY 1") == [("s1", 0), ("s2", 4)]


def test_a_session_from_start_to_end(log: Log) -> None:
    """S1-18, S1-49, c2: the end adds status, time and summary; title, slug and start stay."""
    place: dict[str, Any] = {"session_id": "a1b2c3d4", "repo": "0123456789ab"}
    name = "session:fix-jwt_a1b2c3d4"
    log.append(
        event("session", 1, **place, operation="start", title="Fix", context_id=name, occurred_at=US),
        event("session", 2, **place, operation="end", occurred_at=US + 9_000_000)
        | {"payload": {"summary": "fixed", "end_reason": "rollover"}},
    )
    found = row(log, "SELECT * FROM sessions")

    assert (found["context_id"], found["slug"], found["title"]) == (name, "fix-jwt", "Fix")
    assert (found["status"], found["end_reason"], found["summary"]) == ("closed", "rollover", "fixed")
    assert (found["started_at"], found["ended_at"]) == (at(0), at(9))
    assert found["extends"] == ["0123456789ab:sessions"]


def test_a_session_started_again_is_active_and_keeps_its_beginning(log: Log) -> None:
    """S1-20, P2: resuming re-opens a session; it began when it first began."""
    log.append(
        *(
            event("session", i, session_id="s1", operation=operation, occurred_at=US + i * 1_000_000)
            for i, operation in enumerate(("start", "end", "start"))
        )
    )
    found = row(log, "SELECT status, started_at, ended_at, opened_position FROM sessions")

    assert found == {"status": "active", "started_at": at(0), "ended_at": None, "opened_position": 2}


def test_a_continued_session_extends_the_old_one_to_its_end(log: Log) -> None:
    """S1-58: links add up; the end, which names the master alone, does not cut the old session off."""
    links = ["r1:sessions", "session:old_s0"]
    log.append(
        event("session", 1, session_id="s1", operation="start", repo="r1", extends=links),
        event("session", 2, session_id="s1", operation="end", repo="r1", extends=["r1:sessions"]),
    )

    assert row(log, "SELECT extends FROM sessions") == {"extends": links}


def test_the_master(log: Log) -> None:
    """S1-17, S1-19, S1-50: it exists before any session; then it names the most recent active one."""
    log.append(event("sessions", 1, operation="start", repo="r1", title="locus", extends=["knowledge:l_r1"]))
    empty = row(log, "SELECT * FROM sessions_master")
    log.append(
        event("session", 2, session_id="s1", operation="start", repo="r1", agent="codex"),
        event("session", 3, session_id="s2", operation="start", repo="r1", agent="claude-code"),
    )
    two = row(log, "SELECT * FROM sessions_master")
    log.append(event("session", 4, session_id="s2", operation="end", repo="r1"))
    one = row(log, "SELECT * FROM sessions_master")

    assert (empty["context_id"], empty["project_name"]) == ("r1:sessions", "locus")
    assert (empty["active_session"], empty["total_sessions"]) == (None, 0)
    assert (two["active_session"], two["active_sessions"]) == ("session:session-s2_s2", 2)
    assert (one["active_session"], one["total_sessions"]) == ("session:session-s1_s1", 2)


def test_trees_of_a_turn(log: Log) -> None:
    """S1-24, S1-37: the first snapshot is the turn's start, the last its end."""
    log.append(
        turn(1, "start"),
        *(
            event("snapshot", 10 + i, session_id="a1b2c3d4", tree_hash=tree)
            for i, tree in enumerate(("blake3:01", "blake3:02", None, "blake3:03"))
        ),
    )

    assert row(log, "SELECT start_tree, end_tree FROM turns") == {
        "start_tree": "blake3:01",
        "end_tree": "blake3:03",
    }


def test_decisions_of_a_turn_that_names_none(log: Log) -> None:
    """S1-47: the titles of the decision events, in order, stand in for a list that is not given."""
    log.append(
        turn(1, "start"),
        event("decision", 2, session_id="a1b2c3d4", title="second thoughts"),
        event("decision", 3, session_id="a1b2c3d4", title="a plan"),
        turn(4, "end", payload={"decisions": []}),
    )

    assert row(log, "SELECT decisions FROM turns") == {"decisions": ["second thoughts", "a plan"]}


def test_turns_past_999(log: Log) -> None:
    """S1-11, c7: numbers grow past three digits, and order by number is the order of turns."""
    log.append(*(event("turn", n, session_id="s1", turn=n, operation="start") for n in (2, 999, 1000)))

    assert log.rows("SELECT turn_id, context_id FROM turns ORDER BY turn") == [
        ("002", "turn:s1_002"),
        ("999", "turn:s1_999"),
        ("1000", "turn:s1_1000"),
    ]
