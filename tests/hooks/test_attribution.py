"""Whose change it was: the decision table, every row and column of it, and what holds for all of them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.agents.kit.tools import ANY, EDITS, QUIET, WAITS
from eventlog.hooks import file_events as a
from eventlog.hooks.file_events import CaptureOrigin, attribute
from eventlog.hooks.state import Running

MINE, BESIDE, OTHERS = ("codex", "s", "t"), ("codex", "s", "t2"), ("claude-code", "o", "p")
FOUND = (a.BEFORE_COMMAND, a.AFTER_EDIT, a.AFTER_COMMAND, a.AFTER_WAIT, a.TURN_ENDS, a.BETWEEN)


def call(
    cause: str,
    place: tuple[str, str, str] = MINE,
    kind: str = ANY,
    *,
    late: bool = False,
    dead: bool = False,
    paths: tuple[str, ...] = (),
) -> Running:
    made = Running(["begun", cause, "s", "t", kind, "id", "tool", *paths], place, dead=dead)
    made.late = late
    return made


def looker(found: str) -> CaptureOrigin:
    cause = "own" if found in (a.AFTER_EDIT, a.AFTER_COMMAND, a.AFTER_WAIT) else None
    return CaptureOrigin(found, cause, None if found == a.BETWEEN else MINE)


# Below: (cause, causes where nobody can tell, turn, certainty) by row and by case.
NONE: tuple[Running, ...] = ()
CASES = {
    "none": NONE,
    "running, of the turn": (call("x"),),
    "ended without a capture, of the turn": (call("x", late=True),),
    "running, of another turn of the session": (call("x", BESIDE),),
    "running, of another session": (call("x", OTHERS),),
    "ended without a capture, of another session": (call("x", OTHERS, late=True),),
    "dead, of another session": (call("x", OTHERS, dead=True),),
    "two of the turn": (call("x"), call("y")),
    "two of another session": (call("x", OTHERS), call("y", OTHERS)),
    "one of the turn, one of another": (call("x"), call("y", OTHERS)),
    "edits, waits and quiet ones": (call("x", kind=EDITS), call("y", kind=WAITS), call("z", kind=QUIET)),
}
P = "probable"
EXPECTED = {
    a.AFTER_EDIT: (
        ("own", [], MINE, None), ("x", [], MINE, None), ("x", [], MINE, None), ("x", [], BESIDE, None),
        ("x", [], OTHERS, None), ("x", [], OTHERS, None), ("x", [], OTHERS, P),
        (None, ["x", "y"], MINE, None),
        (None, ["x", "y"], OTHERS, None), (None, ["x", "y"], None, None), ("own", [], MINE, None),
    ),
    a.AFTER_COMMAND: (
        ("own", [], MINE, None), (None, ["x", "own"], MINE, None), (None, ["x", "own"], MINE, None),
        (None, ["x", "own"], None, None), (None, ["x", "own"], None, None), (None, ["x", "own"], None, None),
        (None, ["x", "own"], None, None), (None, ["x", "y", "own"], MINE, None),
        (None, ["x", "y", "own"], None, None), (None, ["x", "y", "own"], None, None), ("own", [], MINE, None),
    ),
    a.BEFORE_COMMAND: (
        (None, [], MINE, P), ("x", [], MINE, None), ("x", [], MINE, None), ("x", [], BESIDE, None),
        ("x", [], OTHERS, None), ("x", [], OTHERS, None), ("x", [], OTHERS, P),
        (None, ["x", "y"], MINE, None),
        (None, ["x", "y"], OTHERS, None), (None, ["x", "y"], None, None), (None, [], MINE, P),
    ),
    a.AFTER_WAIT: (
        (None, [], MINE, P), ("x", [], MINE, None), ("x", [], MINE, None), ("x", [], BESIDE, None),
        ("x", [], OTHERS, None), ("x", [], OTHERS, None), ("x", [], OTHERS, P),
        (None, ["x", "y"], MINE, None),
        (None, ["x", "y"], OTHERS, None), (None, ["x", "y"], None, None), (None, [], MINE, P),
    ),
    a.TURN_ENDS: (
        (None, [], MINE, P), ("x", [], MINE, P), ("x", [], MINE, None), ("x", [], BESIDE, P),
        ("x", [], OTHERS, P), ("x", [], OTHERS, P), ("x", [], OTHERS, P), (None, ["x", "y"], MINE, P),
        (None, ["x", "y"], OTHERS, P), (None, ["x", "y"], None, None), (None, [], MINE, P),
    ),
    a.BETWEEN: (
        (None, [], None, None), ("x", [], MINE, P), ("x", [], MINE, P), ("x", [], BESIDE, P),
        ("x", [], OTHERS, P), ("x", [], OTHERS, P), ("x", [], OTHERS, P), (None, ["x", "y"], MINE, P),
        (None, ["x", "y"], OTHERS, P), (None, ["x", "y"], None, None), (None, [], None, None),
    ),
}  # fmt: skip


def attributed(found: str, others: tuple[Running, ...], key: "str | None" = "path") -> tuple[object, ...]:
    whose = attribute(looker(found), others, key)
    return whose.cause, [] if whose.cause else whose.causes, whose.turn_key, whose.certainty


@pytest.mark.parametrize("found", FOUND)
def test_the_table(found: str) -> None:
    """P7: who found it × what may have made it."""
    for (name, others), expected in zip(CASES.items(), EXPECTED[found], strict=True):
        assert attributed(found, others) == expected, name


@pytest.mark.parametrize("found", FOUND)
def test_a_named_file_is_the_edit_tools(found: str) -> None:
    """P7: what an edit tool names is its change, whoever finds it beside whatever commands."""
    beside = (call("x", OTHERS), call("y"))
    edit = call("e", OTHERS, EDITS, paths=("path",))
    assert attributed(found, (edit, *beside)) == ("e", [], OTHERS, None)
    edit.dead = True
    assert attributed(found, (*beside, edit)) == ("e", [], OTHERS, P)
    if found == a.AFTER_EDIT:
        assert attributed(found, (edit, *beside), None) == ("own", [], MINE, None)


CALLS = st.builds(
    call,
    st.sampled_from("uvwxyz"),
    st.sampled_from((MINE, BESIDE, OTHERS)),
    st.sampled_from((ANY, EDITS, WAITS, QUIET)),
    late=st.booleans(),
    dead=st.booleans(),
    paths=st.sampled_from(((), ("path",), ("other",))),
)


@given(st.sampled_from(FOUND), st.lists(CALLS, max_size=5, unique_by=lambda one: one.cause))
def test_an_event_never_contradicts_itself(found: str, others: list[Running]) -> None:
    """P7: its turn is that of all its causes, or it has none; what is not certain says so, and a tool that
    cannot write is the cause of nothing."""
    whose = attribute(looker(found), others, "path")
    places = {one.cause: one.turn_key for one in others} | {"own": MINE}
    of_causes = {places[cause] for cause in whose.causes}
    assert whose.turn_key is None or of_causes <= {whose.turn_key}
    assert len(of_causes) < 2 or whose.turn_key is None
    assert whose.cause is None or (whose.turn_key is not None and whose.causes == [whose.cause])
    assert whose.turn_key is not None or whose.certainty is None
    by = {one.cause: one for one in others}
    assert not any(by[cause].kind in (WAITS, QUIET) for cause in whose.causes if cause in by)
    if whose.cause in by and by[str(whose.cause)].dead:
        assert whose.certainty == P
    if found == a.TURN_ENDS and whose.turn_key == MINE and whose.causes:
        assert of_causes == {MINE}


def test_the_table_is_whole() -> None:
    """Every row has every column."""
    columns = {a.NO_CALL, a.UNCAPTURED, a.ONE_CALL, a.ONE_TURN, a.MORE_TURNS}
    assert set(a.TABLE) == set(FOUND)
    assert all(set(row) == columns for row in a.TABLE.values())
    pairs = itertools.chain.from_iterable(row.values() for row in a.TABLE.values())
    assert {whose for whose, _ in pairs} == {
        a.CAPTURING_CALL, a.THAT_CALL, a.THEIR_TURN, a.THIS_TURN, a.UNKNOWN, a.NOBODY,
    }  # fmt: skip
