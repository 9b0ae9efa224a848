"""A restore that is killed before each of its calls, and a recovery that is killed too."""

import os
import shutil
from pathlib import Path

import pytest

from eventlog.base.errors import Refused
from eventlog.base.layout import RESTORE_DIR
from eventlog.blobs.tree import EXECUTABLE, FILE, SYMLINK
from eventlog.checkout.materialize import walk
from eventlog.store import Store
from eventlog.worktree.capture import capture
from tests.blobs.support import Node, read_node
from tests.conftest import HUNT
from tests.kills import NEVER, in_child
from tests.restore.restoring import WANTED, World, write_node

# Each so-many-th end is tried; a hunt tries all of them.
STEP = 1 if HUNT else 3

OLD: Node = {
    b"edit": (FILE, b"the day's work"),
    b"bit": (FILE, b"#!"),
    b"gone": (FILE, b"made later"),
    b"d": {b"deep": {b"gone": (FILE, b"made later too")}},
    b"was-file": {b"x": (FILE, b"x")},
    b"was-dir": (SYMLINK, b"edit"),
}
NEW: Node = {
    b"edit": (FILE, b"as it was before"),
    b"bit": (EXECUTABLE, b"#!"),
    b"made": {b"deep": {b"file": (FILE, b"deleted by mistake"), b"link": (SYMLINK, b"file")}},
    b"was-file": (FILE, b"file"),
    b"was-dir": {b"y": (FILE, b"y")},
}
FOREIGN: Node = {b"mine": (FILE, b"never recorded"), b"my": {b"own": (FILE, b"too")}}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template")
    world = World(root, wanted=NEW, disk=OLD)
    write_node(os.fsencode(world.work), FOREIGN)
    world.store.close()
    return root


class Copy:
    """A copy of the world of its own."""

    def __init__(self, template: Path, root: Path) -> None:
        if root.exists():
            shutil.rmtree(root)
        shutil.copytree(template, root, symlinks=True)
        self.root = root

    def restore(self) -> None:
        with Store.open(self.root / ".locus") as store:
            store.restore(store.restore_plan(WANTED, into=self.root / "work"))

    def recover(self, undo: bool = False) -> None:
        with Store.open(self.root / ".locus") as store:
            for outcome in store.recover_restore(undo=undo):
                assert outcome.left == []

    def files(self) -> Node:
        return read_node(self.root / "work")  # type: ignore[arg-type]

    def check_settled(self) -> None:
        """Nothing is left over, the store is whole, and the next restore brings the wanted state."""
        assert os.listdir(self.root / ".locus" / RESTORE_DIR) == []
        with Store.open(self.root / ".locus") as store:
            assert store.verify("read") == []
        self.restore()
        assert self.files() == NEW | FOREIGN


def test_a_restore_that_is_killed_anywhere_is_old_or_new_after_recovery(
    template: Path, tmp_path: Path
) -> None:
    """Killed before any effect, and recovered: wholly the old or the new tree, the rest untouched (I32)."""
    ends = {"old": 0, "new": 0}
    number = 0
    while True:
        copy = Copy(template, tmp_path / "copy")
        if not in_child(copy.restore, number):
            break
        assert not in_child(copy.recover, NEVER)
        files = copy.files()
        assert files in (OLD | FOREIGN, NEW | FOREIGN), number
        ends["old" if files == OLD | FOREIGN else "new"] += 1
        if number % 16 == 0:
            copy.check_settled()
        number += STEP
    assert copy.files() == NEW | FOREIGN
    assert ends["old"] > 20 // STEP and ends["new"] > 10 // STEP


def test_a_killed_restore_can_be_taken_back(template: Path, tmp_path: Path) -> None:
    """With `undo`, a recovery brings the old tree back, however far the restore had come (I12, I32)."""
    number = 0
    while True:
        copy = Copy(template, tmp_path / "copy")
        if not in_child(copy.restore, number):
            break
        unfinished = os.listdir(copy.root / ".locus" / RESTORE_DIR) != []
        with Store.open(copy.root / ".locus") as store:
            ended = len(list(store.events(event_types=("restore",)))) == 2
        assert not in_child(lambda c=copy: c.recover(undo=True), NEVER)  # type: ignore[misc]
        # Behind its last event a restore is one to undo, and none to recover.
        assert copy.files() == OLD | FOREIGN or not unfinished or ended, number
        number += 2 * STEP + 1
    assert number > 40


@pytest.mark.parametrize("undo", [False, True])
def test_a_recovery_that_is_killed_anywhere_can_be_repeated(
    template: Path, tmp_path: Path, undo: bool
) -> None:
    """A recovery may be killed before any effect; the next one comes to the same end (I12, I32)."""
    total = 0
    while in_child(Copy(template, tmp_path / "half").restore, total):
        total += 4
    killed_at = total * 7 // 10  # in the middle of the switch
    number = 0
    while True:
        copy = Copy(template, tmp_path / "copy")
        assert in_child(copy.restore, killed_at)
        assert copy.files() not in (OLD | FOREIGN, NEW | FOREIGN)
        if not in_child(lambda c=copy: c.recover(undo), number):  # type: ignore[misc]
            break
        assert not in_child(lambda c=copy: c.recover(undo), NEVER)  # type: ignore[misc]
        assert copy.files() == (OLD if undo else NEW) | FOREIGN, number
        number += STEP
    assert os.listdir(copy.root / ".locus" / RESTORE_DIR) == []


def test_a_restore_refuses_until_the_killed_one_is_recovered(template: Path, tmp_path: Path) -> None:
    """While a restore waits for its recovery, no other begins, and the message says what to do."""
    number = 0
    while True:
        copy = Copy(template, tmp_path / "copy")
        assert in_child(copy.restore, number)
        if os.listdir(copy.root / ".locus" / RESTORE_DIR):
            break
        number += 1
    with pytest.raises(Refused, match="--recover"):
        copy.restore()
    copy.recover()
    copy.restore()
    assert copy.files() == NEW | FOREIGN


def test_a_capture_leaves_out_what_a_killed_restore_has_staged(template: Path, tmp_path: Path) -> None:
    """P1, I32: the temporary names of a restore are in no tree; names that only look like them are."""
    number = 0
    while True:
        copy = Copy(template, tmp_path / "copy")
        assert in_child(copy.restore, number)
        names = [name for _, _, names in os.walk(copy.root / "work") for name in names]
        if len([name for name in names if name.startswith(".locus-new-")]) > 3:
            break
        number += 1
    (copy.root / "work" / ".locus-new-notes").write_text("mine")
    (copy.root / "work" / (".locus-new-" + "0" * 16)).mkdir()
    with Store.open(copy.root / ".locus") as store, store.blobs.writer() as writer:
        tree = capture(writer, os.fspath(copy.root / "work")).root
        captured = {path for path, _ in walk(store.blobs, tree)}
    assert {path for path in captured if b".locus-new-" in path} == {
        b".locus-new-notes",
        b".locus-new-" + b"0" * 16,
    }
    assert b"edit" in captured
