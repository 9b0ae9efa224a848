"""Questions to the log: views, values, errors, and what a question must not load."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import Corruption, QueryError
from eventlog.base.fs import REAL
from eventlog.base.types import COLUMN_NAMES
from eventlog.log.reader import LogView
from eventlog.projections import fold, source
from eventlog.query import binding, engine, safe
from eventlog.query.engine import Snapshot
from eventlog.query.views import COLUMNS_OF, NAMES
from tests.projections.logs import Log, event

US = 1_700_000_000_123_456


def full_event(number: int) -> dict[str, Any]:
    """An event with something in every column that its writer can fill."""
    texts = {name: f"{name} é {number}" for name in COLUMN_NAMES if name not in ("payload", "position")}
    return texts | {
        "event_id": f"{number:032x}",
        "event_type": "action",
        "schema_version": 1,
        "redacted": False,
        "session_id": "s1",
        "turn": 1,
        "seq": number + 1,
        **{name: [f"{name}:{number}", "x"] for name in ("extends", "related_to", "reinforces")},
        **{name: [f"{name}:{number}"] for name in ("contradicts", "blobs")},
        "occurred_at": US + number,
        "recorded_at": US,
        **{name: 2**62 + number for name in COLUMN_NAMES if name.endswith("tokens")},
        "duration_ms": 0,
        "success": True,
        "resolved": False,
        "lines_added": 1,
        "lines_removed": 0,
        "payload": {"n": 0.1 + 0.2, "t": "\x00 \U0001f600 é", "deep": [None, {"a": 1e300}]},
    }


def test_the_tail_and_the_segments_give_the_same_rows(log: Log) -> None:
    """I14, I21: every column of an event reads the same before and after sealing, the payload verbatim."""
    log.append(*(full_event(i) for i in range(3)), event("llm", 9))
    before = log.query("SELECT * FROM events ORDER BY position")
    log.seal()
    after = log.query("SELECT * FROM events ORDER BY position")

    assert before == after
    assert before.columns == (*COLUMN_NAMES, "person", "host")
    assert json.loads(before.rows[0][len(COLUMN_NAMES) - 1]) == full_event(0)["payload"]
    assert before.rows[0][COLUMN_NAMES.index("occurred_at")] == datetime.fromtimestamp(
        US // 10**6, UTC
    ).replace(microsecond=US % 10**6)


@pytest.mark.parametrize("count", [5, 40])
def test_a_long_tail_reads_like_a_short_one(log: Log, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """I21: how the tail gets into DuckDB, row by row or as Arrow, changes no value."""
    log.append(*(full_event(i) for i in range(count)), full_event(0))
    rows = log.rows("SELECT * FROM events")
    monkeypatch.setattr(binding, "_TAIL_BY_ROW_MAX", 0)

    assert len(rows) == count
    assert log.rows("SELECT * FROM events") == rows


def test_a_duplicate_in_the_tail_is_not_seen(log: Log) -> None:
    """I8: of equal event ids the first is visible, whether it is sealed, indexed or neither."""
    log.append(event("action", 1, title="first"))
    log.append(event("action", 1, title="again"))
    log.seal()
    log.append(event("action", 1, title="tail"), event("action", 2, title="second"))
    ask = "SELECT title FROM events ORDER BY position"
    without_index = log.rows(ask)
    log.make_index()

    assert without_index == log.rows(ask) == [("first",), ("second",)]


def test_the_tail_goes_on_counting_where_the_segments_end(log: Log) -> None:
    """I22: turns, seq and context of the tail follow from the segments, with an index or without one."""
    log.append(
        event("session", 1, session_id="s1", operation="start", context_id="session:slug_s1"),
        event("turn", 2, session_id="s1", operation="start"),
        event("action", 3, session_id="s1"),
    )
    log.seal()
    log.append(event("action", 4, session_id="s1"), event("turn", 5, session_id="s1", operation="start"))
    log.append(event("session", 6, session_id="s1", operation="end"))
    ask = "SELECT turn, seq, context_id FROM events WHERE position > 2 ORDER BY position"
    without_index = log.rows(ask)
    log.make_index()

    assert log.rows(ask) == without_index
    assert without_index == [
        (1, 2, "action:s1_001_002"),
        (2, None, "turn:s1_002"),
        (None, None, "session:slug_s1"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_view_has_the_columns_it_is_documented_with(log: Log, name: str) -> None:
    """S1-16, S1-53: one view per question, and `views.COLUMNS_OF` says what is in it."""
    log.append(*(event(kind, i, session_id="s1") for i, kind in enumerate(("turn", "file", "llm"))))
    result = log.query(f"SELECT * FROM {name}")

    assert result.columns == tuple(column for column, _, _ in COLUMNS_OF[name])
    assert result.types == tuple(kind for _, kind, _ in COLUMNS_OF[name])
    assert all(meaning for _, _, meaning in COLUMNS_OF[name])


def test_views_of_one_type_read_their_payload(log: Log) -> None:
    """S1-31…S1-37: keys of the payload are columns; what has another type is null, never an error."""
    place = {"session_id": "s1", "turn": 1}
    log.append(
        event("decision", 1, **place, payload={"decision": "use x", "confidence": 0.9})
        | {"payload": {"decision": "use x", "confidence": 0.9, "alternatives_considered": ["y"]}},
        event("decision", 2, **place, payload={"confidence": "very", "alternatives_considered": "none"}),
        event("error", 3, **place, error_type="E", resolved=True, payload={"message": "m", "line": 7}),
        event("feedback", 4, **place, payload={"type": "approval", "message": "ok"}),
        event("snapshot", 5, **place, tree_hash="blake3:1", payload={"git_head": "c", "git_dirty": ["a"]}),
        event("file", 6, **place, path="b", operation="rename", payload={"old_path": "a"}),
        event("mcp_action", 7, **place, tool="search"),
    )
    ask = "SELECT decision, confidence, alternatives FROM decisions ORDER BY position"

    assert log.rows(ask) == [("use x", 0.9, ["y"]), (None, None, None)]
    assert log.rows("SELECT error_type, message, line, resolved FROM errors") == [("E", "m", 7, True)]
    assert log.rows("SELECT type, message FROM feedback") == [("approval", "ok")]
    assert log.rows("SELECT git_head, git_dirty, git_staged FROM snapshots") == [("c", ["a"], None)]
    assert log.rows("SELECT path, old_path, operation FROM files") == [("b", "a", "rename")]
    assert log.rows("SELECT tool, event_type FROM actions") == [("search", "mcp_action")]


def test_look_back_queries(log: Log) -> None:
    """S1-55, S1-56: timeline, decisions, history of a path, and the cost of a session are one line each."""
    log.append(
        *(event("file", i, session_id="s1", turn=1 + i % 2, path="a.py", operation="edit") for i in range(4)),
        event("llm", 9, session_id="s1", turn=1, message_id="m", prompt_tokens=3, completion_tokens=4),
    )

    assert len(log.rows("SELECT * FROM events WHERE turn_id = '002' ORDER BY seq LIMIT 50")) == 2
    assert len(log.rows("SELECT * FROM files WHERE path = 'a.py' ORDER BY position DESC LIMIT 20")) == 4
    assert log.rows("SELECT prompt_tokens + completion_tokens FROM sessions") == [(7,)]


def test_parameters(log: Log) -> None:
    """Values come in as parameters, by position or by name, and are never text of the statement."""
    log.append(event("action", 1, title="it's; DROP"))

    assert log.rows("SELECT count(*) FROM events WHERE title = ?", "it's; DROP") == [(1,)]
    assert log.rows("SELECT $2 || $1", "a", "b") == [("ba",)]
    with log.view() as view:
        named = engine.run(Snapshot(view, log.layout, REAL), "SELECT $x + 1", {"x": 1})
    assert named.rows == [(2,)]
    with pytest.raises(QueryError, match=r"(?i)parameter"):
        log.rows("SELECT ?")


def test_values_are_python_values(log: Log) -> None:
    """Times are aware datetimes in UTC wherever they are; no package for time zones is needed."""
    noon = datetime(2025, 6, 1, 12, tzinfo=UTC)
    (row,) = log.rows(
        "SELECT TIMESTAMPTZ '2025-06-01 14:00:00+02', [TIMESTAMPTZ '2025-06-01 12:00:00Z', NULL], "
        "{'at': TIMESTAMPTZ '2025-06-01 12:00:00Z'}, 1.5::DECIMAL(3,1), TIMESTAMP '2025-06-01 12:00:00', "
        "NULL, 170141183460469231731687303715884105727"
    )

    assert row[:3] == (noon, [noon, None], {"at": noon})
    assert row[3:] == (Decimal("1.5"), datetime(2025, 6, 1, 12), None, 2**127 - 1)


def test_order_survives_the_conversion_of_times(log: Log) -> None:
    """ORDER BY holds for the rows that come out, times among the columns or not."""
    log.append(*(event("action", i, occurred_at=US + i) for i in range(50)))
    rows = log.rows("SELECT occurred_at, position FROM events ORDER BY position DESC LIMIT 9 OFFSET 3")

    assert [row[1] for row in rows] == list(range(46, 37, -1))


def test_an_answer_as_arrow(log: Log) -> None:
    """`table` and `Result.arrow` give the types of the views: timestamps with UTC, lists of text."""
    log.append(full_event(1), event("action", 2))
    ask = "SELECT position, occurred_at, blobs, title AS a, title AS a FROM events"
    with log.view() as view:
        direct = engine.table(Snapshot(view, log.layout, REAL), ask)
    again = log.query(ask).arrow()

    assert [column.to_pylist() for column in direct.columns] == [c.to_pylist() for c in again.columns]
    assert direct.column_names == again.column_names
    assert [str(t) for t in direct.schema.types] == [str(t) for t in again.schema.types]
    assert str(direct.schema.types[1]) == "timestamp[us, tz=UTC]"
    assert again.num_rows == 2
    assert log.query("SELECT 1::BIGINT AS x WHERE false").arrow().schema.names == ["x"]


def test_a_wrong_question_is_answered_with_what_is_wrong(log: Log) -> None:
    """Errors: DuckDB's own words, with the place in the statement."""
    with pytest.raises(QueryError, match="no_such"):
        log.rows("SELECT no_such FROM events")
    with pytest.raises(QueryError, match="syntax error"):
        log.rows("SELEC 1")


