"""Git's index read by hand, against git: whatever it proves is so, and what it lists is what git lists."""

import hashlib
import os
import random
import stat
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog.worktree import git as worktree_git
from eventlog.worktree import git_held, git_index
from eventlog.worktree.git_index import GitIndex, Unreadable
from tests.worktree.support import age, git

FORMATS = pytest.mark.parametrize("format", ["sha1", "sha256"])


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return repository(tmp_path / "work")


def repository(work: Path, format: str = "sha1") -> Path:
    work.mkdir()
    git(work, "init", "-q", "-b", "main", f"--object-format={format}")
    return work


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def add_all(work: Path) -> None:
    """Everything into an index that is younger than every file."""
    age(work)
    git(work, "add", "-A")


def proven(root: Path, top: Path | None = None) -> dict[str, str]:
    """The objects that the index proves of the files below `root`. Each is compared with the file's bytes."""
    place = worktree_git.find(os.fsencode(top or root))
    assert place is not None
    where = os.fsencode(root)
    settings = worktree_git.settings_of(where)
    index = git_held.index_of(place, where, settings)
    held = None if index is None else git_held.held_by_git(place, where, settings, index)
    if held is None:
        return {}
    found = {}
    for directory, _, names in os.walk(root):
        if ".gitattributes" in names:
            shown = os.path.relpath(directory, root)
            held.note_attributes(b"" if shown == "." else os.fsencode(shown))
    for directory, dirs, names in os.walk(root):
        dirs[:] = [name for name in dirs if name != ".git"]
        for name in names:
            file = Path(directory, name)
            path = os.path.relpath(file, root)
            object = held.object_of(os.fsencode(path), os.lstat(file))
            if object is not None:
                assert object == object_of_bytes(file.read_bytes(), len(object)), path
                found[path] = object.hex()
    return found


def object_of_bytes(data: bytes, size: int) -> bytes:
    """What `git hash-object --no-filters` says of these bytes."""
    hasher = hashlib.sha1 if size == 20 else hashlib.sha256
    return hasher(b"blob %d\0%b" % (len(data), data)).digest()


@FORMATS
@pytest.mark.parametrize("version", [2, 3, 4])
def test_what_git_holds_is_proven_by_its_own_ids(tmp_path: Path, format: str, version: int) -> None:
    """Files older than the index have the ids of `git hash-object`, in any version and hash."""
    work = repository(tmp_path / "work", format)
    names = ["a", "ab", "abc/d", "abc/d.e", "abc/f", "b/" + "long" * 40 + "/" + "name" * 60, "x", "ü\n"]
    for name in names:
        write(work / name, name.encode())
    write(work / "empty", b"")
    (work / "x").chmod(0o755)
    (work / "link").symlink_to("a")
    add_all(work)
    if version == 3:
        write(work / "later", b"intent to add")
        git(work, "add", "-N", "later")
    git(work, "update-index", f"--index-version={version}")
    data = (work / ".git" / "index").read_bytes()
    assert struct.unpack(">I", data[4:8])[0] == version

    found = proven(work)
    assert sorted(found) == sorted(names)
    assert [found[name] for name in names] == git(work, "hash-object", "--no-filters", *names).split("\n")
    assert_listed_as_by_git(work)


def assert_listed_as_by_git(work: Path) -> None:
    """The same paths in the same order: a digest of the list tells whether it has changed."""
    listed = tracked(work)
    assert listed is not None
    assert list(listed.items()) == list(worktree_git.tracked(os.fsencode(work)).items())


def tracked(work: Path) -> dict[bytes, str | None] | None:
    place = worktree_git.find(os.fsencode(work))
    assert place is not None
    index = git_held.index_of(place, os.fsencode(work), worktree_git.settings_of(os.fsencode(work)))
    return None if index is None else index.tracked


def test_the_entries_of_one_directory_have_paths_below_it(work: Path) -> None:
    """Of a directory of a work tree the index says what is below it, as `git ls-files` there does."""
    for name in ("a", "sub/b", "sub/deep/c", "sub2/d", "sub.e"):
        write(work / name, name.encode())
    add_all(work)
    assert tracked(work / "sub") == dict.fromkeys([b"b", b"deep/c"])
    assert_listed_as_by_git(work / "sub")
    assert set(proven(work / "sub", work)) == {"b", "deep/c"}


