"""Live: what a hook records appears without a reload, and moves nobody who is elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.samples import Sample, copied
from tests.browser.viewing import Visitor
from tests.cli.hook_support import Agent

Reading = Callable[..., Visitor]


@pytest.fixture
def live(sample: Sample, tmp_path: Path) -> "tuple[Sample, Agent]":
    """A project in which an agent is at work, with one turn of its session."""
    mine = copied(sample, tmp_path)
    agent = Agent(mine.work)
    agent.start()
    agent.prompt("Begin live")
    agent.write("live.txt", "one\n")
    agent.stop("Done.")
    return mine.note_turns(), agent


def _turn(agent: Agent, prompt: str, text: str) -> None:
    agent.prompt(prompt)
    agent.write("live.txt", text)
    agent.stop("Done.")


def test_a_reader_at_the_end_moves_on(reading: Reading, live: "tuple[Sample, Agent]") -> None:
    """P1: a turn that hooks record lengthens the slider, without a reload; only what is new is asked for."""
    sample, agent = live
    reader = reading(sample.work).open(f"/s/{sample.session}")
    assert reader.text("h1") == "Begin live"
    _turn(agent, "Go on live", "two\n")
    expect(reader.find("h1")).to_have_text("Go on live")
    expect(reader.find(".facts")).to_contain_text("2 / 2")
    expect(reader.find(".words")).to_have_text("Done.")
    assert reader.find("#slider").get_attribute("max") == "1"
    assert not any("/turn/" in url for url in reader.requested[1:]), "it was loaded again"
    first, *later = [url for url in reader.requested if "/api/spine" in url]
    assert "after=" not in first and later and all("after=" in url for url in later)


# What a page has of the spine with the part that is new, the spine of a new request, and the part.
_GROWN = """async ([session, before]) => {
  const {ask} = await import('/static/source.js');
  const {joined} = await import('/static/growth.js');
  const part = await ask('spine', {session, after: before.until});
  return [part.from ? joined(before, part) : part, await ask('spine', {session}), part];
}"""


@pytest.mark.parametrize("scope", ["session", "repository"])
def test_a_spine_that_grows_equals_a_fresh_one(
    reading: Reading, live: "tuple[Sample, Agent]", scope: str
) -> None:
    """P1: new turns, and those that go on; renames, deletions, paths, sessions. Only what is new is sent."""
    sample, agent = live
    reader = reading(sample.work).open("/errors")
    session = sample.session if scope == "session" else None
    ask = "([session]) => import('/static/source.js').then(({ask}) => ask('spine', {session}))"
    before = reader.page.evaluate(ask, [session])
    other = Agent(sample.work, session="another")

    def grow(what: str) -> dict[str, Any]:
        nonlocal before
        known = len(before["turns"])
        before, anew, part = reader.page.evaluate(_GROWN, [session, before])
        assert before == anew, what
        assert part["from"]["turns"] >= known - 1 and len(part["turns"]) <= 2, what
        assert len(part["paths"]) < len(anew["paths"]), what
        return dict(part)

    agent.prompt("Go on")
    assert [turn["title"] for turn in grow("a new turn")["turns"]][-1] == "Go on"
    agent.write("live.txt", "two\n")
    grow("a turn that goes on")
    agent.bash("mv notes.txt a-first-path.txt")
    agent.stop("Moved.")
    assert any(row[4] == "R" for row in grow("a rename")["changes"][-1])
    agent.prompt("Delete it")
    agent.bash("rm a-first-path.txt")
    agent.stop("Deleted.")
    assert any(row[4] == "D" for row in grow("a deletion")["changes"][-1])
    grow("nothing")
    other.start()
    other.prompt("Elsewhere")
    other.write("elsewhere.txt", "x\n")
    other.stop("Done.")
    assert bool(grow("another session")["turns"]) == (scope == "repository")


def test_a_reader_elsewhere_stays_and_is_told(reading: Reading, live: "tuple[Sample, Agent]") -> None:
    """Turn, file and address stay, and a button counts the new turns (P1)."""
    sample, agent = live
    _turn(agent, "Second live", "two\n")
    reader = reading(sample.work).open(f"/s/{sample.session}").press("k")
    reader.choose("live.txt").mode("text")
    address = reader.address()
    for number in range(3):
        _turn(agent, f"More live {number}", f"{number}\n")
    expect(reader.find(".news")).to_have_text("3 new turns")
    assert (reader.text("h1"), reader.file_text(), reader.address()) == ("Begin live", "one", address)
    reader.click(".news")
    assert reader.text("h1") == "More live 2" and not reader.find(".news").is_visible()


def test_a_session_at_work_is_on_top_with_what_it_does(
    reading: Reading, live: "tuple[Sample, Agent]"
) -> None:
    """The list of sessions follows what hooks record."""
    sample, agent = live
    reader = reading(sample.work).open("/")
    assert reader.find("article").first.get_attribute("data-session") == sample.session
    assert "At work now" in reader.text(".sessions")
    agent.prompt("Work on")
    agent.write("seen.txt", "x\n")
    expect(reader.find("article").first).to_contain_text("seen.txt")
