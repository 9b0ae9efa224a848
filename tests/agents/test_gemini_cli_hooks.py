"""What the hooks of Gemini CLI mean, and sessions through the real hook program, their chats imported."""

from pathlib import Path
from typing import Any

import pytest

from eventlog.agents.gemini_cli.hooks import call_key, exit_code_of, interpret, without_context
from eventlog.base.names import event_id_of
from eventlog.hooks.call_numbers import UnnamedCalls
from eventlog.importers import importer, sources
from eventlog.importers.importer import ImportReport
from eventlog.store import Store
from tests.agents.gemini_support import Gemini
from tests.cli.hook_support import events, here, notes, project, replayed

SAID = {
    "session_id": "s",
    "cwd": "/w",
    "timestamp": "2026-11-20T09:00:00.000Z",
    "transcript_path": "/w/chats/session-1.jsonl",
}
EVENT_TYPES = {
    "SessionStart": ["session"],
    "SessionEnd": ["session"],
    "BeforeAgent": ["turn", "snapshot", "intent"],
    "BeforeTool": ["tool_start"],
    "AfterTool": ["action"],
    "AfterAgent": ["snapshot", "turn"],
    "Notification": ["hook"],
    "PreCompress": ["hook"],
    "AfterModel": ["hook"],
    "NotYetInvented": ["hook"],
}
ACTIONS = "select event_id, success from actions order by event_id"
COUNTED = (
    ACTIONS,
    "select context_id, user_request, outcome, tool_calls, end_tree from turns order by 1",
    "select message_id, prompt_tokens, completion_tokens from llm_calls order by all",
    "select path, operation, before_hash, after_hash from files order by position",
    "select count(*) from sessions",
)


def hook_input(name: str, **fields: Any) -> dict[str, Any]:
    return {**SAID, "hook_event_name": name, **fields}


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_event_has_a_meaning_or_is_kept_raw(name: str) -> None:
    """S0-21: of each event, and of ones to come, nothing is dropped."""
    call = interpret(
        hook_input(name, tool_name="run_shell_command", tool_input={"command": "ls"}, prompt="go")
    )

    assert [event["event_type"] for event in call.events] == EVENT_TYPES[name]
    turn = {"agent_turn_id": "s:2026-11-20T09:00:00.000Z"} if name == "BeforeAgent" else {}
    assert call.columns == {"agent": "gemini-cli", "agent_session_id": "s", "cwd": "/w", **turn}


def test_what_hooks_put_before_a_prompt_is_not_the_persons() -> None:
    """P7: the turn is about what was asked, and what was added is kept beside it."""
    assert without_context("<hook_context>be brief</hook_context>\n\nmake x") == ("be brief", "make x")
    assert without_context("<hook_context>half") == ("", "<hook_context>half")
    call = interpret(hook_input("BeforeAgent", prompt="<hook_context>be brief</hook_context>\n\nmake x"))
    assert call.prompt == "make x"
    assert call.events[2]["payload"] == {"message": "make x", "hook_context": "be brief"}


@pytest.mark.parametrize(
    ("tool", "output", "code"),
    [
        ("run_shell_command", "Output: x\nExit Code: 3\nProcess Group PGID: 9", 3),
        ("run_shell_command", "Output: Exit Code: 3", None),
        ("run_shell_command", "Output: a\nExit Code: 1\nb\nExit Code: 2", 2),
        ("run_shell_command", "Exit Code: many", None),
        ("read_file", "Exit Code: 3", None),
        ("run_shell_command", None, None),
    ],
)
def test_a_command_failed_when_its_output_names_an_exit_code(
    tool: str, output: Any, code: int | None
) -> None:
    """S1-30: the client calls every command that ran a success."""
    assert exit_code_of(tool, output) == code
    (action, *errors) = interpret(
        hook_input("AfterTool", tool_name=tool, tool_input={}, tool_response={"llmContent": output})
    ).events
    assert action["success"] is (code is None)
    assert [error["event_type"] for error in errors] == (["error"] if code else [])


def test_calls_without_ids_are_counted() -> None:
    """P3: equal calls of a turn are told apart by their order, however often each is reported; an end
    belongs to the last beginning without one."""
    lines = [("a", 1, True), ("a", 2, True), ("a", 2, True), ("a", 3, False), ("a", 3, False), ("a", 4, True),
            ("a", 5, False), ("b", 6, False), ("b", 7, True)]  # fmt: skip
    tools = UnnamedCalls((key, str(time), asked) for key, time, asked in lines)

    found = [tools.number(key, str(time), asked=asked) for key, time, asked in lines]
    assert found == [0, 1, 1, 1, 1, 2, 2, 0, 1]
    assert call_key("t", "x", {"a": 1, "b": 2}, 0) == call_key("t", "x", {"b": 2, "a": 1}, 0)


