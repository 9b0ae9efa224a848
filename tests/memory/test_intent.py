"""What sessions are about: how it is stated, who is active, what becomes of those that nobody ended."""

import errno
import json

import pytest

from eventlog.base.errors import InvalidEvent, NotFound
from eventlog.base.fs import FileSystem
from eventlog.memory import intent
from eventlog.memory.engram import EngramStore, Event, Session, compact
from eventlog.memory.intent import STALE_SESSION_HOURS
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from locus_cli.main import run

HOUR_US = 3_600_000_000
AUTH, TESTS = "refactoring auth module", "adding tests"


def begun(store: Store, agent: str, at_us: int, session: str, operation: str = "start") -> None:
    """What a hook appends when an agent's session begins."""
    store.append(
        [
            {
                "event_type": "session",
                "event_kind": "fact",
                "source": "system",
                "operation": operation,
                "status": "active",
                "agent": agent,
                "agent_session_id": session,
                "repo": store.repo_hash,
                "occurred_at": at_us,
                "payload": {"source": "startup", "hook_us": 900},
            }
        ]
    )


def test_an_intent_is_stated_when_a_session_begins_and_read_from_the_log(store: Store) -> None:
    """S3-1, S3-2, S3-12, P2: focus, scope and description are in the start event, and nowhere else."""
    one = intent.start(
        store, "claude-code", AUTH, ["src/auth/", "src\\login.py", "src/auth/"], "for the audit"
    )
    event = store.event(one.event_id)

    assert one.name == f"sess-{one.session_id}" and len(one.session_id) == 8
    assert (one.agent, one.focus, one.declared) == ("claude-code", AUTH, True)
    assert (one.scope, one.description) == (("src/auth/", "src/login.py"), "for the audit")
    assert (one.is_active, one.ended_us) == (True, None)
    payload = event["payload"]
    assert isinstance(payload, dict)
    assert [payload[name] for name in ("focus", "scope", "description")] == [
        AUTH,
        ["src/auth/", "src/login.py"],
        "for the audit",
    ]
    store.seal()
    assert intent.find(store, one.name) == one
    store.rebuild()
    assert intent.listed(store) == [one]


def test_no_scope_and_an_empty_one_are_the_same(store: Store) -> None:
    """S3-33, S3-37: a focus alone will do; an empty list of paths is no scope."""
    assert intent.start(store, "a", AUTH).scope is None
    assert intent.start(store, "b", AUTH, []).scope is None
    assert intent.start(store, "c", AUTH, ["", "./"]).scope is None
    listed = [event["payload"] for event in store.events(event_types=["session"])]
    keys = [list(payload) for payload in listed if isinstance(payload, dict)]
    assert keys == [["slug", "session_id", "focus"]] * 3


def test_one_session_of_an_agent_is_active(store: Store) -> None:
    """S3-3, S3-9, S3-16, S3-32, S3-35: a new focus is a new session; who shares an agent's name shares it."""
    first = intent.start(store, "claude-code", AUTH)
    other = intent.start(store, "cursor", TESTS)
    second = intent.start(store, "claude-code", "speeding up the parser")

    assert {one.name for one in intent.listed(store)} == {second.name, other.name}
    assert intent.active_of(store, "claude-code") == second
    assert intent.active_of(store, "nobody") is None
    closed = intent.find(store, first.name)
    assert (closed.status, closed.end_reason, closed.focus) == ("closed", "superseded", AUTH)
    assert [one.name for one in intent.listed(store, active_only=False, agent="claude-code")] == [
        second.name,
        first.name,
    ]


def test_a_session_of_a_hook_ends_the_one_before_and_takes_over_what_was_declared(store: Store) -> None:
    """S3-3, S3-21, S3-32: the focus is the project's name where nobody named one, no scope; one per agent is
    active."""
    begun(store, "claude-code", 10, "first")
    (first,) = intent.at_work(store)
    assert (first.focus, first.scope, first.declared) == ("locus", None, False)

    reported = intent.start(store, "codex", AUTH, ["src/auth/"])
    begun(store, "codex", reported.opened_us or 0, "theirs")
    begun(store, "claude-code", 20, "second")
    active = {one.agent_session_id: one for one in intent.at_work(store)}

    assert set(active) == {"theirs", "second"}
    assert (active["theirs"].focus, active["theirs"].scope) == (AUTH, ("src/auth/",))
    over = intent.find(store, first.name)
    assert (over.end_reason, over.ended_us) == ("superseded", 20)


