"""`locus hooks install` asks once whether sessions that begin are briefed; config.toml has the answer."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlog.base import config
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from locus_cli.setup import brief_choice
from tests.cli.support import Ended, locus_process

INSTALL = ("hooks", "install", "--agent", "claude-code")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    assert locus_process("init", cwd=work).code == 0
    return work


def on_a_terminal(work: Path, answer: bytes) -> str:
    """The command on a terminal of its own: what it showed; `answer` is typed when it asks."""
    ours, theirs = pty.openpty()
    line = [sys.executable, "-m", "locus_cli", *INSTALL]
    shown, until_s = b"", time.monotonic() + 60
    with subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, cwd=work) as process:
        os.close(theirs)
        while time.monotonic() < until_s and select.select([ours], [], [], 60)[0]:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:  # the other end was closed
                break
            if not data:
                break
            shown += data
            if shown.endswith(b"[Y/n]: "):
                os.write(ours, answer)
                shown += b"."
        process.wait(60)
    os.close(ours)
    assert process.returncode == 0
    return shown.decode()


def install(work: Path, *words: str) -> Ended:
    ended = locus_process(*INSTALL, *words, cwd=work)
    assert ended.code == 0
    return ended


def briefs(work: Path) -> bool:
    return config.read(REAL, Layout(str(work / ".locus"))).briefing_at_start


@pytest.mark.parametrize(("answer", "expected"), [(b"\n", True), (b"n\n", False)])
def test_on_a_terminal_it_is_asked_once_and_yes_is_the_default(
    work: Path, answer: bytes, expected: bool
) -> None:
    """P4: who presses return wants to be briefed; whoever has answered is asked no more."""
    first = on_a_terminal(work, answer)
    assert first.count("when they begin a session") == first.count("[Y/n]") == 1
    assert briefs(work) is expected
    assert "[Y/n]" not in on_a_terminal(work, b"")
    assert briefs(work) is expected


def test_without_a_terminal_it_stays_off_until_an_option_says_so(work: Path) -> None:
    """P4, P8: nothing is asked of a script; --brief and --no-brief decide, and leave all else in the file."""
    assert "--brief` changes that" in install(work).err and not briefs(work)
    settings = work / ".locus/config.toml"
    assert not settings.exists()
    settings.write_text("[capture]\ninclude = ['x']\n[briefing] # mine\ntokens = 300\n[redaction]\n")
    assert "New sessions get a briefing" in install(work, "--brief").err and briefs(work)
    text = "[capture]\ninclude = ['x']\n[briefing] # mine\nat_start = {}\ntokens = 300\n[redaction]\n"
    assert settings.read_text() == text.format("true")
    assert "get no briefing" not in install(work).err
    install(work, "--no-brief")
    assert settings.read_text() == text.format("false") and settings.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["", "x = 1", "[briefing]", "[a]\nb = 1\n", "[briefing]\nat_start = false # so\n"]
)
def test_the_key_has_one_place(text: str) -> None:
    """P8: whatever is there stays."""
    made = brief_choice._with(text, True)
    assert brief_choice._with(made, True) == made
    assert made.count("at_start = true") == 1 and all(
        word in made for word in text.split() if word != "false"
    )


def test_settings_that_cannot_be_edited_are_left_to_the_person(work: Path, tmp_path: Path) -> None:
    """P4: a link and a table in another form stay as they are, and it is stated; the hooks are there."""
    settings = work / ".locus/config.toml"
    (tmp_path / "other.toml").write_text("")
    settings.symlink_to(tmp_path / "other.toml")
    assert str(settings) in install(work, "--brief").err and not (tmp_path / "other.toml").read_text()
    settings.unlink()
    settings.write_text("briefing = {tokens = 3}\n")
    assert "set `at_start` below `[briefing]` in it yourself" in install(work, "--brief").err
    assert (
        settings.read_text() == "briefing = {tokens = 3}\n"
        and (work / ".claude/settings.local.json").exists()
    )
