"""What is kept and what goes: releases, pins, rules, collection in two steps (docs/maintenance.md §4, §5)."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from eventlog.base.errors import NotFound, Refused
from eventlog.base.types import Event
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.tree import DIRECTORY, FILE, TreeEntry
from eventlog.gc.collect import plan_collection
from eventlog.gc.live_contents import live_ids
from eventlog.log.retained import retention_in
from eventlog.retention import collection, retention
from eventlog.store import Store
from tests.recorder.kept import Files, a_day_passes, files_of, make_store, pack_bytes, record, replayed

A, B, C = "aaaaaaaa", "bbbbbbbb", "cccccccc"
DAY_NS = 24 * 3600 * 10**9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with make_store(tmp_path) as made:
        yield made


def configure(store: Store, text: str) -> None:
    Path(store.layout.config_file).write_text(f"[retention]\n{text}\n")


def collect(store: Store) -> collection.Collected:
    return collection.collect(store, collection.plan(store))


def collect_whole(store: Store) -> None:
    """Both phases: condemned now, unlinked a day later."""
    collect(store)
    a_day_passes(store)
    collect(store)


def ids(store: Store) -> set[bytes]:
    return {id for tables in store.blobs.tables() for id in tables.ids()}


def released(store: Store) -> dict[str, str]:
    with store.view() as view:
        return {session: one.rule for session, one in retention_in(view).released.items()}


def all_replay(store: Store, told: dict[str, Files], to: Path) -> None:
    for turn, files in told.items():
        assert replayed(store, turn, to / turn) == files


@pytest.mark.parametrize(("sealed", "repacked"), [(False, False), (True, True)])
def test_kept_sessions_replay_after_another_was_collected(
    store: Store, tmp_path: Path, sealed: bool, repacked: bool
) -> None:
    """I24, I29, S1-46: what only the released session needs goes, no more; all others replay exactly."""
    payload = {name: record(store, name) for name in (A, B, C)}
    if repacked:
        store.repack(everything=True)
    if sealed:
        store.seal()
        store.reindex()
    before = ids(store)
    assert (collection.plan(store).freed, collection.plan(store).lost) == (0, ())

    assert retention.archive(store, B)
    plan = collection.plan(store)
    assert [lost.session_id for lost in plan.lost] == [B]
    collection.collect(store, plan)
    all_replay(store, payload[B], tmp_path / "still")  # condemned packs answer for a day
    a_day_passes(store)
    done = collect(store)

    assert done.swept.bytes > 0 and not os.listdir(store.layout.directory("snapshots/condemned"))
    gone = before - ids(store)
    assert gone and gone.isdisjoint(plan.live)
    assert len(gone) == sum(share.dead_contents for share in (*plan.packs.dead, *plan.packs.partial))
    for name in (A, C):
        all_replay(store, payload[name], tmp_path / "kept")
    assert store.verify("deep") == []
    with pytest.raises(NotFound, match=r"collected on 20\d\d-\d\d-\d\d \(archived\), with session bbbbbbbb"):
        store.replay(f"{B}_001", tmp_path / "lost")


def test_a_plan_names_the_sessions_of_which_something_goes(store: Store, tmp_path: Path) -> None:
    """I29, P8: a released session whose contents stay in a pack that is hardly dead is not lost."""
    record(store, A, turns=12, size=30_000, noise=True)
    reported = record(store, B, turns=1)
    store.repack(everything=True)
    assert retention.archive(store, B)
    plan = collection.plan(store)
    assert (plan.freed, plan.lost) == (0, ())

    assert collection.collect(store, plan).condemned == []
    all_replay(store, reported, tmp_path / "whole")


def test_a_session_is_lost_with_a_content_deep_in_its_trees(store: Store) -> None:
    """I29, P8: what no event names but a tree holds is a loss too, though the tree itself stays."""
    with store.blobs.writer() as writer:
        kept = [writer.put(blake3(b"%d" % n).digest(30_000)) for n in range(9)]
        deep = blob_id(b"deep")
        below = writer.put_tree([TreeEntry(b"deep", FILE, deep, 4)])
        top = writer.put_tree([TreeEntry(b"below", DIRECTORY, below, 0)])
        writer.flush()
    with store.blobs.writer() as writer:
        assert writer.put(b"deep") == deep
        writer.flush()
    place = {"session_id": B, "agent": "pi", "payload": {}}
    snapshot = {"event_type": "snapshot", "operation": "turn_end", "turn": 1, "tree_hash": to_text(top)}
    events: list[Event] = [
        {"event_type": "session", "operation": "start", **place},
        {**snapshot, "blobs": [to_text(top)], **place},
        {"event_type": "session", "operation": "end", **place},
    ]
    events += [
        {"event_type": "file", "path": "kept", "after_hash": to_text(id), "blobs": [to_text(id)]}
        for id in kept
    ]
    store.append(events)
    assert retention.archive(store, B)
    plan = collection.plan(store)
    assert len(plan.packs.dead) == 1 and plan.packs.partial == ()
    assert [lost.session_id for lost in plan.lost] == [B]


def test_every_reader_says_what_became_of_a_collected_content(store: Store, tmp_path: Path) -> None:
    """S1-46: replay, cat by turn and by hash, diff and restore name date, rule and session."""
    record(store, A)
    reported = record(store, B)[f"{B}_001"]
    retention.archive(store, B)
    collect_whole(store)
    fate = r"collected on 20\d\d-\d\d-\d\d \(archived\), with session bbbbbbbb"
    content = to_text(blob_id(reported["own"]))
    turn, kept = f"{B}_001", f"{A}_001"

    asks: list[Callable[[Store], object]] = [
        lambda store: store.file(turn, "own"),
        lambda store: store.replay(turn, tmp_path / "to"),
        lambda store: store.diff(turn, kept),
        lambda store: store.diff(kept, turn),
        lambda store: store.restore_plan(turn, into=tmp_path),
        lambda store: store.blob(content),
        lambda store: store.blob(content[:20]),
    ]
    for ask in asks:
        with Store.open(store.layout.root) as fresh, pytest.raises(NotFound, match=fate):
            ask(fresh)
    with pytest.raises(NotFound) as found:
        store.blob("blake3:" + "0123456789abcdef" * 4)
    assert "collected" not in str(found.value)


def test_a_content_that_nobody_released_is_damage(store: Store) -> None:
    """P7, S1-46: a content of a kept session that is missing is reported as damage, not as collected."""
    record(store, A)
    retention.archive(store, A)
    record(store, B)
    collect(store)
    for path in Path(store.layout.directory("snapshots/packs")).iterdir():
        path.unlink()
    for path in Path(store.layout.directory("snapshots/idx")).iterdir():
        path.unlink()

    with Store.open(store.layout.root) as fresh:
        assert any("named as tree_hash" in finding.what for finding in fresh.verify("deep"))
        with pytest.raises(NotFound) as found:
            fresh.file(f"{B}_001", "own")
    assert "collected" not in str(found.value)


def test_capture_after_collection_stores_content_again(store: Store, tmp_path: Path) -> None:
    """I24: content that comes again after it was condemned is stored again, not only pointed at."""
    record(store, A)
    record(store, B)
    retention.archive(store, B)
    collect(store)
    again = record_copy_of_b(store)
    a_day_passes(store)
    collect(store)

    all_replay(store, again, tmp_path / "again")
    assert store.verify("deep") == []


def record_copy_of_b(store: Store) -> dict[str, Files]:
    """A session C with the very contents of B."""
    return record(store, C, files={turn: files_of(B, turn) for turn in (1, 2)})


def test_what_is_live_again_is_brought_back(store: Store, tmp_path: Path) -> None:
    """I24, P1: a session held again within the day gets its condemned packs back."""
    reported = record(store, A) | record(store, B)
    retention.archive(store, B)
    collect(store)
    retention.archive(store, B, undo=True)
    a_day_passes(store)
    done = collect(store)

    assert len(done.swept.rescued) == 2 and done.swept.unlinked == ()
    all_replay(store, reported, tmp_path / "to")
    assert store.verify("deep") == []


def test_a_plan_holds_once(store: Store) -> None:
    """I29: carrying out a plan again, or one from before another collection, is refused."""
    record(store, A)
    record(store, B)
    retention.archive(store, B)
    plan = collection.plan(store)
    collection.collect(store, plan)
    with pytest.raises(Refused):
        collection.collect(store, plan)
    assert collection.plan(store).token != plan.token


@pytest.mark.parametrize("how", ["hold", "pin", "pin a turn", "record"])
def test_what_becomes_live_after_the_plan_is_kept(store: Store, tmp_path: Path, how: str) -> None:
    """I24, I29: hold, pin or a new event between plan and collection keep what they name."""
    reported = record(store, A) | record(store, B)
    retention.archive(store, B)
    plan = collection.plan(store)
    assert plan.freed > 0
    if how == "hold":
        retention.archive(store, B, undo=True)
    elif how == "pin":
        retention.pin(store, B)
    elif how == "pin a turn":
        retention.pin(store, store.turn(f"{B}_002"))
    else:
        reported |= record_copy_of_b(store)
    collection.collect(store, plan)
    a_day_passes(store)
    collect(store)

    all_replay(store, reported, tmp_path / "to")
    assert store.verify("deep") == []


def test_events_in_no_session_keep_what_they_name(store: Store) -> None:
    """I24: an event that is in no session is never released."""
    with store.blobs.writer() as writer:
        id = writer.put(b"kept by nobody in particular\n" * 9)
        writer.flush()
        store.append([{"event_type": "note", "agent": "pi", "blobs": [to_text(id)], "payload": {}}])
    record(store, A)
    retention.archive(store, A)
    collect_whole(store)

    assert store.blob(to_text(id)).startswith(b"kept by")


def test_active_and_pinned_sessions_are_not_archived(store: Store) -> None:
    """S1-46: a session at work, pinned, or with a pinned turn is not released; the answer names the way
    out."""
    record(store, A, end=False)
    record(store, B)
    record(store, C)
    retention.pin(store, B)
    retention.pin(store, store.turn(f"{C}_002"))
    for session, item in ((A, "is active"), (B, "is pinned"), (C, r"turn cccccccc_002 is pinned")):
        with pytest.raises(Refused, match=item):
            retention.archive(store, session)
    assert not retention.pin(store, B)
    assert retention.pin(store, B, undo=True)
    assert retention.archive(store, B) and not retention.archive(store, B)
    assert released(store) == {B: "archived"}


def test_events_after_a_release_are_kept(store: Store, tmp_path: Path) -> None:
    """P1: who resumes a released session loses nothing of what comes."""
    record(store, A)
    retention.archive(store, A)
    reported = record(store, A, first=3)
    collect_whole(store)

    all_replay(store, reported, tmp_path / "to")
    assert store.verify("deep") == []


def test_without_rules_nothing_is_released(store: Store, tmp_path: Path) -> None:
    """P6: nothing goes by itself unless somebody asked for it."""
    reported = record(store, A) | record(store, B)
    assert not collection.maintain(store)
    assert released(store) == {}
    all_replay(store, reported, tmp_path / "to")


def test_rules_of_number_and_age_release_the_oldest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6, S1-46: the newest so many stay; older than so many days go; pinned and active ones stay."""
    for name in (A, B, C):
        record(store, name, end=name != A)
    configure(store, "max_sessions = 1")
    assert collection.maintain(store)
    assert released(store) == {B: "max_sessions"}
    assert not collection.maintain(store)

    record(store, "dddddddd")
    configure(store, "max_age_days = 2")
    retention.pin(store, C)
    now = store.fs.time_ns()
    assert not collection.maintain(store)
    monkeypatch.setattr(type(store.fs), "time_ns", lambda self: now + 3 * DAY_NS)
    assert collection.maintain(store)
    assert released(store) == {B: "max_sessions", "dddddddd": "max_age_days"}


