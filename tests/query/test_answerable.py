"""How a statement is answered: how often DuckDB binds it, and that what is known of it is never trusted."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import duckdb
import pytest

from eventlog.base.errors import QueryError
from eventlog.projections import source
from eventlog.query import results, safe
from eventlog.query.engine import Limits
from eventlog.query.results import Answerable
from tests.projections.logs import Log, event

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIME = "TIMESTAMP WITH TIME ZONE"


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are bound for their columns, as they are bound; none is known yet."""
    monkeypatch.setattr(results, "_shapes", {})
    texts: list[str] = []
    bind = Answerable._bound

    def noted(self: Answerable) -> duckdb.DuckDBPyRelation:
        texts.append(self._statement.sql)
        return bind(self)

    monkeypatch.setattr(Answerable, "_bound", noted)
    return texts


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with source.connect() as connection:
        yield connection


def _ask(con: duckdb.DuckDBPyConnection, sql: str, parameters: Any = None) -> results.Result:
    return results.rows_within(Limits())(Answerable(con, safe.check(con, sql), parameters))


def test_columns_of_a_statement_are_asked_once_in_a_process(log: Log, bound: list[str]) -> None:
    """I21: whatever the log, also of a grown one, and of one with segments."""
    asked = "SELECT title, recorded_at FROM events WHERE title = ? ORDER BY position"
    for number in range(1, 4):
        log.append(event("error", number, title="found", recorded_at=number))
        answer = log.query(asked, "found")
        assert (len(answer.rows), answer.types) == (number, ("VARCHAR", TIME))
        assert all(at.tzinfo is UTC for _, at in answer.rows)
    log.seal()
    assert len(log.rows(asked, "found")) == 3
    assert bound == [asked]


def test_parameters_of_another_kind_are_another_statement(
    con: duckdb.DuckDBPyConnection, bound: list[str]
) -> None:
    """I21: their types can be those of the columns."""
    for value in (AT, 1, "text", None, AT, [AT], [1]):
        assert _ask(con, "SELECT ? AS value", [value]).rows == [(value,)]
        assert _ask(con, "SELECT $value AS value", {"value": value}).rows == [(value,)]
    assert len(bound) == 2 * 6  # the second time of AT is known


def test_other_columns_than_those_known_are_seen(con: duckdb.DuckDBPyConnection, bound: list[str]) -> None:
    """I21: DuckDB gives others than before: more of them, other names, times where there were none."""
    for columns in ("1 AS a", "1 AS a, 2 AS b", "1 AS b", "'x' AS b", f"'{AT}'::{TIME} AS b"):
        con.execute(f"CREATE OR REPLACE TABLE seen AS SELECT {columns}")
        fresh = con.sql("FROM seen")
        answer = _ask(con, "SELECT * FROM seen")
        assert (list(answer.columns), list(answer.types)) == (fresh.columns, list(map(str, fresh.types)))
        assert len(answer.rows[0]) == len(fresh.columns)
    assert answer.rows == [(AT,)]
    assert bound == ["SELECT * FROM seen"] * 5


def test_columns_of_one_name_keep_their_order(con: duckdb.DuckDBPyConnection, bound: list[str]) -> None:
    """They cannot be distinguished by their names, nor compared: so they are bound each time."""
    asked = f"SELECT 1 AS a, '{AT}'::{TIME} AS a, 3 AS A"
    for _ in range(2):
        answer = _ask(con, asked)
        assert answer.rows == [(1, AT, 3)] and answer.columns == ("a", "a", "A")
    assert bound == [asked] * 2


def test_what_cannot_be_in_a_select_is_answered(con: duckdb.DuckDBPyConnection) -> None:
    """EXPLAIN, statements that end with a comment, and DuckDB's own short forms."""
    con.execute("CREATE TABLE seen AS SELECT 1 AS a")
    for _ in range(2):
        assert "Dummy Scan" in str(_ask(con, "EXPLAIN SELECT 1").rows)
        for asked in (
            "SELECT a FROM seen -- all",
            "FROM seen",
            "VALUES (1)",
            "(SELECT 1 AS a)",
            "TABLE seen;",
        ):
            assert _ask(con, asked).rows == [(1,)]
        assert _ask(con, "DESCRIBE seen").rows[0][:2] == ("a", "INTEGER")


def test_an_error_names_the_line_of_the_question(log: Log, bound: list[str]) -> None:
    """The first time, when it is bound, and later, when it is known."""
    log.append(event("error", 1, title="x"))
    asked = "SELECT title,\n    CAST(title AS INTEGER) AS number\nFROM events WHERE title <> ?"
    assert log.rows(asked, "x") == []
    for _ in range(2):
        with pytest.raises(QueryError, match=r"LINE 2:     CAST\(title AS INTEGER\)"):
            log.rows(asked, "y")
