"""Progress on stderr: one line that rewrites itself, on a terminal only, and only after a second.

A thread of its own writes the line, so that work which reports nothing still shows that time passes.
"""

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventlog.store import Store

_QUIET_S = 1.0
_BETWEEN_S = 0.2


class Progress:
    """A context manager around work that may take long; call it with (done, total) where that is known."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._counts = (0, 0)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True) if sys.stderr.isatty() else None

    def __enter__(self) -> "Progress":
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def __call__(self, done: int, total: int) -> None:
        self._counts = (done, total)

    def _show(self) -> None:
        started_s = time.monotonic()
        if self._done.wait(_QUIET_S):
            return
        while True:
            sys.stderr.write(f"\r{line(self._what, *self._counts, time.monotonic() - started_s)}\x1b[K")
            sys.stderr.flush()
            if self._done.wait(_BETWEEN_S):
                break
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def line(what: str, done: int, total: int, elapsed_s: float) -> str:
    """`commits: 120 of 400 (30 %), 7 s left`, or the seconds gone by where there are no numbers."""
    if not 0 < done <= total:
        return f"{what}: {elapsed_s:.0f} s"
    left_s = elapsed_s / done * (total - done)
    return f"{what}: {done:,} of {total:,} ({100 * done // total} %), {left_s:.0f} s left"


def seal_shown(store: "Store") -> None:
    """Seal what an import appended and index it, so that the next command finds it ready."""
    with Progress("sealing"):
        store.seal()
        store.reindex()
