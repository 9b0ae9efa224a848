"""What hooks deferred is stored once, named in the log, and is in later trees; whoever dies in between."""

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.fs import REAL, FileSystem
from eventlog.base.locks import WORKTREE, acquire
from eventlog.checkout.materialize import walk
from eventlog.hooks import deferred_lists, state, stored_contents
from eventlog.store import Store
from eventlog.worktree import git_held
from eventlog.worktree.capture import Capture, Haste, capture
from eventlog.worktree.contents import CONTENT_SIZE_MAX, Deferral
from eventlog.worktree.userfiles import UserFiles
from tests import forked
from tests.faultfs import FaultFS
from tests.worktree.support import age, git

LARGE = CONTENT_SIZE_MAX + 1
KEY = "0123456789abcdef"


class Died(BaseException):
    """The process ended here."""


class Desk:
    """A working directory whose captures defer, as hooks make them."""

    def __init__(self, place: Path, fs: FileSystem = REAL) -> None:
        self.work = place / "work"
        self.work.mkdir()
        self.store = Store.init(self.work / ".locus")
        self.fs = fs

    def write(self, path: str, size: int, byte: bytes = b"x") -> None:
        target = self.work / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(byte * size)

    def look(self, **columns: str) -> Capture:
        """A capture as a hook makes it: list and tree durable, the list open, then the event, then `told`."""
        layout = self.store.layout
        reported = state.read_checkpoint(layout, KEY)
        with self.store.blobs.writer() as writer:
            done = capture(writer, str(self.work), previous=reported.tree, haste=Haste(deferral=Deferral()))
            writer.flush()
            deferred_lists.note_open(layout, KEY, str(self.work), done.deferred)
            tree = f"blake3:{done.root.hex()}"
            lists = [f"blake3:{one.list_id.hex()}" for one in done.deferred]
            named = {"tree_hash": tree, "blobs": [tree, *lists]}
            self.store.append([{"event_type": "snapshot", **named, "payload": {}, **columns}])
        reported.tree = done.root
        state.write_checkpoint(layout, KEY, reported)
        return done

    def store_all(self, fs: FileSystem = REAL, **options: Any) -> list[BaseException]:
        """What went wrong."""
        errors: list[BaseException] = []
        options.setdefault("note", errors.append)
        stored_contents.store_all(fs, self.store.layout, self.store.identity, **options)
        return errors

    def contents(self) -> list[dict[str, Any]]:
        return [dict(event) for event in self.store.events(event_types=("content",))]

    def stored(self) -> dict[bytes, bytes]:
        """Path → bytes of what the log says was stored."""
        found = {}
        for event in self.contents():
            tree = bytes.fromhex(event["tree_hash"].removeprefix("blake3:"))
            for path, entry in walk(self.store.blobs, tree):
                if entry.kind != b"d":
                    found[path] = self.store.blobs.get(entry.id)
        return found

    def lost(self) -> list[list[str]]:
        return [pair for event in self.contents() for pair in event["payload"].get("lost", [])]

    def is_open(self) -> bool:
        return bool(deferred_lists.open_lists(self.store.layout, KEY))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    with made.store:
        yield made


def test_deferred_contents_are_stored_and_later_trees_hold_them(desk: Desk) -> None:
    """docs/certainty.md §3: a `content` event with a tree of these files alone, and afterwards a tree without
    deferred entries, in the stat cache and in what was reported; no change is reported for it."""
    desk.write("d/large", LARGE)
    desk.write("other", LARGE, b"o")
    (desk.work / "other").chmod(0o755)
    desk.write("small", 3)
    age(desk.work)
    first = desk.look()
    assert desk.store_all() == []

    (event,) = desk.contents()
    (listed,) = first.deferred
    assert (event["operation"], event["session_id"], event["source"]) == ("stored", None, "system")
    assert event["before_hash"] == f"blake3:{listed.list_id.hex()}"
    assert event["blobs"] == [event["before_hash"], event["tree_hash"]]
    assert event["payload"] == {"count": 2}
    assert desk.stored() == {b"d/large": b"x" * LARGE, b"other": b"o" * LARGE}
    assert not desk.is_open()
    assert not os.path.exists(desk.store.layout.live(f"{KEY}.deferred"))
    reported = state.read_checkpoint(desk.store.layout, KEY).tree

    calls = Reads()
    with desk.store.blobs.writer() as writer:
        whole = capture(writer, str(desk.work), previous=first.root, calls=calls)
    assert (whole.root, whole.changes, whole.deferred) == (reported, [], [])
    assert calls.contents_read == [], "the rows of the stat cache were replaced"
    assert {path: e.kind for path, e in walk(desk.store.blobs, whole.root)} == {
        b"d": b"d", b"d/large": b"f", b"other": b"x", b"small": b"f",
    }  # fmt: skip
    assert desk.store.verify("deep") == []


