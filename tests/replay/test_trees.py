"""The tree of a turn at its start, its end, and after each of its events."""

import os
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import NotFound, NoTree, Refused
from eventlog.base.types import Event
from eventlog.blobs.ids import to_text
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, FILE, SKIPPED, SUBMODULE, SYMLINK, TreeEntry
from eventlog.recorder import lifecycle
from eventlog.replay.trees import TreeState, tree_at
from eventlog.store import Store

Files = dict[bytes, bytes]


class Turn:
    """A turn under construction; events get readable ids."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.events: list[Event] = [lifecycle.turn_start("s1", 1, "go", event_id="start")]

    def snapshot(self, id: str, files: Files | None, kind: str = lifecycle.TURN_START) -> "Turn":
        tree = None if files is None else to_text(self.tree(files))
        self.events.append(lifecycle.snapshot("s1", 1, kind, tree, event_id=id))  # type: ignore[arg-type]
        return self

    def file(self, id: str, path: str, operation: str, content: bytes | None, **extra: Any) -> "Turn":
        after = None if content is None else to_text(self.blob(content))
        columns = {"after_hash": after, **extra.pop("columns", {})}
        size = None if content is None else len(content)
        payload = {"after_size": size, **extra}
        self.events.append(lifecycle.file("s1", 1, path, operation, payload=payload, event_id=id, **columns))
        return self

    def blob(self, data: bytes) -> bytes:
        with self.store.blobs.writer() as writer:
            id = writer.put(data)
            writer.flush()
        return id

    def tree(self, files: Files) -> bytes:
        folders: dict[bytes, Files] = {}
        with self.store.blobs.writer() as writer:
            entries = []
            for path, data in files.items():
                folder, slash, rest = path.partition(b"/")
                if slash:
                    folders.setdefault(folder, {})[rest] = data
                else:
                    entries.append(TreeEntry(path, FILE, writer.put(data), len(data)))
            writer.flush()
        entries += [TreeEntry(folder, DIRECTORY, self.tree(below)) for folder, below in folders.items()]
        with self.store.blobs.writer() as writer:
            id = writer.put_tree(entries)
            writer.flush()
        return id

    def at(self, at: str = "end") -> TreeState:
        return tree_at(self.events, self.store.blobs, "s1_001", at)


def files_of(state: TreeState) -> Files:
    return {path: state.blobs.get(e.id) for path, e in state.walk() if e.kind not in (DIRECTORY, SUBMODULE)}


@pytest.fixture
def turn(store: Store) -> Turn:
    return Turn(store)


def test_start_and_end_are_the_first_and_the_last_snapshot(turn: Turn) -> None:
    """P1, S1-36, S1-37: start is the first snapshot, end the last one."""
    turn.snapshot("s", {b"a": b"1"}).file("f", "a", "edit", b"2").snapshot("e", {b"a": b"2", b"b": b"3"})

    assert files_of(turn.at("start")) == {b"a": b"1"}
    assert files_of(turn.at("end")) == {b"a": b"2", b"b": b"3"}
    assert (turn.at("end").snapshot, turn.at("end").applied) == ("e", ())


def test_every_event_has_its_own_tree(turn: Turn) -> None:
    """P1, S1-45: at an event, the snapshot before it and the file events up to it make the tree."""
    turn.snapshot("s", {b"a": b"1", b"d/x": b"x"})
    turn.file("add", "d/y", "add", b"y").file("edit", "a", "edit", b"2")
    turn.file("move", "z", "rename", b"x2", old_path="d/x").file("del", "d/y", "delete", None)

    expected: dict[str, Files] = {
        "s": {b"a": b"1", b"d/x": b"x"},
        "add": {b"a": b"1", b"d/x": b"x", b"d/y": b"y"},
        "edit": {b"a": b"2", b"d/x": b"x", b"d/y": b"y"},
        "move": {b"a": b"2", b"d/y": b"y", b"z": b"x2"},
        "del": {b"a": b"2", b"z": b"x2"},
    }
    assert {at: files_of(turn.at(at)) for at in expected} == expected
    assert turn.at("edit").applied == ("add", "edit")


def test_a_turn_without_an_end_snapshot_ends_after_its_events(turn: Turn) -> None:
    """S1-45: a turn's state is its snapshot and its file events, if no second snapshot was made."""
    turn.snapshot("s", {b"a": b"1"}).file("f", "b", "add", b"2")

    assert files_of(turn.at()) == {b"a": b"1", b"b": b"2"}


def test_modes_come_from_the_event_or_stay(turn: Turn) -> None:
    """P1: `after_mode` decides between file, executable and symlink; without it the kind stays."""
    turn.snapshot("s", {b"a": b"1"})
    turn.file("x", "a", "edit", b"2", after_mode="100755").file("y", "a", "edit", b"3")
    turn.file("l", "link", "add", b"a", after_mode="120000")

    state = turn.at()
    assert {path: entry.kind for path, entry in state.walk()} == {b"a": b"x", b"link": SYMLINK}
    assert state.entry("a").size == 1


def test_what_was_not_captured_is_listed_and_left_out(turn: Turn) -> None:
    """P1, P7: an event without content takes the path away and says why, until the path is known again."""
    turn.snapshot("s", {b"a": b"1"})
    turn.file("lost", "a", "edit", None, skipped="too large")
    turn.file("other", "b", "add", None, columns={"after_hash": "sha256:00"})
    turn.file("again", "a", "edit", b"2")

    assert files_of(turn.at("lost")) == {}
    assert turn.at("lost").missing == (("a", "too large"),)
    with pytest.raises(NotFound, match="too large"):
        turn.at("lost").file("a")
    assert [path for path, _ in turn.at("again").missing] == ["b"]
    assert files_of(turn.at("again")) == {b"a": b"2"}


