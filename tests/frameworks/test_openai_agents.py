"""The OpenAI Agents SDK with its scripted model: runs are turns, with tools, models and handoffs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from eventlog import Store
from tests.frameworks.conftest import recorded, turns

agents = pytest.importorskip("agents", reason="openai-agents is not installed: the stage 35-examples has it")
testing = pytest.importorskip("agents.testing")

from eventlog.frameworks.openai_agents import RecordingHooks  # noqa: E402


def writer(work: Path, *steps: Any) -> Any:
    """An agent with one tool, whose model does what the steps say."""

    @agents.function_tool
    def write(name: str, text: str) -> str:
        """Write a file."""
        (work / name).write_text(text)
        return f"{len(text)} characters"

    return agents.Agent(name="writer", model=testing.ScriptedModel([[step] for step in steps]), tools=[write])


def call(text: str) -> Any:
    return testing.function_call("write", {"name": "notes.txt", "text": text}, call_id="call-1")


def run(agent: Any, hooks: RecordingHooks, message: str, **options: Any) -> Any:
    agents.set_tracing_disabled(True)
    return asyncio.run(agents.Runner.run(agent, message, hooks=hooks, **options))


def test_runs_are_turns(store: Store, work: Path, tmp_path: Path) -> None:
    """Request, tool with arguments and result, models, the answer; and the files of the turn."""
    hooks = RecordingHooks(store, root=str(work))
    agent = writer(
        work, call("two\n"), testing.assistant_message("Done."), testing.assistant_message("Nothing.")
    )
    assert run(agent, hooks, "Write two").final_output == "Done."
    run(agent, hooks, "And now?")
    hooks.close()

    assert turns(store) == [("Write two", "completed", "Done."), ("And now?", "completed", "Nothing.")]
    assert recorded(store, "action") == [("write", True, {"output": "4 characters"})]
    (action,) = store.events(event_types=["action"])
    assert action["payload"]["args"] == {"name": "notes.txt", "text": "two\n"}
    assert len(recorded(store, "llm")) == 3
    first = store.query("select session_id, turn from turns order by first_position").rows[0]
    assert store.file(f"turn:{first[0]}_{first[1]:03}", "notes.txt", at="start") == b"one\n"
    assert store.replay("last", to=tmp_path / "again").missing == []
    assert (tmp_path / "again/notes.txt").read_bytes() == b"two\n"


def test_a_handoff_is_a_decision_of_the_same_turn(store: Store, work: Path) -> None:
    """Both agents work in one run: one turn, ended by the answer of the second."""
    second = writer(work, testing.assistant_message("I did it."))
    first = agents.Agent(
        name="desk",
        model=testing.ScriptedModel([[testing.function_call("transfer_to_writer", {}, call_id="call-1")]]),
        handoffs=[second],
    )
    hooks = RecordingHooks(store)
    run(first, hooks, "Write two")
    hooks.close()

    assert turns(store) == [("Write two", "completed", "I did it.")]
    (decision,) = store.events(event_types=["decision"])
    assert decision["payload"]["decision"] == "handoff from desk to writer"


def test_a_run_that_fails_is_a_turn_that_failed(store: Store, work: Path) -> None:
    """The SDK calls nothing at such an end: the next run, or `close`, ends the turn."""
    hooks = RecordingHooks(store, root=str(work))
    with pytest.raises(agents.MaxTurnsExceeded):
        run(writer(work, call("two\n"), call("three\n")), hooks, "Write two", max_turns=1)
    run(writer(work, testing.assistant_message("Hello.")), hooks, "Say hello")
    with pytest.raises(agents.MaxTurnsExceeded):
        run(writer(work, call("two\n"), call("three\n")), hooks, "Write again", max_turns=1)
    hooks.close()

    assert [row[:2] for row in turns(store)] == [
        ("Write two", "failed"),
        ("Say hello", "completed"),
        ("Write again", "failed"),
    ]
