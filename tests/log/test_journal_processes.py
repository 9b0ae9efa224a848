"""Real processes on a real disk: kills at random moments, file size limits, an oracle outside the store.

Each writer reports an append to its pipe after it was acknowledged, and when it began it. A pipe of a
killed process still gives what was written to it, so nothing that was acknowledged is forgotten.
`LOCUS_HUNT=<minutes>` lets the kills go on for that long.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.log.journal import Journal
from eventlog.log.journal_reading import live_journals, scan_journal
from tests.conftest import STORE_ID, files_of

# argv: root, name, largest batch, rotate every so often, seconds to live. A report is one line
# "<begun ns> <ended ns> <base> <count> <first event>"; writes to a pipe of this size are atomic.
WRITER = """
import os, sys, time
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles
from eventlog.log.journal import Journal

root, name, batch_max, rotate_every = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
journal = Journal(StoreFiles(REAL, Layout(root), bytes(range(16))))
os.write(1, b"ready\\n")
n = 0
while True:
    count = n % batch_max + 1
    lines = [b"%s %d %d " % (name.encode(), n, i) + b"x" * (n % 3000) for i in range(count)]
    begun = time.monotonic_ns()
    base = journal.append(lines)
    os.write(1, b"%d %d %d %d %s %d\\n" % (begun, time.monotonic_ns(), base, count, name.encode(), n))
    n += 1
    if n % rotate_every == 0:
        journal.rotate()
"""


class Ack:
    """One acknowledged batch, as its writer reported it."""

    def __init__(self, report: str) -> None:
        begun, ended, base, count, name, n = report.split()
        self.begun_ns = int(begun)
        self.ended_ns = int(ended)
        self.base = int(base)
        self.count = int(count)
        self.label = f"{name} {n}"


class Writer:
    """A process that appends until it is killed."""

    def __init__(self, root: str, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, root, name, "4", "50"],
            bufsize=0,  # communicate reads the pipe itself: what a buffer had read ahead would be lost
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        assert self._stdout.readline() == b"ready\n"

    def kill(self) -> list[Ack]:
        """SIGKILL it wherever it is; what had been acknowledged to it until then."""
        self._process.send_signal(signal.SIGKILL)
        reports, complaints = self._process.communicate()
        assert complaints == b""
        return [Ack(report) for report in reports.decode().splitlines(keepends=True) if report.endswith("\n")]


def log_of(layout: Layout) -> dict[int, bytes]:
    """Position → line, checked to be gapless and without damage."""
    log: dict[int, bytes] = {}
    position = 0
    for number in live_journals(files_of(REAL, layout)):
        scan = scan_journal(REAL, layout.journal(number), store_id=STORE_ID, number=number)
        assert not scan.damaged
        assert position == scan.base
        for frame in scan.frames:
            assert position == frame.base
            for line in frame.lines:
                log[position] = line
                position += 1
    return log


def check_history(layout: Layout, acks: list[Ack]) -> None:
    log = log_of(layout)
    labels = [b" ".join(line.split(b" ")[:3]).decode() for line in log.values()]
    assert len(labels) == len(set(labels)), "I7: an event is in the log twice"
    for ack in acks:
        for index in range(ack.count):
            assert labels[ack.base + index] == f"{ack.label} {index}", f"I1: {ack.label} lost or moved"
    batches: dict[str, list[int]] = {}
    for position, label in enumerate(labels):
        batches.setdefault(label.rpartition(" ")[0], []).append(position)
    for label, places in batches.items():
        n = int(label.split()[1])
        assert places == list(range(places[0], places[0] + n % 4 + 1)), f"I3: {label} is torn"
    # Real-time order: by time of ending, each batch lies after all that ended before it began.
    by_end = sorted(acks, key=lambda ack: ack.ended_ns)
    highest, ended = -1, 0
    for ack in sorted(acks, key=lambda ack: ack.begun_ns):
        while ended < len(by_end) and by_end[ended].ended_ns < ack.begun_ns:
            highest = max(highest, by_end[ended].base)
            ended += 1
        assert ack.base > highest, f"I4: {ack.label} is before a batch acknowledged before it began"


def test_killed_writers_lose_and_move_nothing(layout: Layout, hunt_minutes: float) -> None:
    """I1, I3, I4, I7: of writers killed at random moments each acknowledged batch is where it was
    acknowledged."""
    seed = random.randrange(2**32)
    choice = random.Random(seed)
    until = time.monotonic() + (hunt_minutes * 60 or 2.0)
    acks: list[Ack] = []
    writers = [Writer(layout.root, f"{seed}-{index}") for index in range(3)]
    started = len(writers)
    try:
        while time.monotonic() < until or len(acks) < 20:
            time.sleep(choice.uniform(0.0, 0.1))
            acks += writers.pop(choice.randrange(len(writers))).kill()
            writers.append(Writer(layout.root, f"{seed}-{started}"))
            started += 1
    finally:
        while writers:
            acks += writers.pop().kill()
    Journal(files_of(REAL, layout)).append([b"survivor 0 0"])

    print(f"seed {seed}: {started} writers, {len(acks)} acknowledged batches")
    check_history(layout, acks)


def test_a_file_size_limit_in_the_middle_of_a_frame(layout: Layout) -> None:
    """§4.3: a write that the kernel cuts short (RLIMIT_FSIZE) is taken back; others go on after it."""
    code = """
import resource, sys
from eventlog.base.errors import NotDurable
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles
from eventlog.log.journal import Journal

journal = Journal(StoreFiles(REAL, Layout(sys.argv[1]), bytes(range(16))))
journal.append([b"first 0 0"])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
refused = 0
for n in range(20):
    try:
        journal.append([b"limited %d 0 " % n + b"x" * 150])
    except NotDurable:
        refused += 1
print(refused, journal.next_position())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, layout.root], capture_output=True, text=True, check=True, timeout=60
    )
    refused, position = map(int, done.stdout.split())

    assert (refused + position, refused > 0, position > 1) == (21, True, True)
    assert Journal(files_of(REAL, layout)).append([b"last 0 0"]) == position
    assert len(log_of(layout)) == position + 1
    assert os.listdir(f"{layout.root}/log/quarantine") == []


def test_a_store_that_cannot_be_written_is_still_read(layout: Layout) -> None:
    """A file where the lock should be a file is an error with its path, not a traceback; reading goes on."""
    journal = Journal(files_of(REAL, layout))
    journal.append([b"first 0 0"])
    journal.close()
    Path(layout.lock("append")).unlink()
    Path(layout.lock("append")).mkdir()
    code = """
import sys
from eventlog.base.errors import NotDurable
from eventlog.base.fs import REAL
from eventlog.base.layout import Layout, StoreFiles
from eventlog.log.journal import Journal

journal = Journal(StoreFiles(REAL, Layout(sys.argv[1]), bytes(range(16))))
try:
    journal.append([b"x"])
except NotDurable as error:
    print(error)
print(journal.next_position())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, layout.root], capture_output=True, text=True, check=True, timeout=60
    )

    assert "append.lock: cannot append: Is a directory" in done.stdout
    assert done.stdout.endswith("\n1\n")
