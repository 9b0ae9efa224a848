"""The journal line: what it keeps verbatim, what it refuses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, InvalidEvent
from eventlog.base.jsontext import decode, encode, encode_fast, encode_without_floats
from eventlog.base.types import BOOL, COLUMN_KINDS, ENVELOPE_NAMES, INT, LIST, TEXT, TIME
from eventlog.log import line
from eventlog.log.line import decode_line, encode_line

INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES = {
    INT: INT64,
    TIME: INT64,
    TEXT: st.text(),
    BOOL: st.booleans(),
    LIST: st.lists(st.text(), max_size=3),
}
PAYLOADS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | INT64 | st.floats() | st.text(), lambda x: st.lists(x, max_size=3)
    ),
    max_size=4,
)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(ENVELOPE_NAMES), unique=True, max_size=8))
    event: dict[str, Any] = {name: draw(st.none() | VALUES[COLUMN_KINDS[name]]) for name in names}
    event["event_id"] = draw(st.binary(min_size=16, max_size=16)).hex()
    for name in ("event_type", "event_kind", "source"):
        event[name] = draw(st.text(min_size=1))
    event["payload"] = draw(PAYLOADS)
    return event


def an_event(**more: object) -> dict[str, object]:
    event = {"event_id": "0" * 32, "event_type": "action", "event_kind": "action", "source": "executor"}
    return {**event, **more}


@given(events())
def test_decoding_gives_back_the_columns_and_the_payload_bytes(event: dict[str, Any]) -> None:
    """A line holds every known column without the nulls, and the payload exactly as it was encoded (§3)."""
    line = encode_line(event)
    envelope, payload = decode_line(line)
    expected = {name: value for name, value in event.items() if value is not None and name != "payload"}
    expected.setdefault("schema_version", 1)

    assert decode(encode(expected)) == envelope
    assert encode(event["payload"]) == payload
    assert line == b"\t".join((encode(envelope), payload))


@given(events())
def test_a_line_is_one_line_and_holds_one_tab(event: dict[str, Any]) -> None:
    """Whatever text an event holds, tab and newline stay separators (§3)."""
    line = encode_line(event)

    assert line.count(b"\t") == 1
    assert b"\n" not in line
    line.decode("utf-8")


@given(events())
def test_both_encoders_make_the_same_line(event: dict[str, Any]) -> None:
    """Hook and importer write the same bytes, so one event has one spelling."""
    assert encode_line(event) == encode_line(event, encode_fast)
    assert encode_line(event) == encode_line(event, encode_fast, encode_without_floats)


def test_columns_may_come_in_any_order() -> None:
    """The order of the caller's dict changes nothing of what is read back; nulls are left out."""
    event = an_event(path="a", repo="r", turn=3, title=None)
    turned = dict(reversed(event.items()))

    assert decode_line(encode_line(turned)) == decode_line(encode_line(event))
    assert "title" not in decode_line(encode_line(turned))[0]


def test_a_missing_payload_is_an_empty_object() -> None:
    """An event without a payload reads back as one with `{}`."""
    assert encode_line(an_event()).endswith(b"\t{}")
    assert encode_line(an_event(payload=None)).endswith(b"\t{}")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"event_id": None}, "event_id"),
        ({"event_id": "0" * 31}, "event_id"),
        ({"event_id": "G" * 32}, "event_id"),
        ({"event_id": "A" * 32}, "lower-case"),
        ({"event_id": 7}, "event_id"),
        ({"event_type": ""}, "event_type"),
        ({"event_kind": None}, "event_kind"),
        ({"source": ""}, "source"),
        ({"position": 1}, "assigned by the log"),
        ({"colour": "red"}, "unknown column colour"),
        ({"turn": "3"}, "turn"),
        ({"turn": True}, "turn"),
        ({"turn": 2**63}, "64 bits"),
        ({"success": 1}, "true or false"),
        ({"occurred_at": 1.5}, "microseconds"),
        ({"title": b"x"}, "title"),
        ({"extends": "session:a"}, "list of text"),
        ({"blobs": ["a", 1]}, "list of text"),
        ({"payload": []}, "JSON object"),
        ({"payload": {"a": b"bytes"}}, "cannot be written as JSON"),
        ({"payload": {"a": {1, 2}}}, "cannot be written as JSON"),
    ],
)
def test_an_event_that_breaks_the_rules_is_refused(more: dict[str, object], says: str) -> None:
    """InvalidEvent names the column and what it wants; nothing is guessed."""
    with pytest.raises(InvalidEvent, match=says):
        encode_line(an_event(**more))


def test_of_many_events_of_one_shape_each_name_and_type_is_checked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What an append pays for its walls does not grow with the columns of each event (S1-42)."""
    looked_at: list[str] = []
    line._shapes.clear()
    check = line._check
    monkeypatch.setattr(line, "_check", lambda name, *more: (looked_at.append(name), check(name, *more)))
    for number in range(50):
        encode_line(an_event(turn=number, title=f"number {number}", extends=["a"], branch="b"))
    assert len(looked_at) == len(set(looked_at)) == len(an_event()) + 5  # and schema_version


@pytest.mark.parametrize(
    "right, wrong",
    [
        ({"turn": 1}, {"turn": 2**63}),
        ({"turn": 1}, {"turn": True}),
        ({"extends": ["a"]}, {"extends": ["a", 1]}),
        ({"title": "a"}, {"title": 1}),
        ({"duration_ms": 1}, {"duration_ms": -1}),
        ({"path": "a"}, {"path": "../a"}),
        ({"blobs": ["blake3:" + "0" * 64]}, {"blobs": [[]]}),
        ({"payload": {}}, {"payload": {"after_size": -1}}),
    ],
)
def test_an_event_is_refused_after_one_of_the_same_shape(
    right: dict[str, object], wrong: dict[str, object]
) -> None:
    """I38: what was checked once for all events of a shape says nothing of their values and types."""
    encode_line(an_event(event_type="file", **right), named={})
    with pytest.raises(InvalidEvent):
        encode_line(an_event(event_type="file", **wrong), named={})


def test_a_payload_that_holds_itself_is_refused() -> None:
    """A circular payload ends in InvalidEvent, not in an endless encoder."""
    payload: dict[str, object] = {}
    payload["self"] = payload
    with pytest.raises(InvalidEvent):
        encode_line(an_event(payload=payload))


@given(st.binary(max_size=80))
def test_decoding_noise_raises_corruption_only(noise: bytes) -> None:
    """I11: bytes that are no line give a value or Corruption, never another error."""
    try:
        decode_line(noise)
    except Corruption:
        pass


def test_deeply_nested_noise_raises_corruption() -> None:
    """I11: an envelope nested a million deep is Corruption, not a crash of the interpreter."""
    with pytest.raises(Corruption):
        decode_line(b"[" * 1_000_000 + b"\t{}")