def test_what_sessions_are_about_is_in_sql(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """S3-2: `locus sql` has focus, scope and description of sessions, those handed on too; null where nobody
    declared any."""
    begun(store, "claude-code", 10, "first")
    reported = intent.start(store, "codex", AUTH, ["src/auth/", "a.py"], "for the audit")
    begun(store, "codex", reported.opened_us or 0, "theirs")
    over = intent.start(store, "cursor", TESTS)
    intent.end(store, over)
    begun(store, "cursor", intent.now_us(store), "later")

    def asked(query: str) -> list[list[object]]:
        assert run(["--store", store.layout.root, "sql", "--json", query]) == 0
        return [list(row.values()) for row in json.loads(capsys.readouterr().out)]

    about = [AUTH, ["src/auth/", "a.py"], "for the audit"]
    assert asked("select agent, focus, scope, description from sessions order by opened_position") == [
        ["claude-code", None, None, None],
        ["codex", *about],
        ["codex", *about],
        ["cursor", TESTS, None, None],
        ["cursor", None, None, None],
    ]
    assert asked("select agent from sessions where list_contains(scope, 'a.py') and turn_count = 0") == [
        ["codex"], ["codex"],
    ]  # fmt: skip
    declared = {one.session_id: one.focus for one in intent.listed(store, active_only=False) if one.declared}
    assert dict(asked("select session_id, focus from sessions where focus is not null")) == declared


def test_a_session_that_goes_on_after_another_of_its_agent_began_is_at_work_too(store: Store) -> None:
    """S3-35: two windows of one agent see each other, once both of them do something."""
    begun(store, "claude-code", 10, "first")
    begun(store, "claude-code", 20, "second")
    recorder = Recorder(store, agent="claude-code", agent_session_id="first")
    recorder.resume()
    recorder.start_turn("Fix the parser")

    assert {one.agent_session_id for one in intent.at_work(store)} == {"first", "second"}


def test_a_session_that_nobody_ended_is_over_24_hours_after_it_began(store: Store) -> None:
    """S3-10, S3-30, S3-31, S3-34: strictly older; ended as of then, once, however many ask."""
    begun(store, "claude-code", 1_000, "crashed")
    limit = 1_000 + STALE_SESSION_HOURS * HOUR_US

    assert intent.end_stale(store, limit) == 0
    assert [one.is_active for one in intent.listed(store)] == [True]
    with Store.open(store.layout.root) as other:
        found_too = intent.stale_ends(other, intent.listed(other), limit + 1)
        assert intent.end_stale(store, limit + 1) == 1
        other.append(found_too)
    assert intent.end_stale(store, limit + 1) == 0
    (over,) = intent.listed(store, active_only=False)
    assert (over.status, over.end_reason, over.started_us, over.ended_us) == ("closed", "stale", 1_000, limit)
    assert sum(event["operation"] == "end" for event in store.events(event_types=("session",))) == 1


def test_a_session_that_is_opened_again_has_another_24_hours(store: Store) -> None:
    """S3-30: they count from where it was opened last."""
    day = STALE_SESSION_HOURS * HOUR_US
    begun(store, "claude-code", 1_000, "one")
    assert intent.end_stale(store, 1_001 + day) == 1
    begun(store, "claude-code", 2 * day, "one", "resume")

    assert intent.end_stale(store, 3 * day) == 0
    (again,) = intent.listed(store)
    assert (again.started_us, again.opened_us) == (1_000, 2 * day)
    assert intent.end_stale(store, 3 * day + 1) == 1


def test_an_imported_history_does_not_become_stale(store: Store) -> None:
    """S3-30: a group of commits waits for more of them; nobody is at work in it."""
    begun(store, "git", 1_000, "group")

    assert intent.end_stale(store, 10**16) == 0
    assert intent.at_work(store) == []


def test_what_another_session_followed_stays_over_when_that_one_ends(store: Store) -> None:
    """S3-32: a declared session that its agent's own came after is over, also when that one has ended."""
    reported = intent.start(store, "claude-code", AUTH)
    begun(store, "claude-code", intent.now_us(store), "theirs")
    for _ in range(2):
        (only,) = intent.listed(store, active_only=False, agent="claude-code")[:1]
        assert only.agent_session_id == "theirs" and only.declared
        over = intent.find(store, reported.session_id)
        assert (over.status, over.end_reason) == ("closed", "superseded")
        assert [one.session_id for one in intent.listed(store)] == [only.session_id] * only.is_active
        if only.is_active:
            intent.end(store, only)
    assert intent.active_of(store, "claude-code") is None


def test_events_have_no_session_where_none_is_active(store: Store) -> None:
    """S3-4, S3-22, S3-36: an event is taken with and without one; nothing waits for a session."""
    engram = EngramStore(store)
    bare = engram.insert(Event("warning", "claude-code", "the disk is nearly full"))
    begun_ = engram.insert_session(Session("", "claude-code", AUTH))
    tagged = engram.insert(
        Event("mutation", "claude-code", "split it", ["src/auth/a.py"], session_id=begun_.id)
    )

    assert bare.session_id is None and store.event(bare.id)["session_id"] is None
    assert tagged.session_id == begun_.id
    assert f"sess-{store.event(tagged.id)['session_id']}" == begun_.id


def test_the_calls_of_engrams_store(store: Store) -> None:
    """S3-5…S3-11, S3-39, S3-40: insert, get, end, list, active, clean up, and events that name a session."""
    engram = EngramStore(store)
    one = engram.insert_session(
        Session("sess-a1b2c3d4", "claude-code", AUTH, ["src/auth/"], "2026-02-01T10:00:00Z", None, "why")
    )
    two = engram.insert_session(Session("sess-e5f6a7b8", "cursor", TESTS, []))

    assert one == Session(
        "sess-a1b2c3d4", "claude-code", AUTH, ["src/auth/"], "2026-02-01T10:00:00.000000Z", None, "why"
    )
    assert two.scope is None and two.started_at.endswith("Z")
    assert engram.get_session("sess-a1b2c3d4") == one
    assert engram.get_session("sess-a1b2") is None and engram.get_session("sess-00000000") is None
    assert engram.get_active_session("claude-code") == one
    assert {s.id for s in engram.list_sessions()} == {one.id, two.id}
    assert [s.id for s in engram.list_sessions(agent_id="cursor")] == [two.id]
    assert compact([one, two]) == (
        f'[sess-a1b2c3d4] claude-code: "{AUTH}" (src/auth/)\n[sess-e5f6a7b8] cursor: "{TESTS}"'
    )

    ended = engram.end_session(two.id, "2099-02-01T11:00:00+01:00")
    assert ended.ended_at == "2099-02-01T10:00:00.000000Z"
    assert engram.end_session(two.id) == ended
    with pytest.raises(NotFound, match=r"^Session not found: sess-00000000$"):
        engram.end_session("sess-00000000")
    assert engram.cleanup_stale_sessions() == 1
    (stale,) = [s for s in engram.list_sessions(active_only=False) if s.id == one.id]
    assert stale.ended_at == "2026-02-02T10:00:00.000000Z"
    assert engram.list_sessions() == [] and engram.get_active_session("claude-code") is None
    three = engram.insert_session(Session("", "cursor", TESTS))
    reported = engram.insert(Event("discovery", "cursor", "it is slow", ["src/a.py"], session_id=three.id))
    kept = store.event(reported.id)
    assert reported.session_id == three.id == f"sess-{kept['session_id']}" and kept["path"] == "src/a.py"
    assert (engram.cleanup_stale_sessions(1), engram.cleanup_stale_sessions(-1)) == (0, 1)
    with pytest.raises(InvalidEvent, match="discovery"):
        engram.insert(Event("rumour", "a", "b"))
    with pytest.raises(InvalidEvent):
        engram.insert_session(Session("", "a", ""))


def test_a_user_who_may_only_read_may_ask(store: Store) -> None:
    """S3-29: a store that takes no event still tells who is active."""
    begun(store, "claude-code", 1_000, "crashed")
    with Store.open(store.layout.root, fs=ReadOnly()) as reader:
        assert intent.end_stale(reader, 10**16) == 0
        assert len(intent.listed(reader)) == 1
    assert len(list(store.events())) == 1


class ReadOnly(FileSystem):
    """A disk that takes nothing: what a test that runs as root cannot get from permissions."""

    def pwrite(self, fd: int, data: "bytes | memoryview", offset: int) -> int:
        raise OSError(errno.EROFS, "Read-only file system")


def test_fields_are_json(store: Store) -> None:
    """S3-40: a session as JSON."""
    reported = intent.fields(intent.start(store, "claude-code", AUTH, ["src/"]))

    assert json.loads(json.dumps(reported)) == reported
    assert (reported["agent_id"], reported["focus"], reported["scope"], reported["ended_at"]) == (
        "claude-code",
        AUTH,
        ["src/"],
        None,
    )


def test_sql_and_commands_know_the_same_active_sessions(store: Store) -> None:
    """S1-19, S3-8: with two windows, a session that was left, and one that was resumed after its end."""
    reported = (
        ("a", "start"), ("b", "start"), ("a", "end"), ("a", "resume"), ("b", "note"), ("c", "start"),
        ("d", "start"), ("d", "end"),
    )  # fmt: skip
    for number, (session, operation) in enumerate(reported):
        begun(store, "codex", number + 1, session, operation)
        if number == 5:
            store.seal()
            store.rebuild()
        listed = {one.context_id for one in intent.listed(store)}
        newest, count = store.query("select active_session, active_sessions from sessions_master").rows[0]
        assert count == len(listed) == store.status().active_sessions, (number, listed)
        assert newest is None or newest in listed
