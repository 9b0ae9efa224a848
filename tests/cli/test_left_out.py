"""What `.locusignore` leaves out, in the commands that put files back."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.hook_support import Agent, project
from tests.cli.support import Ended, locus_process


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with one turn; `dumps/` is left out by choice."""
    made = project(tmp_path)
    (made / ".locusignore").write_text("dumps/\n")
    (made / "dumps").mkdir()
    (made / "dumps/large.bin").write_bytes(b"large")
    return made


def play(work: Path) -> None:
    agent = Agent(work)
    agent.prompt("Write a note")
    agent.write("note.txt", "kept")
    agent.stop()


def restored(work: Path, *words: str) -> Ended:
    (work / "note.txt").write_text("lost")
    return locus_process("restore", "last", *words, "--yes", cwd=work)


def test_what_was_left_out_by_choice_is_listed_and_no_failure(work: Path, tmp_path: Path) -> None:
    """P1: replay and restore name it, end with 0, and touch nothing of it."""
    play(work)
    replayed = locus_process("replay", "last", "--to", tmp_path / "out", cwd=work)
    ended = restored(work)
    (work / "note.txt").write_text("lost")
    planned = locus_process("restore", "last", "--dry-run", "--json", cwd=work)

    assert (replayed.code, replayed.text) == (0, "not reproduced: dumps: .locusignore leaves it out\n")
    assert ended.code == 0
    assert "not restored: dumps: .locusignore leaves it out" in ended.text.splitlines()
    assert planned.code == 0
    missing = [{"path": "dumps", "reason": ".locusignore leaves it out"}]
    assert json.loads(planned.text)["restore"]["missing"] == missing
    assert (work / "dumps/large.bin").read_bytes() == b"large"


def test_left_out_and_asked_for_is_a_failure(work: Path, tmp_path: Path) -> None:
    """P1: a command that names the path ends with exit code 4, to say that it is not there."""
    play(work)
    out = tmp_path / "out"
    assert locus_process("replay", "last", "dumps", "note.txt", "--to", out, cwd=work).code == 4
    ended = restored(work, "note.txt", "dumps/")
    assert ended.code == 4 and "not restored: dumps: .locusignore leaves it out" in ended.text
    assert (work / "note.txt").read_text() == "kept"


def test_what_could_not_be_captured_is_a_failure_beside_it(work: Path, tmp_path: Path) -> None:
    """P1: exit code 4 stays that of everything that was not left out by choice."""
    os.mkfifo(work / "pipe")
    play(work)
    replayed = locus_process("replay", "last", "--to", tmp_path / "out", cwd=work)
    assert replayed.code == 4 and "not reproduced: pipe: " in replayed.text
    ended = restored(work)
    assert ended.code == 4 and "not restored: pipe: " in ended.text
