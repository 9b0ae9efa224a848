"""Deferred contents as every reader sees them: stored since, held by git, lost, or still open (P1)."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import NotFound
from eventlog.blobs.deferred import encode_list, sentence_of
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.tree import EXECUTABLE, FILE, SKIPPED, TreeEntry
from eventlog.doctor.completeness import skipped_in
from eventlog.recorder import lifecycle
from eventlog.replay.compare import compare
from eventlog.replay.trees import TreeState, tree_at
from eventlog.store import Store
from tests.blobs.support import Node, put_node
from tests.worktree.support import git

SECRET = b"token = ghp_" + b"a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8" + b"\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(
        tmp_path / "work/.locus", repo_hash="0123456789ab", project_name="p", force=True
    ) as store:
        yield store


@pytest.fixture(autouse=True)
def _work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    return work


def object_of(work: Path, content: bytes) -> bytes:
    """Let git hold a content."""
    done = subprocess.run(
        ["git", "-C", str(work), "hash-object", "-w", "--stdin"],
        input=content,
        capture_output=True,
        check=True,
    )
    return bytes.fromhex(done.stdout.decode().strip())


def deferring(store: Store, **files: bytes | None) -> tuple[str, str]:
    """Record a turn whose only capture deferred these files; `git` objects by path, None where git holds
    none. Its name, and the list."""
    with store.blobs.writer() as writer:
        rows = [(name.encode(), FILE, 9, 1, 2, 3, object) for name, object in files.items()]
        list_id = writer.put(encode_list(rows))
        sentence = writer.put(sentence_of(list_id))
        entries = [TreeEntry(name.encode(), SKIPPED, sentence, 9) for name in files]
        root = to_text(writer.put_tree([TreeEntry(b"kept", FILE, writer.put(b"kept\n"), 5), *entries]))
        writer.flush()
    capture = {"deferred": len(files), "lists": [to_text(list_id)]}
    event = lifecycle.snapshot("s1", 1, lifecycle.TURN_END, root)
    event |= {"success": True, "blobs": [root, to_text(list_id)]}
    event["payload"] = {**event["payload"], "capture": capture}  # type: ignore[dict-item]
    store.append([lifecycle.turn_start("s1", 1, "go"), event])
    return "s1_001", to_text(list_id)


def became(store: Store, list_id: str, stored: Node, lost: list[list[str]]) -> None:
    """What the process that stores contents says of a list."""
    with store.blobs.writer() as writer:
        tree = to_text(put_node(writer, stored))
        writer.flush()
    event: dict[str, Any] = {
        "event_type": "content", "event_kind": "fact", "source": "system", "operation": "stored",
        "before_hash": list_id, "tree_hash": tree, "blobs": [list_id, tree],
        "payload": {"count": len(stored), "lost": lost},
    }  # fmt: skip
    store.append([event])


def shown(state: TreeState) -> dict[bytes, bytes]:
    return {path: entry.kind for path, entry in state.walk()}


def test_what_became_of_a_deferred_content_is_what_readers_see(store: Store, tmp_path: Path) -> None:
    """P1, docs/certainty.md §3: an open content is named and left out; the stored one is there as if it
    had always; a lost one is named with the reason."""
    turn, list_id = deferring(store, big=None, gone=None, later=None)
    assert [path for path, _ in store.certainty(turn).paths] == ["big", "gone", "later"]
    assert shown(store.tree(turn)) == {b"kept": FILE, b"big": SKIPPED, b"gone": SKIPPED, b"later": SKIPPED}
    became(store, list_id, {b"big": (EXECUTABLE, b"big\n")}, [["gone", "it changed before it was read"]])

    state = store.tree(turn)
    assert (state.file("big"), state.entry("big").kind) == (b"big\n", EXECUTABLE)
    assert state.certainty.state == "partial"
    assert dict(state.certainty.paths) == {
        "gone": "its content was deferred, and could not be stored: it changed before it was read",
        "later": "its content was deferred, and has not been stored yet",
    }
    with pytest.raises(NotFound, match="changed before it was read"):
        state.file("gone")
    report = store.replay(turn, tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["big", "kept"]
    assert [path for path, _ in report.skipped] == [b"gone", b"later"]
    rows = store.query(
        "select path, kind, content_hash, doubt is null from tree_at('last') order by path"
    ).rows
    assert rows[0] == ("big", "executable", to_text(blob_id(b"big\n")), True)
    assert [row[1:] for row in rows[1:]] == [
        ("skipped", None, False), ("file", to_text(blob_id(b"kept\n")), True), ("skipped", None, False),
    ]  # fmt: skip
    left_out = skipped_in(store, store.tree(turn).tree_hash)
    assert left_out is not None and [one.path for one in left_out] == ["gone", "later"]
    became(store, list_id, {b"gone": (FILE, b"found\n"), b"later": (FILE, b"l\n")}, [])
    assert store.certainty(turn).exact
    assert store.file(turn, "gone") == b"found\n"


def test_a_deferred_content_and_its_stored_one_are_no_change(store: Store, _work: Path) -> None:
    """P1: neither is the one that git holds; what differs is a change."""
    turn, _ = deferring(store, same=object_of(_work, b"123456789"), other=object_of(_work, b"987654321"))
    with store.blobs.writer() as writer:
        node: Node = {b"kept": (FILE, b"kept\n"), b"same": (FILE, b"123456789"), b"other": (FILE, b"x")}
        root = to_text(put_node(writer, node))
        writer.flush()
    later = tree_at(
        [lifecycle.snapshot("s1", 2, lifecycle.TURN_END, root, event_id="l")], store.blobs, "s1_002"
    )
    found = compare(store.tree(turn), later)

    assert [(one.operation, one.path) for one in found.changes] == [("edit", b"other")]
    assert found.missing == ()
    assert found.changes[0].before is not None and found.changes[0].before.id == blob_id(b"987654321")


def test_contents_of_git_are_replayed_restored_and_withheld(
    store: Store, _work: Path, tmp_path: Path
) -> None:
    """P1, P5: what git holds is written byte for byte, and a secret in it is not shown."""
    turn, _ = deferring(store, a=object_of(_work, b"a\n"), s=object_of(_work, SECRET))
    assert store.certainty(turn).exact
    report = store.replay(turn, tmp_path / "out")
    assert not report.missing and not report.skipped
    assert {name: (tmp_path / "out" / name).read_bytes() for name in os.listdir(tmp_path / "out")} == {
        "a": b"a\n", "kept": b"kept\n", "s": SECRET,
    }  # fmt: skip
    assert store.query("select file_at('a', 'last'), file_at('s', 'last')").rows == [("a\n", None)]
    assert store.file(turn, "s") == SECRET
    assert to_text(blob_id(SECRET)) in store.withheld()

    into = tmp_path / "into"
    into.mkdir()
    done = store.restore(store.restore_plan(turn, into=into))
    assert done.done == 3 and (into / "a").read_bytes() == b"a\n"
    with Store.open(store.layout.root) as other:
        assert other.blob(to_text(blob_id(b"a\n"))) == b"a\n"  # a recovery needs no git


def test_what_git_does_not_hold_any_more_is_named(store: Store, tmp_path: Path) -> None:
    """P1: an object that was collected, or is not what it says, is listed with the reason, in each reader."""
    turn, _ = deferring(store, a=bytes(20))
    report = store.replay(turn, tmp_path / "out")

    assert [(path, b"git does not hold" in why.encode()) for path, why in report.missing] == [(b"a", True)]
    with pytest.raises(NotFound, match="git does not hold"):
        store.file(turn, "a")
    into = tmp_path / "into"
    into.mkdir()
    plan = store.restore_plan(turn, into=into)
    assert [path for path, _ in plan.missing] == [b"a"] and plan.partial


def test_one_directory_under_two_names_holds_two_things(store: Store) -> None:
    """P1: what an entry is depends on its path; equal directories of one capture may defer two things."""
    with store.blobs.writer() as writer:
        list_id = writer.put(
            encode_list([(b"one/f", FILE, 1, 1, 1, 1, None), (b"two/f", FILE, 1, 1, 1, 2, None)])
        )
        inner = writer.put_tree([TreeEntry(b"f", SKIPPED, writer.put(sentence_of(list_id)), 1)])
        root = to_text(writer.put_tree([TreeEntry(name, b"d", inner) for name in (b"one", b"two")]))
        writer.flush()
    event = lifecycle.snapshot("s1", 1, lifecycle.TURN_END, root)
    event["payload"] = {"capture": {"lists": [to_text(list_id)]}}
    store.append([lifecycle.turn_start("s1", 1, "go"), event])
    became(store, to_text(list_id), {b"one": {b"f": (FILE, b"1")}, b"two": {b"f": (FILE, b"2")}}, [])

    assert (store.file("last", "one/f"), store.file("last", "two/f")) == (b"1", b"2")
    assert store.query("select file_at('one/f', 'last'), file_at('two/f', 'last')").rows == [("1", "2")]


def test_a_change_to_a_deferred_content_is_applied(store: Store) -> None:
    """P1: a file event names the list of a content that was not stored when it was recorded."""
    _, list_id = deferring(store, big=None)
    with store.blobs.writer() as writer:
        root = to_text(put_node(writer, {b"kept": (FILE, b"kept\n")}))
        writer.flush()
    event = lifecycle.file("s1", 2, "big", "add", payload={"deferred": list_id, "after_size": 9})
    store.append([lifecycle.snapshot("s1", 2, lifecycle.TURN_START, root), event])
    assert shown(store.tree("s1_002"))[b"big"] == SKIPPED
    became(store, list_id, {b"big": (FILE, b"123456789")}, [])

    assert store.file("s1_002", "big") == b"123456789"
