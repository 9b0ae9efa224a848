"""From a request to an event: places, payloads, times."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base import names
from eventlog.base.errors import InvalidEvent
from eventlog.recorder.hooks import Hooks
from eventlog.recorder.placement import ContextLocation, event_of, location_of, session_id_given, time_given
from eventlog.recorder.requests import CreateEventRequest, EventKind, EventLinks
from eventlog.store import Store

SID = "a1b2c3d4"
SESSION = f"session:fix-jwt-refresh_{SID}"
_ids = st.text("0123456789abcdefghijklmnopqrstuvwxyz", min_size=8, max_size=8)
_KEYS = ("kind", "data", "title", "status", "tool", "path", "duration_ms", "success", "prompt_tokens")
_numbers = st.integers(min_value=0, max_value=10**12)


@given(st.sampled_from(["action", "mcp_action", "file", "x-y"]), _ids, _numbers, _numbers)
def test_names_of_ours_are_parsed_from_the_right(kind: str, sid: str, turn: int, seq: int) -> None:
    """S1-7, S1-8, S1-11: an id that we make leads back to its session, turn and number."""
    assert location_of(names.event_context(kind, sid, turn, seq)) == ContextLocation(kind, sid, turn, seq)
    assert location_of(names.turn_context(sid, turn)) == ContextLocation("turn", sid, turn)
    assert location_of(names.session_context(f"{kind}-of_it", sid)) == ContextLocation("session", sid)


@pytest.mark.parametrize(
    "context_id",
    [
        "fact:sessions",
        "fact:tools",
        "decision:decisions",
        "action:terminal_bash",
        "action:test_tests_a_py",
        "action:test_001_002",
        "action:a1b2c3d4_1_2",
        "action:a1b2c3d4_0001_002",
        "turn:a1b2c3d4",
        "turn:a1b2c3d4_001_002",
        "session:short_abc",
        "editor",
        "knowledge:locus_0123456789ab",
    ],
)
def test_other_names_are_nobodys_place(context_id: str) -> None:
    """S0-7, S1-4: what only looks like a place of ours is a context of its own."""
    assert location_of(context_id) is None


def store_and_read(store: Store, request: CreateEventRequest, **columns: Any) -> dict[str, Any]:
    position = Hooks(store, agent="script").strict.store_event(request, **columns).position
    return next(iter(store.events(position, position + 1)))


def test_a_request_is_stored_as_it_came(store: Store) -> None:
    """S0-2, S0-16: the payload verbatim, the context id in its two layers, links, source, time."""
    payload = {"kind": "anything", "data": {"deep": [1, None, {"x": "ü"}]}, "tool": 7}
    links = EventLinks(("editor", "  "), ("a:b:c",), ("fact:X Y",), ("fact:z",))
    request = CreateEventRequest(
        EventKind.FACT, payload, "Skill:My Way", "validator", timestamp="2026-03-01T12:00:00+01:00"
    ).with_links(links)
    event = store_and_read(store, request)

    assert event["payload"] == payload
    assert (event["context_id"], event["event_type"], event["event_kind"], event["source"]) == (
        "skill:my_way",
        "skill",
        "fact",
        "validator",
    )
    assert (event["related_to"], event["extends"]) == (["editor"], ["a:b_c"])
    assert (event["reinforces"], event["contradicts"]) == (["fact:x_y"], ["fact:z"])
    assert datetime.fromtimestamp(event["occurred_at"] / 1e6, UTC).isoformat() == "2026-03-01T11:00:00+00:00"
    assert (event["session_id"], event["turn"], event["tool"]) == (None, None, None)


def test_a_request_finds_its_turn(store: Store) -> None:
    """S0-2, S1-8, S1-28: the context id says session, turn and number, the payload the typed columns."""
    request = CreateEventRequest(
        EventKind.ACTION, {"model": "m", "prompt_tokens": 9, "completion_tokens": 2}, f"llm:{SID}_002_005"
    )
    event = store_and_read(store, request)

    assert (event["session_id"], event["turn"], event["turn_id"], event["seq"]) == (SID, 2, "002", 5)
    assert event["extends"] == [f"turn:{SID}_002"]
    assert store.query("select prompt_tokens, completion_tokens, tokens_used from turns").rows == [(9, 2, 11)]


LIFE = [
    (f"{'0123456789ab'}:sessions", {"active_session": None, "total_sessions": 0}, "sessions_master"),
    (SESSION, {"title": "Fix it", "slug": "fix-jwt-refresh", "status": "active"}, "session_start"),
    (f"turn:{SID}_001", {"status": "active", "user_message": "Fix it"}, "turn_start"),
    (f"turn:{SID}_001", {"status": "completed", "title": "Fixed", "outcome": "ok"}, "turn_end"),
    (SESSION, {"status": "closed", "summary": "done", "turn_count": 1}, "session_end"),
]


@pytest.mark.slow
@pytest.mark.parametrize("enveloped", [False, True])
def test_lifecycle_requests_move_the_anchors(store: Store, enveloped: bool) -> None:
    """S1-18, S1-23, S1-47, S1-49: flat or in the client's envelope, they say the same of the anchors."""
    for context_id, item, kind in LIFE:
        payload = {"kind": kind, "data": item} if enveloped else item
        store_and_read(store, CreateEventRequest(EventKind.FACT, payload, context_id))
    turn = store.query("select title, user_request, outcome, status from turns").rows
    session = store.query("select title, slug, status, summary, repo from sessions").rows

    assert turn == [("Fixed", "Fix it", "ok", "completed")]
    assert session == [("Fix it", "fix-jwt-refresh", "closed", "done", "0123456789ab")]
    assert store.query("select repo, active_session, total_sessions from sessions_master").rows == [
        ("0123456789ab", None, 1)
    ]


