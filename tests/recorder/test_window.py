"""What a model is shown: the block, the order of the window, the three situations, the look back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.recorder import window
from eventlog.recorder.hooks import Hooks
from eventlog.recorder.recorder import Recorder
from eventlog.recorder.requests import CreateEventRequest, EventKind
from eventlog.recorder.window import Situation, context_block
from eventlog.store import Store
from tests.recorder.kept import copy_of, recorded_once


@pytest.fixture(scope="module")
def _recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Session one on tokens, closed; session two on the parser, seven turns long and active."""
    return recorded_once(tmp_path_factory.mktemp("recorded") / ".locus", _record)


@pytest.fixture
def recorded(_recorded_once: Path, tmp_path: Path) -> Iterator[Store]:
    with copy_of(_recorded_once, tmp_path / ".locus") as store:
        yield store


def _record(store: Store) -> None:
    hooks = Hooks(store, agent="script")
    hooks.store_event(
        CreateEventRequest(EventKind.FACT, {"purpose": "A flight recorder"}, "knowledge:locus_0123456789ab")
    )
    hooks.store_event(
        CreateEventRequest(
            EventKind.FACT,
            {"text": "Tabs, never spaces"},
            "fact:style",
            extends=("knowledge:locus_0123456789ab",),
        )
    )
    recorder = Recorder(store, agent="script")
    turn = recorder.start_turn("Fix the JWT refresh")
    turn.decision("Validate the token first", "JWT refresh skips it")
    turn.file("src/auth/jwt.rs", before=b"old\n", after=b"new\n")
    turn.llm("m-1", prompt_tokens=1000, completion_tokens=200, message_id="m1")
    turn.end(title="JWT fixed", outcome="JWT tests pass")
    recorder.end_session("Tokens are safe")
    for n in range(1, 8):
        turn = recorder.start_turn(f"Parser step {n}", git={"git_head": f"{n}" * 40, "git_branch": "main"})
        turn.error("Timeout", f"parser took {n} s", resolved=n < 7)
        turn.file("src/auth/jwt.rs", before=b"new\n", after=b"newer %d\n" % n)
        turn.end(title=f"Step {n} done", outcome=f"{n} times as fast")


def session_of(store: Store) -> str:
    return str(store.query("select session_id from sessions where status = 'active'").rows[0][0])


def titles(block: window.ContextBlock) -> list[str]:
    return [memory.text.split(" — ")[0] for memory in block.recent_turns]


def test_a_block_for_a_new_turn(recorded: Store) -> None:
    """S1-25, S1-26, S1-54: project, the session's goal, its last turns in order, memories of any session."""
    block = context_block(recorded, "Does the JWT refresh still work?", session_id=session_of(recorded))

    assert block.situation == Situation.NEW_TURN
    assert block.project[0].startswith("locus (repository 0123456789ab): 2 sessions, 8 turns")
    assert any("A flight recorder" in line for line in block.project)
    assert any("Tabs, never spaces" in line for line in block.project)
    assert block.session_goal is not None and "Parser step 1" in block.session_goal
    assert titles(block) == [f"Step {n} done" for n in (3, 4, 5, 6, 7)]
    assert any("JWT fixed" in memory.text for memory in block.relevant)
    assert len(block.relevant) <= 10
    assert block.current_input == "Does the JWT refresh still work?"


def test_the_window_has_its_order(recorded: Store) -> None:
    """S1-27: system prompt, project, goal, three to five turns, memories, message; nothing empty."""
    block = context_block(recorded, "JWT?", session_id=session_of(recorded), recent_turns=3)
    sections = block.sections("You are careful.")

    assert [section.name for section in sections] == [
        "system_prompt",
        "project",
        "session_goal",
        "recent_turns",
        "relevant",
        "current_input",
    ]
    assert (sections[0].text, sections[-1].text) == ("You are careful.", "JWT?")
    assert len(sections[3].text.splitlines()) == 3
    assert block.sections()[0].name == "project"


@pytest.mark.parametrize(
    ("situation", "goal", "turns"),
    [
        (Situation.NEW_TURN, True, [3, 4, 5, 6, 7]),
        (Situation.RESUME, True, [7]),
        (Situation.NEW_SESSION, False, []),
    ],
)
def test_three_situations(recorded: Store, situation: Situation, goal: bool, turns: list[int]) -> None:
    """S1-54: a new turn sees its last turns, a resumed session its very last, a new session the project."""
    block = context_block(recorded, "JWT", session_id=session_of(recorded), situation=situation)

    assert (block.session_goal is not None) == goal
    assert titles(block) == [f"Step {n} done" for n in turns]
    assert block.project and block.relevant


def test_a_new_session_needs_no_session(recorded: Store) -> None:
    """S1-54: without a session the block is that of a new one, over all sessions."""
    block = context_block(recorded, "parser")

    assert block.situation == Situation.NEW_SESSION
    assert any("Step 7 done" in memory.text for memory in block.relevant)


