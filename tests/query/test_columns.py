"""The columns that a statement can mean: enough of them for its answer, and few of the others."""

import json
from typing import Any

import duckdb
import pytest

from eventlog.query import columns

VIEWS = {"turns": ("turn", "title", "model", "cost_usd"), "events": ("turn", "tool", "payload", "person")}
# Statements, with the columns that they are known to mean.
KNOWN = {
    "SELECT turn FROM turns": "turn",
    "SELECT count(*) FROM turns": "",
    "SELECT t.title, count(*) OVER (PARTITION BY t.model) FROM turns t": "title model",
    "SELECT title FROM turns JOIN events USING (turn) WHERE tool = 'x'": "title turn tool",
    "WITH x AS (SELECT turn, title FROM turns) SELECT x.*, * FROM x ORDER BY ALL": "turn title",
    "SELECT * FROM (SELECT turn FROM turns UNION ALL SELECT turn FROM events)": "turn",
    "SELECT (SELECT max(turn) FROM events), title IN (SELECT tool FROM events) FROM turns": "turn title tool",
    "SELECT DISTINCT ON (title) turn FROM turns ORDER BY title LIMIT 1": "turn title",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r": "n",
    "SELECT title FROM turns QUALIFY row_number() OVER (ORDER BY turn) = 1": "title turn",
    "SELECT n FROM (VALUES (1), (2)) AS v(n)": "n",
}
# Statements that can mean any column.
ANY = [
    "FROM turns",
    "SELECT * FROM turns",
    "SELECT t.* FROM (SELECT turn FROM events) JOIN turns t USING (turn)",
    "SELECT columns('c.*') FROM turns",
    "SELECT * EXCLUDE (title) FROM turns",
    "SELECT turns FROM turns",
    "SELECT to_json(t) FROM turns AS t",
    "SELECT d FROM turns AS x(a, b, c, d)",
    "SELECT count(*) FROM turns NATURAL JOIN events",
    "SELECT #4 FROM turns",
    "WITH turns AS (SELECT * FROM turns) SELECT turn FROM turns",
    "WITH x AS (FROM turns) SELECT turn FROM x",
    "SELECT (SELECT max(columns(*)) FROM events) FROM turns",
    "DESCRIBE turns",
]


@pytest.mark.parametrize("sql", KNOWN)
def test_an_answer_needs_no_other_column(sql: str) -> None:
    """A statement answers the same from tables that have only the columns that it was found to mean."""
    found = _found(sql)

    assert found is not None
    assert found == set(KNOWN[sql].split())
    assert _answer(sql, found) == _answer(sql, {name for names in VIEWS.values() for name in names})


@pytest.mark.parametrize(
    ("sql", "parameter"),
    [
        ("SELECT * FROM turns WHERE session_id = $1 AND turn = $2", "1"),
        ("SELECT * FROM turns WHERE turn = $1 AND session_id = $2 LIMIT 3", "2"),
        ("SELECT * FROM turns WHERE session_id = $name", "name"),
        ("SELECT * FROM turns WHERE session_id = $1 OR turn = 3", None),
        ("SELECT * FROM turns WHERE NOT session_id = $1", None),
        ("SELECT * FROM turns WHERE session_id = $1 AND turn IN (SELECT turn FROM turns)", None),
        ("SELECT * FROM turns, events WHERE session_id = $1", None),
        ("SELECT * FROM turns WHERE session_id = $1 UNION ALL FROM turns", None),
        ("SELECT session_id = $1 FROM turns", None),
    ],
)
def test_the_one_session_that_a_statement_asks_for(sql: str, parameter: "str | None") -> None:
    """A statement asks for one session only where each row it can read has to be of that session."""
    assert columns.session_parameter(_tree(sql)) == parameter


@pytest.mark.parametrize("sql", ANY)
def test_what_can_mean_any_column_counts_as_all(sql: str) -> None:
    """Stars over a view, whole rows, names by position and joins by all names mean columns without a name."""
    assert _found(sql) is None


def _found(sql: str) -> "frozenset[str] | None":
    return columns.of_tree(_tree(sql), VIEWS)


def _tree(sql: str) -> Any:
    with duckdb.connect() as con:
        (text,) = con.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0]
    return json.loads(text)


def _answer(sql: str, present: "set[str] | frozenset[str]") -> tuple[Any, list[Any]]:
    with duckdb.connect() as con:
        for view, names in VIEWS.items():
            some = [f"'{view} {name}' AS {name}" for name in names if name in present]
            con.execute(f"CREATE TABLE {view} AS SELECT {', '.join(some) or '1 AS nothing'}")
        con.execute(sql)
        return [column[0] for column in con.description or ()], con.fetchall()
