"""What long work says on stderr while it goes on; the clock is one that the test moves."""

import io
import sys
import threading

import pytest

from locus_cli.progress import Progress


class Clock:
    """A clock that moves when somebody waits; the work ends at `ends_s`."""

    def __init__(self, ends_s: float) -> None:
        self.now_s = 0.0
        self._ends_s = ends_s
        self.may_go = threading.Event()

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> bool:
        assert self.may_go.wait(10)
        self.now_s = min(self.now_s + seconds, self._ends_s)
        return self.now_s == self._ends_s


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, err: io.StringIO, ends_s: float, *counts: int) -> str:
    """What work of that many seconds says to `err`."""
    monkeypatch.setattr(sys, "stderr", err)
    clock = Clock(ends_s)
    with Progress("recording commits", clock=clock, wait=clock.wait) as progress:
        if counts:
            progress(*counts)
        clock.may_go.set()
    return err.getvalue()


def test_long_work_without_a_terminal_says_a_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of a job shows that it goes on, how far it is, and nothing that moves a cursor."""
    assert printed(monkeypatch, io.StringIO(), 100, 120, 400).splitlines() == [
        "recording commits: 120 of 400 (30 %), 70 s left",
        "recording commits: 120 of 400 (30 %), 140 s left",
        "recording commits: 120 of 400 (30 %), 210 s left",
    ]
    assert printed(monkeypatch, io.StringIO(), 45).splitlines() == ["recording commits: 30 s"]


def test_short_work_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither below half a minute in a log, nor below a second on a terminal."""
    assert printed(monkeypatch, io.StringIO(), 29) == ""
    assert printed(monkeypatch, Terminal(), 0.9) == ""


def test_a_terminal_has_one_line_that_is_gone_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written over again, and no line of it stays."""
    text = printed(monkeypatch, Terminal(), 1.5, 1, 4)
    assert "\n" not in text and text.endswith("\r\x1b[K")
    assert text.startswith("\rrecording commits: 1 of 4 (25 %), 3 s left")
