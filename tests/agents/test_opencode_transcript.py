"""Sessions of OpenCode: from its database, its older files and its export, each model call once."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.agents import formats
from eventlog.agents.kit.draft import Draft
from eventlog.agents.opencode.transcript import OpenCodeReader
from eventlog.base.errors import NotFound
from eventlog.importers import importer, sources
from eventlog.importers.importer import ImportReport
from eventlog.store import Store

Json = dict[str, Any]
Session = tuple[Json, list[tuple[Json, list[Json]]]]

TIME = 1_795_300_000_000
SES, CHILD = "ses_00000000000aaaa", "ses_00000000000bbbb"
TOKENS = {"total": 930, "input": 395, "output": 25, "reasoning": 5, "cache": {"read": 500, "write": 5}}
TABLES = """
create table session (id text primary key, project_id text, parent_id text, slug text,
 directory text, title text, version text, permission text, time_created integer, time_updated integer);
create table message (id text primary key, session_id text, time_created integer,
 time_updated integer, data text);
create table part (id text primary key, message_id text, session_id text, time_created integer,
 time_updated integer, data text);
"""


def info(session: str = SES, *, parent: str | None = None, at: int = 0, title: str = "Prices") -> Json:
    found = {
        "id": session, "projectID": "p1", "parentID": parent, "slug": "calm-fox",
        "directory": "/home/dev/shop", "title": title, "version": "1.18.33",
        "time": {"created": TIME + at, "updated": TIME + at},
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def user(number: int, text: str, *, session: str = SES, **more: Any) -> tuple[Json, list[Json]]:
    key = f"msg_{number:04d}"
    payload = {"id": key, "sessionID": session, "role": "user", "time": {"created": TIME + number * 1000}}
    return payload, [part(key, 0, {"type": "text", "text": text, **more}, session)]


def answer(number: int, *parts: Json, session: str = SES, **more: Any) -> tuple[Json, list[Json]]:
    key = f"msg_{number:04d}"
    time = {"created": TIME + number * 1000, "completed": TIME + number * 1000 + 900}
    payload = {
        "id": key, "sessionID": session, "role": "assistant", "time": time, "parentID": "msg_0001",
        "providerID": "fake", "modelID": "fake-model",
        "path": {"cwd": "/home/dev/shop", "root": "/home/dev/shop"}, "cost": 0, "tokens": TOKENS, **more,
    }  # fmt: skip
    return payload, [part(key, i, one, session) for i, one in enumerate(parts)]


def part(message: str, number: int, said: Json, session: str = SES) -> Json:
    return {"id": f"prt_{message[4:]}_{number}", "messageID": message, "sessionID": session, **said}


def step() -> list[Json]:
    return [{"type": "step-finish", "reason": "stop", "snapshot": "aa", "tokens": TOKENS, "cost": 0.5}]


def tool(name: str, call: str, args: Json, **state: Any) -> Json:
    time = {"start": TIME + 100, "end": TIME + 140}
    whole = {"status": "completed", "input": args, "output": "done", "metadata": {}, "time": time, **state}
    return {"type": "tool", "tool": name, "callID": call, "state": whole}


WRITE = tool(
    "write",
    "c1",
    {"filePath": "/home/dev/shop/a.py", "content": "price = 1\n"},
    metadata={"filepath": "/home/dev/shop/a.py", "exists": False},
)
EDIT = tool("edit", "c2", {"filePath": "/home/dev/shop/a.py", "oldString": "1", "newString": "2"})
EDIT["state"]["metadata"] = {
    "filediff": {"file": "/home/dev/shop/a.py", "additions": 1, "deletions": 1, "patch": "@@ -1 +1 @@"}
}
SHELL = tool("bash", "c3", {"command": "exit 3"}, metadata={"exit": 3, "output": ""})
THROWN = tool("edit", "c4", {"filePath": "b.py"}, status="error", error="File not found: b.py")
RUNNING = tool("bash", "c5", {"command": "sleep 9"}, status="running")
WHOLE: list[Session] = [
    (
        info(),
        [
            user(1, "add a price"),
            answer(2, {"type": "step-start", "snapshot": "9"}, WRITE, *step(), EDIT, *step()),
            answer(3, {"type": "reasoning", "text": "Hm."}, SHELL, THROWN, *step()),
            answer(4, {"type": "text", "text": "Done."}, *step()),
            user(6, "Continue", synthetic=True),
        ],
    )
]


def written(path: Path, sessions: list[Session], *, wal: bool = False) -> Path:
    """The database with these sessions; with `wal` as a running OpenCode has it."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as rows:
        rows.executescript(TABLES)
        fill(rows, sessions)
        if wal:
            rows.execute("pragma journal_mode=wal")
    return path


