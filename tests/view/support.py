"""A viewer's server in a thread of this process, and what a client sends it byte by byte."""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from eventlog.view.guard import Guard
from eventlog.view.server import Viewer, listening, serve
from eventlog.view.stores import ViewedLake

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Reply:
    """What a server sent back; `status` 0 where it closed the connection without a word."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, values
        return values[0] if values else None

    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value


@dataclass(frozen=True)
class Served:
    """A running viewer."""

    guard: Guard
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)

    def send(self, request: bytes) -> Reply:
        """Send bytes as they are, and read until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(request)
            return parsed(read_all(connection))

    def ask(
        self,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Args: token: the server's own by default, None to send none."""
        given = {"Host": self.host, "Connection": "close", **(headers or {})}
        if token is not None:
            given["Authorization"] = f"Bearer {token or self.guard.token}"
        query = f"?{urlencode(parameters)}" if parameters else ""
        lines = [f"{method} {path}{query} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        return self.send("\r\n".join([*lines, "", ""]).encode())

    def answer(self, path: str, /, **parameters: str) -> dict[str, Any]:
        """The answer to a question, which must be one."""
        reply = self.ask(path, parameters)
        assert reply.status == 200, reply.body
        return reply.json()


def read_all(connection: socket.socket) -> bytes:
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def parsed(data: bytes) -> Reply:
    if not data:
        return Reply(0, [], b"")
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(": ") for line in lines]
    headers = [(name.lower(), value) for name, _, value in pairs]
    return Reply(int(first.split(" ")[1]), headers, body)


@contextmanager
def serving(
    paths: Mapping[str, Path],
    names: tuple[str, ...] = (),
    lake: "ViewedLake | None" = None,
    host: str = "127.0.0.1",
) -> Iterator[Served]:
    """A viewer of these stores, or of a lake, until the context ends."""
    listener = listening(host, 0)
    port = listener.getsockname()[1]
    guard = Guard(port, names)
    viewer = Viewer({name: str(path) for name, path in paths.items()}, guard, lake)
    is_ready, stops = threading.Event(), list[Any]()

    def ready(stop: Any) -> None:
        stops.append(stop)
        is_ready.set()

    thread = threading.Thread(target=serve, args=(viewer, listener, ready))
    thread.start()
    try:
        assert is_ready.wait(TIMEOUT_S)
        yield Served(guard, port)
    finally:
        for stop in stops:
            stop()
        thread.join(TIMEOUT_S)
        listener.close()
        assert not thread.is_alive()
