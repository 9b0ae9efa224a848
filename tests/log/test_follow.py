"""Following: every visible event once, in position order, whatever happens to the files meanwhile."""

import errno
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.errors import NotDurable
from eventlog.fs import REAL
from eventlog.layout import Layout
from eventlog.log.follow import Follower
from eventlog.types import Event
from tests.log.logs import Log, event
from tests.simfs import fail_nth, sim_store


@pytest.fixture
def log(layout: Layout) -> Log:
    return Log(REAL, layout)


def follower_of(log: Log, since: int = 0, **options: Any) -> Follower:
    return Follower(log.fs, log.layout, log.store_id, since, **options)


def caught_up(follower: Follower) -> list[Event]:
    """All there is for it now."""
    events: list[Event] = []
    while (found := follower.read()) is not None:
        events += found
    return events


# What can happen to a log between two looks of a follower.
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
    st.tuples(st.just("rotate"), st.none()),
    st.tuples(st.just("seal"), st.booleans()),
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
@settings(max_examples=200)
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
