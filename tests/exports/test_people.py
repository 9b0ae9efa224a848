"""Authors and committers: kept in the log, and named in what leaves only where a setting says so."""

from pathlib import Path

import pytest

from eventlog.agents.git_history import import_git
from eventlog.exports import database, parquet
from eventlog.serve import mcp_read
from eventlog.store import Store
from locus_cli.main import run
from tests.agents.histories import History

_PEOPLE = (b"A U Thor", b"author@example.org", b"C O Mitter", b"committer@example.org")


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    path = History().put(b"a", b"1\n").commit("Add a").write(str(tmp_path / "r"))
    (tmp_path / "work").mkdir()
    with Store.init(tmp_path / "work" / ".locus", repo_hash="0" * 12) as store:
        import_git(store, path)
        store.seal()
    return tmp_path / "work" / ".locus"


@pytest.mark.parametrize("people", [False, True])
def test_people_leave_only_where_a_setting_says_so(store_dir: Path, tmp_path: Path, people: bool) -> None:
    """P5: exports and MCP leave authors out by default; `[export] people = true` lets them through."""
    if people:
        with open(store_dir / "config.toml", "a") as file:
            file.write("\n[export]\npeople = true\n")
    written = {}
    for name, options in (("locusgraph", ["--to"]), ("atif", ["--to"]), ("otlp", ["--to"])):
        out = tmp_path / f"{name}.out"
        assert run(["--store", str(store_dir), "export", name, *options, str(out)]) == 0
        written[name] = out.read_bytes()
    with Store.open(store_dir) as store:
        parquet.export(store, str(tmp_path / "parquet"))
        found = store.query("select event_id from events where event_type = 'intent'").rows[0][0]
        written["mcp"] = "".join(mcp_read.show(store, found)).encode()
        events = store.query("select payload from events where event_type = 'intent'").rows
        assert "author@example.org" in events[0][0]
        database.export(store, str(tmp_path / "made.duckdb"))
    import duckdb

    with duckdb.connect(str(tmp_path / "made.duckdb"), read_only=True) as con:
        written["duckdb"] = repr(con.sql("select payload from events").fetchall()).encode()
        made = con.sql(f"select payload from '{tmp_path}/parquet/events-*.parquet'").fetchall()
    written["parquet"] = repr(made).encode()
    for name, data in written.items():
        named = [word for word in _PEOPLE if word in data]
        assert named == (list(_PEOPLE) if people and name not in ("atif", "otlp") else []), name


def test_the_lossless_export_is_lossless(store_dir: Path, tmp_path: Path) -> None:
    """`export jsonl` is what a backup is made of: it holds what the log holds."""
    out = tmp_path / "log.jsonl"
    assert run(["--store", str(store_dir), "export", "jsonl", "--to", str(out)]) == 0
    assert all(word in out.read_bytes() for word in _PEOPLE)
