"""The log as one DuckDB file, and what programs that are not ours read of it and of Parquet files."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from eventlog import Store
from eventlog.base.errors import NotFound, Refused
from eventlog.exports import database, parquet
from eventlog.query.people import allowed
from eventlog.query.views import NAMES
from locus_cli.main import run
from tests.sql_demo import make_demo

# What every reader is asked: events by type, and what models used.
TYPES = "select event_type, count(*) as n from events group by all order by all"
TOKENS = "select model, prompt_tokens, completion_tokens from llm_calls order by model"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Part sealed, part tail."""
    with Store.open(make_demo(tmp_path_factory.mktemp("database") / "sample")) as store:
        store.seal()
        store.append([{"event_type": "error", "payload": {"message": "late"}, "event_id": "c" * 32}])
        yield store


@pytest.fixture(scope="module")
def files(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("files") / "out"
    parquet.export(store, str(directory), rows=20)
    return directory


def test_a_plain_duckdb_opens_the_file(store: Store, tmp_path: Path) -> None:
    """P8: every view has the same rows in the file as the store's own SQL gives, but for people."""
    report = database.export(store, str(tmp_path / "log.duckdb"))
    with duckdb.connect(str(tmp_path / "log.duckdb"), read_only=True) as con:
        con.execute("SET TimeZone = 'UTC'")
        store.people = allowed(store.fs, store.layout)
        for view in NAMES:
            columns = [f'"{name}"::VARCHAR' for name in store.query(f"select * from {view} limit 0").columns]
            ask = f"select {', '.join(columns)} from {{}} order by all"
            assert con.execute(ask.format(view)).fetchall() == store.query(ask.format(view)).rows, view
        assert con.execute("select next_position from locus").fetchall() == [(report.until,)]

    assert report.rows["events"] == store.status().events
    assert os.listdir(tmp_path) == ["log.duckdb"]


def test_a_name_that_is_taken_is_refused(store: Store, tmp_path: Path) -> None:
    """An export replaces nothing unless told to, and leaves nothing half."""
    target = tmp_path / "log.duckdb"
    target.write_text("mine")
    with pytest.raises(Refused, match="exists"):
        database.export(store, str(target))
    assert target.read_text() == "mine"
    with pytest.raises(NotFound):
        database.export(store, str(tmp_path / "none/log.duckdb"))
    assert run(["--store", store.layout.root, "export", "duckdb", "--to", str(target), "--force"]) == 0
    with duckdb.connect(str(target), read_only=True) as con:
        assert con.execute(TYPES).fetchall() == store.query(TYPES).rows
    assert os.listdir(tmp_path) == ["log.duckdb"]


def test_polars_reads_the_same_numbers(store: Store, files: Path) -> None:
    """P8: polars finds the store's own answers in the Parquet files."""
    polars = pytest.importorskip("polars")
    events = polars.read_parquet(files / "events-*.parquet")
    types = events.group_by("event_type").len().sort("event_type").rows()
    calls = polars.read_parquet(files / "llm_calls.parquet").sort("model")

    assert types == store.query(TYPES).rows
    assert calls.select("model", "prompt_tokens", "completion_tokens").rows() == store.query(TOKENS).rows
    assert events["position"].sort().to_list() == [
        p for (p,) in store.query("select position from events").rows
    ]


@pytest.mark.skipif(
    "LOCUS_HUNT" not in os.environ, reason="starting Spark takes twenty seconds (LOCUS_HUNT=1)"
)
def test_spark_reads_the_same_numbers(store: Store, files: Path) -> None:
    """P8: PySpark finds the store's own answers in the Parquet files."""
    sql = pytest.importorskip("pyspark.sql", reason="pip install 'locus-eventlog[spark]'")
    if shutil.which("java") is None:
        pytest.skip("PySpark needs Java")
    made = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    made = made.config("spark.driver.bindAddress", "127.0.0.1")
    spark = made.config("spark.driver.host", "127.0.0.1").getOrCreate()
    try:
        for name in ("events", "llm_calls"):
            place = f"{files}/events-*.parquet" if name == "events" else f"{files}/{name}.parquet"
            spark.read.parquet(place).createOrReplaceTempView(name)
        for ask in (TYPES, TOKENS):
            assert [tuple(row) for row in spark.sql(ask).collect()] == store.query(ask).rows
    finally:
        spark.stop()
