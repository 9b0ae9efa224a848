"""Progress on stderr: on a terminal one line that rewrites itself, elsewhere a line every half minute.

Work that ends before the first line prints nothing. A thread of its own writes, so that work which
reports nothing still shows that time passes.
"""

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import eventlog

if TYPE_CHECKING:
    from collections.abc import Callable


_QUIET_S = 1.0
_BETWEEN_S = 0.2
_BETWEEN_LINES_S = 30.0  # where stderr is a file


class Progress:
    """A context manager for long work; call it with (done, total) where these are known."""

    def __init__(
        self,
        what: str,
        *,
        with_rate: bool = False,
        clock: "Callable[[], float]" = time.monotonic,
        wait: "Callable[[float], bool] | None" = None,
    ) -> None:
        """Args: with_rate: show how many a second; clock: seconds; wait: waits so many seconds, and returns
        whether the work is done.
        """
        self._what = what
        self._with_rate = with_rate
        self._counts = (0, 0)
        self._done = threading.Event()
        self._clock = clock
        self._wait = self._done.wait if wait is None else wait
        show = self._rewrite if sys.stderr.isatty() else self._append
        self._thread = threading.Thread(target=show, daemon=True)
        self._thread.is_fork_safe = True  # type: ignore[attr-defined]  # for eventlog/checkout/parallel.py

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def __call__(self, done: int, total: int) -> None:
        self._counts = (done, total)

    def say(self, text: str) -> None:
        """Print a line that stays, above the one that rewrites itself."""
        _put(f"\r\x1b[K{text}\n" if sys.stderr.isatty() else f"{text}\n")

    def _line(self, started_s: float) -> str:
        return line(self._what, *self._counts, self._clock() - started_s, self._with_rate)

    def _rewrite(self) -> None:
        started_s = self._clock()
        if self._wait(_QUIET_S):
            return
        while True:
            _put(f"\r{self._line(started_s)}\x1b[K")
            if self._wait(_BETWEEN_S):
                break
        _put("\r\x1b[K")

    def _append(self) -> None:
        started_s = self._clock()
        while not self._wait(_BETWEEN_LINES_S):
            _put(f"{self._line(started_s)}\n")


# Held while a line is written, and while the process forks: so a child never inherits the lock of stderr.
_writing = threading.Lock()
os.register_at_fork(
    before=_writing.acquire, after_in_parent=_writing.release, after_in_child=_writing.release
)


def _put(text: str) -> None:
    with _writing:
        sys.stderr.write(text)
        sys.stderr.flush()


def line(what: str, done: int, total: int, elapsed_s: float, with_rate: bool = False) -> str:
    """`commits: 120 of 400 (30 %), 7 s left`, or the seconds gone by where there are no numbers."""
    if not 0 < done <= total:
        return f"{what}: {elapsed_s:.0f} s"
    left_s = elapsed_s / done * (total - done)
    rate = f", {done / elapsed_s:,.0f}/s" if with_rate and elapsed_s > 0 else ""
    return f"{what}: {done:,} of {total:,} ({100 * done // total} %){rate}, {left_s:.0f} s left"


def seal_shown(store: "eventlog.Store") -> None:
    """Seal what an import appended and index it, so that the next command finds it ready."""
    with Progress("sealing"):
        store.seal()
        store.reindex()
