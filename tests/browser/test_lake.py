"""A lake in the viewer (docs/view.md): its pages, and words where it has none.

What is read of a place is tested in tests/lake; here a store stands for it, so that no library of lakes is
needed.
"""

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from eventlog import Store, question
from eventlog.reports import figures
from eventlog.view.stores import ViewedLake
from tests.browser.samples import Sample
from tests.browser.viewing import Visitor, context_of
from tests.view.support import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

URI = "s3://team/the lake"


@pytest.fixture
def reader(browser: "Browser", sample: Sample) -> "Iterator[Visitor]":
    """A reader of a lake that has the events of the sample."""
    with Store.open(sample.work / ".locus") as store:
        ask = partial(question.ask, store)
        lake = ViewedLake(URI, "the lake", store.query, partial(figures.asking, store), ask)
        with serving({}, lake=lake) as served:
            viewer: Any = SimpleNamespace(base=f"http://{served.host}", token=served.guard.token)
            context = context_of(browser)
            yield Visitor(context, viewer)
            context.close()


def test_a_lake_has_its_pages_and_their_commands(reader: Visitor) -> None:
    """P7: the frame links to what there is; each page shows the command that asks the place."""
    reader.open("/cost")
    assert reader.texts("nav a") == ["Sessions", "Cost", "Errors", "Decisions", "SQL"]
    assert reader.text(".project") == "the lake"
    assert reader.command().startswith("locus stats --lake 's3://team/the lake' --by day")
    for name in ("Sessions", "Errors", "Decisions"):
        reader.click(f"nav a:text-is('{name}')")
        assert reader.command() == f"locus sql --lake '{URI}' 'from {name.lower()}'"
    reader.click("nav a:text-is('SQL')").click("button.main")
    reader.find("table.sql").wait_for()
    assert reader.command().startswith(f"locus sql --lake '{URI}' 'select turn")
    assert not [url for url in reader.requested if "/api/live" in url]
    assert reader.wrong == []


def test_where_a_lake_has_no_page_it_says_what_has(reader: Visitor) -> None:
    """P7: a session leads to its turns, which need contents: the page names the command."""
    reader.open("/").click("article.session h2 a")
    words = reader.text(".complaint")
    assert "no files, turns or search" in words
    assert f"locus lake replay '{URI}' TURN --to DIR" in words
