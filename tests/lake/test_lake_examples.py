"""docs/lake-questions.md and its examples, run over a lake with tables."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog.lake.place import Place
from tests.lake.shared_sessions import publish_team
from tests.lake.small import answer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def tables(file_place: Place, sqlite_catalog: str) -> "tuple[Place, str]":
    """A team's lake with the tables of `locus lake fold`."""
    publish_team(file_place)
    for verb in ("init", "commit", "fold"):
        answer("lake", verb, file_place.uri, "--catalog", sqlite_catalog)
    return file_place, sqlite_catalog


def printed(example: str, *arguments: str) -> "list[dict[str, str]]":
    """What an example writes, by the names in its first line."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    head, *lines = (line.split(",") for line in done.stdout.splitlines())
    return [dict(zip(head, line, strict=True)) for line in lines]


def asked(place: Place, question: str) -> "list[dict[str, str]]":
    rows: Any = answer("sql", "--lake", place.uri, question)
    return [{name: str(value) for name, value in row.items()} for row in rows]


def test_duckdb_reads_the_tables(tables: "tuple[Place, str]") -> None:
    """The example in DuckDB gives what `locus sql --lake` gives of the same objects."""
    place, catalog = tables
    question = (
        "select agent, model, count(*) as calls, count(distinct session_id) as sessions, "
        "sum(prompt_tokens)::bigint as read, sum(completion_tokens)::bigint as written "
        "from llm_calls group by all"
    )
    rows = printed("lake_duckdb.py", catalog)
    assert rows == asked(place, question)
    assert rows[0]["calls"] == "8"


def test_polars_reads_the_tables(tables: "tuple[Place, str]") -> None:
    """The example in polars gives what `locus sql --lake` gives of the same objects."""
    place, catalog = tables
    question = (
        "select repo, count(*) as turns, sum(tool_calls)::bigint as tool_calls, count(*) filter (errors > 0) "
        "as with_errors, sum(tokens_used)::bigint as tokens_used from turns group by all "
        "order by tokens_used desc, repo"
    )
    rows = printed("lake_polars.py", catalog)
    assert rows == asked(place, question)
    assert len(rows) == 2


def test_the_notebook_has_the_weeks_of_the_team(
    tables: "tuple[Place, str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cells of the notebook run in order, and count what `locus stats --lake` counts."""
    place, catalog = tables
    monkeypatch.setenv("LAKE_CATALOG", catalog)
    names: dict[str, Any] = {}
    cells = json.loads((EXAMPLES / "lake_week.ipynb").read_text())["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "a notebook is kept without its answers"
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    rows = names["weeks"].fetchall()
    for index, by in ((0, "week"), (1, "person")):
        sums: dict[str, int] = {}
        for row in rows:
            sums[row[index]] = sums.get(row[index], 0) + row[3]
        figures = answer("stats", "--lake", place.uri, "--by", by)["stats"]["rows"]
        assert sums == {row["key"]: row["prompt_tokens"] + row["completion_tokens"] for row in figures}
    assert len(rows) == 4


def test_the_page_names_files_that_are_there() -> None:
    """Every example that docs/lake-questions.md names is one of the repository."""
    page = (EXAMPLES.parent / "docs/lake-questions.md").read_text()
    for path in EXAMPLES.glob("lake_*"):
        assert f"../examples/{path.name}" in page, path
    assert os.path.exists(EXAMPLES.parent / "docs/lake-tables.md")
