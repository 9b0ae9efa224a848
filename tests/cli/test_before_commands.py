"""The capture before a command distinguishes what was there from what the command did, also when it is
killed."""

from pathlib import Path
from typing import Any

import pytest

from eventlog.hooks import record
from eventlog.store import Store
from tests.cli.dead_support import AGENTS, Client
from tests.cli.hook_support import Agent, Codex, events, notes


def last_changes(work: Path) -> dict[str, dict[str, Any]]:
    """The last change that is reported of each path."""
    return {e["path"]: e for e in events(work, "file")}


@pytest.mark.parametrize("name", AGENTS)
def test_a_kill_inside_a_command_is_sharp(name: str, work: Path) -> None:
    """P1, P7: of an agent that was killed in a command, what others changed before the command is told apart
    from it, and only what changed since the command began is doubted."""
    killed = Client(name, work)
    killed.start()
    killed.prompt("Make it")
    killed.shell("first.txt")
    (work / "readme.md").write_text("# Somebody else\n")
    killed.begin("make half.txt")
    (work / "half.txt").write_text("half")
    killed.kill()
    later = Client(name, work)
    later.start()
    later.kill()

    changes = last_changes(work)
    before, during = changes["readme.md"], changes["half.txt"]
    assert (before["cause"], before["turn"], before["source"]) == (None, 1, "system")
    assert before["payload"]["certainty"] == "probable" and "causes" not in before["payload"]
    dead = events(work, "action")[-1]
    assert (dead["payload"]["ended_by"], during["turn"]) == ("process gone", 1)
    assert during["cause"] == dead["event_id"]
    (late,) = [e["payload"]["capture"] for e in events(work, "snapshot") if e["operation"] == "turn_end"]
    assert ([path for path, _ in late["paths"]], late["count"]) == (["half.txt"], 1)
    with Store.open(work / ".locus") as store:
        tree = store.tree(f"turn:{during['session_id']}_{during['turn_id']}")
        assert tree.file("readme.md") == b"# Somebody else\n" and tree.certainty.doubt("readme.md") is None
        assert tree.certainty.doubt("half.txt") is not None
    assert notes(work) == ""


def test_what_changed_before_a_command_is_not_the_commands(work: Path) -> None:
    """P1, P7: a change between two commands is of neither, and a command that does nothing has none."""
    agent = Agent(work)
    agent.prompt("Go")
    agent.bash("echo 1 > one.txt")
    (work / "readme.md").write_text("# Mine\n")
    agent.bash("true")
    (change,) = [e for e in events(work, "file") if e["path"] == "readme.md"]
    start, action = events(work, "tool_start")[-1], events(work, "action")[-1]
    assert (change["cause"], change["source"], change["turn"]) == (None, "system", 1)
    assert change["position"] < start["position"] < action["position"]
    look = [e for e in events(work, "snapshot") if change["position"] < e["position"] < start["position"]]
    assert [(e["operation"], e["cause"], e["turn"], e["success"]) for e in look] == [("tool", None, 1, True)]
    with Store.open(work / ".locus") as store:
        assert store.tree(f"turn:{change['session_id']}_001", str(look[0]["event_id"])).certainty.exact


def test_a_call_beside_a_command_that_begins_keeps_its_changes(work: Path) -> None:
    """P7: what a running call has changed by the time another begins is that call's; an edit's file too."""
    agent = Agent(work)
    agent.prompt("Go")
    args = {"command": "make one.txt"}
    running = agent.begin("Bash", args)
    (work / "one.txt").write_text("1\n")
    beside = agent.begin("Bash", {"command": "make two.txt"})
    assert last_changes(work)["one.txt"]["cause"] is not None
    (work / "two.txt").write_text("2\n")
    agent.end(running, "Bash", args, {"stdout": ""})
    agent.end(beside, "Bash", {"command": "make two.txt"}, {"stdout": ""})
    actions = {e["tool_use_id"]: e["event_id"] for e in events(work, "action")}
    changes = last_changes(work)
    assert changes["one.txt"]["cause"] == actions[running]
    assert "certainty" not in changes["one.txt"]["payload"]
    assert set(changes["two.txt"]["payload"]["causes"]) == set(actions.values())


def test_a_command_that_two_hooks_tell_is_not_its_own_cause(work: Path) -> None:
    """P7: a beginning that is reported twice, with a change between, does not make the change the
    command's."""
    agent = Agent(work)
    agent.prompt("Go")
    payload = {"tool_name": "Bash", "tool_input": {"command": "true"}, "tool_use_id": "toolu_Twice1a2b3c"}
    agent.say("PreToolUse", **payload)
    (work / "readme.md").write_text("# Mine\n")
    agent.say("PreToolUse", **payload)
    assert last_changes(work)["readme.md"]["cause"] is None


def test_only_commands_among_few_files_are_captured_before(work: Path) -> None:
    """P4: tools that edit what they name, wait or only read are followed by their capture, if by any; and so
    is a command among many files."""
    agent = Codex(work)
    agent.prompt("Go")
    (work / "readme.md").write_text("# Mine\n")
    agent.begin("apply_patch", {"command": "*** Begin Patch\n*** Add File: a\n+a\n*** End Patch"})
    agent.begin("wait_agent", {})
    agent.begin("update_plan", {})
    assert events(work, "file") == []
    agent.begin("Bash", {"command": "true"})
    assert list(last_changes(work)) == ["readme.md"]

    for number in range(record.EARLY_CAPTURE_FILES_MAX):
        (work / f"{number}.txt").touch()
    agent.shell("true")
    (work / "readme.md").write_text("# Mine, again\n")
    count = len(events(work))
    agent.begin("Bash", {"command": "true"})
    assert [e["event_type"] for e in events(work)[count:]] == ["tool_start"]


def test_a_capture_that_finds_nothing_says_nothing(work: Path) -> None:
    """A command costs the log its beginning and its action: captures that find nothing are no events."""
    agent = Agent(work)
    agent.prompt("Go")
    count = len(events(work))
    agent.bash("true")
    assert [e["event_type"] for e in events(work)[count:]] == ["tool_start", "action"]


def test_a_subagents_command_says_no_more_than_is_known(work: Path) -> None:
    """P7: what is found before the command of a subagent is nobody's: in the turn, and of no subagent."""
    agent = Agent(work)
    agent.prompt("Go")
    agent.say("SubagentStart", agent_id="sub_1a2b3c", agent_type="general")
    (work / "readme.md").write_text("# Mine\n")
    agent.begin("Bash", {"command": "true"}, agent_id="sub_1a2b3c")
    change = last_changes(work)["readme.md"]
    assert (change["cause"], change["subagent_id"], change["turn"]) == (None, None, 1)
