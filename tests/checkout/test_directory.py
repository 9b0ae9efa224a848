"""A directory of the user's, held open: whatever replay, restore and bisect do below it goes through here."""

import os
from pathlib import Path

import pytest

from eventlog.base.errors import NotFound, Refused
from eventlog.checkout.directory import OpenDirectory

DEPTH = 300  # more than descriptors stay open


@pytest.fixture
def deep(tmp_path: Path) -> bytes:
    """The path of a directory that many others are above."""
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    return b"/".join([b"d"] * DEPTH)


def test_a_deep_path_is_reached_with_few_descriptors(tmp_path: Path, deep: bytes) -> None:
    """One name at a time, however many there are; only the last ones used stay open (I35)."""
    before = len(os.listdir("/dev/fd"))
    with OpenDirectory.of(str(tmp_path)) as directory:
        assert directory.is_dir(deep)
        directory.write_file(deep, b"f", 0o600, b"content", over=False)
        assert directory.read(deep + b"/f")[2] == b"content"
        assert len(os.listdir("/dev/fd")) <= before + 1 + 128
    assert len(os.listdir("/dev/fd")) == before


def test_a_check_that_fails_spoils_no_other(tmp_path: Path, deep: bytes) -> None:
    """A descriptor that had to make room is opened again when it is needed."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/f").write_text("x")
    with OpenDirectory.of(str(tmp_path)) as directory:
        assert directory.lstat(b"a/f") is not None
        assert directory.lstat(deep + b"/no/such") is None
        assert directory.lstat(b"a/f") is not None


def test_what_is_removed_is_in_the_directory(tmp_path: Path) -> None:
    """I28: a directory goes with all that is in it, a link alone, and nothing behind a link."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for path in (outside, inside / "full/below", inside / "empty/er"):
        path.mkdir(parents=True)
    for path in (outside / "f", inside / "full/below/f"):
        path.write_text("x")
    (inside / "link").symlink_to(outside)
    with OpenDirectory.of(str(inside)) as directory:
        directory.remove(b"link/f")
        assert directory.names(b"link") is None
        for path_bytes in (b"full", b"link", b"no-such"):
            directory.remove(path_bytes)
        directory.prune(b"empty/er/f")
        assert directory.names(b"") == {}
    assert (outside / "f").read_text() == "x"


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    """The errors say what to name instead."""
    (tmp_path / "f").write_text("x")
    with pytest.raises(NotFound, match="name a directory"):
        OpenDirectory.of(str(tmp_path / "no"))
    with pytest.raises(Refused, match="is not a directory"):
        OpenDirectory.of(str(tmp_path / "f"))
