"""Trees written out as files."""

import errno
import os
import signal
import stat
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog.base.errors import Corruption, EventLogError, NotFound, Refused
from eventlog.blobs.ids import blob_id, tree_id
from eventlog.blobs.tree import (
    DIRECTORY,
    EXECUTABLE,
    FILE,
    SKIPPED,
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    decode_tree,
    encode_tree,
    legal_name,
)
from eventlog.checkout import materialize as materialize_module
from eventlog.checkout import parallel
from eventlog.checkout.directory import OpenDirectory
from eventlog.checkout.materialize import TreeSource, materialize, walk
from eventlog.worktree.userfiles import UserFiles
from tests.blobs.support import (
    Node,
    open_store,
    overwrite,
    pack_paths,
    put_all,
    put_node,
    read_node,
    store_node,
)
from tests.blobs.test_tree import HOSTILE, raw_entry


@pytest.fixture
def blobs(layout):
    with open_store(layout) as store:
        yield store


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "out")


SAMPLE: Node = {
    b"README": (FILE, b"hello\n"),
    b"empty": (FILE, b""),
    b"run.sh": (EXECUTABLE, b"#!/bin/sh\n"),
    b"-rf": (FILE, b"dash"),
    b"a\nb": (FILE, b"newline"),
    b"caf\xe9": (FILE, b"latin"),
    b"n" * 255: (FILE, b"long"),
    b"link": (SYMLINK, b"README"),
    b"dangling": (SYMLINK, b"../no/such\xff"),
    b"src": {b"deep": {b"er": {b"x": (FILE, b"x")}}, b"up": (SYMLINK, b"..")},
    b"nothing": {},
}

