"""`locus` in processes that are killed (SIGKILL) around their k-th effect on a place.

An effect is a creation, a deletion, or writing what the store remembers. Each run is forked from a process
that has imported everything and used nothing: the client's threads do not survive a fork.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
NEVER = 1 << 30
KILLED = -int(signal.SIGKILL)


class Killer:
    """A process that forks the runs."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.lake.killed"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, *arguments: object, kill_at: int = NEVER, after: bool = False) -> None:
        """Begin a run; several may go on at once. Args: after: kill after the effect, not before it."""
        assert self._process.stdin is not None
        environ = {**os.environ, "LOCUS_NO_MAINTENANCE": "1"}  # it would append events meanwhile
        request = [list(map(str, arguments)), environ, kill_at, after]
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def ends(self, count: int = 1) -> "list[int]":
        """Wait for so many runs; their exit codes, in the order in which they ended."""
        assert self._process.stdout is not None
        return [int(self._process.stdout.readline()) for _ in range(count)]

    def run(self, *arguments: object, kill_at: int = NEVER, after: bool = False) -> int:
        """The exit code of one run; KILLED where it had that many effects."""
        self.start(*arguments, kill_at=kill_at, after=after)
        return self.ends()[0]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def _serve() -> None:
    for name in ("lake.publish", "lake.place", "lake.folding.driver", "store", "query.engine"):
        import_module(f"eventlog.{name}")
    for name in ("obstore.store", "pyiceberg.catalog.sql", "locus_cli.main", "locus_cli.lake.publish"):
        import_module(name)
    out = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            waiter(out, *json.loads(line))


def waiter(out: int, arguments: "list[str]", environ: "dict[str, str]", kill_at: int, after: bool) -> None:
    """In a child: do the run in a child of its own, and report how it ended."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            os.environ.clear()
            os.environ.update(environ)
            count_effects(kill_at, after)
            os._exit(import_module("locus_cli.main").run(arguments))
        finally:
            os._exit(99)
    os.write(out, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def count_effects(kill_at: int, after: bool) -> None:
    """Kill this process before or after its effect number `kill_at`."""
    place: Any = import_module("eventlog.lake.place").Place
    remembered: Any = import_module("eventlog.lake.remembered")
    count = [0]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def effect(*arguments: Any, **named: Any) -> Any:
            number, count[0] = count[0], count[0] + 1
            if number == kill_at and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = call(*arguments, **named)
            if number == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return effect

    for owner, name in ((place, "create"), (place, "delete"), (remembered, "write")):
        setattr(owner, name, counted(getattr(owner, name)))


if __name__ == "__main__":
    _serve()
