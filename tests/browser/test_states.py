"""What is not there says why: no tree, no turns, withheld, erased, damaged, not certain; and times."""

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.samples import Sample, claude_line, copied, imported
from tests.browser.viewing import Visitor
from tests.cli.support import locus_process

Reading = Callable[..., Visitor]


def test_a_withheld_content_is_in_the_tree_and_says_why(reading: Reading, sample: Sample) -> None:
    """Its name is shown, its bytes are nowhere in the page."""
    reader = reading(sample.work).open(f"/turn/{sample.turns[1]}")
    assert "withheld" in reader.text('[role=treeitem][title=".env"]')
    reader.choose(".env").mode("text")
    assert reader.text(".filebody").startswith("Withheld: ")
    assert "of-nobody" not in reader.page.content()
    reader.mode("change")
    assert "of-nobody" not in reader.page.content()


def test_an_erased_content_says_so(reading: Reading, sample: Sample, tmp_path: Path) -> None:
    """What `locus store erase` took is named as erased."""
    mine = copied(sample, tmp_path)
    mine.locus("store", "seal")
    done = locus_process(
        "store", "erase", "--path", "notes.txt", "--reason", "a test", "--yes", cwd=mine.work
    )
    assert done.code in (0, 4), done.err
    reader = reading(mine.work, calm=False).open(f"/turn/{mine.turns[-1]}?file=notes.txt")
    assert "rased" in reader.text(".filebody") and "by a person" not in reader.page.content()


def test_a_damaged_content_says_so(reading: Reading, sample: Sample, tmp_path: Path) -> None:
    """Bytes that are not what was written are named as damage."""
    mine = copied(sample, tmp_path)
    packs = list((mine.work / ".locus").rglob("*.evp"))
    assert packs
    for path in packs:
        data = bytearray(path.read_bytes())
        for place in range(40, len(data), 16):
            data[place] ^= 0x55
        path.chmod(0o600)
        path.write_bytes(data)
    reader = reading(mine.work, calm=False).open(f"/turn/{mine.turns[-1]}?file=notes.txt")
    shown = reader.text("main").lower()
    assert "damage" in shown or "corrupt" in shown or "verif" in shown, shown[:400]


def test_a_store_without_turns_says_how_to_begin(reading: Reading, tmp_path: Path) -> None:
    """An empty store names the commands that fill it."""
    work = tmp_path / "empty"
    work.mkdir()
    assert locus_process("init", cwd=work).code == 0
    reader = reading(work).open("/")
    assert "locus hooks install" in reader.text("main")
    assert "No turn is recorded yet" in reader.open("/repo").text("main")


@pytest.fixture(scope="session")
def transcript(places: Path) -> Sample:
    """A transcript without trees: one session that runs over midnight, in UTC and in Berlin."""
    work = places / "night"
    night = datetime.datetime(2026, 3, 10, 22, 30, tzinfo=datetime.UTC)
    minute = datetime.timedelta(minutes=1)
    lines = [
        claude_line(0, night, "user", "Work late"),
        claude_line(1, night + minute, "assistant", "I do."),
        claude_line(2, night + 150 * minute, "user", "Still there?"),
        claude_line(3, night + 151 * minute, "assistant", "Yes."),
    ]
    return imported(work, lines)


def test_a_turn_without_a_tree_is_grey_and_says_why(reading: Reading, transcript: Sample) -> None:
    """A transcript records no tree: the files are grey, and the turn can be read."""
    reader = reading(transcript.work).open(f"/s/{transcript.session}")
    assert "no tree" in reader.text("main").lower()
    assert reader.find(".files.grey").count() == 1
    assert reader.text(".prompt") == "Still there?"


def test_times_are_local_with_their_zone_and_utc_on_demand(reading: Reading, transcript: Sample) -> None:
    """`u` switches, the other spelling is in the title, and the choice is remembered."""
    reader = reading(transcript.work).open(f"/turn/{transcript.turns[0]}")
    local = reader.text(".facts time")
    assert local.startswith("10 Mar") and "23:30" in local and not local.endswith("UTC")
    reader.press("u")
    assert reader.text(".facts time").endswith("22:30 UTC")
    assert "23:30" in str(reader.find(".facts time").get_attribute("title"))
    reader.open(f"/turn/{transcript.turns[0]}")
    assert reader.text(".facts time").endswith("22:30 UTC")  # it is remembered


def test_a_session_over_midnight_is_in_both_days(reading: Reading, transcript: Sample) -> None:
    """The filter of days finds a session on each day that it touched."""
    reader = reading(transcript.work)
    for day, sessions in (("2026-03-10", 1), ("2026-03-11", 1), ("2026-03-12", 0)):
        reader.open(f"/?day={day}")
        assert reader.find("article").count() == sessions, day


def test_a_moment_that_is_not_exact_says_so(reading: Reading, sample: Sample, tmp_path: Path) -> None:
    """A turn without an end: its files are as of the last capture."""
    from tests.cli.hook_support import Agent

    mine = copied(sample, tmp_path)
    agent = Agent(mine.work)
    agent.start()
    agent.prompt("Never ends")
    agent.write("half.txt", "x\n")
    mine.note_turns()
    reader = reading(mine.work).open(f"/turn/{mine.turns[-1]}")
    assert reader.text(".doubt").split(":")[0] in ("running", "unfinished")


def test_several_stores_are_chosen_from(
    reading: Reading, sample: Sample, transcript: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--all-stores` addresses begin with the store, and a list leads to the others."""
    data = tmp_path / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    works = []
    for name in ("one", "two"):
        work = tmp_path / name
        work.mkdir()
        assert locus_process("init", cwd=work, XDG_DATA_HOME=str(data)).code == 0
        works.append(work)
    reader = reading(works[0], options=("--all-stores",)).open("/")
    assert reader.address().startswith("/store/")
    choice = reader.find('select[aria-label="Store"]')
    names = choice.locator("option").all_inner_texts()
    assert len(names) == 2
    choice.select_option(index=1)
    reader.page.wait_for_url("**/store/**")
    assert reader.ready().find("option:checked").inner_text() == names[1]
