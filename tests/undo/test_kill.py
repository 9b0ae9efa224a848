"""An undo and a redo that are killed before each of their calls: the way back and forth stays."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.base.layout import RESTORE_DIR
from eventlog.store import Store
from tests.cli.hook_support import Agent, here, project
from tests.conftest import HUNT
from tests.kills import NEVER, effects_of, in_child

# Each so-many-th end is tried; a hunt tries all of them.
STEP = 1 if HUNT else 5
TEXT = "one\ntwo\nthree\nfour\nfive\nsix\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a turn that edits, adds, deletes and renames, and what a person did later."""
    place = tmp_path_factory.mktemp("template")
    work = project(place)
    (work / "merged.txt").write_text(TEXT)
    (work / "gone.txt").write_text("deleted by the turn\n")
    (work / "old.txt").write_text("renamed\n" * 9)
    (work / "tool.sh").write_text("#!/bin/sh\n")
    agent = Agent(work)
    agent.start()
    agent.prompt("Tidy up")
    agent.edit("merged.txt", "two", "TWO")
    agent.bash("rm gone.txt; mv old.txt new.txt; mkdir -p d/e; echo made > d/e/made.txt; chmod +x tool.sh")
    agent.stop()
    (work / "merged.txt").write_text(TEXT.replace("two", "TWO") + "mine\n")
    (work / "mine.txt").write_text("never recorded\n")
    return place


class Copy:
    """A copy of the project of its own."""

    def __init__(self, template: Path, place: Path) -> None:
        if place.exists():
            shutil.rmtree(place)
        shutil.copytree(template, place, symlinks=True)
        self.work = place / "work"

    def undo(self) -> None:
        with Store.open(self.work / ".locus") as store:
            store.restore(store.undo_plan())

    def redo(self) -> None:
        with Store.open(self.work / ".locus") as store:
            store.restore(store.redo_plan(into=self.work))  # a copy's undo was made elsewhere

    def recover(self, undo: bool = False) -> list[bytes]:
        """Recover what was killed; the paths that it leaves alone."""
        with Store.open(self.work / ".locus") as store:
            return [path for outcome in store.recover_restore(undo=undo) for path, _ in outcome.left]

    def files(self) -> dict[object, object]:
        return here(self.work)

    def check_ways(self, done: dict[object, object], undone: dict[object, object]) -> None:
        """From where it is there is a way to the other state, and one back."""
        assert os.listdir(self.work / ".locus" / RESTORE_DIR) == []
        with Store.open(self.work / ".locus") as store:
            assert store.verify("read") == []
        steps = (self.undo, self.redo, self.undo) if self.files() == done else (self.redo, self.undo)
        states = (undone, done, undone) if self.files() == done else (done, undone)
        for step, state in zip(steps, states, strict=True):
            step()
            assert self.files() == state


@pytest.fixture(scope="module")
def states(
    template: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[object, object], dict[object, object]]:
    """A project whose turn is undone, and its files before and after that."""
    copy = Copy(template, tmp_path_factory.mktemp("undone") / "copy")
    done = copy.files()
    copy.undo()
    undone = copy.files()
    assert (copy.work / "merged.txt").read_text() == TEXT + "mine\n"
    assert (copy.work / "old.txt").exists() and not (copy.work / "d/e/made.txt").exists()
    assert (copy.work / "mine.txt").read_text() == "never recorded\n"
    return copy.work.parent, done, undone


States = tuple[Path, dict[object, object], dict[object, object]]


@pytest.mark.parametrize("back", [False, True], ids=["finished", "taken-back"])
@pytest.mark.parametrize("verb", ["undo", "redo"])
def test_one_that_is_killed_anywhere_leaves_the_way_back_and_forth(
    template: Path, states: States, tmp_path: Path, verb: str, back: bool
) -> None:
    """Killed before any effect, and recovered: the turn is wholly there or wholly undone, with what came
    later; and from there both ways are open (I12, I32)."""
    undone_place, done, undone = states
    old, new = (done, undone) if verb == "undo" else (undone, done)
    first = Copy(template if verb == "undo" else undone_place, tmp_path / "first")
    count = effects_of(getattr(first, verb))
    ends = {"old": 0, "new": 0}
    for number in sorted({*range(0, count, STEP), count - 1}):
        copy = Copy(template if verb == "undo" else undone_place, tmp_path / "copy")
        assert in_child(getattr(copy, verb), number)
        unfinished = os.listdir(copy.work / ".locus" / RESTORE_DIR) != []
        assert not in_child(lambda c=copy: c.recover(back), NEVER)  # type: ignore[misc]
        files = copy.files()
        assert files in (old, new), number
        ends["old" if files == old else "new"] += 1
        assert unfinished or number < count // 2 or files == new
        if number % (3 * STEP) == 0:
            copy.check_ways(done, undone)
    assert ends["old"] > 20 // STEP and ends["new"] > 0, ends


