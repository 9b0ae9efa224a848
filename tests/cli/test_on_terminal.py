"""What commands write on a terminal: tables of any width (docs/reading.md)."""

import re
from pathlib import Path

import pytest

from locus_cli.output import columns, table
from tests.cli.hook_support import Agent, project
from tests.cli.on_terminal import on_terminal
from tests.cli.support import locus_process

_TURN = r"\b[0-9a-z]{8}_\d{3}\b"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which an agent worked for a turn, with an error that is long to tell."""
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    root = project(tmp_path)
    agent = Agent(root)
    agent.start()
    agent.prompt("Print two, and say at length what for, so that no table can show all of this title")
    agent.edit("src/app.py", "one", "two")
    agent.bash("echo a message that is much too long for the table of a narrow terminal >&2; exit 2")
    agent.stop("It prints two.")
    return root


@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("command", ["log", "errors", "timeline last", "log --events", "session ls --all"])
def test_a_table_shortens_no_id_and_no_time(work: Path, command: str, width: int) -> None:
    """On any terminal whole columns go; only text is cut, and a last line names the columns."""
    piped = locus_process(*command.split(), cwd=work).text
    shown = on_terminal(work, *command.split(), width=width, TZ="UTC")
    rows = [line for line in shown.splitlines() if not line.startswith("(left out") and "…" in line]

    assert rows and max(map(columns, rows)) <= width, shown
    words = {word for row in rows for word in row.split("  ")[0].split() if "…" not in word}
    assert words and all(word in piped for word in words), shown
    assert not any(re.search(r"^\S*…", row) for row in rows), shown
    if width == 40:
        assert re.search(r"^\(left out, the terminal is too narrow: [A-Z, ]+\)$", shown, re.M), shown


def test_columns_go_in_their_order_and_only_as_many_as_needed() -> None:
    """P8: the first in `drop` goes first; names, times and numbers stay whole, and text is cut last."""
    row = ("0123456789ab", "2026-03-01 12:00", "12", "some words that are many")
    heads = ("TURN", "WHEN (UTC)", "N", "TITLE")

    def at(width: int) -> list[str]:
        return table(heads, [row], right=(2,), drop=("N", "WHEN"), width=width).splitlines()

    assert at(60) == table(heads, [row], right=(2,), width=0).splitlines()
    assert at(50)[1] == "0123456789ab  2026-03-01 12:00  12  some words th…" and len(at(50)) == 2
    assert at(45)[1:] == [
        "0123456789ab  2026-03-01 12:00  some words t…",
        "(left out, the terminal is too narrow: N)",
    ]
    assert at(30)[1:] == ["0123456789ab  some words that…", "(left out, the terminal is too narrow: WHEN, N)"]
    assert at(10)[1].startswith("0123456789ab  some wo…")


def test_a_pipe_has_every_column_whole(work: Path) -> None:
    """Nothing is cut or left out where no terminal is."""
    piped = locus_process("errors", cwd=work).text

    assert "narrow terminal" in piped and "…" not in piped and re.search(_TURN, piped)
