"""The first prompt in a repository, by real hook processes: what git holds is exact, or is named (P1)."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.hooks import deferred_lists
from eventlog.store import Store
from tests.cli.hook_support import Agent, events, here, notes, project
from tests.cli.support import locus_process as locus
from tests.cli.test_hook_contents import until_stored
from tests.worktree.support import age, git


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = project(tmp_path)
    for name in ("a.txt", "lib/b.txt", "lib/c.txt"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(name * 9)
    (work / "large.txt").write_text("large\n" * 50_000)  # less is read at once
    age(work)
    git(work, "add", "-A")
    git(work, "commit", "-qm", "all")
    return work


@pytest.fixture
def nobody_stores(work: Path) -> Iterator[None]:
    """As if the process that stores contents had not got to it yet."""
    fd = REAL.open(Layout(str(work / ".locus")).lock(deferred_lists.WORKING), os.O_RDWR | os.O_CREAT)
    assert REAL.flock(fd, True)
    yield
    REAL.close(fd)


def first_look(work: Path) -> dict[str, object]:
    """What the snapshot of a session's start says of its capture."""
    agent = Agent(work)
    agent.prompt("Look around")
    agent.stop()
    first = events(work, "snapshot")[0]
    assert first["success"] and not notes(work)
    return dict(first["payload"]["capture"])


def test_the_first_prompt_defers_what_git_holds_and_all_of_it_is_stored(work: Path) -> None:
    """docs/certainty.md §4: every committed file is held by git; a process stores them, and the next tree has
    them. What is not committed is read at once."""
    (work / "new.txt").write_text("new")
    (work / "a.txt").write_text("edited")
    facts = first_look(work)
    assert (facts["in_git"], facts["deferred"]) == (6, 0)
    assert len(facts["lists"]) == 1
    until_stored(work)
    (recorded,) = events(work, "content")
    assert (recorded["payload"], recorded["before_hash"]) == ({"count": 6}, facts["lists"][0])
    agent = Agent(work)
    agent.prompt("And now?")
    agent.stop()
    last = events(work, "snapshot")[-1]
    assert last["blobs"] == [last["tree_hash"]] and "capture" not in last["payload"]
    assert events(work, "file") == []


def test_what_git_held_at_a_prompt_is_replayed_from_git_and_named_when_git_holds_it_no_more(
    work: Path, tmp_path: Path, nobody_stores: None
) -> None:
    """P1: the turn's start is exact from git's objects, packed or not, whatever is in the directory now.
    Objects that were pruned are named, and the exit code is 4."""
    before = here(work)
    assert first_look(work)["in_git"] == 7
    (work / "lib" / "b.txt").write_text("b")
    shutil.rmtree(work / "src")
    git(work, "gc", "-q", "--prune=now")
    replay = ("replay", "last", "--at", "start", "--to")
    done = locus(*replay, tmp_path / "packed", cwd=work)
    assert (done.code, here(tmp_path / "packed")) == (0, before)

    git(work, "rm", "-rq", "--cached", ".")
    git(work, "update-ref", "-d", "HEAD")
    git(work, "reflog", "expire", "--expire=now", "--all")
    git(work, "gc", "-q", "--prune=now")
    done = locus(*replay, tmp_path / "pruned", cwd=work)
    assert done.code == 4
    assert "lib/b.txt" in done.text and "git does not hold" in done.text
    answer = json.loads(locus(*replay, tmp_path / "again", "--json", cwd=work).text)
    known = answer["certainty"]
    assert known["state"] == "partial"
    assert [one["path"] for one in known["paths"]] == sorted(one["path"] for one in answer["missing"])
    with Store.open(work / ".locus") as store:
        assert store.certainty("last", "start").state == "partial"