def test_a_budget_releases_the_oldest_and_no_more_than_it_takes(store: Store, tmp_path: Path) -> None:
    """P6, I29: over `max_bytes` the oldest sessions go until packs and segments fit; the kept ones replay."""
    payload: dict[str, dict[str, Files]] = {}
    for number in range(8):
        payload[f"session{number}"] = record(store, f"session{number}", size=200_000, noise=True)
    store.repack(everything=True)
    budget = pack_bytes(store) * 6 // 10
    configure(store, f"max_bytes = {budget}")
    plan = collection.plan(store)
    chosen = {one.session_id: collection._POSITION_MAX for one in plan.candidates}
    with store.view() as view:  # what the tries found one after the other is what one mark finds
        assert plan.live == live_ids(store.blobs, collection._roots(store, view, chosen))
        fewer = dict(list(chosen.items())[:-1])
        live = live_ids(store.blobs, collection._roots(store, view, fewer))
    over = pack_bytes(store) + store.status().segment_bytes - budget
    assert plan_collection(store.blobs, live, dead_share_max=0.1).freed < over <= plan.freed
    assert collection.maintain(store)

    gone = set(released(store).items())
    assert gone == {(f"session{number}", "max_bytes") for number in range(len(gone))}
    assert len(gone) in (3, 4)
    assert pack_bytes(store) <= budget
    assert not collection.maintain(store)
    a_day_passes(store)
    assert collection.maintain(store)
    for session, turns in payload.items():
        if session not in released(store):
            all_replay(store, turns, tmp_path / "kept")
    assert store.verify("deep") == []
    with pytest.raises(NotFound, match=r"\(max_bytes\), with session session0"):
        store.tree("session0_001").file("own")


def test_a_budget_that_cannot_be_met_is_reported_and_not_tried_for_ever(store: Store) -> None:
    """P6, P7: what is active stays; the plan says by how much the budget is exceeded."""
    record(store, A, end=False, size=100_000, noise=True)
    configure(store, "max_bytes = '1 kB'")
    plan = collection.plan(store)
    assert plan.candidates == () and plan.over_budget == pack_bytes(store) - 1000
    collection.maintain(store)
    assert os.path.exists(store.layout.live("budget"))
    assert not collection._has_work(store)


def test_two_that_state_the_same_record_it_once(store: Store) -> None:
    """I8: two processes that release on the same ground write one event."""
    record(store, A)
    with store.view() as view:
        reported = retention_in(view)
    event = retention._event(reported, "release", A, None, rule="max_bytes")
    store.append([event])
    store.append([event])
    assert len(list(store.events(event_types=("retention",)))) == 1
    assert next(store.events(event_types=("retention",)))["session_id"] is None
