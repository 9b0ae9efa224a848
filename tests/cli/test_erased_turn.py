"""A turn whose session was erased: each command says so, with the day and the reason, and invents no path."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.hook_support import Agent
from tests.cli.support import Locus


@pytest.fixture
def erased(work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a session that was erased after one turn; one before it and one after it changed files, too.

    A person worked between them, so no other session has its trees.
    """
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    monkeypatch.chdir(work)
    sessions = []
    for name in ("older.txt", "a.txt", "newer.txt"):
        agent = Agent(work)
        agent.start()
        agent.prompt(f"Make {name}")
        agent.bash(f"echo {name} > {name}; echo more > more-{name}")
        agent.stop()
        agent.finish()
        sessions.append(json.loads(locus("log", "-n", "1", "--json").out)["session_id"])
        (work / "by_hand.txt").write_text(name)
    done = locus("store", "erase", "--session", sessions[1], "--yes", "--reason", "test")
    assert done.code == 0, done.err
    return str(sessions[1])


def words() -> str:
    return f"erased on {datetime.now(UTC):%Y-%m-%d} (test)"


@pytest.mark.parametrize(
    "name", (["{}_001"], ["{}_001", "a.txt"], ["session:{}"], ["{}_001", "--since"], ["event:FILE"])
)
def test_an_erased_turn_is_not_taken_back(name: list[str], erased: str, work: Path, locus: Locus) -> None:
    """P1, P5: no path is known of it, so undo ends with an error that says when it was erased, and why."""
    listed = locus("log", "--type", "file", "--json").out.splitlines()
    files = [event["event_id"] for event in map(json.loads, listed) if event.get("session_id") == erased]
    asked = [part.format(erased).replace("FILE", files[0]) for part in name]
    for more in ([], ["--json"], ["--skip-conflicts"]):
        done = locus("undo", *asked, "--dry-run", *more)
        assert (done.code, b"None" in done.out) == (1, False)
        assert f"cannot be taken back: it was {words()}" in done.err
    assert (work / "a.txt").exists()


def test_a_plain_undo_passes_over_an_erased_turn(erased: str, locus: Locus) -> None:
    """P1: it takes back the newest turn of which something is known, and says what it passed over."""
    assert locus("undo", "--yes").code == 0
    done = locus("undo", "--dry-run")
    text = done.out.decode() + done.err
    assert done.code == 0 and "delete    older.txt" in text and "None" not in text
    assert f"turn:{erased}_001" in text and f"it was {words()}" in text


def test_a_plain_undo_of_nothing_but_an_erased_turn_says_so(
    work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: without another turn it is an error, which names the erasure."""
    monkeypatch.chdir(work)
    agent = Agent(work)
    agent.start()
    agent.prompt("Make it")
    agent.bash("echo one > a.txt")
    agent.stop()
    agent.finish()
    (work / "by_hand.txt").write_text("x")
    later = Agent(work)
    later.start()
    later.prompt("Only read")
    later.stop()
    turn = json.loads(locus("log", "--json").out.splitlines()[-1])
    assert turn["title"] == "Make it"
    locus("store", "erase", "--session", turn["session_id"], "--yes", "--reason", "test")
    done = locus("undo", "--dry-run")
    assert (done.code, f"it was {words()}" in done.err) == (1, True)


def test_an_erased_turn_says_so_where_it_is_listed_and_shown(erased: str, locus: Locus) -> None:
    """P5: `log` and `show` have the erasure in the place of a title, of calls and of paths; no count of files
    that is not known."""
    (line,) = [line for line in locus("log").out.decode().splitlines() if line.startswith(erased)]
    assert line.split()[-5:] == ["–", *words().split()]
    page = locus("show", f"{erased}_001").out.decode()
    assert page.count(f"what was recorded here is gone: it was {words()}") == 1
    assert not {"●", "±", "@@"} & set(page.split())
    assert words() in locus("show", erased).out.decode()
    shown = locus("log", "--type", "file").out.decode().splitlines()
    assert sum("add (erased) +1" in line for line in shown) == 2
    turns = [json.loads(line) for line in locus("log", "--json").out.splitlines()]
    assert [turn.get("erased") for turn in turns] == [None, f"it was {words()}", None]


def test_a_turn_that_goes_on_after_its_erasure_is_taken_back_as_far_as_it_is_known(
    work: Path, locus: Locus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what came after the erasure is taken back; that there were other changes is said."""
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    monkeypatch.chdir(work)
    agent = Agent(work)
    agent.start()
    agent.prompt("Make them")
    agent.bash("echo one > a.txt")
    agent.finish()
    session = json.loads(locus("log", "-n", "1", "--json").out)["session_id"]
    assert locus("store", "erase", "--session", session, "--yes", "--reason", "test").code == 0
    agent.bash("echo two > b.txt")
    agent.stop()
    done = locus("undo", f"{session}_001", "--dry-run")
    text = done.out.decode()
    assert done.code == 4 and "b.txt" in text and "None" not in text
    assert f".: it was {words()}" in text
    page = locus("show", f"{session}_001").out.decode()
    assert "echo two > b.txt" in page and words() in page
