"""`locus sql`, `stats` and `report` with `--lake`: what many stores published, asked as one log
(docs/lake-questions.md)."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from eventlog.base.errors import Refused
from eventlog.lake import one_machine
from eventlog.lake.folding import wide
from eventlog.lake.one_machine import LakeLog
from eventlog.lake.place import Place, open_place
from eventlog.projections import definitions, fold, source
from eventlog.query import views
from eventlog.query.results import Result
from eventlog.store import Store
from tests.conftest import examples
from tests.golden import stores as golden
from tests.lake.conftest import S3Server
from tests.lake.publishing import ALL, live_table, send
from tests.lake.shared_sessions import (
    STORES,
    TEAM,
    Row,
    Work,
    event,
    homes_of,
    publish_rows,
    publish_team,
    stores,
    table_of,
    tokens_of,
)
from tests.lake.small import answer, run

# Columns that contain paths of a machine, and lines that a store counts from contents.
LOCAL = ("cwd", "worktree", "payload", "title")
COUNTED = ("lines_added", "lines_removed")


@contextlib.contextmanager
def lake_of(logs: "list[list[Row]]", sql: "str | None" = None) -> "Iterator[LakeLog]":
    """The stores with these logs as one log."""
    with tempfile.TemporaryDirectory() as directory:
        for name in ("place", "here"):
            os.mkdir(f"{directory}/{name}")
        place = open_place(f"file://{directory}/place")
        for store_id, log in zip(STORES, logs, strict=False):
            publish_rows(place, store_id, log, cuts=(5,))
        yield one_machine.opened(place, f"{directory}/here", sql)


def rows_of(asked: "Result") -> "list[dict[str, object]]":
    return [dict(zip(asked.columns, row, strict=True)) for row in asked.rows]


@pytest.mark.parametrize("name", ["hooks-first", "transcripts-first", "restored"])
def test_a_lake_of_one_store_answers_as_the_store(name: str, tmp_path: Path, file_place: Place) -> None:
    """All views, rows and columns are those of the store, as far as a full policy lets them leave it."""
    (tmp_path / "here").mkdir()
    with Store.open(golden.unpack(name, tmp_path).store) as store:
        send(store, file_place, ALL)
        log = one_machine.opened(file_place, str(tmp_path / "here"))
        left = {row["position"]: row for row in live_table(store, file_place).to_pylist()}
        for view, columns in views.COLUMNS_OF.items():
            order = "position" if any(column == "position" for column, _, _ in columns) else "all"
            question = f"select * from {view} order by {order}"
            own, published = rows_of(store.query(question)), rows_of(log.query(question))
            if view in ("events", "llm_calls", "turns", "sessions"):
                assert {row.pop("store_id") for row in published} <= {store.identity.store_id.hex()}
            assert list(map(list, published)) == list(map(list, own)), view
            for mine, theirs in zip(own, published, strict=True):
                event = left.get(mine.get("position"), {})
                for column, value in mine.items():
                    expected = _left(event, column) if column in LOCAL else value
                    is_counted = column in COUNTED and theirs[column] is None and event.get(column) is None
                    assert theirs[column] in (value, expected) or is_counted, (view, column)
                    assert theirs[column] == value or column in (*LOCAL, *COUNTED), (view, column)


def _left(event: Row, column: str) -> object:
    """The value of a column that left with an event."""
    return event["payload"] or event["anchor_payload"] if column == "payload" else event.get(column)


@settings(max_examples=examples(8, 200))
@given(logs=stores())
def test_each_event_and_each_call_counts_once(logs: "list[list[Row]]") -> None:
    """P3: over all stores every event as its home has it, every call once, by a slow count in Python."""
    ids = {row["event_id"] for log in logs for row in log}
    calls, prompt, completion = tokens_of(logs)
    homes = homes_of(logs)
    with lake_of(logs) as log:
        events = rows_of(log.query("select * from events"))
        assert sorted(row["event_id"] for row in events) == sorted(ids)
        assert len({row["position"] for row in events}) == len(events)
        sums = "coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0)"
        (figures,) = log.query(f"select count(*), {sums} from llm_calls").rows
        assert figures == (calls, prompt, completion)
        for row in events:
            session, at = row["session_id"], int(str(row["position"])) & (1 << 40) - 1
            having = [n for n, rows in enumerate(logs) if any(r["event_id"] == row["event_id"] for r in rows)]
            home = homes[str(session)] if session is not None and homes[str(session)] in having else having[0]
            if home in having and (session is None or homes[str(session)] == home):
                assert row["store_id"] == STORES[home].hex()
                assert logs[home][at]["event_id"] == row["event_id"]
                assert row["turn"] == logs[home][at]["turn"]


@settings(max_examples=examples(8, 200))
@given(logs=stores())
def test_the_one_log_folds_to_the_wide_tables(logs: "list[list[Row]]") -> None:
    """Turns, sessions and calls of `--lake` are those of the tables over all stores, but for positions."""
    with lake_of(logs) as log, source.connect() as con:
        folded_apart(con, logs)
        wide.touch(con, "calls", "turns", "sessions")
        wide.fold_wide(con, "events", "calls", "turns", "sessions")
        for name, key, lacking in (
            ("turns", "session_id, turn", {*definitions.ASKED_FOR}),
            ("sessions", "session_id", {*definitions.ASKED_FOR, "status", "end_reason", "ended_at", "title",
                                         "extends", "continues", "opened_position"}),
        ):  # fmt: skip
            names = definitions.names_of(definitions.COLUMNS_OF[name])
            shown = [n for n in names if n not in lacking and not n.endswith("position")]
            columns = definitions.quoted(shown)
            wanted = con.sql(f"select {columns} from wide_{name} order by {key}").to_arrow_table().to_pylist()
            assert log.sql(f"select {columns} from {name} order by {key}").to_pylist() == wanted, name
        sums = ", ".join(
            f"sum({name})" for name in ("prompt_tokens", "completion_tokens", "cache_read_tokens")
        )
        counted = con.execute(f"select count(*), {sums} from wide_calls").fetchall()
        assert log.query(f"select count(*), {sums} from llm_calls").rows == counted


def folded_apart(con: Any, logs: "list[list[Row]]") -> None:
    """Make `events` of all stores with `store_id`, and what the fold of each store makes of its own."""
    tables = [table_of(store_id, log) for store_id, log in zip(STORES, logs, strict=False)]
    con.register("given", pa.concat_tables(tables))
    con.execute("create table events as from given")
    for number, table in enumerate(tables):
        con.execute(f"create schema s{number}")
        with source.connect() as apart:
            apart.register("own", table)
            apart.execute("create table own_events as from own")
            fold.fold(apart, "own_events", fold.PROJECTIONS)
            for name in ("turns", "sessions"):
                con.register("made", apart.sql(f"from {name}").to_arrow_table())
                con.execute(f"create table s{number}.{name} as from made")
            con.register(
                "made", apart.sql(definitions.llm_calls("own_events", "from beaten")).to_arrow_table()
            )
            con.execute(f"create table s{number}.calls as from made")
    for name in ("calls", "turns", "sessions"):
        union = " union all ".join(
            f"select '{store_id.hex()}' as store_id, * from s{number}.{name}"
            for number, store_id in enumerate(STORES[: len(tables)])
        )
        con.execute(f"create table {name} as {union}")


@pytest.fixture
def team(place: Place) -> "tuple[Place, list[Work]]":
    """Two people on two machines and two repositories; two sessions are on both machines."""
    return place, publish_team(place)


@pytest.mark.parametrize("by", ["person", "host", "repo", "week"])
def test_figures_of_a_team_count_once(team: "tuple[Place, list[Work]]", by: str) -> None:
    """P3: `locus stats --lake TO --by …` has sessions, turns, calls and tokens of each, shared ones once."""
    place, made = team
    expected: dict[str, list[int]] = {}
    for person, repo, week, rows in made:
        key = {"person": person, "host": TEAM[person], "repo": repo, "week": f"2026-W{6 + week:02d}"}[by]
        sums = expected.setdefault(key, [0, 0, 0, 0])
        calls = [row for row in rows if row["event_type"] == "llm"]
        tokens = sum(row["prompt_tokens"] + row["completion_tokens"] for row in calls)
        for index, value in enumerate((1, 2, len(calls), tokens)):
            sums[index] += value
    stats = answer("stats", "--lake", place.uri, "--by", by)["stats"]
    figures = {
        row["key"]: [
            row["sessions"],
            row["turns"],
            row["llm_calls"],
            row["prompt_tokens"] + row["completion_tokens"],
        ]
        for row in stats["rows"]
    }
    assert figures == expected
    assert stats["total"]["llm_calls"] == 8 and stats["total"]["sessions"] == 4


def test_every_door_answers_and_nothing_is_left(
    team: "tuple[Place, list[Work]]",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P5, P7: questions, a report and errors leave no file; a function of contents says what to do."""
    place, _ = team
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    question = "select person, host, sum(tokens_used) as tokens from sessions group by all order by all"
    assert answer("sql", "--lake", place.uri, question) == [
        {"person": "Ann <ann@example.org>", "host": "desk", "tokens": 206},
        {"person": "Ben <ben@example.org>", "host": "lap", "tokens": 1006},
    ]
    homes = answer("sql", "--lake", place.uri, "select session_id, store_id from sessions order by all")
    assert [row["store_id"][:2] for row in homes] == ["02", "01", "01", "01"]
    page = run("report", "--lake", place.uri, "--html", "-")
    assert page.returncode == 0 and "<title>team – report</title>" in page.stdout.replace("shared", "team")
    (first, *_) = answer("sql", "--lake", place.uri, "select event_type from timeline('session300_001')")
    assert first == {"event_type": "turn"}
    scalars = [f"select {name}('a', 'last')" for name in ("file_at", "blob_at")]
    tables = [f"from {name}('last')" for name in ("tree_at", "diff_between", "history_of")]
    for function in scalars + tables:
        done = run("sql", "--lake", place.uri, function)
        assert done.returncode == 3 and "locus lake replay" in done.stderr, (function, done.stderr)
    for words in (("sql", "select nothing"), ("sql", "--all-stores", "select 1"), ("stats", "--all-stores")):
        assert run(*words, "--lake", place.uri).returncode in (1, 2)
    assert run("--store", ".", "sql", "--lake", place.uri, "select 1").returncode == 2
    assert run("sql", "--lake", f"{place.uri}/nothing", "select 1").returncode == 1
    assert list(scratch.iterdir()) == []


