"""Requests, links and summaries: what goes in comes out, and what is wrong is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base import names
from eventlog.base.errors import EventLogError, InvalidEvent
from eventlog.recorder import requests as r

_texts = st.lists(st.text(max_size=5), max_size=3).map(tuple)
_payloads = st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3)


@given(
    st.builds(
        r.CreateEventRequest,
        event_kind=st.sampled_from(list(r.EventKind)),
        payload=_payloads,
        context_id=st.none() | st.text(max_size=5),
        source=st.none() | st.text(max_size=5),
        related_to=st.none() | _texts,
        extends=st.none() | _texts,
        reinforces=st.none() | _texts,
        contradicts=st.none() | _texts,
        timestamp=st.none() | st.text(max_size=5),
    )
)
def test_a_request_survives_its_dict(request: r.CreateEventRequest) -> None:
    """S0-3: a request read back from its dict is the same request; what is absent is left out."""
    data = request.to_dict()

    assert r.CreateEventRequest.from_dict(data) == request
    assert None not in [value for name, value in data.items() if name != "payload"]
    assert type(data["event_kind"]) is str


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"event_kind": "fct", "payload": {}}, "fact, action, decision, observation, feedback"),
        ({"payload": {}}, "event_kind"),
        ({"event_kind": "fact"}, "payload"),
        ({"event_kind": "fact", "payload": []}, "payload"),
        ({"event_kind": "fact", "payload": {}, "graph": "g"}, "graph"),
        ({"event_kind": "fact", "payload": {}, "extends": "turn:a_1"}, "extends"),
        ({"event_kind": "fact", "payload": {}, "extends": [1]}, "extends"),
        ({"event_kind": "fact", "payload": {}, "timestamp": 5}, "timestamp"),
    ],
)
def test_a_wrong_request_is_refused(data: dict[str, object], words: str) -> None:
    """S0-3: the client's error has one equivalent, EventLogError; the message names what is wrong."""
    with pytest.raises(InvalidEvent, match=words) as caught:
        r.CreateEventRequest.from_dict(data)

    assert isinstance(caught.value, EventLogError)


def test_links_are_merged_list_by_list() -> None:
    """S0-3: builders add, merge concatenates each list, a request takes links after its own."""
    links = r.EventLinks().with_extends("turn:a_001").with_related_to("action:editor", "fact:tools")
    merged = links.merge(r.EventLinks(("decision:decisions",), (), ("fact:a",), ("fact:b",)))
    request = r.CreateEventRequest(r.EventKind.FACT, {}, extends=("turn:a_000",)).with_links(links)

    assert merged.related_to == ("action:editor", "fact:tools", "decision:decisions")
    assert (merged.extends, merged.reinforces, merged.contradicts) == (
        ("turn:a_001",),
        ("fact:a",),
        ("fact:b",),
    )
    assert request.extends == ("turn:a_000", "turn:a_001")
    assert request.related_to == ("action:editor", "fact:tools")
    assert request.reinforces is None


@given(
    st.builds(
        r.TurnSummary,
        title=st.text(max_size=5),
        user_request=st.text(max_size=5),
        actions_taken=_texts,
        outcome=st.text(max_size=5),
        decisions=_texts,
        files_read=_texts,
        files_modified=_texts,
        event_count=st.none() | st.integers(min_value=0, max_value=2**32 - 1),
    )
)
def test_a_turn_summary_survives_its_dict(summary: r.TurnSummary) -> None:
    """S0-8: eight fields, both ways; a count that is unknown is left out."""
    data = summary.to_dict()

    assert r.TurnSummary.from_dict(data) == summary
    assert len(data) == 8 - (summary.event_count is None)


@pytest.mark.parametrize(
    "data", [{}, {"title": 1}, {"title": "t", "decisions": "d"}, {"title": "t", "event_count": -1}]
)
def test_a_wrong_turn_summary_is_refused(data: dict[str, object]) -> None:
    """S0-8: a summary without a title or with values of other types says so."""
    with pytest.raises(InvalidEvent):
        r.TurnSummary.from_dict(data)


def test_the_constants_of_the_contexts() -> None:
    """S0-5, S0-6: the subjects keep their ids, each with the event kind in front, sessions included."""
    assert {name: value for name, value in vars(r).items() if name.startswith("CONTEXT_")} == {
        "CONTEXT_DECISIONS": "decision:decisions",
        "CONTEXT_EDITOR": "action:editor",
        "CONTEXT_ERRORS": "observation:errors",
        "CONTEXT_SESSIONS": "fact:sessions",
        "CONTEXT_TERMINAL": "action:terminal",
        "CONTEXT_TOOLS": "fact:tools",
        "CONTEXT_USER_INTENT": "observation:user_intent",
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("fact:Redis Caching", "fact:redis_caching"),
        (" session:fix-jwt-refresh_A1b2C3d4 ", "session:fix-jwt-refresh_a1b2c3d4"),
        ("a:b:c", "a:b_c"),
        ("knowledge:My Project!_abc/123", "knowledge:my_project__abc_123"),
        ("naïve:café", "na_ve:caf_"),
        ("action:llm_claude-3.5", "action:llm_claude-3_5"),
        ("abc123:sessions", "abc123:sessions"),
        ("editor", "editor"),
        (":x", "x"),
        ("x:", "x"),
        ("::", ""),
        ("", ""),
        ("Fact Only!", "factonly"),
    ],
)
def test_context_ids_are_sanitised(given: str, expected: str) -> None:
    """S0-2: two layers, lower case, `_` for what is not allowed; without two layers the rest is dropped."""
    assert names.sanitize_context_id(given) == expected


@given(st.text(max_size=20))
def test_a_sanitised_id_is_its_own(text: str) -> None:
    """S0-2, S0-22: sanitising twice is as once, and never leaves more than one colon."""
    once = names.sanitize_context_id(text)

    assert names.sanitize_context_id(once) == once
    assert once.count(":") <= 1
