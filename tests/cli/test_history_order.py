"""Versions of files in the order in which they happened, whenever they were imported."""

import json
from pathlib import Path

import pytest

from tests.cli.support import Locus, git


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three commits within one second, of which the last renames the file."""
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "old").write_text("a\nb\nc\n")
    git(root, "add", "old")
    git(root, "commit", "-q", "-m", "one")
    (root / "old").write_text("a\nb\nc\nd\n")
    git(root, "commit", "-qam", "two")
    git(root, "mv", "old", "new")
    git(root, "commit", "-qam", "three")
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("limits", [[], ["1"], ["2", "2"]], ids=["at once", "one first", "two first"])
def test_a_history_does_not_depend_on_the_order_of_imports(
    work: Path, locus: Locus, limits: list[str]
) -> None:
    """S1-51: newest first; the name before a rename belongs to the file, also when it was imported later."""
    locus("init")
    for limit in limits:
        assert locus("import", "git", "--limit", limit).code == 0
    assert locus("import", "git").code == 0
    versions = [json.loads(line) for line in locus("history", "new", "--json").text.splitlines()]
    assert [(one["operation"], one["path"], one["title"]) for one in versions] == [
        ("rename", "new", "three"), ("edit", "old", "two"), ("add", "old", "one"),
    ]  # fmt: skip
    (newest,) = [json.loads(line) for line in locus("history", "new", "-n", "1", "--json").text.splitlines()]
    assert newest == versions[0]


def test_a_rewritten_commit_moves_no_other(work: Path, locus: Locus) -> None:
    """S1-51: a commit of a fast clock that was dropped since is listed by its time, and no other is by it."""
    (work / "new").write_text("dropped\n")
    git(work, "commit", "-qam", "dropped", at=50)
    locus("init")
    assert locus("import", "git").code == 0
    git(work, "reset", "-q", "--hard", "HEAD~1")
    for number, title in enumerate(("four", "five")):
        (work / "new").write_text(f"{title}\n")
        git(work, "commit", "-qam", title, at=10 + number)
    assert locus("import", "git").code == 0

    def titles(*options: str) -> list[str]:
        return [json.loads(line)["title"] for line in locus("log", *options, "--json").text.splitlines()]

    assert titles() == ["five", "four", "three", "two", "one"]
    assert titles("--all") == ["dropped", "five", "four", "three", "two", "one"]
