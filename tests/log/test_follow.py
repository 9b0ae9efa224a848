"""Following: every visible event once, in position order, whatever happens to the files meanwhile."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.errors import NotDurable
from eventlog.base.layout import StoreFiles
from eventlog.base.types import Event
from eventlog.log.compact import compact
from eventlog.log.follow import Follower, follow
from eventlog.log.reader import open_view
from tests.conftest import HUNT, examples
from tests.log.logs import Log, event
from tests.simfs import Call, PowerCut, SimFS, fail_nth, sim_store


def follower_of(log: Log, since: int = 0, **options: Any) -> Follower:
    return Follower(log.files, since, **options)


def caught_up(follower: Follower) -> list[Event]:
    """All there is for it now."""
    events: list[Event] = []
    while (found := follower.read()) is not None:
        events += found
    return events


# What can happen to a log between two reads of a follower.
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
    st.tuples(st.just("rotate"), st.none()),
    st.tuples(st.just("seal"), st.booleans()),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("copy forward"), st.none()),
    st.tuples(st.just("look"), st.integers(1, 3)),
    st.tuples(st.just("new follower"), st.integers(0, 40)),
)


def numbered(number: int) -> Event:
    """An event of one of three sessions; some name a turn, some begin one."""
    return event(
        number,
        event_type="turn" if number % 7 == 0 else "action",
        operation="start" if number % 7 == 0 else None,
        agent_session_id=("one", "two", None)[number % 3],
        agent_turn_id=(None, "a", None, "b")[number % 4],
    )


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=examples(40, 1000))
def test_any_slices_of_following_are_the_log(steps: "list[tuple[str, Any]]") -> None:
    """I6, I8, I14, I22: what a follower gives in any slices, beside any upkeep, is what a view gives."""
    fs, layout = sim_store()
    log = Log(fs, layout)
    since = 0
    follower = follower_of(log)
    seen: list[Event] = []
    for what, value in steps:
        if what == "append":
            log.append([numbered(n) for n in value])
        elif what == "rotate":
            log.journal.rotate()
        elif what == "seal":
            log.seal(rotate_active=value)
        elif what == "compact":
            compact(StoreFiles(fs, layout, log.store_id), everything=True)
        elif what == "copy forward":
            log.append([numbered(31)])
            fs.fault = fail_nth(0, errno.EIO, name="fdatasync")
            with pytest.raises(NotDurable):
                log.append([numbered(32)])
            fs.fault = None
        elif what == "look":
            for _ in range(value):
                seen += follower.read() or ()
        else:
            assert seen + caught_up(follower) == log.rows(since=since)
            follower.close()
            follower, since, seen = follower_of(log, value), value, []

    assert seen + caught_up(follower) == log.rows(since=since)
    assert follower.read() is None


# -- between any two calls ---------------------------------------------------------------------------


def busy_log() -> tuple[SimFS, Log]:
    """A segment, a closed journal and an active one, with duplicates in each part."""
    fs, layout = sim_store()
    log = Log(fs, layout)
    log.append([numbered(n) for n in (1, 2, 2, 3, 4)])
    log.seal()
    log.append([numbered(n) for n in (1, 5)])
    log.journal.rotate()
    log.append([numbered(n) for n in (6, 5, 7)])
    return fs, log


def fail_a_sync_and_seal(log: Log) -> None:
    """Make the next journal a copy of the active one, and seal the journals before that."""
    assert isinstance(log.fs, SimFS)
    watch, log.fs.fault = log.fs.fault, fail_nth(0, errno.EIO, name="fdatasync")
    with pytest.raises(NotDurable):
        log.append([numbered(21)])
    log.fs.fault = watch
    log.seal(rotate_active=False)


OTHERS: "dict[str, Callable[[Log], object]]" = {
    "rotate and append": lambda log: (log.journal.rotate(), log.append([numbered(20)])),
    "seal and append": lambda log: (log.seal(), log.append([numbered(20), numbered(1)])),
    "copy forward and seal": fail_a_sync_and_seal,
    "seal, compact and append": lambda log: (
        log.seal(),
        compact(log.files, everything=True),
        log.append([numbered(20), numbered(1)]),
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_others_do_between_two_calls_of_a_follower(other: str) -> None:
    """I6, I8, I17, I22: whatever happens between two calls of a read, no event is lost or doubled.

    A hunt (LOCUS_HUNT) tries all calls, else every third.
    """
    machine, busy = busy_log()
    for began in (0, 4):  # at the beginning, or in the middle of the tail
        n, step = (0, 1) if HUNT else (began % 3, 3)
        acted = True
        while acted:
            fs = machine.kill()
            log = Log(fs, busy.layout)
            follower = follower_of(log, began)
            seen = caught_up(follower) if began else []
            if began:
                log.append([numbered(n) for n in (8, 9)])
            acted = False
            last = fs.call_count + n

            def act(call: Call, fs: SimFS = fs, log: Log = log, last: int = last) -> None:
                nonlocal acted
                if call.index == last:
                    acted = True
                    fs.before = None
                    OTHERS[other](log)

            fs.before = act
            seen += caught_up(follower)
            fs.before = None
            assert seen + caught_up(follower) == log.rows(since=began), f"before call {n}"
            follower.close()
            log.journal.close()
            assert fs._open == {}, "a descriptor is left open"
            n += step
        assert n > 4


def test_a_follower_that_slept_through_many_seals() -> None:
    """I6, I17: more manifests have come and gone than are kept, and the follower misses nothing."""
    _, log = busy_log()
    awake, asleep = follower_of(log), follower_of(log)
    seen, slept = caught_up(awake), caught_up(asleep)
    for number in range(30, 50):
        log.append([numbered(number), numbered(1)])
        log.seal()
        seen += caught_up(awake)
    log.append([numbered(number) for number in (40, 50)])

    assert seen + caught_up(awake) == log.rows()
    assert slept + caught_up(asleep) == log.rows()


@pytest.mark.parametrize("other", OTHERS)
def test_a_follower_between_any_two_calls_of_others(other: str) -> None:
    """I5, I6: what a follower saw in the middle of an append, a seal or a copy is in the final log."""
    fs, log = busy_log()
    follower = follower_of(log)
    seen: list[Event] = []

    def look(_call: Call) -> None:
        found = follower.read()
        seen.extend(found or ())

    fs.before = look
    OTHERS[other](log)
    fs.before = None

    assert seen + caught_up(follower) == log.rows()


def test_what_a_durable_follower_gave_survives_a_power_cut() -> None:
    """I5: events handed out at any instant are there after the power cut; without `durable` some are not."""
    vanished = 0
    machine, busy = busy_log()
    machine.settle()
    for durable in (True, False):
        for stop in range(30):
            fs = machine.kill()
            log = Log(fs, busy.layout)
            follower = follower_of(log, durable=durable)
            seen = caught_up(follower)
            fs.stop_at = fs.call_count + stop
            try:
                log.append([numbered(20)])
                log.journal.rotate()
                log.append([numbered(21), numbered(22)])
            except PowerCut:
                pass
            killed = fs.kill()
            reader = follower_of(Log(killed, log.layout), follower.position, durable=durable)
            seen += caught_up(reader)
            left = Log(killed.crash(), log.layout).rows()
            if durable:
                assert seen == left[: len(seen)]
            vanished += seen != left[: len(seen)]
    assert vanished > 0


def test_events_whose_sync_fails_are_not_handed_out() -> None:
    """I5: a durable follower raises NotDurable instead, and begins there again when it is read again."""
    fs, log = busy_log()
    follower = follower_of(log, durable=True)
    seen = caught_up(follower)
    log.append([numbered(20)])
    fs.fault = fail_nth(0, errno.EIO, name="fdatasync")

    with pytest.raises(NotDurable, match="were not handed on"):
        caught_up(follower)

    fs.fault = None
    assert seen + caught_up(follower) == log.rows()


def test_what_a_view_made_durable_survives_a_power_cut() -> None:
    """I5: who keeps what follows from a view syncs it first; a failed sync is NotDurable."""
    machine, busy = busy_log()
    machine.settle()
    machine.stop_at = machine.call_count + 13
    with pytest.raises(PowerCut):  # a frame is written and not synced
        busy.append([numbered(20)])
        busy.append([numbered(21)])
    fs = machine.kill()
    log = Log(fs, busy.layout)
    assert len(log.rows()) > len(Log(fs.crash(), busy.layout).rows())
    fs.fault = fail_nth(0, errno.EIO, name="fdatasync")
    with (
        open_view(StoreFiles(fs, log.layout, log.store_id)) as view,
        pytest.raises(NotDurable, match="may not last"),
    ):
        view.make_durable()

    fs = machine.kill()
    log = Log(fs, busy.layout)
    with open_view(StoreFiles(fs, log.layout, log.store_id)) as view:
        view.make_durable()
    assert log.rows() == Log(fs.crash(), busy.layout).rows()


# -- what it costs -----------------------------------------------------------------------------------


def calls_of(fs: SimFS, work: "Callable[[], object]") -> list[Call]:
    calls: list[Call] = []
    fs.before = calls.append
    work()
    fs.before = None
    return calls


def test_a_check_and_an_event_cost_the_same_in_a_log_of_any_size() -> None:
    """An idle check is three calls, a new event a read of its own bytes, whatever lies before it."""
    idle, busy, read = [], [], []
    for size in (1, 200):
        fs, layout = sim_store()
        log = Log(fs, layout)
        log.append_each(numbered(n) for n in range(size))
        log.seal()
        log.append_each(numbered(n) for n in range(size, 2 * size))
        follower = follower_of(log)
        caught_up(follower)
        idle.append([call.name for call in calls_of(fs, follower.read)])
        log.append([numbered(500)])
        calls = calls_of(fs, follower.read)
        busy.append([call.name for call in calls])
        read.append([int(str(call.args[1])) for call in calls if call.name == "pread"][-1])

    assert idle == [["exists", "stat", "pread"]] * 2
    assert busy == [["exists", "stat", "pread", "pread"]] * 2
    assert read[0] == read[1] < 600


def test_ids_are_looked_up_without_reading_segments_again() -> None:
    """I8: an id that shares its lower half with a sealed one is new; one that is sealed is not."""
    fs, layout = sim_store()
    log = Log(fs, layout)
    log.append([numbered(1)])
    log.seal()
    follower = follower_of(log)
    caught_up(follower)
    log.append([event(2), event(1), event(0, event_id=f"{(7 << 64) + 1:032x}"), event(2)])

    found = caught_up(follower)

    assert [row["position"] for row in found] == [1, 3]
    assert found == log.rows(since=1)
    log.append([event(3)])
    assert {str(call.args[0]) for call in calls_of(fs, follower.read) if call.name == "open"} == set()


def test_merged_segments_are_not_read_again() -> None:
    """I8, I35: of what was merged since only what is new is learned; duplicates of both parts are known."""
    sim, layout = sim_store()
    log, follower = Log(sim, layout), follower_of(Log(sim, layout))
    for number in range(3):
        log.append([numbered(10 * number), numbered(10 * number + 1)])
        log.seal()
    log.append([numbered(50)])
    caught_up(follower)
    known = follower._sealed
    assert sum(map(len, known._arrays)) == 6
    log.append([numbered(60)])
    log.seal()
    compact(StoreFiles(sim, layout, log.store_id), everything=True)
    assert len(log.segments()) == 1
    log.append([numbered(n) for n in (0, 21, 50, 60, 70)])

    assert [row["event_id"] for row in caught_up(follower)] == [numbered(n)["event_id"] for n in (60, 70)]
    assert sum(map(len, known._arrays)) == 8
    with open_view(StoreFiles(sim, layout, log.store_id)) as view:
        assert list(known._sessions_in) == [entry.name for entry in view.manifest.segments]
    log.append([numbered(80)])
    assert caught_up(follower) == log.rows()[-1:]


def test_a_follower_keeps_nothing_from_being_removed() -> None:
    """I17, I33: neither an idle follower nor one in the middle of a piece pins a journal or a manifest."""
    _, log = busy_log()
    idle, slow = follower_of(log), follower_of(log)
    caught_up(idle)
    piece = iter(slow.read() or ())
    seen = [next(piece)]
    log.append([numbered(20)])

    log.seal()

    assert len(log.journals()) == 1
    seen += [*piece, *caught_up(slow)]
    assert seen == log.rows()


def test_following_writes_nothing() -> None:
    """P2: the store is the same after it, byte for byte."""
    fs, log = busy_log()
    before = fs.tree()

    assert len(caught_up(follower_of(log))) == 7

    assert fs.tree() == before


# -- waiting -----------------------------------------------------------------------------------------


def test_it_waits_until_nothing_comes_for_the_time_given() -> None:
    """I31: every wait ends: at the silence given, at once for 0, or when `stop` says so."""
    fs, log = busy_log()
    sleeps: list[float] = []
    real_sleep = fs.sleep

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        real_sleep(seconds)
        if len(sleeps) == 3:
            log.append([numbered(20)])

    fs.sleep = sleep  # type: ignore[method-assign]
    assert len(list(follow(follower_of(log), timeout_s=0))) == 7
    assert sleeps == []

    assert len(list(follow(follower_of(log), poll_s=0.2, timeout_s=1.0))) == 8
    assert 7 <= len(sleeps) <= 10, "three checks before the event, five to seven after it"
    assert max(sleeps) <= 0.2

    stops = iter([False, False, True])
    assert len(list(follow(follower_of(log), stop=lambda: next(stops)))) == 2


def test_only_what_is_wanted_is_given() -> None:
    """A session and types choose events in segments and in the tail as `events` does, numbers unchanged."""
    _, log = busy_log()
    log.append([numbered(n) for n in (7, 14, 15)])
    session = log.rows()[0]["session_id"]
    choices: list[dict[str, Any]] = [
        {"session_id": session},
        {"event_types": ["turn"]},
        {"session_id": session, "event_types": ["action"]},
        {"event_types": []},
    ]
    for filters in choices:
        assert caught_up(follower_of(log, 1, **filters)) == log.rows(since=1, **filters)


# -- damage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [False, True])
def test_a_bad_stretch_is_passed_as_a_view_passes_it(log: Log, closed: bool) -> None:
    """I11, I13: events after a rotten frame are given, those in it are lost, no more and no less."""
    follower = follower_of(log)
    log.append([numbered(1)])
    seen = caught_up(follower)
    bases = [log.append([numbered(n)]) for n in (2, 3, 4)]
    path = Path(log.layout.journal(1))
    data = bytearray(path.read_bytes())
    data[data.index(f"{2:032x}".encode())] ^= 1
    path.write_bytes(data)
    if closed:
        log.journal.rotate()
        log.append([numbered(5)])

    for _ in range(4):
        seen += caught_up(follower)

    assert bases == [1, 2, 3]
    assert [row["position"] for row in seen] == [0, 2, 3, 4][: 4 if closed else 3]
    assert seen == log.rows()


def test_a_hole_in_the_newest_journal_stops_no_follower(log: Log) -> None:
    """I11, I13: what follows a block that came back as zeros is given, and so is what is appended then."""
    for number in range(60):
        log.append([numbered(number)])
    with open(log.layout.journal(1), "r+b") as file:
        file.seek(8192)
        file.write(bytes(4096))
    follower = follower_of(log)
    seen = []
    for number in range(60, 63):
        seen += caught_up(follower) + caught_up(follower)
        log.append([numbered(number)])

    assert seen + caught_up(follower) == log.rows()
    assert 40 < len(log.rows()) < 63


def test_a_torn_tail_is_waited_for(log: Log) -> None:
    """I10, I12: half a frame is no event; what the next writer puts in its place is."""
    follower = follower_of(log)
    log.append([numbered(1)])
    seen = caught_up(follower)
    path = Path(log.layout.journal(1))
    whole = path.read_bytes().rstrip(b"\0")
    log.append([numbered(2)])
    path.write_bytes(path.read_bytes().rstrip(b"\0")[:-20])
    for _ in range(3):
        assert caught_up(follower) == []

    log.append([numbered(3)])

    assert path.read_bytes().startswith(whole)
    seen += caught_up(follower)
    assert [row["event_id"] for row in seen] == [f"{n:032x}" for n in (1, 3)]
    assert seen == log.rows()


def test_frames_larger_than_one_read(log: Log) -> None:
    """I3: a batch of several MiB is given whole, and what follows it too."""
    large = event(1, payload={"text": "x" * 3_000_000})
    log.append([numbered(0)])
    log.append([large, numbered(2)])
    log.append([numbered(3)])

    assert caught_up(follower_of(log)) == log.rows()


def test_a_log_that_begins_later(log: Log) -> None:
    """A follower of an empty store meets its first event, be it still in a journal or sealed at once."""
    early, late = follower_of(log), follower_of(log)
    assert caught_up(early) == caught_up(late) == []
    log.append([numbered(1)])
    seen = caught_up(early)
    log.seal()
    log.append([numbered(2)])

    assert seen + caught_up(early) == caught_up(late) == log.rows()