def test_a_question_of_figures_reads_no_payloads(s3_place: Place, s3: S3Server) -> None:
    """I35: of a bucket the columns are read that a question can need; the answer is that of all columns."""
    texts = Random(0)
    rows = [
        event(n, "llm", "session1", 1, model="m", prompt_tokens=n, completion_tokens=1, message_id=f"m{n}",
              payload={"text": texts.randbytes(20_000).hex()})
        for n in range(60)
    ]  # fmt: skip
    publish_rows(s3_place, STORES[0], rows)
    received = {}
    for question in QUESTIONS_OF_FIGURES:
        s3.reset()
        figures = answer("sql", "--lake", s3_place.uri, question)
        received[question] = s3.counts()["sent"]
        with lake_of([rows]) as log:
            assert rows_of(log.query(question)) == figures
    s3.reset()
    assert len(answer("sql", "--lake", s3_place.uri, "select * from events")) == 60
    assert max(received.values()) * 3 < s3.counts()["sent"], received


QUESTIONS_OF_FIGURES = (
    "select sum(prompt_tokens)::bigint as n from llm_calls",
    "select session_id, tokens_used, llm_calls, started_at::varchar as at from sessions",
    "select turn, tokens_used, cost_usd, unpriced_calls, title from turns order by all",
    "select event_id, schema_version, seq from events order by all limit 3",
)


