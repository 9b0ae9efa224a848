"""The hooks on a real store: ids, links, kinds, sources, and what becomes of failures."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog.base.errors import InvalidEvent, LockTimeout, NotDurable
from eventlog.blobs.ids import blob_id, to_text
from eventlog.recorder.hooks import Hooks, Stored, StrictHooks
from eventlog.recorder.older_hooks import OlderHooks
from eventlog.recorder.recorder import Recorder
from eventlog.recorder.requests import CreateEventRequest, EventKind, TurnSummary
from eventlog.store import Store
from tests.simfs import SimFS

SID = "a1b2c3d4"
SESSION = f"session:fix-jwt-refresh_{SID}"
ANCHOR = "knowledge:locus_0123456789ab"


@pytest.fixture
def hooks(store: Store) -> Hooks:
    return Hooks(store, agent="script")


def last(store: Store) -> dict[str, Any]:
    return {name: value for name, value in list(store.events())[-1].items() if value is not None}


def shape(event: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(event.get(name) for name in ("context_id", "event_kind", "source", "extends", "related_to"))


def row(store: Store, sql: str) -> dict[str, Any]:
    found = store.query(sql)
    assert len(found.rows) == 1, found.rows
    return dict(zip(found.columns, found.rows[0], strict=True))


def test_a_session_from_start_to_end(store: Store, hooks: Hooks) -> None:
    """S0-10…S0-13, S1-59: both calls write one context, and both extend the master (ruling c2)."""
    hooks.strict.store_session_start("fix-jwt-refresh", SID, "Fix the JWT refresh bug", "0123456789ab")
    start = last(store)
    began = row(store, "select * from sessions")
    hooks.strict.store_session_end("fix-jwt-refresh", SID, "Repaired", 3, {"events": 42})
    end = last(store)
    ended = row(store, "select * from sessions")

    shared = (SESSION, "fact", "system", ["0123456789ab:sessions"], None)
    assert (shape(start), shape(end)) == (shared, shared)
    assert start["payload"] == {"slug": "fix-jwt-refresh", "session_id": SID}
    assert end["payload"] == {
        "summary": "Repaired",
        "turn_count": 3,
        "end_reason": "explicit",
        "totals": {"events": 42},
    }
    assert {k: began[k] for k in ("status", "title", "turn_count", "events", "tool_calls", "llm_calls")} == {
        "status": "active",
        "title": "Fix the JWT refresh bug",
        "turn_count": 0,
        "events": 0,
        "tool_calls": 0,
        "llm_calls": 0,
    }
    assert (began["prompt_tokens"], began["completion_tokens"], began["files_modified"]) == (0, 0, [])
    assert (began["errors"], began["errors_resolved"]) == (0, 0)
    assert (ended["status"], ended["summary"], ended["title"]) == (
        "closed",
        "Repaired",
        "Fix the JWT refresh bug",
    )
    assert ended["started_at"] == began["started_at"] is not None


def test_a_turn_from_start_to_end(store: Store, hooks: Hooks) -> None:
    """S0-8, S0-14, S0-15: one context, the session as parent; the agent says the end, nothing is nulled."""
    message = "Fix the JWT refresh bug. " + "x" * 2000
    hooks.strict.store_turn_start(SID, SESSION, 1, message)
    start = last(store)
    summary = TurnSummary(
        "Refresh fixed",
        "",
        ("edit jwt.rs",),
        "tests pass",
        ("check first",),
        ("auth.rs",),
        ("jwt.rs",),
        event_count=7,
    )
    hooks.strict.store_turn_end(SID, SESSION, 1, summary)
    end = last(store)
    turn = row(store, "select * from turns")

    assert shape(start) == (f"turn:{SID}_001", "observation", "system", [SESSION], None)
    assert shape(end) == (f"turn:{SID}_001", "observation", "agent", [SESSION], None)
    assert start["payload"] == {"user_message": message}
    assert (end["title"], end["status"], end["payload"]["event_count"]) == ("Refresh fixed", "completed", 7)
    assert turn["user_request"] == message
    assert (turn["status"], turn["outcome"], turn["actions_taken"]) == (
        "completed",
        "tests pass",
        ["edit jwt.rs"],
    )
    assert (turn["decisions"], turn["files_read"], turn["files_modified"]) == (
        ["check first"],
        ["auth.rs"],
        ["jwt.rs"],
    )


def test_a_turns_event(store: Store, hooks: Hooks) -> None:
    """S0-16, S0-22, S0-23: named by type, session, turn and number; the payload and the links as given."""
    payload = {"tool": "bash", "args": {"a": [1, None]}, "duration_ms": 12, "success": True, "seq": 3}
    hooks.strict.store_turn_event(
        "MCP Action", SID, "001", 3, EventKind.ACTION, "executor", payload, ["fact:Tools"]
    )
    event = last(store)
    hooks.strict.store_turn_event("file", SID, "001", 4, EventKind.ACTION, "executor", {"path": "a.py"})
    plain = last(store)

    assert shape(event) == (
        f"mcp_action:{SID}_001_003",
        "action",
        "executor",
        [f"turn:{SID}_001"],
        ["fact:tools"],
    )
    assert (event["event_type"], event["session_id"], event["turn"], event["seq"]) == (
        "mcp_action",
        SID,
        1,
        3,
    )
    assert event["payload"] == payload
    assert (event["tool"], event["duration_ms"], event["success"]) == ("bash", 12, True)
    assert "related_to" not in plain


def test_the_examples_of_the_tree_come_out(store: Store, hooks: Hooks) -> None:
    """S0-7, S1-14, S1-51: the ids of the worked example, and the path from an event to the project."""
    hooks.bootstrap_sessions_master("abc123", "knowledge:locuscodes_abc123")
    hooks.store_session_start("fix-jwt-refresh", SID, "Fix the JWT refresh bug", "abc123")
    for turn, types in enumerate(
        (
            "snapshot intent action action decision llm",
            "snapshot intent action file decision llm feedback",
            "snapshot intent action error action file action llm",
        ),
        start=1,
    ):
        hooks.store_turn_start(SID, SESSION, turn, "Go on")
        for seq, kind in enumerate(types.split(), start=1):
            hooks.store_turn_event(kind, SID, f"{turn:03d}", seq, EventKind.ACTION, "executor", {"seq": seq})
    events = list(store.events())
    parent_of = {str(e["context_id"]): e["extends"] for e in events}
    path = ["feedback:a1b2c3d4_002_007"]
    while path[-1] in parent_of:
        path.append(parent_of[path[-1]][0])  # type: ignore[index]

    ids = [str(e["context_id"]) for e in events]
    assert ids[3:9] == [
        "snapshot:a1b2c3d4_001_001",
        "intent:a1b2c3d4_001_002",
        "action:a1b2c3d4_001_003",
        "action:a1b2c3d4_001_004",
        "decision:a1b2c3d4_001_005",
        "llm:a1b2c3d4_001_006",
    ]
    assert {"file:a1b2c3d4_002_004", "error:a1b2c3d4_003_004", "llm:a1b2c3d4_003_008"} <= set(ids)
    assert path == [
        "feedback:a1b2c3d4_002_007",
        "turn:a1b2c3d4_002",
        SESSION,
        "abc123:sessions",
        "knowledge:locuscodes_abc123",
    ]


@pytest.mark.parametrize("snapshot_type", ["turn_start", "turn_end"])
def test_a_snapshot(store: Store, hooks: Hooks, snapshot_type: str) -> None:
    """S0-17, S0-18, S1-36: fact from system under its turn, with what git reported."""
    hooks.strict.store_snapshot(SID, "002", 1, "f" * 40, "main", ["a.py"], [], snapshot_type)
    event = last(store)

    assert shape(event) == (f"snapshot:{SID}_002_001", "fact", "system", [f"turn:{SID}_002"], None)
    assert event["payload"] == {
        "git_head": "f" * 40,
        "git_branch": "main",
        "git_dirty": ["a.py"],
        "git_staged": [],
        "snapshot_type": snapshot_type,
    }
    assert (event["operation"], event["commit"], event["branch"]) == (snapshot_type, "f" * 40, "main")


def test_the_master(store: Store, hooks: Hooks) -> None:
    """S0-19, S1-17: fact from system under the project's anchor, with no session yet."""
    hooks.strict.bootstrap_sessions_master("0123456789ab", ANCHOR)

    assert shape(last(store)) == ("0123456789ab:sessions", "fact", "system", [ANCHOR], None)
    assert row(store, "select * from sessions_master") | {"last_position": 0} == {
        "context_id": "0123456789ab:sessions",
        "repo": "0123456789ab",
        "project_name": "locus",
        "extends": [ANCHOR],
        "active_session": None,
        "active_sessions": 0,
        "total_sessions": 0,
        "total_turns": 0,
        "last_position": 0,
    }


