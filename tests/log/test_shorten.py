"""Long tails: they are sealed by who meets them, and where nobody may, they are read once."""

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.locks import MAINTAIN
from eventlog.log import rows
from eventlog.log import shorten as log_shorten
from eventlog.log.shorten import TAIL_BYTES_MAX, shorten
from eventlog.mcp.call import ToolCall
from eventlog.mcp.tools import tools_for
from eventlog.projections import source
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store


def with_tail(root: Path, count: int, size: int = 0) -> Path:
    """A store that holds a turn and `count` more events with a text of `size` characters, all unsealed."""
    with Store.init(root / ".locus", force=True) as store:
        turn = Recorder(store, agent="script").start_turn("The only one")
        turn.end()
        store.append({"event_type": "action", "payload": {"n": n, "text": "x" * size}} for n in range(count))
    return root


@pytest.fixture
def long_tail(tmp_path: Path) -> Path:
    """A store with a tail that is to be sealed."""
    return with_tail(tmp_path, 30, TAIL_BYTES_MAX // 25)


def unsealed(root: Path) -> int:
    with Store.open(root / ".locus") as store, store.view() as view:
        return view.tail_count


def test_a_recorder_seals_a_long_tail_before_it_reads_it(long_tail: Path) -> None:
    """S1-23, P8: turns that begin later do not read again what came before them."""
    with Store.open(long_tail / ".locus") as store:
        turn = Recorder(store, agent="script").start_turn("The next")

    assert turn.ref.turn == 2
    assert unsealed(long_tail) == 3


@pytest.mark.parametrize("end", ["turn", "session"])
def test_a_recorder_of_much_seals_it_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """S1-23, P8: whoever begins the next turn reads none of what the one before it recorded."""
    monkeypatch.setattr(log_shorten, "TAIL_BYTES_MAX", 2_000)
    with Store.init(tmp_path / ".locus", force=True) as store:
        recorder = Recorder(store, agent="script")
        turn = recorder.start_turn("Much")
        for number in range(20):
            turn.event("note", {"number": number})
        turn.end() if end == "turn" else recorder.end_session()

    assert unsealed(tmp_path) == 0


_NEXT = """
import sys
from eventlog import Recorder, Store

with Store.open(sys.argv[1]) as store:
    assert Recorder(store, agent="script").start_turn("The next").ref.turn == 2
assert "pyarrow" not in sys.modules
"""


def test_a_turn_begins_after_segments_without_pyarrow(tmp_path: Path) -> None:
    """P8: loading it takes longer than all that is asked of segments when a turn begins."""
    root = with_tail(tmp_path, 5) / ".locus"
    with Store.open(root) as store:
        store.seal()
        store.reindex()
    subprocess.run([sys.executable, "-c", _NEXT, root], check=True, timeout=60)


def test_a_recorder_goes_on_while_another_process_seals(long_tail: Path) -> None:
    """S1-23: who finds the lock taken records its turn, and leaves sealing to the other."""
    before = unsealed(long_tail)
    with Store.open(long_tail / ".locus") as store, open(store.layout.lock(MAINTAIN), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not shorten(store)
        turn = Recorder(store, agent="script").start_turn("The next")
        turn.end()

    assert turn.ref.turn == 2
    assert unsealed(long_tail) > before


_CROWD = """
import os, sys
import eventlog.query.engine
from eventlog.recorder.recorder import Recorder
from eventlog.log import shorten
from eventlog.store import Store

shorten.TAIL_BYTES_MAX = 200

def record(number):
    with Store.open(sys.argv[1]) as store:
        recorder = Recorder(store, agent=f"agent-{number}")
        with recorder.start_turn("One of many") as turn:
            turn.event("note", {"number": number})

children = []
for number in range(16):
    if not (child := os.fork()):
        try:
            record(number)
            os._exit(0)
        finally:
            os._exit(1)
    children.append(child)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


def test_a_crowd_of_recorders_ends_its_turns(tmp_path: Path) -> None:
    """S1-23, P8: sixteen processes after a long tail that nobody may seal all end their turns."""
    root = with_tail(tmp_path, 5) / ".locus"
    with Store.open(root) as store, open(store.layout.lock(MAINTAIN), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        subprocess.run([sys.executable, "-c", _CROWD, root], check=True, timeout=120)
        ended = store.query("select count(*) from turns where status = 'completed'").rows
        with store.view() as view:
            assert not view.manifest.segments

    assert ended == [(17,)]


def test_a_short_tail_stays(tmp_path: Path) -> None:
    """P8: what a process reads in no time is not worth a segment."""
    with Store.open(with_tail(tmp_path, 30) / ".locus") as store:
        assert not shorten(store)
    assert unsealed(tmp_path) > 30


def test_a_question_after_an_append_copies_the_newest_events_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I21: SQL scans the tail where it is in memory, and answers as if it had read all of it afresh."""
    copied: list[int] = []
    load_tail = source.load_tail

    def counting(con: Any, table: str, rows: Any, *rest: Any) -> None:
        copied.append(len(rows))
        load_tail(con, table, rows, *rest)

    with Store.open(with_tail(tmp_path, 4_000) / ".locus") as store:
        ask = "select count(*), count(distinct event_id), max(position), sum(seq) from events where seq > 0"
        store.query(ask)
        monkeypatch.setattr(source, "load_tail", counting)
        for _ in range(3):
            store.append([{"event_type": "action", "payload": {}}])
            with Store.open(tmp_path / ".locus") as fresh:
                assert store.query(ask).rows == fresh.query(ask).rows

    assert copied[::2] == [1, 2, 3]


def test_calls_of_one_server_decode_an_event_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1-55: each call opens the store again, and reads what was appended since the one before it."""
    decoded = []
    row_of = rows.row_of

    def counting(line: bytes, position: int, *rest: Any) -> Any:
        decoded.append(position)
        return row_of(line, position, *rest)

    root = str(with_tail(tmp_path, 300) / ".locus")
    (tool,) = (tool for tool in tools_for("claude-code") if tool.name == "timeline")
    call = ToolCall.of(tool, {"turn": "last"})
    reported = call.answer(root)
    monkeypatch.setattr(rows, "row_of", counting)
    with Store.open(root) as store:
        (position,) = store.append([{"event_type": "action", "payload": {}}])

    assert call.answer(root) == reported
    assert decoded == [position]
