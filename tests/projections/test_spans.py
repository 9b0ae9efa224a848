"""How long calls took, where only the times of other events of their turn show it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples
from tests.projections.logs import Log, event

_BASE_US = 1_700_000_000_000_000
_DERIVED = "select event_id, derived_ms from {} order by all"


def _tell(log: Log, *events: "tuple[str, int | None, dict[str, Any]]") -> None:
    """Append events (type, seconds, columns) of one turn; ids are their numbers."""
    log.append(
        *(
            event(
                kind,
                number,
                **{"agent": "a", "session_id": "s1", "turn": 1, **columns},
                occurred_at=None if at is None else _BASE_US + at * 1_000_000,
            )
            for number, (kind, at, columns) in enumerate(events)
        )
    )


def _derived(log: Log) -> "dict[int, int | None]":
    rows = [row for view in ("llm_calls", "actions") for row in log.rows(_DERIVED.format(view))]
    return {int(id, 16): derived for id, derived in rows}


def test_calls_take_from_what_asked_for_them(log: Log) -> None:
    """A model answers a prompt or a tool's result; a tool runs from the answer; what was reported holds."""
    _tell(
        log,
        ("intent", 0, {}),
        ("llm", 4, {"message_id": "m1"}),
        ("action", 6, {"tool_use_id": "t1"}),
        ("action", 9, {"tool_use_id": "t2"}),
        ("llm", 10, {"message_id": "m2"}),
        ("action", 11, {"tool_use_id": "t3", "duration_ms": 30}),
        ("llm", None, {"message_id": "m3"}),
        ("intent", 20, {}),
        ("action", 25, {"tool_use_id": "t4"}),
        ("llm", 30, {"message_id": "m4"}),
        ("llm", 31, {"message_id": "m5"}),
    )
    expected = {1: 4000, 2: 2000, 3: 5000, 4: 1000, 5: None, 6: None, 8: None, 9: 5000, 10: None}
    assert _derived(log) == expected
    began = "select epoch_us(started_at) from actions where tool_use_id = 't3'"
    assert log.rows(began) == [(_BASE_US + 11_000_000 - 30_000,)]

    log.seal()
    log.make_index()
    assert _derived(log) == expected


def test_the_start_of_a_tool_outranks_the_answer(log: Log) -> None:
    """A tool runs from its own start where there is one; a subagent's calls have neighbours of their own."""
    _tell(
        log,
        ("llm", 1, {"message_id": "m1"}),
        ("tool_start", 5, {"tool_use_id": "t1"}),
        ("action", 7, {"tool_use_id": "t1"}),
        ("action", 9, {"tool_use_id": "t2", "subagent_id": "other"}),
    )
    assert _derived(log) == {0: None, 2: 2000, 3: None}


def test_a_call_after_the_end_of_its_turn_has_no_duration(log: Log) -> None:
    """P7: where the turn was over between the question and the answer, nobody knows how long a model took."""
    _tell(
        log,
        ("intent", 0, {}),
        ("turn", 2, {"operation": "end"}),
        ("llm", 4, {"message_id": "m1"}),
        ("intent", 5, {}),
        ("llm", 7, {"message_id": "m2"}),
    )
    assert _derived(log) == {2: None, 4: 2000}


def test_a_model_call_that_is_counted_after_its_tools_has_no_derived_duration(log: Log) -> None:
    """P7: Codex writes the count of a call after the results of the tools that the answer asked for."""
    codex = {"agent": "codex", "turn": 1}
    _tell(
        log,
        ("intent", 0, codex),
        ("action", 9, {**codex, "tool_use_id": "t1"}),
        ("llm", 10, codex),
        ("action", 19, {**codex, "tool_use_id": "t2"}),
        ("llm", 20, codex),
        ("intent", 30, {**codex, "turn": 2}),
        ("llm", 34, {**codex, "turn": 2}),
        ("action", 35, {**codex, "turn": 2, "tool_use_id": "t3"}),
        ("llm", 38, {**codex, "turn": 2}),
    )
    assert _derived(log) == {1: None, 2: None, 3: None, 4: None, 6: 4000, 7: 1000, 8: 3000}


_CALLS = st.lists(
    st.tuples(
        st.sampled_from(("intent", "llm", "action", "message", "tool_start", "subagent")),
        st.none() | st.integers(0, 6),
        st.fixed_dictionaries({
            "turn": st.integers(1, 2), "tool_use_id": st.sampled_from(("t1", "t2", None)),
            "message_id": st.sampled_from(("m1", None)), "subagent_id": st.sampled_from((None, None, "x")),
            "duration_ms": st.sampled_from((None, None, 5, -1, 2**62)),
        }),
    ),
    min_size=1,
    max_size=14,
)  # fmt: skip


@settings(max_examples=examples(5, 300))
@given(_CALLS)
def test_a_derived_duration_is_never_negative_nor_beside_a_reported_one(
    tmp_path_factory: pytest.TempPathFactory, calls: Any
) -> None:
    """P7: of any turn the calls that have a derived duration have no other, have a time, and began before it;
    and nothing else in their rows depends on whether it was asked for."""
    made = Log(str(tmp_path_factory.mktemp("log") / ".locus"))
    _tell(made, *calls)
    for view in ("llm_calls", "actions"):
        rows = made.rows(
            f"select derived_ms, duration_ms, occurred_at, started_at <= occurred_at from {view} "
            "where derived_ms is not null"
        )
        assert all(one[0] >= 0 and one[1] is None and one[2] is not None and one[3] for one in rows)
        assert made.rows(f"select count(*) from (select * from {view})") == made.rows(
            f"select count(*) from {view}"
        )
