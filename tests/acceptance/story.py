"""One small day of work, played once through the doors that agents use, and what came of it.

`locus init`, Claude Code and Codex by their hooks, `locus mcp` by the SDK's client, a program by `Recorder`,
and `locus export locusgraph` to a server that is strict: processes beside a real repository.
"""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eventlog.base.names import session_id_of
from eventlog.exports.locusgraph.endpoint import KEY_VARIABLE
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store
from tests import forked
from tests.cli.hook_support import Agent, Codex
from tests.exports.locusgraph_server import GRAPH, KEY, Graph, Server
from tests.mcp.support import MODERN, served
from tests.worktree.support import git

Json = dict[str, Any]

REQUEST = "Fix the JWT refresh bug in auth middleware"
JWT, AUTH = "src/auth/jwt.rs", "src/middleware/auth.rs"
OLD, NEW = "fn refresh() {}\n", "fn refresh() { validate(); }\n"


@dataclass(frozen=True)
class Story:
    """What was recorded. Sessions are named by who worked: `claude`, `codex`, `script`."""

    work: Path
    head: str
    sessions: dict[str, str]  # who → session id
    events: list[Json]  # the log, in order
    sent: dict[str, Json]  # context id → record that the server took
    orphans: list[tuple[str, str]]
    views: dict[str, list[Json]]  # view → its rows, as `locus sql` answers

    def of(self, who: str, event_type: str, turn: int | None = 1) -> list[Json]:
        """The events of a type in a session's turn, by their number."""
        session = self.sessions[who]
        found = [e for e in self.events if e["event_type"] == event_type and e["session_id"] == session]
        return sorted((e for e in found if turn is None or e["turn"] == turn), key=lambda e: e["seq"] or 0)

    def one(self, who: str, event_type: str, turn: int = 1, **columns: object) -> Json:
        """The record of the only event of a type in a turn with these columns, as the server has it."""
        [event] = [
            event
            for event in self.of(who, event_type, turn)
            if all(event[name] == columns[name] for name in columns)
        ]
        return self.sent[event["context_id"]]

    def data(self, context_id: str) -> Json:
        """What the server holds of an anchor, out of its envelope."""
        found = self.sent[context_id]["payload"]["data"]
        assert isinstance(found, dict)
        return found


def tell(place: Path) -> Story:
    """Args: place: an empty directory, which is HOME as well."""
    work = _repository(place)
    locus(work, "init")
    agent = _claude(work)
    codex = _codex(work)
    script = _script(work)
    with Store.open(work / ".locus") as store:
        events = [dict(event) for event in store.events()]
    views = ("turns", "sessions", "sessions_master", "decisions", "errors", "files")
    union = ", ".join(f"(select list(v) from {view} v) as {view}" for view in views)
    [rows] = json.loads(locus(work, "sql", "--json", f"select {union}"))
    with Server(Graph()) as server:
        to = ("--server", server.url, "--graph", GRAPH)
        locus(work, "export", "locusgraph", *to, **{KEY_VARIABLE: KEY})
        sent = {context: dict(memory.item) for context, memory in server.graph.memories.items()}
        orphans = list(server.graph.orphans)
    sessions = {
        "claude": session_id_of("claude-code", agent.session),
        "codex": session_id_of("codex", codex.session),
        "script": script,
    }
    head = git(work, "rev-parse", "HEAD").strip()
    return Story(work, head, sessions, events, sent, orphans, rows)


def locus(work: Path, *arguments: str, **environ: str) -> str:
    """`locus` as a process, which must succeed."""
    done = forked.locus(list(arguments), b"", work, {**os.environ, **environ})
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def _repository(place: Path) -> Path:
    work = place / "shop"
    for path, text in ((JWT, OLD), (AUTH, "mod auth;\n"), ("README.md", "# Shop\n")):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    (work / AUTH).write_text("mod auth; // being changed\n")
    (work / "README.md").write_text("# The shop\n")
    git(work, "add", "README.md")
    return work


def _claude(work: Path) -> Agent:
    """Two turns: reads, a decision and an error over MCP, an edit, a test that fails and then works."""
    agent = Agent(work)
    agent.start()
    agent.prompt(REQUEST)
    read = {"file_path": str(work / JWT)}
    tool = agent.begin("Read", read)
    file = {"filePath": str(work / JWT), "content": OLD, "numLines": 1, "startLine": 1, "totalLines": 1}
    agent.end(tool, "Read", read, {"type": "text", "file": file})
    with served(MODERN, "--store", str(work / ".locus"), "mcp", cwd=work) as mcp:
        where = {"session_id": session_id_of("claude-code", agent.session)}
        mcp.call(
            "store_decision",
            summary="Validate before refresh",
            reasoning="Validation is skipped when a refresh token is present",
            confidence=0.9,
            alternatives=["Reject all refresh tokens", "Add rate limiting"],
            **where,
        )
        mcp.call(
            "store_error",
            context="compile_error",
            message="mismatched types: expected &str, found String",
            file=JWT,
            line=44,
            command="cargo check",
            resolved=True,
            resolution="Added .as_str()",
            **where,
        )
        agent.edit(JWT, OLD.strip(), NEW.strip())
        agent.bash("test -e made")
        (work / "made").touch()
        agent.bash("test -e made")
        usage = {"input_tokens": 2000, "cache_read_input_tokens": 400, "output_tokens": 800}
        message = {"id": "msg_1", "model": "model-1", "usage": usage, "stop_reason": "end_turn"}
        line = {"type": "assistant", "promptId": agent.turn, "requestId": "req_1", "message": message}
        line["timestamp"] = f"{datetime.now(UTC):%FT%T.%fZ}"
        agent.transcript.write_text(json.dumps(line) + "\n")
        agent.stop("Added validation before the refresh. Tests pass.")
        words = "That looks good, now run the tests"
        mcp.call("store_feedback", message=words, feedback_type="approval", sentiment="positive", **where)
    agent.prompt("Now say so in the readme")
    missing = {"file_path": str(work / AUTH), "old_string": "no such text", "new_string": ""}
    tool = agent.begin("Edit", missing)
    words = "String to replace not found in file."
    agent.say("PostToolUseFailure", tool_name="Edit", tool_input=missing, tool_use_id=tool, error=words)
    agent.write("README.md", "# The shop\n\nRefreshes safely.\n")
    agent.stop("The readme says so.")
    agent.finish()
    return agent


def _codex(work: Path) -> Codex:
    """A turn that reads a file by a shell and patches it, and one that goes on."""
    agent = Codex(work)
    agent.start()
    agent.prompt("Rename the function")
    agent.shell(f"cat {JWT}")
    lines = ["*** Begin Patch", f"*** Update File: {JWT}", "@@", f"-{NEW.strip()}", "+fn renew() {}"]
    agent.patch("\n".join([*lines, "*** End Patch"]), lambda: (work / JWT).write_text("fn renew() {}\n"))
    agent.stop("Renamed.")
    agent.prompt("Rename its callers")
    return agent


def _script(work: Path) -> str:
    """A session of a program, of which nothing is left out."""
    with Store.open(work / ".locus") as store:
        recorder = Recorder(store, agent="script")
        turn = recorder.start_turn("Count the words, please", intent_summary="Count words")
        facts = {"context_memories": 5, "stop_reason": "end_turn"}
        turn.llm("model-2", prompt_tokens=10, completion_tokens=2, duration_ms=3500, payload=facts)
        turn.end(title="Counted", outcome="There are 12.")
        recorder.end_session("Counted the words.")
        return turn.ref.session_id