def fill(rows: sqlite3.Connection, sessions: list[Session]) -> None:
    for head, messages in sessions:
        created = head["time"]["created"]
        values = (
            head["id"], head["projectID"], head.get("parentID"), head["slug"],
            head["directory"], head["title"], head["version"], '[{"permission": "question"}]', created,
            head["time"]["updated"],
        )  # fmt: skip
        rows.execute("insert or replace into session values (?,?,?,?,?,?,?,?,?,?)", values)
        for item, parts in messages:
            at = item["time"]["created"]
            data = json.dumps({key: value for key, value in item.items() if key not in ("id", "sessionID")})
            rows.execute(
                "insert or replace into message values (?,?,?,?,?)", (item["id"], head["id"], at, at, data)
            )
            for one in parts:
                data = json.dumps({k: v for k, v in one.items() if k not in ("id", "messageID", "sessionID")})
                place = (one["id"], item["id"], head["id"], at, at, data)
                rows.execute("insert or replace into part values (?,?,?,?,?,?)", place)
    rows.commit()


def import_of(store: Store, path: Path) -> ImportReport:
    return importer.run(store, "opencode", sources.named("opencode", [str(path)]))


def made(directory: Path) -> Path:
    """Where a store goes in a directory of its own."""
    directory.mkdir()
    return directory / ".locus"


def rows_of(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.query(sql).rows]


def ids(store: Store) -> set[str]:
    passing = ("import", "transcript", "sessions")
    return {str(one["event_id"]) for one in store.events() if one["event_type"] not in passing} - {
        str(one["event_id"]) for one in store.events() if one.get("operation") == "end"
    }


def check(store: Store) -> None:
    assert rows_of(store, "select title, user_request, outcome, tool_calls from turns") == [
        ("add a price", "add a price", "Done.", 4)
    ]
    sums = "select count(*), sum(prompt_tokens), sum(completion_tokens), sum(reasoning_tokens) from llm_calls"
    assert rows_of(store, sums) == [(4, 3600, 120, 20)]
    assert rows_of(store, "select distinct stop_reason from llm_calls") == [("stop",)]
    assert rows_of(store, "select tool, success, duration_ms from actions order by position") == [
        ("write", True, 40), ("edit", True, 40), ("bash", False, 40), ("edit", False, 40),
    ]  # fmt: skip
    assert rows_of(store, "select error_type, tool, path from errors") == [("tool_failure", "edit", "b.py")]
    files = rows_of(store, "select operation, path, after_hash from files order by position")
    assert [one[:2] for one in files] == [("add", "a.py"), ("edit", "a.py")]
    assert [store.blob(one[2]) for one in files] == [b"price = 1\n", b"price = 2\n"]


@pytest.mark.parametrize("form", ["database", "database in use", "files", "export"])
def test_every_form_says_the_same(form: str, tmp_path: Path) -> None:
    """P3, S1-33: a model call is one step, cache and reasoning counted in, an error has the file of its call,
    whatever the session is kept in."""
    with Store.init(tmp_path / ".locus") as store:
        report = import_of(store, kept_as(form, tmp_path))
        assert (report.sessions, report.problems, report.malformed) == (1, [], 0)
        check(store)
        texts = rows_of(store, "select operation from events where event_type = 'message' order by position")
        assert texts == [("reasoning",), ("text",)]


def kept_as(form: str, directory: Path) -> Path:
    if form.startswith("database"):
        return written(directory / "opencode.db", WHOLE, wal=form.endswith("in use"))
    ((head, messages),) = WHOLE
    if form == "export":
        path = directory / "export.json"
        listed = [{"info": one, "parts": parts} for one, parts in messages]
        path.write_text(json.dumps({"info": head, "messages": listed}, indent=1))
        return path
    storage = directory / "storage"
    path = put(storage / f"session/p1/{SES}.json", head)
    for one, parts in messages:
        put(storage / f"message/{SES}/{one['id']}.json", one)
        for each in parts:
            put(storage / f"part/{one['id']}/{each['id']}.json", each)
    return path


def put(path: Path, said: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(said))
    return path


def test_what_is_added_while_a_session_goes_on_is_recorded_once(tmp_path: Path) -> None:
    """P3: a database read again and again, while rows grow, gives the events that it gives when read once."""
    path = tmp_path / "opencode.db"
    ((head, messages),) = WHOLE
    half = answer(3, {"type": "reasoning", "text": "Hm."}, {**SHELL, "state": RUNNING["state"]}, tokens={})
    with Store.init(made(tmp_path / "a")) as store:
        for stage in (messages[:1], messages[:2], [*messages[:2], half], messages):
            written(path, [(head, stage)])
            assert import_of(store, path).problems == []
        check(store)
        known = ids(store)
        assert import_of(store, path).unchanged == 1
    with Store.init(made(tmp_path / "b")) as store:
        import_of(store, path)
        assert ids(store) <= known
        assert len(known - ids(store)) == 1  # the command that was under way


