"""Watchman for tests: a true server of its own, and one that answers as a test wants."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.names import short
from eventlog.hooks import watched
from eventlog.hooks.watched import Watch
from eventlog.worktree import watchman

INSTANCE = "c:1:2:3"
PROGRAM = shutil.which("watchman")
needs_watchman = pytest.mark.skipif(PROGRAM is None, reason="there is no program `watchman` (apt: watchman)")


class Watchman:
    """A true server in a directory of its own; nothing is watched yet."""

    def __init__(self, place: Path) -> None:
        self.socket = str(place / "sock")
        options = [f"--{name}={place / name}" for name in ("statefile", "logfile", "pidfile")]
        self.process = subprocess.Popen(
            [str(PROGRAM), "--foreground", f"--sockname={self.socket}", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + 20
        while not os.path.exists(self.socket):
            assert time.monotonic() < until and self.process.poll() is None, "watchman does not start"
            time.sleep(0.01)

    def ask(self, name: str, root: Path | None = None, **options: object) -> Any:
        path = None if root is None else os.path.realpath(root)
        return watchman.ask(self.socket, name, path, time.monotonic() + 10, **options)

    def watch(self, root: Path) -> None:
        # `watch` takes no options, which `ask` would add.
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.settimeout(20)
            connection.connect(self.socket)
            connection.sendall(json.dumps(["watch", os.path.realpath(root)]).encode() + b"\n")
            assert b'"watch"' in connection.recv(65536)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # it waits for a client
            self.process.kill()
            self.process.wait(10)


@contextlib.contextmanager
def true_server() -> Iterator[Watchman]:
    with tempfile.TemporaryDirectory() as place:  # short: the path of a socket has 108 bytes
        server = Watchman(Path(place))
        try:
            yield server
        finally:
            server.stop()


Answer = Callable[[list[Any]], Any]


class FakeWatchman:
    """A server that reports the paths in `changed`, and counts its clock up.

    `answers` stands in for that: it gets the question, and returns an object, or the parts of the answer.
    """

    def __init__(self, place: Path) -> None:
        self.path = str(place / "sock")
        self.asked: list[list[Any]] = []
        self.changed: list[str] = []
        self.tick = 0
        self.answers: Answer = self.answer
        self._ends = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def answer(self, question: list[Any]) -> dict[str, Any]:
        self.tick += 1
        answer: dict[str, Any] = {"version": "4.9.0", "clock": f"{INSTANCE}:{self.tick}"}
        if question[0] == "query":
            answer |= {"files": self.changed, "is_fresh_instance": False}
        return answer

    @property
    def names(self) -> list[str]:
        """The commands so far, which are forgotten."""
        names = [question[0] for question in self.asked]
        self.asked.clear()
        return names

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                given = connection.recv(65536)
                if not given:
                    continue  # the client thought better of it
                question = json.loads(given)
                self.asked.append(question)
                answer = self.answers(question)
                parts = [json.dumps(answer).encode() + b"\n"] if isinstance(answer, dict) else answer
                for part in parts:
                    if part is None:  # says nothing until the test is over
                        self._ends.wait(20)
                    else:
                        connection.sendall(part)

    def close(self) -> None:
        self._ends.set()
        with contextlib.suppress(OSError):  # closed before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(20)


@contextlib.contextmanager
def fake_server() -> Iterator[FakeWatchman]:
    with tempfile.TemporaryDirectory() as place:
        server = FakeWatchman(Path(place))
        try:
            yield server
        finally:
            server.close()


def note_watch(layout: Any, root: Path, server: str, **fields: Any) -> None:
    """Note a place as maintenance would."""
    path = os.path.realpath(root)
    place = {"socket": server, "root": path, "relative": "", "instance": INSTANCE, "unreported": (), **fields}
    watched.write_watch(layout, short(os.fsencode(path)), Watch(**place))
