"""The recorder on a real store: sessions, turns and what their projections say."""

import pytest

from eventlog.base.errors import NotFound
from eventlog.blobs.ids import to_text
from eventlog.blobs.tree import FILE, TreeEntry
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store


def _row(store: Store, sql: str, *parameters: object) -> dict[str, object]:
    result = store.query(sql, list(parameters))
    assert len(result.rows) == 1, result.rows
    return dict(zip(result.columns, result.rows[0], strict=True))


def test_a_turn_is_recorded_whole(store: Store) -> None:
    """S1-1, S1-23, S1-24, S1-28…S1-37: anchor, then snapshot 001, intent 002, one counter for all types."""
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("Fix the JWT refresh bug in auth middleware")
    turn.action("pytest", {"args": ["tests"]}, {"exit": 1}, duration_ms=12, success=False)
    turn.error("TestFailure", "1 failed", resolved=False, tool="pytest")
    turn.decision("rotate tokens", "they leak", confidence=0.9, alternatives_considered=["expire"])
    turn.file("auth.py", before=b"old\n", after=b"new\n")
    turn.llm("m-1", prompt_tokens=100, completion_tokens=20, message_id="m1")
    turn.feedback("approval", "good")
    turn.end(title="Refresh fixed", outcome="tests pass")

    rows = store.timeline(turn.ref)
    named = [(row["event_type"], row["seq"], row["context_id"]) for row in rows]
    sid = turn.ref.session_id
    assert named == [
        ("turn", None, f"turn:{sid}_001"),
        ("snapshot", 1, f"snapshot:{sid}_001_001"),
        ("intent", 2, f"intent:{sid}_001_002"),
        ("action", 3, f"action:{sid}_001_003"),
        ("error", 4, f"error:{sid}_001_004"),
        ("decision", 5, f"decision:{sid}_001_005"),
        ("file", 6, f"file:{sid}_001_006"),
        ("llm", 7, f"llm:{sid}_001_007"),
        ("feedback", 8, f"feedback:{sid}_001_008"),
        ("turn", None, f"turn:{sid}_001"),
    ]
    assert {tuple(row["extends"]) for row in rows if row["event_type"] != "turn"} == {(f"turn:{sid}_001",)}


def test_the_anchor_merges_start_and_end(store: Store) -> None:
    """P2, S0-13, S1-47: writing the anchor again overrides key by key, and absent keys stay."""
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("Fix the JWT refresh bug")
    turn.file("auth.py", before=None, after=b"new\n")
    turn.llm("m-1", prompt_tokens=100, completion_tokens=20, message_id="m1")
    before = _row(store, "select status, completed_at from turns")
    turn.end(title="Refresh fixed", outcome="tests pass", decisions=["rotate"])
    after = _row(store, "select * from turns")

    assert before == {"status": "active", "completed_at": None}
    assert {k: after[k] for k in ("context_id", "turn", "turn_id", "title", "status", "outcome")} == {
        "context_id": turn.ref.context_id,
        "turn": 1,
        "turn_id": "001",
        "title": "Refresh fixed",
        "status": "completed",
        "outcome": "tests pass",
    }
    assert after["user_request"] == "Fix the JWT refresh bug"
    assert after["files_modified"] == ["auth.py"]
    assert after["event_count"] == 4
    assert after["started_at"] is not None
    assert after["completed_at"] is not None


def test_session_totals_accumulate_per_turn(store: Store) -> None:
    """S0-11, S1-18, S1-48, S1-49, S1-56: totals are sums and unions over turns, and survive the end."""
    recorder = Recorder(store, agent="script")
    for number in (1, 2):
        turn = recorder.start_turn(f"Improve module number {number}")
        turn.file("same.py", before=b"a", after=b"b")
        turn.action("sh", {})
        turn.llm("m", prompt_tokens=10, completion_tokens=number, message_id=f"m{number}")
        turn.error("E", "boom", resolved=number == 1)
        turn.end()
    recorder.end_session("done")
    session = _row(store, "select * from sessions")

    expected = {
        "status": "closed",
        "turn_count": 2,
        "tool_calls": 2,
        "llm_calls": 2,
        "prompt_tokens": 20,
        "completion_tokens": 3,
        "errors": 2,
        "errors_resolved": 1,
        "files_modified": ["same.py"],
        "summary": "done",
        "end_reason": "explicit",
        "events": 12,
    }
    assert {key: session[key] for key in expected} == expected
    assert session["started_at"] is not None
    assert session["title"] == "Improve module number 1"


@pytest.mark.slow
def test_the_master_is_made_once_and_follows_the_sessions(store: Store) -> None:
    """S1-17, S1-19, S1-50: the master exists once, counts sessions and names the active one."""
    recorder = Recorder(store, agent="script")
    session = recorder.start_session("First piece of work")
    during = _row(store, "select active_session, total_sessions from sessions_master")
    recorder.end_session()
    recorder.start_session("Second piece of work")
    recorder.end_session()
    after = _row(store, "select active_session, total_sessions from sessions_master")

    assert during == {"active_session": session.context_id, "total_sessions": 1}
    assert after == {"active_session": None, "total_sessions": 2}
    assert store.query("select count(*) from events where event_type = 'sessions'").rows == [(1,)]