def test_submodules_and_conflicts_are_listed_as_git_lists_them(work: Path) -> None:
    """Submodules have their commit, a path in conflict occurs once and is not proven."""
    write(work / "a", b"one\n")
    add_all(work)
    git(work, "commit", "-qm", "one")
    repository(work / "module")
    git(work / "module", "commit", "-q", "--allow-empty", "-m", "in the module")
    git(work, "add", "module")
    for branch, text in (("left", b"left\n"), ("right", b"right\n")):
        git(work, "checkout", "-q", "-b", branch, "main")
        write(work / "a", text)
        git(work, "commit", "-qam", branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(work, "merge", "-q", "left")
    assert_listed_as_by_git(work)
    assert tracked(work)[b"module"] == git(work / "module", "rev-parse", "HEAD")
    assert "a" not in proven(work)


# -- what proves nothing -----------------------------------------------------------------------


def test_a_change_within_the_tick_of_the_index_is_never_taken_for_none(work: Path) -> None:
    """The racy rule: until the clock has moved since the files were written, nothing is proven."""
    rng = random.Random(7)
    names = [f"f{number}" for number in range(8)]
    for _ in range(15):
        for name in names:
            write(work / name, rng.randbytes(4))
        git(work, "add", "-A")
        for name in rng.sample(names, 4):
            write(work / name, rng.randbytes(4))
        proven(work)


def racy(work: Path, name: str) -> None:
    """The index as recent as the file: nothing but its time has changed."""
    found = os.lstat(work / name)
    os.utime(work / ".git" / "index", ns=(0, max(found.st_mtime_ns, found.st_ctime_ns)))


def old_file(work: Path, name: str) -> None:
    """Its mtime is old, and its ctime that of the index."""
    os.utime(work / name, ns=(0, 10**18))
    git(work, "add", "-A")
    racy(work, name)


def touch(work: Path, name: str) -> None:
    found = os.lstat(work / name)
    os.utime(work / name, ns=(0, found.st_mtime_ns))  # only the ctime


def back_dated(work: Path, name: str) -> None:
    """Other bytes of the same size and mtime: the ctime tells."""
    found = os.lstat(work / name)
    write(work / name, b"CONTENT")
    os.utime(work / name, ns=(0, found.st_mtime_ns))


def replaced(work: Path, name: str) -> None:
    write(work / "new", b"CONTENT")
    os.rename(work / "new", work / name)


def change_mode(work: Path, name: str) -> None:
    (work / name).chmod(0o755)
    os.utime(work / ".git" / "index")


def ignore_mode(work: Path, name: str) -> None:
    git(work, "config", "core.fileMode", "false")
    (work / name).chmod(0o755)
    age(work)
    git(work, "add", "--renormalize", name)
    git(work, "update-index", "--refresh")


def skip_worktree(work: Path, name: str) -> None:
    git(work, "update-index", "--skip-worktree", name)


def assume_unchanged(work: Path, name: str) -> None:
    git(work, "update-index", "--assume-unchanged", name)


def split(work: Path, name: str) -> None:
    git(work, "update-index", "--split-index")


def sparse(work: Path, name: str) -> None:
    write(work / "other" / "deep" / "a", b"1")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "one")
    git(work, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
    assert b"sdir" in (work / ".git" / "index").read_bytes()


def other_top(work: Path, name: str) -> None:
    git(work, "config", "core.worktree", str(work.parent))


def autocrlf(value: str) -> Callable[[Path, str], None]:
    def convert(work: Path, name: str) -> None:
        git(work, "config", "core.autocrlf", value)

    return convert


def bare_autocrlf(work: Path, name: str) -> None:
    with open(work / ".git" / "config", "a") as file:
        file.write("[core]\n\tautocrlf\n")


def attributes(text: str, where: str = ".gitattributes", tracked: bool = True) -> Callable[[Path, str], None]:
    def convert(work: Path, name: str) -> None:
        write(work / where, text.encode())
        if tracked:
            git(work, "add", "-f", where)

    return convert


def attributes_of_the_index(work: Path, name: str) -> None:
    write(work / ".gitattributes", b"* text\n")
    git(work, "add", ".gitattributes")
    (work / ".gitattributes").unlink()


def attributes_of_the_user(work: Path, name: str) -> None:
    write(Path(os.environ["HOME"]) / ".config" / "git" / "attributes", b"* text=auto\n")


def attributes_of_a_setting(work: Path, name: str) -> None:
    write(work.parent / "attributes", b"* filter=upper\n")
    git(work, "config", "core.attributesFile", str(work.parent / "attributes"))


DOUBTS = [
    racy, old_file, touch, back_dated, replaced, change_mode, ignore_mode, skip_worktree, assume_unchanged,
    split, sparse, other_top, autocrlf("true"), autocrlf("input"), bare_autocrlf,
    attributes("* text=auto\n"), attributes("dir/* text\n"), attributes("* crlf\n"),
    attributes("* eol=lf\n"), attributes("* ident\n"), attributes("* filter=upper\n"),
    attributes("dir/* working-tree-encoding=UTF-16\n"), attributes("[attr]odd eol=crlf\n* odd\n"),
    attributes("* text\n", ".git/info/attributes", tracked=False), attributes("* text\n", tracked=False),
    attributes("f* text\n", "dir/.gitattributes"),
    attributes("f* text\n", "dir/.gitattributes", tracked=False),
    attributes_of_the_index, attributes_of_the_user, attributes_of_a_setting,
]  # fmt: skip


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.__qualname__.split(".")[0])
def test_where_anything_is_in_doubt_nothing_is_proven(work: Path, doubt: Callable[[Path, str], None]) -> None:
    """P1: each clause of docs/certainty.md §4: what breaks it leaves the file unproven."""
    name = "dir/file"
    write(work / name, b"content")
    add_all(work)
    assert set(proven(work)) == {name}
    doubt(work, name)
    assert name not in proven(work)


