"""Turns without an id: a call that has no end explains changes there, as it does in a named turn."""

from pathlib import Path

import pytest

from eventlog.agents.kit.call import object_of
from eventlog.base.types import Event
from eventlog.store import Store
from tests.cli.hook_support import Agent
from tests.cli.support import locus_process
from tests.worktree.support import git

BASH = {"command": "rm f.txt", "description": "Run it"}


class Unnamed(Agent):
    """Claude Code of a version whose hooks have no `prompt_id`."""

    def prompt(self, text: str, **fields: object) -> str:
        self.say("UserPromptSubmit", prompt=text, **fields)
        return ""


@pytest.fixture
def work(tmp_path):
    directory = tmp_path / "work"
    directory.mkdir()
    git(directory, "init", "-q")
    (directory / "f.txt").write_text("one\n")
    Store.init(directory / ".locus", project_name="sample", repo_hash="9f86d081884c", force=True).close()
    return directory


def begun(work: Path) -> Agent:
    agent = Unnamed(work)
    agent.start()
    agent.prompt("Remove the file")
    return agent


def file_events(work: Path) -> list[Event]:
    with Store.open(work / ".locus") as store:
        return [one for one in store.events() if one["event_type"] == "file"]


def certainty(event: Event) -> object:
    return object_of(event, "payload").get("certainty")


def test_a_call_without_an_end_explains_what_changed(work):
    """P7: a call that began and has no end may have made each change until its turn ends, whatever names the
    turn: the change counts in the turn, as probable, and undo takes it back."""
    agent = begun(work)
    agent.begin("Bash", BASH)
    (work / "f.txt").unlink()
    agent.say("Stop", last_assistant_message="Done.")
    (event,) = file_events(work)
    assert (event["operation"], event["turn"], event["agent"]) == ("delete", 1, "claude-code")
    assert (event["source"] != "user", event["cause"] is not None, certainty(event)) == (
        True,
        True,
        "probable",
    )
    assert locus_process("undo", "--yes", cwd=work, LOCUS_NO_MAINTENANCE="1").code == 0
    assert (work / "f.txt").read_text() == "one\n"


def test_it_explains_nothing_after_the_turn(work):
    """P7: after the end of its turn a call without an end is over: what changes then is a person's."""
    agent = begun(work)
    agent.begin("Bash", BASH)
    agent.say("Stop", last_assistant_message="Done.")
    (work / "f.txt").write_text("two\n")
    agent.prompt("Go on")
    (event,) = file_events(work)
    assert (event["source"], event["turn"], event["cause"]) == ("user", None, None)


def test_after_a_killed_stop_the_next_prompt_still_gives_it_to_the_call(work):
    """Without the hook of the end, the next prompt finds the change: the call may have made it."""
    agent = begun(work)
    agent.begin("Bash", BASH)
    (work / "f.txt").unlink()
    agent.prompt("Go on")
    (event,) = file_events(work)
    assert (event["turn"], event["cause"] is not None, certainty(event)) == (1, True, "probable")
    (work / "f.txt").write_text("two\n")
    agent.say("Stop", last_assistant_message="Done.")
    assert file_events(work)[-1]["cause"] is None


@pytest.mark.parametrize("moment", ["PreToolUse", "PostToolUse", "Stop"])
def test_what_changes_within_a_turn_is_never_a_persons(work, moment):
    """P7: within a turn without an id a change without a call is probably the turn's, not a person's."""
    agent = begun(work)
    (work / "f.txt").write_text("two\n")
    if moment == "PreToolUse":
        agent.begin("Bash", BASH)
    elif moment == "PostToolUse":
        agent.end("toolu_1", "Task", {"prompt": "x"}, {"text": "y"})
    else:
        agent.say("Stop", last_assistant_message="Done.")
    (event,) = file_events(work)
    assert (event["source"], event["turn"], certainty(event)) == ("system", 1, "probable")


def test_another_sessions_capture_blames_the_call_and_no_person(work):
    """A change that another session finds while the call is under way is not a person's."""
    agent, other = begun(work), Agent(work)
    other.start()
    agent.begin("Bash", BASH)
    (work / "f.txt").unlink()
    other.prompt("Look around")
    (event,) = file_events(work)
    assert (event["agent_session_id"], event["turn"], event["source"] != "user") == (agent.session, 1, True)
    assert certainty(event) == "probable"


def test_a_call_that_ends_is_the_cause_of_its_own_change_alone(work):
    """A call that ended explains nothing later."""
    agent = begun(work)
    agent.bash("rm f.txt")
    (work / "g.txt").write_text("mine\n")
    agent.say("Stop", last_assistant_message="Done.")
    first, second = file_events(work)
    assert (first["operation"], first["turn"], certainty(first)) == ("delete", 1, None)
    assert (first["cause"] is not None, second["cause"], second["source"]) == (True, None, "system")
