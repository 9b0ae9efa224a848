"""The versions of one file, as the log tells them."""

from typing import Any

import pytest

from eventlog import Recorder
from eventlog.replay.history import lineage
from eventlog.store import Store
from tests.older import append_as_before

END = (2**63 - 1, 0, 0)


def move(turn: Any, old: str, new: str, content: bytes, after: bytes | None = None) -> None:
    turn.file(
        new,
        before=content,
        after=content if after is None else after,
        operation="rename",
        payload={"old_path": old},
    )


def versions_of(
    store: Store, path: str, limit: int | None = None
) -> list[tuple[str | None, str, str | None]]:
    return [(v.operation, v.path, v.old_path) for v in store.history(path, limit=limit)]


def test_versions_come_newest_first_with_their_turn(store: Store) -> None:
    """S1-55: every version with turn, operation, hashes, line counts and the turn's prompt."""
    recorder = Recorder(store, agent="probe")
    first = recorder.start_turn("Make a list")
    first.file("list.txt", before=None, after=b"one\ntwo\n")
    first.file("other.txt", before=None, after=b"x")
    first.end(title="The list", outcome="done")
    second = recorder.start_turn("Shorten the list")
    second.file("list.txt", before=b"one\ntwo\n", after=b"two\n")
    second.file("list.txt", before=None, after=None, operation="read")
    second.file("list.txt", before=b"two\n", after=None)
    second.end(title="Shorter", outcome="done")
    deleted, edited, added = store.history("list.txt")

    assert [(v.turn, v.operation, v.title, v.user_request) for v in (deleted, edited, added)] == [
        (2, "delete", "Shorter", "Shorten the list"),
        (2, "edit", "Shorter", "Shorten the list"),
        (1, "add", "The list", "Make a list"),
    ]
    assert [(v.lines_added, v.lines_removed) for v in (deleted, edited, added)] == [(0, 1), (0, 1), (2, 0)]
    assert deleted.position > edited.position > added.position
    assert edited.before_hash == added.after_hash and store.blob(str(edited.after_hash)) == b"two\n"
    assert added.turn_name == first.ref.name and added.at is not None
    assert store.history("nothing") == []


def test_history_follows_renames_back(store: Store) -> None:
    """S1-55: versions under the names the file had before belong to it; what came to those names later
    does not, and what left this path is reported."""
    turn = Recorder(store, agent="probe").start_turn("Move things")
    turn.file("a", before=None, after=b"1\n")
    move(turn, "a", "b", b"1\n")
    turn.file("a", before=None, after=b"another\n")
    turn.file("b", before=b"1\n", after=b"2\n")
    move(turn, "b", "dir/c", b"2\n", b"3\n")
    turn.file("b", before=None, after=b"later\n")

    assert versions_of(store, "dir/c") == [
        ("rename", "dir/c", "b"),
        ("edit", "b", None),
        ("rename", "b", "a"),
        ("add", "a", None),
    ]
    assert versions_of(store, "a") == [("add", "a", None), ("rename", "b", "a"), ("add", "a", None)]
    assert versions_of(store, "b")[:2] == [("add", "b", None), ("rename", "dir/c", "b")]
    assert versions_of(store, "dir/c", limit=2) == [("rename", "dir/c", "b"), ("edit", "b", None)]


@pytest.mark.slow
def test_history_is_the_same_after_sealing(store: Store) -> None:
    """I14, I21: sealed or not, with an index or without, the versions are the same."""
    turn = Recorder(store, agent="probe").start_turn("Move things")
    turn.file("a", before=None, after=b"1\n")
    move(turn, "a", "b", b"1\n")
    before = store.history("b")
    store.seal()
    store.rebuild()
    turn.file("b", before=b"1\n", after=b"2\n")

    assert store.history("b")[1:] == before
    assert len(before) == 2


def test_unknown_stays_unknown(store: Store) -> None:
    """P7: without both contents, or with a binary one, line counts are unknown; nothing is made up."""
    turn = Recorder(store, agent="probe").start_turn("Odd ones")
    turn.file("f", before=None, after=b"x\n", operation="edit")
    turn.file("f", before=b"x\n", after=b"\0")
    turn.event("file", {}, path="f", operation="edit", after_hash="sha256:00", before_hash="sha256:01")
    lost = {"event_type": "file", "path": "f", "operation": "edit", "after_hash": "blake3:" + "0" * 64}
    append_as_before(store, [{**turn.placed(), **lost, "session_id": turn.ref.session_id}])

    assert [(v.lines_added, v.lines_removed) for v in store.history("f")] == [(None, None)] * 4


def test_a_name_may_be_used_in_a_circle() -> None:
    """S1-55: renames in a circle, and two files that took one name in turn, end and are reported once
    each."""
    a, b, c, d = ((n, 0, 0) for n in (2, 4, 6, 9))
    assert lineage("a", [(c, "b", "a"), (b, "a", "b"), (a, "b", "a")]) == {"a": END, "b": c}
    assert lineage("c", [(d, "b", "c"), (b, "a", "c"), (c, "x", "a")]) == {"c": END, "b": d, "a": b}
    assert lineage("c", [(d, "b", "c"), (b, "a", "b"), (a, "y", "a")]) == {"c": END, "b": d, "a": b, "y": a}


def test_a_path_is_no_pattern_and_no_sql(store: Store) -> None:
    """P8: quotes, percent signs and the like in a path mean themselves."""
    turn = Recorder(store, agent="probe").start_turn("Odd names")
    for name in ("it's", "100%", "a_b", '"caf\\351"', "a;b", "ä"):
        turn.file(name, before=None, after=b"1\n")
    turn.file("axb", before=None, after=b"1\n")

    for name in ("it's", "100%", "a_b", '"caf\\351"', "a;b", "ä"):
        assert versions_of(store, name) == [("add", name, None)]
