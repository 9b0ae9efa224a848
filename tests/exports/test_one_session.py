"""One session has one context id, and whatever extends something comes after it (I37)."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.base.names import session_id_of
from eventlog.exports.locusgraph import anchors, locusgraph
from eventlog.exports.locusgraph.endpoint import KEY_VARIABLE
from eventlog.store import Store
from tests.cli.support import locus_process
from tests.conftest import examples
from tests.exports.locusgraph_server import GRAPH, KEY, Graph, Server
from tests.exports.stores import AT, REPO, any_event, new_store
from tests.exports.test_send import sender
from tests.older import append_as_before

SID = session_id_of("claude-code", "grows")
PROVISIONAL = f"session:session-{SID}_{SID}"
NAMED = f"session:mend-door_{SID}"
GOLDEN = Path(__file__).parents[1] / "golden" / "stores"
SEEDS = {"intent", "action", "file", "snapshot", "decision", "error", "llm", "feedback"}


def event_of(event_type: str, payload: dict[str, Any] | None = None, **columns: Any) -> dict[str, Any]:
    """An event as a hook records it: with the agent's own keys, without a context."""
    return {
        "event_type": event_type,
        "agent": "claude-code",
        "agent_session_id": "grows",
        "repo": REPO,
        "occurred_at": AT,
        "payload": {"hook_us": 7, **(payload or {})},
        **columns,
    }


def begun() -> list[dict[str, Any]]:
    """What a hook records before the first prompt; one event is outside of turns."""
    return [
        {"event_type": "sessions", "repo": REPO, "operation": "start", "title": "My Project"},
        event_of("session", operation="start"),
        event_of("decision", {"decision": "look first"}),
    ]


def prompted() -> list[dict[str, Any]]:
    """The first prompt: the name, the turn, and what was asked."""
    return [
        event_of(
            "session", {"slug": "mend-door"}, operation="update", context_id=NAMED, title="Mend the door"
        ),
        event_of("turn", {"user_message": "Mend the door"}, operation="start", agent_turn_id="t1"),
        event_of("intent", {"message": "Mend the door"}, agent_turn_id="t1"),
    ]


def test_what_came_before_the_name_has_it_too(tmp_path: Path) -> None:
    """I37: in SQL, in Python and in lines, sealed or not, a session has one id, which links lead to."""
    with new_store(tmp_path) as store:
        store.append(begun())
        store.append(prompted())
        for _ in range(2):
            rows = store.query(
                "select context_id, extends from events where event_type in ('session', 'decision') "
                "order by position"
            ).rows
            assert [row[0] for row in rows][::2] == [NAMED, NAMED] and rows[1][1] == [NAMED]
            assert store.query("select count(*) from events where context_id = $1", [PROVISIONAL]).rows == [
                (0,)
            ]
            one = [(event["context_id"], event["extends"]) for event in store.events(columns=None)][1:4]
            assert one == rows
            store.seal()
        assert "session:session-" not in json.dumps(
            [event for event in store.events() if event["event_type"] != "cursor"], default=str
        )


def test_a_session_that_waits_is_not_sent(tmp_path: Path) -> None:
    """I37, P7: before its first prompt nothing of a session leaves, and this is stated; then all of it
    does."""
    with new_store(tmp_path) as store, Server(Graph()) as server:
        store.append(begun())
        first = sender(store, server)
        assert list(first.sessions_left_out) == [SID] and "no prompt" in first.sessions_left_out[SID]
        master = server.graph.memories[f"{REPO}:sessions"].item["payload"]["data"]
        assert master["active_session"] is None and not any(SID in c for c in server.graph.memories)
        assert sender(store, server).total == 0

        store.append(prompted())
        last = sender(store, server)
        assert (
            sum('"project_anchor"' in item for item in _items(server)) == 1
        )  # not with each change of its master
        held = server.graph.memories
        (early,) = [
            memory for context, memory in held.items() if context.startswith("decision:") and SID in context
        ]
        assert early.item["extends"] == [NAMED] and NAMED in held and PROVISIONAL not in held
        assert last.sessions_left_out == {} and server.graph.orphans == []
        assert sender(store, server).total == 0