def test_a_subagent_is_in_the_turn_it_worked_for(tmp_path: Path) -> None:
    """P3: a session with a parent is no session of its own; its calls count once, in its parent's turn."""
    task = tool("task", "c9", {"prompt": "count"}, metadata={"sessionId": CHILD})
    parent = [
        user(1, "count all"),
        answer(2, task, *step()),
        answer(9, {"type": "text", "text": "Two."}, *step()),
    ]
    child = [
        user(3, "count", session=CHILD),
        answer(4, SHELL, *step(), session=CHILD),
    ]
    path = written(
        tmp_path / "o.db", [(info(), parent), (info(CHILD, parent=SES, at=2500, title="Count"), child)]
    )
    with Store.init(tmp_path / ".locus") as store:
        report = import_of(store, path)
        assert (report.sessions, report.turns, report.calls) == (1, 1, 3)
        found = rows_of(
            store,
            "select operation, title, subagent_id, turn from events where event_type = 'subagent' "
            "order by position",
        )
        assert found == [("end", None, CHILD, 1), ("start", "Count", CHILD, 1)]
        assert rows_of(store, "select tool, subagent_id, turn from actions order by position") == [
            ("task", None, 1), ("bash", CHILD, 1),
        ]  # fmt: skip
        assert rows_of(store, "select outcome from turns") == [("Two.",)]


def test_a_fork_counts_nothing_that_it_copied(tmp_path: Path) -> None:
    """P3: messages older than their session are copies: kept as they are, counted nowhere."""
    fork = "ses_00000000000ffff"
    copied = [
        (
            {**item, "id": f"{item['id']}f", "sessionID": fork},
            [{**one, "id": f"{one['id']}f"} for one in parts],
        )
        for item, parts in WHOLE[0][1]
    ]
    own = [*copied, user(20, "and now", session=fork), answer(21, *step(), session=fork)]
    path = written(tmp_path / "o.db", [*WHOLE, (info(fork, at=15_000), own)])
    with Store.init(tmp_path / ".locus") as store:
        report = import_of(store, path)
        assert (report.sessions, report.turns, report.calls) == (2, 2, 5)
        assert rows_of(store, "select count(*) from actions") == [(4,)]
        kept = "select count(*) from events where event_type = 'transcript' and operation = 'copied'"
        assert rows_of(store, kept) == [(5,)]


def test_an_aborted_answer_and_an_older_session_without_steps(tmp_path: Path) -> None:
    """P3, P7: without steps the message is the model call; one that was aborted ends its turn interrupted."""
    aborted: Json = {"error": {"name": "MessageAbortedError", "data": {"message": "stopped"}}}
    messages = [user(1, "go"), answer(2), answer(3, RUNNING, tokens={"input": 0}, **aborted)]
    path = written(tmp_path / "o.db", [(info(), messages)])
    with Store.init(tmp_path / ".locus") as store:
        import_of(store, path)
        assert rows_of(store, "select prompt_tokens, completion_tokens from llm_calls") == [(900, 30)]
        assert rows_of(store, "select status from turns") == [("interrupted",)]
        assert rows_of(store, "select error_type from errors") == [("interrupted",)]
        assert rows_of(store, "select tool from events where event_type = 'tool_start'") == [("bash",)]


def test_nothing_is_written_where_the_database_is(tmp_path: Path) -> None:
    """P4: reading leaves no file behind, also beside a database in use or one that a crash left."""
    place = tmp_path / "data"
    place.mkdir()
    path = written(place / "opencode.db", WHOLE, wal=True)
    with closing(sqlite3.connect(path)) as using, Store.init(tmp_path / ".locus") as store:
        fill(using, [(info(SES, title="Other"), [user(30, "more")])])
        names = sorted(os.listdir(place))
        assert names == ["opencode.db", "opencode.db-shm", "opencode.db-wal"]
        assert import_of(store, path).turns == 2
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for name in names[::2]:
            (crashed / name).write_bytes((place / name).read_bytes())
        assert import_of(store, crashed / "opencode.db").sessions == 1
        assert sorted(os.listdir(crashed)) == names[::2]
        assert sorted(os.listdir(place)) == names
    assert os.listdir(place) == ["opencode.db"]
    place.chmod(0o500)
    try:
        with Store.init(made(tmp_path / "b")) as store:
            assert import_of(store, path).turns == 2
        assert os.listdir(place) == ["opencode.db"]
    finally:
        place.chmod(0o700)


