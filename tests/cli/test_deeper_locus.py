"""Files below a directory called `.locus` that is no store: recorded, replayed, restored; a store never."""

import json
from pathlib import Path

import pytest

from tests.agents.histories import SYMLINK, History, git_tree_of_directory, trees_of
from tests.cli.hook_support import Agent, notes, project
from tests.cli.support import Locus, locus_process
from tests.worktree.support import age, on_disk

ALL = frozenset((b".git",))


def test_a_git_history_with_such_directories_is_replayed_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus
) -> None:
    """P1: what is below a deeper `.locus`, and files of that name, come back as git's tree."""
    history = (
        History().put(b"sub/.locus/x", b"1").put(b"sub/.locus/d/.LOCUS/y", b"2").put(b"z/.locus", b"file")
    )
    history.put(b"sub/.locus/link", b"x", SYMLINK).commit("one")
    history.put(b"sub/.locus/x", b"11").remove(b"z/.locus").put(b"z/.locus/now", b"a directory").commit("two")
    path = history.remove(b"sub/.locus/d/.LOCUS/y").commit("three").write(str(tmp_path / "r"))
    monkeypatch.chdir(path)
    assert locus("init").code == 0
    assert locus("import", "git").code == 0

    for commit, tree in trees_of(path).items():
        out = tmp_path / commit
        assert locus("replay", f"git:{commit}", "--to", out).code == 0
        assert git_tree_of_directory(str(out), {}) == tree
    assert locus("cat", "last:sub/.locus/x").out == b"11"
    assert locus("diff", "last").text.count("sub/.locus/d/.LOCUS/y") >= 1


def test_what_could_be_a_store_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locus: Locus
) -> None:
    """P1, I28: `.locus` at the root, a `STORE` in a deeper one, a link of that name; the rest is recorded."""
    history = History().put(b".locus/x", b"1").put(b"a/.locus/STORE", b"2").put(b"a/.locus/other", b"3")
    path = (
        history.put(b"b/.locus", b"../a/.locus", SYMLINK)
        .put(b"ok", b"4")
        .commit("c")
        .write(str(tmp_path / "r"))
    )
    store = tmp_path / "store"
    monkeypatch.chdir(tmp_path)
    assert locus("--store", store, "init").code == 0
    ended = locus("--store", store, "import", "git", path, "--json")

    assert ended.code == 4
    assert [path for path, _ in json.loads(ended.out)["import"]["missing"]] == [
        ".locus/x", "a/.locus/STORE", "b/.locus",
    ]  # fmt: skip
    out = tmp_path / "out"
    assert locus("--store", store, "replay", "last", "--to", out).code == 4
    assert set(on_disk(out, ALL)) == {b"a", b"a/.locus", b"a/.locus/other", b"b", b"ok"}


def captured(tmp_path: Path) -> Path:
    """A project with a turn in which files below a deeper `.locus` were written."""
    work = project(tmp_path)
    agent = Agent(work)
    agent.prompt("Write it")
    agent.write("sub/.locus/x", "one\n")
    agent.bash("mkdir -p sub/.locus/d && echo 2 > sub/.locus/d/y && echo 3 > src/.locus")
    agent.stop()
    assert notes(work) == ""
    return work


def test_what_hooks_saw_below_one_is_restored(tmp_path: Path) -> None:
    """P1: captured while the agent works, then replayed and restored byte for byte."""
    work = captured(tmp_path)
    before = on_disk(work, ALL | {b"STORE"})
    assert locus_process("replay", "last", "--to", tmp_path / "out", cwd=work).code == 0
    seen = on_disk(tmp_path / "out", ALL)
    assert seen[b"sub/.locus/x"] == (b"f", b"one\n") and seen[b"src/.locus"] == (b"f", b"3\n")
    assert b"sub/.locus/d/y" in seen and b".locus" not in seen

    (work / "sub/.locus/x").write_text("overwritten")
    (work / "sub/.locus/d/y").unlink()
    (work / "sub/.locus/kept").write_text("nobody recorded this")
    done = locus_process("restore", "last", "--yes", cwd=work)
    assert done.code == 0, done.err
    assert {
        path: found for path, found in on_disk(work, ALL).items() if path.startswith((b"sub", b"src"))
    } == {
        **{path: found for path, found in before.items() if path.startswith((b"sub", b"src"))},
        b"sub/.locus/kept": (b"f", b"nobody recorded this"),
    }


def test_nothing_is_written_into_a_store_that_came_there(tmp_path: Path) -> None:
    """I28: a store made in such a directory is not captured, nor restored into, nor deleted from."""
    work = captured(tmp_path)
    age(work)
    agent = Agent(work)
    agent.prompt("Make a store of it")
    assert locus_process("--store", work / "sub/.locus", "init", "--force", cwd=work / "sub").code == 0
    agent.bash("true")
    agent.stop()
    (work / "sub/.locus/x").unlink()
    before = on_disk(work / "sub", frozenset())

    out = tmp_path / "out"
    assert locus_process("replay", "last", "--to", out, cwd=work).code == 0
    assert b"sub/.locus" not in on_disk(out, ALL)
    done = locus_process("restore", "last", "--at", "start", "--yes", cwd=work)
    assert done.code in (3, 4) and "a store is there" in done.err + done.text
    forced = locus_process("restore", "last", "--at", "start", "--yes", "--force", cwd=work)
    assert forced.code in (3, 4)
    replayed = locus_process("replay", "last", "--at", "start", "--to", work, "--force", cwd=work)
    assert replayed.code == 4 and "a store is there" in replayed.err + replayed.text
    assert on_disk(work / "sub", frozenset()) == before
