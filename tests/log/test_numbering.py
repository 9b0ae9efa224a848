"""The fold that gives events their session, turn, seq and context ids."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.names import next_session_id, session_id_of
from eventlog.log.numbering import INPUT_COLUMNS, INT_MAX, NUMBERING_COLUMNS, Numbering, PrefixRow

SID = session_id_of("pi", "one")
SECOND = next_session_id("pi", SID)
COLUMNS = (*INPUT_COLUMNS, *NUMBERING_COLUMNS)


def happening(event_type: str = "action", **columns: Any) -> dict[str, Any]:
    row = dict.fromkeys(COLUMNS) | {"event_type": event_type, "agent": "pi", "agent_session_id": "one"}
    return row | {"repo": "abc"} | columns


def numbered(rows: Sequence[dict[str, Any]], numbering: Numbering | None = None) -> list[dict[str, Any]]:
    """The rows with their place columns filled; the input is left alone."""
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    (numbering or Numbering()).number(columns)
    return [dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def places(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(row["turn"], row["seq"]) for row in rows]


class ListPrefix:
    """The prefix that a list of numbered rows is, computed row by row."""

    def __init__(self, rows: Sequence[dict[str, Any]], *, backwards: bool) -> None:
        self.rows = list(enumerate(rows))
        if backwards:
            self.rows.reverse()

    def seen(self, event_ids: Sequence[str]) -> set[str]:
        raise AssertionError(event_ids)

    def sessions(self, session_ids: Sequence[str]) -> Iterable[PrefixRow]:
        for position, row in self.rows:
            if (sid := row["session_id"]) in session_ids:
                named = row["event_type"] == "session" and (
                    row["operation"] == "end" or row["context_id"] != f"session:session-{sid}_{sid}"
                )
                yield PrefixRow(
                    sid,
                    row["turn"],
                    row["agent_turn_id"],
                    position,
                    position,
                    row["seq"],
                    row["context_id"] if named else None,
                    position if named else None,
                )


def oracle(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Design §5 once more: looks back over all earlier rows instead of keeping counters."""
    done: list[dict[str, Any]] = []
    for given_row in rows:
        row = dict(given_row)
        kind = row["event_type"]
        if row["session_id"] is None and row["agent"] is not None and row["agent_session_id"] is not None:
            row["session_id"] = session_id_of(row["agent"], row["agent_session_id"])
        sid = row["session_id"]
        if row["turn"] is None and (row["turn_id"] or "").isdigit():
            row["turn"] = int(row["turn_id"])
        if sid is not None:
            before = [r for r in done if r["session_id"] == sid]
            _place(row, before)
        elif kind == "sessions" and row["context_id"] is None and row["repo"]:
            row["context_id"] = f"{_safe(row['repo'])}:sessions"
        if row["turn"] is not None and row["turn_id"] is None:
            row["turn_id"] = f"{row['turn']:03d}"
        done.append(row)
        yield row


def _place(row: dict[str, Any], before: list[dict[str, Any]]) -> None:
    kind, sid, key = row["event_type"], row["session_id"], row["agent_turn_id"]
    turns = [r["turn"] for r in before if r["turn"] is not None]
    if row["turn"] is None and kind not in ("session", "sessions"):
        of_key = [r["turn"] for r in before if key is not None and r["agent_turn_id"] == key]
        of_key = [turn for turn in of_key if turn is not None]
        if of_key:
            row["turn"] = of_key[0]
        elif key is not None or (kind == "turn" and row["operation"] == "start"):
            row["turn"] = max([0, *turns]) + 1
        elif turns:
            row["turn"] = turns[-1]
    turn, anchor = row["turn"], kind in ("session", "sessions", "turn")
    if row["seq"] is None and not anchor:
        row["seq"] = max([0, *(r["seq"] for r in before if (r["turn"] or 0) == (turn or 0) and r["seq"])]) + 1
    default = f"session:session-{_safe(sid)}_{sid}"
    session = next(
        (r["context_id"] for r in before if r["event_type"] == "session" and r["context_id"] != default),
        default,
    )
    fixed = [
        r for r in before if r["turn"] is not None or (r["event_type"], r["operation"]) == ("session", "end")
    ]
    turn_context = None if turn is None else f"turn:{sid}_{turn:03d}"
    master = f"{_safe(row['repo'])}:sessions" if row["repo"] else None
    context, extends = {
        "session": (session, master),
        "sessions": (master, None),
        "turn": (turn_context, session),
    }.get(kind, (f"{kind}:{sid}_{turn or 0:03d}_{row['seq'] or 0:03d}", turn_context or session))
    if kind == "session" and (session != default or fixed or turn is not None):
        row["context_id"] = session
    if row["context_id"] is None:
        row["context_id"] = context
    if row["extends"] is None and extends is not None:
        row["extends"] = [extends]