def test_what_is_written_between_the_kill_and_the_recovery_stays(
    template: Path, states: States, tmp_path: Path
) -> None:
    """P1, I32: a person who goes on with a file of a killed undo keeps every byte, wherever it was killed and
    however it is recovered; the other paths are recovered all the same."""
    _, done, undone = states
    count = effects_of(Copy(template, tmp_path / "first").undo)
    for number in range(0, count, 2 * STEP + 1):
        for back in (False, True):
            copy = Copy(template, tmp_path / "copy")
            assert in_child(copy.undo, number)
            (copy.work / "merged.txt").write_text("all new\n")
            (copy.work / "later.txt").write_text("later\n")
            copy.recover(back)
            files = copy.files()
            assert (copy.work / "merged.txt").read_text() == "all new\n", (number, back)
            assert (copy.work / "later.txt").read_text() == "later\n"
            own = {name for name in files if str(name).find("merged") >= 0 or str(name).find("later") >= 0}
            rest = {name: files[name] for name in files if name not in own}
            assert rest in [{n: s[n] for n in s if n not in own} for s in (done, undone)], (number, back)
            assert os.listdir(copy.work / ".locus" / RESTORE_DIR) == []


@pytest.mark.parametrize("verb", ["undo", "redo"])
def test_a_recovery_that_is_killed_can_be_repeated(
    template: Path, states: States, tmp_path: Path, verb: str
) -> None:
    """The recovery of a killed undo or redo may be killed before any effect; the next one comes to its end
    (I12, I32)."""
    undone_place, done, undone = states
    source = template if verb == "undo" else undone_place
    old, new = (done, undone) if verb == "undo" else (undone, done)
    number = effects_of(getattr(Copy(source, tmp_path / "half"), verb))
    while True:  # the last end in the middle of the switch
        number -= 1
        half = Copy(source, tmp_path / "half")
        assert in_child(getattr(half, verb), number)
        if half.files() not in (old, new):
            break
    for back in (False, True):
        at = 0
        while True:
            copy = Copy(source, tmp_path / "copy")
            assert in_child(getattr(copy, verb), number)
            if not in_child(lambda c=copy, b=back: c.recover(b), at):  # type: ignore[misc]
                break
            assert not in_child(lambda c=copy, b=back: c.recover(b), NEVER)  # type: ignore[misc]
            assert copy.files() == (old if back else new), (back, at)
            at += 2 * STEP + 1
        assert at > STEP


def command(work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the command says in a project."""
    run = [sys.executable, "-m", "locus_cli", *arguments]
    variables = {**os.environ, "LOCUS_NO_MAINTENANCE": "1"}
    return subprocess.run(run, cwd=work, env=variables, capture_output=True, text=True, check=False)


def test_the_next_command_says_how_a_killed_undo_goes_on(
    template: Path, states: States, tmp_path: Path
) -> None:
    """P1, I32: through the command: while an undo is unfinished, undo and redo refuse and name the recovery;
    it finishes the undo, and redo brings the turn back."""
    _, done, undone = states
    number = effects_of(Copy(template, tmp_path / "first").undo)
    while True:
        number -= 1
        copy = Copy(template, tmp_path / "copy")
        assert in_child(copy.undo, number)
        if copy.files() not in (done, undone):
            break
    for verb, how in (("undo", "--yes"), ("redo", "--yes"), ("undo", "--dry-run")):
        refused = command(copy.work, verb, how)
        assert refused.returncode == 3 and "locus restore --recover" in refused.stderr
    assert command(copy.work, "restore", "--recover").returncode == 0
    assert copy.files() == undone
    assert command(copy.work, "redo", "--yes").returncode == 0
    assert copy.files() == done
    assert "nothing to redo" in command(copy.work, "redo", "--yes").stderr.lower()
