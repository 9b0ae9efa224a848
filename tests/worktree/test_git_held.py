"""A first capture of a repository reads nothing that git holds, and nothing else is left unread."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.layout import Layout
from eventlog.blobs.deferred import DeferredFile, decode_list
from eventlog.checkout.materialize import walk
from eventlog.worktree import git, git_held, scan
from eventlog.worktree.capture import Capture
from eventlog.worktree.contents import Deferral
from eventlog.worktree.userfiles import UserFiles
from tests.worktree.support import Bench, age, bench_of_git, on_disk
from tests.worktree.test_git_index import object_of_bytes, write


@pytest.fixture
def bench(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(git_held, "READ_FILES_MAX", 0)
    monkeypatch.setattr(git_held, "READ_BYTES_MAX", 0)
    bench = bench_of_git(layout, tmp_path, monkeypatch)
    for name in ("top", "dir/one", "dir/two", "dir/deep/three", "other/run"):
        write(bench.work / name, name.encode() * 5)
    (bench.work / "other" / "run").chmod(0o755)
    (bench.work / "link").symlink_to("top")
    return bench


TRACKED = {"top", "dir/one", "dir/two", "dir/deep/three", "other/run"}


def commit(bench: Bench) -> None:
    age(bench.work)
    bench.git("add", "-A")
    bench.git("commit", "-qm", "all")


def look(bench: Bench, **options: Any) -> Capture:
    """A capture as a hook makes it."""
    return bench.capture(deferral=Deferral(), **options)


def held(bench: Bench, done: Capture) -> dict[str, DeferredFile]:
    """The rows of the list of what git holds. They are compared with the files."""
    with bench.open() as blobs:
        lists = [decode_list(blobs.get(one.list_id)) for one in done.deferred if one.in_git]
        entries = dict(walk(blobs, done.root))
    assert len(lists) <= 1
    rows = {os.fsdecode(row.path): row for row in (lists[0] if lists else ())}
    assert sorted(rows) == sorted(os.fsdecode(p) for one in done.deferred if one.in_git for p in one.paths)
    for path, row in rows.items():
        file = bench.work / path
        found = file.lstat()
        assert row.object == object_of_bytes(file.read_bytes(), 20)
        assert row.kind == (b"x" if found.st_mode & 0o100 else b"f")
        assert row.stat == (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        assert (entries[row.path].kind, entries[row.path].size) == (b"s", row.size)
    return rows


def test_what_git_holds_is_listed_and_not_read(bench: Bench) -> None:
    """Files that git holds are listed with its objects; edited, untracked and other ones are read."""
    write(bench.work / ".gitignore", b"hidden\n")
    commit(bench)
    write(bench.work / "dir" / "two", b"edited")
    write(bench.work / "untracked", b"new")
    write(bench.work / "hidden", b"ignored")
    done = look(bench)
    assert set(held(bench, done)) == TRACKED - {"dir/two"} | {".gitignore"}
    assert done.read_files == 2 and not done.new_deferred and not done.partial
    tree = bench.tree()
    assert {path: tree[path] for path in (b"dir/two", b"untracked", b"link")} == {
        b"dir/two": (b"f", b"edited"),
        b"untracked": (b"f", b"new"),
        b"link": (b"l", b"top"),
    }
    assert set(tree) == set(on_disk(bench.work)) - {b"hidden"}


def test_the_next_capture_knows_what_git_held(bench: Bench) -> None:
    """What was listed is unchanged in the next capture, and an edit of it is a change."""
    commit(bench)
    first = look(bench)
    assert set(held(bench, first)) == TRACKED
    again = look(bench)
    assert (again.root, again.changes, again.read_files) == (first.root, [], 0)
    write(bench.work / "dir" / "one", b"edited")
    after = look(bench)
    assert [change.path for change in after.changes] == [b"dir/one"]
    with bench.open() as blobs:
        assert blobs.get(dict(walk(blobs, after.root))[b"dir/one"].id) == b"edited"


@pytest.mark.parametrize(("files", "size", "is_read"), [(5, 200, True), (4, 200, False), (5, 199, False)])
def test_a_few_small_files_are_read_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, files: int, size: int, is_read: bool
) -> None:
    """Up to a number of files and of bytes nothing is left to git, and no process is needed to store it."""
    commit(bench)
    assert sum((bench.work / name).stat().st_size for name in TRACKED) == 200
    monkeypatch.setattr(git_held, "READ_FILES_MAX", files)
    monkeypatch.setattr(git_held, "READ_BYTES_MAX", size)
    done = look(bench)
    assert set(held(bench, done)) == (set() if is_read else TRACKED)
    if is_read:
        assert (done.deferred, bench.tree()) == ([], on_disk(bench.work))


def test_a_caller_that_does_not_defer_gets_the_contents(bench: Bench) -> None:
    """A capture that waits for contents reads what git holds, too."""
    commit(bench)
    bench.capture()
    assert bench.tree() == on_disk(bench.work)


def test_a_file_above_the_limit_is_skipped_although_git_holds_it(bench: Bench) -> None:
    """P1: a file above the limit of sizes stays out, as in any later capture."""
    write(bench.work / "large", b"x" * 100)
    commit(bench)
    done = look(bench, size_max=99)
    assert set(held(bench, done)) == TRACKED
    assert [path for path, _ in done.skipped] == [b"large"]


def test_an_object_that_is_gone_or_has_another_size_is_not_relied_on(bench: Bench) -> None:
    """P1: what converted a file when it was added may be set no more."""
    write(bench.work / "lines", b"one\r\ntwo\r\n")
    bench.git("config", "core.autocrlf", "true")
    commit(bench)
    bench.git("config", "core.autocrlf", "false")
    object = object_of_bytes((bench.work / "dir" / "one").read_bytes(), 20).hex()
    (bench.work / ".git" / "objects" / object[:2] / object[2:]).unlink()
    done = look(bench)
    assert set(held(bench, done)) == TRACKED - {"dir/one"}
    assert bench.tree()[b"lines"] == (b"f", b"one\r\ntwo\r\n")
    assert bench.tree()[b"dir/one"] == (b"f", b"dir/one" * 5)


def test_attributes_that_git_does_not_track_count_below_them(bench: Bench) -> None:
    """P1: below an untracked attributes file nothing is held by git."""
    commit(bench)
    write(bench.work / "dir" / ".gitattributes", b"one text\n")
    assert set(held(bench, look(bench))) == {"top", "other/run"}


def test_attributes_that_git_tracks_are_asked_for(bench: Bench) -> None:
    """Of tracked attributes git says which files they concern."""
    write(bench.work / "dir" / ".gitattributes", b"one text\n")
    commit(bench)
    assert set(held(bench, look(bench))) == TRACKED - {"dir/one"} | {"dir/.gitattributes"}


@pytest.mark.parametrize("question", ["check-attr", "cat-file"])
def test_where_git_does_not_answer_everything_is_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """When a question about attributes or objects fails, nothing counts as held."""
    write(bench.work / ".gitattributes", b"*.bin -text\n")
    commit(bench)
    run = git.run

    def failing(root: bytes, args: list[str], *rest: Any, **options: Any) -> tuple[int, bytes]:
        if question in args:
            raise git.GitFailed("it did not answer")
        return run(root, args, *rest, **options)

    monkeypatch.setattr(git, "run", failing)
    done = look(bench)
    assert held(bench, done) == {} and not done.partial
    assert bench.tree() == on_disk(bench.work)


def test_an_answer_that_is_cut_short_is_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer answers than questions are no answer: no file is left out for it."""
    commit(bench)
    run = git.run

    def shortened(root: bytes, args: list[str], *rest: Any, **options: Any) -> tuple[int, bytes]:
        code, answer = run(root, args, *rest, **options)
        return code, answer[: answer.find(b"\n") + 1] if "cat-file" in args else answer

    monkeypatch.setattr(git, "run", shortened)
    assert held(bench, look(bench)) == {}
    assert bench.tree() == on_disk(bench.work)


def test_a_file_that_goes_meanwhile_is_left_out(bench: Bench) -> None:
    """A file that goes between the listing and its stat is not in the tree."""
    commit(bench)

    class Going(UserFiles):
        def lstat(self, dir_fd: int, name: bytes) -> os.stat_result:
            if name == b"two":
                (bench.work / "dir" / "two").unlink(missing_ok=True)
            return super().lstat(dir_fd, name)

    done = look(bench, calls=Going())
    assert set(held(bench, done)) == TRACKED - {"dir/two"}
    assert b"dir/two" not in bench.tree()


def test_at_the_deadline_nothing_more_is_compared(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names that were not reached are pending, and the next capture takes them."""
    commit(bench)
    monkeypatch.setattr(git_held, "_STRIDE", 1)
    now = time.monotonic()
    passed = [0]

    def late(_deadline: float) -> bool:
        passed[0] += 1
        return passed[0] > 4

    for module in (scan, git_held):
        monkeypatch.setattr(module, "is_late", late)
    done = look(bench, deadline=now + 1000)
    assert done.partial and done.pending_count
    assert set(held(bench, done)) < TRACKED
    monkeypatch.undo()
    again = look(bench)
    assert not again.partial
    assert set(bench.tree()) == set(on_disk(bench.work))
