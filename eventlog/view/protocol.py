"""HTTP/1.1 as uvicorn speaks it, with a time limit for a request and our headers on its own refusals."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from eventlog.view.guard import HEADERS

REQUEST_S = 10.0  # until the head of a request has come


class Protocol(H11Protocol):
    """One connection."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        cycle = self.cycle
        if self._waiting is None:
            self._wait()
        super().data_received(data)
        if self.cycle is not cycle:
            self._stop_waiting()  # a request has come

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has too long a head."""
        headers: list[tuple[bytes, bytes]] = [
            (name.encode(), value.encode()) for name, value in (*HEADERS, ("connection", "close"))
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(REQUEST_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.abort()
