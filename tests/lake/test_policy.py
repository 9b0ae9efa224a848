"""The allow list: which columns, keys and values may leave, and what stands for those that may not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base import config
from eventlog.base.config import PEOPLE
from eventlog.base.errors import Corruption
from eventlog.base.fs import REAL
from eventlog.base.jsontext import encode
from eventlog.base.layout import Layout
from eventlog.base.types import COLUMN_NAMES
from eventlog.lake import payload_keys
from eventlog.lake import policy as of
from eventlog.lake.payload_keys import Allowed, figures_of, without_classes
from eventlog.lake.policy import Contexts, Policy

NOTHING = Allowed(Policy(paths=False, people="no").classes, lambda who: who)
EVERYTHING = Allowed(Policy(texts=True, contents=True, people="full").classes, lambda who: who)

policies = st.builds(Policy, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(PEOPLE))

# A person's words in any place of a payload, under keys that mean something and others.
words = st.text("abcxyz /\n", max_size=8).map(lambda text: f"canary {text}")
known_keys = sorted(
    {name for rules in payload_keys._OF_TYPE.values() for name in rules}
    | {"usage", "tokens", "cache", "parts"}
)
values = st.recursive(
    words | st.integers(-9, 9) | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(words | st.sampled_from(known_keys), inner, max_size=3)
    ),
    max_leaves=12,
)
payloads = st.dictionaries(words | st.sampled_from(known_keys), values, max_size=5)
event_types = st.sampled_from([*sorted(of.EVENT_TYPES), "a type of somebody"])


@given(event_types, payloads)
def test_no_word_of_a_payload_leaves_with_figures(event_type: str, payload: "dict[str, Any]") -> None:
    """Whatever a payload holds, and under whichever keys: no word is left, as a value or as a key."""
    figures = figures_of(event_type, payload, NOTHING)

    assert b"canary" not in encode(figures)
    assert figures_of(event_type, figures, NOTHING) == figures


@given(event_types, payloads, policies)
def test_what_a_policy_lets_out_of_a_payload_is_in_it(
    event_type: str, payload: "dict[str, Any]", policy: Policy
) -> None:
    """Nothing is made up: each key has its value, or a part of it; all leaves but what is of this machine."""
    allowed = Allowed(policy.classes, lambda who: who)

    assert is_part(figures_of(event_type, payload, allowed), payload)
    assert is_part(without_classes(event_type, payload, allowed), payload)
    never = {"transcript_path", "agent_transcript_path", "target", "directory", "path"}
    kept = {name: value for name, value in payload.items() if name not in never}
    assert is_part(kept, without_classes(event_type, payload, EVERYTHING))


def is_part(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and is_part(value, whole[name]) for name, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(is_part(x, y) for y in whole) for x in part)
    return type(part) is type(whole) and part == whole


def test_every_column_has_a_class() -> None:
    """A column that is added to the envelope needs a decision whether it may leave."""
    assert of.COLUMNS.keys() == set(COLUMN_NAMES)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("session:fix-the-till_a1b2c3d4", "session:session-a1b2c3d4_a1b2c3d4"),
        ("session:fix_a word", "session:session-id-digest_id-digest"),
        ("session:without-an-id", "context-digest"),
        ("turn:a1b2c3d4_001", "turn:a1b2c3d4_001"),
        ("turn:a word_001", "turn:id-digest_001"),
        ("action:a1b2c3d4_001_002", "action:a1b2c3d4_001_002"),
        ("a-word:a1b2c3d4_001_002", "other:a1b2c3d4_001_002"),
        ("decision:decisions", "decision:decisions"),
        ("errors", "errors"),
        (f"feedback:{'ab' * 16}", f"feedback:{'ab' * 16}"),
        (f"words:{'ab' * 16}", "context-digest"),
        ("abababababab:sessions", "abababababab:sessions"),
        ("knowledge:till_abababababab", "knowledge:till_abababababab"),
        ("knowledge:another_abababababab", "context-digest"),
        ("fact:skill_restock", "context-digest"),
        ("", "context-digest"),
    ],
)
def test_a_context_id_leaves_without_words(text: str, shown: str) -> None:
    """Of a session's the slug goes, of an event's an unknown type; what has another form becomes a digest."""
    contexts = Contexts(lambda word, _: f"{word}-digest", ("knowledge:till_abababababab",))

    assert contexts.without_texts(text) == shown


@pytest.mark.parametrize(
    "text", ["otter", "the otter 1", "a" * 200 + "1", "", "ots/1", "/home/otter1", "otter1@x"]
)
def test_a_word_is_no_id(text: str) -> None:
    """An id has a digit, and none of blanks, slashes and signs of addresses."""
    assert not of.is_id(text)


@pytest.mark.parametrize(
    "text",
    ["/etc/otter", "~/otter", "file:///otter", "C:\\otter", "C:/otter", "a/../../otter", "", "\\\\host\\a"],
)
def test_a_path_of_a_machine_is_no_path_of_the_project(text: str) -> None:
    """Paths leave when they are below the root of a project."""
    assert not of.is_path(text)


@given(policies)
def test_a_policy_survives_its_text(policy: Policy) -> None:
    """The metadata of a file has it as JSON."""
    assert Policy.decode(policy.encoded()) == policy


@given(policies, policies)
def test_a_policy_widens_another_where_a_class_more_leaves(one: Policy, other: Policy) -> None:
    """Settings are compared one by one; a policy widens neither itself nor one that lets everything out."""
    degrees = [(p.texts, p.contents, p.paths, PEOPLE.index(p.people)) for p in (one, other)]

    assert one.widens(other) == any(a > b for a, b in zip(*degrees, strict=True))
    assert not one.widens(one) and not one.widens(Policy(True, True, True, "full"))


@pytest.mark.parametrize("text", ["", "[]", "{}x", '{"texts": 1}', '{"people": "some"}', '{"faces": true}'])
def test_what_is_no_policy_is_refused(text: str) -> None:
    """A file of another version, or a damaged one, says so, with where it is."""
    with pytest.raises(Corruption, match="somewhere"):
        Policy.decode(text, "somewhere")


def test_the_policy_is_what_the_settings_say(tmp_path: Path) -> None:
    """Without settings neither texts nor contents, but paths, and people as digests; each key changes one."""
    layout = Layout(str(tmp_path))
    assert Policy.of(REAL, layout) == Policy(texts=False, contents=False, paths=True, people="digest")

    file = Path(layout.config_file)
    file.write_text(
        '[publish]\ntexts = true\ncontents = true\npaths = false\npeople = "full"\n[export]\npeople = "no"\n'
    )
    assert Policy.of(REAL, layout) == Policy(texts=True, contents=True, paths=False, people="full")
    assert config.read(REAL, layout).people == "no"

    file.write_text("[publish]\nfaces = true\n")
    assert Policy.of(REAL, layout) == Policy()
    assert "faces" in str(config.read(REAL, layout).problem)
