"""Rules that Python and SQL both state give the same for the same values (docs/decisions/twins.md)."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from eventlog.base import names, paths
from eventlog.log import numbering
from eventlog.memory import facts
from eventlog.projections import definitions, elsewhere, happened, lives, source
from eventlog.query import added, people, views
from eventlog.query.people import NO, People
from eventlog.replay import line_counts
from eventlog.search import indexer

TEXTS = ("", "a1b2c3d4", "Ünï cødé", "A B:C_d-e", "x" * 300, "o'clock", "slug/../x", "日本")


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with source.connect() as connection:
        yield connection


def in_sql(con: duckdb.DuckDBPyConnection, expression: str, **values: Any) -> Any:
    """The value of an expression over one row with these columns."""
    kinds = {str: "VARCHAR", int: "BIGINT"}
    columns = ", ".join(f"?::{kinds.get(type(value), 'VARCHAR')} AS {name}" for name, value in values.items())
    row = con.execute(f"SELECT {expression} FROM (SELECT {columns})", list(values.values())).fetchone()
    assert row is not None
    return row[0]


def indexed_at(event: dict[str, Any]) -> list[int | None]:
    """When the search index says that an event happened."""
    kinds = {"occurred_at": pa.timestamp("us", "UTC"), "recorded_at": pa.timestamp("us", "UTC")}
    columns = {name: pa.array([value], kinds.get(name, pa.string())) for name, value in event.items()}
    return indexer.times_of(pa.RecordBatch.from_pydict(columns))


@pytest.mark.parametrize("text", TEXTS)
def test_names_of_contexts(con: duckdb.DuckDBPyConnection, text: str) -> None:
    """S0-9: the context of a session without a name, and the letters of a name, are the same in both."""
    default = definitions.default_context("session_id")
    assert in_sql(con, default, session_id=text) == numbering.default_context(text)
    assert in_sql(con, lives.safe("name"), name=text) == names.safe_context_name(text)


def test_whose_project_a_session_is_of(con: duckdb.DuckDBPyConnection) -> None:
    """P7: what a hook folds into a briefing is of the same projects as what the index gives."""
    agents = (None, "none", "person", *happened.IMPORTED_AGENTS)
    condition = elsewhere.session_of_project("'own'")
    for agent, own_id, repo in product(agents, (None, "s"), (None, "own", "other")):
        session = {"agent": agent, "agent_session_id": own_id, "repo": repo}
        assert in_sql(con, condition, **session) == facts.is_of_project(session, "own"), session


def test_when_an_event_happened(con: duckdb.DuckDBPyConnection) -> None:
    """P7: an event without a time of its own happened when it was recorded, unless an import wrote it."""
    agents = (None, "none", *happened.IMPORTED_AGENTS)
    for agent, own_id, kind, at in product(agents, (None, "s"), ("file", "transcript"), (None, 5)):
        event = {"agent": agent, "agent_session_id": own_id, "event_type": kind, "occurred_at": at}
        number = {"occurred_at": "occurred_at::BIGINT", "recorded_at": "recorded_at::BIGINT"}
        expression = definitions.HAPPENED_AT
        for name, typed in number.items():
            expression = expression.replace(name, typed)
        moment = in_sql(con, expression, recorded_at=7, **event)
        assert moment == happened.happened_at({**event, "recorded_at": 7}), event
        assert indexed_at({**event, "recorded_at": 7}) == [moment], event


def test_changes_that_state_no_lines(con: duckdb.DuckDBPyConnection) -> None:
    """P7: which changes have their lines counted from contents is one rule."""
    kinds, operations, counts = ("file", "action"), (None, "read", "edit"), (None, 0, 3)
    for kind, operation, plus, minus in product(kinds, operations, counts, counts):
        event = {"event_type": kind, "operation": operation, "lines_added": plus, "lines_removed": minus}
        assert in_sql(con, views.UNSTATED, **event) == line_counts.is_unstated(event), event


@pytest.mark.parametrize(
    "text",
    ["Fix it\n\nSigned-off-by: A Person <a@b>\nEnd", "see /home/alice/x and /Users/bob/y", "by: none",
     "C:/Users/carol/z", "-home-dan-work", "Co-Authored-BY: E", "homes are /homes/x"],
)  # fmt: skip
def test_texts_without_people(con: duckdb.DuckDBPyConnection, text: str) -> None:
    """P5: names in a text are taken out alike from a column and from an event."""
    for homes in (False, True):
        allowed = People(NO, homes=homes)
        assert in_sql(con, added.nameless(allowed, "text"), text=text) == people.text_without(allowed, text)


def test_paths_below_a_path(con: duckdb.DuckDBPyConnection) -> None:
    """A path is within another by the same rule wherever it is asked."""
    for path, text in product(
        ("a", "a/b", "ab", "a b/c", '"a\\303"', "é/x", ""), ("a", "é", "a b", "ab", "")
    ):
        condition, parameters = paths.within_sql("path", text)
        filled = condition.format(*(source.literal(value) for value in parameters))
        assert in_sql(con, filled, path=path) == paths.is_within(path, text), (path, text)
