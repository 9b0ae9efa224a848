"""A capture for a caller that waits for no content: what it reads, in which order, and what it defers."""

import os
from pathlib import Path
from typing import Any

import pytest

from eventlog.blobs.deferred import decode_list, list_of
from eventlog.checkout.materialize import walk
from eventlog.worktree import stat_all
from eventlog.worktree.capture import Capture
from eventlog.worktree.contents import CALL_BYTES_MAX, CONTENT_SIZE_MAX, Deferral, kind_of, stat_of
from eventlog.worktree.userfiles import UserFiles
from tests.worktree.support import Bench, age

LARGE = CONTENT_SIZE_MAX + 1


class Watched(UserFiles):
    """Notes which contents are opened, and does `reading` at each."""

    def __init__(self) -> None:
        self.opened: list[bytes] = []
        self.reading = lambda _name: None

    def open_file(self, dir_fd: int, name: bytes) -> int:
        self.opened.append(name)
        fd = super().open_file(dir_fd, name)
        self.reading(name)
        return fd


def write(bench: Bench, path: str, size: int, byte: bytes = b"x") -> Path:
    target = bench.work / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(byte * size)
    return target


def look(bench: Bench, *, calls: UserFiles | None = None, **of_deferral: Any) -> Capture:
    return bench.capture(deferral=Deferral(**of_deferral), calls=calls)


def deferred(done: Capture) -> set[bytes]:
    return {path for one in done.deferred for path in one.paths}


def entries(bench: Bench, done: Capture) -> dict[bytes, tuple[bytes, int, bytes]]:
    """Of each path of the tree: kind, size and what the store has for it."""
    with bench.open() as blobs:
        return {
            path: (e.kind, e.size, b"" if e.kind == b"d" else blobs.get(e.id))
            for path, e in walk(blobs, done.root)
        }


def test_what_a_tool_named_is_read_first_and_then_the_smallest(bench: Bench) -> None:
    """P4, I26: the named file before smaller ones, then by size and path; large ones are never opened."""
    for name, size in (("a", 30), ("b", 10), ("d/c", 10), ("named", 500), ("large", LARGE), ("n2", LARGE)):
        write(bench, name, size)
    calls = Watched()
    done = look(bench, calls=calls, named={b"named", b"n2"})

    assert calls.opened == [b"named", b"b", b"c", b"a"]
    assert deferred(done) == {b"large", b"n2"}
    assert not done.partial
    assert done.files == 6
    assert [row.path for row in done.new_deferred] == [b"n2", b"large"], "in the order of reading"


def test_one_call_reads_no_more_than_its_bytes(bench: Bench) -> None:
    """P4, I26: 4 MiB in all: contents that would go beyond are deferred, whatever their number."""
    count = CALL_BYTES_MAX // CONTENT_SIZE_MAX + 2
    for n in range(count):
        write(bench, f"f{n}", CONTENT_SIZE_MAX)
    done = look(bench, named={b"f5"})

    assert done.read_bytes == CALL_BYTES_MAX
    assert deferred(done) == {b"f3", b"f4"}