def id_of(key: tuple[str, ...]) -> str:
    return event_id_of("gemini-cli", "action", *key)


def imported(work: Path, agent: Gemini) -> ImportReport:
    """Import the chat, and see that nothing counts twice."""
    with Store.open(work / ".locus") as store:
        before = [store.query(sql).rows for sql in COUNTED]
        report = importer.run(store, "gemini-cli", sources.named("gemini-cli", [str(agent.chats)]))
        assert report.problems == []
        assert [store.query(sql).rows for sql in COUNTED] == before
        (work / ".locus/live/imports.json").unlink()
        agent.write({"$set": {"lastUpdated": "later"}})
        again = importer.run(store, "gemini-cli", sources.named("gemini-cli", [str(agent.chats)]))
        assert (again.calls, again.turns, again.problems) == (0, 0, [])
        assert [store.query(sql).rows for sql in COUNTED] == before
        ids = [event["event_id"] for event in store.events()]
        assert len(ids) == len(set(ids))
    return report


def test_a_session_is_recorded_whole_and_its_chat_adds_texts(tmp_path: Path) -> None:
    """P1, P3, S1-23: a session from its start to its end; each turn's replay is the directory, and the chat
    holds no turn, tool call or model call that the log does not have."""
    work = project(tmp_path)
    agent = Gemini(work)
    agent.start()
    agent.prompt("<hook_context>be brief</hook_context>\n\nmake it")
    large = "price = 1\n" * 5_000
    made = agent.edit("prices.py", large)
    agent.answer("I write.", made)
    (work / "prices.py").write_text("price = 2\n")  # a person's hand
    agent.answer("Again.", agent.edit("prices.py", "price = 3\n"))
    refused = agent.shell("touch x", None)
    twice = [agent.shell("touch x", (work / "x").touch), agent.shell("touch x", lambda: None)]
    agent.answer("Then", refused, *twice)
    agent.answer("And", agent.shell("false", lambda: None, code=1))
    agent.stop()
    first, files = events(work, "turn")[-1], here(work)
    agent.prompt("make it")
    agent.stop("There is nothing to do.")
    agent.finish()

    assert notes(work) == ""
    assert replayed(work, first, tmp_path / "out") == files
    assert [e["payload"]["user_message"] for e in events(work, "turn") if e["operation"] == "start"] == [
        "make it", "make it",
    ]  # fmt: skip
    by_person = [(e["path"], e["operation"]) for e in events(work, "file") if e["source"] == "user"]
    assert by_person == [("prices.py", "edit")]
    actions = events(work, "action")
    assert [(e["tool"], e["success"]) for e in actions] == [
        ("write_file", True), ("write_file", True), ("run_shell_command", True), ("run_shell_command", True),
        ("run_shell_command", False), ("run_shell_command", None),
    ]  # fmt: skip
    assert {e["tool_use_id"] for e in actions} == {None}
    assert actions[0]["payload"]["result"]["returnDisplay"]["newContent"] == {"size": len(large)}
    turn = first["agent_turn_id"]
    edited, added = (e for e in events(work, "file") if e["source"] != "user" and e["operation"] != "edit")
    assert edited["cause"] == id_of(call_key(turn, "write_file", made["args"], 0))
    # The refused call may be running still, as far as anything reported.
    possible = [id_of(call_key(turn, "run_shell_command", refused["args"], number)) for number in (0, 1)]
    assert (added["cause"], added["payload"]["causes"]) == (None, possible)
    with Store.open(work / ".locus") as store:
        (row,) = store.query("select prompt_tokens, completion_tokens, llm_calls, status from sessions").rows
        (turn,) = store.query("select sum(prompt_tokens) from llm_calls where turn = 2").rows
    assert tuple(row) == (4800, 162, 6, "closed")
    assert tuple(turn) == (800,)

    report = imported(work, agent)
    assert (report.calls, report.turns) == (0, 0)
    texts = [e["payload"]["text"] for e in events(work, "message")]
    assert texts == ["I write.", "Again.", "Then", "And", "All done.", "There is nothing to do."]
    # The chat knows that the refused call failed, and why.
    assert [e["tool"] for e in events(work, "error")] == ["run_shell_command"] * 2
    (note,) = events(work, "import")[:1]
    assert note["payload"]["gaps"] == {"hooks_missed": 0, "transcript_missed": 0}


def test_hooks_installed_twice_record_once(tmp_path: Path) -> None:
    """P3: a call that two hooks tell has one turn, one action and one end."""
    work = project(tmp_path)
    agent = Gemini(work)
    agent.repeats = 2
    agent.start()
    agent.prompt("go")
    agent.answer("Twice.", agent.shell("true", lambda: None), agent.shell("true", lambda: None))
    agent.stop()

    with Store.open(work / ".locus") as store:
        assert [len(store.query(sql).rows) for sql in COUNTED[:3]] == [2, 1, 2]
        ends = store.query("select count(*) from events where event_type = 'turn'").rows
    assert [tuple(row) for row in ends] == [(2,)]
    imported(work, agent)


