"""`locus share` and `locus report`: one file in a browser, from the disk and without a network."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.samples import HOSTILE, Sample
from tests.browser.viewing import Visitor, context_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class OneFile:
    """A page of one file in a tab, what it asked for, and what went wrong."""

    def __init__(self, page: "Page", path: Path) -> None:
        self.page = page
        self.asked: list[str] = []
        self.wrong: list[str] = []
        page.set_default_timeout(15_000)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda line: self.wrong.append(line.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        self.address = path.as_uri()
        self.open("")

    def open(self, fragment: str) -> "OneFile":
        if self.asked:  # another page of the same document
            self.page.evaluate("delete document.body.dataset.ready")
        self.page.goto(self.address + fragment)
        return self.ready()

    def ready(self) -> "OneFile":
        self.page.locator("body[data-ready]").wait_for()
        return self

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()


@pytest.fixture
def opened(browser: "Browser") -> "Iterator[Callable[..., OneFile]]":
    """Opens a file in a context without a network. At its end nothing but the file itself was asked for."""
    made: list[tuple[Any, OneFile]] = []

    def of(path: Path, **settings: Any) -> OneFile:
        context = context_of(browser, **settings)
        context.set_offline(True)
        file = OneFile(context.new_page(), path)
        made.append((context, file))
        return file

    yield of
    for context, file in made:
        context.close()
        assert {url.partition("#")[0] for url in file.asked} == {file.address}
        assert file.wrong == []


def settled(file: OneFile, reader: "Visitor", selector: str) -> tuple[list[str], list[str]]:
    """What both come to show there: differences come after the page. A file has no pages of events."""
    for _ in range(50):
        shown = file.texts(selector)
        wanted = [text.removesuffix(" · The event") for text in reader.texts(selector)]
        if shown == wanted:
            break
        file.page.wait_for_timeout(100)
    return shown, wanted


def page_of(sample: Sample, place: Path, *arguments: str) -> Path:
    target = place / "page.html"
    sample.locus(*arguments, "--html", str(target))
    return target


def test_a_shared_session_shows_what_the_viewer_shows(
    sample: Sample, opened: Callable[..., OneFile], reading: Callable[..., Visitor], tmp_path: Path
) -> None:
    """Same tree, same differences, same words at each turn: one renderer over the same answers."""
    path = page_of(sample, tmp_path, "share", sample.session, "--files", "all", "--keep-paths")
    file, reader = opened(path), reading(sample.work)
    seen: list[str] = []
    for turn in sample.turns:
        reader.open(f"/turn/{turn}")
        file.open(f"#/turn/{turn}")
        for selector in ("[role=treeitem]", ".overview", ".turn .words", ".turn .call", ".moment h1"):
            shown, wanted = settled(file, reader, selector)
            assert shown == wanted, (turn, selector)
            seen += shown
    assert any("TEA = 3" in text for text in seen)


def test_contents_are_in_a_shared_page_where_they_were_wanted(
    sample: Sample, opened: Callable[..., OneFile], tmp_path: Path
) -> None:
    """A file opens from what the page holds; what it does not hold says so, and what to do."""
    file = opened(page_of(sample, tmp_path, "share", sample.session, "--files", "all"))
    file.open(f"#/turn/{sample.turns[0]}?file=tea.py")
    assert "TEA = 2" in "\n".join(file.texts(".filebody"))

    bare = opened(page_of(sample, tmp_path, "share", sample.session, "--force"))
    bare.open(f"#/turn/{sample.turns[0]}?file=tea.py&mode=text")
    bare.page.locator(".complaint").first.wait_for()
    assert "locus view" in "\n".join(bare.texts(".complaint"))


def test_hostile_texts_do_nothing_in_a_shared_page(
    hostile: Sample, opened: Callable[..., OneFile], tmp_path: Path
) -> None:
    """No script of a recorded text runs, nothing is loaded, and what deceives is spelled out."""
    file = opened(page_of(hostile, tmp_path, "share", hostile.session, "--files", "all"))
    for turn in hostile.turns:
        file.open(f"#/turn/{turn}")
        shown = "".join(file.texts("body"))
        assert "\u202e" not in shown and file.page.title() != "hurt"
    assert file.page.locator("img, iframe, object").count() == 0
    assert any(HOSTILE[1] in text for text in file.texts("body")) or len(hostile.turns) > 1


def test_a_report_leads_from_figures_to_days_to_sessions_to_turns(
    sample: Sample, opened: Callable[..., OneFile], tmp_path: Path
) -> None:
    """Links go on: a day gives its sessions, a session its turns; commits do not drown the agents."""
    file = opened(page_of(sample, tmp_path, "report"))
    tiles = "\n".join(file.texts(".tile"))
    assert f"{len(sample.turns)}\n" in tiles and "commits besides" in tiles
    file.page.locator('td[data-key^="20"] a').first.click()
    file.page.locator("article.session a").first.click()
    file.page.locator(".moment h1").wait_for()

    assert f"/ {len(sample.turns)} ·" in "\n".join(file.texts(".facts"))
    file.open("#/errors")
    assert "exit" in "\n".join(file.texts("main")).lower() or file.texts("main article")


def test_no_link_leads_to_nothing(sample: Sample, opened: Callable[..., OneFile], tmp_path: Path) -> None:
    """What was not put into a file is not offered by it: of each page, every link can be followed."""
    file = opened(page_of(sample, tmp_path, "share", sample.session, "--files", "all"))
    seen, left = set[str](), [f"#/turn/{turn}" for turn in sample.turns]
    while left:
        fragment = left.pop()
        file.open(fragment)
        assert "not in this page" not in "".join(file.texts("main")), fragment
        links = file.page.locator('a[href^="#/"]')
        new = {str(links.nth(n).get_attribute("href")) for n in range(links.count())} - seen
        seen |= new
        left += sorted(new)
    assert len(seen) >= 5


@pytest.mark.parametrize("width", [320, 390, 768, 1440])
@pytest.mark.parametrize("what", ["share", "report"])
def test_no_page_is_wider_than_the_screen(
    sample: Sample, opened: Callable[..., OneFile], tmp_path: Path, width: int, what: str
) -> None:
    """Nothing is cut at the side; every figure of a row is on a phone, too."""
    arguments = ("share", sample.session) if what == "share" else ("report",)
    file = opened(page_of(sample, tmp_path, *arguments), width=width, height=900)
    assert file.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    if what == "report":
        row = file.page.locator('table.figures tr:has(td[data-key^="20"])').first
        for cell in row.locator("td:not(:empty)").all():
            box = cell.bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width


def test_without_scripts_there_is_text(browser: "Browser", sample: Sample, tmp_path: Path) -> None:
    """Title and prompts are in the page for a reader whose browser runs nothing."""
    path = page_of(sample, tmp_path, "share", sample.session)
    context = context_of(browser, java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    text = page.locator("body").inner_text()
    context.close()

    assert "It is too cheap." in text