def test_the_clock_is_read_before_each_content(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4, I26: when time is up the rest is deferred, the named file too; names and stats are all there."""
    for n in range(4):
        write(bench, f"f{n}", 10 + n)
    now = [0.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now[0]

    def tick(_name: bytes) -> None:
        now[0] += 1

    monkeypatch.setattr(stat_all, "time", Clock)
    calls = Watched()
    calls.reading = tick
    done = bench.capture(deferral=Deferral(), calls=calls, deadline=2.0)
    assert calls.opened == [b"f0", b"f1"]
    assert (done.partial, deferred(done)) == (False, {b"f2", b"f3"})

    write(bench, "f3", 99)
    now[0] = 0.0
    calls.opened.clear()
    calls.reading = lambda _name: None
    original = calls.lstat

    def late(dir_fd: int, name: bytes) -> os.stat_result:
        found = original(dir_fd, name)
        now[0] = 2.0
        return found

    calls.lstat = late  # type: ignore[method-assign]
    done = bench.capture(deferral=Deferral({b"f3"}), calls=calls, deadline=2.0)
    assert calls.opened == []
    assert b"f3" in deferred(done)


def test_the_tree_says_which_list_has_the_stat(bench: Bench) -> None:
    """docs/certainty.md §3: entry `s` with the size, a sentence that names the list, and the list's row."""
    large = write(bench, "d/large", LARGE)
    large.chmod(0o755)
    done = look(bench)
    kind, size, sentence = entries(bench, done)[b"d/large"]
    list_id = list_of(sentence)
    assert (kind, size) == (b"s", LARGE)
    assert list_id is not None
    with bench.open() as blobs:
        (row,) = decode_list(blobs.get(list_id))

    assert (row.path, row.kind, row.stat, row.object) == (
        b"d/large", b"x", stat_of(large.lstat()), None,
    )  # fmt: skip
    assert kind_of(large.lstat()) == b"x"
    assert done.skipped == []
    assert [one.list_id for one in done.deferred] == [list_id]


@pytest.mark.parametrize("waits", [True, False])
def test_an_untouched_deferred_file_stays_the_same_entry(bench: Bench, waits: bool) -> None:
    """It is neither read nor recorded again, also where the stat cache could not prove its stat (I26)."""
    write(bench, "large", LARGE)
    write(bench, "small", 1)
    if waits:
        age(bench.work)
    first = look(bench)
    write(bench, "small", 2)
    write(bench, "another", LARGE)
    calls = Watched()
    second = look(bench, calls=calls)

    assert [(c.operation, c.path) for c in second.changes] == [("add", b"another"), ("edit", b"small")]
    assert b"large" not in calls.opened
    assert entries(bench, second)[b"large"] == entries(bench, first)[b"large"]
    assert len(second.deferred) == 2


def test_a_deferred_file_that_changed_is_reported(bench: Bench) -> None:
    """P1: another stat is another list, so the entry differs."""
    write(bench, "large", LARGE)
    first = look(bench)
    write(bench, "large", LARGE, b"y")
    second = look(bench)

    (change,) = second.changes
    assert (change.operation, change.path) == ("edit", b"large")
    assert entries(bench, second)[b"large"] != entries(bench, first)[b"large"]


def test_one_that_waits_for_contents_reads_what_others_deferred(bench: Bench) -> None:
    """I22: and tells no change for it: the file has the stat of the list."""
    write(bench, "large", LARGE)
    age(bench.work)
    look(bench)
    done = bench.capture()

    assert (done.deferred, done.changes) == ([], [])
    assert bench.tree()[b"large"] == (b"f", b"x" * LARGE)

    write(bench, "large", LARGE, b"y")
    look(bench)
    write(bench, "large", LARGE, b"z")
    age(bench.work)
    assert [change.operation for change in bench.capture().changes] == ["edit"]


def test_a_file_that_grows_while_it_is_read_is_deferred(bench: Bench) -> None:
    """A call reads at most so much of one file, however it grows."""
    grows = write(bench, "grows", 10)
    calls = Watched()
    calls.reading = lambda _name: write(bench, "grows", LARGE) and None
    done = look(bench, calls=calls)

    assert (calls.opened, deferred(done)) == ([b"grows"], {b"grows"})
    assert done.new_deferred[0].stat == stat_of(grows.lstat())


def test_a_file_that_goes_before_it_is_read_is_no_entry(bench: Bench) -> None:
    """Its directory is listed again by the next capture."""
    for name in ("d/a", "d/b"):
        write(bench, name, 10)
    age(bench.work)
    calls = Watched()
    calls.reading = lambda name: (bench.work / "d/b").unlink() if name == b"a" else None
    done = look(bench, calls=calls)
    assert set(entries(bench, done)) == {b"d", b"d/a"}

    write(bench, "d/b", 20)
    assert [(c.operation, c.path) for c in look(bench).changes] == [("add", b"d/b")]


def test_a_file_above_the_limit_is_skipped_and_not_deferred(bench: Bench) -> None:
    """What is never stored is no content that waits to be stored."""
    write(bench, "huge", 50)
    done = bench.capture(deferral=Deferral(), size_max=40)

    assert done.deferred == []
    assert done.skipped == [(b"huge", "it is larger than 40 bytes")]
