"""Capture of a working directory: what is in the tree is what is on the disk."""

import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from eventlog.base.errors import EventLogError, NotFound, Refused
from eventlog.base.layout import Layout
from eventlog.checkout.materialize import materialize
from eventlog.worktree.changes import EMPTY_TREE
from eventlog.worktree.entries import Entries
from eventlog.worktree.rows import pack_stat
from eventlog.worktree.userfiles import UserFiles
from tests.faultfs import FAULTS, FaultFS
from tests.worktree.support import Bench, age, on_disk


def write(path: Path, data: bytes = b"x", mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def fill(work: Path) -> None:
    write(work / "a" / "one.txt", b"one")
    write(work / "a" / "run", b"#!", 0o755)
    write(work / "a" / "b" / "empty", b"")
    (work / "hollow" / "below").mkdir(parents=True)
    (work / "to-one").symlink_to("a/one.txt")
    (work / "to-nowhere").symlink_to("/does/not/exist")
    base = os.fsencode(work)
    for name in (b"caf\xe9", b"new\nline", b":(top)x", b"-q", b" lead", b"tab\t\\", b"\xff" * 100):
        Path(os.fsdecode(base + b"/" + name)).write_bytes(name)


def test_a_captured_directory_comes_back_byte_for_byte(bench: Bench, tmp_path: Path) -> None:
    """P1: names, bytes, exec bits, symlinks and empty directories come back from the tree."""
    fill(bench.work)

    done = bench.capture()

    assert bench.tree() == on_disk(bench.work)
    with bench.open() as blobs:
        report = materialize(blobs, done.root, str(tmp_path / "out"))
    assert not report.partial
    assert on_disk(tmp_path / "out") == on_disk(bench.work)
    assert (done.files, done.symlinks, done.dirs, done.partial) == (10, 2, 4, False)


def test_an_unchanged_directory_is_not_read_again(bench: Bench) -> None:
    """P4: a capture of an unchanged directory reads no file, lists no directory and writes nothing but a byte
    to learn the time."""
    fill(bench.work)
    first = bench.capture()
    age(bench.work)
    bench.capture()
    before = {path: path.stat() for path in Path(bench.layout.root).rglob("*") if path.is_file()}

    done = bench.capture(calls=NoCalls())

    assert (done.root, done.read_files) == (first.root, 0)
    assert done.changes == []
    after = {path: path.stat() for path in Path(bench.layout.root).rglob("*") if path.is_file()}
    del before[Path(bench.layout.capture_clock)], after[Path(bench.layout.capture_clock)]
    assert {p: (s.st_ino, s.st_mtime_ns) for p, s in after.items()} == {
        p: (s.st_ino, s.st_mtime_ns) for p, s in before.items()
    }


class NoCalls(UserFiles):
    """Fails on a listing or on opening a file."""

    def scan(self, dir_fd: int) -> dict[bytes, bool]:
        raise AssertionError("a directory was listed")

    def open_file(self, dir_fd: int, name: bytes) -> int:
        raise AssertionError(f"{name!r} was opened")


def test_changes_since_the_previous_tree_are_listed(bench: Bench) -> None:
    """P1: adds, edits, deletes, renames, mode flips and retypes are in the list with both entries."""
    work = bench.work
    fill(work)
    write(work / "moved", b"the same bytes")
    write(work / "retyped", b"file")
    first = bench.capture()
    (work / "moved").rename(work / "a" / "elsewhere")
    write(work / "a" / "one.txt", b"two")
    (work / "a" / "b" / "empty").unlink()
    (work / "a" / "run").chmod(0o644)
    (work / "hollow" / "below").rmdir()
    (work / "retyped").unlink()
    (work / "retyped").mkdir()
    write(work / "retyped" / "in", b"new")

    done = bench.capture()

    shown = [(c.operation, c.path, c.old_path) for c in done.changes]
    assert shown == [
        ("delete", b"a/b/empty", None),
        ("rename", b"a/elsewhere", b"moved"),
        ("edit", b"a/one.txt", None),
        ("mode", b"a/run", None),
        ("delete", b"hollow/below", None),
        ("delete", b"retyped", None),
        ("add", b"retyped/in", None),
    ]
    edit = done.changes[2]
    assert edit.before is not None and edit.after is not None
    with bench.open() as blobs:
        assert (blobs.get(edit.before.id), blobs.get(edit.after.id)) == (b"one", b"two")
    # The same list from the store's trees, where no cache knows the previous one.
    again = bench.uncached(previous=first.root)
    assert [tuple(c) for c in again.changes] == [tuple(c) for c in done.changes]


def test_a_first_capture_lists_everything_against_the_empty_tree(bench: Bench) -> None:
    """P1: against the empty tree every file is an add."""
    write(bench.work / "a" / "f")
    (bench.work / "e").mkdir()

    done = bench.capture(previous=EMPTY_TREE)

    assert [(c.operation, c.path) for c in done.changes] == [("add", b"a/f"), ("add", b"e")]


def test_one_capture_writes_one_pack(bench: Bench) -> None:
    """I24: everything new of a capture is in one pack, and a capture without news makes none."""
    fill(bench.work)
    packs = Path(bench.layout.directory("snapshots/packs"))

    bench.capture()
    assert len(list(packs.iterdir())) == 1
    bench.capture()
    assert len(list(packs.iterdir())) == 1
    write(bench.work / "new", b"new")
    bench.capture()
    assert len(list(packs.iterdir())) == 2


# -- racy changes -----------------------------------------------------------------------------------


def test_an_edit_in_the_same_tick_is_seen(bench: Bench) -> None:
    """I26: an edit of equal size within one tick of the file system's clock is in the next capture."""
    file = bench.work / "f"
    for number in range(40):
        file.write_bytes(b"%02d" % (2 * number))
        bench.capture()
        file.write_bytes(b"%02d" % (2 * number + 1))
        bench.capture()
        assert bench.tree()[b"f"] == (b"f", b"%02d" % (2 * number + 1))


def test_an_edit_with_size_and_mtime_put_back_is_seen(bench: Bench) -> None:
    """I26: size and mtime may be as before; the time of change of the inode tells."""
    file = bench.work / "f"
    write(file, b"before")
    age(bench.work)
    bench.capture()
    bench.capture()
    found = file.stat()
    file.write_bytes(b"after!")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))

    bench.capture()

    assert bench.tree()[b"f"] == (b"f", b"after!")


