"""Names with control characters and other odd bytes: one form in all output, which every command takes."""

import os
from pathlib import Path

import pytest

from tests.cli.hook_support import Agent, project
from tests.cli.support import Locus

# A name as bytes, and as people get it.
ODD = (
    (b"data/new\nline.txt", r'"data/new\nline.txt"'),
    (b"caf\xe9\t.txt", r'"caf\351\t.txt"'),
    (b'"quoted\\"', r'"\"quoted\\\""'),
    (b"two  spaces.txt", "two  spaces.txt"),
    (b"right\xe2\x80\xaeleft", r'"right\342\200\256left"'),
)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = project(tmp_path)
    monkeypatch.chdir(root)
    (root / "data").mkdir()
    agent = Agent(root)
    agent.start()
    agent.prompt("Write")
    for name, _ in ODD:
        (root / os.fsdecode(name)).write_text("one\n")
    agent.bash("true")
    agent.stop()
    return root


@pytest.mark.parametrize("shown", [shown for _, shown in ODD])
def test_every_command_takes_what_every_command_prints(work: Path, locus: Locus, shown: str) -> None:
    """P1: Such a name has one form in all output, and that form is a PATH of all commands."""
    for command in (
        ("log", "--events"), ("show", "last"), ("show", "last", "--full"), ("undo", "--dry-run"),
        ("restore", "last", "--at", "start", "--dry-run", "--delete"), ("diff", "last", "--stat"),
    ):  # fmt: skip
        text = locus(*command).text
        assert shown in text, command
        assert "\nline.txt" not in text and "\u202e" not in text
    assert shown in locus("history", shown).text
    assert shown in locus("recover", "*").text
    for command in (
        ("recover", shown), ("blame", shown), ("blame", f"{shown}:1"), ("history", shown),
        ("cat", f"last:{shown}"), ("undo", "--dry-run", "last", "--", shown),
        ("restore", "last", shown, "--dry-run"), ("diff", "last", f"./{shown}" if shown[0] != '"' else shown),
        ("replay", "last", shown, "--to", str(work.parent / "copy")),
    ):  # fmt: skip
        ended = locus(*command)
        assert ended.code == 0, (command, ended.err)
    assert shown in locus("log", "--path", shown).text
    assert shown in locus("search", "one", "--path", shown).text


@pytest.mark.parametrize("typed", [r'"a\q"', r'"a\400"', '"a', r'"a\"'])
def test_a_bad_escape_is_a_usage_error(work: Path, locus: Locus, typed: str) -> None:
    """P1: A quoted form that is malformed is no name, and the message says what is accepted."""
    for command in (
        ("recover", typed), ("blame", typed), ("history", typed), ("log", "--path", typed),
        ("search", "one", "--path", typed), ("cat", f"last:{typed}"), ("diff", "last", typed),
        ("undo", "--dry-run", "last", "--", typed), ("restore", "last", typed, "--dry-run"),
        ("replay", "last", typed, "--to", str(work.parent / "copy")), ("store", "erase", "--path", typed),
    ):  # fmt: skip
        ended = locus(*command)
        assert ended.code == 2 and "three octal digits" in ended.err, (command, ended.err)
