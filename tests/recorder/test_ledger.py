"""Consumers: how far each has come, as a fold of the log."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from eventlog.base.errors import Conflict, Refused
from eventlog.recorder.ledger import Consumer
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests.log.logs import event


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(tmp_path / ".locus", repo_hash="0123456789ab", project_name="locus") as store:
        yield store


def test_a_consumer_begins_at_0_and_goes_where_it_is_advanced(store: Store) -> None:
    """P2: a consumer's position is the highest that its cursor events name, for itself alone."""
    store.append([event(n) for n in range(5)])
    consumer = Consumer(store, "exporter")
    assert consumer.position == 0

    consumer.advance(2, receipt="a")
    consumer.advance(5)

    assert Consumer(store, "exporter").position == consumer.position == 5
    assert Consumer(store, "other").position == 0
    assert [row["payload"] for row in store.events(event_types=["cursor"])] == [
        {"consumer": "exporter", "position": 2, "receipt": "a"},
        {"consumer": "exporter", "position": 5},
    ]


def test_the_position_is_read_from_segments_and_tail(store: Store) -> None:
    """P2, I22: sealing changes no consumer's position, and neither does an event that came too late."""
    store.append([event(n) for n in range(5)])
    late = Consumer(store, "exporter")
    Consumer(store, "exporter").advance(4)
    store.append([late._cursor(3, {})])  # a process that had read its position before the other advanced
    assert late.position == 4

    store.seal()

    assert Consumer(store, "exporter").position == 4
    Consumer(store, "exporter").advance(5)
    assert late.position == 5


def test_a_consumer_never_goes_back_and_never_beyond_the_log(store: Store) -> None:
    """A position that was passed is a Conflict, one that does not exist is Refused; nothing is written."""
    store.append([event(n) for n in range(5)])
    consumer = Consumer(store, "exporter")
    consumer.advance(4)
    end = store.journal.next_position()

    with pytest.raises(Conflict, match="at position 4 and cannot go back to 3"):
        Consumer(store, "exporter").advance(3)
    with pytest.raises(Refused, match="the log ends at 6"):
        consumer.advance(7)
    with pytest.raises(Refused, match="needs a name"):
        Consumer(store, "")
    consumer.advance(4, receipt="again")

    assert store.journal.next_position() == end


def test_advancing_twice_to_one_position_leaves_one_event(store: Store) -> None:
    """I8: two processes that advance a consumer to the same position at once write it once."""
    store.append([event(n) for n in range(5)])
    first, second = Consumer(store, "exporter"), Consumer(store, "exporter")
    store.append([first._cursor(5, {"receipt": "a"})])
    store.append([second._cursor(5, {"receipt": "b"})])

    rows = list(store.events(event_types=["cursor"]))

    assert [row["payload"] for row in rows] == [{"receipt": "a", "consumer": "exporter", "position": 5}]


@pytest.mark.slow
def test_bookkeeping_is_in_no_session_and_no_total(store: Store) -> None:
    """P2, I22: a cursor event moves no counter of a turn and counts in no session, sealed or not."""
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("Fix the JWT refresh bug")
    totals = "select * from sessions, turns, sessions_master"
    before = store.query(totals).rows
    Consumer(store, "exporter").advance(2)
    assert store.query(totals).rows == before

    turn.decision("rotate tokens", "they leak", confidence=0.9)

    rows = list(store.events())
    cursor = next(row for row in rows if row["event_type"] == "cursor")
    assert [cursor[name] for name in ("session_id", "turn", "turn_id", "seq", "context_id", "extends")] == [
        None
    ] * 6
    assert [row["seq"] for row in rows if row["session_id"] and row["seq"]] == [1, 2, 3]
    store.seal()
    store.rebuild()
    assert store.query("select events from sessions").rows == [(3,)]
    assert list(store.events()) == rows


# Handles one event at a time: notes it in a file, and then advances. argv: store, file.
CONSUMER = """
import os, sys
from eventlog import Consumer, Store

out = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
with Store.open(sys.argv[1]) as store:
    consumer = Consumer(store, "exporter")
    os.write(out, b"from %d\\n" % consumer.position)
    for event in consumer.follow(poll_s=0.01):
        os.write(out, b"%d\\n" % event["position"])
        consumer.advance(event["position"] + 1)
"""


@pytest.mark.slow
def test_a_killed_consumer_repeats_and_never_skips(store: Store, tmp_path: Path) -> None:
    """P2, I32: killed at any moment, a consumer goes on where it had advanced to: at most one event twice."""
    choice = random.Random(5)
    out = tmp_path / "handled"
    out.touch()
    for number in range(5):
        store.append([event(12 * number + n) for n in range(12)])
        size = out.stat().st_size
        process = subprocess.Popen([sys.executable, "-c", CONSUMER, store.layout.root, str(out)])
        try:
            if number % 2:
                store.seal()
            wanted = choice.randrange(10, 25)  # bytes of its notes: some events in
            until = time.monotonic() + 60
            while out.stat().st_size < size + wanted and time.monotonic() < until:
                assert process.poll() is None
                time.sleep(0.001)
            time.sleep(choice.uniform(0, 0.01))
        finally:
            process.kill()
            process.wait()

    handled: list[int] = []
    for run in out.read_text().split("from ")[1:]:
        begun, *positions = map(int, run.split())
        again = [position for position in handled if position >= begun]
        assert len(again) <= 1
        handled = handled[: len(handled) - len(again)] + positions
    consumer = Consumer(store, "exporter")
    advanced = [position for position in handled if position < consumer.position]
    rest = [row["position"] for row in consumer.follow(timeout_s=0)]
    assert len(advanced) >= len(handled) - 1 > 4
    assert advanced + rest == [row["position"] for row in store.events(event_types=["action"])]


def test_a_consumer_is_given_all_but_bookkeeping(store: Store) -> None:
    """P2: what the log holds from its position on, but for cursors, its own and others'."""
    store.append([event(n) for n in range(4)])
    consumer = Consumer(store, "exporter")
    Consumer(store, "other").advance(3)
    given = []
    for one in consumer.follow(timeout_s=0):
        given.append(one)
        consumer.advance(cast(int, one["position"]) + 1)

    assert given == [row for row in store.events() if row["event_type"] != "cursor"]
    assert list(consumer.follow(timeout_s=0)) == []
    assert list(Consumer(store, "new").follow(event_types=["cursor"], timeout_s=0)) == []
