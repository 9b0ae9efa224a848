"""What became of deferred contents is kept, reported, and goes with the events that named their list."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.blobs.ids import blob_id
from eventlog.erasure import erasure
from eventlog.gc import usage
from eventlog.retention import collection, retention
from eventlog.worktree.contents import CONTENT_SIZE_MAX
from tests.hooks.test_stored_contents import Desk
from tests.recorder.kept import a_day_passes

LARGE = CONTENT_SIZE_MAX + 1
A, B = "aaaaaaaa", "bbbbbbbb"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Session A saw one large file, session B another one; both are stored."""
    made = Desk(tmp_path)
    with made.store:
        for session, name in ((A, "a"), (B, "b")):
            made.store.append(
                [{"event_type": "session", "operation": "start", "agent": "pi", "session_id": session}]
            )
            (made.work / name).write_bytes(os.urandom(LARGE))
            made.look(agent="pi", session_id=session)
            made.store_all()
            (made.work / name).rename(made.work.parent / name)
            end = {"event_type": "session", "operation": "end", "status": "completed", "agent": "pi"}
            made.store.append([{**end, "session_id": session}])
        made.look()
        yield made


def content(desk: Desk, name: str) -> bytes:
    return blob_id((desk.work.parent / name).read_bytes())


def has(desk: Desk, name: str) -> bool:
    return bool(desk.store.blobs.locations([content(desk, name)]))


@pytest.mark.parametrize("sealed", [False, True])
def test_stored_contents_go_with_the_session_that_named_their_list(desk: Desk, sealed: bool) -> None:
    """I29, I24: of a released session the stored contents go, of another none does, and nothing is damage."""
    if sealed:
        desk.store.seal()
        desk.store.reindex()
    assert collection.plan(desk.store).freed == 0
    assert retention.archive(desk.store, A)
    plan = collection.plan(desk.store)
    assert [lost.session_id for lost in plan.lost] == [A]
    assert plan.freed > LARGE / 2
    collection.collect(desk.store, plan)
    a_day_passes(desk.store)
    collection.collect(desk.store, collection.plan(desk.store))

    assert (has(desk, "a"), has(desk, "b")) == (False, True)
    assert desk.store.verify("deep") == []


def test_a_list_that_only_the_tree_recorded_last_needs_is_kept_with_what_became_of_it(desk: Desk) -> None:
    """I24: notes of hooks are roots too, and the sentence in their tree leads to the list."""
    (desk.work / "a").write_bytes((desk.work.parent / "a").read_bytes())
    done = desk.look(agent="pi", session_id=A)
    retention.archive(desk.store, A)
    collection.collect(desk.store, collection.plan(desk.store))
    (listed,) = done.deferred
    assert desk.store.blobs.locations([listed.list_id])
    desk.store_all()
    assert has(desk, "a")
    assert desk.store.verify("deep") == []


def test_a_session_gets_the_bytes_of_what_it_deferred(desk: Desk) -> None:
    """`locus store du`: releasing it would free them."""
    with desk.store.view() as view:
        rows = {row.name: row.bytes for row in usage.by_session(desk.store.blobs, view)}
        paths = {row.name: row.bytes for row in usage.by_path(desk.store.blobs, view)}
    assert rows[A] > LARGE / 2 < rows[B]
    assert paths["a"] > LARGE / 2


def test_erasing_the_events_that_named_a_list_erases_what_became_of_it(desk: Desk) -> None:
    """The stored content, the list, its tree, and what the event says of it; the other's stays."""
    (snapshot,) = [e for e in desk.store.events(session_id=A) if e["event_type"] == "snapshot"]
    plan = erasure.plan_events(desk.store, [str(snapshot["event_id"])])
    payload = {str(e["before_hash"]): str(e["event_id"]) for e in desk.contents()}
    lists = [text for text in snapshot["blobs"] if text in payload]  # type: ignore[union-attr]
    assert [payload[text] in plan.events for text in lists] == [True]
    erasure.erase(desk.store, plan)

    assert (has(desk, "a"), has(desk, "b")) == (False, True)
    assert desk.store.verify("deep") == []


def test_erasing_a_path_reaches_its_stored_content(desk: Desk) -> None:
    """Its trees name it, those of `content` events among them."""
    erasure.erase(desk.store, erasure.plan_path(desk.store, "a"))
    assert (has(desk, "a"), has(desk, "b")) == (False, True)
    assert desk.store.verify("deep") == []
