"""Progress on stderr: one line that rewrites itself, on a terminal only, and only after a second."""

import sys
import time

_QUIET_S = 1.0
_BETWEEN_S = 0.1


class Progress:
    """Call it with (done, total); `close` wipes the line. `total` 0 means unknown."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._started_s = time.monotonic()
        self._shown_s = 0.0
        self._on = sys.stderr.isatty()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __call__(self, done: int, total: int) -> None:
        if not self._on:
            return
        now_s = time.monotonic()
        elapsed_s = now_s - self._started_s
        if elapsed_s < _QUIET_S or now_s - self._shown_s < _BETWEEN_S:
            return
        self._shown_s = now_s
        if 0 < done <= total:
            left_s = elapsed_s / done * (total - done)
            text = f"{self._what}: {done:,} of {total:,} ({100 * done // total} %), {left_s:.0f} s left"
        else:
            text = f"{self._what}: {done:,}"
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()

    def close(self) -> None:
        if self._shown_s:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown_s = 0.0