def test_an_edit_in_the_same_tick_with_its_mtime_put_back_is_seen(bench: Bench) -> None:
    """I26: the time of change counts in the racy rule, too."""
    file = bench.work / "f"
    for number in range(40):
        for edit in (2 * number, 2 * number + 1):
            file.write_bytes(b"%02d" % edit)
            os.utime(file, ns=(1_000_000_000, 1_000_000_000))
            bench.capture()
        assert bench.tree()[b"f"] == (b"f", b"%02d" % (2 * number + 1))


def test_only_times_older_than_the_probe_prove_anything(bench: Bench) -> None:
    """I26: mtime and ctime must both be strictly older than the probe, on the probe's device."""
    file = bench.work / "f"
    write(file)
    os.utime(file, ns=(1, 1))
    young_change = file.lstat()
    device, ctime = young_change.st_dev, young_change.st_ctime_ns
    os.utime(file, ns=(1, ctime + 10**12))
    young_content = file.lstat()

    def proves(found: os.stat_result, now: int, on: int = device) -> bool:
        with bench.open() as blobs, blobs.writer() as writer:
            entries = Entries(os.fsencode(bench.work), UserFiles(), writer, (now, on), 100)
            try:
                return entries.proof(found) == pack_stat(found)
            finally:
                entries.close()

    assert not proves(young_change, ctime) and proves(young_change, ctime + 1)
    assert not proves(young_change, ctime + 1, on=device + 1)
    assert not proves(young_content, ctime + 10**12) and proves(young_content, ctime + 10**12 + 1)


def test_a_name_that_comes_in_the_tick_of_the_listing_is_seen(bench: Bench) -> None:
    """I26: a directory listed in the tick of its last change is listed again."""
    for number in range(40):
        write(bench.work / "d" / str(number))
        bench.capture()
        write(bench.work / "d" / f"{number}-late")
        bench.capture()
        assert f"d/{number}-late".encode() in bench.tree()


# -- what cannot be captured ------------------------------------------------------------------------


def test_pipes_sockets_and_large_files_are_listed_with_a_reason(bench: Bench) -> None:
    """P1, P4: what is not captured is listed with its reason; pipes and sockets are not opened."""
    work = bench.work
    os.mkfifo(work / "pipe")
    write(work / "large", b"x" * 1001)
    write(work / "fits", b"x" * 1000)
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(work)  # the address of a socket is short
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        done = bench.capture(size_max=1000)
        again = bench.capture(size_max=1000)

    assert done.skipped == [
        (b"large", "it is larger than 1000 bytes"),
        (b"pipe", "it is a named pipe"),
        (b"sock", "it is a socket"),
    ]
    assert (again.root, again.skipped) == (done.root, done.skipped)
    assert not done.partial
    assert bench.capture(size_max=2000).root != done.root


