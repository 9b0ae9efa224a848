"""Sending processes that are killed (SIGKILL) at random moments, and started again (I36).

The server is in this process, so that what it holds outlives the exporter. Each round kills the exporter
after a random number of calls plus a random part of a call, appends more, and starts it again.
"""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eventlog.recorder import lifecycle
from eventlog.store import Store
from tests.exports.locusgraph_server import GRAPH, KEY, Graph, Server
from tests.exports.stores import REPO, new_store
from tests.exports.test_send import check_all_there, sender

KILLS = 5 if os.environ.get("LOCUS_HUNT", "0") == "0" else max(100, int(os.environ["LOCUS_HUNT"]) * 20)
SESSION = "k0000000"

# A process of its own that is asked for nothing but its work; the ledger is noted after each call.
EXPORTER = """
import os, sys
from eventlog.exports.locusgraph import send
from eventlog.exports.locusgraph.courier import Courier, RealClock
from eventlog.exports.locusgraph.endpoint import endpoint_of, key_from
from eventlog.store import Store
send._NOTE_EVERY_S = 0.0
endpoint = endpoint_of(sys.argv[2], sys.argv[3], sys.argv[4])
clock = RealClock()
with Store.open(sys.argv[1]) as store:
    courier = Courier(endpoint, key_from(os.environ), clock, per_minute=0)
    print("ready", flush=True)
    send.send(store, endpoint, courier, clock, send.Options(batch=int(sys.argv[5])))
"""


def more(store: Store, draw: random.Random, turn: int) -> None:
    """A turn begins or ends, and events are in it: states change from one export to the next."""
    if draw.random() < 0.7:
        store.append([lifecycle.turn_start(SESSION, turn, f"Do {turn}")])
    store.append(
        [
            lifecycle.timeline_event("feedback", SESSION, turn, {"n": draw.random()})
            for _ in range(draw.randrange(30))
        ]
    )
    if draw.random() < 0.5:
        store.append([lifecycle.turn_end(SESSION, turn, f"Did {turn}", user_request=f"Do {turn}")])


@pytest.mark.parametrize("api", ["1.0"] if KILLS == 5 else ["0.x", "1.0"])
def test_killed_at_any_moment(api: str, tmp_path: Path) -> None:
    """I36: however often an exporter is killed, each context ends in its last state, each event once."""
    seed = int(os.environ.get("LOCUS_SEED", "0")) or random.randrange(1 << 30)
    print(f"LOCUS_SEED={seed}")
    draw = random.Random(seed)
    killed = 0
    with new_store(tmp_path) as store, Server(Graph(api)) as server:
        store.append([lifecycle.sessions_master(REPO, "My Project")])
        store.append([lifecycle.session_start(SESSION, "work", "Work", REPO)])
        turn = 0
        while killed < KILLS:
            turn += 1
            more(store, draw, turn)
            killed += run_and_kill(tmp_path / ".locus", server, draw)
        sender(store, server)

        check_all_there(store, server)
        # What was sent twice changed nothing: no event was written with another text.
        assert "error" not in server.graph.statuses


def run_and_kill(place: Path, server: Server, draw: random.Random) -> bool:
    """Whether the exporter was killed before it ended."""
    command = [sys.executable, "-c", EXPORTER, place, server.url, GRAPH, server.graph.api]
    calls, part_s = draw.randrange(6), draw.random() * draw.choice([0.002, 0.02])
    due = threading.Event()
    came = 0

    def count() -> None:
        nonlocal came
        came += 1
        if came > calls:
            due.set()

    server.on_call = count
    environment = {**os.environ, "LOCUSGRAPH_AGENT_SECRET": KEY}
    process = subprocess.Popen(
        [*map(str, command), str(draw.choice([1, 3, 7]))],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    with process, process.stdout, process.stderr:
        assert process.stdout.readline() == b"ready\n", process.stderr.read().decode()
        while process.poll() is None and not due.wait(0.01):
            pass
        threading.Event().wait(part_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
    server.on_call = lambda: None
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode != 0