@pytest.mark.parametrize(
    "path", ["../up", "/etc/passwd", ".git/config", ".locus/x", "a/.locus/STORE", '"broken', ""]
)
def test_a_path_that_leads_out_is_never_followed(turn: Turn, path: str, tmp_path: Path) -> None:
    """I28: a file event may hold any text as its path; one that no tree may hold is listed, not written."""
    turn.snapshot("s", {b"a": b"1"}).file("f", path, "add", b"evil")
    report = turn.at().materialize(str(tmp_path / "out"))

    assert files_of(turn.at()) == {b"a": b"1"}
    assert os.listdir(tmp_path / "out") == ["a"]
    assert [name for name, _ in report.missing if name != b"."] == [path.encode()]


def test_replay_writes_the_tree_of_an_event(turn: Turn, tmp_path: Path) -> None:
    """P1: trees that exist in no pack are written out like stored ones, whole or by path."""
    turn.snapshot("s", {b"d/a": b"1", b"b": b"2"}).file("f", "d/c", "add", b"3").file(
        "g", "gone", "add", None
    )
    report = turn.at().materialize(str(tmp_path / "all"))
    turn.at().materialize(str(tmp_path / "one"), paths=["d/c"])

    assert sorted(os.listdir(tmp_path / "all" / "d")) == ["a", "c"]
    assert (tmp_path / "one" / "d" / "c").read_bytes() == b"3"
    assert os.listdir(tmp_path / "one") == ["d"]
    assert [path for path, _ in report.missing] == [b".", b"gone"]  # the turn has no end


def test_one_file_of_a_turn(turn: Turn) -> None:
    """S1-45: the bytes of one path; a directory is refused and an unknown path not found."""
    turn.snapshot("s", {b"d/a": b"1"})

    assert turn.at().file("d/a") == b"1"
    with pytest.raises(Refused):
        turn.at().file("d")
    with pytest.raises(NotFound, match="no such path"):
        turn.at().file("d/b")


def test_a_skipped_file_says_why(store: Store, turn: Turn) -> None:
    """P1: asking for a file that a snapshot skipped gives the reason."""
    with store.blobs.writer() as writer:
        root = writer.put_tree([TreeEntry(b"big", SKIPPED, writer.put(b"over the limit"), 9)])
        writer.flush()
    turn.events.append(lifecycle.snapshot("s1", 1, lifecycle.TURN_START, to_text(root), event_id="s"))

    with pytest.raises(NotFound, match="over the limit"):
        turn.at().file("big")


def test_without_a_tree_nothing_is_made_up(turn: Turn) -> None:
    """P1, P7: where no capture was finished by a moment, the files are those of the next one, and none is
    sure; a turn without any tree has none, and says so; an unknown event is not found."""
    turn.snapshot("s", None)
    for at in ("start", "end", "s"):
        with pytest.raises(NoTree, match="no tree was recorded in this turn"):
            turn.at(at)
    turn.snapshot("e", {b"a": b"1"}, lifecycle.TURN_END)

    assert files_of(turn.at("end")) == {b"a": b"1"} and turn.at("end").certainty.exact
    for at in ("start", "s"):
        state = turn.at(at)
        assert (files_of(state), state.certainty.state) == ({b"a": b"1"}, "failed")
        assert state.certainty.doubt("a") is not None
    with pytest.raises(NotFound, match="no event"):
        turn.at("nowhere")


def test_emptied_directories_stay_in_a_working_tree_and_go_in_git(turn: Turn) -> None:
    """P1: deleting the last file of a directory leaves it on disk; in a git history it is gone."""
    turn.snapshot("s", {b"d/a": b"1"}).file("f", "d/a", "delete", None)
    assert [path for path, _ in turn.at().walk()] == [b"d"]

    turn.events[-1]["agent"] = "git"
    assert [path for path, _ in turn.at().walk()] == []


def test_file_events_of_a_commit_may_come_in_any_order(turn: Turn) -> None:
    """P1: a file that gives way to a folder and the other way round, in either order of events."""
    git: dict[str, Any] = {"columns": {"agent": "git"}}
    turn.snapshot("s", {b"a": b"1", b"c/x": b"2"})
    turn.file("1", "a/b", "add", b"3", **git).file("2", "a", "delete", None, columns={"agent": "git"})
    turn.file("3", "c", "rename", b"2", old_path="c/x", columns={"agent": "git"})

    assert files_of(turn.at()) == {b"a/b": b"3", b"c": b"2"}


def test_a_walk_reads_nothing_but_trees(turn: Turn, store: Store) -> None:
    """P1: listing a tree needs no file content, so it works where a content was erased."""
    with store.blobs.writer() as writer:
        root = writer.put_tree([TreeEntry(b"erased", FILE, bytes(32), 5)])
        writer.flush()
    turn.events.append(lifecycle.snapshot("s1", 1, lifecycle.TURN_START, to_text(root), event_id="s"))

    assert [path for path, _ in turn.at().walk()] == [b"erased"]
    assert isinstance(turn.at().blobs, BlobStore)
