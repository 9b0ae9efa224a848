"""examples/spark_sql.py: Spark SQL sees the tables of a lake as all others do.

LAKE_JARS names Iceberg's library and the driver of Postgres, ICEBERG the package of the former; without them
the test is left out.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eventlog.lake import tables
from eventlog.lake.folding import driver
from eventlog.lake.place import Place
from tests.cluster import stores as made

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/spark_sql.py"

# What both engines are asked.
QUESTIONS = (
    "SELECT event_type, count(*) AS events, max(position) AS newest FROM lake.events GROUP BY event_type",
    "SELECT model, CAST(sum(prompt_tokens) AS BIGINT) AS tokens, count(*) AS calls FROM lake.llm_calls "
    "GROUP BY model",
    "SELECT t.store_id, count(*) AS turns, CAST(sum(t.tokens_used) AS BIGINT) AS tokens, "
    "max(s.last_at) AS newest "
    "FROM lake.turns t JOIN lake.sessions s ON s.store_id = t.store_id AND s.session_id = t.session_id "
    "GROUP BY t.store_id",
)
# A table of one's own, and what is changed in it by one of ours.
MERGE = (
    "CREATE NAMESPACE own",
    "CREATE TABLE own.notes USING iceberg AS SELECT store_id, session_id, 'seen' AS note FROM lake.sessions",
    "MERGE INTO own.notes n USING lake.sessions s ON n.store_id = s.store_id AND n.session_id = s.session_id "
    "WHEN MATCHED AND s.errors > 0 THEN UPDATE SET note = 'errors' "
    "WHEN MATCHED AND s.tool_calls = 0 THEN DELETE",
)


@pytest.fixture
def lake(s3_place: Place, postgres_catalog: str, tmp_path: Path) -> "Iterator[tuple[Place, str]]":
    """A bucket and a catalog in Postgres, with all tables."""
    if not os.environ.get("LAKE_JARS"):
        pytest.skip("LAKE_JARS does not name Iceberg's library for Spark")
    with made.made(tmp_path / "stores") as stores:
        made.publish_all(s3_place, stores)
    tables.init(s3_place, postgres_catalog)
    tables.commit(s3_place, postgres_catalog)
    driver.fold(s3_place, postgres_catalog)
    yield s3_place, postgres_catalog


def test_spark_sql_answers_as_others_do(lake: "tuple[Place, str]") -> None:
    """Every row and column of every table is what pyiceberg reads, sums and joins are those of DuckDB, and
    pyiceberg reads what a MERGE made of a table beside ours.
    """
    place, catalog = lake
    contents = rows_of_all_tables(place, catalog)
    questions = {f"lake.{name}": f"SELECT * FROM lake.{name}" for name in contents}
    questions |= {question: question for question in QUESTIONS}
    questions |= {"own.notes": "SELECT * FROM own.notes"}
    named = [
        f"SELECT '{number}' AS question, q.* FROM ({text}) q"
        for number, text in enumerate(questions.values())
    ]
    answers: dict[str, list[Any]] = {name: [] for name in questions}
    for row in asked(place, catalog, *MERGE, *named):
        answers[list(questions)[int(row.pop("question"))]].append(row)

    for name, table in contents.items():
        assert in_order(answers[f"lake.{name}"]) == in_order(table.to_pylist()), name
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'; CREATE SCHEMA lake")
        for name, table in contents.items():
            con.register(f"its_{name}", table)
            con.execute(f"CREATE VIEW lake.{name} AS FROM its_{name}")
        for question in QUESTIONS:
            assert in_order(answers[question]) == in_order(con.sql(question).to_arrow_table().to_pylist())
    notes = [
        {"store_id": row["store_id"], "session_id": row["session_id"], "note": note}
        for row in contents["sessions"].to_pylist()
        if (note := "errors" if row["errors"] else "seen" if row["tool_calls"] else "")
    ]
    assert {row["note"] for row in notes} == {"errors", "seen"}
    assert in_order(answers["own.notes"]) == in_order(notes) == in_order(own_notes(catalog))


def asked(place: Place, catalog: str, *statements: str) -> "list[dict[str, Any]]":
    """The rows that the example prints, of all statements."""
    jdbc = "jdbc:" + catalog.replace("+psycopg2", "").replace("locus@", "")
    environ = {**os.environ, "PGUSER": "locus", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(EXAMPLE), jdbc, place.uri, *statements]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_of_all_tables(place: Place, catalog: str) -> "dict[str, Any]":
    """Every table of a lake, as pyiceberg reads it."""
    with tables.opened(place, catalog) as opened:
        names = [name for _, name in opened.list_tables(tables.NAMESPACE)]
        return {
            name: tables.loaded(place, opened, catalog, f"lake.{name}").scan().to_arrow() for name in names
        }


def own_notes(catalog: str) -> "list[dict[str, Any]]":
    """The table beside ours, as pyiceberg reads it with the settings of S3 alone."""
    from pyiceberg.catalog import load_catalog

    settings = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "type": "sql", "uri": catalog}
    rows: list[dict[str, Any]] = (
        load_catalog("locus", **settings).load_table("own.notes").scan().to_arrow().to_pylist()
    )
    return rows


def in_order(rows: "list[dict[str, Any]]") -> "list[str]":
    """Rows as the example prints them, sorted."""
    return sorted(json.dumps(row, default=_of_time, sort_keys=True) for row in rows)


def _of_time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat()
