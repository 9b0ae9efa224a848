"""Following in processes of its own, beside real writers that are killed and a sealer."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

from eventlog.log.follow import Follower, follow
from tests.log.logs import Log, event

# argv: root, name. Appends batches of a session of its own, every fourth time an event of an earlier
# batch once more, and closes the journal now and then. Pauses, lest a slow machine has more to read than it
# can.
WRITER = """
import sys, time
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles
from eventlog.log.journal import Journal
from eventlog.log.line import encode_line

root, name = sys.argv[1:]
journal = Journal(StoreFiles(REAL, Layout(root), bytes(range(16))))
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
    time.sleep(0.002)
"""

# argv: root, where to begin. Prints every event it gets.
FOLLOWER = """
import json, sys
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles
from eventlog.log.follow import Follower, follow

follower = Follower(StoreFiles(REAL, Layout(sys.argv[1]), bytes(range(16))), int(sys.argv[2]))
for event in follow(follower, poll_s=0.01):
    print(json.dumps(event), flush=True)
"""


def started(program: str, *arguments: object, out: "Path | None" = None) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", program, *map(str, arguments)]
    if out is None:
        return subprocess.Popen(command, stdout=subprocess.PIPE)
    with out.open("wb") as file:
        return subprocess.Popen(command, stdout=file)


def ends_with(path: Path, text: bytes) -> bool:
    """Whether a file ends so; no more than its end is read."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(text)))
        return file.read() == text


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
        until = time.monotonic() + 60
        while len(log.rows()) <= 100 and time.monotonic() < until:
            time.sleep(0.05)
        for writer in writers:
            writer.kill()
            writer.communicate()
        log.append([event(1)])  # a torn tail is cut by the next writer
        rows = log.rows()
        last = json.dumps(rows[-1]).encode() + b"\n"

        until = time.monotonic() + 60
        for follower, out in zip(followers, outs.values(), strict=True):
            while not ends_with(out, last) and time.monotonic() < until:
                assert follower.poll() is None
                time.sleep(0.02)
    finally:
        for process in (*writers, *followers):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    assert len(rows) > 100
    assert len(log.segments()) > 1
    for since, out in outs.items():
        got = [json.loads(text) for text in out.read_text().splitlines()]
        assert got == [row for row in rows if cast(int, row["position"]) >= since]
    for since in (0, 1, choice.randrange(len(rows)), len(rows), len(rows) + 5):
        assert list(follow(Follower(log.files, since), timeout_s=0)) == log.rows(since=since)