def test_a_turn_does_not_see_itself(recorded: Store) -> None:
    """S1-23, S1-25: the anchor and the intent of the message at hand are no memory of it."""
    message = "Measure the zeppelin"
    turn = Recorder(recorded, agent="script").start_turn(message)
    block = context_block(recorded, message, session_id=turn.ref.session_id)
    other = context_block(recorded, "Something about the zeppelin", session_id=turn.ref.session_id)

    assert titles(block) == [f"Step {n} done" for n in (3, 4, 5, 6, 7)]
    assert [memory for memory in block.relevant if "zeppelin" in memory.text] == []
    assert titles(other)[-1] == message


def test_every_line_cites_its_event(recorded: Store) -> None:
    """S1-15, P7: turns and memories name the event they stand on, and it is in the log."""
    block = context_block(recorded, "JWT", session_id=session_of(recorded))
    events = {str(e["event_id"]): e for e in recorded.events()}

    assert len(block.event_ids()) == len(block.recent_turns) + len(block.relevant)
    for memory in (*block.recent_turns, *block.relevant):
        assert events[memory.event_id]["context_id"] == memory.context_id
    assert set(block.event_ids()) <= set(events)


def test_a_block_over_an_empty_store(store: Store) -> None:
    """S1-26, P7: nothing recorded is nothing said; an unknown session has no goal."""
    block = context_block(store, "Hello", session_id="sess-zzzzzzzz")

    assert (block.session_goal, block.recent_turns, block.relevant) == (None, (), ())
    assert block.project == ("locus (repository 0123456789ab): 0 sessions, 0 turns recorded.",)
    assert [section.name for section in block.sections()] == ["project", "current_input"]
    assert list(store.events()) == []


def test_looking_back_has_limits(recorded: Store) -> None:
    """S1-55: fifty events of a turn, twenty decisions, twenty changes of a file, unless asked otherwise."""
    recorder = Recorder(recorded, agent="script")
    turn = recorder.start_turn("A long turn")
    for n in range(60):
        turn.decision(f"Choice {n}")
    for n in range(25):
        turn.file("a.py", before=b"", after=b"%d" % n)

    timeline = window.turn_timeline(recorded, turn.ref)
    assert [e["event_type"] for e in timeline[:3]] == ["turn", "snapshot", "intent"]
    assert len(timeline) == 50
    assert [m.text for m in window.decisions(recorded)] == [f"Choice {n}" for n in range(59, 39, -1)]
    assert len(window.file_history(recorded, "a.py")) == 20
    assert len(window.file_history(recorded, "a.py", limit=3)) == 3
    newest = [event["payload"]["after_size"] for event in window.file_history(recorded, "a.py", limit=20)]
    assert newest == [2] * 15 + [1] * 5, "the newest first"
    assert window.file_history(recorded, "b.py") == []


def test_the_cheat_sheet(recorded: Store) -> None:
    """S1-56: each of its eight questions has an answer."""
    sid = session_of(recorded)
    first = str(recorded.query("select session_id from sessions where status = 'closed'").rows[0][0])

    # What happened in turn 2?
    assert [e["event_type"] for e in window.turn_timeline(recorded, f"turn:{sid}_002")] == [
        "turn", "snapshot", "intent", "error", "file", "turn",
    ]  # fmt: skip
    # All decisions ever? All errors, by type and by category?
    assert [m.text.split(" — ")[0] for m in window.decisions(recorded)] == ["Validate the token first"]
    assert len(window.errors(recorded)) == 7
    by_category = recorded.query("select count(*) from events where list_contains(related_to, 'errors')")
    assert by_category.rows == [(7,)]
    # What changed in jwt.rs?
    history = window.file_history(recorded, "src/auth/jwt.rs")
    assert len(history) == 8
    # The state of the code base at turn 2?
    state = recorded.query("select git_head from snapshots where session_id = $1 and turn = 2", [sid])
    assert state.rows == [("2" * 40,)]
    # The exact content of a file at a point?
    assert recorded.blob(str(history[0]["after_hash"])) == b"newer 7\n"
    assert recorded.blob(str(history[-1]["before_hash"])) == b"old\n"
    # The whole history of a session, from parent to child?
    hooks = Hooks(recorded, agent="script")
    (context,) = recorded.query("select context_id from sessions where session_id = $1", [first]).rows[0]
    turns = recorded.query(
        "select distinct context_id from events where list_contains(extends, $1)", [context]
    ).rows
    assert turns == [(f"turn:{first}_001",)]
    under = hooks.strict.retrieve_memories("", window.RetrieveOptions(50, extends=f"turn:{first}_001"))
    assert [item.event_type for item in under.items] == ["snapshot", "intent", "decision", "file", "llm"]
    # What did a session cost?
    cost = recorded.query(
        "select prompt_tokens + completion_tokens, tokens_used from sessions where session_id = $1", [first]
    )
    assert cost.rows == [(1200, 1200)]
