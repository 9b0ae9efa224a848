"""A turn's sealed events read by way of DuckDB: the same as by way of pyarrow, which is not loaded for it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eventlog.base.errors import Corruption
from eventlog.base.types import BOOL, COLUMN_NAMES, COLUMNS, INT, LIST, TEXT, TIME, Event
from eventlog.log import shorten
from eventlog.log.line import encode_line
from eventlog.maintenance.upkeep import maintain
from eventlog.projections import source
from eventlog.projections.excerpt import Excerpt
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store

_ID, _SESSION = "0123456789abcdef0123456789abcde{}", "a1b2c3d4"


def _event(number: int, **columns: Any) -> Event:
    kinds: dict[str, Any] = {TEXT: "ü\0\U0001f600'\"", INT: 2**62, TIME: -1, BOOL: False, LIST: ["", "é"]}
    usual = {name: kinds[kind] for name, kind in COLUMNS if kind in kinds and name not in _LEFT}
    known = {"event_type": "action", "event_kind": "fact", "source": "agent", "schema_version": 1}
    named = {"event_id": _ID.format(number), "session_id": _SESSION, "turn": 1}
    return {
        **usual,
        **known,
        **named,
        "payload": {"n": number, "x": 1.50},
        **columns,
    }


_LEFT = ("position", "seq", "prev_context_id", "context_id", "extends", "agent_turn_id")


def _sealed(root: Path, *events: Event) -> Path:
    with Store.init(root / ".locus", force=True) as store:
        store.journal.append([encode_line(event) for event in events])
        store.seal()
    return root / ".locus"


def _read(root: Path, *, asked: bool, **which: Any) -> list[Any]:
    """The events of the turn; with `asked` as by a store that was asked in SQL before."""
    with Store.open(root) as store:
        if asked:
            store.query("select 1")
        return list(store.events(0, which.pop("until", 9), session_id=_SESSION, turn=1, **which))


@pytest.mark.parametrize(
    "time_us", [0, 253_402_300_799_999_999, 2**63 - 1, -(2**63) + 1], ids=["1970", "9999", "inf", "-inf"]
)
def test_an_excerpt_gives_what_pyarrow_gives(tmp_path: Path, time_us: int) -> None:
    """S1-55, I14: every column of every kind, also values that only older versions accepted."""
    first = {"event_type": "turn", "operation": "start", "payload": {"user_message": "go"}}
    sparse = dict.fromkeys(("occurred_at", "title", "blobs", "success", "duration_ms"))
    root = _sealed(
        tmp_path,
        _event(0, **first),
        _event(1, occurred_at=time_us),
        _event(2, turn=2),
        _event(3, **sparse),
    )

    for which in ({}, {"event_types": ["turn"]}, {"columns": ["payload", "event_id"]}, {"until": 2}):
        assert _read(root, asked=True, **which) == _read(root, asked=False, **which) != []


def test_an_excerpt_of_sessions_gives_what_pyarrow_gives(tmp_path: Path) -> None:
    """I14, I37: a search for the names of sessions finds those that the segments hold."""
    payload: dict[str, Any] = {
        "event_type": "session",
        "operation": "start",
        "turn": None,
        "payload": {"a": 1},
    }
    root = _sealed(
        tmp_path, _event(0, **payload), _event(1), _event(2, **payload, context_id="session:x_a1b2c3d4")
    )
    with Store.open(root) as store:
        store.query("select 1")
        read = []
        for excerpt in (Excerpt(store.fs, store.layout), None):
            with store.view() as view:
                view.excerpt = excerpt
                read.append(list(view.iterate(1, event_types=("session",))))

    assert read[0] == read[1] and [event["position"] for event in read[0]] == [2]


@pytest.mark.parametrize(
    "which", [{"event_types": ("file",)}, {"columns": ("session_id", "position")}, {"session_id": "b2"}]
)
def test_an_excerpt_of_positions_gives_what_pyarrow_gives(tmp_path: Path, which: dict[str, Any]) -> None:
    """I14: what happened beside a turn, whoever did it; more positions than fit are left to pyarrow."""
    of_others = {"session_id": "b2", "event_type": "file", "operation": "edit", "path": "a", "turn": None}
    root = _sealed(tmp_path, *(_event(n, **(of_others if n % 2 else {})) for n in range(6)))
    with Store.open(root) as store:
        store.query("select 1")
        read: list[list[Any]] = []
        for excerpt in (Excerpt(store.fs, store.layout), None):
            with store.view() as view:
                view.excerpt = excerpt
                read.append(list(view.iterate(1, 5, **which)))
                assert excerpt is None or len(excerpt._read) == 1
        excerpt = Excerpt(store.fs, store.layout)
        with store.view() as view:
            view.excerpt = excerpt
            assert len(list(view.iterate(0, 2_001, **which))) > len(read[0])
            assert not excerpt._read

    assert read[0] == read[1] != []


def test_an_excerpt_is_read_once_for_all_that_a_command_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-55, P8: what a turn did, and how its files were at start and end, take one read of the segment."""
    looks: list[str] = []
    read = Excerpt._ask
    monkeypatch.setattr(Excerpt, "_ask", lambda *given: (looks.append(given[2]), read(*given))[1])
    with Store.open(_sealed(tmp_path, _event(0, event_type="turn", agent="script"))) as store:
        turn = store.turn(f"{_SESSION}_001")
        assert len(store.timeline(turn)) == 1
        for at in ("start", "end"):
            store.certainty(turn, at)

    assert [look.split()[0] for look in looks] == ["session_id"]


