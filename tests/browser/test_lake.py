"""A lake in the viewer (docs/view.md): its pages, and words where it has none.

What is read of a place is tested in tests/lake; here a store stands for it, so that no library of lakes is
needed.
"""

import re
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from eventlog import Store, question
from eventlog.reports import figures
from eventlog.view.stores import ViewedLake
from tests.browser.access import violations
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


# A page of each kind that a lake has.
PAGES = (
    "/",
    "/cost?by=session",
    "/cost?by=path",
    "/errors",
    "/decisions",
    "/sql?q=from+events+limit+5",
    "/nowhere",
)


def test_every_link_of_a_lake_leads_to_what_it_has(reader: Visitor) -> None:
    """P7: a session, a turn, an event or a file is a question in SQL, and its answer has rows."""
    links = set()
    for path in PAGES:
        reader.open(path)
        found = reader.page.evaluate(
            "[...document.querySelectorAll('main a')].map((a) => a.getAttribute('href'))"
        )
        links |= set(found)
    kinds = {re.split(r"[?=+]", link, maxsplit=2)[0] for link in links}
    assert kinds == {"/", "/sql"}, links
    asked = {re.search(r"where\+(\w+)", link) for link in links if link.startswith("/sql")}
    assert {match[1] for match in asked if match} == {"session_id", "event_id", "path"}
    by_kind = {
        tuple(re.findall(r"\b(?:session_id|turn_id|event_id|path)\+%3D", link)): link for link in links
    }
    for link in by_kind.values():
        reader.open(link)
        if link.startswith("/sql"):
            reader.find("table.sql tbody tr").first.wait_for()
    assert reader.wrong == []


def test_an_address_that_a_lake_lacks_says_what_has(reader: Visitor, sample: Sample) -> None:
    """P7: a turn needs contents: the page names the command."""
    reader.open(f"/turn/{sample.turns[0]}")
    words = reader.text(".complaint")
    assert "no files, turns or search" in words
    assert f"locus lake replay '{URI}' TURN --to DIR" in words


def test_axe_finds_no_violation_in_a_lake(reader: Visitor) -> None:
    """On each of its pages, light, dark and on a phone."""
    assert {path: found for path in PAGES if (found := violations(reader, path))} == {}
