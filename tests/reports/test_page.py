"""The page: what stands in it, what must not, and that a browser shows it."""

import base64
import datetime
import hashlib
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from eventlog import Store
from eventlog.query import prices
from eventlog.reports import drawing, figures, overview, page
from eventlog.reports.overview import Overview
from locus_cli.main import run
from tests.sql_demo import make_demo

NOW = datetime.datetime(2026, 3, 4, 5, 6, tzinfo=datetime.UTC)
EVIL = "<script>alert(1)</script>\"' onload=x \u202egnp.exe \x1b[31m"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A recorded repository, and a session whose every text is hostile."""
    with Store.open(make_demo(tmp_path_factory.mktemp("page") / "sample")) as store:
        of = {"session_id": "zzzzzzzz", "turn": 1, "agent": EVIL, "recorded_at": 1_790_000_000_000_000}
        store.append(
            [
                {**of, "event_type": "session", "operation": "start", "title": EVIL},
                {**of, "event_type": "turn", "operation": "start"},
                {**of, "event_type": "action", "tool": EVIL, "success": False},
                {**of, "event_type": "error", "error_type": EVIL},
                {**of, "event_type": "file", "operation": "edit", "path": EVIL},
                {**of, "event_type": "llm", "model": EVIL, "prompt_tokens": 10, "completion_tokens": 2},
                {**of, "event_type": "llm", "model": "claude-opus-4-1", "prompt_tokens": 10_000,
                 "completion_tokens": 900},
            ]
        )  # fmt: skip
        yield store


@pytest.fixture(scope="module")
def seen(store: Store) -> Overview:
    with figures.asking(store) as query:
        return overview.gather(query, EVIL, prices.load(), None, NOW)


class Elements(HTMLParser):
    """The elements of a document with their attributes, and its text."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.text = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
def test_recorded_text_stays_text(seen: Overview) -> None:
    """P5: titles, paths, models, tools, agents and errors are shown as they were, and are never markup."""
    document = page.render(seen)
    elements = Elements(document)

    assert elements.names.isdisjoint({"script", "link", "img", "iframe", "object", "form", "a", "base"})
    assert not {name for name in elements.attributes if name.startswith("on") or name == "style"}
    assert elements.text.count("<script>alert(1)</script>") >= 6
    assert "\u202e" not in document and "\x1b" not in document and "\\u202e" in elements.text


def test_a_page_needs_nothing_else(seen: Overview) -> None:
    """P5: the document names no other, and its policy allows nothing but its own style sheet."""
    document = page.render(seen)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', document)
    style = re.search(r"<style>(.*?)</style>", document, re.S)
    assert policy is not None and style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()

    assert policy[1].split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert "http:" not in document and "https:" not in document and "url(" not in document
    assert Elements(document).attributes.keys().isdisjoint({"src", "href", "srcset", "action"})


def test_a_page_says_what_stats_says(seen: Overview) -> None:
    """P7: totals, and how much of the tokens has no price, stand on the page; equal logs give equal bytes."""
    document = page.render(seen)
    told = Elements(document).text

    assert "Cost" in told and "without a price" in told and "genai-prices" in told
    assert f"in {seen.total.sessions} sessions" in told
    assert "no price" in told  # of the unknown model
    assert page.render(seen) == document


def test_an_empty_log_has_a_page(tmp_path: Path) -> None:
    """P7: nothing recorded is said so."""
    with Store.init(tmp_path / ".locus") as store, figures.asking(store) as query:
        empty = overview.gather(query, "nothing", None, None, NOW)
    told = Elements(page.render(empty)).text

    assert "nothing recorded" in told and "extra cost is not installed" in told


def test_many_days_become_weeks_and_months() -> None:
    """P8: a chart has at most some seventy columns, whole weeks or months, and nothing is left out."""
    first = datetime.date(2020, 1, 30)
    for count, unit in ((3, "day"), (70, "day"), (71, "week"), (491, "month"), (2101, "year")):
        days = [figures.Figures(key=str(first + datetime.timedelta(days=n)), turns=1) for n in range(count)]
        name, periods = overview._periods(days)
        assert name == unit
        assert len(periods) <= 71
        assert sum(period.turns for period in periods) == count
        assert len({period.begins for period in periods}) == len(periods)


def test_a_wrong_clock_does_not_spoil_a_chart() -> None:
    """P7: days that no calendar has are left out, and thousands of empty years are not drawn."""
    days = ["0001-01-01", "2026-03-01", "9999-12-31", "12026-01-01", "0044-03-15 (BC)", None]
    unit, periods = overview._periods([figures.Figures(key=day, turns=1) for day in days])

    assert (unit, [period.begins.year for period in periods]) == ("year", [1, 2026, 9999])


def test_scales_are_round_and_high_enough() -> None:
    """P8: a scale ends at or above the largest column and has few lines."""
    for largest in (0.0, 0.0004, 0.3, 1, 7, 12, 99, 100, 1e9):
        scale = drawing.round_scale(largest)
        assert scale[-1] >= largest * 0.999999 and len(scale) <= 6


@pytest.mark.slow
def test_the_command_writes_one_private_file(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P5: `locus report --to FILE` (in 0.1 `--html`) makes one file of mode 0600, and replaces none."""
    target = tmp_path / "report.html"
    arguments = ["--store", store.layout.root, "report", "--html", str(target)]
    assert run([*arguments, "--json"]) == 0
    assert run([*arguments[:-2], "--to", str(target)]) == 3

    assert os.listdir(tmp_path) == ["report.html"]
    assert target.stat().st_mode & 0o777 == 0o600
    assert "<title>sample – report</title>" in target.read_text(encoding="utf-8")
    assert '"bytes"' in capsys.readouterr().out


def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is installed (one of {', '.join(BROWSERS)})")
    return found


def test_a_browser_shows_it_in_light_and_dark(seen: Overview, tmp_path: Path) -> None:
    """P8: a headless Chromium lays the page out, blocks nothing of it, and draws it light or dark."""
    program = browser()
    document = tmp_path / "page.html"
    document.write_text(page.render(seen), encoding="utf-8")
    pictures = []
    for scheme in (1, 0):  # light, dark
        shot = tmp_path / f"{scheme}.png"
        done = subprocess.run(
            [
                program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--enable-logging=stderr",
                f"--user-data-dir={tmp_path}/profile", f"--blink-settings=preferredColorScheme={scheme}",
                "--window-size=1000,1400", f"--screenshot={shot}", document.as_uri(),
            ],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert (
            "Content Security Policy" not in done.stderr
        )  # a style that the policy blocks would be told here
        pictures.append(shot.read_bytes())

    assert [struct.unpack(">II", data[16:24]) for data in pictures] == [(1000, 1400)] * 2
    assert pictures[0] != pictures[1]