def test_every_question_has_the_columns_that_it_needs(tmp_path: Path, file_place: Place) -> None:
    """P7: a question for which only some columns are read has the answer that it has with all of them."""
    with Store.open(golden.unpack("transcripts-first", tmp_path).store) as store:
        send(store, file_place, ALL)
    for name in ("all", *views.NAMES):
        (tmp_path / name).mkdir()
    log = one_machine.opened(file_place, str(tmp_path / "all"))
    lean = 0
    for view, columns in views.COLUMNS_OF.items():
        names = [f'"{name}"' for name, _, _ in columns]
        few = [name for name in names if "payload" not in one_machine._needed(f"select {name} from {view}")]
        if few:
            question = f"select {', '.join(few)} from {view} order by all"
            asked = one_machine.opened(file_place, str(tmp_path / view), question)
            assert asked.query(question).rows == log.query(question).rows, view
            lean += len(few)
    assert lean > 120


def test_a_lake_too_large_is_refused(file_place: Place, tmp_path: Path) -> None:
    """I35: above the limit nothing is read, and the message says what to do."""
    publish_rows(file_place, STORES[0], [event(n, "action", "session1", 1) for n in range(5)])
    with pytest.raises(Refused, match="--lake-events"):
        one_machine.opened(file_place, str(tmp_path), events_max=4)
    assert list(tmp_path.iterdir()) == [Path(file_place.uri.removeprefix("file://"))]
    done = run("sql", "--lake", file_place.uri, "--lake-events", 4, "select 1")
    assert (done.returncode, "locus lake fold" in done.stderr) == (3, True)
    assert answer(
        "sql", "--lake", file_place.uri, "--lake-events", 5, "select count(*) as n from events"
    ) == [{"n": 5}]