def test_hooks_and_recorder_agree(store: Store, hooks: Hooks) -> None:
    """S0-1, S1-20: what hooks stored is a session like any other: the recorder goes on with it."""
    hooks.store_session_start("fix-jwt-refresh", SID, "Fix the JWT refresh bug", "0123456789ab")
    hooks.store_turn_start(SID, SESSION, 1, "Fix it")
    turn = Recorder(store, agent="script").start_turn("And test it")

    assert turn.ref.context_id == f"turn:{SID}_002"


def test_writing_a_context_again_overrides_and_keeps(store: Store, hooks: Hooks) -> None:
    """S0-13, P2: a session started twice is one session; absent keys stay, all versions are in the log."""
    for _ in range(2):
        hooks.store_session_start("fix-jwt-refresh", SID, "Fix the JWT refresh bug", "0123456789ab")
    hooks.store_event(CreateEventRequest(EventKind.FACT, {"status": "active"}, SESSION))
    found = row(store, "select title, status, turn_count from sessions")

    assert found == {"title": "Fix the JWT refresh bug", "status": "active", "turn_count": 0}
    assert len(list(store.events())) == 3


def test_a_retry_with_the_same_event_id_counts_once(store: Store, hooks: Hooks) -> None:
    """S0-21, I8: who cannot know whether an event arrived sends it again under its id."""
    call = (SID, "001", 3, EventKind.ACTION, "executor", {"tool": "bash"})
    stored = hooks.strict.store_turn_event("action", *call)
    hooks.store_turn_event("action", *call, event_id=stored.event_id)

    assert stored == Stored(str(last(store)["event_id"]), 0)
    assert row(store, "select count(*) as events from events") == {"events": 1}


