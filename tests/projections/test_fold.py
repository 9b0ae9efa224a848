"""The projections against a plain Python fold, over any log in any state of sealing and indexing."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings

from tests.conftest import examples
from tests.projections import oracle
from tests.projections.logs import Log, event, histories, index_tables, live

History = list[tuple[str, list[dict[str, Any]]]]


@contextmanager
def a_log() -> Iterator[Log]:
    """A log in a directory of its own, since an example of a property is not a test of its own."""
    root = tempfile.mkdtemp(prefix="locus-test-")
    try:
        yield Log(f"{root}/.locus")
    finally:
        shutil.rmtree(root)


def differences(found: Any, expected: Any) -> list[str]:
    """Where two sets of projections differ, one line for each cell."""
    lines = []
    for name in expected:
        for key in sorted({*found[name], *expected[name]}, key=repr):
            one, other = found[name].get(key), expected[name].get(key)
            if one is None or other is None:
                lines.append(f"{name} {key}: {'missing' if one is None else 'made up'}")
                continue
            for column in sorted({*one, *other}):
                if one.get(column, "no column") != other.get(column, "no column"):
                    lines.append(f"{name} {key} {column}: {one.get(column)!r} for {other.get(column)!r}")
    return lines


def check(history: History) -> None:
    with a_log() as log:
        live(log, history)
        expected = oracle.project(log.events())

        found = log.tables()
        assert differences(found, expected) == []
        for name, end in (("turns", "completed_at"), ("sessions", "ended_at")):
            assert all(
                row["started_at"] <= row[end]
                for row in found[name].values()
                if row["started_at"] is not None and row[end] is not None
            ), "nothing starts after it ends"

        log.seal()
        report = log.make_index()
        assert differences(log.tables(), expected) == []
        if report is None:
            return
        with index_tables(log, report.name) as tables:
            made_step_by_step = tables
        again = log.make_index(fresh=True)
        assert again is not None and again.name == report.name and not again.incremental
        with index_tables(log, again.name) as tables:
            assert made_step_by_step == tables


@settings(max_examples=examples(6, 100))
@given(histories())
def test_any_log_folds_to_what_the_rules_say(history: History) -> None:
    """I19, I20, I21, I22: index + tail = whole log = Python fold, wherever segments and generations end;
    an index made step by step has the rows of one made at once."""
    check(history)


def test_hunt_for_a_log_that_folds_otherwise(hunt_minutes: float) -> None:
    """I19, I20, I21: the same, for as long as LOCUS_HUNT says."""
    if not hunt_minutes:
        pytest.skip("LOCUS_HUNT is not set")
    until = time.monotonic() + hunt_minutes * 60

    @settings(max_examples=20)
    @given(histories())
    def hunt(history: History) -> None:
        check(history)

    while time.monotonic() < until:
        hunt()


def test_nothing_happened_when_it_was_imported() -> None:
    """P7: of what an import tells without a time nobody knows when it happened; of what a recorder writes
    everybody does."""
    with a_log() as log:
        imported = {"agent": "cursor", "agent_session_id": "x", "session_id": "s1", "turn": 1}
        live = {"agent": "script", "agent_session_id": "y", "session_id": "s2", "turn": 1}
        for number, columns in enumerate((imported, live)):
            for step, operation in enumerate(("start", "end")):
                columns["recorded_at"] = 1_700_000_000_000_000 + step
                log.append(event("turn", 10 * number + step, operation=operation, **columns))
        log.append(event("turn", 30, operation="start", **imported | {"turn": 2}, occurred_at=5_000_000))
        log.append(event("action", 31, **imported | {"turn": 2}, occurred_at=7_000_000))
        log.append(event("turn", 32, operation="end", **imported | {"turn": 2}))

        found = log.rows(
            "select session_id, turn, epoch_us(started_at), epoch_us(completed_at) from turns order by all"
        )
        assert found == [
            ("s1", 1, None, None),
            ("s1", 2, 5_000_000, 7_000_000),
            ("s2", 1, 1_700_000_000_000_000, 1_700_000_000_000_001),
        ]


def test_an_imported_session_is_never_the_active_one() -> None:
    """An import tells of what is over: also where its end is not there, the master's active session is the
    one that is at work."""
    with a_log() as log:
        start = {"operation": "start", "status": "active", "repo": "r1"}
        log.append(event("session", 1, **start, agent="codex", session_id="s1", agent_session_id="x"))
        log.append(
            {**event("session", 2, **start, agent="codex", session_id="s2", agent_session_id="y"),
             "payload": {"hook_us": 9}},
            {**event("session", 3, **start, agent="git", session_id="s3", agent_session_id="z"),
             "payload": {"session_id": "s3"}},
        )  # fmt: skip

        assert log.rows("select session_id, status from sessions order by all") == [
            ("s1", "closed"), ("s2", "active"), ("s3", "closed"),
        ]  # fmt: skip
        assert log.rows("select active_session, active_sessions from sessions_master") == [
            ("session:session-s2_s2", 1)
        ]