class Unreadable(UserFiles):
    """Refuses one name, as for a user without the right to read it."""

    def open_file(self, dir_fd: int, name: bytes) -> int:
        if name == b"secret":
            raise PermissionError(13, "Permission denied")
        return super().open_file(dir_fd, name)

    def open_dir(self, dir_fd: int, name: bytes) -> int:
        if name == b"closed":
            raise PermissionError(13, "Permission denied")
        return super().open_dir(dir_fd, name)


def test_what_cannot_be_read_is_listed_and_taken_in_later(bench: Bench) -> None:
    """P1: an unreadable file or directory is listed, and captured as soon as it can be read."""
    write(bench.work / "secret", b"s")
    write(bench.work / "closed" / "in", b"i")
    write(bench.work / "open", b"o")

    done = bench.capture(calls=Unreadable())
    age(bench.work)
    again = bench.capture(calls=Unreadable())

    expected = [
        (b"closed", "it cannot be read: Permission denied"),
        (b"secret", "it cannot be read: Permission denied"),
    ]
    assert done.skipped == again.skipped == expected
    later = bench.capture()
    assert later.skipped == []
    assert bench.tree() == on_disk(bench.work)


class Growing(UserFiles):
    """Appends to the file each time it has been read, as a writer beside us would."""

    def __init__(self, path: Path, times: int) -> None:
        self.path, self.times = path, times

    def read(self, fd: int, size: int) -> bytes:
        data = super().read(fd, size)
        if self.times:
            self.times -= 1
            with open(self.path, "ab") as file:
                file.write(b"more")
        return data


def test_a_file_that_changes_under_the_read_is_read_again_or_listed(bench: Bench) -> None:
    """P1: a file is read again when it changed meanwhile; one that never rests is listed as such."""
    file = bench.work / "log"
    write(file, b"start")

    done = bench.capture(calls=Growing(file, 1))
    assert done.skipped == []
    assert bench.tree()[b"log"] == (b"f", b"startmore")

    write(file, b"again")
    done = bench.capture(calls=Growing(file, 1000))
    assert done.skipped == [(b"log", "it changed while it was read")]

    bench.capture()
    assert bench.tree() == on_disk(bench.work)


def test_names_that_no_tree_may_hold_are_listed(bench: Bench) -> None:
    """P1, I28: what some file system takes for `.git` is listed; a file called like its escape is kept."""
    write(bench.work / "GIT~1" / "config", b"c")
    write(bench.work / "sub" / ".GIT", b"c")
    write(bench.work / "refused%GIT~1", b"c")  # a name like others: what is escaped has no `~`
    write(bench.work / "refused%GIT%7E1x", b"c")
    write(bench.work / "sub" / "refused%%2EGIT", b"c")
    write(bench.work / "refused%%2Egit%2Fx", b"c")  # stands for a path, and only in a tree of git's

    done = bench.capture()
    age(bench.work)
    bench.capture()
    again = bench.capture(calls=NoCalls())

    assert [path for path, _ in done.skipped] == [
        b"GIT~1",
        b"refused%refused%25%252Egit%252Fx",
        b"sub/.GIT",
    ]
    assert bench.tree()[b"sub/refused%%2EGIT"] == (b"f", b"c")
    write(bench.work / "sub" / "refused%%2EGIT", b"other")
    bench.capture()
    assert bench.tree()[b"sub/refused%%2EGIT"] == (b"f", b"other")
    assert "is a spelling of .git" in done.skipped[0][1]
    assert again.skipped == done.skipped


def test_a_file_called_like_a_store_can_be_left_out(bench: Bench) -> None:
    """P1: what names no content in a tree is listed under its own name, whatever that is."""
    for name in (".locus", "refused%git%7E1"):
        write(bench.work / "sub" / name, b"c")
    write(bench.work / ".locusignore", b".locus\nrefused*\n")

    done = bench.capture()
    assert [path for path, _ in done.skipped] == [b"sub/.locus", b"sub/refused%git%7E1"]


