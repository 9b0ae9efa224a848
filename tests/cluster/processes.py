"""Which processes of a cluster there are, as /proc has them."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

CLUSTER = Path(__file__).resolve().parents[2] / "scripts/cluster.py"
EXECUTOR = "CoarseGrainedExecutorBackend"  # the process in which a worker runs tasks of one program
DAEMON = "pyspark.daemon"  # its child, which forks those that run Python
_WAIT_S = 60.0


@dataclass(frozen=True)
class Process:
    """A process with its parent and its command line."""

    number: int
    parent: int
    line: str


def processes_with(text: str) -> "list[Process]":
    """The processes that have a text in their command line."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{number}/cmdline").read_text(errors="replace")
            parent = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it is gone already
            continue
        if text in line:
            found.append(Process(int(number), parent, line))
    return found


def executors_at_work(conf_dir: str) -> "list[int]":
    """The executors of a cluster in which a task runs Python now."""
    daemons = processes_with(DAEMON)
    numbers = {daemon.number for daemon in daemons}
    busy = {daemon.parent for daemon in daemons if daemon.parent in numbers}
    owners = {daemon.parent for daemon in daemons if daemon.number in busy}
    return [p.number for p in processes_with(conf_dir) if EXECUTOR in p.line and p.number in owners]


def wait_for_none(text: str) -> None:
    """Wait until no process has a text in its command line."""
    until = time.monotonic() + _WAIT_S
    while found := processes_with(text):
        assert time.monotonic() < until, found
        time.sleep(0.05)
