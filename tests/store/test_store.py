"""The Python face of a store: appending, naming, maintenance."""

import datetime
import fcntl

import pytest

from eventlog.base.errors import Ambiguous, Conflict, InvalidEvent, NotFound
from eventlog.base.locks import MAINTAIN
from eventlog.log import shorten
from eventlog.maintenance.upkeep import is_needed, maintain
from eventlog.query.lookup import TurnRef
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab", project_name="locus") as store:
        yield store


def _action(number: int, **columns: object) -> dict[str, object]:
    return {"event_type": "action", "payload": {"number": number}, **columns}


def test_positions_are_given_in_order(store: Store) -> None:
    """I2, I4: positions begin at 0 and follow each other without a gap."""
    assert store.append([_action(0), _action(1)]) == range(2)
    assert store.append([]) == range(2, 2)
    assert store.append([_action(2)]) == range(2, 3)
    assert [event["payload"] for event in store.events()] == [{"number": n} for n in range(3)]


def test_an_expected_position_must_hold(store: Store) -> None:
    """I9: an append at an expected position succeeds exactly when the log is there; else nothing changes."""
    store.append([_action(0)], expect_position=0)
    with pytest.raises(Conflict) as refused:
        store.append([_action(1)], expect_position=0)

    assert (refused.value.expected, refused.value.actual) == (0, 1)
    assert len(list(store.events())) == 1


def test_the_first_event_of_an_id_counts(store: Store) -> None:
    """I8: an event sent again changes nothing, before and after sealing."""
    same = "ab" * 16
    store.append([_action(1, event_id=same)])
    store.append([_action(2, event_id=same), _action(3)])
    young = [event["payload"] for event in store.events()]
    store.seal()
    store.append([_action(4, event_id=same)])
    sealed = [event["payload"] for event in store.events()]

    assert young == sealed == [{"number": 1}, {"number": 3}]
    assert store.query("select count(*) from events").rows == [(2,)]


def test_a_bad_event_leaves_nothing_of_its_batch(store: Store) -> None:
    """I3: when one event of a batch is not valid, none is written."""
    with pytest.raises(InvalidEvent):
        store.append([_action(0), {"payload": {}}])
    with pytest.raises(InvalidEvent, match="no_such_column"):
        store.append([_action(0), _action(1, no_such_column=1)])

    assert store.journal.next_position() == 0


def test_large_appends_become_several_batches(store: Store) -> None:
    """More than one batch of events keeps its order; an expected position needs one batch."""
    many = [_action(n) for n in range(16_385)]

    with pytest.raises(InvalidEvent, match="one batch"):
        store.append(many, expect_position=0)
    assert store.append(many) == range(16_385)
    assert store.query("select max(position), count(distinct event_id) from events").rows == [
        (16_384, 16_385)
    ]


def test_an_event_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    """P8: ids are accepted by unique prefix; an unclear one lists what it may mean."""
    ids = ["aa" + "0" * 30, "ab" + "0" * 30]
    store.append([_action(n, event_id=id) for n, id in enumerate(ids)])

    assert store.event("aa")["payload"] == {"number": 0}
    with pytest.raises(Ambiguous, match=ids[1]):
        store.event("a")
    for unknown in ("ff", "", "not hex"):
        with pytest.raises(NotFound):
            store.event(unknown)


def test_a_turn_has_several_names(store: Store) -> None:
    """P8: a turn is named in full, by session and number, by a unique beginning, by commit or as the last."""
    recorder = Recorder(store, agent="script")
    recorder.start_session("Numbered by the caller", session_id="a1b2c3d4")
    first = recorder.start_turn("first piece of work")
    first.event("action", {}, commit="c0ffee" + "0" * 34)
    second = recorder.start_turn("second piece of work")

    assert first.ref == TurnRef("a1b2c3d4", 1)
    for name in ("turn:a1b2c3d4_001", "a1b2c3d4_001", "a1b2c3d4_1", "git:c0ffee"):
        assert store.turn(name) == first.ref
    assert store.turn("last") == second.ref
    with pytest.raises(Ambiguous, match="a1b2c3d4_002"):
        store.turn("a1b2")
    for unknown in ("zzzz", "git:dead", "git:zz", "a1b2c3d4_009"):
        with pytest.raises(NotFound):
            store.turn(unknown)


def test_an_empty_store_has_no_last_turn(store: Store) -> None:
    """Asking an empty store for its last turn says how to record one."""
    with pytest.raises(NotFound, match="locus import git"):
        store.turn("last")


def test_times_are_utc(store: Store) -> None:
    """Times go in as microseconds since 1970 and come out of SQL as UTC."""
    store.append([_action(0, occurred_at=1_790_000_000_000_000)])

    [(occurred,)] = store.query("select occurred_at from events").rows
    assert occurred == datetime.datetime.fromtimestamp(1_790_000_000, datetime.UTC)
    [event] = store.events()
    assert event["occurred_at"] == 1_790_000_000_000_000


def test_sql_gives_an_arrow_table(store: Store) -> None:
    """`sql` answers as Arrow, with the types of the columns."""
    store.append([_action(n) for n in range(3)])
    table = store.sql("select position, event_type from events where position >= ?", [1])

    assert table.to_pydict() == {"position": [1, 2], "event_type": ["action", "action"]}


def test_a_long_tail_is_sealed_by_maintenance(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long tail is sealed and indexed; a short one needs nothing."""
    assert not is_needed(store) and not maintain(store)
    monkeypatch.setattr(shorten, "TAIL_BYTES_MAX", 200)
    for number in range(4):
        store.append([_action(number)])
    before = list(store.events())

    assert is_needed(store) and maintain(store) and not is_needed(store)
    assert store.status().segments == 1
    assert store.status().index is not None
    assert list(store.events()) == before


def test_maintenance_is_never_in_the_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: while another process maintains the store, nobody else waits for it."""
    monkeypatch.setattr(shorten, "TAIL_BYTES_MAX", 200)
    for number in range(4):
        store.append([_action(number)])
    with open(store.layout.lock(MAINTAIN), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not maintain(store)

    assert maintain(store)
    assert len(list(store.events())) == 4


def test_many_small_packs_get_an_idx(store: Store) -> None:
    """Contents recorded one by one are found through one look-up file after a while (I22)."""
    for number in range(66):
        with store.blobs.writer() as writer:
            writer.put(b"content %d" % number)
            writer.flush()

    assert maintain(store)
    assert store.blobs.recent_count() == 0
    assert not maintain(store)