def test_a_damaged_segment_is_named(log: Log) -> None:
    """I11: what DuckDB cannot read of a segment is Corruption of that file, not a wrong question."""
    log.append(*(event("action", i, title=f"{i}" * 50) for i in range(500)))
    log.seal()
    with log.view() as view:
        (path,) = view.segment_paths
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(4)
        file.write(os.urandom(size // 2))

    with pytest.raises(Corruption) as caught:
        log.rows("SELECT max(payload), max(title), max(event_id) FROM events")
    assert caught.value.path == path


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["head", "middle", "foot", "cut", "gone"])
def test_any_damage_of_a_segment_is_named(log: Log, damage: str) -> None:
    """I11: wherever the bytes are wrong, the answer is either right or Corruption of that very file."""
    for first in (0, 300):
        log.append(*(event("turn", i, title=f"{i}" * 20) for i in range(first, first + 300)))
        log.seal()
    ask = "SELECT count(*), max(payload), max(title), max(event_id) FROM events"
    expected = log.rows(ask)
    with log.view() as view:
        path = view.segment_paths[1]
    size = os.path.getsize(path)
    if damage == "gone":
        os.unlink(path)
    else:
        with open(path, "r+b") as file:
            file.seek({"head": 0, "middle": size // 2, "foot": size - 200, "cut": size // 2}[damage])
            if damage == "cut":
                file.truncate()
            else:
                file.write(b"\xa5" * 150)

    try:
        assert log.rows(ask) == expected
    except Corruption as error:
        assert error.path == path


def test_a_question_names_its_views_in_any_case_and_shadows_them(log: Log) -> None:
    """Names are SQL's: unquoted ones in any case, and a WITH of the same name comes first."""
    log.append(event("turn", 1, session_id="s1", turn=1, operation="start"))

    assert log.rows('SELECT count(*) FROM "TURNS" JOIN Events USING (session_id)') == [(1,)]
    assert log.rows("WITH turns AS (SELECT 7 AS x) SELECT x FROM turns") == [(7,)]
    assert log.rows("SELECT x.turn FROM main.turns AS x") == [(1,)]


def test_a_view_goes_on_without_the_connection_of_a_question(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6, I8: after a question the same view still reads its tail, numbered and without duplicates."""
    log.append(event("action", 1, session_id="s1", turn=3))
    log.seal()
    log.make_index()
    log.append(event("action", 1), event("action", 2, session_id="s1"))
    monkeypatch.setattr(binding, "_TAIL_BY_ROW_MAX", 0)
    with log.view() as view:
        asked = engine.run(
            Snapshot(view, log.layout, REAL), "SELECT turn, seq FROM events ORDER BY position"
        ).rows
        table = view.tail_table()

    assert asked == [(3, 1), (3, 2)]
    assert (table["turn"].to_pylist(), table["seq"].to_pylist()) == ([3], [2])


@pytest.mark.parametrize(
    "ask", ["SELECT '\ud800'", f"SELECT {'-(' * 600}1{')' * 600}", f"SELECT {'+'.join(['1'] * 900)}"]
)
def test_odd_text_is_a_wrong_question(log: Log, ask: str) -> None:
    """Whatever the text of a statement, the answer or a QueryError comes back."""
    with pytest.raises(QueryError):
        log.rows(ask)


@pytest.mark.parametrize("value", [object(), 2**200, "\ud800"])
def test_odd_parameters_are_a_wrong_question(log: Log, value: object) -> None:
    """Values that DuckDB cannot hold are refused like wrong SQL."""
    with pytest.raises(QueryError):
        log.rows("SELECT ?", value)


@pytest.mark.slow
def test_an_empty_log_answers(log: Log) -> None:
    """A store that has just been made has every view, and nothing in it."""
    for name in NAMES:
        assert log.rows(f"SELECT count(*) FROM {name}") == [(0,)]


def test_a_store_in_a_directory_with_an_odd_name(tmp_path: Path) -> None:
    """File names are taken literally: no pattern, no quote ends them."""
    log = Log(str(tmp_path / "it's [a] *.d {x,y}" / ".locus"))
    log.append(event("turn", 1, session_id="s1", turn=1))
    log.seal()
    assert log.make_index() is not None
    log.append(event("turn", 2, session_id="s1", turn=2))

    assert log.rows("SELECT count(*) FROM events") == log.rows("SELECT count(*) FROM turns") == [(2,)]


def test_a_directory_that_duckdb_cannot_write_to_has_no_index(tmp_path: Path) -> None:
    """I22: DuckDB puts its journal elsewhere when a path holds a question mark; answers need no index."""
    log = Log(str(tmp_path / "why?" / ".locus"))
    log.append(event("turn", 1, session_id="s1", turn=1))
    log.seal()

    assert log.make_index() is None
    assert os.listdir(log.layout.directory("index")) == os.listdir(log.layout.directory("tmp")) == []
    assert log.rows("SELECT count(*) FROM turns") == [(1,)]


@pytest.fixture
def a_process_can_ask(log: Log) -> Iterator[str]:
    log.append(*(event("turn", i, session_id="s1", turn=1 + i % 3) for i in range(9)))
    log.seal()
    log.make_index()
    log.append(event("turn", 10, session_id="s1", turn=1))
    yield (
        "import sys\n"
        "from eventlog.base.fs import REAL\n"
        "from eventlog.base.layout import Layout, StoreFiles\n"
        "from eventlog.log.reader import open_view\n"
        "from eventlog.query.engine import Snapshot, run\n"
        f"layout = Layout({log.layout.root!r})\n"
        "with open_view(StoreFiles(REAL, layout, bytes(range(16)))) as view:\n"
        "    print(run(Snapshot(view, layout, REAL), sys.argv[1]).rows)\n"
        "print([m for m in ('pyarrow', 'click', 'orjson', 'pytz', 'numpy') if m in sys.modules])\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "rows"),
    [("select count(*) from events", "[(10,)]"), ("select count(*) from turns", "[(3,)]")],
)
def test_a_question_loads_nothing_it_does_not_need(a_process_can_ask: str, ask: str, rows: str) -> None:
    """I34 for SQL: a process that asks over segments, index and tail imports neither pyarrow nor orjson."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", a_process_can_ask, ask], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == [rows, "[]"]


def test_views_are_bound_only_when_named(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of events folds no projection; a question about nothing of ours reads no file at all."""
    log.append(event("turn", 1, session_id="s1", turn=1))
    log.seal()
    with log.view() as view:
        os.rename(view.segment_paths[0], view.segment_paths[0] + ".away")
        assert engine.run(Snapshot(view, log.layout, REAL), "SELECT 40 + 2").rows == [(42,)]
        with pytest.raises((QueryError, Corruption)):
            engine.run(Snapshot(view, log.layout, REAL), "SELECT max(title) FROM events")

    def no_fold(*_: object) -> None:
        raise AssertionError("a projection was folded")

    os.rename(view.segment_paths[0] + ".away", view.segment_paths[0])
    monkeypatch.setattr(fold, "fold", no_fold)
    assert log.rows("SELECT count(*) FROM events") == [(1,)]


PLAIN = [
    ("SELECT count(*) FROM events", [(4,)]),
    ("SELECT count(*), count(1) FROM events e WHERE 1 = 1 LIMIT 5", [(4, 4)]),
    ("SELECT count(title) FROM events", [(3,)]),
    ("SELECT e.title, tool FROM events e WHERE e.turn = 1 ORDER BY E.Position DESC LIMIT 1", [("t2", "x2")]),
    (
        "SELECT max(CASE WHEN title = 't1' THEN tool END) FROM events WHERE position BETWEEN 0 AND 9",
        [("x1",)],
    ),
    ("SELECT title AS n FROM events ORDER BY n NULLS LAST LIMIT 1", [("t0",)]),
    ("SELECT events.title FROM events ORDER BY 1 NULLS LAST LIMIT 1", [("t0",)]),
    ("SELECT title.tool FROM events AS title WHERE title.position = 1", [("x1",)]),
    ("FROM events SELECT tool WHERE position = 1", [("x1",)]),
    ("SELECT session_id, count(*) FROM events GROUP BY ALL ORDER BY ALL", [("s1", 3), (None, 1)]),
    ("SELECT * EXCLUDE (title) FROM (SELECT title, tool FROM events WHERE position = 1)", [("x1",)]),
    ("SELECT count(*) FROM events a JOIN events b USING (title, tool)", [(3,)]),
    ("SELECT row_number() OVER (ORDER BY title) FROM events ORDER BY 1 LIMIT 1", [(1,)]),
    ("SELECT n.tool FROM events n WHERE n.title IN (SELECT title FROM events WHERE turn = 1)", 3),
]
NOT_PLAIN = [
    ("SELECT (events).tool FROM events WHERE position = 1", [("x1",)]),
    ("SELECT e.tool FROM (SELECT events AS e FROM events WHERE position = 1)", [("x1",)]),
    ("SELECT to_json(e)->>'tool' FROM events e WHERE position = 1", [("x1",)]),
    ("SELECT count(DISTINCT e) FROM events e", [(4,)]),
    ("SELECT max(COLUMNS('^tool$')) FROM events", [("x2",)]),
    ("SELECT count(*) FROM events a NATURAL JOIN events b WHERE a.title = 't1'", [(0,)]),
    ("SELECT count(*) FROM (SELECT DISTINCT * FROM events)", [(4,)]),
    (f"SELECT #{COLUMN_NAMES.index('tool') + 1} FROM events WHERE position = 1", [("x1",)]),
    ("TABLE events", 4),
    ("WITH e AS (FROM events) SELECT tool FROM e WHERE position = 1", [("x1",)]),
]


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "tail"])
@pytest.mark.parametrize(("ask", "rows"), PLAIN + NOT_PLAIN)
def test_columns_that_a_question_does_not_name_are_still_there(
    log: Log, sealed: bool, ask: str, rows: "list[tuple[Any, ...]] | int"
) -> None:
    """Only columns that a plain statement names are loaded; whatever may mean others loads them all."""
    log.append(
        *(event("action", i, session_id="s1", turn=1, title=f"t{i}", tool=f"x{i}") for i in range(3)),
        event("action", 3),
    )
    if sealed:
        log.seal()
    found = log.rows(ask)

    assert len(found) == rows if isinstance(rows, int) else found == rows


@pytest.mark.parametrize("ask", [ask for ask, _ in PLAIN])
def test_plain_statements_are_recognised(ask: str) -> None:
    """The test above has statements of both kinds."""
    with source.connect() as con:
        assert safe.check(con, ask).columns is not None


@pytest.mark.parametrize("ask", [ask for ask, _ in NOT_PLAIN])
def test_other_statements_are_not_taken_for_plain(ask: str) -> None:
    """Neither does a column that the log does not have make a statement plain."""
    with source.connect() as con:
        columns = safe.check(con, ask).columns
    assert columns is None or not columns <= set(COLUMN_NAMES)


def test_a_view_of_the_log_can_be_asked_twice(log: Log) -> None:
    """I6: both questions see the log as it was when the view was opened."""
    log.append(event("action", 1))
    with log.view() as view:
        first = engine.run(Snapshot(view, log.layout, REAL), "SELECT count(*) FROM events").rows
        log.append(event("action", 2))
        second = engine.run(Snapshot(view, log.layout, REAL), "SELECT count(*) FROM events").rows

    assert isinstance(view, LogView)
    assert first == second == [(1,)]