def test_a_session_update_changes_what_it_names(store: Store) -> None:
    """S0-13, S1-48: running totals written by a client end nothing and null nothing."""
    store_and_read(
        store, CreateEventRequest(EventKind.FACT, {"title": "Fix it", "status": "active"}, SESSION)
    )
    update = {"status": "active", "turn_count": 3, "totals": {"events": 5}}
    event = store_and_read(store, CreateEventRequest(EventKind.FACT, update, SESSION))

    assert event["operation"] == "update"
    assert store.query("select title, status, ended_at from sessions").rows == [("Fix it", "active", None)]


@pytest.mark.parametrize(
    ("context_id", "kind", "expected"),
    [
        ("editor", EventKind.ACTION, ("action:editor", "action")),
        (None, EventKind.FACT, (None, "fact")),
        (" :: ", EventKind.FACT, (None, "fact")),
        ("turn:odd", EventKind.OBSERVATION, ("turn:odd", "observation")),
        ("fact:tools", EventKind.FACT, ("fact:tools", "fact")),
    ],
)
def test_an_event_outside_of_turns(
    context_id: str | None, kind: EventKind, expected: tuple[Any, Any]
) -> None:
    """S0-22: an id without a type gets the kind as its type; nothing poses as an anchor."""
    event = event_of(CreateEventRequest(kind, {}, context_id), "r")

    assert (event.get("context_id"), event["event_type"]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1772366400", 1772366400_000000),
        ("1772366400.25", 1772366400_250000),
        ("-1.5", -1_500000),
        ("2026-03-01T12:00:00Z", 1772366400_000000),
        ("2026-03-01T12:00:00", 1772366400_000000),
        ("2026-03-01", 1772323200_000000),
    ],
)
def test_times_of_requests(text: str, expected: int) -> None:
    """S0-2: ISO 8601, UTC where no zone is given, or seconds since 1970."""
    assert time_given(text) == expected


@given(st.text(max_size=20))
def test_no_time_crashes(text: str) -> None:
    """S0-2: any text is a time or a refusal."""
    try:
        assert isinstance(time_given(text), int)
    except InvalidEvent:
        pass


@given(
    st.dictionaries(
        st.sampled_from(_KEYS),
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=3)
        | st.dictionaries(st.text(), st.none()),
    ),
    st.sampled_from([SESSION, f"turn:{SID}_001", f"llm:{SID}_001_001", "ab:sessions", "skill:x", None]),
)
def test_any_payload_makes_an_event(payload: dict[str, Any], context_id: str | None) -> None:
    """S0-2, P7: a payload of odd shape is stored; what has another type than a column fills none."""
    from eventlog.log.line import encode_line

    event = event_of(CreateEventRequest(EventKind.FACT, payload, context_id), "r")

    assert encode_line({"event_id": "0" * 32, "source": "system", **event})


@pytest.mark.parametrize("text", ["a1b2c3d4", "sess-a1b2c3d4", " A1B2C3D4 ", "sess-A1B2c3d4"])
def test_a_session_id_has_an_alias(text: str) -> None:
    """S1-10: `sess-` before an id means the same session."""
    assert session_id_given(text) == SID
