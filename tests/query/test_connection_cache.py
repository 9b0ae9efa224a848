"""The connection that stays for the next question: what it answers, what it may do, and when it goes."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import duckdb
import pytest

from eventlog.base.errors import QueryError, Refused
from eventlog.base.layout import MANIFEST_DIR
from eventlog.log import pins
from eventlog.projections import definitions, fold, index, joins
from eventlog.query import engine, instances
from eventlog.query.engine import Limits
from eventlog.store import Store
from tests.projections.logs import event

QUESTIONS = (
    "SELECT count(*) FROM events",
    "SELECT position, title FROM events ORDER BY position",
    "SELECT position, title, payload, blobs FROM events ORDER BY position",
    "SELECT path, operation FROM files ORDER BY position",
    "SELECT session_id, turn, event_count, title FROM turns ORDER BY session_id, turn",
    "SELECT session_id, title, extends FROM sessions ORDER BY session_id",
    "SELECT sum(completion_tokens) FROM llm_calls",
    "SELECT total_turns, active_sessions FROM sessions_master",
    "SELECT 1",
)
_FEW = QUESTIONS[2:8:2]
# About columns that rest on other events: costs, people, lines of contents, settled ids, joined columns.
OF_OTHER_EVENTS = (
    "SELECT session_id, cost_usd, unpriced_calls FROM sessions ORDER BY session_id",
    "SELECT session_id, turn, person, host FROM turns ORDER BY ALL",
    "SELECT position, lines_added, lines_removed, tool, model FROM files ORDER BY position",
    "SELECT position, context_id, extends FROM events ORDER BY position",
    "SELECT session_id, turn, models, files_read, errors_resolved FROM turns ORDER BY ALL",
    "SELECT position, resolved FROM errors ORDER BY position",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.init(tmp_path / ".locus", force=True) as store:
        _tell(store, 0)
        yield store


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What questions fold, as they fold it."""
    index.code8()
    made: list[str] = []
    for name in ("call_rows", "turns", "sessions"):
        monkeypatch.setattr(definitions, name, _noting(getattr(definitions, name), name, made))
    monkeypatch.setattr(fold, "sessions_master", _noting(fold.sessions_master, "sessions_master", made))
    return made


def _noting(text: Callable[..., str], name: str, made: list[str]) -> Callable[..., str]:
    def noted(*relations: str) -> str:
        made.append(name)
        return text(*relations)

    return noted


def _tell(store: Store, number: int) -> None:
    place = {"session_id": f"session{number % 2}", "turn": number}
    store.append(
        [
            event("turn", 4 * number, operation="start", title=f"turn {number}", **place),
            event("file", 4 * number + 1, operation="edit", path=f"file{number}", **place),
            event("llm", 4 * number + 2, agent="pi", message_id=f"m{number // 2}", **place)
            | {"completion_tokens": 10 + number},
        ]
    )


def _sealed(store: Store) -> None:
    store.seal()
    store.reindex()


def _answers(store: Store, questions: Iterable[str] = QUESTIONS) -> list[object]:
    return [store.query(question).rows for question in questions]


def _is_open(connection: duckdb.DuckDBPyConnection) -> bool:
    try:
        connection.execute("SELECT 1").fetchall()
    except duckdb.Error:
        return False
    return True


def test_questions_about_one_moment_share_a_connection(
    store: Store, connections: list[duckdb.DuckDBPyConnection]
) -> None:
    """I21: what was made for one question answers the next ones, of a tail, an index, or both."""
    for change in (lambda _: None, _sealed, lambda store: _tell(store, 1)):
        change(store)
        store.query("SELECT count(*) FROM sessions")
        known = len(connections)
        for question in QUESTIONS[:6]:
            store.query(question)

        assert len(connections) == known
        instances.release()  # it waits without data
        assert sum(map(_is_open, connections)) == 1


def test_what_a_question_lacks_is_added_to_the_connection_before(
    store: Store, connections: list[duckdb.DuckDBPyConnection], folds: list[str]
) -> None:
    """I21: whatever a question needs, it connects to nothing again, and folds what no other has folded."""
    for question in (*QUESTIONS, *OF_OTHER_EVENTS, *QUESTIONS, *OF_OTHER_EVENTS):
        store.query(question)

    assert len(connections) == 1
    assert folds == ["call_rows", "turns", "sessions", "sessions_master"]