def test_a_database_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """P7: a damaged database is one problem, reported in a line; the other sessions are imported."""
    good = written(tmp_path / "opencode.db", WHOLE)
    (tmp_path / "none.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 4000)
    with Store.init(tmp_path / ".locus") as store:
        found = sources.named("opencode", [str(good)])
        good.write_bytes(good.read_bytes()[:3000])
        report = importer.run(store, "opencode", found)
        assert len(report.problems) == 1 and str(good) in "".join(report.problems[0])
        assert rows_of(store, "select count(*) from sessions") == [(0,)]


def test_its_own_places_and_the_sessions_of_this_directory(tmp_path: Path) -> None:
    """Without a path: the database below XDG_DATA_HOME, of it those sessions that ran here."""
    here = tmp_path / "shop"
    (tmp_path / "data/opencode").mkdir(parents=True)
    here.mkdir()
    mine = {**info(), "directory": str(here)}
    written(
        tmp_path / "data/opencode/opencode.db", [(mine, WHOLE[0][1]), (info("ses_other"), [user(50, "x")])]
    )
    environ = {"XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
    found = sources.of_agent("opencode", str(here), environ)
    assert [source.path.rpartition("#")[2] for source in found] == [SES]
    assert len(sources.of_agent("opencode", str(here), environ, all_projects=True)) == 2
    assert sources.of_agent("opencode", str(here), environ, since_s=TIME / 1000 + 9e9) == []
    with pytest.raises(NotFound):
        sources.of_agent("opencode", str(here), {"HOME": str(tmp_path / "nobody")})


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
LINES = [
    {"opencode": "session", "info": info()},
    *({"opencode": "message", "info": said} for said, _ in WHOLE[0][1]),
    *({"opencode": "part", "part": one} for _, parts in WHOLE[0][1] for one in parts),
    {"opencode": "totals", "info": info()},
    {"info": info(), "messages": [{"info": said, "parts": parts} for said, parts in WHOLE[0][1]]},
]


@st.composite
def mutated(draw: st.DrawFn) -> Json:
    """A real line in which one value, at any depth, is another."""
    line = json.loads(json.dumps(draw(st.sampled_from(LINES))))
    at: Any = line
    while isinstance(at, (dict, list)) and at:
        key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not isinstance(at[key], (dict, list)) or not at[key] or draw(st.integers(0, 3)) == 0:
            at[key] = draw(JSONS)
            break
        at = at[key]
    found: Json = line
    return found


@given(st.lists(mutated() | st.dictionaries(st.text(max_size=9), JSONS, max_size=4), max_size=8))
def test_no_line_makes_the_reader_fail(lines: list[Json]) -> None:
    """P7: whatever a row holds, it is recorded or kept raw, and never the end of an import."""
    draft = Draft("opencode")
    reader = OpenCodeReader(draft)
    for line in lines:
        reader.take(line)
    reader.end()
    assert all(isinstance(item, dict) or item.cause for item in draft.take())


PLACES = [Path(one) for one in os.environ.get("LOCUS_TRANSCRIPTS", "").split(os.pathsep) if one]
REAL = sorted(path for place in PLACES for path in place.rglob("opencode*.db"))


@pytest.mark.skipif(not REAL, reason="LOCUS_TRANSCRIPTS names no databases")
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.parent.name)
def test_real_databases_count_as_an_independent_count_does(path: Path, tmp_path: Path) -> None:
    """P3: sessions, prompts, tool calls, model calls and tokens are those that SQL counts in the file."""
    mode = "mode=ro" if Path(f"{path}-wal").exists() else "immutable=1"
    with closing(sqlite3.connect(f"file:{path}?{mode}", uri=True)) as rows:
        kind = "json_extract(data, '$.%s') = '%s'"
        users = rows.execute(f"select count(*) from message where {kind % ('role', 'user')}").fetchone()
        tools = rows.execute(f"select count(*) from part where {kind % ('type', 'tool')}").fetchone()
        sums = "select count(*), sum(json_extract(data, '$.tokens.input')) from message where "
        calls = rows.execute(sums + kind % ("role", "assistant")).fetchone()
    with Store.init(tmp_path / ".locus") as store:
        import_of(store, path)
        assert rows_of(store, "select count(*) from turns") == [users]
        assert rows_of(store, "select count(*) from actions") == [tools]
        assert rows_of(store, "select count(*), sum(prompt_tokens) from llm_calls") == [calls]
        assert import_of(store, path).unchanged == len(sources.named("opencode", [str(path)]))
    assert formats.is_one("opencode", formats.source_of("opencode", str(path)).head())