def test_an_active_session_is_resumed(store: Store) -> None:
    """S1-20: another process of the same agent continues the session and its numbering."""
    first = Recorder(store, agent="script").start_turn("Fix the JWT refresh bug")
    second = Recorder(store, agent="script").start_turn("And the tests")

    assert (second.ref.session_id, first.ref.turn, second.ref.turn) == (first.ref.session_id, 1, 2)


def test_a_new_session_ends_the_one_before(store: Store) -> None:
    """S1-22, S3-32: asking for a new session closes the active one of the same agent only."""
    one = Recorder(store, agent="script").start_session("First piece of work")
    other = Recorder(store, agent="person").start_session("Work of somebody else")
    two = Recorder(store, agent="script").start_session("Second piece of work")

    status = dict(store.query("select session_id, status from sessions").rows)
    assert status == {one.session_id: "closed", other.session_id: "active", two.session_id: "active"}
    reason = _row(store, "select end_reason from sessions where session_id = $1", one.session_id)
    assert reason == {"end_reason": "superseded"}


def test_rollover_after_the_turn_limit(store: Store) -> None:
    """S1-58: the session closes at its limit and the next one extends the master and the old one."""
    recorder = Recorder(store, agent="script", turn_limit=2)
    turns = [recorder.start_turn(f"Step number {n} of the plan") for n in range(5)]

    numbers = [turn.ref.turn for turn in turns]
    sessions = [turn.ref.session_id for turn in turns]
    assert numbers == [1, 2, 1, 2, 1]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3] != sessions[4]
    old = store.query("select context_id, end_reason from sessions order by first_position").rows
    assert [row[1] for row in old] == ["rollover", "rollover", None]
    second = _row(store, "select extends from sessions where session_id = $1", sessions[2])
    assert second["extends"] == ["0123456789ab:sessions", old[0][0]]


def test_a_callers_own_numbers_win(store: Store) -> None:
    """S1-11: an explicit turn number moves the counter; the next turn follows it."""
    recorder = Recorder(store, agent="script")
    recorder.start_session("Numbered by the caller", session_id="a1b2c3d4")
    given = recorder.start_turn("jump", turn=7)
    following = recorder.start_turn("next")

    assert (given.ref.name, following.ref.name) == ("a1b2c3d4_007", "a1b2c3d4_008")


def test_numbers_do_not_change_when_sealed(store: Store) -> None:
    """I22: numbering is a fold of the log, so sealing and deleting the index change no number."""
    recorder = Recorder(store, agent="script")
    for n in range(3):
        turn = recorder.start_turn(f"Step number {n} of the plan")
        turn.action("sh", {"n": n})
        if n == 1:
            store.seal()
    before = [(e["event_id"], e["context_id"], e["seq"]) for e in store.events()]
    store.seal()
    store.rebuild()

    assert [(e["event_id"], e["context_id"], e["seq"]) for e in store.events()] == before


def test_content_is_stored_before_the_event_that_names_it(store: Store) -> None:
    """S1-39, S1-41, S1-44, S1-45: both contents of an edit can be read by hash; equal content once."""
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("Edit a file in place")
    turn.file("a.txt", before=b"one\n", after=b"two\n")
    turn.file("b.txt", before=None, after=b"two\n")
    events = [e for e in store.timeline(turn.ref) if e["event_type"] == "file"]

    assert [store.blob(str(events[0][k])) for k in ("before_hash", "after_hash")] == [b"one\n", b"two\n"]
    assert events[1]["after_hash"] == events[0]["after_hash"]
    assert store.status().packs == 1


def test_a_turn_replays_from_its_snapshots(store: Store, tmp_path) -> None:
    """P1, S1-43, S1-45: start and end of a turn are replayed from trees, a moment inside from events."""
    with store.blobs.writer() as writer:
        old = TreeEntry(b"a.txt", FILE, writer.put(b"one\n"), 4)
        new = TreeEntry(b"a.txt", FILE, writer.put(b"two\n"), 4)
        trees = [to_text(writer.put_tree([entry])) for entry in (old, new)]
        writer.flush()
    turn = Recorder(store, agent="script").start_turn("Edit a file", tree_hash=trees[0])
    turn.file("a.txt", before=b"one\n", after=b"two\n", payload={"after_mode": "f"})
    turn.snapshot_of(trees[1])
    edit = next(e for e in store.timeline(turn.ref) if e["event_type"] == "file")
    contents = []
    for at in ("start", str(edit["event_id"]), "end"):
        store.replay(turn.ref, tmp_path / at, at=at)
        contents.append((tmp_path / at / "a.txt").read_bytes())

    assert contents == [b"one\n", b"two\n", b"two\n"]


def test_ending_nothing_is_an_error(store: Store) -> None:
    """Ending a session that does not exist says so and writes nothing."""
    with pytest.raises(NotFound, match="no active session"):
        Recorder(store, agent="script").end_session()

    assert list(store.events()) == []
