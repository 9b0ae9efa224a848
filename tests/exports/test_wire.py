"""Names, links and limits of wire records."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.exports.locusgraph import wire
from eventlog.recorder.requests import LINK_NAMES
from tests.conftest import examples


@pytest.mark.parametrize(
    ("given_id", "on_the_wire"),
    [
        ("fact:Redis Caching", "fact:redis_caching"),
        (" session:fix-jwt-refresh_A1b2C3d4 ", "session:fix-jwt-refresh_a1b2c3d4"),
        ("a:b:c", "a:b_c"),
        ("knowledge:My Project!_abc/123", "knowledge:my_project__abc_123"),
        ("naïve:café", "na_ve:caf_"),
        ("abc123:sessions", "abc123:sessions"),
        ("x" * 300, "x" * 223 + "_"),
    ],
)
def test_context_ids(given_id: str, on_the_wire: str) -> None:
    """S0-22: ids are two layers of `[a-z0-9_-]`, at most 256 characters."""
    found = wire.context(given_id)

    assert len(found) <= 256
    if len(given_id) < 256:
        assert found == on_the_wire
    else:
        assert found[:224] == on_the_wire[:224]


def test_long_ids_stay_apart() -> None:
    """Two long ids that begin alike are two ids on the wire."""
    assert wire.context("note:" + "a" * 400) != wire.context("note:" + "a" * 401)


def test_categories_become_contexts() -> None:
    """S1-52: a bare category gets its type, any other link without a type is left out and counted."""
    found = wire.links({"related_to": ["editor", "decisions", "errors", "Fact Only!", ":x"], "extends": None})

    assert found.lists == {
        "related_to": ["action:editor", "decision:decisions", "observation:errors"],
        "extends": [],
        "reinforces": [],
        "contradicts": [],
    }
    assert found.left_out == 2


@given(
    st.fixed_dictionaries(
        {}, optional={name: st.lists(st.text(max_size=3), max_size=120) for name in LINK_NAMES}
    ),
    st.integers(0, 120),
)
@settings(max_examples=examples(12, 500))
def test_links_keep_within_the_limits(lists: dict[str, list[str]], more: int) -> None:
    """At most 50 links a field and 100 in all; each has two layers, none comes twice."""
    given_links = {**lists, "extends": [f"turn:s_{n:03d}" for n in range(more)]}
    found = wire.links(given_links)

    assert sum(map(len, found.lists.values())) <= 100
    for links in found.lists.values():
        assert len(links) <= 50 and len(set(links)) == len(links)
        assert all(link.count(":") == 1 for link in links)
    assert found.lists["extends"] == given_links["extends"][:50]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=30), inner, max_size=30),
    max_leaves=60,
)


@given(st.dictionaries(st.text(max_size=20), _values, max_size=8))
@settings(max_examples=examples(12, 500))
def test_a_payload_fits_and_says_what_is_missing(payload: dict[str, object]) -> None:
    """P1: a payload within the limit keeps its bytes; a larger one fits and says where the rest is."""
    text = wire.encode(payload)
    found = wire.fit(text, 1_024, "event 0123")

    assert len(found.text.encode()) <= 1_024
    assert isinstance(json.loads(found.text), dict)
    if len(text.encode()) <= 1_024:
        assert found == (text, False)
    else:
        assert found.cut and "event 0123" in found.text


def test_a_long_text_is_cut_at_a_character() -> None:
    """S0-14: cutting counts bytes of UTF-8 and never parts a character."""
    assert wire.cut_text("é" * 600, 1_000) == "é" * 500
    assert wire.cut_text("a" + "é" * 600, 1_000) == "a" + "é" * 499
    assert wire.cut_text("😀" * 3, 11) == "😀😀"


def test_a_cut_says_how_much_is_missing() -> None:
    """P1: a shortened text ends in a mark with both sizes and the place of the whole."""
    found = wire.fit(wire.encode({"message": "x" * 100_000, "seq": 3}), 65_536, "event ab12")
    message = json.loads(found.text)["message"]

    assert message == "x" * 16_384 + "…[cut: 83,616 of 100,000 bytes; whole in event ab12]"
    assert json.loads(found.text)["seq"] == 3


def test_long_lists_are_cut_too() -> None:
    """P1: what is large because it is long keeps its beginning and says how many items are missing."""
    found = wire.fit(wire.encode({"files": [f"dir/file{n}" for n in range(50_000)]}), 65_536, "turn:s_001")
    files = json.loads(found.text)["files"]

    assert files[:2] == ["dir/file0", "dir/file1"]
    assert files[-1] == "…[cut: 48,976 of 50,000 items; whole in turn:s_001]"


def test_columns_join_a_payload_without_touching_it() -> None:
    """S0-16: the payload's own bytes stay; a column is added only where it has no such key."""
    assert wire.with_columns('{"n":1.10,"seq":9}', {"seq": 2, "tool": "x"}) == '{"n":1.10,"seq":9,"tool":"x"}'
    assert wire.with_columns("{}", {"seq": 2}) == '{"seq":2}'
    assert wire.with_columns('{ "a" : 1e400 }', {"seq": 2}) == '{ "a" : 1e400,"seq":2}'
    assert wire.with_columns('{"n":' + "9" * 6_000 + "}", {"seq": 1}).endswith(',"seq":1}')


def test_kinds_are_those_that_every_server_knows() -> None:
    """S1-38: a kind of our own open set goes as an observation."""
    assert wire.kind("decision") == "decision"
    assert wire.kind("epiphany") == "observation"
