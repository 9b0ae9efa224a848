"""Copies of files as they are now: exact, without a name, and within their bytes."""

import errno
import os
from pathlib import Path

import pytest

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.blobs.deferred import DeferredFile
from eventlog.worktree import staging
from eventlog.worktree.contents import kind_of, stat_of
from eventlog.worktree.userfiles import UserFiles


class Copying(FileSystem):
    """A file system without reflinks that notes pieces, and does `between` after each."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, int]] = []
        self.between = lambda: None
        self.open_fds: set[int] = set()

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        fd = super().open(path, flags, mode)
        self.open_fds.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self.open_fds.discard(fd)
        super().close(fd)

    def clone(self, source: int, copy: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "no reflinks")

    def copy_range(self, source: int, copy: int, size: int, offset: int) -> int:
        self.pieces.append((offset, size))
        data = os.pread(source, size, offset)  # not every system can within its kernel
        done = os.pwrite(copy, data, offset)
        self.between()
        return done


def listed(work: Path, name: str, data: bytes) -> DeferredFile:
    target = work / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    found = target.lstat()
    size, mtime_ns, ctime_ns, inode = stat_of(found)
    return DeferredFile((name.encode(), kind_of(found), size, mtime_ns, ctime_ns, inode, None))


@pytest.fixture
def fs() -> Copying:
    return Copying()


def stage(fs: FileSystem, layout: Layout, work: Path, *files: DeferredFile) -> dict[bytes, bytes]:
    """Path → the bytes of its copy."""
    copies = staging.stage(fs, layout, UserFiles(), str(work), files)
    found = {path: os.pread(fd, 1 << 20, 0) for path, fd in copies.items()}
    for fd in copies.values():
        fs.close(fd)
    return found


def test_copies_hold_the_bytes_and_have_no_name(
    layout: Layout, tmp_path: Path, fs: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: they are made in pieces, are exact, and go with their descriptors."""
    monkeypatch.setattr(staging, "_PIECE", 4)
    files = listed(tmp_path / "w", "d/a", b"0123456789"), listed(tmp_path / "w", "b", b"")
    assert stage(fs, layout, tmp_path / "w", *files) == {b"d/a": b"0123456789", b"b": b""}
    assert fs.pieces == [(0, 4), (4, 4), (8, 2)]
    assert os.listdir(layout.directory("tmp")) == []
    assert fs.open_fds == set()


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_file_that_is_not_the_listed_one_has_no_copy(
    layout: Layout, tmp_path: Path, fs: Copying, moment: str
) -> None:
    """I24: its stat is read before the copy and after it."""
    file = listed(tmp_path / "w", "a", b"first")

    def change() -> None:
        (tmp_path / "w/a").write_bytes(b"other")

    if moment == "before":
        change()
    else:
        fs.between = change
    assert stage(fs, layout, tmp_path / "w", file) == {}
    assert bool(fs.pieces) == (moment == "while")
    assert fs.open_fds == set()


def test_a_link_in_its_place_or_on_the_way_is_not_followed(
    layout: Layout, tmp_path: Path, fs: Copying
) -> None:
    """P4: what is in place of a directory or a file leads nowhere else."""
    files = listed(tmp_path / "w", "a", b"first"), listed(tmp_path / "w", "d/b", b"second")
    (tmp_path / "w").rename(tmp_path / "kept")
    (tmp_path / "w").mkdir()
    (tmp_path / "w/a").symlink_to(tmp_path / "kept/a")
    (tmp_path / "w/d").symlink_to(tmp_path / "kept/d")
    assert stage(fs, layout, tmp_path / "w", *files) == {}
    assert fs.pieces == []


def test_copies_have_a_bound_and_reflinks_do_not_count(
    layout: Layout, tmp_path: Path, fs: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit is left out, and a smaller one after it is not."""
    monkeypatch.setattr(staging, "COPIED_BYTES_MAX", 10)
    work = tmp_path / "w"
    files = [listed(work, name, b"x" * size) for name, size in (("a", 6), ("b", 5), ("c", 4))]
    assert set(stage(fs, layout, work, *files)) == {b"a", b"c"}

    class Reflinks(Copying):
        def clone(self, source: int, copy: int) -> None:
            os.pwrite(copy, os.pread(source, 100, 0), 0)

    assert set(stage(Reflinks(), layout, work, *files)) == {b"a", b"b", b"c"}
    monkeypatch.setattr(staging, "COPIES_MAX", 1)
    assert set(stage(fs, layout, work, *files)) == {b"a"}


class Older(FileSystem):
    """A system without O_TMPFILE, reflinks and copies within the kernel; it notes what it has in `tmp/`."""

    def __init__(self, layout: Layout) -> None:
        self.tmp = layout.directory("tmp")
        self.names: list[list[str]] = []  # before each write
        self.modes: list[int] = []

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        if flags & os.O_DIRECTORY:  # a part of O_TMPFILE
            raise OSError(errno.EISDIR, "no such files")
        fd = super().open(path, flags, mode)
        self.modes.append(os.fstat(fd).st_mode & 0o777)
        return fd

    def clone(self, source: int, copy: int) -> None:
        raise OSError(errno.ENOTTY, "no reflinks")

    def copy_range(self, source: int, copy: int, size: int, offset: int) -> int:
        raise OSError(errno.ENOSYS, "not within this kernel")

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        self.names.append(os.listdir(self.tmp))
        return super().pwrite(fd, data, offset)


def test_where_all_files_have_names_a_copy_loses_it_before_it_has_a_byte(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1, P5: copies are made on other systems too, in pieces, and no unscanned byte ever has a name."""
    monkeypatch.setattr(staging, "_PIECE", 4)
    fs, data = Older(layout), b"0123456789"

    assert stage(fs, layout, tmp_path / "w", listed(tmp_path / "w", "a", data)) == {b"a": data}
    assert fs.names == [[], [], []] and fs.modes == [0o600]


def test_a_copy_that_keeps_its_name_is_none(layout: Layout, tmp_path: Path) -> None:
    """Where the name cannot be removed nothing is copied."""

    class Keeps(Older):
        def unlink(self, path: str) -> None:
            raise OSError(errno.EPERM, "not allowed")

    fs = Keeps(layout)
    assert stage(fs, layout, tmp_path / "w", listed(tmp_path / "w", "a", b"1")) == {}
    assert fs.names == []


def test_a_full_disk_leaves_no_copy(layout: Layout, tmp_path: Path, fs: Copying) -> None:
    """And no descriptor."""

    def full() -> None:
        raise OSError(errno.ENOSPC, "full")

    fs.between = full
    assert stage(fs, layout, tmp_path / "w", listed(tmp_path / "w", "a", b"1")) == {}
    assert fs.open_fds == set()