ANY_CALL = [
    name
    for name, _ in inspect.getmembers(Hooks, inspect.isfunction)
    if name.startswith(("store_", "bootstrap_"))
]


@pytest.mark.parametrize("name", ANY_CALL)
def test_no_hook_raises(store: Store, hooks: Hooks, name: str) -> None:
    """S0-21, P4: a call with nonsense returns None, writes no event, and leaves one line to find."""
    nonsense = [object()] * (len(inspect.signature(getattr(StrictHooks, name)).parameters) + 3)
    assert getattr(hooks, name)(*nonsense) is None
    assert getattr(hooks, name)() is None
    notes = Path(store.layout.root, "tmp/hook-errors.log").read_text("utf-8").splitlines()

    assert list(store.events()) == []
    assert [note.split(" ")[1] for note in notes] == [f"{name}:"] * 2
    with pytest.raises(TypeError):
        getattr(hooks.strict, name)()


OLDER_NAMES = (
    "tool_run file_edit user_intent error decision project_convention skill llm_call test_run git_op "
    "tool_schema tool_usage"
)
NEWER_NAMES = "event session_start session_end turn_start turn_end turn_event snapshot"


def test_there_are_twenty_hooks() -> None:
    """S0-4, S0-10…S0-19: twelve older ones, seven of the lifecycle, and store_event."""
    older = {f"store_{name}" for name in OLDER_NAMES.split()}
    newer = {"bootstrap_sessions_master", *(f"store_{name}" for name in NEWER_NAMES.split())}

    assert {n for n in vars(OlderHooks) if n.startswith("store_")} == older | {"store_event"}
    assert set(ANY_CALL) == older | newer


def test_a_disk_that_refuses_is_noted_or_raised() -> None:
    """S0-21, P4: when nothing can be written the strict call says so and the other one is quiet."""
    fs = SimFS()
    fs.mkdir("/w")
    store = Store.init("/w/.locus", repo_hash="0123456789ab", force=True, fs=fs)
    hooks = Hooks(store, agent="script")
    hooks.store_decision("first")

    def refuse(fd: int) -> None:
        raise OSError(5, "Input/output error")

    fs.fdatasync = refuse  # type: ignore[method-assign]
    with pytest.raises(NotDurable):
        hooks.strict.store_decision("second")
    assert hooks.store_decision("third") is None