def _safe(text: str) -> str:
    return re.sub("[^A-Za-z0-9_-]", "_", text).lower()


def sometimes(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.none(), st.none(), strategy)


happenings = st.fixed_dictionaries(
    {
        "event_type": st.sampled_from(("session", "sessions", "turn", "action", "file", "llm")),
        "operation": st.sampled_from((None, "start", "end")),
        "repo": st.sampled_from((None, "abc")),
        "agent": st.sampled_from(("pi", "pi", "pi", None)),
        "agent_session_id": st.sampled_from(("one", "one", "two")),
        "agent_turn_id": sometimes(st.sampled_from(("k1", "k2", "k3"))),
        "session_id": sometimes(st.sampled_from(("s0000001", SID, SECOND))),
        "turn": sometimes(st.integers(0, 5)),
        "turn_id": sometimes(st.sampled_from(("002", "later"))),
        "seq": sometimes(st.integers(0, 9)),
        "context_id": sometimes(
            st.sampled_from(("session:a-slug_x", "session:b-slug_x", f"session:session-{SID}_{SID}"))
        ),
        "extends": sometimes(st.lists(st.just("knowledge:x"), max_size=2)),
    }
)
limits = st.sampled_from((None, 1, 2))
rows_of_a_log = st.integers(0, 20).flatmap(lambda size: st.lists(happenings, min_size=size, max_size=size))


@given(rows_of_a_log)
def test_fold_agrees_with_the_rules_read_literally(rows: list[dict[str, Any]]) -> None:
    """The counters give what looking back over the whole log gives (design §5)."""
    assert list(oracle(rows)) == numbered(rows)


@given(rows_of_a_log, st.sets(st.integers(0, 20)), st.booleans(), limits)
def test_numbers_do_not_depend_on_where_the_log_is_cut(
    rows: list[dict[str, Any]], cuts: set[int], backwards: bool, limit: int | None
) -> None:
    """Numbering in any chunks, each from what the chunks before say, gives the same numbers (I22), with a
    turn limit as without one."""
    done: list[dict[str, Any]] = []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(rows)], strict=True):
        done += numbered(rows[start:end], Numbering(ListPrefix(done, backwards=backwards), limit))

    assert numbered(rows, Numbering(None, limit)) == done


@given(rows_of_a_log, limits)
def test_numbering_a_numbered_log_changes_nothing(rows: list[dict[str, Any]], limit: int | None) -> None:
    """A value that is given wins and moves the counters, so the fold is idempotent (I22)."""
    once = numbered(rows, Numbering(None, limit))

    assert once == numbered(once, Numbering(None, limit))


def test_the_nth_turn_of_a_conversation_has_its_part() -> None:
    """S1-58: turn n is turn n - 1 mod limit + 1 of part ⌈n / limit⌉; what names a turn goes where that is,
    late or not, what names none to the turn at hand, and the end of the session to its last part."""
    keys = ["a", "b", "c", "d", "e"]
    rows = [happening("turn", operation="start", agent_turn_id=key) for key in keys]
    rows += [happening(agent_turn_id="b"), happening(), happening(agent_turn_id="e"), happening()]
    rows.append(happening("session", operation="end"))
    third = next_session_id("pi", SECOND)
    numbers = [(row["session_id"], row["turn"]) for row in numbered(rows, Numbering(None, 2))]

    assert numbers[:5] == [(SID, 1), (SID, 2), (SECOND, 1), (SECOND, 2), (third, 1)]
    assert numbers[5:] == [(SID, 2), (SID, 2), (third, 1), (third, 1), (third, None)]
    assert numbered(rows, Numbering(None, 2))[-1]["extends"] == [
        "abc:sessions",
        f"session:session-{SECOND}_{SECOND}",
    ]


def test_groups_of_commits_have_no_parts() -> None:
    """S1-58: an imported history is in groups of fifty already, whatever STORE says."""
    rows = [happening("turn", operation="start", agent="git", agent_turn_id=str(n)) for n in range(3)]

    assert len({row["session_id"] for row in numbered(rows, Numbering(None, 1))}) == 1


def test_a_session_id_is_derived_from_the_agents_own() -> None:
    """`session_id` comes from (agent, agent_session_id) unless it is given, and is null without a key."""
    rows = [happening(), happening(session_id="mine0000"), happening(agent_session_id=None)]

    assert [row["session_id"] for row in numbered(rows)] == [SID, "mine0000", None]


