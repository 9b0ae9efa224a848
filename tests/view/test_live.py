"""What a hook records meanwhile appears, to everybody who follows, each event once."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eventlog import Recorder, Store
from eventlog.log import rows
from eventlog.view import answers, live
from eventlog.view.stores import ViewedStores
from tests.cli.hook_support import Agent, project
from tests.cli.support import GIT_ENVIRONMENT
from tests.log.journal_bytes import Counting
from tests.view.support import TIMEOUT_S, Served, serving


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in GIT_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return project(tmp_path)


class Following:
    """A stream as a client reads it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = b""

    def head(self) -> bytes:
        while b"\r\n\r\n" not in self._data:
            self._data += self._connection.recv(1 << 16)
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        return head

    def messages(self) -> Iterator[dict[str, Any]]:
        """Each message as it comes; the pieces of HTTP between them are no lines of data.

        A second sign of life without a message between says that nothing comes: a wait without an end.
        """
        signs = 0
        while True:
            while b"\n\n" not in self._data:
                part = self._connection.recv(1 << 16)
                if not part:
                    return
                self._data += part
            piece, _, self._data = self._data.partition(b"\n\n")
            signs += b": " in piece.splitlines()
            assert signs < 3, "nothing came"
            for line in piece.splitlines():
                if line.startswith(b"data: "):
                    signs = 0
                    yield json.loads(line[6:])

    def until(self, is_last: Any) -> list[dict[str, Any]]:
        seen = []
        for message in self.messages():
            seen.append(message)
            if is_last(message):
                return seen
        raise AssertionError(f"the stream ended: {seen}")


@contextmanager
def following(served: Served, after: int | None = None) -> Iterator[Following]:
    query = "" if after is None else f"?after={after}"
    with served.connect() as connection:
        connection.sendall(
            f"GET /api/live{query} HTTP/1.1\r\nHost: {served.host}\r\n"
            f"Authorization: Bearer {served.guard.token}\r\n\r\n".encode()
        )
        stream = Following(connection)
        head = stream.head()
        assert head.startswith(b"HTTP/1.1 200"), head
        assert b"content-type: text/event-stream" in head and b"cache-control: no-store" in head
        yield stream


def position(root: Path) -> int:
    with Store.open(root) as store, store.view() as view:
        return view.next_position


def follower_threads() -> int:
    return sum(thread.name == "view-live" for thread in threading.enumerate())


def wait_for(is_so: Any) -> None:
    for _ in range(int(TIMEOUT_S / 0.05)):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it did not become so")


def test_a_turn_that_a_hook_records_appears(work: Path) -> None:
    """P7: the hook is a process; the stream names the turn, and what was answered before is not now."""
    store = work / ".locus"
    with serving({"work": store}) as served:
        before = served.answer("/api/spine")
        assert served.answer("/api/sessions")["sessions"] == []
        with following(served, before["until"]) as stream:
            agent = Agent(work)
            agent.start()
            agent.prompt("Make tea cost 3")
            (work / "tea.py").write_text("TEA = 3\n")
            agent.stop()
            seen = stream.until(lambda message: message["stop"] == "end")
        turn = seen[-1]["turn"]
        assert turn is not None and turn.startswith(seen[-1]["session"])
        assert seen[-1]["position"] <= position(store)
        spine = served.answer("/api/spine")
        assert spine["turns"][-1]["name"] == turn
        assert spine["until"] >= seen[-1]["position"]
        assert "tea.py" in spine["paths"]
        page = served.answer("/api/page", turn=turn)
        assert page["blocks"][0]["text"] == "Make tea cost 3"
        assert served.answer("/api/sessions")["sessions"][0]["active"] is True


