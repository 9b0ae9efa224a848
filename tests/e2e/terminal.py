"""A terminal without a person: what a shell there runs, what is typed, and what was shown."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_ROWS, _COLUMNS = 40, 120
# What programs ask of a terminal before they draw: where its cursor is, and what it is.
_ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;c", b"\x1b[5n": b"\x1b[0n"}
_ESCAPES = re.compile(
    r"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[PX^_].*?\x1b\\|[ -/]*[0-~])", re.S
)


class Terminal:
    """One command line at work."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._shown = b""
        self._changed = time.monotonic()

    def until(self, done: Callable[[], bool], what: str, seconds: float = 90) -> None:
        """Go on showing until `done()`."""
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, f"{what} did not happen within {seconds} s:\n{self.text()[-3000:]}"
            self._show()

    def rest(self, seconds: float = 2.0) -> None:
        """Go on until nothing new was shown for a while."""
        self.until(lambda: time.monotonic() - self._changed > seconds, "rest")

    def type(self, keys: str) -> None:
        self._changed = time.monotonic()
        os.write(self._descriptor, keys.encode())

    def press(self, key: str, done: Callable[[], bool], what: str, seconds: float = 90) -> None:
        """Press a key whenever the program rests, until it has done what the key asks for."""
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, f"{what} did not happen within {seconds} s:\n{self.text()[-3000:]}"
            self.type(key)
            self.until(lambda: done() or time.monotonic() - self._changed > 3, "rest")

    def text(self) -> str:
        return _ESCAPES.sub(" ", self._shown.decode("utf-8", "replace"))

    def _show(self) -> None:
        if not select.select([self._descriptor], [], [], 0.1)[0]:
            return
        try:
            part = os.read(self._descriptor, 1 << 16)
        except OSError:  # the program has ended
            time.sleep(0.1)
            return
        self._shown += part
        self._changed = time.monotonic()
        for question, answer in _ANSWERS.items():
            for _ in range(part.count(question)):
                os.write(self._descriptor, answer)


@contextmanager
def typed(command: str, directory: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    """A shell that runs the line `command` in `directory`; when left, its process group is gone."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=directory,
        env={**environment, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(ours)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself
        process.wait()
        os.close(ours)
