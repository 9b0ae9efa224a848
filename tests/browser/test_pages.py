"""The other pages, and the command that each shows: it runs, and gives the same."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.addresses import NAMES, addresses
from tests.browser.samples import Sample
from tests.browser.viewing import Visitor

Reading = Callable[..., Visitor]


def _ran(command: str, work: Path) -> str:
    """What a command prints in a shell, as a user would run it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=work,
        env={**os.environ, "PATH": path, "TZ": "Europe/Berlin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (0, 1 if command.startswith("diff <(") else 0, 4), (command, done.stderr)
    return done.stdout


@pytest.mark.parametrize("name", [name for name in NAMES if name != "no such page"])
def test_the_command_of_each_page_gives_the_same(reading: Reading, sample: Sample, name: str) -> None:
    """It runs in a shell, and prints what the page shows."""
    reader = reading(sample.work).open(addresses(sample)[name])
    command = reader.command()
    assert command.startswith(("locus ", "diff <(locus "))
    printed = _ran(command, sample.work)
    for words in _shown(reader, name):
        assert words in printed, (command, words)


def _shown(reader: Visitor, name: str) -> list[str]:
    """Words of the page that the command must print, too."""
    if name in ("session", "repository", "turn", "start of a turn"):
        return [reader.text("h1")[:40]]
    if name == "text":
        return [reader.file_text()]
    if name in ("change", "compare"):
        return [text for text in reader.find(".added .code").all_text_contents() if text]
    if name == "blame":
        return [text for text in reader.find(".filebody .code").all_text_contents() if text]
    if name in ("history", "versions"):
        return [title[:30] for title in reader.texts("tbody td:first-child a")]
    if name == "event":
        return [reader.text("dl.fields dd")]
    if name == "sql":
        return reader.texts("tbody td:first-child")
    if name == "search":
        return reader.texts("mark")[:1]
    return []


def test_a_command_is_copied(reading: Reading, sample: Sample) -> None:
    """`y` puts the command on the clipboard."""
    reader = reading(sample.work)
    reader.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reader.open(f"/turn/{sample.turns[0]}").press("y")
    expect(reader.find(".note")).to_contain_text("Copied: locus show")
    assert reader.page.evaluate("navigator.clipboard.readText()") == reader.command()


def test_a_conversation_is_resumed_by_the_command_shown(reading: Reading, sample: Sample) -> None:
    """A session shows its agent's own command with the agent's id of it."""
    reader = reading(sample.work).open(f"/s/{sample.session}")
    resume = reader.find(".resume code")
    expect(resume).to_contain_text("claude --resume ")
    own = sample.sql(f"select agent_session_id from sessions where session_id = '{sample.session}'")[0][0]
    assert own in resume.inner_text()


def test_search_answers_as_one_types(reading: Reading, sample: Sample) -> None:
    """Hits come without Enter, words are marked, and the address can be kept."""
    reader = reading(sample.work).open("/search")
    reader.page.keyboard.type("cheap", delay=30)
    expect(reader.find("mark").first).to_have_text("cheap")
    assert reader.address() == "/search?q=cheap"
    reader.click(".hit a")
    assert re.match(r"/(turn|event)/", reader.address())
    reader.page.go_back()
    expect(reader.find("mark").first).to_have_text("cheap")


def test_costs_are_by_day_project_model_and_agent(reading: Reading, sample: Sample) -> None:
    """Each dimension gives its table, and is in the address."""
    reader = reading(sample.work).open("/cost")
    assert reader.find(".chart").count() == 2 and reader.find(".hours").count() == 1
    assert reader.texts(".tile .what")[:2] == ["Cost", "Saved by caching"]
    reader.find("select[name=by]").select_option("agent")
    expect(reader.ready().find('td[data-key="claude-code"]')).to_be_visible()
    assert reader.address() == "/cost?by=agent"
    for by in ("project", "model", "session"):
        reader.find("select[name=by]").select_option(by)
        expect(reader.ready().find("h2").nth(0)).to_have_text(re.compile(f"By {by}|Days"))
    reader.page.reload()
    assert reader.ready().find("select[name=by]").input_value() == "session"


def test_sessions_are_filtered(reading: Reading, sample: Sample) -> None:
    """Filters are in the address; where none fits the page says so."""
    reader = reading(sample.work).open("/")
    count = reader.find("article").count()
    assert count >= 2
    reader.find("select[name=agent]").select_option("claude-code")
    expect(reader.find("article")).to_have_count(1)
    assert reader.address() == "/?agent=claude-code"
    reader.open("/?q=no+such+words")
    assert "No session fits" in reader.text("main")


def test_errors_and_their_turns(reading: Reading, sample: Sample) -> None:
    """An error is shown with its words, and leads to its turn."""
    reader = reading(sample.work).open("/errors")
    assert "Exit code 3" in reader.text("article")
    reader.find("input[name=open]").check()
    expect(reader.find("article")).to_have_count(1)
    assert reader.command() == "locus errors --open"
    reader.click("article a")
    assert reader.address().startswith("/turn/")


def test_sql_is_asked_and_refused_in_words(reading: Reading, sample: Sample) -> None:
    """A SELECT gives a table; what may change something is refused."""
    reader = reading(sample.work, calm=False).open("/sql")
    reader.find("textarea").fill("select 40 + 2 as answer")
    reader.page.keyboard.press("Control+Enter")
    expect(reader.find("table.sql")).to_contain_text("42")
    assert reader.command() == "locus sql 'select 40 + 2 as answer'"
    reader.find("textarea").fill("delete from turns")
    reader.find("button.main").click()
    expect(reader.find(".complaint")).to_be_visible()


def test_what_does_not_exist_is_reported(reading: Reading, sample: Sample) -> None:
    """Unknown turns, sessions, events, files and pages give words."""
    reader = reading(sample.work, calm=False)
    for path in ("/turn/zzzzzzzz_001", "/s/zzzzzzzz", "/event/ffffffffffff"):
        assert reader.open(path).find(".complaint").count() == 1, path
    reader.open(f"/turn/{sample.turns[0]}?file=no/such/file")
    assert "not there at this moment" in reader.text(".filehead")
    assert "no page here" in reader.open("/a/b/c").text("h1")
