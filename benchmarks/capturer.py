"""A process that captures: `python -m benchmarks.capturer ROOT`.

It opens the store in ROOT and then, for every line on its input, captures ROOT and says how many seconds
that took. A process of its own with one thread, as a hook is one: it may fork, and a fork pays for the
memory that other rows left behind.
"""

from __future__ import annotations

import subprocess
import sys
import time
from types import TracebackType

from benchmarks.process import environment
from eventlog import Store
from eventlog.worktree import capture


class Capturer:
    """The capturing process, its store open."""

    def __init__(self, root: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.capturer", root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def __enter__(self) -> Capturer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def seconds(self) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the capturing process ended with code {self._process.wait()}")
        return float(line)


def seconds_of_capture(store: Store, root: str) -> float:
    start = time.perf_counter()
    with store.blobs.writer() as writer:
        found = capture.capture(writer, root, haste=capture.Haste(may_fork=True))  # as a hook does
    took = time.perf_counter() - start
    if found.partial:
        raise RuntimeError(f"the capture is partial: {found.warning}")
    return took


def main() -> None:
    root = sys.argv[1]
    with Store.open(f"{root}/.locus") as store:
        for _ in sys.stdin:
            print(seconds_of_capture(store, root), flush=True)


if __name__ == "__main__":
    main()