@pytest.mark.parametrize(
    "text", ["* -text\n", "* binary diff\n", "*.c text\n", "* text\n* !text\n", "* linguist-generated\n"]
)
def test_attributes_that_convert_nothing_are_no_doubt(work: Path, text: str) -> None:
    """Attributes that are unset, of other files, or of other things leave a file proven."""
    write(work / "dir" / "file", b"content")
    write(work / ".gitattributes", text.encode())
    add_all(work)
    assert "dir/file" in proven(work)


def test_an_entry_that_git_doubts_is_not_proven_although_its_file_is_empty(work: Path) -> None:
    """P1: git writes the size 0 over an entry whose file may have changed unseen; the object stays."""
    write(work / "file", b"")
    add_all(work)
    index = work / ".git" / "index"
    empty, other = object_of_bytes(b"", 20), object_of_bytes(b"other", 20)
    data = index.read_bytes()
    assert data.count(empty) == 1
    index.write_bytes(data.replace(empty, other))
    assert tracked(work) == {b"file": None}
    assert proven(work) == {}


def test_each_field_of_the_stat_counts(work: Path) -> None:
    """P1: a file is not proven when one field of its stat alone is another."""
    write(work / "file", b"content")
    add_all(work)
    path = work / ".git" / "index"
    found = os.lstat(work / "file")
    index = GitIndex(path.read_bytes(), with_fields(path.stat(), st_mtime_ns=2**62), 20)
    assert index.object_of(b"file", with_fields(found)) == object_of_bytes(b"content", 20)
    for fields in (
        {"st_size": found.st_size + 1},
        {"st_ino": found.st_ino + 1},
        {"st_mode": found.st_mode | 0o100},
        {"st_mode": stat.S_IFIFO | 0o644},
        {"st_mtime_ns": found.st_mtime_ns + 1},
        {"st_mtime_ns": found.st_mtime_ns + 1_000_000_000},
        {"st_ctime_ns": found.st_ctime_ns + 1},
        {"st_ctime_ns": found.st_ctime_ns + 1_000_000_000},
    ):
        assert index.object_of(b"file", with_fields(found, **fields)) is None, fields


