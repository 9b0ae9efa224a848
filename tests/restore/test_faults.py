"""A restore whose calls fail, that is interrupted, or that somebody works against."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import Corruption, EventLogError, NotDurable, Refused
from eventlog.base.fs import REAL, FileSystem, read_file
from eventlog.base.layout import RESTORE_DIR
from eventlog.base.types import Event
from eventlog.blobs.tree import FILE, SYMLINK
from eventlog.checkout.directory import OpenDirectory
from eventlog.restore import journal
from eventlog.restore import plan as restore
from eventlog.restore import wanted as restore_wanted
from eventlog.restore.run import recover, run
from eventlog.store import Store
from eventlog.worktree.userfiles import UserFiles
from tests.blobs.support import Node, overwrite, read_node
from tests.restore.restoring import WANTED, World, write_node
from tests.restore.test_kill import FOREIGN, NEW, OLD

CHANGES = ("mkdir", "rmdir", "create", "write", "fchmod", "symlink", "rename", "move", "unlink", "fsync")
STORE_CHANGES = ("open", "pwrite", "fsync", "fdatasync", "link", "unlink", "mkdir", "fsync_dir")


class Failing(UserFiles):
    """The call number `at` among those that change a directory does `fail`, which usually raises."""

    def __init__(self, at: int, fail: Callable[[], None], *, times: int = 1) -> None:
        self.count = 0
        for name in CHANGES:
            setattr(self, name, self._counted(getattr(self, name), at, fail, times))

    def _counted(self, call: Any, at: int, fail: Callable[[], None], times: int) -> Any:
        def wrapper(*arguments: Any) -> Any:
            self.count += 1
            if at < self.count <= at + times:
                fail()
            return call(*arguments)

        return wrapper


class FailingStore(FileSystem):
    """The same for a store."""

    def __init__(self) -> None:
        self.count = 0
        self.at = 1 << 30
        for name in STORE_CHANGES:
            setattr(self, name, self._counted(getattr(self, name)))

    def _counted(self, call: Any) -> Any:
        def wrapper(*arguments: Any) -> Any:
            self.count += 1
            if self.count == self.at + 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return call(*arguments)

        return wrapper


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def new_world(root: Path) -> World:
    root.mkdir()
    world = World(root, wanted=NEW, disk=OLD)
    write_node(os.fsencode(world.work), FOREIGN)
    return world


def append_to(store: Store) -> Callable[[Event], int]:
    return lambda event: store.append([event])[0]


def files(world: World) -> Node:
    return read_node(os.fsencode(world.work))


def journals(world: World) -> list[str]:
    return os.listdir(world.store.layout.directory(RESTORE_DIR))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EACCES, "Permission denied"),
        KeyboardInterrupt(),
    ],
    ids=["full", "forbidden", "interrupted"],
)
def test_a_call_that_fails_leaves_everything_as_it_was(tmp_path: Path, error: BaseException) -> None:
    """Whichever call fails or is interrupted: an error that says so, the old tree, no rests (I27)."""
    world = new_world(tmp_path / "world")
    at = 0
    while True:
        calls = Failing(at, raising(error))
        try:
            run(world.plan(), world.store.blobs, append_to(world.store), calls=calls)
        except (EventLogError, KeyboardInterrupt) as raised:
            assert isinstance(raised, KeyboardInterrupt) or "everything is as it was" in str(raised), at
        else:
            break
        assert files(world) == OLD | FOREIGN, at
        assert journals(world) == []
        *_, end = world.store.events(event_types=("restore",))
        assert (end["operation"], end["success"]) == ("end", False)
        at += 1
    assert files(world) == NEW | FOREIGN
    assert at > 25


def test_when_going_back_fails_too_recovery_takes_over(tmp_path: Path) -> None:
    """A disk that stays full: the message names the way on, and it works once there is room (I32)."""
    for at in (3, 9, 15, 20):
        world = new_world(tmp_path / f"world{at}")
        calls = Failing(at, raising(OSError(errno.ENOSPC, "No space left on device")), times=1 << 30)
        with pytest.raises(EventLogError, match="--recover"):
            run(world.plan(), world.store.blobs, append_to(world.store), calls=calls)
        assert len(journals(world)) == 1
        (outcome,) = world.store.recover_restore()
        assert outcome.left == []
        assert files(world) == (OLD if outcome.undone else NEW) | FOREIGN
        assert journals(world) == []


def test_a_store_whose_calls_fail_loses_nothing(tmp_path: Path) -> None:
    """Whichever call on the store fails: an error, and after recovery the old tree or the new one (I32)."""
    fs = FailingStore()
    at = 0
    while True:
        world = new_world(tmp_path / f"world{at}")
        with Store.open(tmp_path / f"world{at}" / ".locus", fs=fs) as store:
            plan = store.restore_plan(WANTED, into=world.work)
            fs.count, fs.at = 0, at
            try:
                store.restore(plan)
            except (EventLogError, OSError) as raised:
                assert "touched" in str(raised) or "again" in str(raised) or "--recover" in str(raised), at
            else:
                if fs.count <= at:
                    break
            fs.at = 1 << 30
        world.store.recover_restore()
        assert files(world) in (OLD | FOREIGN, NEW | FOREIGN), at
        assert world.store.verify("read") == []
        at += 2
    assert at > 20


class ReadOnly(FileSystem):
    """A store on a medium that cannot be written."""

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system", path)
        return super().open(path, flags, mode)


def test_a_store_that_cannot_be_written_touches_nothing(tmp_path: Path) -> None:
    """A restore saves first; where it cannot, it says so and changes nothing. The plan can still be read."""
    world = new_world(tmp_path / "world")
    with Store.open(world.store.layout.root, fs=ReadOnly()) as store:
        plan = store.restore_plan(WANTED, into=world.work)
        assert plan.steps
        with pytest.raises(NotDurable, match=r"cannot be written.*Nothing was touched"):
            store.restore(plan)
    assert files(world) == OLD | FOREIGN


class Unreadable(UserFiles):
    """A file and a directory that this user may not read."""

    def open_file(self, dir_fd: int, name: bytes) -> int:
        if name == b"edit":
            raise PermissionError(errno.EACCES, "Permission denied")
        return super().open_file(dir_fd, name)

    def scan(self, dir_fd: int) -> dict[bytes, bool]:
        found = super().scan(dir_fd)
        if b"x" in found:
            raise PermissionError(errno.EACCES, "Permission denied")
        return found


def test_what_cannot_be_read_is_a_conflict(tmp_path: Path) -> None:
    """A file that cannot be saved is not overwritten, and a directory that cannot be listed not replaced."""
    world = new_world(tmp_path / "world")
    state = world.store.tree(WANTED)
    wanted = restore_wanted.wanted_of_turn(state, (), (), (), delete=False)
    with OpenDirectory.of(os.fspath(world.work), Unreadable()) as place:
        plan = restore.make_plan(place, wanted, world.store.blobs, restore.RestoreGoal("t", "end"))
    assert [path for path, _ in plan.conflicts] == [b"edit", b"was-dir", b"was-file"]


# -- somebody else at work ---------------------------------------------------------------------------


def test_a_file_that_is_written_in_the_middle_of_a_restore_is_not_lost(tmp_path: Path) -> None:
    """Whenever an editor saves a file meanwhile: the restore gives way, or was there before (P1)."""
    at = 0
    refused = 0
    while True:
        world = new_world(tmp_path / f"world{at}")

        def save(world: World = world) -> None:
            (world.work / "edit").write_bytes(b"saved in the middle")

        calls = Failing(at, save)
        try:
            run(world.plan(), world.store.blobs, append_to(world.store), calls=calls)
        except Refused as error:
            assert "edit" in str(error)
            refused += 1
            kept = OLD | FOREIGN | {b"edit": (FILE, b"saved in the middle")}
            assert files(world) == kept, at
        else:
            # Saved before the plan's check of it would refuse; after the switch it stays.
            assert files(world) in (NEW | FOREIGN, NEW | FOREIGN | {b"edit": (FILE, b"saved in the middle")})
        if calls.count <= at:
            break
        at += 2
    assert refused > 3


def test_a_directory_that_becomes_a_link_does_not_lead_out(tmp_path: Path) -> None:
    """Whenever a directory is swapped for a symlink: nothing is made or removed behind it (I28)."""
    at = 0
    while True:
        world = new_world(tmp_path / f"world{at}")
        outside = tmp_path / f"outside{at}"
        (outside / "deep").mkdir(parents=True)
        (outside / "deep/gone").write_text("precious")

        def swap(world: World = world, outside: Path = outside) -> None:
            if (world.work / "d").is_dir():
                (world.work / "d").rename(world.root / "moved")
                os.symlink(outside, world.work / "d")

        calls = Failing(at, swap)
        try:
            run(world.plan(), world.store.blobs, append_to(world.store), calls=calls)
        except EventLogError:
            pass
        assert read_node(os.fsencode(outside)) == {b"deep": {b"gone": (FILE, b"precious")}}, at
        if calls.count <= at:
            break
        at += 3


def test_recovery_leaves_what_was_changed_since(tmp_path: Path) -> None:
    """After a kill somebody goes on working: their files stay as they are and are listed (P1)."""
    world = new_world(tmp_path / "world")
    at = 18
    calls = Failing(at, raising(OSError(errno.EIO, "Input/output error")), times=1 << 30)
    with pytest.raises(EventLogError, match="--recover"):
        run(world.plan(), world.store.blobs, append_to(world.store), calls=calls)
    (world.work / "edit").write_bytes(b"work after the accident")
    (outcome,) = recover(world.store.blobs, append_to(world.store), world.store.rows)
    assert [path for path, _ in outcome.left] == [b"edit"]
    expected = (OLD if outcome.undone else NEW) | FOREIGN | {b"edit": (FILE, b"work after the accident")}
    assert files(world) == expected


def test_a_restore_that_is_in_the_log_is_not_done_again(tmp_path: Path) -> None:
    """Killed after its last event, only its journal is left: what was done since stays as it is (I12)."""
    world = new_world(tmp_path / "world")
    kept: dict[str, bytes] = {}

    def append(event: Event) -> int:
        directory = world.store.layout.directory(RESTORE_DIR)
        kept.update(
            {f"{directory}/{name}": read_file(REAL, f"{directory}/{name}") for name in journals(world)}
        )
        return world.store.append([event])[0]

    run(world.plan(), world.store.blobs, append)
    ((path, data),) = kept.items()
    overwrite(path, data)
    (world.work / "edit").write_bytes(b"the day's work")  # as before the restore
    (outcome,) = world.store.recover_restore(undo=True)
    assert (outcome.done, outcome.undone) == (0, False)
    assert files(world) == NEW | FOREIGN | {b"edit": OLD[b"edit"]}
    assert journals(world) == []


def test_a_restore_journal_of_another_store_is_damage(tmp_path: Path) -> None:
    """A file that was copied from elsewhere changes nothing."""
    world = new_world(tmp_path / "world")
    document = replace(world.plan().document("ab" * 16), store_id=bytes(16))
    journal.write(REAL, world.store.layout, 7, journal.encode(document))
    with pytest.raises(Corruption, match="another store"):
        world.store.recover_restore()
    assert files(world) == OLD | FOREIGN


def test_recovery_needs_the_directory_it_began_in(tmp_path: Path) -> None:
    """Where that is gone, or another is in its place, it refuses and says how to give up."""
    world = new_world(tmp_path / "world")
    calls = Failing(5, raising(OSError(errno.EIO, "Input/output error")), times=1 << 30)
    with pytest.raises(EventLogError):
        run(world.plan(), world.store.blobs, append_to(world.store), calls=calls)
    world.work.rename(world.root / "away")
    with pytest.raises(Refused, match="give the restore up"):
        world.store.recover_restore()
    world.work.mkdir()
    with pytest.raises(Refused, match="give the restore up"):
        world.store.recover_restore()
    world.work.rmdir()
    (world.root / "away").rename(world.work)
    assert [outcome.left for outcome in world.store.recover_restore()] == [[]]


def test_a_second_restore_waits_its_turn(tmp_path: Path) -> None:
    """A restore that begins in the middle of another one finds the lock taken, and touches nothing (I31)."""
    from eventlog.base.locks import RESTORE, try_acquire

    world = new_world(tmp_path / "world")
    seen: list[bool] = []

    def look() -> None:
        import threading

        thread = threading.Thread(
            target=lambda: seen.append(try_acquire(REAL, world.store.layout, RESTORE) is None)
        )
        thread.start()
        thread.join()

    run(world.plan(), world.store.blobs, append_to(world.store), calls=Failing(10, look))
    assert seen == [True]


def test_links_with_odd_targets_are_restored_as_they_were(tmp_path: Path) -> None:
    """A dangling link, one that leads out, one with bytes that are no text: never followed (I27, I28)."""
    (tmp_path / "precious").write_text("precious")
    links: Node = {
        b"a": (SYMLINK, os.fsencode(tmp_path / "precious")),
        b"b": (SYMLINK, b"../no/such\xff"),
        b"c": (SYMLINK, b"c"),
    }
    world = World(tmp_path, wanted=links, disk=dict.fromkeys(links, (FILE, b"file")))
    world.store.restore(world.plan())
    assert files(world) == links
    world.store.restore(world.store.undo_plan("restore", into=world.work))
    assert files(world) == dict.fromkeys(links, (FILE, b"file"))
    assert (tmp_path / "precious").read_text() == "precious"


class Traced(UserFiles):
    """Writes down what is done, files by their inode."""

    def __init__(self) -> None:
        self.trace: list[tuple[str, int]] = []

    def create(self, dir_fd: int, name: bytes, mode: int) -> int:
        fd = super().create(dir_fd, name, mode)
        self.trace.append(("create", os.fstat(fd).st_ino))
        return fd

    def fsync(self, fd: int) -> None:
        self.trace.append(("fsync", os.fstat(fd).st_ino))
        super().fsync(fd)

    def _names(self, dir_fd: int) -> None:
        self.trace.append(("names", os.fstat(dir_fd).st_ino))

    def unlink(self, dir_fd: int, name: bytes) -> None:
        self._names(dir_fd)
        super().unlink(dir_fd, name)

    def rmdir(self, dir_fd: int, name: bytes) -> None:
        self._names(dir_fd)
        super().rmdir(dir_fd, name)

    def mkdir(self, dir_fd: int, name: bytes, mode: int) -> None:
        self._names(dir_fd)
        super().mkdir(dir_fd, name, mode)

    def rename(self, dir_fd: int, source: bytes, name: bytes) -> None:
        self._names(dir_fd)
        super().rename(dir_fd, source, name)

    def move(self, dir_fd: int, source: bytes, to_dir_fd: int, name: bytes) -> None:
        self._names(dir_fd)
        self._names(to_dir_fd)
        super().move(dir_fd, source, to_dir_fd, name)


def test_many_files_are_synced_by_several_threads(tmp_path: Path) -> None:
    """A restore of many files syncs each, in several rounds; one sync that fails takes all of it back."""
    many: Node = {b"%d" % n: (FILE, b"wanted %d" % n) for n in range(300)}
    world = World(tmp_path, wanted=many, disk={})
    calls = Failing(700, raising(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(EventLogError, match="everything is as it was"):
        run(world.plan(), world.store.blobs, append_to(world.store), calls=calls)
    assert files(world) == {}
    traced = Traced()
    run(world.plan(), world.store.blobs, append_to(world.store), calls=traced)
    assert files(world) == many
    created = {inode for what, inode in traced.trace if what == "create"}
    assert len(created) == 300 and created <= {inode for what, inode in traced.trace if what == "fsync"}


def test_what_loses_its_name_is_given_back(tmp_path: Path) -> None:
    """More files are replaced and deleted than descriptors are held, and none stays open (I35)."""
    old: Node = {b"%d" % n: (FILE, b"old %d" % n) for n in range(600)}
    new: Node = {b"%d" % n: (FILE, b"new %d" % n) for n in range(300)}
    world = World(tmp_path, wanted=new, disk=old)
    plan = world.plan()
    held: list[int] = []

    class Counting(UserFiles):
        def rename(self, dir_fd: int, source: bytes, name: bytes) -> None:
            held.append(len(os.listdir("/dev/fd")))
            super().rename(dir_fd, source, name)

    before = len(os.listdir("/dev/fd"))
    run(plan, world.store.blobs, append_to(world.store), calls=Counting())
    assert files(world) == new
    assert max(held) < before + 256 + 64
    world.store.close()
    assert len(os.listdir("/dev/fd")) <= before


def test_everything_is_synced_in_its_order(tmp_path: Path) -> None:
    """Each new file before the first name changes, each changed directory before the end is noted (I32)."""
    world = new_world(tmp_path / "world")
    calls = Traced()
    ends: list[int] = []

    def append(event: Event) -> int:
        if event["operation"] == "end":
            ends.append(len(calls.trace))
            assert len(journals(world)) == 1
        return world.store.append([event])[0]

    run(world.plan(), world.store.blobs, append, calls=calls)
    trace = calls.trace
    assert ends == [len(trace)]
    switch = min(at for at, (what, _) in enumerate(trace) if what == "names")
    created = {inode for what, inode in trace if what == "create"}
    assert len(created) == 5
    assert created <= {inode for what, inode in trace[:switch] if what == "fsync"}
    for inode in {inode for what, inode in trace if what == "names"}:
        last = max(at for at, entry in enumerate(trace) if entry == ("names", inode))
        gone = all(os.stat(path).st_ino != inode for path, _, _ in os.walk(world.work))
        assert gone or ("fsync", inode) in trace[last:]
