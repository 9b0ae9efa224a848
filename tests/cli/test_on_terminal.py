"""What commands write on a terminal: tables of any width (docs/reading.md)."""

import re
import shutil
from pathlib import Path

import pytest

from locus_cli.output import columns, table
from locus_cli.terminal import patch_lines
from tests.cli.hook_support import Agent, project
from tests.cli.on_terminal import on_terminal
from tests.cli.support import GIT_ENVIRONMENT, Recorded, locus_process

_AGE = {"just", "now", "min", "ago", *map(str, range(60))}
_TURN = r"\b[0-9a-z]{8}_\d{3}\b"


@pytest.fixture(scope="module")
def _worked_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = project(tmp_path_factory.mktemp("worked"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**GIT_ENVIRONMENT, "LOCUS_NO_MAINTENANCE": "1", "HOME": str(root.parent)}.items():
            patch.setenv(name, value)
        agent = Agent(root)
        agent.start()
        agent.prompt("Print two, and say at length what for, so that no table can show all of this title")
        agent.edit("src/app.py", "one", "two")
        agent.bash("echo a message that is much too long for the table of a narrow terminal >&2; exit 2")
        agent.stop("It prints two.")
        locus_process("undo", "--yes", cwd=root)
        locus_process("redo", "--yes", cwd=root)
    return root


@pytest.fixture
def work(_worked_once: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which an agent worked for a turn, with an error that is long to tell; to read from."""
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    return _worked_once


@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("command", ["log", "errors", "timeline last", "log --events", "session ls --all"])
def test_a_table_shortens_no_id_and_no_time(work: Path, command: str, width: int) -> None:
    """On any terminal whole columns go; only text is cut, and a last line names the columns."""
    piped = locus_process(*command.split(), cwd=work).text
    shown = on_terminal(work, *command.split(), width=width, TZ="UTC", NO_COLOR="1")
    rows = [line for line in shown.splitlines() if not line.startswith("(left out") and "…" in line]

    assert rows and max(map(columns, rows)) <= width, shown
    words = {word for row in rows for word in row.split("  ")[0].split() if "…" not in word}
    assert words and all(word in piped for word in words if word not in _AGE), shown
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


@pytest.mark.parametrize(
    ("command", "coloured"),
    [
        ("diff last", "\x1b[32m+print('two')"),
        ("log", "\x1b[1mTURN"),
        ("timeline last", "\x1b[31m"),
        ("doctor", "\x1b[32mok"),
        ("undo --dry-run", "\x1b[1mundo"),
        ("restore last --at start --dry-run", "overwrite"),
    ],
)
def test_colour_is_for_terminals_alone(work: Path, command: str, coloured: str) -> None:
    """P8: a terminal shows colour, unless NO_COLOR is set; a pipe gets none, and a patch never."""
    words = command.split()

    assert coloured in on_terminal(work, *words)
    assert "\x1b[" not in on_terminal(work, *words, NO_COLOR="1")
    assert "\x1b[" not in locus_process(*words, cwd=work, FORCE_COLOR="").text
    forced = locus_process(*words, cwd=work, FORCE_COLOR="1").text
    assert ("\x1b[" in forced) == (command != "diff last" and "\x1b[" in coloured)


@pytest.mark.parametrize("command", ["log", "timeline last", "diff last", "show last"])
def test_what_may_be_long_goes_through_the_pager(work: Path, command: str, tmp_path: Path) -> None:
    """On a terminal the pager that the person chose shows it; no pipe has one."""
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED by $LESS\ncat\n")
    pager.chmod(0o755)

    assert "PAGED by FRX" in on_terminal(work, *command.split(), LOCUS_PAGER=str(pager))
    assert "PAGED" not in locus_process(*command.split(), cwd=work, LOCUS_PAGER=str(pager)).text


def test_a_removed_line_that_looks_like_a_head_is_red() -> None:
    """Only what comes before the first hunk of a file is its head."""
    texts = ["diff --git a/q b/q", "--- a/q", "@@ -1 +0,0 @@", "--- a comment in SQL"]

    assert [style for ((style, _),) in patch_lines(texts)] == ["prompt", "prompt", "hunk", "removed"]


@pytest.mark.parametrize(
    "command",
    [
        "log",
        "log --events",
        "session ls --all",
        "show last",
        "who",
        "history src/app.py",
        "errors",
        "blame src/app.py",
        "blame src/app.py:1",
        "search two",
        "recover src/app.py --yes",
        "undo --list",
        "undo --dry-run",
    ],
)
def test_recent_times_are_ages_on_a_terminal(work: Path, command: str, tmp_path: Path) -> None:
    """P8: what just happened is stated so to a person; a pipe has the time in UTC."""
    words = command.split()
    if words[0] == "recover":  # it writes
        work = shutil.copytree(work, tmp_path / "own", symlinks=True)

    assert re.search("just now|[0-9]+ min ago", on_terminal(work, *words, TZ="Asia/Kolkata"))
    piped = locus_process(*words, cwd=work, TZ="Asia/Kolkata").text
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d", piped) and " ago" not in piped and "just now" not in piped


def test_a_terminal_has_the_time_of_the_reader(recorded: Recorded) -> None:
    """P8: older times are in the zone of TZ, which the heading names, with both names where clocks change."""
    assert "2026-03-01 12:04" in locus_process("log", cwd=recorded.root, TZ="Asia/Kolkata").text
    shown = on_terminal(recorded.root, "log", TZ="Asia/Kolkata", NO_COLOR="1")
    assert "STARTED (IST)" in shown and "2026-03-01 17:34" in shown
    page = on_terminal(recorded.root, "show", "last", TZ="Europe/Paris", NO_COLOR="1")
    assert "2026-03-01 13:04 CET" in page
    paris = on_terminal(recorded.root, "log", TZ="Europe/Paris", NO_COLOR="1")
    assert "STARTED (CET/CEST)" in paris and "2026-03-01 13:04" in paris


def test_a_timeline_has_the_time_of_day_of_the_reader(recorded: Recorded) -> None:
    """P8: its head and its rows are in one zone, which both name; nothing is an age, for the order counts."""
    shown = on_terminal(recorded.root, "timeline", "last", TZ="Asia/Kolkata", NO_COLOR="1")
    assert "TIME (IST)" in shown and "2026-03-01 17:34 IST" in shown and "  17:34:00  " in shown
    piped = locus_process("timeline", "last", cwd=recorded.root, TZ="Asia/Kolkata").text
    assert "TIME (UTC)" in piped and "2026-03-01 12:04 UTC" in piped and "  12:04:00  " in piped


def test_a_table_of_commands_names_the_zone_of_its_times(recorded: Recorded) -> None:
    """P8: the versions of a file have the reader's zone on a terminal and UTC on a pipe."""
    words = ("history", "src/app.py")
    assert "WHEN (IST)" in on_terminal(recorded.root, *words, width=120, TZ="Asia/Kolkata", NO_COLOR="1")
    assert "WHEN (UTC)" in locus_process(*words, cwd=recorded.root, TZ="Asia/Kolkata").text
