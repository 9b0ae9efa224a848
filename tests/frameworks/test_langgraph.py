"""A graph of LangGraph with a model that is scripted: its runs are turns, and its turns replay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from eventlog import Store
from eventlog.base import fs
from eventlog.frameworks.langgraph import RecordingHandler
from tests.frameworks.conftest import recorded, turns

USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


def graph(work: Path, answers: "list[AIMessage]") -> Any:
    """A model and its tool, in turns, as in every tutorial."""

    @tool
    def write(name: str, text: str) -> str:
        """Write a file."""
        if "/" in name:
            raise ValueError("a name has no slash")
        (work / name).write_text(text)
        return f"{len(text)} characters"

    model = GenericFakeChatModel(messages=iter(answers))
    built = StateGraph(MessagesState)
    built.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    built.add_node("tools", ToolNode([write], handle_tool_errors=True))
    built.add_edge(START, "model")
    built.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    built.add_edge("tools", "model")
    return built.compile()


def call(name: str, number: int) -> AIMessage:
    calls = [{"name": "write", "args": {"name": name, "text": "two\n"}, "id": f"call-{number}"}]
    return AIMessage(
        content="", tool_calls=calls, usage_metadata=USAGE, response_metadata={"model_name": "m-1"}
    )


def ask(runs: Any, handler: RecordingHandler, text: str) -> Any:
    return runs.invoke({"messages": [("user", text)]}, config={"callbacks": [handler]})


def test_runs_are_turns(store: Store, work: Path, tmp_path: Path) -> None:
    """Request, tool with arguments and result, models with tokens, the answer; the files of either turn."""
    answers = [call("notes.txt", 1), AIMessage(content="Done."), AIMessage(content="Nothing to do.")]
    runs, handler = graph(work, answers), RecordingHandler(store, root=str(work))
    ask(runs, handler, "Write two")
    ask(runs, handler, "And now?")
    handler.close()

    assert turns(store) == [
        ("Write two", "completed", "Done."),
        ("And now?", "completed", "Nothing to do."),
    ]
    assert recorded(store, "action") == [("write", True, {"output": "4 characters"})]
    (action,) = store.events(event_types=["action"])
    assert action["payload"]["args"] == {"name": "notes.txt", "text": "two\n"}
    assert action["duration_ms"] is not None
    calls = store.query(
        "select model, prompt_tokens, completion_tokens from events where event_type = 'llm'"
    ).rows
    assert len(calls) == 3 and calls[0] == ("m-1", 7, 3) and calls[1][1:] == (None, None)
    first = store.query("select session_id, turn from turns order by first_position").rows[0]
    assert store.file(f"turn:{first[0]}_{first[1]:03}", "notes.txt", at="start") == b"one\n"
    assert store.replay("last", to=tmp_path / "again").missing == []
    assert (tmp_path / "again/notes.txt").read_bytes() == b"two\n"
    assert store.query("select count(*) from sessions where ended_at is not null").rows == [(1,)]


def test_what_fails_is_recorded_as_failed(store: Store, work: Path) -> None:
    """A tool that raises, whose graph goes on; then a model that raises, which ends the run."""
    handler = RecordingHandler(store, root=str(work))
    ask(graph(work, [call("a/b", 1), AIMessage(content="I cannot.")]), handler, "Write a/b")
    with pytest.raises(Exception):  # noqa: B017  # whatever the library makes of an empty script
        ask(graph(work, []), handler, "Go on")
    handler.close()

    ((tool_name, success, result),) = recorded(store, "action")
    assert (tool_name, success) == ("write", False)
    assert "a name has no slash" in str(result)
    assert [row[:2] for row in turns(store)] == [("Write a/b", "completed"), ("Go on", "failed")]
    assert recorded(store, "error") != []


def test_a_store_that_fails_does_not_stop_the_graph(
    store: Store, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has its answer; the store's notes say what could not be recorded."""
    sync: Callable[..., None] = fs.FileSystem.fdatasync

    def fails(self: fs.FileSystem, fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fs.FileSystem, "fdatasync", fails)
    handler = RecordingHandler(store, root=str(work))
    done = ask(graph(work, [call("notes.txt", 1), AIMessage(content="Done.")]), handler, "Write two")
    handler.close()
    monkeypatch.setattr(fs.FileSystem, "fdatasync", sync)

    assert done["messages"][-1].content == "Done."
    assert "No space left on device" in (work / ".locus/tmp/hook-errors.log").read_text()
    assert turns(store) == []