def test_what_lags_behind_an_index_is_folded_once(
    store: Store, connections: list[duckdb.DuckDBPyConnection], folds: list[str]
) -> None:
    """I21: so it is with sessions that a newer event touches."""
    _sealed(store)
    _tell(store, 1)
    folds.clear()
    store.query("SELECT sum(completion_tokens) FROM llm_calls")
    assert folds == ["call_rows"]
    known = len(connections)
    for question in (*QUESTIONS, *OF_OTHER_EVENTS, *QUESTIONS):
        store.query(question)

    assert len(connections) == known
    assert [folds.count(name) for name in ("turns", "sessions")] == [1, 1]


def test_a_projection_after_a_count_comes_from_the_index(
    store: Store, connections: list[duckdb.DuckDBPyConnection], folds: list[str]
) -> None:
    """I21: a connection that was locked without the index does not fold the whole log instead."""
    _sealed(store)
    folds.clear()
    store.query("SELECT count(*) FROM events")
    known = len(connections)
    store.query("SELECT session_id FROM sessions")

    assert folds == []
    assert len(connections) == known + 1


@pytest.mark.parametrize("sealed", [False, True])
def test_questions_in_any_order_answer_as_each_alone(tmp_path: Path, sealed: bool) -> None:
    """I6, I21: what was added for some questions changes no answer of another."""
    with Store.init(tmp_path / ".locus", force=True) as store:
        _tell(store, 0)
        place = {"session_id": "session0"}
        store.append(
            [
                event("session", 90, operation="start", context_id="session:a_session0", **place),
                event("error", 91, turn=0, extends=["session:session-session0_session0"], **place),
            ]
        )
        if sealed:
            _sealed(store)
            _tell(store, 1)
        asked = [*QUESTIONS, *OF_OTHER_EVENTS]
        alone = {}
        for question in asked:
            store._connections.release()
            alone[question] = store.query(question).rows
        dice = random.Random(24)
        for _ in range(4):
            store._connections.release()
            dice.shuffle(asked)
            for number, question in enumerate(asked):
                assert store.query(question).rows == alone[question], asked[: number + 1]


@pytest.mark.parametrize("sealed", [False, True])
def test_every_question_after_every_other_answers_as_the_first(tmp_path: Path, sealed: bool) -> None:
    """I6, I21: what a connection has made for one question leaves no event out of the next one."""
    with Store.init(tmp_path / ".locus", force=True) as store:
        _tell(store, 0)
        if sealed:
            _sealed(store)
            _tell(store, 1)
        asked = [QUESTIONS[number] for number in (0, 1, 3, 4, 6, 8)]
        alone = []
        for question in asked:
            store._connections.release()
            alone.append(store.query(question).rows)
        for before in asked:
            for question, answer in zip(asked, alone, strict=True):
                store._connections.release()
                store.query(before)
                assert store.query(question).rows == answer, (before, question)


def test_a_kept_connection_answers_as_a_new_one(tmp_path: Path) -> None:
    """I6, I21, I22: whatever this process or another did, it answers as a fresh process does."""
    root = tmp_path / ".locus"
    changes: list[Callable[[Store], object]] = [
        lambda one: _tell(one, 1),
        Store.seal,
        lambda one: _tell(one, 2),
        Store.reindex,
        Store.seal,
        lambda one: one.compact(everything=True),
    ]
    with Store.init(root, force=True) as asked, Store.open(root) as other:
        for number, change in enumerate(changes):
            change(other if number % 3 == 0 else asked)
            first = _answers(asked, _FEW)
            with Store.open(root) as anew:
                assert _answers(anew, reversed(_FEW)) == first[::-1]
            assert _answers(asked, _FEW) == first