def test_another_process_that_keeps_the_lock_is_noted(store: Store, hooks: Hooks) -> None:
    """S0-21, I31: a lock that is not granted ends the call, with a line or with an error."""
    import fcntl

    fd = os.open(f"{store.layout.root}/locks/append.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    store.journal._lock_timeout_s = 0.05
    try:
        assert hooks.store_decision("quiet") is None
        with pytest.raises(LockTimeout):
            hooks.strict.store_decision("loud")
    finally:
        os.close(fd)
    hooks.store_decision("after")

    assert [e["title"] for e in store.events()] == ["after"]


WRITER = """
import sys
from eventlog import EventKind, Hooks, Store
hooks = Hooks(Store.open(sys.argv[1]), agent="script")
place = ("action", "a1b2c3d4", sys.argv[2])
for seq in range(1, 100_000):
    stored = hooks.strict.store_turn_event(*place, seq, EventKind.ACTION, "executor", {})
    print(stored.event_id, stored.position, flush=True)
"""


def test_what_was_answered_survives_a_kill(store: Store) -> None:
    """S0-21, I1: two processes store events and are killed; what was answered for is in the log."""
    command = [sys.executable, "-c", WRITER, store.layout.root]
    writers = [
        subprocess.Popen([*command, turn], stdout=subprocess.PIPE, text=True) for turn in ("001", "002")
    ]
    answered = []
    for writer in writers:
        assert writer.stdout is not None
        answered += [writer.stdout.readline() for _ in range(5)]
    for writer in writers:
        writer.kill()
        answered += writer.communicate()[0].splitlines()
    whole = [line.split() for line in answered if len(line.split()) == 2 and len(line.split()[0]) == 32]
    log = {str(e["event_id"]): e["position"] for e in store.events()}

    assert len(whole) >= 10
    assert {event_id: log.get(event_id) for event_id, _ in whole[:10]} == {
        event_id: int(position) for event_id, position in whole[:10]
    }
    assert [event_id for event_id, _ in whole if event_id not in log] == []


def test_old_notes_give_way(store: Store, hooks: Hooks) -> None:
    """S0-21, P6: the file of notes starts over when it is large."""
    path = f"{store.layout.root}/tmp/hook-errors.log"
    with open(path, "w", encoding="utf-8") as file:
        file.write("x" * 70_000)
    hooks.store_turn_event("action", SID, "first", 1, EventKind.ACTION, "executor", {})
    text = Path(path).read_text("utf-8")

    assert len(text) < 300
    assert "'first'" in text


def test_an_event_names_only_content_that_is_here(store: Store, hooks: Hooks) -> None:
    """I24, S1-39: a hash that the store can resolve is a reference; one that it cannot stays text."""
    with store.blobs.writer() as writer:
        here = to_text(writer.put(b"new\n"))
        writer.flush()
    gone = to_text(blob_id(b"never stored"))
    payload = {"path": "a.py", "operation": "edit", "before_hash": gone, "after_hash": here}
    hooks.strict.store_turn_event("file", SID, "001", 3, EventKind.ACTION, "executor", payload)
    event = last(store)

    assert (event["after_hash"], event["blobs"], event.get("before_hash")) == (here, [here], None)
    assert event["payload"] == payload


@pytest.mark.parametrize(
    ("call", "arguments", "words"),
    [
        ("store_turn_event", ("turn", SID, "001", 1, "fact", "system", {}), "cannot be the type"),
        ("store_turn_event", ("action", SID, "one", 1, "fact", "system", {}), "a turn id is a number"),
        ("store_turn_event", ("action", SID, "001", 1, "fct", "system", {}), "fact, action, decision"),
        ("store_turn_event", ("action", " ", "001", 1, "fact", "system", {}), "no session id"),
        ("store_snapshot", (SID, "001", 1, None, None, None, None, "turn_middle"), "turn_start"),
        ("store_event", (CreateEventRequest(EventKind.FACT, {}, timestamp="soon"),), "timestamp"),
        ("store_turn_start", (SID, SESSION, "first", "Go"), "turn must be"),
    ],
)
def test_a_strict_call_says_what_is_wrong(
    store: Store, hooks: Hooks, call: str, arguments: tuple[Any, ...], words: str
) -> None:
    """S0-21: the strict form refuses what cannot be stored in one sentence, and nothing is written."""
    with pytest.raises(InvalidEvent, match=words):
        getattr(hooks.strict, call)(*arguments)

    assert list(store.events()) == []
