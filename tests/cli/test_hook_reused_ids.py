"""Tool calls whose ids repeat, as of servers that restart their count: by hooks, and by both sides."""

from pathlib import Path
from typing import Any

import pytest

from eventlog.agents import formats
from eventlog.importers import importer
from eventlog.store import Store
from tests.agents.claude_support import Teller, write
from tests.cli.hook_support import Agent, events, notes, unique

RAN = {"stdout": "1 failed", "stderr": "", "interrupted": False, "isImage": False}
COMMANDS = ("make test", "git status", "make test")


class Counting(Agent):
    """An agent whose server calls each tool call `call_0`; `twice`: its hooks are installed in two places."""

    times = 1

    def say(self, name: str, **fields: Any) -> None:
        for _ in range(self.times):
            super().say(name, **fields)

    def run(self, command: str) -> None:
        args = {"command": command}
        self.say("PreToolUse", tool_name="Bash", tool_input=args, tool_use_id="call_0")
        self.end("call_0", "Bash", args, RAN)
        payload = {
            "tool_use_id": "call_0",
            "tool_name": "Bash",
            "tool_input": args,
            "tool_response": "1 failed",
        }
        self.say("PostToolBatch", tool_calls=[payload])


def import_of(work: Path, agent: Agent) -> int:
    """Import the transcript of the same session; how many actions the log has then."""
    tell = Teller(agent.session, name=unique("line"), cwd=str(work))
    listed = [tell.user("test it", promptId=agent.turn)]
    for number, command in enumerate(COMMANDS):
        listed += tell.call(f"msg_01Ab{number}", "call_0", "Bash", {"command": command}, "1 failed", RAN)
    path = write(work.parent / f"{agent.session}.jsonl", listed)
    with Store.open(work / ".locus") as store:
        source = formats.source_of("claude-code", str(path))
        assert importer.run(store, "claude-code", [source]).problems == []
    return len(events(work, "action"))


@pytest.mark.parametrize("times", [1, 2])
def test_each_call_is_an_action_whatever_its_id(work: Path, times: int) -> None:
    """P3, P7: the same command again is another call, the same hook is not; the transcript adds nothing."""
    agent = Counting(work)
    agent.prompt("test it")
    agent.times = times
    for command in COMMANDS:
        agent.run(command)
    agent.times = 1
    agent.stop("Done.")

    recorded = events(work, "action")
    assert [e["payload"]["args"]["command"] for e in recorded] == list(COMMANDS)
    assert len(events(work, "tool_start")) == 3 and notes(work) == ""
    assert import_of(work, agent) == 3


def test_what_the_transcript_had_first_is_not_recorded_again(work: Path) -> None:
    """P3: an import before the hooks' calls gives the ids that these have."""
    agent = Counting(work)
    agent.prompt("test it")
    assert import_of(work, agent) == 3
    for command in COMMANDS:
        agent.run(command)

    assert len(events(work, "action")) == 3
