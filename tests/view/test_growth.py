"""A spine that grew: with what a client has, the part that differs gives the spine as a new request does."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventlog.view.growth import ANSWERS_MAX, GivenSpines, grown
from tests.view.test_shortened import histories, spine_of


def joined(before: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """As docs/view.md says it; what the browser does is tested in tests/browser."""
    of = part["from"]
    kept = before["changes"][: of["stops"]]
    used = sorted({n for changes in kept for row in changes for n in (row[0], row[5]) if n is not None})
    paths = dict(part["paths"])
    free = [number for number in range(of["paths"]) if number not in paths]
    numbers = dict(zip(used, free, strict=True)) | {None: None}
    paths |= {numbers[number]: before["paths"][number] for number in used}
    renumbered = [[[numbers[row[0]], *row[1:5], numbers[row[5]]] for row in changes] for changes in kept]
    return {
        **{name: value for name, value in part.items() if name != "from"},
        "paths": [paths[number] for number in range(of["paths"])],
        "hashes": before["hashes"][: of["hashes"]] + part["hashes"],
        "turns": before["turns"][: of["turns"]] + part["turns"],
        "stops": before["stops"][: of["stops"]] + part["stops"],
        "changes": renumbered + part["changes"],
    }


def answer_of(history: Any, until: int, **more: Any) -> dict[str, Any]:
    """The answer of a history, its contents numbered as they come."""
    spine = spine_of(history)
    seen = dict.fromkeys(row[1] for changes in spine["changes"] for row in changes if row[1] is not None)
    order = {old: new for new, old in enumerate(seen)} | {None: None}
    used = sorted({row[0] for changes in spine["changes"] for row in changes})
    return {
        **spine,
        "session": None,
        "until": until,
        "cut": None,
        "hashes": [spine["hashes"][old] for old in seen],
        "paths": [spine["paths"][number] for number in used],
        "changes": [
            [[used.index(row[0]), order[row[1]], *row[2:]] for row in changes] for changes in spine["changes"]
        ],
        **more,
    }


@given(histories(), histories(), st.data())
def test_a_grown_spine_equals_a_fresh_one(first: Any, other: Any, data: st.DataObject) -> None:
    """P1: whatever stays of a history and whatever comes after it; and none of what stays is sent again."""
    kept = data.draw(st.integers(0, len(first)))
    before, now = answer_of(first, 5), answer_of(first[:kept] + other, 9, withheld={"0": "why"})

    part = grown(before, now)

    assert joined(before, part) == now
    assert part["from"]["turns"] >= kept
    assert len(part["turns"]) == len(now["turns"]) - part["from"]["turns"]


@given(histories(), st.data())
def test_what_is_stated_of_a_turn_again_is_sent(history: Any, data: st.DataObject) -> None:
    """A turn that has another title, or was taken back: it and those after it."""
    changed = data.draw(st.integers(0, len(history) - 1))
    before, now = answer_of(history, 5), answer_of(history, 9)
    now["turns"] = [{**turn, "title": "new"} if n == changed else turn for n, turn in enumerate(now["turns"])]

    part = grown(before, now)

    assert joined(before, part) == now
    assert part["from"]["turns"] == changed


def test_what_stays_is_in_memory_once() -> None:
    """Of the answers that clients may have; and a later one grows from such an answer as from any other."""
    given = GivenSpines()
    answers = [answer_of([[{"a": "0"}]] * n, n) for n in range(1, 4)]
    given.answer(answers[0], None)
    for before, now in pairwise(answers):
        assert joined(before, given.answer(now, before["until"])) == now
    kept = list(given._answers.values())
    assert kept == answers
    first, last = kept[0], kept[2]
    assert first is not None and last is not None
    for name in ("turns", "stops"):
        assert all(mine is other for mine, other in zip(first[name], last[name], strict=False))


def test_a_client_with_an_answer_that_is_not_known_gets_all() -> None:
    """P1: of another process, too old, or one of two that have their position in common."""
    given = GivenSpines()
    answers = [answer_of([[{"a": "0"}]] * n, n) for n in range(1, ANSWERS_MAX + 3)]
    assert given.answer(answers[0], None) == answers[0]
    assert "from" in given.answer(answers[1], 1)
    assert given.answer(answers[1], 7) == answers[1]
    for later in answers[2:]:
        given.answer(later, None)
    assert "from" not in given.answer(answers[-1], 1)
    assert "from" in given.answer(answers[-1], ANSWERS_MAX + 2)

    other = answer_of([[{"b": "1"}]], ANSWERS_MAX + 2)
    assert "from" in given.answer(other, ANSWERS_MAX + 2)
    assert given.answer(other, ANSWERS_MAX + 2) == other