def test_a_capture_tells_what_the_disk_refuses(bench: Bench) -> None:
    """P7: any one call that fails, once or from then on, is survived or reported as an error of ours."""
    fill(bench.work)
    bench.capture()
    counting = FaultFS()
    Bench(bench.layout, bench.work, counting).capture()
    assert len(counting.made) > 12
    for nth in range(len(counting.made)):
        for persistent in (False, True):
            fs = FaultFS(nth, FAULTS["EIO"], persistent=persistent)
            with suppress(EventLogError):
                Bench(bench.layout, bench.work, fs).capture()
            assert fs.open_fds == {}, (nth, persistent)


def test_the_store_is_never_captured(bench: Bench, tmp_path: Path) -> None:
    """P1, P6: a store inside the working directory, whatever its name, is not in the tree."""
    write(tmp_path / "f")
    inside = Bench(bench.layout, tmp_path)  # the store is tmp_path/.locus
    (tmp_path / "other").mkdir()
    os.rename(bench.layout.root, tmp_path / "other" / "ledger")
    renamed = Bench(Layout(str(tmp_path / "other" / "ledger")), tmp_path)

    renamed.capture()
    assert renamed.tree() == {b"f": (b"f", b"x"), b"other": (b"d", b""), b"work": (b"d", b"")}

    os.rename(tmp_path / "other" / "ledger", bench.layout.root)
    inside.capture()
    assert set(inside.tree()) == {b"f", b"other", b"work"}


def test_places_that_are_never_captured_are_refused(bench: Bench, tmp_path: Path) -> None:
    """P4: `/`, a store, a bare repository and what is no directory are refused."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "bare.git"], check=True)
    for place in ("/", bench.layout.root, bench.layout.directory("snapshots"), str(tmp_path / "bare.git")):
        with pytest.raises(Refused):
            bench.capture(root=place)
    with pytest.raises(NotFound):
        bench.capture(root=str(tmp_path / "nowhere"))


# -- depth ------------------------------------------------------------------------------------------


def test_a_path_longer_than_any_call_takes_is_captured(bench: Bench) -> None:
    """P1: a path of 50,000 characters, which only descriptors reach, is captured, cached and changed."""
    make_deep(bench.work, depth=200, name=b"n" * 250)

    first = bench.capture()
    again = bench.capture()
    assert again.root == first.root
    longest = max(bench.tree(), key=len)
    assert len(longest) == 200 * 251 + 4
    remove_deep(bench.work, b"n" * 250)
    assert bench.capture().files == 0


@pytest.mark.slow
def test_a_directory_too_deep_to_be_written_again_is_listed(bench: Bench) -> None:
    """P1: what lies deeper than a replay could write is listed with its reason."""
    make_deep(bench.work, depth=2060, name=b"d")

    done = bench.capture()

    assert [text for _, text in done.skipped] == ["it is too many directories deep"]
    with bench.open() as blobs:
        assert materialize(blobs, done.root, str(bench.work.parent / "out")).dirs == 2047
    remove_deep(bench.work, b"d")
    remove_deep(bench.work.parent / "out", b"d")


def make_deep(work: Path, depth: int, name: bytes) -> None:
    fd = os.open(work, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open(b"leaf", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)


def remove_deep(work: Path, name: bytes) -> None:
    """Move the levels up and away one by one: no tool removes what it cannot name."""
    top = os.open(work, os.O_RDONLY)
    while True:
        try:
            fd = os.open(name, os.O_RDONLY, dir_fd=top)
        except FileNotFoundError:
            break
        if "leaf" in os.listdir(fd):
            os.unlink("leaf", dir_fd=fd)
        more = bool(os.listdir(fd))
        if more:
            os.rename(name, b"next", src_dir_fd=fd, dst_dir_fd=top)
        os.close(fd)
        os.rmdir(name, dir_fd=top)
        if more:
            os.rename(b"next", name, src_dir_fd=top, dst_dir_fd=top)
    os.close(top)


def test_two_files_that_were_not_captured_are_no_rename(bench: Bench) -> None:
    """P1: they are skipped for the same reason; that says nothing of their contents."""
    (bench.work / "old").write_bytes(b"x" * 20)
    bench.capture(size_max=10)
    (bench.work / "old").unlink()
    (bench.work / "new").write_bytes(b"y" * 20)
    done = bench.capture(size_max=10)
    assert [(c.operation, c.path, c.old_path) for c in done.changes] == [
        ("add", b"new", None),
        ("delete", b"old", None),
    ]
