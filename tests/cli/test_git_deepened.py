"""Clones that had less of a history when they were imported than they have now: what was wrong is mended."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog.importers import git_history
from tests.agents.histories import History, git_tree_of_directory, trees_of
from tests.cli.support import Locus, git

COUNT = 60


@pytest.fixture
def shallow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus) -> Path:
    """A clone of the newest ten of sixty commits, of one second, imported; it is the working directory."""
    history = History().put(b"kept", b"always\n").put(b"gone", b"once\n")
    for n in range(COUNT):
        history.put(b"f", b"%d\n" % n)
        if n == COUNT - 10:
            history.remove(b"gone").put(b"new", b"new\n")
        history.commit(f"c{n}")
    origin = history.write(str(tmp_path / "origin"))
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "10", f"file://{origin}", str(clone))
    monkeypatch.chdir(clone)
    assert locus("init").code == 0
    assert locus("import", "git").code == 0
    return clone


def ask(locus: Locus, sql: str) -> list[list[Any]]:
    found = locus("sql", "--json", sql)
    assert found.code == 0, found.err
    return [list(row.values()) for row in json.loads(found.text)]


def changes(locus: Locus, commit: str) -> list[list[Any]]:
    of_turn = f"""(select (session_id, turn) from turns where "commit" = '{commit}' and not rewritten)"""
    return ask(locus, f"select operation, path from files where (session_id, turn) in {of_turn} order by all")


def test_the_oldest_commit_of_a_shallow_clone_gets_its_changes(
    shallow: Path, locus: Locus, tmp_path: Path
) -> None:
    """P1, P3: once its parent is there it is no commit that adds all files; nothing counts twice."""
    boundary = git(shallow, "rev-list", "HEAD").split()[-1]
    assert changes(locus, boundary) == [["add", "f"], ["add", "kept"], ["add", "new"]]
    git(shallow, "fetch", "-q", "--unshallow")
    ended = locus("import", "git")
    report = json.loads(locus("import", "git", "--json").out)["import"]

    assert ended.code == 0 and "1 commit recorded again" in ended.err
    assert (report["commits"], report["events"], report["recorded_again"]) == (0, 0, 0)
    assert changes(locus, boundary) == [["add", "new"], ["delete", "gone"], ["edit", "f"]]
    titles = [json.loads(line)["title"] for line in locus("log", "-n", "100", "--json").text.splitlines()]
    assert titles == [f"c{n}" for n in reversed(range(COUNT))]
    assert len(locus("history", "kept", "--json").text.splitlines()) == 1
    total = json.loads(locus("stats", "--json").out)["stats"]["total"]
    assert (total["turns"], total["file_changes"]) == (COUNT, 2 + COUNT + 2)
    assert ask(locus, "select title from turns where rewritten") == [[f"c{COUNT - 10}"]]
    places = "select line_place from turns where not rewritten order by 1"
    assert ask(locus, places) == [[n] for n in range(COUNT)]
    assert locus("cat", "last:f").out == b"59\n"
    for commit, tree in trees_of(str(shallow)).items():
        if commit in (boundary, git(shallow, "rev-parse", "HEAD")):
            assert locus("replay", f"git:{commit}", "--to", tmp_path / commit).code == 0
            assert git_tree_of_directory(str(tmp_path / commit), {}) == tree
    assert locus("store", "verify").code == 0


def test_a_limit_leaves_the_oldest_commit_as_it_is(shallow: Path, locus: Locus) -> None:
    """A limited import after the clone was deepened adds nothing that it was not asked for."""
    git(shallow, "fetch", "-q", "--unshallow")
    assert json.loads(locus("import", "git", "--limit", "3", "--json").out)["import"]["recorded_again"] == 0
    assert len(ask(locus, "select 1 from turns where not rewritten")) == 10
    deeper = json.loads(locus("import", "git", "--json").out)["import"]
    assert (deeper["commits"], deeper["recorded_again"]) == (COUNT - 9, 1)


def test_a_clone_that_was_deepened_twice_has_each_boundary_once(shallow: Path, locus: Locus) -> None:
    """Each deepening moves the end of the clone; in the end every commit is one turn."""
    for options in (["--deepen=20"], ["--unshallow"]):
        git(shallow, "fetch", "-q", *options)
        assert json.loads(locus("import", "git", "--json").out)["import"]["recorded_again"] == 1
    assert len(ask(locus, "select 1 from turns where not rewritten")) == COUNT
    assert len(ask(locus, "select 1 from turns where rewritten")) == 2
    files = "select count(*) from files where (session_id, turn) in "
    assert ask(locus, files + "(select (session_id, turn) from turns where not rewritten)") == [[COUNT + 4]]


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, locus: Locus) -> Path:
    """A repository of five commits of one second, imported in two parts by a version without `line_place`."""
    path = tmp_path / "work"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for n in range(5):
        (path / "f").write_text(f"{n}\n")
        git(path, "add", "f")
        git(path, "commit", "-q", "-m", f"c{n}")
    monkeypatch.chdir(path)
    assert locus("init").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(git_history._Import, "_line_index", lambda _self, _index: None)
        patched.setattr(git_history.git_lines, "without_line_index", lambda *_: set())
        assert locus("import", "git", "--limit", "2").code == 0
        assert locus("import", "git").code == 0
    return path


def titles(locus: Locus) -> list[str]:
    return [json.loads(line)["title"] for line in locus("log", "--json").text.splitlines()]


def test_an_older_import_learns_the_order_of_its_commits(earlier: Path, locus: Locus) -> None:
    """P3: where their times do not tell it, an import of the same line says the places, once."""
    assert titles(locus)[0] == "c2"
    report = json.loads(locus("import", "git", "--json").out)["import"]
    assert (report["commits"], report["events"]) == (0, 5)
    assert titles(locus) == ["c4", "c3", "c2", "c1", "c0"]
    assert locus("cat", "last:f").out == b"4\n"
    assert json.loads(locus("import", "git", "--json").out)["import"]["events"] == 0
    assert ask(locus, "select distinct status from turns") == [["completed"]]


def test_an_older_import_in_the_right_order_gets_nothing_until_there_is_something_new(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, locus: Locus
) -> None:
    """P3: commits imported again add nothing; a new one brings the places of the others with it."""
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    for n in range(3):
        git(work, "commit", "-q", "--allow-empty", "-m", f"c{n}", at=n)
    monkeypatch.chdir(work)
    assert locus("init").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(git_history._Import, "_line_index", lambda _self, _index: None)
        assert locus("import", "git").code == 0
    assert json.loads(locus("import", "git", "--json").out)["import"]["events"] == 0

    git(work, "commit", "-q", "--allow-empty", "-m", "a slow clock", at=0)
    assert locus("import", "git").code == 0
    assert titles(locus) == ["a slow clock", "c2", "c1", "c0"]
    assert ask(locus, "select line_place from turns order by 1") == [[0], [1], [2], [3]]
