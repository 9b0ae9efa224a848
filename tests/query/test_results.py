"""Answers in notebooks: data frames with the values of the rows, and a table that shows text as text."""

import html
import re
import sys
from datetime import UTC, datetime

import polars
import pytest

from eventlog import Unsupported
from eventlog.query.engine import Limits, Result
from tests.projections.logs import Log

QUESTION = """SELECT * FROM (VALUES
    (1, 'a', 0.5, true, TIMESTAMPTZ '2026-03-01 12:00:00.000001+00', [1, 2]),
    (NULL, NULL, NULL, NULL, NULL, NULL),
    (9007199254740993, 'é <b>', -1.0, false, TIMESTAMPTZ '1969-12-31 23:59:59+00', []))
    t(number, text, real, flag, since, list)"""


def test_data_frames_have_the_rows(log: Log) -> None:
    """Each value, its type and nulls, with times in UTC: in pandas, in polars, and of no rows at all."""
    answer = log.query(QUESTION)
    pandas_frame, polars_frame = answer.df(), answer.pl()

    assert polars_frame.rows() == [(*row[:5], row[5]) for row in answer.rows]
    assert polars_frame.schema["since"] == polars.Datetime("us", "UTC")
    assert list(pandas_frame.columns) == list(answer.columns)
    assert pandas_frame["since"][0].to_pydatetime() == datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=UTC)
    assert pandas_frame.isna().sum().to_dict() == dict.fromkeys(answer.columns, 1)
    assert str(pandas_frame["since"].dtype) == "datetime64[us, UTC]"
    empty = log.query(f"SELECT * FROM ({QUESTION}) WHERE false")
    assert empty.pl().schema == polars_frame.schema
    assert list(empty.df().columns) == list(answer.columns) and len(empty.df()) == 0


@pytest.mark.parametrize(("method", "library"), [("df", "pandas"), ("pl", "polars")])
def test_without_the_library_it_says_what_to_install(
    log: Log, monkeypatch: pytest.MonkeyPatch, method: str, library: str
) -> None:
    """An error of ours, with the command: no ModuleNotFoundError from inside of another library."""
    monkeypatch.setitem(sys.modules, library, None)
    answer = log.query("SELECT 1 AS n")

    with pytest.raises(
        Unsupported, match=rf"`{method}` needs the library {library}.*pip install '.*\[frames\]'"
    ):
        getattr(answer, method)()


def cells(page: str) -> list[str]:
    return [html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", page, re.S)]


def test_a_notebook_shows_a_table(log: Log) -> None:
    """Names, SQL types, values, nulls that are none of a text 'null', and how many rows there are."""
    page = log.query(QUESTION)._repr_html_()

    assert re.findall(r'<th title="(\w+)[^"]*">(\w+)</th>', page)[:2] == [
        ("BIGINT", "number"),
        ("VARCHAR", "text"),
    ]
    assert cells(page)[:4] == ["1", "a", "0.5", "True"]
    assert cells(page)[4].startswith("2026-03-01 12:00:00.000001")
    assert page.count("<em>null</em>") == 6
    assert page.endswith("<p>3 rows</p>")


def test_recorded_text_is_no_page(log: Log) -> None:
    """P5: tags, attributes, direction marks and control characters of values and names stay text."""
    text = "<script>alert(1)</script>\"'&\u202e\x1b[31m"
    page = Result((text,), (text,), [(text,), ([text],)])._repr_html_()

    assert set(re.findall(r"<(\w+)", page)) == {"table", "thead", "tr", "th", "tbody", "td", "p"}
    assert not re.search("[\u202e\x1b]", page)
    ((title, name),) = re.findall(r'<th title="([^"]*)">(.*?)</th>', page)
    assert title == name and html.unescape(name).startswith("<script>alert(1)</script>\"'&")
    assert cells(page)[0].startswith("<script>")


def test_a_large_answer_is_a_small_page(log: Log) -> None:
    """The first 50 rows, each value cut, and the number of all; what is missing is named."""
    answer = log.query(
        "SELECT repeat(chr(120), 20000) AS text FROM range(1234)", limits=Limits(rows_max=1200, truncate=True)
    )
    damaged = Result(answer.columns, answer.types, answer.rows, answer.truncated, (range(3, 5), range(9, 10)))
    page = damaged._repr_html_()

    assert len(cells(page)) == 50 and len(page) < 50_000
    assert "the first 50 of 1,200 rows; cut there by Limits; events at 3 positions are lost to damage" in page
