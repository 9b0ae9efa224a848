"""What a verb that names a turn, a session or a file reads does not grow with the log."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks.workload import generate, with_stored_contents
from eventlog import Store
from eventlog.base.types import Event
from eventlog.doctor.completeness import completeness
from eventlog.log import merge, segment_file
from eventlog.memory import intent
from eventlog.projections import excerpt
from eventlog.query import costs, derived
from eventlog.reading.page import PageReader

_GROUP_ROWS = 50
_EVENTS = 1_000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A log of one segment with many row groups, and an index of it."""
    monkeypatch.setattr(merge, "ROW_GROUP_ROWS", _GROUP_ROWS)
    monkeypatch.setattr(excerpt, "_SEGMENT_BYTES_MAX", 0)  # as of a large segment
    with Store.init(tmp_path / "store", force=True) as store:
        events = with_stored_contents(store, generate(1, _EVENTS))
        for event in events:
            event.update(model="claude-opus-4-1") if event.get("model") == "model-large-1" else None
        for part in (0, _EVENTS // 2):
            store.append_rows(events[part : part + _EVENTS // 2])
            store.seal()
        store.compact(everything=True)
        store.seal()
        store.reindex()
        yield store


@pytest.fixture
def groups_read(monkeypatch: pytest.MonkeyPatch) -> "list[tuple[int, tuple[str, ...]]]":
    """The row groups that are read through pyarrow, each with its columns."""
    read: list[tuple[int, tuple[str, ...]]] = []

    def noting(method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: Any, columns: Any = None, row_group: Any = None, *mask: Any) -> Any:
            if row_group is not None:  # sealing reads whole segments
                read.append((row_group, tuple(columns or ())))
            return method(self, columns, row_group, *mask)

        return noted

    for name in ("read", "slices"):
        method = noting(getattr(segment_file.SegmentFile, name))
        monkeypatch.setattr(segment_file.SegmentFile, name, method)
    return read


def middle(store: Store) -> Any:
    """A turn in the middle of the log."""
    found = store.query(
        "select context_id from turns where last_position < 600 and first_position > 400 "
        "order by first_position limit 1"
    )
    return store.turn(found.rows[0][0])


def test_a_turn_is_read_from_its_row_groups_alone(
    store: Store, groups_read: "list[tuple[int, tuple[str, ...]]]"
) -> None:
    """S1-55: Of twenty row groups a turn needs those with its positions; five more at most tell theirs."""
    turn = middle(store)
    groups_read.clear()
    events = store.timeline(turn)

    assert events == [
        e for e in store.events() if (e["session_id"], e["turn"]) == (turn.session_id, turn.turn)
    ]
    needed = {event["position"] // _GROUP_ROWS for event in events}
    assert turn.until is not None
    within = set(range(turn.since // _GROUP_ROWS, (turn.until - 1) // _GROUP_ROWS + 1))
    of_turn = groups_read[: groups_read.index((0, groups_read[-1][1]))]  # before the whole log is read
    assert needed <= {group for group, columns in of_turn if columns != ("position",)} <= within
    assert len({group for group, columns in of_turn if columns == ("position",)} - within) <= 5


def test_what_is_shown_of_a_turn_is_read_once(
    store: Store, groups_read: "list[tuple[int, tuple[str, ...]]]"
) -> None:
    """Its events and how its files were at start and end take one read, also in a large segment."""
    turn = middle(store)
    store.timeline(turn)
    groups_read.clear()
    for at in ("start", "end"):
        store.certainty(turn, at)
    assert {columns for _, columns in groups_read} <= {("event_type",), ("event_type", "position")}


def test_any_range_has_its_events(store: Store) -> None:
    """S1-55: leaving out row groups leaves out no event."""
    with store.view() as view:
        everything = [event["position"] for event in view.iterate(columns=("position",))]
        for since, size in product((0, 1, 49, 50, 51, 499, 950, 999, 1_000, 1_004), (0, 1, 50, 120, 2_000)):
            found = [e["position"] for e in view.iterate(since, since + size, columns=("position",))]
            assert found == [position for position in everything if since <= position < since + size]


def test_events_of_a_rare_type_are_sought_in_dictionaries(
    store: Store, groups_read: "list[tuple[int, tuple[str, ...]]]"
) -> None:
    """P5: which contents are withheld is known without the values of any row group that has none."""
    assert store.withheld() == frozenset()
    assert groups_read == []

    marked = {"event_type": "withheld", "title": "blake3:" + "0" * 64, "payload": {}}
    store.append_rows([marked])
    store.seal()
    store.compact(everything=True)
    store.seal()
    groups_read.clear()
    assert store.withheld() == {marked["title"]}
    assert {group for group, _ in groups_read} == {_EVENTS // _GROUP_ROWS}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> "list[tuple[str, str | None]]":
    """What is derived from events for a question: (name, the only session that it is derived for)."""
    derivations: list[tuple[str, str | None]] = []
    make, bind = derived.make, costs.bind

    def noted(con: Any, wanted: Any, session: "str | None", *more: Any) -> None:
        derivations.extend((name, session) for name in wanted)
        make(con, wanted, session, *more)

    def noted_costs(con: Any, session: "str | None" = None) -> None:
        derivations.append(("costs", session))
        bind(con, session)

    monkeypatch.setattr(derived, "make", noted)
    monkeypatch.setattr(costs, "bind", noted_costs)
    return derivations


def test_a_page_of_a_turn_rests_on_its_session(store: Store, made: "list[tuple[str, str | None]]") -> None:
    """S1-55: Models and costs of a turn are made of the calls of its session; commits are not asked for."""
    turn = middle(store)
    page = PageReader(store).turn(turn)
    assert page.anchor["models"]
    assert sorted(made) == [("costs", turn.session_id), ("models", turn.session_id)]


def test_costs_of_one_session_do_not_answer_for_another(store: Store) -> None:
    """I21: A connection that answered about one session gives others their costs, too."""
    ask = "select turn, cost_usd, unpriced_calls from turns where session_id = $1 order by turn"
    sessions = [row[0] for row in store.query("select session_id from sessions order by 1").rows]
    one_by_one = [store.query(ask, [name]).rows for name in sessions]
    everything = "select session_id, turn, cost_usd, unpriced_calls from turns order by turn"
    with Store.open(store.layout.root) as another:
        rows = another.query(everything).rows
    assert one_by_one == [[row[1:] for row in rows if row[0] == name] for name in sessions]
    assert any(row[2] for row in rows)
    assert any(row[3] for row in rows)


def test_versions_of_a_file_rest_on_events_and_turns_alone(
    store: Store, made: "list[tuple[str, str | None]]"
) -> None:
    """S1-55: nothing is derived from the whole log for the history of one file."""
    path = store.query("select path from events where event_type = 'file' limit 1").rows[0][0]
    assert store.history(path)
    assert made == []


def test_active_sessions_are_listed_without_what_was_declared(
    store: Store, made: "list[tuple[str, str | None]]"
) -> None:
    """S3-30: `status` reads no payload to count active sessions, and asks once where none is stale."""
    asked: list[str] = []
    query = store.query
    store.query = lambda sql, *more, **named: (asked.append(sql), query(sql, *more, **named))[1]  # type: ignore[method-assign,func-returns-value]
    began_us = query("select epoch_us(max(recorded_at)) from events where event_type = 'session'").rows[0][0]
    found = intent.listed_without_stale(store, began_us)

    assert found and len(asked) == 1
    assert made == []
    assert [s.session_id for s in found] == [
        s.session_id for s in sorted(intent.listed(store), key=lambda s: s.opened_position)
    ]


def test_sessions_that_nobody_ended_are_closed_before_they_are_listed(store: Store) -> None:
    """S3-30: a day later none of them is active, and the log says why."""
    count = len(intent.listed(store))
    now_us = store.query("select epoch_us(max(recorded_at)) from events").rows[0][0] + 2 * 86_400_000_000
    assert intent.listed_without_stale(store, now_us) == []
    assert count > 0
    stale = store.query("select count(*) from sessions where end_reason = 'stale'").rows
    assert stale == [(count,)]


def test_completeness_of_a_session_is_read_within_it(
    store: Store, groups_read: "list[tuple[int, tuple[str, ...]]]"
) -> None:
    """The events of a session are sought between its first and its last."""
    session, first, last = store.query(
        "select session_id, first_position, last_position from sessions order by last_position limit 1"
    ).rows[0]
    groups_read.clear()
    assert completeness(store, session).session_id == session
    groups = {group for group, columns in groups_read if columns != ("position",)}
    assert groups <= set(range(first // _GROUP_ROWS, last // _GROUP_ROWS + 1))


def test_a_provisional_name_is_looked_up_by_its_session(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which name a session got is asked of its row, not read from the sessions of the whole log."""
    from eventlog.log.reader import LogView

    types: list[Any] = []
    iterate = LogView.iterate

    def noted(view: LogView, *given: Any, **named: Any) -> Iterator[Event]:
        types.append(named.get("event_types"))
        return iterate(view, *given, **named)

    monkeypatch.setattr(LogView, "iterate", noted)
    turn = middle(store)
    assert any(
        "session:session-" in link for event in store.timeline(turn) for link in event["extends"] or ()
    )
    assert ("session",) not in types
