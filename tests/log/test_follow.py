"""Following: every visible event once, in position order, whatever happens to the files meanwhile."""

import errno
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.errors import NotDurable
from eventlog.fs import REAL
from eventlog.layout import Layout
from eventlog.log.follow import Follower, follow
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


# -- real processes ----------------------------------------------------------------------------------

# argv: root, name. Appends batches of a session of its own, every fourth time an event of an earlier
# batch once more, and closes the journal now and then.
WRITER = """
import sys
from eventlog.fs import REAL
from eventlog.layout import Layout
from eventlog.log.journal import Journal
from eventlog.log.line import encode_line

root, name = sys.argv[1:]
journal = Journal(REAL, Layout(root), bytes(range(16)))
def event(n):
    return {"event_id": f"{int(name):016x}{n:016x}", "event_type": "action", "event_kind": "action",
            "source": "executor", "agent": "pi", "agent_session_id": name, "agent_turn_id": str(n // 50),
            "payload": {"text": "x" * (n % 700)}}
print("ready", flush=True)
n = 0
while True:
    journal.append([encode_line(event(n + i)) for i in range(n % 3 + 1)])
    n += 1 if n % 4 else n % 3 + 1
    if n % 40 == 0:
        journal.rotate()
"""

# argv: root, where to begin. Prints every event it gets.
FOLLOWER = """
import json, sys
from eventlog.fs import REAL
from eventlog.layout import Layout
from eventlog.log.follow import Follower, follow

follower = Follower(REAL, Layout(sys.argv[1]), bytes(range(16)), int(sys.argv[2]))
for event in follow(follower, poll_s=0.01):
    print(json.dumps(event), flush=True)
"""


def started(program: str, *arguments: object, out: "Path | None" = None) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", program, *map(str, arguments)]
    if out is None:
        return subprocess.Popen(command, stdout=subprocess.PIPE)
    with out.open("wb") as file:
        return subprocess.Popen(command, stdout=file)


def test_followers_beside_killed_writers_and_a_sealer_get_the_log(tmp_path: Path, log: Log) -> None:
    """I6, I8, I14, I17: each event once, in order, numbered, under rotation, sealing and kills."""
    choice = random.Random(3)
    outs = {since: tmp_path / f"from-{since}" for since in (0, 100)}
    followers = [started(FOLLOWER, log.layout.root, since, out=out) for since, out in outs.items()]
    writers = [started(WRITER, log.layout.root, name) for name in range(3)]
    try:
        for name in range(3, 9):
            time.sleep(choice.uniform(0.1, 0.3))
            victim = writers.pop(choice.randrange(len(writers)))
            victim.kill()
            victim.communicate()
            writers.append(started(WRITER, log.layout.root, name))
            log.seal(rotate_active=name % 2 == 0)
    finally:
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
            writer.kill()
            writer.communicate()
    log.append([event(1)])  # a torn tail is cut by the next writer
    rows = log.rows()
    last = json.dumps(rows[-1]).encode() + b"\n"

    try:
        until = time.monotonic() + 60
        for follower, out in zip(followers, outs.values(), strict=True):
            while not out.read_bytes().endswith(last) and time.monotonic() < until:
                assert follower.poll() is None
                time.sleep(0.02)
    finally:
        for follower in followers:
            follower.kill()
            follower.communicate()

    assert len(rows) > 100
    assert len(log.segments()) > 1
    for since, out in outs.items():
        got = [json.loads(text) for text in out.read_text().splitlines()]
        assert got == [row for row in rows if cast(int, row["position"]) >= since]
    for since in (0, 1, choice.randrange(len(rows)), len(rows), len(rows) + 5):
        assert list(follow(follower_of(log, since), timeout_s=0)) == log.rows(since=since)