def with_fields(found: os.stat_result, **fields: int) -> os.stat_result:
    """A stat with other values for some fields."""
    names = ("st_mode", "st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "st_size")
    values = [fields.pop(name, getattr(found, name)) for name in names]
    times = {name: fields.pop(name, getattr(found, name)) for name in ("st_mtime_ns", "st_ctime_ns")}
    assert not fields
    return os.stat_result((*values, 0, 0, 0), times)


def test_an_index_on_another_file_system_must_be_two_seconds_younger(work: Path) -> None:
    """P1: two file systems have two clocks; on one file system a nanosecond is enough."""
    write(work / "file", b"content")
    add_all(work)
    data, found = (work / ".git" / "index").read_bytes(), os.lstat(work / "file")

    def is_proven(device: int, after_ns: int) -> bool:
        written = with_fields(found, st_dev=device, st_mtime_ns=found.st_ctime_ns + after_ns)
        return GitIndex(data, written, 20).object_of(b"file", found) is not None

    assert is_proven(found.st_dev, 1)
    assert not is_proven(found.st_dev, 0)
    assert is_proven(found.st_dev + 1, 2_000_000_001)
    assert not is_proven(found.st_dev + 1, 2_000_000_000)


@pytest.mark.parametrize("stage", [0x1000, 0x2000, 0x3000])
def test_an_entry_of_a_conflict_is_not_proven(work: Path, stage: int) -> None:
    """P1: whatever its stat says."""
    write(work / "file", b"content")
    add_all(work)
    path, found = work / ".git" / "index", os.lstat(work / "file")
    data = bytearray(path.read_bytes())
    assert GitIndex(bytes(data), path.stat(), 20).object_of(b"file", found) is not None
    flags = 12 + 60  # of the first entry
    struct.pack_into(">H", data, flags, struct.unpack_from(">H", data, flags)[0] | stage)
    index = GitIndex(bytes(data), path.stat(), 20)
    assert index.object_of(b"file", found) is None
    assert index.tracked == {b"file": None}


# -- bytes that are no index -------------------------------------------------------------------


@pytest.fixture
def small(work: Path) -> tuple[bytes, os.stat_result]:
    for name in ("a", "dir/b", "dir/c"):
        write(work / name, b"content")
    add_all(work)
    git(work, "update-index", "--index-version=2")
    git(work, "write-tree")  # an extension: the trees
    path = work / ".git" / "index"
    assert b"TREE" in path.read_bytes()
    return path.read_bytes(), path.stat()


def test_a_shorter_file_is_no_index(small: tuple[bytes, os.stat_result]) -> None:
    """A file cut anywhere is no index, but for a cut that takes nothing except an extension."""
    data, found = small
    whole = GitIndex(data, found, 20)
    cut_short = 0
    for size in range(len(data)):
        try:
            assert GitIndex(data[:size], found, 20).tracked == whole.tracked  # without the extension
        except Unreadable:
            cut_short += 1
    assert cut_short == len(data) - 1
    with pytest.raises(Unreadable):
        GitIndex(data, found, 32)


def test_an_extension_that_git_may_skip_is_skipped_and_no_other(small: tuple[bytes, os.stat_result]) -> None:
    """P1: signatures in capitals may be skipped; any other means that only git understands the index."""
    data, found = small

    def extended(signature: bytes) -> GitIndex:
        return GitIndex(data[:-20] + signature + b"\0\0\0\2xy" + data[-20:], found, 20)

    assert len(extended(b"ABCD").tracked) == 3
    for signature in (b"abcd", b"link", b"sdir", b"\0BCD"):
        with pytest.raises(Unreadable):
            extended(signature)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_never_does_more_than_to_make_no_index(
    small: tuple[bytes, os.stat_result], data: st.DataObject
) -> None:
    """Any changed bytes give an index or `Unreadable`, and no other error."""
    whole, found = small
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(min_size=1, max_size=4)) + whole[at + 1 :]
    try:
        GitIndex(damaged, found, 20)
    except Unreadable:
        pass


@pytest.mark.parametrize("version", [2, 4])
def test_an_index_of_another_order_mode_or_flag_is_none(work: Path, version: int) -> None:
    """Entries that git would not write make no index."""
    for name in ("a", "b"):
        write(work / name, b"content")
    add_all(work)
    git(work, "update-index", f"--index-version={version}")
    path = work / ".git" / "index"
    data, found = path.read_bytes(), path.stat()
    GitIndex(data, found, 20)
    mode = struct.pack(">I", 0o100644)
    flags = 12 + 60  # of the first entry
    name = b"b\0" if version == 2 else b"\1b\0"
    for wrong in (
        data.replace(name, name.replace(b"b", b"a"), 1),
        data.replace(name, name.replace(b"b", b"\0"), 1),
        data.replace(mode, struct.pack(">I", 0o040000), 1),
        data[:flags] + b"\x40\1" + data[flags + 2 :],
        b"DIRC" + struct.pack(">I", 5) + data[8:],
        b"dirc" + data[4:],
    ):
        assert wrong != data
        with pytest.raises(Unreadable):
            GitIndex(wrong, found, 20)


def test_an_index_that_is_written_into_or_too_large_is_not_read(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changes while it is read, is too large, missing or no file gives None."""
    write(work / "file", b"content")
    add_all(work)
    path = os.fsencode(work / ".git" / "index")
    index = git_index.read(path, 20)
    assert index is not None
    monkeypatch.setattr(git_index, "SIZE_MAX", os.path.getsize(path) - 1)
    assert git_index.read(path, 20) is None
    monkeypatch.undo()
    read_all = git_index._read_all

    def read_and_write(fd: int, size: int) -> bytes:
        data = read_all(fd, size)
        os.utime(path, ns=(0, 0))
        return data

    monkeypatch.setattr(git_index, "_read_all", read_and_write)
    assert git_index.read(path, 20) is None
    assert git_index.read(path + b"-not-there", 20) is None
    assert git_index.read(os.fsencode(work), 20) is None