class Reads(UserFiles):
    """Notes which contents are read, and does `reading` between parts."""

    def __init__(self, reading: Callable[[bytes], object] = lambda _: None) -> None:
        self.contents_read: list[bytes] = []
        self._reading = reading
        self._name = b""

    def open_file(self, dir_fd: int, name: bytes) -> int:
        self._name = name
        return super().open_file(dir_fd, name)

    def read(self, fd: int, size: int) -> bytes:
        if self.contents_read[-1:] != [self._name]:
            self.contents_read.append(self._name)
        data = super().read(fd, size)
        self._reading(self._name)
        return data


def test_an_idx_is_made_of_many_contents(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """I34: the hooks after a first capture do not each read the table of its contents."""
    monkeypatch.setattr(stored_contents, "_ENTRIES_WITHOUT_IDX", 20)
    desk.write("first", LARGE)
    desk.look()
    assert desk.store_all() == [] and desk.store.blobs.recent_count() > 0, "few need none"
    for number in range(20):
        desk.write(f"large{number}", LARGE, b"%d" % number)
    desk.look()
    assert desk.store_all() == [] and desk.store.blobs.recent_count() == 0
    assert set(desk.stored()) == {b"first", *(b"large%d" % number for number in range(20))}


def test_a_batch_that_was_acknowledged_is_never_done_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I32: the smallest first; whoever dies leaves finished batches, and the next one goes on after them."""
    monkeypatch.setattr(stored_contents, "BATCH_BYTES", LARGE)
    for n in range(3):
        desk.write(f"f{n}", LARGE + n)
    desk.look()

    def die(name: bytes) -> None:
        if name == b"f1":
            raise Died

    with pytest.raises(Died):
        desk.store_all(calls=Reads(die))
    assert set(desk.stored()) == {b"f0"}
    assert desk.is_open()

    calls = Reads()
    assert desk.store_all(calls=calls) == []
    assert calls.contents_read == [b"f1", b"f2"]
    assert [event["payload"]["count"] for event in desk.contents()] == [1, 1, 1]
    assert set(desk.stored()) == {b"f0", b"f1", b"f2"}


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_file_that_changed_before_it_was_read_is_lost_for_that_capture(desk: Desk, moment: str) -> None:
    """I24: its stat is read before the read and after it; the next capture takes the file as it is
    then."""
    desk.write("a", LARGE)
    desk.write("b", LARGE)
    (desk.work / "c").write_bytes(b"c" * LARGE)
    desk.look()
    (desk.work / "c").unlink()

    def change(name: bytes) -> None:
        if name == b"a" and not list((desk.work).glob("done")):
            desk.write("done", 1)
            desk.write("a", LARGE, b"y")

    if moment == "before":
        change(b"a")
    calls = Reads(change)
    desk.store_all(calls=calls)

    assert desk.lost() == [
        ["a", "it changed before it was read"], ["c", "it was gone before it was read"],
    ]  # fmt: skip
    assert set(desk.stored()) == {b"b"}
    again = desk.look()
    assert [(c.operation, c.path) for c in again.changes] == [
        ("edit", b"a"), ("delete", b"c"), ("add", b"done"),
    ]  # fmt: skip
    desk.store_all()
    assert desk.stored()[b"a"] == b"y" * LARGE
    assert desk.store.verify("deep") == []


def test_a_file_that_is_always_written_is_lost_once_for_each_capture(desk: Desk) -> None:
    """No livelock: a list is done when each of its files was tried once."""
    rounds = itertools.count()

    def change(_name: bytes) -> None:
        desk.write("log", LARGE + next(rounds), b"y")

    desk.write("log", LARGE)
    for look in range(3):
        desk.look()
        calls = Reads(change)
        desk.store_all(calls=calls)
        assert calls.contents_read == [b"log"]
        assert len(desk.lost()) == look + 1
        assert not desk.is_open()


def test_a_copy_counts_though_the_file_changed(desk: Desk) -> None:
    """P1: what was copied at the capture is what is stored, and nothing is lost."""
    desk.write("a", LARGE)
    desk.look()
    desk.write("a", LARGE, b"y")
    copy = forked.unnamed_file()
    os.write(copy, b"x" * LARGE)
    desk.store_all(copies={b"a": copy}, copied=str(desk.work))
    os.close(copy)

    assert desk.stored() == {b"a": b"x" * LARGE}
    assert desk.lost() == []


def test_what_cannot_be_read_becomes_that_in_later_trees(desk: Desk) -> None:
    """I26: the list is done, the loss is reported with its reason, and nothing is tried for ever."""
    desk.write("a", LARGE)
    desk.write("b", LARGE)
    desk.look()

    class Refusing(UserFiles):
        def open_file(self, dir_fd: int, name: bytes) -> int:
            if name == b"a":
                raise PermissionError(errno.EACCES, "Permission denied")
            return super().open_file(dir_fd, name)

    desk.store_all(calls=Refusing())
    assert desk.lost() == [["a", "it cannot be read: Permission denied"]]
    assert not desk.is_open()
    done = desk.look()
    assert {one.path for one in done.changes} <= {b"a"}


def test_what_is_wrong_with_the_process_leaves_the_list_open(desk: Desk) -> None:
    """Too many open files say nothing of a file: nothing is reported, and the next process finishes."""
    desk.write("a", LARGE)
    desk.look()

    class Crowded(UserFiles):
        def open_file(self, dir_fd: int, name: bytes) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

    (error,) = desk.store_all(calls=Crowded())
    assert isinstance(error, OSError)
    assert desk.is_open()
    assert desk.contents() == []
    assert desk.store_all() == []
    assert set(desk.stored()) == {b"a"}


def test_secrets_in_deferred_contents_are_withheld_in_the_same_frame(desk: Desk) -> None:
    """P5: the event that names them and the word that they stay here are one batch."""
    secret = b"token = 'ghp_" + b"aB3dE5gH7jK9mN1pQ3sT5vX7zA2cD4fG6hJ8" + b"'\n"
    (desk.work / "a").write_bytes(secret + b"\n" * LARGE)
    desk.look()
    desk.store_all()

    listed = [e for e in desk.store.events() if e["event_type"] in ("content", "withheld")]
    assert [e["event_type"] for e in listed] == ["content", "withheld"]
    assert listed[0]["position"] + 1 == listed[1]["position"]


def test_later_trees_are_made_under_the_lock_of_the_directory(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I31: while a hook holds it the list stays open; its contents are reported already."""
    monkeypatch.setattr(stored_contents, "_LOCK_TIMEOUT_S", 0.02)
    desk.write("a", LARGE)
    first = desk.look()
    with acquire(REAL, desk.store.layout, WORKTREE + KEY):
        errors = in_child(desk.store_all)
    assert errors == 1
    assert set(desk.stored()) == {b"a"}
    assert desk.is_open()
    assert state.read_checkpoint(desk.store.layout, KEY).tree == first.root
    calls = Reads()
    assert desk.store_all(calls=calls) == []
    assert (calls.contents_read, desk.is_open()) == ([], False)


def in_child(action: Callable[[], object]) -> int:
    """How many things an action in another process gave: one never asks for a lock before one it holds."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            from eventlog.base import locks

            locks._held.names.clear()
            found = action()
            code = len(found) if isinstance(found, list) else 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_what_was_found_since_is_not_replaced(desk: Desk) -> None:
    """I22: after a capture in between its entries stay, and what is still deferred in its tree is
    replaced."""
    desk.write("a", LARGE)
    desk.write("b", LARGE)
    desk.look()

    def change(name: bytes) -> None:
        if name == b"b" and (desk.work / "a").stat().st_size == LARGE:
            desk.write("a", 5, b"n")
            assert in_child(desk.look) == 0

    desk.store_all(calls=Reads(change))
    tree = state.read_checkpoint(desk.store.layout, KEY).tree
    assert tree is not None
    found = {path: desk.store.blobs.get(e.id) for path, e in walk(desk.store.blobs, tree)}
    assert found == {b"a": b"nnnnn", b"b": b"x" * LARGE}
    assert desk.look().changes == []
    assert desk.stored()[b"a"] == b"x" * LARGE


@pytest.mark.parametrize("persistent", [False, True])
def test_wherever_it_dies_or_is_refused_the_next_one_finishes(tmp_path: Path, persistent: bool) -> None:
    """I32, I22: at each call of the disk in turn; afterwards all is stored, named once, and in later
    trees."""
    nth = 0
    while True:
        place = tmp_path / str(nth)
        place.mkdir()
        desk = Desk(place)
        with desk.store:
            desk.write("d/a", LARGE)
            desk.write("b", 7)
            age(desk.work)
            first = desk.look()
            fs = Refused(nth, errno.EIO, persistent=True) if persistent else Mortal(nth)
            try:
                desk.store_all(fs)
            except Died:
                pass
            finished = len(fs.made) <= nth
            fs.end()
            assert desk.store_all() == []
            assert desk.look().changes == [], "which opens the list again where the note of it was lost"
            assert desk.store_all() == []

            assert not desk.is_open()
            assert desk.stored() == {b"d/a": b"x" * LARGE}
            assert len({event["event_id"] for event in desk.contents()}) == 1
            again = desk.look()
            assert (again.changes, again.deferred) == ([], [])
            assert again.root != first.root
            assert desk.store.verify("deep") == []
        if finished:
            break
        nth += STEP
    assert nth > 20


STEP = 1 if "LOCUS_HUNT" in os.environ else 7


class Refused(FaultFS):
    def end(self) -> None:
        """Give back what the process held."""
        from eventlog.base import locks

        getattr(locks._held, "names", []).clear()
        for fd in list(self.open_fds):
            self.close(fd)


class Mortal(Refused):
    """A process that ends before its nth call."""

    def _fails(self, name: str) -> bool:
        number = len(self.made)
        self.made.append(name)
        if number >= self.nth:
            raise Died
        return False


# -- what git holds ----------------------------------------------------------------------------


@pytest.fixture
def repository(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A repository whose files are committed, captured for the first time."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    git(desk.work, "init", "-q")
    monkeypatch.setattr(git_held, "READ_FILES_MAX", 0)
    for name in ("a", "d/b", "d/c"):
        desk.write(name, 5, name[-1:].encode())
    age(desk.work)
    git(desk.work, "add", "a", "d")
    git(desk.work, "commit", "-qm", "all")
    done = desk.look()
    assert [(one.in_git, one.paths) for one in done.deferred] == [(True, [b"a", b"d/b", b"d/c"])]
    return desk


BYTES = {b"a": b"aaaaa", b"d/b": b"bbbbb", b"d/c": b"ccccc"}


def test_what_git_held_is_stored_as_it_was_although_it_has_changed_since(repository: Desk) -> None:
    """docs/certainty.md §3: the object is the content, whatever is there now and however git packs it."""
    repository.write("a", 5, b"A")
    (repository.work / "d" / "b").unlink()
    git(repository.work, "gc", "-q", "--prune=now")
    assert repository.store_all() == []
    assert repository.stored() == BYTES
    assert repository.lost() == [] and not repository.is_open()
    after = repository.look()
    assert sorted(change.path for change in after.changes) == [b"a", b"d/b"]
    assert after.deferred == []


def test_what_git_holds_no_more_is_not_stored_and_nothing_else_is_taken_for_it(repository: Desk) -> None:
    """Objects that were pruned, of files that changed: nothing is stored for them, and the work ends."""
    repository.write("a", 5, b"A")
    for name in ("d/b", "d/c"):
        (repository.work / name).touch()
    git(repository.work, "rm", "-qr", "--cached", ".")
    git(repository.work, "update-ref", "-d", "HEAD")
    git(repository.work, "reflog", "expire", "--expire=now", "--all")
    git(repository.work, "prune", "--expire=now")
    assert repository.store_all() == []
    assert repository.stored() == {}
    assert not repository.is_open()