def test_an_excerpt_reads_the_columns_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I14, P8: trees need a quarter of the columns; who asks for another one reads all, once."""
    looks: list[Sequence[str]] = []
    read = Excerpt._ask
    monkeypatch.setattr(Excerpt, "_ask", lambda *given: (looks.append(given[4]), read(*given))[1])
    with Store.open(_sealed(tmp_path, _event(0, event_type="turn", agent="script"))) as store:
        turn = store.turn(f"{_SESSION}_001")
        store.certainty(turn)
        assert [event["payload"] for event in store.timeline(turn)] != []
        store.certainty(turn)
        assert store.timeline(turn)

    assert [len(columns) == len(COLUMN_NAMES) for columns in looks] == [False, True]


def test_turns_near_one_another_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I14: a diff asks one question for both turns, and each has the events that it has alone."""
    root = _sealed(tmp_path, *(_event(n, turn=n % 2, session_id=_SESSION[: 8 - n // 7]) for n in range(8)))
    questions: list[str] = []
    read = Excerpt._ask
    monkeypatch.setattr(Excerpt, "_ask", lambda *given: (questions.append(given[2]), read(*given))[1])

    def turn(store: Store, number: int, columns: Any) -> list[Any]:
        return list(store.events(number, 7, session_id=_SESSION, turn=number, columns=columns))

    for columns in (["event_id", "path"], None):  # None: more than were read at once
        with Store.open(root) as store:
            store.query("select 1")
            alone = [turn(store, number, columns) for number in (0, 1)]
        questions.clear()
        with Store.open(root) as store:
            store.query("select 1")
            with store.view() as view:
                view.read_at_once([(0, 7), (1, 7)], ["event_id", "path"])
                view.read_at_once([(0, 7), (1, None)], ["event_id", "path"])
                view.read_at_once([(0, 7), (1, 10_000)], ["event_id", "path"])
            assert [turn(store, number, columns) for number in (0, 1)] == alone
        assert len(questions) == (1 if columns else 3)


def test_a_turn_is_shown_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1-55, P8: a turn in a long tail is shown, and once that was sealed it is shown without pyarrow."""
    program = [os.path.join(os.path.dirname(sys.executable), "locus"), "timeline", f"{_SESSION}_001"]
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    monkeypatch.setenv("LOCUS_NO_MAINTENANCE", "1")
    with Store.init(tmp_path / ".locus", force=True) as store:
        text = "x" * (shorten.TAIL_BYTES_MAX // 8)
        anchor = _event(9, event_type="turn", operation="start")  # under a session without a name
        store.journal.append([encode_line(_event(n, payload={"text": text})) for n in range(9)])
        store.journal.append([encode_line(anchor)])
        in_tail = subprocess.run(program, cwd=tmp_path, capture_output=True, check=True)
        assert maintain(store)
    sealed = subprocess.run(program, cwd=tmp_path, capture_output=True, check=True)

    assert in_tail.stdout == sealed.stdout != b""
    with Store.open(tmp_path / ".locus") as store, store.view() as view:
        assert view.tail_count == 0
    assert store.status().index is not None
    assert b" pyarrow\n" not in sealed.stderr


def test_a_changed_byte_of_an_excerpt_is_found(tmp_path: Path) -> None:
    """I11: DuckDB checks no page, so the segment is compared first, whatever is remembered of it."""
    root = _sealed(tmp_path, *(_event(n, payload={"text": f"{n}" * 2_000}) for n in range(4)))
    (path,) = (root / "log" / "segments").iterdir()
    sound = path.read_bytes()
    with Store.open(root) as store, open(path, "r+b") as file:
        store.query("select count(*) from turns")

        def ask() -> list[Any]:
            store._excerpt = Excerpt(store.fs, store.layout)
            return list(store.events(0, 9, session_id=_SESSION, turn=1))

        expected = ask()
        for at in range(4, len(sound) // 2, len(sound) // 25):
            os.pwrite(file.fileno(), bytes([sound[at] ^ 1]), at)
            with suppress(Corruption):
                assert ask() == expected
            os.pwrite(file.fileno(), sound[at : at + 1], at)


def test_one_connection_reads_turn_after_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To connect takes longer than to read a turn; a closed store gives it back, an open one goes on."""
    with Store.init(tmp_path / ".locus") as store:
        recorder = Recorder(store, agent="probe")
        turns = []
        for number in range(3):
            turn = recorder.start_turn(f"Turn {number}")
            turn.end()
            turns.append(turn.ref.name)
        store.seal()
    made = []
    connect = source.connect

    def connecting() -> Any:
        made.append(connect())
        return made[-1]

    monkeypatch.setattr(source, "connect", connecting)
    with Store.open(tmp_path / ".locus") as store:
        refs = [store.turn(name) for name in turns]
        assert store.timeline(refs[0])
        count = len(made)
        for ref in refs:
            assert {event["turn"] for event in store.timeline(ref)} == {ref.turn}
        assert len(made) == count
    for con in made:
        with pytest.raises(duckdb.ConnectionException):
            con.execute("select 1")