def test_what_a_killed_command_left_goes_with_the_next(
    file_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5, I5: a directory whose command was killed goes with the next; that of one at work stays."""
    publish_rows(file_place, STORES[0], [event(1, "action", "session1", 1)])
    scratch = tmp_path / "scratch"
    monkeypatch.setenv("TMPDIR", str(scratch))
    for name in ("locus-ask-dead", "locus-ask-live", "locus-ask-new", "other"):
        (scratch / name).mkdir(parents=True)
        (scratch / name / "lock").touch()
        os.utime(scratch / name, (0, 0) if name != "locus-ask-new" else None)
    with open(scratch / "locus-ask-live/lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run("sql", "--lake", file_place.uri, "select 1").returncode == 0
    assert sorted(path.name for path in scratch.iterdir()) == ["locus-ask-live", "locus-ask-new", "other"]


def test_ids_that_programs_use_again_name_calls_of_each_machine() -> None:
    """P3: `m1` of one machine is another call than `m1` of another; an id unique by itself is one call."""
    ids = ("m1", "msg_01AbCdEf")
    spent = {"prompt_tokens": 10, "completion_tokens": 1}
    logs = [
        [
            event(10 * store + n, "llm", f"session{store}", 1, message_id=id, **spent)
            for n, id in enumerate(ids)
        ]
        for store in (1, 2)
    ]
    with lake_of(logs) as log:
        rows = log.query("select message_id, count(*) from llm_calls group by 1 order by 1").rows
    assert rows == [("m1@01010101", 1), ("m1@02020202", 1), ("msg_01AbCdEf", 1)]


def test_sessions_of_two_machines_do_not_end_each_other() -> None:
    """P7: an active session stays so when its agent opens another elsewhere; in one store it would not."""
    logs = [[event(n, "session", f"session{n}", operation="start")] for n in (0, 1)]
    question = "select status, end_reason from sessions order by first_position"
    with lake_of(logs) as log:
        assert log.query(question).rows == [("active", None)] * 2
        assert log.query("select active_sessions, total_sessions from sessions_master").rows == [(2, 2)]
    with lake_of([logs[0] + logs[1]]) as log:
        assert log.query(question).rows == [("closed", "superseded"), ("active", None)]


def test_a_declared_focus_stays_on_its_machine() -> None:
    """P7: what was declared before an agent came holds for the session that it opens there, not elsewhere."""
    fields = {"focus": "the kettle"}
    logs = [
        [event(0, "session", "declared", operation="start", payload=fields)],
        [event(1, "session", "session1", operation="start", agent_session_id="x1")],
    ]
    question = "select focus from sessions where session_id = 'session1'"
    with lake_of(logs) as log:
        assert log.query(question).rows == [(None,)]
    with lake_of([logs[0] + logs[1]]) as log:
        assert log.query(question).rows == [("the kettle",)]


def test_a_turn_of_another_store_gets_its_number_everywhere() -> None:
    """I19: a turn that the home lacks is numbered after those of the home, in all ids that name it."""
    start = event(0, "session", "session0", operation="start")
    home = [event(n, "action", "session0", 1, agent_turn_id="key1") for n in (1, 2, 3)]
    names = {"context_id": "action:session0_001_004", "extends": ["turn:session0_001", "session:x_session0"]}
    elsewhere = [
        event(1, "action", "session0", 2, agent_turn_id="key1"),
        event(4, "action", "session0", 1, agent_turn_id="key4", **names),
    ]
    question = "select event_id, turn, turn_id, context_id, extends from events where event_type = 'action'"
    with lake_of([elsewhere, [start, *home]]) as log:
        rows = {int(row[0], 16): row[1:] for row in log.query(question).rows}
        turns = log.query("select turn, context_id, event_count, store_id from turns order by turn").rows
        assert log.query("select store_id from sessions").rows == [(STORES[1].hex(),)]
    assert {n: row[0] for n, row in rows.items()} == {1: 1, 2: 1, 3: 1, 4: 2}
    assert rows[4] == (2, "002", "action:session0_002_004", ["turn:session0_002", "session:x_session0"])
    assert turns == [
        (1, "turn:session0_001", 3, STORES[1].hex()),
        (2, "turn:session0_002", 1, STORES[0].hex()),
    ]


def test_a_damaged_publication_is_named(file_place: Place) -> None:
    """I11: a bit that flipped inside of a page is found by its checksum; the message names the object."""
    texts = Random(0)
    rows = [event(n, "action", "session1", 1, payload={"text": texts.randbytes(50).hex()}) for n in range(99)]
    publish_rows(file_place, STORES[0], rows)
    (path,) = Path(file_place.uri.removeprefix("file://")).rglob("*.parquet")
    path.write_bytes(unnoticed(path.read_bytes()))
    done = run("sql", "--lake", file_place.uri, "select * from events")
    assert done.returncode == 12 and path.name in done.stderr and "locus lake verify" in done.stderr


def unnoticed(data: bytes) -> bytes:
    """A Parquet file with a bit flipped so that whoever compares no checksum reads another text."""
    before = pq.read_table(pa.BufferReader(data))
    for offset in range(len(data) // 4, len(data)):
        changed = data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]
        with contextlib.suppress(OSError, pa.ArrowException, ValueError):
            if not pq.read_table(pa.BufferReader(changed)).equals(before):
                return changed
    raise AssertionError("every flipped bit is noticed without checksums")


def test_a_file_of_another_store_is_named(file_place: Place) -> None:
    """I11: a publication under the name of another store is damage, not that store's events."""
    publish_rows(file_place, STORES[0], [event(1, "action", "session1", 1)])
    names = [f"stores/{store_id.hex()}/events/{0:020d}.parquet" for store_id in STORES[:2]]
    file_place.create(names[1], file_place.read(names[0]))
    done = run("sql", "--lake", file_place.uri, "select 1")
    assert done.returncode == 12 and names[1] in done.stderr
