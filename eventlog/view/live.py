"""What is recorded meanwhile, as server-sent events (docs/view.md).

Each stream follows the log in a thread of its own, from the position that its reader has seen on, so that
none misses an event and none waits for another. What comes at once is one message for each turn.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.store import Store

STREAMS_MAX = 8
# A client that missed more than these reads everything again; a message says so.
MISSED_MAX = 10_000
POLL_S = 0.1
_TOGETHER_S = 0.05  # what comes within this is sent at once
_ALIVE_S = 15.0  # a comment after so much silence shows whether anybody still reads
_ALIVE = b": \n\n"
_COLUMNS = ("position", "session_id", "turn", "turn_id", "event_type", "operation")

Light = dict[str, Any]


class LiveStreams:
    """The streams of one server."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        """Args: paths: the stores' directories by their names."""
        self._paths = paths
        self._open: set[_Stream] = set()

    def open(self, store: str | None, after: int | None) -> "AsyncIterator[bytes] | None":
        """A stream from a position on; None where too many are open. Raises: KeyError (the store)."""
        path = self._paths[store] if store is not None else next(iter(self._paths.values()))
        if len(self._open) >= STREAMS_MAX:
            return None
        stream = _Stream(path, after)
        self._open.add(stream)
        return self._messages(stream)

    async def _messages(self, stream: "_Stream") -> AsyncIterator[bytes]:
        try:
            async for message in stream.messages():
                yield message
        finally:
            stream.close()
            self._open.discard(stream)

    def close(self) -> None:
        """End all streams, as their server ends."""
        for stream in list(self._open):
            stream.close()


class _Stream:
    """One reader: a thread that follows the log, and a queue that the server empties."""

    def __init__(self, path: str, after: int | None) -> None:
        self._path = path
        self._after = after
        self._is_over = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Light | None] = asyncio.Queue()
        threading.Thread(target=self._follow, name="view-live", daemon=True).start()

    def close(self) -> None:
        self._is_over.set()

    async def messages(self) -> AsyncIterator[bytes]:
        yield _ALIVE  # the reader knows now that it is connected
        while True:
            try:
                first = await asyncio.wait_for(self._queue.get(), _ALIVE_S)
            except TimeoutError:
                yield _ALIVE
                continue
            await asyncio.sleep(_TOGETHER_S)
            events = [first]
            while not self._queue.empty():
                events.append(self._queue.get_nowait())
            for message in grouped(event for event in events if event is not None):
                yield b"data: " + jsontext.encode(message) + b"\n\n"
            if None in events:
                return

    # -- in the thread that follows ----------------------------------------------------------------

    def _follow(self) -> None:
        try:
            with Store.open(self._path) as store:
                for event in store.follow(self._begin(store), poll_s=POLL_S, stop=self._is_over.is_set):
                    row: Mapping[str, Any] = event
                    self._put({name: row[name] for name in _COLUMNS})
        except (EventLogError, OSError):
            pass  # the reader connects again, and pages say what is wrong
        self._put(None)

    def _begin(self, store: Store) -> int:
        with store.view() as view:
            end = view.next_position
        if self._after is None or not end - MISSED_MAX <= self._after <= end:
            if self._after is not None:
                self._put(dict.fromkeys(_COLUMNS) | {"position": end - 1})
            return end
        return self._after

    def _put(self, event: Light | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)
        except RuntimeError:
            self._is_over.set()  # the server has ended


def grouped(events: Iterable[Light]) -> list[dict[str, Any]]:
    """One message for each turn, in the order in which these came last.

    `position` is where the reader has come; the last message has the last.
    """
    messages: dict[tuple[Any, Any], dict[str, Any]] = {}
    for event in events:
        key = event["session_id"], event["turn"]
        message = messages.pop(key, None) or _message(event)
        message["position"] = event["position"] + 1
        message["stop"] = _stop(event) or message["stop"]
        message["events"] += event["event_type"] is not None
        messages[key] = message
    return list(messages.values())


def _message(event: Mapping[str, Any]) -> dict[str, Any]:
    session, turn_id = event["session_id"], event["turn_id"]
    turn = f"{session}_{turn_id}" if session is not None and turn_id is not None else None
    return {"position": 0, "session": session, "turn": turn, "stop": None, "events": 0}


def _stop(event: Mapping[str, Any]) -> str | None:
    """Which moment of its turn an event shows the files of."""
    if event["event_type"] != "snapshot":
        return None
    return "start" if event["operation"] == "turn_start" else "end"