def test_a_ghost_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I37: a session that an earlier version sent under its provisional id is closed there, once."""
    with new_store(tmp_path) as store, Server(Graph()) as server:
        store.append(begun())
        with monkeypatch.context() as patch:
            patch.setattr(anchors, "_WAITING", anchors._WAITING + " AND false")
            sender(store, server)
        assert server.graph.memories[PROVISIONAL].item["payload"]["data"]["status"] == "active"
        store.append(prompted())
        sender(store, server)

        ghost = server.graph.memories[PROVISIONAL].item
        assert ghost["payload"]["data"]["status"] == "closed" and ghost["related_to"] == [NAMED]
        assert ghost["payload"]["data"]["moved_to"] == NAMED and NAMED in server.graph.memories
        assert server.graph.orphans == [] and sender(store, server).total == 0


def test_a_growing_session_is_followed(tmp_path: Path) -> None:
    """I37: followed live from before its first prompt, a session has one id, and nothing hangs in the air."""
    with new_store(tmp_path) as store, Server(Graph()) as server:
        store.append(begun())
        command = [sys.executable, "-m", "locus_cli", "--store", tmp_path / ".locus", "export", "locusgraph"]
        command += ["--server", server.url, "--graph", GRAPH, "--follow"]
        environment = {**os.environ, KEY_VARIABLE: KEY}
        process = subprocess.Popen(
            list(map(str, command)), env=environment, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        with process, process.stderr:
            _until(lambda: f"{REPO}:sessions" in server.graph.memories)
            store.append(prompted())
            _until(lambda: f"turn:{SID}_001" in server.graph.memories)
            store.append([event_of("action", {"tool": "Bash"}, agent_turn_id="t1", tool="Bash")])
            store.append(
                [event_of("turn", operation="end", agent_turn_id="t1"), event_of("session", operation="end")]
            )
            _until(lambda: _status(server, NAMED) == "closed")
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0, process.stderr.read()
        sessions = [context for context in server.graph.memories if context.startswith("session:")]
        assert sessions == [NAMED] and server.graph.orphans == []


def test_a_name_at_any_moment_changes_no_id(tmp_path: Path) -> None:
    """I37: sessions that grow, exported at each step and named at any moment, or twice: one id each."""
    steps = [
        event_of("session", operation="start"),
        event_of("decision", {"decision": "look first"}),
        event_of("turn", {"user_message": "Mend the door"}, operation="start", agent_turn_id="t1"),
        event_of("action", {"tool": "Bash"}, agent_turn_id="t1", tool="Bash"),
        event_of("turn", operation="end", agent_turn_id="t1"),
        event_of("session", operation="end"),
        event_of("session", operation="resume"),
        event_of("turn", {"user_message": "Now the roof"}, operation="start", agent_turn_id="t2"),
    ]
    endless = [steps[0], *steps[5:7], *steps[1:5]]  # ended before anybody asked for anything
    growing: dict[str, list[dict[str, Any]]] = {}
    for number, moment in enumerate([*range(len(steps)), *range(1, len(endless))]):
        key = f"grows-{number}"
        sid = session_id_of("claude-code", key)
        events = list(steps if number < len(steps) else endless)
        for name in ("second", "first"):
            named = {"context_id": f"session:{name}_{sid}", "title": name}
            events.insert(moment + 1, event_of("session", operation="update", **named))
        growing[sid] = [one | {"agent_session_id": key} for one in events]
    with new_store(tmp_path) as store, Server(Graph()) as server:
        seen: dict[str, set[str]] = {sid: set() for sid in growing}
        for step in range(max(map(len, growing.values()))):
            store.append([events[step] for events in growing.values() if step < len(events)])
            if step == 4:
                store.seal()  # the names after it are numbered from what segments say
            sender(store, server)
            for sid, ids in seen.items():
                ids.update(
                    one for one in server.graph.memories if one.startswith("session:") and one.endswith(sid)
                )
        assert all(len(ids) == 1 for ids in seen.values()), seen
        assert server.graph.orphans == []
        for _ in range(2):
            asked = store.query(
                "select session_id, list_distinct(flatten(list(list_filter(extends || [context_id], "
                "lambda link: starts_with(link, 'session:'))))) from events "
                "where session_id is not null group by all"
            ).rows
            assert {sid: set(ids) for sid, ids in asked} == seen
            store.seal()
        titles = {row[0] for row in store.query("select title from sessions").rows}
        assert titles == {"second"}


def _status(server: Server, context: str) -> Any:
    held = server.graph.memories.get(context)
    return None if held is None else held.item["payload"]["data"]["status"]


def _until(done: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not done():
        assert time.monotonic() < ends_at, "nothing came"
        time.sleep(0.05)


@settings(max_examples=examples(8, 200))
@given(st.lists(st.lists(any_event, max_size=6), min_size=1, max_size=5), st.sampled_from(["0.x", "1.0"]))
def test_nothing_extends_what_was_not_sent(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[dict[str, Any]]], api: str
) -> None:
    """I37: for any log, exported as it grows, every `extends` that leaves was sent before."""
    every = frozenset((locusgraph.ALL_TYPES,))
    place = tmp_path_factory.mktemp("any")
    sent: set[str] = set()
    with new_store(place) as store, Server(Graph(api)) as server:
        for number, part in enumerate(parts):
            if part:
                append_as_before(store, part)
            sender(store, server, include=every)
            file = place / f"{number}"
            if locusgraph.export(store, str(file), locusgraph.RecordOptions(include=every)).path is not None:
                for line in file.read_bytes().splitlines():
                    record = json.loads(line)
                    assert set(record["extends"]) <= sent, record
                    sent.add(record["context_id"])
        assert server.graph.orphans == []


@pytest.mark.parametrize("name", sorted(path.name.partition(".")[0] for path in GOLDEN.glob("*.tar.gz")))
def test_golden_stores(name: str, tmp_path: Path) -> None:
    """I37, P5: of each golden store, nothing hangs in the air, and no path or measurement of ours leaves."""
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (place,) = tmp_path.glob("*/.locus")
    (place / "locks").mkdir(exist_ok=True)  # archives hold no empty directories
    (place / "tmp").mkdir(exist_ok=True)
    with Server(Graph()) as server:
        to = ("--server", server.url, "--graph", GRAPH)
        done = locus_process(
            "--store", place, "export", "locusgraph", *to, cwd=tmp_path, **{KEY_VARIABLE: KEY}
        )
        assert done.code == 0, done.err
        assert server.graph.orphans == [] and "Sent " in done.err
        body = b"".join(server.graph.bodies)
        for trace in (
            b"/tmp/golden",
            b"hook_us",
            b"/proc/self",
            b'transcript_path":"/',
            str(tmp_path).encode(),
        ):
            assert trace not in body, trace
        kinds = {json.loads(text)["context_id"].partition(":")[0] for text in _items(server)}
        ours = {"knowledge", "session", "turn", "observation", "fact"}
        assert {kind for kind in kinds if len(kind) != 12} - ours <= SEEDS
        with Store.open(place) as store:
            assert sender(store, server).total == 0


def _items(server: Server) -> list[str]:
    return [json.dumps(item) for body in server.graph.bodies for item in json.loads(body)["events"]]
