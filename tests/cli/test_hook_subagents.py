"""Subagents that outlive the turn that started them, by the real hook program."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.agents.test_captured_sessions import Played, fixtures
from tests.cli.hook_support import Agent, events, project, replayed

(AGENTS,) = (path for path in fixtures() if path.match("claude-code-*/agents.jsonl"))
SUBAGENT = {"agent_id": "sub1", "agent_type": "general-purpose"}
MAKE = {"command": "make"}


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    made = Agent(project(tmp_path))
    made.start()
    return made


def of_subagents(work: Path) -> dict[str, set[Any]]:
    """The turns of what subagents did, by type of event."""
    payload: dict[str, set[Any]] = {}
    for event in events(work):
        if event["subagent_id"] is not None:
            payload.setdefault(event["event_type"], set()).add(event["turn"])
    return payload


@pytest.mark.parametrize("started", [True, False], ids=["SubagentStart", "no SubagentStart"])
def test_what_ends_after_the_next_prompt_counts_where_it_began(
    agent: Agent, tmp_path: Path, started: bool
) -> None:
    """P1, P7: a background subagent's tool that ends under the next prompt's id is in the turn that started
    the subagent, with what it changed; so is what it does from then on."""
    work = agent.work
    first = agent.prompt("Have it made")
    if started:
        agent.say("SubagentStart", **SUBAGENT)
    id = agent.begin("Bash", MAKE, **SUBAGENT)
    agent.stop()
    second = agent.prompt("<task-notification>\n</task-notification>")
    (work / "made.txt").write_text("made")
    agent.end(id, "Bash", MAKE, {"stdout": ""}, **SUBAGENT)
    agent.write("more.txt", "more", **SUBAGENT)
    agent.say("SubagentStop", last_assistant_message="Done.", **SUBAGENT)
    agent.write("own.txt", "own")
    agent.stop()

    reported = of_subagents(work)
    kinds = {"tool_start", "action", "file", "snapshot", "subagent"}
    assert (set(reported), set.union(*reported.values())) == (kinds, {1})
    late = [e for e in events(work) if e["payload"].get("turn_under_way")]
    assert {(e["agent_turn_id"], e["payload"]["turn_under_way"]) for e in late} == {(first, second)}
    changed = {e["path"]: e["turn"] for e in events(work, "file")}
    assert changed == {"made.txt": 1, "more.txt": 1, "own.txt": 2}
    (turn,) = [e for e in events(work, "turn") if (e["turn"], e["operation"]) == (1, "start")]
    assert {b"made.txt", b"more.txt"} <= set(replayed(work, turn, tmp_path / "turn"))


def test_a_capture_of_another_finds_what_a_subagent_does_beside_the_next_turn(agent: Agent) -> None:
    """P7: a subagent's command under way counts among those that may have made a change, whatever turn is
    under way; a new process of the session ends it."""
    work = agent.work
    agent.prompt("Have it made")
    id = agent.begin("Bash", MAKE, **SUBAGENT)
    agent.stop()
    agent.prompt("Another thing")
    agent.write("own.txt", "own")
    own = agent.begin("Bash", {"command": "date"})
    (work / "whose.txt").write_text("?")
    agent.end(own, "Bash", {"command": "date"}, {"stdout": ""})
    agent.start("resume")
    alone = agent.begin("Bash", {"command": "date > date.txt"})
    (work / "date.txt").write_text("today")
    agent.end(alone, "Bash", {"command": "date > date.txt"}, {"stdout": ""})

    ids = {e["tool_use_id"]: e["event_id"] for e in events(work, "action")}
    payload = {e["path"]: e for e in events(work, "file")}
    assert payload["own.txt"]["cause"] is not None
    assert (payload["whose.txt"]["cause"], len(payload["whose.txt"]["payload"]["causes"])) == (None, 2)
    assert payload["date.txt"]["cause"] == ids[alone]
    assert id not in ids


def test_of_two_subagents_after_the_end_of_their_turn(tmp_path: Path) -> None:
    """P7: a change found after one subagent's command while another's runs is not guessed to be the first
    one's, though no turn is under way."""
    agent = Agent(project(tmp_path), environ={"CLAUDE_PID": str(os.getpid())})
    other = {"agent_id": "sub2", "agent_type": "general-purpose"}
    work = agent.work
    agent.start()
    agent.prompt("Have two things made")
    ids = [agent.begin("Bash", MAKE, **one) for one in (SUBAGENT, other)]
    agent.stop()
    (work / "whose.txt").write_text("?")
    agent.end(ids[0], "Bash", MAKE, {"stdout": ""}, **SUBAGENT)
    (work / "last.txt").write_text("of the last")
    agent.end(ids[1], "Bash", MAKE, {"stdout": ""}, **other)

    payload = {e["path"]: e for e in events(work, "file")}
    actions = {e["tool_use_id"]: e["event_id"] for e in events(work, "action")}
    assert payload["whose.txt"]["cause"] is None and payload["whose.txt"]["turn"] == 1
    assert set(payload["whose.txt"]["payload"]["causes"]) == set(actions.values())
    assert payload["last.txt"]["cause"] == actions[ids[1]]


def test_a_true_session_whose_subagents_end_late(tmp_path: Path) -> None:
    """P1, P3: with the next prompt before the subagents' ends, their calls, files and model calls are in
    the turn that started them."""
    played = Played(late(tmp_path), tmp_path)
    played.play()

    reported = of_subagents(played.project)
    assert set(reported) >= {"tool_start", "action", "llm", "subagent"}
    assert set.union(*reported.values()) == {1}
    # Two commands of subagents ran at once: the turn is known, which subagent it was is not.
    changed = events(played.project, "file")
    assert {(e["turn"], e["subagent_id"]) for e in changed} == {(1, None)}


def late(tmp_path: Path) -> Path:
    """The captured session, with the second prompt right after the first one's Stop: from there on its id
    rests on the subagents' calls."""
    head, *lines = [json.loads(line) for line in AGENTS.read_text().splitlines()]
    names = [one["call"]["hook_event_name"] for one in lines]
    prompt = [n for n, name in enumerate(names) if name == "UserPromptSubmit"][1]
    second = lines.pop(prompt)
    stop = names.index("Stop") + 1
    lines.insert(stop, second)
    id = second["call"]["prompt_id"]
    for one in lines[stop + 1 :]:
        if "agent_id" in one["call"]:
            one["call"]["prompt_id"] = id
    path = tmp_path / "late.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (head, *lines)))
    return path