def test_each_event_is_sent_once_also_to_a_client_that_comes_back(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: from the position that the reader has seen on; nothing is missed between two connections."""
    monkeypatch.setattr(live, "_ALIVE_S", 3.0)  # a stream that forgets is noticed soon
    store = work / ".locus"
    with Store.open(store) as writer, serving({"work": store}) as served:
        recorder = Recorder(writer, agent="probe")
        begin = position(store)
        first = recorder.start_turn("One")
        with following(served, begin) as stream:
            seen = stream.until(lambda message: message["position"] == position(store))
        first.end()
        second = recorder.start_turn("Two")
        end = position(store)
        with following(served, seen[-1]["position"]) as stream:
            seen += stream.until(lambda message: message["position"] == end)
        second.end()
    with Store.open(store) as reader:
        counted = sum(1 for event in reader.events(begin, end))
    assert sum(message["events"] for message in seen) == counted
    assert {message["turn"] for message in seen} >= {first.ref.name, second.ref.name}


def test_a_client_that_missed_too_much_reads_everything_again(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message says so, and where the log is now."""
    monkeypatch.setattr(live, "MISSED_MAX", 3)
    store = work / ".locus"
    with Store.open(store) as writer:
        Recorder(writer, agent="probe").start_turn("One").end()
    with serving({"work": store}) as served:
        for after in (0, 10_000):
            with following(served, after) as stream:
                (message,) = stream.until(lambda message: True)
            assert message == {
                "position": position(store), "session": None, "turn": None, "stop": None, "events": 0,
            }  # fmt: skip


def test_a_ninth_stream_is_refused_until_one_is_closed(work: Path) -> None:
    """P5: a reader who leaves gives the thread back."""
    with serving({"work": work / ".locus"}) as served:
        streams = [following(served) for _ in range(live.STREAMS_MAX)]
        for stream in streams:
            stream.__enter__()
        assert served.ask("/api/live").status == 503
        assert follower_threads() == live.STREAMS_MAX
        for stream in streams:
            stream.__exit__(None, None, None)
        wait_for(lambda: follower_threads() == 0)
        with following(served):
            pass


def test_a_server_ends_although_somebody_follows(work: Path) -> None:
    """No thread is left."""
    with serving({"work": work / ".locus"}) as served:
        stream = following(served)
        stream.__enter__()
    wait_for(lambda: follower_threads() == 0)


def test_what_comes_at_once_is_one_message_for_each_turn() -> None:
    """In order; the last one has the last position."""

    def event(position: int, turn: int | None, kind: str, operation: str | None = None) -> dict[str, Any]:
        turn_id = None if turn is None else f"{turn:03d}"
        return {
            "position": position, "session_id": "s", "turn": turn, "turn_id": turn_id, "event_type": kind,
            "operation": operation,
        }  # fmt: skip

    events = [
        event(5, None, "session"),
        event(6, 1, "snapshot", "turn_start"),
        event(7, 2, "snapshot", "turn_start"),
        event(8, 1, "snapshot", "turn_end"),
        event(9, 1, "turn", "end"),
    ]
    assert live.grouped(events) == [
        {"position": 6, "session": "s", "turn": None, "stop": None, "events": 1},
        {"position": 8, "session": "s", "turn": "s_002", "stop": "start", "events": 1},
        {"position": 10, "session": "s", "turn": "s_001", "stop": "end", "events": 3},
    ]


def test_a_wrong_stream_gets_an_error(work: Path) -> None:
    """No thread is begun for it."""
    with serving({"work": work / ".locus"}) as served:
        assert served.ask("/api/live", {"after": "x"}).status == 400
        assert served.ask("/api/live", {"store": "other"}).status == 404
        assert served.ask("/api/live", method="HEAD").status == 200
        assert follower_threads() == 0


# What a view reads to find where the newest journal ends, and the headers of two.
OF_A_VIEW = (64 << 10) + 512


def test_the_tail_is_read_once_and_then_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page of a live session was paying for all that is not sealed yet: now the first one does."""
    fs, decoded, views = Counting(), list[int](), list[int]()
    row_of, view = rows.row_of, Store.view
    monkeypatch.setattr(rows, "row_of", lambda line, at, *rest: decoded.append(at) or row_of(line, at, *rest))
    monkeypatch.setattr(Store, "view", lambda store: views.append(1) or view(store))
    with Store.init(tmp_path / ".locus") as writer:
        recorder = Recorder(writer, agent="probe")
        turns = []
        for number in range(20):
            turn = recorder.start_turn(f"Turn {number}")
            turn.action("Bash", {"command": "ls"}, {"stdout": "x" * 50_000})
            turn.end()
            turns.append(turn.ref.name)
        end = position(tmp_path / ".locus")
        with Store.open(tmp_path / ".locus", fs=fs) as store:
            stores = ViewedStores({"x": store})

            def ask(path: str, **parameters: str) -> tuple[list[int], int]:
                """Which events are decoded for an answer, and the bytes beyond what each view reads."""
                fs.bytes = 0
                decoded.clear()
                views.clear()
                assert answers.answer(stores, path, parameters)
                return sorted(decoded), fs.bytes - len(views) * OF_A_VIEW

            first = ask("/api/spine")
            assert first[0] == list(range(end)) and first[1] > 500_000
            for name in turns:
                for again in (ask("/api/page", turn=name), ask("/api/spine"), ask("/api/sessions")):
                    assert again[0] == [] and again[1] <= 0
            last = recorder.start_turn("One more")
            last.end()
            newest = ask("/api/page", turn=last.ref.name)
            assert newest[0] and min(newest[0]) >= end and newest[1] < 10_000
