"""Answers of statements that are planned once (`results.rows_at_once`): they are those of a relation."""

from typing import Any

import pytest

from eventlog.base.errors import QueryError
from eventlog.query import engine
from tests.projections.logs import Log, event

ASKED: "tuple[tuple[str, tuple[Any, ...]], ...]" = (
    ("SELECT count(*) FROM events", ()),
    ("SELECT event_id, payload, extends FROM events WHERE turn = $1 ORDER BY position", (1,)),
    ("SELECT 1 AS a, 2 AS a, 1.50::DECIMAL(5, 2) AS d, {'a': [NULL, 'x']} AS s, INTERVAL 1 DAY AS i", ()),
    (
        "SELECT make_timestamptz(1700000000123456) AS x, [make_timestamptz(0)] AS l",
        (),
    ),  # times of other names
    ("SELECT occurred_at, position FROM events ORDER BY position", ()),
    ("SELECT session_id, turn, title FROM turns ORDER BY turn", ()),
    ("DESCRIBE SELECT 1 AS x", ()),
    ("EXPLAIN SELECT position FROM events WHERE false", ()),
    ("VALUES (1), (2)", ()),
    ("SELECT position\nFROM events\nWHERE event_id = 1 / 'x'", ()),  # wrong, each in its way
    ("SELECT nothing FROM events", ()),
    ("SELECT error('said ' || event_id)\nFROM events", ()),
    ("SELECT $1::BIGINT", ("x",)),
    ("SELECT $1", ()),
    ("SELECT position FROM events", (1,)),
)


@pytest.fixture
def told(log: Log) -> Log:
    log.append(*(event("action", n, session_id="s1", turn=n % 2, occurred_at=n) for n in range(4)))
    return log


@pytest.mark.parametrize("ask, parameters", ASKED)
def test_it_is_the_answer_of_a_relation(
    told: Log, ask: str, parameters: "tuple[Any, ...]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """I21: names, types, rows and errors, with the wrong line, do not depend on how the answer is read."""

    def answer() -> Any:
        try:
            return told.query(ask, *parameters)
        except QueryError as error:
            return str(error)

    at_once = answer()
    monkeypatch.setattr(engine, "_at_once", lambda *_: None)
    assert at_once == answer()
