"""Events and projections as Parquet files that any reader understands."""

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from eventlog.base.errors import Corruption, EventLogError, Refused
from eventlog.base.types import COLUMN_NAMES
from eventlog.exports import database, parquet
from eventlog.query.views import PROJECTIONS
from eventlog.store import Store
from tests.exports.stores import new_store, small_log
from tests.older import append_as_before


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Part sealed, part tail."""
    made = new_store(tmp_path / "one")
    append_as_before(made, small_log()[:6])
    made.seal()
    append_as_before(made, small_log()[6:])
    return made


@pytest.mark.slow
def test_any_reader_finds_the_log(store: Store, tmp_path: Path) -> None:
    """P8: plain DuckDB reads the same events and projections from the files as the store's own SQL gives."""
    report = parquet.export(store, str(tmp_path / "out"), rows=4)
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    places = {"events": "events-*", **{name: name for name in PROJECTIONS}}
    for view, place in places.items():
        columns = [f'"{name}"::VARCHAR' for name in store.query(f"select * from {view} limit 0").columns]
        ask = f"select {', '.join(columns)} from {{}} order by all"
        expected = store.query(ask.format(view)).rows
        found = con.execute(ask.format(f"'{tmp_path}/out/{place}.parquet'")).fetchall()
        assert found == expected, view

    assert [report.rows[f"events-0000{n}.parquet"] for n in range(4)] == [4, 4, 4, 2]
    assert pq.read_schema(tmp_path / "out/events-00000.parquet").names == [*COLUMN_NAMES, "person", "host"]
    assert pq.read_schema(tmp_path / "out/turns.parquet").metadata[b"locus.next_position"] == b"14"


def test_an_empty_log_has_its_columns(tmp_path: Path) -> None:
    """An export of nothing has a file for everything, without rows."""
    report = parquet.export(new_store(tmp_path / "one"), str(tmp_path / "out"))

    assert set(report.rows) == {
        "events-00000.parquet",
        "prices.parquet",
        *(f"{name}.parquet" for name in PROJECTIONS),
    }
    assert set(report.rows.values()) == {0}
    assert pq.read_schema(tmp_path / "out/events-00000.parquet").names == [*COLUMN_NAMES, "person", "host"]


def test_a_directory_with_something_in_it_is_refused(store: Store, tmp_path: Path) -> None:
    """P8: foreign files are never touched; with force only files of an export's own names are replaced."""
    out = tmp_path / "out"
    out.mkdir()
    parquet.export(store, str(out), rows=4)
    (out / "notes.txt").write_text("precious")
    with pytest.raises(Refused, match="--force"):
        parquet.export(store, str(out))
    parquet.export(store, str(out), force=True)

    assert sorted(p.name for p in out.iterdir()) == [
        "events-00000.parquet",
        "llm_calls.parquet",
        "notes.txt",
        "prices.parquet",
        "sessions.parquet",
        "sessions_master.parquet",
        "turns.parquet",
    ]
    assert (out / "notes.txt").read_text() == "precious"


def test_a_damaged_log_is_not_exported(store: Store, tmp_path: Path) -> None:
    """I11: whatever byte of a sealed event has changed, an export says so and leaves nothing."""
    (segment,) = (tmp_path / "one/.locus/log/segments").iterdir()
    sound = segment.read_bytes()
    for at in (4, 900, len(sound) // 2):
        segment.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        with pytest.raises(Corruption):
            parquet.export(store, str(tmp_path / "out"))
        with pytest.raises(Corruption):
            database.export(store, str(tmp_path / "out.duckdb"))
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


def test_a_failed_export_leaves_nothing(store: Store, tmp_path: Path) -> None:
    """P8: where the directory cannot be made nothing is left behind."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refused, match="not a directory"):
        parquet.export(store, str(tmp_path / "file"))
    with pytest.raises(EventLogError, match="make it first"):
        parquet.export(store, str(tmp_path / "none/out"))

    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "one"]
