"""Errors that name the command to go on with."""

from pathlib import Path

import pytest

from eventlog import Recorder, Store
from tests.cli.support import Locus, Recorded, git


@pytest.mark.parametrize(
    ("arguments", "next_step"),
    [
        (("import", "git"), "`locus import git` records them after the first"),
        (("search", "tea"), "nothing is recorded yet. `locus import git`"),
        (("decisions", "tea"), "nothing is recorded yet. `locus import git`"),
        (("import", "codex", "/nonexistent"), "`locus import codex --help`"),
        (("session", "show", "zzzz"), "`locus session ls --all`"),
        (("session", "end", "zzzz"), "`locus session ls --all`"),
        (("sql", "selec 1"), "`locus sql 'describe events'`"),
    ],
)
def test_an_error_names_the_next_command(
    tmp_path: Path,
    locus: Locus,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    next_step: str,
) -> None:
    """P8: in a repository without a commit and a store without an event, each error says how to go on."""
    git(tmp_path, "init", "-q", ".")
    monkeypatch.chdir(tmp_path)
    assert locus("init").code == 0

    ended = locus(*arguments)

    assert next_step in ended.err and ended.err.count("\n") == 1, ended.err


@pytest.mark.parametrize("verb", [("replay", "--to", "OUT"), ("restore", "--yes"), ("cat",), ("diff",)])
def test_a_turn_without_files_leads_to_one_that_has_them(
    copied: Recorded, locus: Locus, verb: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`replay`, `restore`, `cat` and `diff` of such a turn name the newest turn with files."""
    monkeypatch.chdir(copied.root)
    with (
        Store.open() as store,
        Recorder(store, agent="person").start_session("Talk") as session,
        session.start_turn("Talk") as turn,
    ):
        name = turn.ref.name
        turn.end(title="Talk")
    words = [str(tmp_path / "out") if word == "OUT" else word for word in verb[1:]]

    ended = locus(verb[0], f"{name}:app" if verb[0] == "cat" else name, *words)

    assert ended.code != 0 and "is the newest turn that has them" in ended.err, ended.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["statu"], "`locus status`"),
        (["timelime"], "`locus timeline`"),
        (["session", "lss"], "`locus session ls`"),
        (["gc"], "`locus store gc`"),
    ],
)
def test_a_mistyped_command_leads_to_the_one_that_was_meant(
    shop: Path, locus: Locus, typed: list[str], meant: str
) -> None:
    """P8: commands and subcommands that are similar are named, and the group that has such a subcommand."""
    ended = locus(*typed)

    assert ended.code == 2 and f"Did you mean {meant}" in ended.err and "--help`." in ended.err
    assert "Did you mean" not in locus("frobnicate").err