def test_a_question_sees_what_another_process_appended(store: Store) -> None:
    """I6: an event that was acknowledged before the question is in its answer, whoever wrote it."""
    text = (
        "import sys; from eventlog.store import Store\n"
        "with Store.open(sys.argv[1]) as store:\n"
        "    store.append([{'event_type': 'error', 'title': sys.argv[2], 'payload': {}}])\n"
    )
    for number in range(3):
        assert store.query("SELECT count(*) FROM errors").rows == [(number,)]
        subprocess.run([sys.executable, "-c", text, store.layout.root, str(number)], check=True)
    assert store.query("SELECT title FROM errors ORDER BY position").rows == [("0",), ("1",), ("2",)]


def test_a_torn_frame_of_the_same_length_is_not_taken_for_what_came_instead(store: Store) -> None:
    """I6, I10: the end of the log is where its last whole frame ends, not where the file does."""
    journal = Path(store.layout.journal(1))
    before = journal.read_bytes()
    store.append([event("error", 99, title="one")])
    whole = journal.read_bytes()
    count = "SELECT count(*) FROM errors"
    for bad in (len(before.rstrip(b"\0")) + 60, len(whole.rstrip(b"\0")) - 30):
        journal.write_bytes(whole[:bad] + bytes([whole[bad] ^ 1]) + whole[bad + 1 :])
        with Store.open(store.layout.root) as asked:
            assert asked.query(count).rows == [(0,)]
            journal.write_bytes(whole)
            assert asked.query(count).rows == [(1,)]


def test_a_kept_connection_is_locked_and_each_question_is_checked(store: Store, tmp_path: Path) -> None:
    """P5: the second question may do no more than the first: both walls hold."""
    (tmp_path / "secret.csv").write_text("a\n1\n")
    store.query("SELECT * FROM sessions")
    for bad in (
        "SET enable_external_access = true",
        "CREATE TABLE sessions (a INT)",
        f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
        f"COPY (SELECT 1) TO '{tmp_path}/written'",
        "SELECT 1; SELECT 2",
    ):
        store.query("SELECT * FROM sessions")
        with pytest.raises((Refused, QueryError)):
            store.query(bad)
    store.query("SELECT * FROM sessions")
    (_, bound) = store._connections._held[0]
    for bad in ("SET threads = 1", f"FROM read_csv('{tmp_path}/secret.csv')", f"ATTACH '{tmp_path}/db'"):
        with pytest.raises(duckdb.Error):
            bound.con.execute(bad)


def test_each_question_has_its_own_limits(store: Store) -> None:
    """I35: rows, time and memory are those of the question, not of the one before."""
    rows = "SELECT * FROM range(10)"
    slow = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"
    assert len(store.query(rows).rows) == 10
    with pytest.raises(QueryError, match="more than 3 rows"):
        store.query(rows, limits=Limits(rows_max=3))
    store.query(rows)
    with pytest.raises(QueryError, match="stopped after"):
        store.query(slow, limits=Limits(timeout_s=0.2))
    assert len(store.query(rows).rows) == 10
    one = store.query("SELECT current_setting('threads')", limits=Limits(threads=1)).rows
    assert one == [(1,)]
    small = Limits(memory_bytes=50 << 20)
    assert store.query("SELECT current_setting('memory_limit')", limits=small).rows == [("50.0 MiB",)]


def test_a_damaged_index_under_a_kept_connection_changes_no_answer(store: Store) -> None:
    """I22: what fails is asked again without what was kept."""
    _sealed(store)
    _tell(store, 1)
    first = _answers(store)
    (path,) = Path(store.layout.directory("index")).glob("*.duckdb")
    path.write_bytes(b"\xff" * path.stat().st_size)
    assert _answers(store) == first
    path.unlink()
    assert _answers(store) == first


def test_what_is_kept_pins_nothing_and_goes(
    store: Store, connections: list[duckdb.DuckDBPyConnection]
) -> None:
    """I17, I35: no manifest stays locked after an answer; whoever writes, closes or forks keeps nothing."""
    _sealed(store)
    _tell(store, 1)
    store.query(QUESTIONS[5])
    with pins.held(store.files, 2) as older:
        assert older.pinned == ()
        assert older.free == tuple(
            int(name[:-5]) for name in os.listdir(store.layout.directory(MANIFEST_DIR))
        )
    descriptors = len(os.listdir("/dev/fd"))

    for go in (lambda: _tell(store, 2), store.seal, store.close):
        store.query(QUESTIONS[5])
        store.append([])
        assert _is_open(connections[-1])
        go()
        assert not any(map(_is_open, connections))
    assert len(os.listdir("/dev/fd")) <= descriptors


