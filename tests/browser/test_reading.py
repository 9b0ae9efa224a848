"""What a person reads: a conversation without files, Markdown, notes, searches that go on, what failed."""

import datetime
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.browser.samples import Sample, claude_line, copied, imported
from tests.browser.viewing import Visitor
from tests.cli.hook_support import Agent
from tests.cli.support import make_history

Reading = Callable[..., Visitor]
PROMPT = "# Tea\nUse `tea.py`, **soon**.\n\n```\n**as it is**\n```"


@pytest.fixture(scope="session")
def formatted(places: Path) -> Sample:
    """A conversation that changed no file, and of which no tree is recorded."""
    at = datetime.datetime(2026, 3, 10, 9, tzinfo=datetime.UTC)
    lines = [claude_line(0, at, "user", PROMPT), claude_line(1, at, "assistant", "Yes: **now**.")]
    return imported(places / "told", lines)


def test_a_conversation_without_files_has_the_room(reading: Reading, formatted: Sample) -> None:
    """Two empty panes beside a narrow column of words are nobody's wish; on a phone it is a tab as ever."""
    reader = reading(formatted.work, height=900).open(f"/s/{formatted.session}")
    assert [reader.find(f".panes > .{name}").is_visible() for name in ("files", "overview", "turn")] == [
        False,
        False,
        True,
    ]
    box, prompt = reader.find(".panes > .turn").bounding_box(), reader.find(".prompt").bounding_box()
    assert box is not None and box["width"] > 1300
    assert prompt is not None and 600 < prompt["width"] < 1000  # a line that one can read
    phone = reading(formatted.work, width=390, height=844).open(f"/s/{formatted.session}")
    assert phone.find(".prompt").is_visible()
    phone.click('[data-tab="files"]')
    assert phone.find(".files").is_visible()


def test_a_turn_that_changed_no_file_has_the_room_beside_the_tree(reading: Reading, sample: Sample) -> None:
    """The tree stays; a chosen file comes between."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[-1]}")
    assert reader.find(".files").is_visible() and not reader.find(".overview").is_visible()
    reader.choose("notes.txt")
    assert reader.find(".filebody").is_visible() and reader.find(".panes > .turn").is_visible()


def test_markdown_is_read_as_such(reading: Reading, formatted: Sample) -> None:
    """Headings, bold words and code without their signs; what is in a fence as it is."""
    reader = reading(formatted.work).open(f"/s/{formatted.session}")
    assert reader.texts(".prompt strong") == ["Tea", "soon"]
    assert reader.texts(".prompt code") == ["tea.py"]
    assert reader.texts(".prompt pre") == ["**as it is**"]
    assert reader.text(".words") == "Yes: now."


def test_notes_are_in_the_turn(reading: Reading, sample: Sample, tmp_path: Path) -> None:
    """A subagent's beginning is a line of its turn, and covers nothing."""
    mine = copied(sample, tmp_path)
    agent = Agent(mine.work)
    agent.start()
    agent.prompt("Ask somebody")
    agent.say("SubagentStart", agent_id="a1", agent_type="general-purpose")
    agent.say("SubagentStop", agent_id="a1", agent_type="general-purpose")
    agent.stop()
    agent.finish()
    mine.note_turns()
    reader = reading(mine.work).open(f"/turn/{mine.turns[-1]}")
    note = reader.find(".panes > .turn .block").filter(has_text="subagent")
    expect(note.first).to_have_css("position", "static")


def test_a_search_of_what_is_not_indexed_goes_on_by_itself(reading: Reading, sample: Sample) -> None:
    """P7: the page says how much was searched, and asks again until it is everything."""
    reader = reading(sample.work)
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        reply = route.fetch()
        missing = max(30 - 10 * len(asked), 0)
        route.fulfill(response=reply, body=json.dumps({**reply.json(), "missing": missing, "events": 50}))

    reader.page.route("**/api/search*", answer)
    reader.open("/search?q=cheap")
    expect(reader.find(".hits > p")).to_have_text("3 hits")
    assert len(asked) == 3


def test_what_can_never_be_searched_is_reported_once(reading: Reading, sample: Sample) -> None:
    """P7: where no more is read, the page says what is missing, and rests."""
    reader = reading(sample.work)
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        reply = route.fetch()
        route.fulfill(response=reply, body=json.dumps({**reply.json(), "missing": 10, "events": 50}))

    reader.page.route("**/api/search*", answer)
    reader.open("/search?q=cheap")
    expect(reader.find(".hits > p")).to_have_text("3 hits in the newest 40 of 50 events")
    assert len(asked) == 2


def test_what_takes_long_says_that_it_is_read(reading: Reading, sample: Sample) -> None:
    """An empty page is no answer; the words go when the answer is there."""
    reader = reading(sample.work)

    def answer(route: Route) -> None:
        reader.page.wait_for_timeout(1500)
        route.continue_()

    reader.page.route("**/api/errors*", answer)
    reader.page.goto(f"{reader.viewer.base}/errors#t={reader.viewer.token}")
    expect(reader.find(".note")).to_have_text("Reading…")
    reader.ready()
    expect(reader.find(".note")).to_have_text("")


def test_an_error_says_what_was_run(reading: Reading, sample: Sample) -> None:
    """The words of a failure without the command are half of it."""
    reader = reading(sample.work).open("/errors")
    assert "sys.exit(3)" in reader.text("article")


def test_figures_of_commits_alone_say_so(reading: Reading, tmp_path: Path) -> None:
    """P7: where only commits are recorded they are what is counted, here and by the command shown."""
    work = tmp_path / "alone"
    make_history(work)
    mine = Sample(work)
    mine.locus("init")
    mine.locus("import", "git")
    reader = reading(work).open("/cost")
    turns = int(mine.sql("select count(*) from turns")[0][0])
    assert f"{turns}\nin 1 sessions · {turns} are commits" in reader.text(".tiles")
    assert "--no-commits" not in reader.command()
    assert reader.find("h2").all_inner_texts()[:2] == ["Changes by day", "Turns by day"]


def test_a_file_that_this_turn_left_alone_says_where_it_changed(reading: Reading, sample: Sample) -> None:
    """The change of a file in a turn that has none is not an empty page."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[-1]}?file=notes.txt&mode=change")
    assert "History has the turns that changed it" in reader.text(".filebody")


def test_a_hit_leads_to_its_call_within_the_turn(reading: Reading, sample: Sample) -> None:
    """A reader who found a line among a hundred calls need not search for it again."""
    reader = reading(sample.work, height=500).open("/search?q=chmod")
    reader.find(".hit").filter(has_text="call").locator("a").first.click()
    reader.ready()
    call = reader.find("details.call").filter(has_text="chmod")
    expect(call).to_have_attribute("open", "")
    expect(call).to_be_in_viewport()


def test_an_event_begins_with_what_it_says(reading: Reading, sample: Sample) -> None:
    """The payload comes before the columns that every event has."""
    event = sample.sql("select event_id from events where event_type = 'error' limit 1")[0][0]
    reader = reading(sample.work).open(f"/event/{event}")
    payload, columns = reader.find("pre.card").bounding_box(), reader.find("dl.fields").bounding_box()
    assert payload is not None and columns is not None and payload["y"] < columns["y"]
