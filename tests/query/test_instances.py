"""The instance of DuckDB that one log leaves to the next: what of the first is left, and who may have it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from eventlog.base.errors import QueryError, Refused
from eventlog.projections import fold
from eventlog.projections.prepared import EVENTS_MAX, PreparedFold
from eventlog.query import instances, safe
from eventlog.query.engine import Limits
from eventlog.store import Store
from tests.projections.logs import event

QUESTIONS = (
    "SELECT count(*) FROM events",
    "SELECT * FROM turns ORDER BY first_position",
    "SELECT * FROM sessions ORDER BY first_position",
    "SELECT * FROM files ORDER BY position",
    "SELECT sum(completion_tokens), sum(cost_usd) FROM llm_calls",
    "SELECT total_turns FROM sessions_master",
    "SELECT table_name, column_name FROM information_schema.columns ORDER BY ALL",
    "SELECT name, path FROM tree_at('session0_000')",
)

Connections = list[duckdb.DuckDBPyConnection]


@pytest.fixture(autouse=True)
def _none_waits() -> Iterator[None]:
    instances.release()
    yield
    instances.release()


def _log(root: Path, title: str, *, sealed: bool = False) -> Store:
    root.mkdir(exist_ok=True)
    store = Store.init(root / ".locus", force=True)
    place = {"session_id": "session0", "turn": 0}
    store.append(
        [
            event("turn", 1, operation="start", title=title, **place),
            event("file", 2, operation="edit", path=title, **place),
            event("llm", 3, agent="pi", message_id=title, model="m", **place) | {"completion_tokens": 7},
        ]
    )
    if sealed:
        store.seal()
    return store


def _answers(store: Store) -> "list[object]":
    answers: list[object] = []
    for question in QUESTIONS:
        try:
            answers.append(store.query(question).rows)
        except QueryError as error:
            answers.append(str(error))
    return answers


def test_the_next_log_starts_no_instance_and_sees_nothing_of_the_one_before(
    tmp_path: Path, connections: Connections
) -> None:
    """I21: of a log that is over, no row, view or table is left to the next, which answers as if alone."""
    with _log(tmp_path / "b", "second") as alone:
        expected = _answers(alone)
    instances.release()
    with _log(tmp_path / "a", "first") as store:
        store.query(QUESTIONS[1])
        store.query(QUESTIONS[4])
    known = len(connections)
    with Store.open(tmp_path / "b" / ".locus") as store:
        for question, answer in zip(QUESTIONS[:6], expected[:6], strict=True):
            assert store.query(question).rows == answer
        assert len(connections) == known
        assert _answers(store) == expected


def test_one_store_that_grows_starts_no_instance_again(tmp_path: Path, connections: Connections) -> None:
    """I6: an event more is in the next answer, of the same instance."""
    with _log(tmp_path, "first") as store:
        for count in range(3, 7):
            assert store.query("SELECT count(*), max(position) FROM events").rows == [(count, count - 1)]
            store.append([event("error", count + 1)])
        assert len(connections) == 1


def test_it_stays_locked(tmp_path: Path, connections: Connections) -> None:
    """P5: whoever has it next may do no more: both walls hold."""
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with _log(tmp_path / "a", "first") as store:
        store.query(QUESTIONS[2])
    with _log(tmp_path / "b", "second") as store:
        store.query(QUESTIONS[2])
        assert len(connections) == 1
        for bad in ("SET threads = 1", f"FROM read_csv('{tmp_path}/secret.csv')", f"ATTACH '{tmp_path}/db'"):
            with pytest.raises(duckdb.Error):
                connections[0].execute(bad)
            with pytest.raises((Refused, QueryError)):
                store.query(bad)


def test_other_limits_have_an_instance_of_their_own(tmp_path: Path) -> None:
    """I35: memory and threads are those of the question, whoever asked before."""
    with _log(tmp_path / "a", "first") as store:
        store.query("SELECT 1")
    with _log(tmp_path / "b", "second") as store:
        limits = Limits(memory_bytes=50 << 20, threads=1)
        asked = "SELECT current_setting('memory_limit'), current_setting('threads')"
        assert store.query(asked, limits=limits).rows == [("50.0 MiB", 1)]


def test_a_log_with_segments_takes_none_and_leaves_none(tmp_path: Path, connections: Connections) -> None:
    """I21, P5: an instance may read the files to which it was locked, and no others."""
    with _log(tmp_path / "a", "first") as store:
        store.query(QUESTIONS[0])
    with _log(tmp_path / "b", "second", sealed=True) as store:
        assert store.query("SELECT title FROM events WHERE event_type = 'turn'").rows == [("second",)]
        assert len(connections) == 2
    with _log(tmp_path / "c", "third") as store:
        assert store.query("SELECT title FROM events WHERE event_type = 'turn'").rows == [("third",)]
    with pytest.raises(duckdb.Error):
        connections[1].execute("SELECT 1")


def test_what_failed_is_not_left_to_another(tmp_path: Path, connections: Connections) -> None:
    """P7: a question that failed, or was stopped, leaves no instance."""
    with _log(tmp_path / "a", "first") as store, pytest.raises(QueryError):
        store.query("SELECT error('no') FROM events")
    with _log(tmp_path / "b", "second") as store:
        assert store.query(QUESTIONS[0]).rows == [(3,)]
    assert len(connections) == 2


def test_a_statement_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: the same text was allowed, and is again; what was refused is refused again."""
    trees: list[str] = []
    tree = safe._tree

    def noted(con: duckdb.DuckDBPyConnection, text: str) -> "dict[str, object]":
        trees.append(text)
        return tree(con, text)

    monkeypatch.setattr(safe, "_tree", noted)
    asked = "SELECT title, 'asked once' FROM turns"
    with _log(tmp_path, "first") as store:
        for _ in range(3):
            assert store.query(asked).rows == [("first", "asked once")]
        assert trees == [asked]
        for _ in range(2):
            with pytest.raises(Refused):
                store.query("SELECT getenv('HOME')")
        assert len(trees) == 3


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> "Counter[str]":
    """How often each way to fold is called."""
    counts: Counter[str] = Counter()

    def count(owner: object, name: str) -> None:
        function = getattr(owner, name)

        def counted(*given: object, **named: object) -> object:
            counts[name] += 1
            return function(*given, **named)

        monkeypatch.setattr(owner, name, counted)

    count(fold, "fold")
    count(PreparedFold, "_prepare")
    count(PreparedFold, "of")
    return counts