def test_a_large_tail_is_not_kept_in_memory(
    store: Store, connections: list[duckdb.DuckDBPyConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I35: what a question leaves behind is bounded."""
    monkeypatch.setattr(engine, "_CACHED_ROWS_MAX", 2)
    store.query(QUESTIONS[5])
    assert not any(map(_is_open, connections))
    _sealed(store)
    store.query(QUESTIONS[5])
    assert _is_open(connections[-1])


def test_threads_that_ask_at_once_do_not_meet(store: Store) -> None:
    """I6: each question has a connection to itself."""
    first = _answers(store)
    found: list[object] = []

    def ask() -> None:
        for _ in range(3):
            found.append(_answers(store))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [first] * 6


def test_a_child_asks_and_ends_as_its_parent(store: Store) -> None:
    """I32: a connection does not survive a fork, so none is there: DuckDB would take the child down."""
    first = _answers(store)
    child = os.fork()
    if child == 0:
        try:
            assert _answers(store) == first
            del store
        except BaseException:
            os._exit(3)
        os._exit(0)
    until = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until:
        time.sleep(0.02)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)
    assert _answers(store) == first


@pytest.fixture
def derivations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What questions derive of turns from events, in the order in which they do."""
    made: list[str] = []
    derive = joins.derived

    def noted(name: str, events: str, *, few: bool = False) -> str:
        made.append(name)
        return derive(name, events, few=few)

    monkeypatch.setattr(joins, "derived", noted)
    return made


def test_a_question_derives_only_what_it_names_and_the_log_has_events_for(
    store: Store, connections: list[duckdb.DuckDBPyConnection], derivations: list[str]
) -> None:
    """P7, I21: a view of turns without derived columns derives nothing, one with them what there can be; a
    connection that answered without them adds them, and derives them once."""
    store.append([event("action", 50, tool="Read", path="tea", success=True, session_id="session0", turn=0)])
    store.query("SELECT session_id, event_count FROM turns")
    assert derivations == []

    columns = "files_read, decisions, errors_resolved"
    rows = store.query(f"SELECT {columns} FROM turns").rows
    assert rows == [(["tea"], [], 0)]
    assert derivations == ["acts"]
    assert store.query(f"SELECT {columns} FROM turns WHERE turn = 0").rows == rows
    assert derivations == ["acts"]
    assert len(connections) == 1


def test_a_question_about_one_session_derives_of_its_events_alone(
    store: Store, connections: list[duckdb.DuckDBPyConnection], derivations: list[str]
) -> None:
    """P7, I21: it answers as one about all of them, and the next one may be about another session."""
    _tell(store, 1)
    store.append(
        event("action", 50 + n, tool="Read", path=f"tea{n}", success=True, session_id=f"session{n}", turn=n)
        for n in range(2)
    )
    one = "SELECT files_read FROM turns WHERE session_id = $1 AND turn >= 0"
    for name in ("session0", "session1", "session0"):
        assert store.query(one, [name]).rows == [([f"tea{name[-1]}"],)]
        held = connections[-1].execute("SELECT DISTINCT session_id FROM memory.plain.acts").fetchall()
        assert held == [(name,)]
    assert derivations == ["acts"] * 3
    assert len(connections) == 1
    store.append(
        [
            event("error", 60, session_id="session0", turn=0, context_id="error:x"),
            event("error", 61, session_id="session1", turn=1, resolved=True, extends=["error:x"]),
        ]
    )
    resolved = "SELECT errors_resolved FROM turns WHERE session_id = $1"
    assert store.query(resolved, ["session0"]).rows == [(1,)]
    derivations.clear()
    either = "SELECT files_read FROM turns WHERE session_id = $1 OR turn = 1 ORDER BY 1"
    assert store.query(either, ["session0"]).rows == [(["tea0"],), (["tea1"],)]
    assert store.query(one, ["session1"]).rows == [(["tea1"],)]
    assert derivations == ["acts"]