NAMES = st.binary(min_size=1, max_size=6).filter(lambda name: legal_name(name) is None)
LEAVES = st.tuples(st.sampled_from([FILE, EXECUTABLE]), st.binary(max_size=40)) | st.tuples(
    st.just(SYMLINK), st.binary(min_size=1, max_size=20).filter(lambda content: b"\0" not in content)
)
NODES = st.dictionaries(
    NAMES, st.recursive(LEAVES, lambda node: st.dictionaries(NAMES, node, max_size=4)), max_size=5
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(node=NODES)
def test_a_tree_comes_back_exactly(blobs, tmp_path_factory, node):
    """materialize(T) = T in bytes, exec bits, symlinks, empty files and directories, odd names (I27)."""
    root = store_node(blobs, node)
    target = tmp_path_factory.mktemp("out")
    report = materialize(blobs, root, str(target))
    assert read_node(str(target)) == node
    assert not report.partial


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_number_of_workers_writes_the_same(blobs, target, workers, codec):
    """The sharing of work does not show in the result (I27)."""
    node: Node = {b"d%d" % d: {b"f%d" % f: (FILE, b"%d %d" % (d, f)) for f in range(9)} for d in range(9)}
    node |= SAMPLE
    report = materialize(blobs, store_node(blobs, node, codec), target, workers=workers)
    assert read_node(target) == node
    assert (report.files, report.symlinks, report.dirs) == (81 + 8, 3, 9 + 4)
    assert report.bytes == sum(len(b"%d %d" % (d, f)) for d in range(9) for f in range(9)) + 37


def test_a_second_time_gives_the_same(blobs, target, tmp_path):
    """Twice = once: into another directory, and with force into the same (I27)."""
    root = store_node(blobs, SAMPLE)
    first = materialize(blobs, root, target)
    assert materialize(blobs, root, str(tmp_path / "again")) == first
    assert materialize(blobs, root, target, force=True) == first
    assert read_node(target) == read_node(str(tmp_path / "again")) == SAMPLE


def test_modes_do_not_depend_on_the_umask(blobs, target, tmp_path):
    """0644, 0755 and directories 0755, whoever runs it (I27)."""
    root = store_node(blobs, SAMPLE)
    old = os.umask(0o077)
    try:
        materialize(blobs, root, target)
        os.umask(0)
        materialize(blobs, root, str(tmp_path / "open"))
    finally:
        os.umask(old)
    for directory in (target, str(tmp_path / "open")):
        assert read_node(directory) == SAMPLE  # checks the modes of files
        for path, _, _ in os.walk(directory):
            assert stat.S_IMODE(os.lstat(path).st_mode) == 0o755, path


# -- what cannot be written --------------------------------------------------------------------------


def test_what_was_not_captured_is_listed(blobs, target):
    """Skipped files with their reason, submodules as empty directories with their commit (P1)."""
    with blobs.writer() as writer:
        why = b"larger than the limit of 50 MB"
        root = writer.put_tree(
            [
                TreeEntry(b"big", SKIPPED, writer.put(why), 10**9),
                TreeEntry(b"dep", SUBMODULE, writer.put(b"c" * 40), 40),
                TreeEntry(b"a", FILE, writer.put(b"a"), 1),
            ]
        )
        writer.flush()
    report = materialize(blobs, root, target)
    assert report.skipped == [(b"big", why.decode())]
    assert report.submodules == [(b"dep", "c" * 40)]
    assert read_node(target) == {b"a": (FILE, b"a"), b"dep": {}}
    assert not report.partial  # everything that was captured is there


@pytest.mark.parametrize("workers", [1, 2])
def test_missing_content_is_listed_and_the_rest_is_written(blobs, target, workers):
    """A lost blob, link target or sub-tree makes the result partial, never silently (P1)."""
    gone = blob_id(b"never stored")
    with blobs.writer() as writer:
        x = writer.put(b"x")
        root = writer.put_tree(
            [
                TreeEntry(b"dir", DIRECTORY, tree_id(b"no such tree")),
                TreeEntry(b"file", FILE, gone, 3),
                TreeEntry(b"link", SYMLINK, gone, 3),
                *(TreeEntry(b"ok%d" % n, FILE, x, 1) for n in range(5)),
            ]
        )
        writer.flush()
    report = materialize(blobs, root, target, workers=workers)
    assert [path for path, _ in report.missing] == [b"dir", b"file", b"link"]
    assert report.partial and report.files == 5
    assert read_node(target) == {b"dir": {}, **{b"ok%d" % n: (FILE, b"x") for n in range(5)}}


@pytest.mark.parametrize("workers", [1, 2])
def test_damaged_content_never_gets_a_name(layout, blobs, target, workers):
    """A flipped byte in a group: the files in it are listed, and no wrong file is made (P1, I11)."""
    with blobs.writer(codec="raw") as writer:
        good = writer.put(b"good " * 100)
        writer.end_group()
        bad = [writer.put(b"bad %d " % n * 50) for n in range(4)]
        root = writer.put_tree(
            [TreeEntry(b"g", FILE, good)] + [TreeEntry(b"b%d" % n, FILE, bad[n]) for n in range(4)]
        )
        writer.flush()
    (path,) = pack_paths(layout)
    with open(path, "rb") as file:
        data = file.read().replace(b"bad 2 bad", b"bad 2 Bad", 1)
    overwrite(path, data)
    report = materialize(open_store(layout), root, target, workers=workers)
    assert [name for name, _ in report.missing] == [b"b2"]
    assert "match its hash" in report.missing[0][1]
    assert sorted(os.listdir(target)) == ["b0", "b1", "b3", "g"]


def test_a_tree_whose_root_is_lost_is_an_error(blobs, target):
    """Nothing to write is not a partial result; the target is not even made."""
    with pytest.raises(NotFound):
        materialize(blobs, tree_id(b"lost"), target)
    assert not os.path.exists(target)


# -- the target --------------------------------------------------------------------------------------


def test_a_target_with_something_in_it_is_refused(blobs, target):
    """Nothing is touched in a directory that is not empty, unless force is given."""
    root = store_node(blobs, SAMPLE)
    os.makedirs(target)
    overwrite(f"{target}/mine", b"mine")
    with pytest.raises(Refused, match="not empty"):
        materialize(blobs, root, target)
    assert os.listdir(target) == ["mine"]


def test_a_target_that_is_no_directory_is_refused(blobs, tmp_path):
    """A file, a symlink to a directory, a place inside the store."""
    root = store_node(blobs, SAMPLE)
    overwrite(str(tmp_path / "file"), b"")
    os.mkdir(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", tmp_path / "link")
    for target in (
        tmp_path / "file",
        tmp_path / "link",
        Path(blobs.layout.root) / "tmp",
        Path(blobs.layout.root),
    ):
        with pytest.raises(Refused):
            materialize(blobs, root, str(target), force=True)
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_target_that_cannot_be_made_is_an_error_with_its_name(blobs, tmp_path):
    """A file among the parents, a dangling link, a name that is too long."""
    root = store_node(blobs, SAMPLE)
    overwrite(str(tmp_path / "file"), b"")
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
    for target in (tmp_path / "file" / "out", tmp_path / "dangling", tmp_path / ("n" * 300)):
        with pytest.raises(EventLogError, match=target.name):
            materialize(blobs, root, str(target))
    assert not (tmp_path / "nowhere").exists()


def test_missing_parents_of_the_target_are_made(blobs, tmp_path):
    """A target several levels down that does not exist yet."""
    target = str(tmp_path / "a" / "b")
    materialize(blobs, store_node(blobs, SAMPLE), target)
    assert read_node(target) == SAMPLE


def test_force_replaces_names_of_the_tree_and_keeps_all_others(blobs, target, tmp_path):
    """What is in the way gives place, unless it is a directory in use; no link is followed (I28)."""
    outside = tmp_path / "outside"
    outside.mkdir()
    overwrite(str(outside / "precious"), b"precious")
    os.makedirs(f"{target}/full")
    overwrite(f"{target}/full/mine", b"mine")
    overwrite(f"{target}/mine", b"mine")
    overwrite(f"{target}/old", b"old")
    os.symlink(outside / "precious", f"{target}/through")
    os.symlink(outside, f"{target}/dirlink")
    overwrite(f"{target}/becomes-dir", b"file")
    os.mkdir(f"{target}/becomes-file")
    os.mkdir(f"{target}/becomes-link")
    node: Node = {
        b"old": (FILE, b"new"),
        b"through": (FILE, b"not through the link"),
        b"dirlink": {b"precious": (FILE, b"not outside")},
        b"becomes-dir": {b"x": (FILE, b"x")},
        b"becomes-file": (EXECUTABLE, b"file"),
        b"becomes-link": (SYMLINK, b"old"),
        b"full": (FILE, b"cannot be here"),
    }
    report = materialize(blobs, store_node(blobs, node), target, force=True)
    assert report.missing == [
        (b"full", "it cannot be written: a directory with other files in it has its name")
    ]
    del node[b"full"]
    assert read_node(target) == {**node, b"mine": (FILE, b"mine"), b"full": {b"mine": (FILE, b"mine")}}
    assert read_node(str(outside)) == {b"precious": (FILE, b"precious")}


# -- paths -------------------------------------------------------------------------------------------


def test_only_the_named_paths_are_written(blobs, target):
    """Files and directories by their path in the tree, with the directories above them."""
    root = store_node(blobs, SAMPLE)
    report = materialize(blobs, root, target, paths=[b"src/deep/", b"caf\xe9", b"src/deep/er"])
    assert read_node(target) == {
        b"caf\xe9": SAMPLE[b"caf\xe9"],
        b"src": {b"deep": {b"er": {b"x": (FILE, b"x")}}},
    }
    assert (report.files, report.dirs, report.symlinks) == (2, 3, 0)


def test_the_whole_tree_can_be_named(blobs, tmp_path):
    """The empty path and `.` mean everything."""
    root = store_node(blobs, SAMPLE)
    for number, path in enumerate((b"", b".", b"./")):
        target = str(tmp_path / f"out{number}")
        materialize(blobs, root, target, paths=[path, b"README"])
        assert read_node(target) == SAMPLE


@pytest.mark.parametrize("path", [b"no", b"src/no", b"README/x", b"src/deep/er/x/y", b"..", b"src/../README"])
def test_a_path_that_is_not_in_the_tree_is_an_error(blobs, target, path):
    """Nothing is written when a wanted path does not exist."""
    root = store_node(blobs, SAMPLE)
    with pytest.raises(NotFound, match="nothing was written"):
        materialize(blobs, root, target, paths=[b"README", path])
    assert not os.path.exists(target)


def test_trees_that_are_in_no_pack_can_be_given(blobs, target):
    """`read` gives the entries of a tree by its id, from wherever they are."""
    with blobs.writer() as writer:
        x = writer.put(b"x")
        writer.flush()
    inner = encode_tree([TreeEntry(b"x", FILE, x, 1)])
    outer = encode_tree([TreeEntry(b"in", DIRECTORY, tree_id(inner))])
    trees = {tree_id(inner): decode_tree(inner), tree_id(outer): decode_tree(outer)}
    materialize(blobs, tree_id(outer), target, source=TreeSource(trees.__getitem__))
    assert read_node(target) == {b"in": {b"x": (FILE, b"x")}}
    assert [path for path, _ in walk(blobs, tree_id(outer), trees.__getitem__)] == [b"in", b"in/x"]


def test_walk_gives_every_path_in_order(blobs):
    """A directory comes before what is in it."""
    with blobs.writer() as writer:
        root = put_node(writer, {b"b": {b"c": (FILE, b"1")}, b"a": (FILE, b"2"), b"d": {}})
        writer.flush()
    assert [path for path, _ in walk(blobs, root)] == [b"a", b"b", b"b/c", b"d"]


# -- hostile trees -----------------------------------------------------------------------------------


def put_raw_tree(blobs, encoding: bytes) -> bytes:
    with blobs.writer() as writer:
        id = writer.put_encoded_tree(encoding)
        writer.flush()
    return id


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_hostile_name_is_ever_made(blobs, target, name):
    """A tree that was encoded by hand writes nothing outside its root, and nothing of itself (I28)."""
    (x,) = put_all(blobs, b"evil")
    bad = put_raw_tree(blobs, b"T\x01" + raw_entry(name, id=x))
    with pytest.raises(Corruption):
        materialize(blobs, bad, target)
    with blobs.writer() as writer:
        root = writer.put_tree([TreeEntry(b"d", DIRECTORY, bad), TreeEntry(b"ok", FILE, x, 4)])
        writer.flush()
    report = materialize(blobs, root, target)
    assert [path for path, _ in report.missing] == [b"d"]
    assert read_node(target) == {b"d": {}, b"ok": (FILE, b"evil")}


def test_no_file_is_written_through_a_link_of_the_tree(blobs, target, tmp_path):
    """A name that is a link and a directory in one tree cannot be encoded; by hand it is refused (I28)."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (x, to_outside) = put_all(blobs, b"evil", os.fsencode(str(outside)))
    inner = put_raw_tree(blobs, b"T\x01" + raw_entry(b"x", id=x))
    twice = raw_entry(b"a", kind=b"l", id=to_outside) + raw_entry(b"a", kind=b"d", id=inner)
    with pytest.raises(Corruption):
        materialize(blobs, put_raw_tree(blobs, b"T\x01" + twice), target)
    assert os.listdir(outside) == []


class SwapsForLink(UserFiles):
    """As soon as a directory is made, somebody puts a link in its place."""

    def __init__(self, outside: str) -> None:
        self.outside = outside

    def mkdir(self, dir_fd: int, name: bytes, mode: int) -> None:
        os.symlink(self.outside, name, dir_fd=dir_fd)


def test_a_directory_swapped_for_a_link_is_not_entered(blobs, target, tmp_path):
    """The walk follows no link, even one that appears while it runs (I28)."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root = store_node(blobs, {b"d": {b"x": (FILE, b"x")}, b"y": (FILE, b"y")})
    report = materialize(blobs, root, target, calls=SwapsForLink(str(outside)))
    assert os.listdir(outside) == []
    assert [path for path, _ in report.missing] == [b"d", b"d/x"]
    assert report.files == 1


class SeesNothing(UserFiles):
    """The target looks empty, as it does when files appear right after the check."""

    def listdir(self, dir_fd: int) -> list[str]:
        return []


def test_files_that_appear_meanwhile_are_not_touched(blobs, target):
    """Without force nothing that is in the target is replaced or removed, whoever made it."""
    node: Node = {b"d": {b"x": (FILE, b"x")}, b"f": (FILE, b"f"), b"l": (SYMLINK, b"f"), b"ok": (FILE, b"ok")}
    root = store_node(blobs, node)
    os.mkdir(target)
    for name in "dfl":
        overwrite(f"{target}/{name}", b"mine")
    report = materialize(blobs, root, target, calls=SeesNothing())
    assert [path for path, _ in report.missing] == [b"d", b"d/x", b"f", b"l"]
    assert read_node(target) == {
        b"ok": (FILE, b"ok"),
        **dict.fromkeys((b"d", b"f", b"l"), (FILE, b"mine")),
    }


def test_a_tree_that_is_too_deep_or_too_large_is_refused(blobs, target, monkeypatch):
    """A small pack cannot make us write for ever (I11)."""
    with blobs.writer() as writer:
        deep = writer.put_tree([])
        for _ in range(materialize_module.DEPTH_MAX + 1):
            deep = writer.put_tree([TreeEntry(b"d", DIRECTORY, deep)])
        wide = writer.put_tree([TreeEntry(b"x", FILE, writer.put(b"x"))])
        for _ in range(12):  # 10^12 files
            wide = writer.put_tree([TreeEntry(b"%d" % n, DIRECTORY, wide) for n in range(10)])
        writer.flush()
    monkeypatch.setattr(materialize_module, "ENTRIES_MAX", 5000)
    for root in (deep, wide):
        with pytest.raises(Refused):
            materialize(blobs, root, target)
    with pytest.raises(Refused):
        list(walk(blobs, deep))
    assert not os.path.exists(target)


# -- faults ------------------------------------------------------------------------------------------


class FailsNth(UserFiles):
    """The n-th call fails; `made` counts them."""

    def __init__(self, n: int, error: int = errno.ENOSPC) -> None:
        self.left = n
        self.error = error

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if (
            name in ("left", "error")
            or not callable(value)
            or name in ("close", "unlink", "open_root", "listdir")
        ):
            return value
        self.left -= 1
        if self.left == -1:
            raise OSError(self.error, os.strerror(self.error))
        return value


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_failing_call_is_listed_and_costs_only_its_own_file(blobs, tmp_path, error):
    """Whichever call fails, what is written is right, the rest is listed, no half file stays (P1, I27)."""
    node: Node = {b"a": (FILE, b"a" * 9), b"d": {b"b": (FILE, b"b" * 9)}, b"l": (SYMLINK, b"a")}
    root = store_node(blobs, node)
    n = 0
    partial = 0
    while True:
        calls = FailsNth(n, error)
        target = str(tmp_path / f"out{n}")
        os.mkdir(target)
        report = materialize(blobs, root, target, calls=calls, workers=1)
        written = read_node(target)
        if calls.left >= 0:
            break
        partial += report.partial
        missing = {path for path, _ in report.missing}
        assert report.partial, n
        for path in (b"a", b"l"):
            assert (path in missing) != (path in written), (n, path)
            assert path in missing or written[path] == node[path]
        inside = written.get(b"d", {})
        assert isinstance(inside, dict) and (b"d/b" in missing) != (b"b" in inside), n
        n += 1
    assert partial == n > 8
    assert written == node


class ShortWrites(UserFiles):
    """The disk takes three bytes at a time."""

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return super().write(fd, data[:3])


def test_short_writes_are_continued(blobs, target):
    """A write that takes less than all is not the end of the file."""
    materialize(blobs, store_node(blobs, SAMPLE), target, calls=ShortWrites())
    assert read_node(target) == SAMPLE


class DiesInChild(UserFiles):
    """A forked writer is killed after some files, or stops for ever."""

    def __init__(self, hang: bool) -> None:
        self.parent = os.getpid()
        self.left = 10
        self.hang = hang

    def create(self, dir_fd: int, name: bytes, mode: int) -> int:
        self.left -= 1
        if os.getpid() != self.parent and self.left < 0:
            if self.hang:
                time.sleep(1000)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().create(dir_fd, name, mode)


@pytest.mark.parametrize("hang", [False, True])
def test_the_work_of_a_dead_or_stuck_writer_is_done_again(blobs, target, monkeypatch, hang):
    """The parent writes what a killed child did not, over what it left (I32)."""
    monkeypatch.setattr(parallel, "STALL_S", 0.3)
    node: Node = {b"f%02d" % n: (FILE, b"%d" % n) for n in range(60)}
    report = materialize(blobs, store_node(blobs, node), target, workers=2, calls=DiesInChild(hang))
    assert read_node(target) == node
    assert report.files == 60 and not report.partial


def test_a_program_with_threads_does_not_fork(blobs, target, monkeypatch):
    """Only the one thread of a single-threaded program may fork."""
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        materialize(blobs, store_node(blobs, SAMPLE), target, workers=2)
    finally:
        done.set()
        thread.join()
    assert read_node(target) == SAMPLE


@pytest.mark.skipif(sys.platform != "linux", reason="only there are other writers forked")
def test_an_error_ends_the_other_writers(blobs, target, monkeypatch):
    """When this process is interrupted no child is left behind."""
    fork, children = os.fork, []

    def counted():
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", counted)

    class Interrupts(UserFiles):
        parent = os.getpid()

        def create(self, dir_fd: int, name: bytes, mode: int) -> int:
            if os.getpid() == self.parent:
                raise KeyboardInterrupt
            time.sleep(0.05)
            return super().create(dir_fd, name, mode)

    node: Node = {b"f%02d" % n: (FILE, b"%d" % n) for n in range(60)}
    with pytest.raises(KeyboardInterrupt):
        materialize(blobs, store_node(blobs, node), target, workers=2, calls=Interrupts())
    assert children
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_no_descriptor_is_left_open(blobs, target):
    """Neither success nor failure costs a descriptor (I35)."""
    root = store_node(blobs, {b"d%d" % d: {b"x": (FILE, b"%d" % d)} for d in range(200)})
    before = os.listdir("/dev/fd") if os.path.exists("/dev/fd") else []
    materialize(blobs, root, target, workers=2)
    with pytest.raises(Refused):
        materialize(blobs, root, target)
    blobs.close()
    after = os.listdir("/dev/fd") if os.path.exists("/dev/fd") else []
    assert len(after) <= len(before)


def test_a_large_file_is_not_finished_for_nobody(tmp_path):
    """Before each MiB it is asked whether to go on; half a file loses its name."""
    written = []

    class Counts(UserFiles):
        def write(self, fd: int, data: bytes | memoryview) -> int:
            written.append(len(data))
            return super().write(fd, data)

    def go_on() -> None:
        if len(written) == 3:
            raise KeyboardInterrupt

    with OpenDirectory.of(str(tmp_path), Counts()) as place:
        place.go_on = go_on
        with pytest.raises(KeyboardInterrupt):
            place.write_file(b"", b"large", 0o644, bytes(9 << 20), over=False)
    assert written == [1 << 20] * 3
    assert os.listdir(tmp_path) == []
