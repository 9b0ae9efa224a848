"""A session of Codex that hooks recorded, imported from a rollout of the same calls: nothing counts twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog.importers import importer, sources
from eventlog.importers.importer import ImportReport
from eventlog.store import Store
from tests.agents.codex_support import Line, completed, event, item, line, rows
from tests.agents.test_captured_sessions import Played, fixtures
from tests.cli.hook_support import Codex, project, run_hook
from tests.importers.test_hook_matching import COUNTS

FIXTURES = {path.stem: path for path in fixtures() if path.parent.name.startswith("codex")}


class Rollouts:
    """What the client writes of the calls that it sent its hooks: a file for each thread."""

    def __init__(self, directory: Path, *, records: bool) -> None:
        self.directory = directory
        self.records = records  # else token counts, as older versions write
        self.lines: dict[str, list[Line]] = {}
        self.totals: dict[str, int] = {}
        self.roots: dict[str, str] = {}
        self.turns: set[tuple[str, str]] = set()

    def hear(self, second: int, call: dict[str, Any]) -> None:
        session: str = call["session_id"]
        thread: str = call.get("agent_id", session)
        turn: Any = call.get("turn_id")
        name: str = call["hook_event_name"]
        if name == "UserPromptSubmit":
            self.roots[session] = turn
        lines = self.lines.setdefault(thread, [])
        if not lines:
            source: Any = (
                "exec" if thread == session else {"subagent": {"thread_spawn": {"parent_thread_id": session}}}
            )
            lines.append(
                line(0, "session_meta", id=thread, session_id=session, cwd=call["cwd"], source=source)
            )
        if turn is not None and (thread, turn) not in self.turns and name != "SubagentStop":
            self.turns.add((thread, turn))
            lines.append(event(second, "task_started", turn_id=turn, root_turn_id=self.roots[session]))
            lines.append(line(second, "turn_context", turn_id=turn, model=call["model"]))
        lines += self._lines(second, name, thread, turn, call)

    def _lines(self, second: int, name: str, thread: str, turn: Any, call: dict[str, Any]) -> list[Line]:
        if name == "UserPromptSubmit":
            return [
                completed(second, turn, "UserMessage", content=[{"type": "text", "text": call["prompt"]}])
            ]
        if name == "PreToolUse":
            args = json.dumps(call["tool_input"])
            tool, id = call["tool_name"], call["tool_use_id"]
            return [item(second, "function_call", name=tool, arguments=args, call_id=id)]
        if name == "PostToolUse":
            reported = call["tool_response"]
            return [item(second, "function_call_output", call_id=call["tool_use_id"], output=reported)]
        if name == "PostModelRequest" and call.get("token_usage"):
            return [self._call(second, thread, turn, call["token_usage"])]
        if name == "Stop":
            last = call["last_assistant_message"]
            reported = completed(
                second, turn, "AgentMessage", id="m", content=[{"type": "Text", "text": last}]
            )
            return [
                reported,
                event(second, "task_complete", turn_id=turn, last_agent_message=last, duration_ms=7),
            ]
        return []

    def _call(self, second: int, thread: str, turn: str, usage: Line) -> Line:
        if self.records:
            response = f"resp_{thread}_{len(self.lines[thread])}"
            return line(second, "token_usage_record", turn_id=turn, response_id=response, usage=usage)
        self.totals[thread] = self.totals.get(thread, 0) + usage["total_tokens"]
        info = {"total_token_usage": {"total_tokens": self.totals[thread]}, "last_token_usage": usage}
        return event(second, "token_count", info=info)

    def write(self) -> None:
        self.directory.mkdir()
        for number, (thread, lines) in enumerate(self.lines.items()):
            path = self.directory / f"rollout-{number}-{thread}.jsonl"
            path.write_text("".join(json.dumps(one) + "\n" for one in lines))


def rollouts(played: Played, place: Path, *, records: bool) -> Rollouts:
    made = Rollouts(place, records=records)
    for second, step in enumerate(played.steps):
        made.hear(second % 60, step["call"])
    made.write()
    return made


def run(store: Store, place: Path) -> ImportReport:
    return importer.run(store, "codex", sources.named("codex", [str(place)]))


@pytest.mark.parametrize(("journey", "records"), [("agents", True), ("work", False)])
def test_importing_a_recorded_session_duplicates_nothing(journey: str, records: bool, tmp_path: Path) -> None:
    """P3: turns, tool calls, model calls and files stay those that hooks reported; texts are added."""
    played = Played(FIXTURES[journey], tmp_path)
    played.play()
    made = rollouts(played, tmp_path / "rollouts", records=records)
    calls = sum(one["type"] == "token_usage_record" or one["payload"].get("type") == "token_count"
                for lines in made.lines.values() for one in lines)  # fmt: skip
    with Store.open(played.project / ".locus") as store:
        before = [store.query(sql).rows for sql in COUNTS]
        report = run(store, made.directory)

        assert [store.query(sql).rows for sql in COUNTS] == before
        assert (report.calls, report.turns, report.problems) == (0, 0, [])
        assert report.copies == calls > 0
        assert rows(store, "select count(*) from events where event_type = 'message'")[0][0] > 0
        (tmp_path / "kiosk/.locus/live/imports.json").unlink()
        for name in list(made.lines):
            made.lines[name].append(line(59, "compacted", message="more"))
        for path in made.directory.iterdir():
            path.unlink()
        made.directory.rmdir()
        made.write()
        again = run(store, made.directory)
        assert (again.calls, again.copies, again.turns) == (0, 0, 0)
        assert [store.query(sql).rows for sql in COUNTS] == before


@pytest.mark.parametrize("records", [True, False])
def test_hooks_after_the_import_count_no_model_call_again(records: bool, tmp_path: Path) -> None:
    """P3: turns, tool calls and model calls count once, also two of one turn with the same figures, and when
    hooks tell the turn once more."""
    usage = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3, "reasoning_output_tokens": 1}
    usage["total_tokens"] = 13
    agent = Codex(project(tmp_path))
    made = Rollouts(tmp_path / "rollouts", records=records)
    call = agent.payload("PostModelRequest", status="completed", token_usage=usage, turn_id="t1")
    steps = [
        agent.payload("UserPromptSubmit", prompt="count", turn_id="t1"),
        call,
        call,
        agent.payload("Stop", last_assistant_message="Done.", turn_id="t1"),
    ]
    for second, call in enumerate(steps):
        made.hear(second, call)
    made.write()
    with Store.open(agent.work / ".locus") as store:
        assert run(store, made.directory).calls == 2
        counted = "select title, turn_count, llm_calls, prompt_tokens, completion_tokens from sessions "
        counted += "where agent_session_id is not null"
        assert rows(store, counted) == [("count", 1, 2, 20, 6)]
        for call in [*steps, *steps]:
            run_hook(json.dumps(call).encode(), "codex", agent.work)
        assert rows(store, counted) == [("count", 1, 2, 20, 6)]
        (tmp_path / "work/.locus/live/imports.json").unlink()
        assert run(store, made.directory).events == 0