def test_two_sessions_that_begin_a_turn_at_once_keep_apart(tmp_path: Path) -> None:
    """P3: times are no names of their own: two turns of the same millisecond are two."""
    work = project(tmp_path)
    one, other = Gemini(work), Gemini(work)
    for agent in (one, other):
        agent.start()
        agent.prompt("go")
    one.answer("1", one.shell("touch 1", (work / "1").touch))
    other.answer("2", other.shell("touch 2", (work / "2").touch))
    for agent in (one, other):
        agent.stop()

    assert len({e["agent_turn_id"] for e in events(work, "turn")}) == 2
    causes = {e["path"]: e["agent_session_id"] for e in events(work, "file")}
    assert causes == {"1": one.session, "2": other.session}
    imported(work, one)


def test_a_turn_that_nobody_ended_keeps_its_model_calls(tmp_path: Path) -> None:
    """P3, P7: what the chat has of a turn that was stopped is read later, and counts in it."""
    work = project(tmp_path)
    agent = Gemini(work)
    agent.start()
    agent.prompt("first")
    agent.answer("Stopped here.")
    agent.prompt("second")
    agent.stop()

    first, second = (e["agent_turn_id"] for e in events(work, "turn") if e["operation"] == "start")
    assert [e["agent_turn_id"] for e in events(work, "llm")] == [first, second]
    imported(work, agent)


def test_what_no_hook_reported_is_added_and_named_a_gap(tmp_path: Path) -> None:
    """P7: a call that the chat has and no hook reported is in the turn that hooks recorded, a cancelled
    one beside an equal one that was done."""
    work = project(tmp_path)
    agent = Gemini(work)
    agent.start()
    agent.prompt("go")
    done = agent.shell("touch y", (work / "y").touch)
    unheard = {**done, "id": "unheard", "status": "cancelled"}
    agent.answer("Two.", unheard, done)
    agent.stop()
    with Store.open(work / ".locus") as store:
        importer.run(store, "gemini-cli", sources.named("gemini-cli", [str(agent.chats)]))

    turn = events(work, "turn")[0]["agent_turn_id"]
    assert [(e["tool_use_id"], e["success"], e["agent_turn_id"]) for e in events(work, "action")] == [
        (None, True, turn), ("unheard", False, turn),
    ]  # fmt: skip
    (note,) = events(work, "import")
    assert note["payload"]["gaps"]["hooks_missed"] == 1


def test_the_end_of_another_prompt_is_the_end_of_another_turn(tmp_path: Path) -> None:
    """P1, P7: where no hook of a prompt was heard but its end, which names it, its calls were counted in the
    turn before: how that ended is doubtful everywhere, and the end is that of a turn of its own."""
    work = project(tmp_path)
    agent = Gemini(work)
    agent.start()
    agent.prompt("one")
    agent.shell("touch a", (work / "a").touch)
    agent.stop("One is done.")
    agent.shell("touch b", (work / "b").touch)  # of a prompt of which nothing was heard
    agent.asked = "<hook_context>be brief</hook_context>\n\ntwo"
    agent.stop("Two is done.")

    with Store.open(work / ".locus") as store:
        (name,) = {e["session_id"] for e in events(work, "turn")}
        first, second = (store.certainty(f"{name}_00{number}") for number in (1, 2))
        begun = store.certainty(f"{name}_002", "start")
    assert (first.state, [path for path, _ in first.paths]) == ("unfinished", ["."])
    assert (begun.state, second.state) == ("failed", "exact")
    lines = [(e["turn"], e["operation"], e["status"]) for e in events(work, "turn")]
    assert lines == [
        (1, "start", "active"), (1, "end", "completed"), (1, "resume", "active"), (2, "end", "completed"),
        (1, "end", "interrupted"),
    ]  # fmt: skip
    ended = events(work, "turn")[3]
    assert (ended["payload"]["prompt"], ended["payload"]["outcome"]) == ("two", "Two is done.")
    agent.prompt("three")
    agent.stop("Three is done.")
    assert replayed(work, events(work, "turn")[-1], tmp_path / "out") == here(work)
    assert [e["turn"] for e in events(work, "turn")[-2:]] == [3, 3]


def test_a_turn_that_another_hook_sends_on_stays_one(tmp_path: Path) -> None:
    """P7: an end that names the turn's own prompt again is that of the turn, which went on."""
    work = project(tmp_path)
    agent = Gemini(work)
    agent.start()
    agent.prompt("one")
    agent.stop("Done.")
    agent.shell("touch b", (work / "b").touch)
    agent.stop("Now it is.")
    assert {e["turn"] for e in events(work, "turn", "action")} == {1}
    with Store.open(work / ".locus") as store:
        assert store.certainty("last").state == "exact"
