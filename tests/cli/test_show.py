"""`locus show` as a page: what is on it, in which colours, and through which pager."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.hook_support import Agent, project
from tests.cli.on_terminal import on_terminal
from tests.cli.support import Locus


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which an agent worked for two turns."""
    root = project(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    for name in ("NO_COLOR", "FORCE_COLOR", "PAGER", "LOCUS_PAGER", "LESS"):
        monkeypatch.delenv(name, raising=False)
    agent = Agent(root)
    agent.start()
    agent.prompt("Print two")
    agent.edit("src/app.py", "one", "two")
    agent.bash("echo broken >&2; exit 2")
    agent.stop("It prints two.")
    agent.prompt("And three")
    agent.bash("seq 9")
    agent.stop("Done.")
    return root


def on_pipe(work: Path, *arguments: str, **environment: str) -> str:
    """What a command of its own process writes into a pipe."""
    command = [sys.executable, "-m", "locus_cli", *arguments]
    done = subprocess.run(
        command, cwd=work, env={**os.environ, **environment}, capture_output=True, check=True
    )
    return done.stdout.decode()


def test_a_session_reads_from_its_first_prompt_to_its_last_words(work: Path, locus: Locus) -> None:
    """The whole session by its id: both turns in order, each call once, the failed one marked, the edit as
    its diff, results folded; --full unfolds them."""
    session = locus("show", "last", "--fields").text.split("turn:")[1].split("_")[0]
    shown = locus("show", session).text
    parts = [
        "❯ Print two", "● Edit src/app.py  +1 −1", "-print('one')", "+print('two')", "✗ Bash", "Exit code 2",
        "It prints two.", "❯ And three", "● Bash seq 9", "… 6 more lines", "Done.",
    ]  # fmt: skip
    places = [shown.index(part) for part in parts]
    assert places == sorted(places) and shown.count("Edit src/app.py") == 1
    assert "\x1b" not in shown
    assert "\n    9\n" in locus("show", session, "--full").text


def test_one_turn_and_its_columns(work: Path, locus: Locus) -> None:
    """A turn is a page of its own; --fields gives the columns of the log, --json the same to programs."""
    page = locus("show", "last").text
    assert "And three" in page and "Print two" not in page
    fields = locus("show", "last", "--fields").text
    assert "context_id" in fields and "❯" not in fields


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "0"}, False),
    ],
)
def test_a_pipe_has_colour_only_where_asked(work: Path, environment: dict[str, str], coloured: bool) -> None:
    """What goes into a pipe is text; FORCE_COLOR asks for more, and NO_COLOR always wins."""
    assert ("\x1b[" in on_pipe(work, "show", "last", **environment)) == coloured


def test_a_terminal_has_colour_and_a_pager(work: Path) -> None:
    """On a terminal the page goes in colour through the pager that the person chose, with git's LESS."""
    pager = (
        f"{sys.executable} -c \"import os,sys; print('PAGER', os.environ['LESS']); print(sys.stdin.read())\""
    )
    shown = on_terminal(work, "show", "last", code=0, PAGER=pager)
    assert "PAGER FRX" in shown and "\x1b[1m❯ And three" in shown
    assert "PAGER" not in on_terminal(work, "show", "last", code=0, PAGER=pager, LOCUS_PAGER="cat")
    assert "\x1b[1m" not in on_terminal(work, "show", "last", code=0, PAGER="cat", NO_COLOR="1")