def test_a_key_names_one_turn_wherever_it_comes() -> None:
    """A known agent_turn_id keeps its turn, a new one gets the next; the last named turn is current."""
    rows = [happening(agent_turn_id=key) for key in ("a", "b", "a")] + [happening(), happening("turn")]

    assert places(numbered(rows)) == [(1, 1), (2, 1), (1, 2), (1, 3), (1, None)]


def test_a_turn_start_without_a_key_opens_the_next_turn() -> None:
    """`turn` with operation `start` counts up; the end of a turn stays in it."""
    rows = [
        happening("turn", operation="start"),
        happening(),
        happening("turn", operation="end"),
        happening("turn", operation="start"),
    ]

    assert places(numbered(rows)) == [(1, None), (1, 1), (1, None), (2, None)]


def test_given_numbers_win_and_move_the_counters() -> None:
    """An explicit turn or seq is kept, and what follows counts on from it."""
    rows = [
        happening(turn=7),
        happening(seq=5),
        happening(),
        happening("turn", operation="start"),
        happening(seq=2),
        happening(seq=1),
        happening(),
    ]

    assert places(numbered(rows)) == [(7, 1), (7, 5), (7, 6), (8, None), (8, 2), (8, 1), (8, 3)]


def test_events_outside_a_turn_count_in_turn_0() -> None:
    """Without any turn yet `turn` stays null, and `seq` counts as in turn 0, extending the session."""
    first, second = numbered([happening("file"), happening(turn=0)])

    assert (first["turn"], first["turn_id"], first["seq"]) == (None, None, 1)
    assert (f"file:{SID}_000_001", [f"session:session-{SID}_{SID}"]) == (
        first["context_id"],
        first["extends"],
    )
    assert (0, "000", 2, [f"turn:{SID}_000"]) == tuple(
        second[n] for n in ("turn", "turn_id", "seq", "extends")
    )


def test_context_ids_follow_the_naming_of_the_tree() -> None:
    """Master, session, turn and timeline event are named and linked as the tree has them (S1-1 to S1-8)."""
    rows = numbered(
        [
            happening("session", operation="start", context_id=f"session:fix-jwt_{SID}"),
            happening("sessions"),
            happening("turn", operation="start"),
            happening("MCP action"),
        ]
    )

    assert [f"session:fix-jwt_{SID}", "abc:sessions", f"turn:{SID}_001", f"mcp_action:{SID}_001_001"] == [
        row["context_id"] for row in rows
    ]
    assert [["abc:sessions"], None, [f"session:fix-jwt_{SID}"], [f"turn:{SID}_001"]] == [
        row["extends"] for row in rows
    ]


def test_turn_ids_and_seqs_grow_past_three_digits() -> None:
    """Padding to three digits is a minimum (S1-11)."""
    row = numbered([happening(turn=1000, seq=1234)])[0]

    assert ("1000", f"action:{SID}_1000_1234") == (row["turn_id"], row["context_id"])


@pytest.mark.parametrize("column", ["turn", "seq"])
def test_counters_stop_at_the_largest_number_a_segment_can_hold(column: str) -> None:
    """A writer's absurd number must not make the log impossible to seal (I32)."""
    rows = numbered([happening() | {column: INT_MAX}, happening(), happening("turn", operation="start")])

    assert all(row[column] is None or row[column] <= INT_MAX for row in rows)
    assert rows[1][column] == INT_MAX


def test_an_event_without_a_session_has_no_place() -> None:
    """Null is the honest answer where nobody stated which session it was (P7)."""
    row = numbered([happening(agent=None)])[0]

    assert [row[name] for name in NUMBERING_COLUMNS] == [None] * 6


@pytest.mark.parametrize("backwards", [False, True])
def test_the_prefix_may_come_in_any_order(backwards: bool) -> None:
    """First turn of a key, last turn, first slug and maxima are taken by position, not by arrival (I22)."""
    before = numbered(
        [
            happening("session"),
            happening("session", context_id="session:first_x"),
            happening("session", context_id="session:second_x"),
            happening(agent_turn_id="k", turn=5, seq=40),
            happening(agent_turn_id="k", turn=3),
            happening(turn=2),
        ]
    )
    after = [happening(), happening(agent_turn_id="k"), happening("turn", operation="start")]

    rows = numbered(after, Numbering(ListPrefix(before, backwards=backwards)))

    assert places(rows) == [(2, 2), (5, 41), (6, None)]
    assert rows[2]["extends"] == ["session:first_x"]