def test_the_fold_of_the_next_logs_is_planned_once(
    tmp_path: Path, connections: Connections, called: "Counter[str]"
) -> None:
    """I21: the third log of a process, and an event more of it, are folded by the plan of the second."""
    for number in range(4):
        with _log(tmp_path / str(number), f"log {number}") as store:
            assert store.query("SELECT title FROM turns").rows == [(f"log {number}",)]
            assert store.query("SELECT turn_count FROM sessions").rows == [(1,)]
    with _log(tmp_path / "4", "grows") as store:
        for turns in range(1, 4):
            assert store.query("SELECT count(*) FROM turns").rows == [(turns,)]
            store.append([event("turn", turns + 3, operation="start", session_id="session0", turn=turns)])
    assert called == {"fold": 2, "_prepare": 1, "of": 6}  # of the first log turns, then sessions
    assert len(connections) == 1


def test_functions_of_files_ask_the_log_that_has_the_instance(tmp_path: Path) -> None:
    """I21: they ask on a connection of their own, on an instance with the fold of small logs, too."""
    asked = "SELECT count(*) FROM history_of('first.py')"
    for number in range(4):
        with _log(tmp_path / str(number), "first.py") as store:
            store.query(QUESTIONS[1])
            assert store.query(asked).rows == [(1,)]
            store.query(QUESTIONS[1])


def test_a_log_that_is_not_folded_sees_no_fold_of_another(tmp_path: Path) -> None:
    """P5: what the plan of the fold made is gone with the log, also where the next one needs no fold."""
    folded = "SELECT count(*) FROM prepared.folded"
    with _log(tmp_path / "a", "first") as store:
        store.query(QUESTIONS[1])
    with _log(tmp_path / "b", "second") as store:
        store.query(QUESTIONS[1])
        assert store.query(folded).rows == [(1,)]
    with _log(tmp_path / "c", "third") as store:
        assert store.query(folded).rows == [(0,)]


def test_a_large_log_has_plans_of_its_own(tmp_path: Path, called: "Counter[str]") -> None:
    """I21: many events are not copied as the values of a parameter."""
    with _log(tmp_path / "a", "first") as store:
        store.query(QUESTIONS[1])
    with _log(tmp_path / "b", "second") as store:
        store.append([event("error", number) for number in range(4, EVENTS_MAX + 2)])
        assert store.query("SELECT title FROM turns").rows == [("second",)]
    assert called == {"fold": 2}
