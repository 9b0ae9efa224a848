"""docs/sql.md: what it promises of views, columns, functions and answers."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import Store
from eventlog.query import functions
from eventlog.query.views import COLUMNS_OF
from locus_cli.output import result_table
from tests.sql_demo import make_demo

PAGE = Path(__file__).parents[1] / "docs/sql.md"
EXAMPLE = re.compile(r"```sql\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S)
_TABLES = (
    ("tree_at", functions.TREE),
    ("diff_between", functions.DIFF),
    ("history_of", functions.HISTORY),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(make_demo(tmp_path_factory.mktemp("demo") / "sample")) as store:
        yield store


def with_answers(page: Path, store: Store) -> str:
    """The text of a page with the present answer below each question; with LOCUS_UPDATE=1 it is written."""

    def answered(match: "re.Match[str]") -> str:
        return f"```sql\n{match[1]}```\n\n```text\n{result_table(store.query(match[1]), 0)}```\n"

    made = EXAMPLE.sub(answered, page.read_text(encoding="utf-8"))
    if os.environ.get("LOCUS_UPDATE") == "1":
        page.write_text(made, encoding="utf-8")
    return made


def test_every_example_gives_the_answer_below_it(store: Store) -> None:
    """S1-56: each question of docs/sql.md, asked of the demo store, is answered as the page says.

    LOCUS_UPDATE=1 writes the present answers into the page instead of comparing.
    """
    made = with_answers(PAGE, store)

    assert len(EXAMPLE.findall(made)) >= 18
    assert PAGE.read_text(encoding="utf-8") == made


def test_every_view_and_column_is_described(store: Store) -> None:
    """S1-56: docs/sql.md lists every view and table function with its columns, types and their meaning.

    LOCUS_UPDATE=1 rewrites these lists, below `# Columns`.
    """
    made = "\n# Columns\n"
    for name, columns in (*COLUMNS_OF.items(), *((f"{name}(…)", columns) for name, columns in _TABLES)):
        made += f"\n## `{name}`\n\n| Column | Type | Meaning |\n|---|---|---|\n"
        made += "".join(f"| `{one}` | {kind.lower()} | {meaning} |\n" for one, kind, meaning in columns)
    head = PAGE.read_text(encoding="utf-8").partition("\n# Columns\n")[0]
    if os.environ.get("LOCUS_UPDATE") == "1":
        PAGE.write_text(head + made, encoding="utf-8")

    assert PAGE.read_text(encoding="utf-8") == head + made
    for call, columns in (("tree_at('last')", functions.TREE), ("history_of('hello.py')", functions.HISTORY)):
        found = store.query(f"select * from {call} limit 0")
        assert [(n, k.upper()) for n, k in zip(found.columns, found.types, strict=True)] == [
            (name, kind) for name, kind, _ in columns
        ]
