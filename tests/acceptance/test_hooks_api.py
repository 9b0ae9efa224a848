"""What the storage calls of a runtime leave, field by field, on a server that is strict.

The session, the turns and the events of the requirements' own examples are stored by `Hooks`; `locus export
locusgraph` sends them as a process. The rest is what a program can import.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import EventKind, Hooks, Store, TurnSummary, safe_context_name
from eventlog.exports.locusgraph.endpoint import KEY_VARIABLE
from tests.acceptance.story import locus
from tests.exports.locusgraph_server import CONTEXT, GRAPH, KEY, Graph, Server

Json = dict[str, Any]

SID, REPO, OTHER = "a1b2c3d4", "0123456789ab", "abc123"
SESSION = f"session:fix-jwt-refresh_{SID}"
TOTALS = {
    "events": 0,
    "tool_calls": 0,
    "llm_calls": 0,
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "files_modified": [],
    "errors": 0,
    "errors_resolved": 0,
}
SUMMARY = TurnSummary(
    title="Validate before refresh",
    user_request="Fix the JWT refresh bug",
    actions_taken=("read src/auth/jwt.rs", "edit src/auth/jwt.rs"),
    outcome="Tests pass.",
    decisions=("Validate token before refresh",),
    files_read=("src/auth/jwt.rs", "src/middleware/auth.rs"),
    files_modified=("src/auth/jwt.rs",),
    event_count=3,
)
PAYLOAD = {"tool": "mcp", "args": {"deep": [1, None, {"a": "b"}]}, "success": True}


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Json]]:
    """Context id → record that the server took."""
    place = tmp_path_factory.mktemp("hooks")
    with Store.init(place / ".locus", project_name="locuscodes", repo_hash=REPO) as store:
        hooks = Hooks(store, agent="script")
        hooks.bootstrap_sessions_master(REPO, f"knowledge:locuscodes_{REPO}")
        hooks.bootstrap_sessions_master(OTHER, f"knowledge:other_{OTHER}")
        hooks.store_session_start("fix-jwt-refresh", SID, "Fix the JWT refresh bug", REPO)
        hooks.store_turn_start(SID, SESSION, 1, "Fix the JWT refresh bug")
        hooks.store_snapshot(SID, "001", 1, "f" * 40, "main", ["src/auth/jwt.rs"], ["a.rs"], "turn_start")
        hooks.store_turn_event("MCP Action", SID, "001", 2, EventKind.ACTION, "executor", PAYLOAD, ["tools"])
        hooks.store_snapshot(SID, "001", 3, "f" * 40, "main", [], [], "turn_end")
        hooks.store_turn_end(SID, SESSION, 1, SUMMARY)
        hooks.store_session_end("fix-jwt-refresh", SID, "Fixed it.", 1, TOTALS)
        hooks.store_session_start("add-mcp-support", "e5f6g7h8", "Add MCP support", REPO)
        hooks.store_turn_start("e5f6g7h8", "session:add-mcp-support_e5f6g7h8", 1, "é" * 600)
    with Server(Graph()) as server:
        to = ("--server", server.url, "--graph", GRAPH)
        locus(place, "export", "locusgraph", *to, **{KEY_VARIABLE: KEY})
        assert server.graph.orphans == [] and "error" not in server.graph.statuses
        yield {context: dict(memory.item) for context, memory in server.graph.memories.items()}


def shape(record: Json) -> tuple[object, ...]:
    return (record["event_kind"], record["source"], record.get("extends", []), record["payload"]["kind"])


def data(record: Json, *without: str) -> Json:
    return {name: value for name, value in record["payload"]["data"].items() if name not in without}


def test_the_ids_are_those_of_the_examples(sent: dict[str, Json]) -> None:
    """S0-7, S0-22, S1-4, S1-14, S1-59: each id of the example comes out as it is, in two layers."""
    assert {
        f"{REPO}:sessions",
        SESSION,
        f"turn:{SID}_001",
        f"snapshot:{SID}_001_001",
        f"mcp_action:{SID}_001_002",
    } <= sent.keys()
    assert [context for context in sent if not CONTEXT.fullmatch(context)] == []


def test_a_session_that_began(sent: dict[str, Json]) -> None:
    """S0-10, S0-11, S0-20, S1-6, S1-18: fact from system below the master: what it is, and zero totals."""
    record = sent["session:add-mcp-support_e5f6g7h8"]
    reported = data(record, "started_at", "last_turn")

    assert shape(record) == ("fact", "system", [f"{REPO}:sessions"], "session_start")
    assert reported.pop("totals") == TOTALS
    assert reported == {
        "title": "Add MCP support",
        "slug": "add-mcp-support",
        "session_id": "e5f6g7h8",
        "status": "active",
        "turn_count": 1,
    }


def test_a_session_that_ended(sent: dict[str, Json]) -> None:
    """S0-12, S0-13, S0-20, S1-49: one record under the id of its start has the end too."""
    record = sent[SESSION]
    reported = data(record)

    assert shape(record) == ("fact", "system", [f"{REPO}:sessions"], "session_end")
    assert reported["title"] == "Fix the JWT refresh bug" and reported["ended_at"] >= reported["started_at"]
    assert {name: reported[name] for name in ("status", "turn_count", "summary")} == {
        "status": "closed",
        "turn_count": 1,
        "summary": "Fixed it.",
    }
    assert reported["totals"].keys() == TOTALS.keys()


def test_a_turn_that_began(sent: dict[str, Json]) -> None:
    """S0-14, S0-20: observation from system below its session, with a message of 1,000 bytes at most."""
    record = sent["turn:e5f6g7h8_001"]

    extends = ["session:add-mcp-support_e5f6g7h8"]
    assert shape(record) == ("observation", "system", extends, "turn_start")
    assert data(record, "started_at") == {
        "turn_id": "001",
        "sequence": 1,
        "status": "active",
        "user_message": "é" * 500,
    }


def test_a_turn_that_ended(sent: dict[str, Json]) -> None:
    """S0-8, S0-13, S0-15, S0-20, S1-47: under the same id an observation from the agent, with the summary."""
    record = sent[f"turn:{SID}_001"]

    assert shape(record) == ("observation", "agent", [SESSION], "turn_end")
    assert data(record, "started_at", "completed_at", "tokens_used") == {
        "turn_id": "001",
        "sequence": 1,
        "status": "completed",
        "title": "Validate before refresh",
        "user_request": "Fix the JWT refresh bug",
        "actions_taken": ["read src/auth/jwt.rs", "edit src/auth/jwt.rs"],
        "outcome": "Tests pass.",
        "decisions": ["Validate token before refresh"],
        "files_read": ["src/auth/jwt.rs", "src/middleware/auth.rs"],
        "files_modified": ["src/auth/jwt.rs"],
        "event_count": 3,
    }


def test_an_event_of_a_turn(sent: dict[str, Json]) -> None:
    """S0-16, S0-23, S1-8: of a type nobody knew, with kind, source, payload and links as they were given."""
    record = sent[f"mcp_action:{SID}_001_002"]

    assert (record["event_kind"], record["source"]) == ("action", "executor")
    assert (record["extends"], record["related_to"]) == ([f"turn:{SID}_001"], ["fact:tools"])
    assert record["payload"] == {**PAYLOAD, "seq": 2}


def test_snapshots_of_a_turn(sent: dict[str, Json]) -> None:
    """S0-17, S0-18, S0-20: fact from system below its turn: what git reported at its start and at its end."""
    first, last = sent[f"snapshot:{SID}_001_001"], sent[f"snapshot:{SID}_001_003"]

    assert shape(first) == shape(last) == ("fact", "system", [f"turn:{SID}_001"], "codebase_snapshot")
    git = {"git_head": "f" * 40, "git_branch": "main"}
    start = {
        "git_dirty": ["src/auth/jwt.rs"],
        "git_staged": ["a.rs"],
        "snapshot_type": "turn_start",
        "seq": 1,
    }
    end = {"git_dirty": [], "git_staged": [], "snapshot_type": "turn_end", "seq": 3}
    assert (data(first), data(last)) == ({**git, **start}, {**git, **end})


def test_masters(sent: dict[str, Json]) -> None:
    """S0-19, S0-20, S1-5, S1-17: fact from system below the project; of a cold start nothing is active or
    counted."""
    cold, own = sent[f"{OTHER}:sessions"], sent[f"{REPO}:sessions"]

    assert shape(cold) == ("fact", "system", [f"knowledge:other_{OTHER}"], "sessions_master")
    assert shape(own) == ("fact", "system", [f"knowledge:locuscodes_{REPO}"], "sessions_master")
    assert data(cold) == {"active_session": None, "total_sessions": 0}
    assert data(own) == {"active_session": "session:add-mcp-support_e5f6g7h8", "total_sessions": 2}


def test_what_a_program_imports() -> None:
    """S0-2…S0-6: from `eventlog` alone come the constants with their values, the types, the error, the five
    operations and the older hooks."""
    constants = {name: getattr(eventlog, f"CONTEXT_{name}") for name in (
        "DECISIONS", "EDITOR", "ERRORS", "SESSIONS", "TERMINAL", "TOOLS", "USER_INTENT",
    )}  # fmt: skip
    types = (
        "Context", "ContextResult", "ContextType", "ContextTypeFilter", "CreateEventRequest", "EventKind",
        "EventLinks", "InsightResult", "InsightsOptions", "RetrieveOptions", "TurnSummary", "EventLogError",
    )  # fmt: skip
    operations = (
        "store_event", "retrieve_memories", "generate_insights", "list_context_types", "search_contexts",
    )  # fmt: skip
    older = (
        "tool_run", "file_edit", "user_intent", "error", "decision", "project_convention", "skill",
        "llm_call", "test_run", "git_op", "tool_schema", "tool_usage",
    )  # fmt: skip

    assert constants == {
        "DECISIONS": "decision:decisions",
        "EDITOR": "action:editor",
        "ERRORS": "observation:errors",
        "SESSIONS": "fact:sessions",
        "TERMINAL": "action:terminal",
        "TOOLS": "fact:tools",
        "USER_INTENT": "observation:user_intent",
    }
    assert all(inspect.isclass(getattr(eventlog, name)) for name in types)
    assert all(callable(getattr(Hooks, name)) for name in operations)
    assert all(callable(getattr(Hooks, f"store_{name}")) for name in older)


def test_names_and_kinds() -> None:
    """S0-9, S0-3: hyphens stay in a safe name; the kinds of events are the five."""
    names = ("fix-jwt-refresh", "My Tools!", "É_9")

    assert [safe_context_name(name) for name in names] == ["fix-jwt-refresh", "my_tools_", "__9"]
    assert {str(kind) for kind in EventKind} == {"fact", "action", "decision", "observation", "feedback"}


def test_no_call_is_heard(tmp_path: Path) -> None:
    """S0-1, S0-21: a call returns nothing and raises nothing, whatever it is given; what only asks leaves
    nothing."""
    with Store.init(tmp_path / ".locus", repo_hash=REPO) as store:
        hooks: Any = Hooks(store, agent="script")
        heard = [
            hooks.store_session_start("a", SID, "A", REPO),
            hooks.store_snapshot(SID, "001", 1, "f" * 40, "main", [], [], "any moment"),
            hooks.store_turn_start(SID),
        ]
        before = store.status().events
        hooks.retrieve_memories("a"), hooks.search_contexts("a"), hooks.list_context_types()
        after = store.status().events

    assert heard == [None, None, None] and before == after == 1
