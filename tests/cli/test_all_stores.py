"""`--all-stores`: the verbs that read, for each store of a user (docs/cli.md)."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from eventlog import multi_store
from locus_cli.main import run
from tests.cli.support import Locus
from tests.test_house import ROOT, cli, commands
from tests.worktree.support import git

# The verbs with the option, with arguments that every store here can answer.
VERBS: "dict[str, tuple[str, ...]]" = {
    "log": (), "show": ("last",), "timeline": ("last",), "history": ("f.txt",), "search": ("word",),
    "compare": ("last", "last"), "who": (), "decisions": (), "errors": (), "stats": (),
    "status": (), "session ls": (), "session show": (),
}  # fmt: skip
SILENT = {"decisions", "errors"}  # they have nothing to list here


@pytest.fixture(scope="module")
def _made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two repositories with stores, each with a commit and a session."""
    directory = tmp_path_factory.mktemp("stores")
    for name in ("one", "two"):
        root = directory / name
        root.mkdir()
        git(root, "init", "-q", "-b", "main")
        (root / "f.txt").write_text(f"word {name}\n")
        git(root, "add", "-A")
        git(root, "commit", "-qm", f"Add {name}")
        for words in (("init", str(root)), ("import", "git", str(root)), ("session", "start", f"On {name}")):
            with pytest.MonkeyPatch.context() as patched:
                patched.setenv("HOME", str(directory / "home"))
                assert run(["--store", str(root / ".locus"), *words]) == 0
    return directory


@pytest.fixture
def stores(_made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "list[Path]":
    """Copies of these stores, noted as those of this user; the working directory is outside of both."""
    copies = [tmp_path / name for name in ("one", "two")]
    for copy in copies:
        shutil.copytree(_made_once / copy.name, copy)
        multi_store.remember(str(copy / ".locus"), os.environ)
    monkeypatch.chdir(tmp_path)
    return [copy / ".locus" for copy in copies]


@pytest.mark.parametrize("verb", VERBS)
def test_each_store_answers(stores: "list[Path]", locus: Locus, verb: str) -> None:
    """S1-53: what a verb writes with `--all-stores` is what it writes for each store, under its name (P7)."""
    words = (*verb.split(), *VERBS[verb])
    alone = [locus("--store", store, *words) for store in stores]
    done = locus(*words, "--all-stores")
    heads = [f"── {store.parent.name} · {store}\n" if done.out else "" for store in stores]
    assert done.code == 0, done.err
    assert done.text == "".join(head + part.text for head, part in zip(heads, alone, strict=True))
    assert bool(done.out) == (verb not in SILENT)


@pytest.mark.parametrize("verb", VERBS)
def test_each_store_answers_in_json(stores: "list[Path]", locus: Locus, verb: str) -> None:
    """Documents are in one document, lines stay lines; each names its store and is what that store says."""
    words = (*verb.split(), *VERBS[verb], "--json")
    alone = [locus("--store", store, *words).text for store in stores]
    text = locus(*words, "--all-stores").text
    named = [{"store": store.parent.name, "directory": str(store)} for store in stores]
    if verb in ("log", "history", "session ls"):
        lines = [json.loads(line) for line in text.splitlines()]
        expected = [
            {**name, **json.loads(line)}
            for name, part in zip(named, alone, strict=True)
            for line in part.splitlines()
        ]
        assert lines == expected
        assert len(lines) >= 2
        return
    document = json.loads(text)
    assert (document["version"], document["left_out"]) == (1, [])
    expected = [{**name, "exit_code": 0, **json.loads(part)} for name, part in zip(named, alone, strict=True)]
    for fields in expected:
        del fields["version"]
    assert document["stores"] == expected


def test_a_store_that_does_not_know_it_is_passed_over(stores: "list[Path]", locus: Locus) -> None:
    """A turn of one store is shown by that one; of none, it is the error that one store gives."""
    turn = json.loads(locus("--store", stores[1], "timeline", "last", "--json").text)["turn"]["context_id"]
    done = locus("show", turn, "--all-stores")
    assert done.code == 0 and done.err == ""
    assert "── two · " in done.text and "one" not in done.text.replace(str(stores[1]), "")
    done = locus("show", "nowhere_001", "--all-stores")
    assert done.code == 1 and "nowhere_001" in done.err and not done.out


def test_what_cannot_be_read_is_named(stores: "list[Path]", locus: Locus, tmp_path: Path) -> None:
    """A store that does not open, and one that is damaged, are named, and the others answer (P7)."""
    (stores[0] / "STORE").write_text("{}")
    done = locus("log", "--all-stores", "--json")
    assert done.code == 0
    assert [json.loads(line)["store"] for line in done.text.splitlines()] == ["two"]
    assert f"left out: {stores[0]}" in done.err
    [manifest] = (stores[1] / "log/manifest").iterdir()
    manifest.write_bytes(b"damaged")
    done = locus("log", "--all-stores")
    assert done.code == 12 and "locus: two: " in done.err and not done.out
    shutil.rmtree(stores[0].parent)
    shutil.rmtree(stores[1].parent)
    assert locus("log", "--all-stores").code == 10


def test_one_store_and_all_exclude_each_other(stores: "list[Path]", locus: Locus) -> None:
    """`--store` names one; `--follow` would never come to the second."""
    assert locus("--store", stores[0], "log", "--all-stores").code == 2
    assert locus("log", "--follow", "--all-stores").code == 2


def test_the_verbs_that_lack_it_are_listed_with_the_reason() -> None:
    """P7: every verb that reads has the option, or is in docs/cli.md with why not."""
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    table = page.partition("\n## All stores\n")[2].partition("\n## ")[0]
    without = set(re.findall(r"`locus ([a-z -]+)`", "".join(re.findall(r"^\| (.+?) \|", table, re.M))))
    having = {
        path.removeprefix("locus ")
        for path, command in commands(cli)
        if any(option.name == "all_stores" for option in command.params)
    }
    reading = {
        path.removeprefix("locus ")
        for path, command in commands(cli)
        if path.split()[1:2] in ([entry.name] for entry in cli.sections["Look"])
    }
    assert having == {*VERBS, "sql", "view"}
    assert reading - having == without & reading
    assert without.isdisjoint(having - {"view"}) and {"cat", "diff", "blame", "report"} <= without
