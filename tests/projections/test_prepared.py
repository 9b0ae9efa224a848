"""The fold of a small log by a plan that is kept: it says what the other says, and is planned once."""

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings

from eventlog.projections import fold, source
from eventlog.projections.prepared import PreparedFold, statement
from tests.conftest import examples
from tests.projections.logs import event, histories, live
from tests.projections.test_fold import a_log

TABLES = (*fold.STORED, "beaten")
Rows = dict[str, list[Any]]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with source.connect() as connection:
        connection.execute(fold.WORK)
        yield connection


@pytest.fixture(scope="module")
def prepared(con: duckdb.DuckDBPyConnection) -> PreparedFold:
    return PreparedFold(con)


def _load(con: duckdb.DuckDBPyConnection, events: list[dict[str, Any]]) -> None:
    con.execute("DETACH work; " + fold.WORK)
    source.load_tail(con, "work.tail", events)


def _rows(con: duckdb.DuckDBPyConnection, schema: str) -> Rows:
    return {
        table: sorted(con.execute(f"SELECT COLUMNS(*)::VARCHAR FROM {schema}.{table}").fetchall(), key=repr)
        for table in TABLES
    }


def _names(con: duckdb.DuckDBPyConnection, schema: str) -> "dict[str, list[tuple[str, str]]]":
    return {
        table: [row[:2] for row in con.execute(f"DESCRIBE {schema}.{table}").fetchall()] for table in TABLES
    }


@settings(max_examples=examples(12, 300))
@given(histories())
def test_it_makes_what_the_other_fold_makes(
    con: duckdb.DuckDBPyConnection, prepared: PreparedFold, history: list[tuple[str, list[dict[str, Any]]]]
) -> None:
    """I19, I20, I21: one set of rules, whoever composes them; of the log before nothing is left."""
    with a_log() as log:
        live(log, [(step, batch) for step, batch in history if batch])
        with log.view() as view:
            _load(con, view.tail_parts(1_000)[1])
    prepared.of("work.tail")
    con.execute("DROP SCHEMA IF EXISTS other CASCADE; CREATE SCHEMA other")
    fold.fold(con, f"({source.events_with_anchors([], 'work.tail')})", fold.STORED, "memory.other")

    assert _names(con, "prepared.main") == _names(con, "memory.other")
    assert _rows(con, "prepared.main") == _rows(con, "memory.other")


def test_nothing_is_left_of_a_log(con: duckdb.DuckDBPyConnection, prepared: PreparedFold) -> None:
    """P5: neither in its tables nor in the variable of its parameter."""
    _load(con, [event("turn", 1, position=0, session_id="s", turn=1, operation="start", payload="{}")])
    prepared.of("work.tail")
    assert _rows(con, "prepared.main")["turns"] != []
    prepared.clear()
    assert set(map(len, _rows(con, "prepared.main").values())) == {0}
    assert con.execute("SELECT count(*) FROM duckdb_variables()").fetchall() == [(0,)]
    prepared.drop()
    listed = "SELECT count(*) FROM duckdb_databases() WHERE database_name = 'prepared'"
    assert con.execute(listed).fetchall() == [(0,)]


def test_its_plan_scans_no_table(con: duckdb.DuckDBPyConnection) -> None:
    """DuckDB plans a prepared statement again at each execution when it scans a table."""

    def scans(select: str) -> set[str]:
        [(_, plan)] = con.execute(f"EXPLAIN (FORMAT json) {select}").fetchall()
        return set(re.findall(r'"name": "([A-Z_ ]*SCAN[A-Z_ ]*)"', plan))

    con.execute("CREATE OR REPLACE TABLE any_table AS SELECT 1 AS one")
    assert scans("FROM any_table") == {"SEQ_SCAN"}
    assert scans(statement().replace("$1", "NULL")) == {"COLUMN_DATA_SCAN", "CTE_SCAN", "DUMMY_SCAN"}
