"""Hooks that may open next to nothing: what fits is recorded, and the turn is noted as under way."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog.base import activity
from eventlog.base.layout import Layout
from eventlog.worktree import git
from tests.cli.hook_support import Agent, events, notes, project

FEWEST = 7  # the streams, what an import needs, what an append holds, and its note


def say_with_few(agent: Agent, name: str, count: int, **fields: object) -> None:
    """One hook process that may have so many descriptors."""
    environ = {**os.environ, "LOCUS_NO_MAINTENANCE": "1", "LOCUS_HOOK_PATIENCE": "20"}
    done = subprocess.run(
        [Path(sys.executable).with_name("locus-hook"), agent.name],
        input=json.dumps(agent.payload(name, **fields)).encode(),
        cwd=agent.work.parent,
        env=environ,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count)),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("is_first", [True, False], ids=["first capture", "later capture"])
def test_a_prompt_with_few_descriptors_is_recorded_and_under_way(is_first: bool, tmp_path: Path) -> None:
    """P1, P4, I35: where the capture fails for want of descriptors the prompt is appended without it, its
    capture is reported as failed, and the turn is noted as under way, so that somebody closes it."""
    work = project(tmp_path)
    for number in range(100):
        (work / f"{number}.txt").write_text("x" * number)
    agent = Agent(work)
    if not is_first:
        agent.prompt("Before")
        agent.stop()
    failed = 0
    for count in range(FEWEST, FEWEST + 8, 1 if is_first else 2):
        agent.turn = f"turn_{count}_a1b2c3d4"
        say_with_few(agent, "UserPromptSubmit", count, prompt="Go")
        mine = [e for e in events(work) if e["agent_turn_id"] == agent.turn]
        assert [e["event_type"] for e in mine][-3:] == ["turn", "snapshot", "intent"], count
        look = mine[-2]
        assert look["success"] or look["payload"]["capture"]["state"] == "failed", count
        failed += not look["success"]
        assert [one.turn for one in activity.open_turns(Layout(str(work / ".locus")))] == [agent.turn], count
        if is_first and look["success"]:
            break
    assert failed > 0 and "Too many open files" in notes(work)
    (work / "after.txt").write_text("1")
    agent.stop()
    assert [e["path"] for e in events(work, "file")][-1:] in (["after.txt"], [])
    assert activity.open_turns(Layout(str(work / ".locus"))) == []


def test_git_that_cannot_be_asked_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """I35: what was opened for a child that cannot be started is closed again."""

    def refuse() -> None:
        raise OSError(24, "Too many open files")

    before = os.listdir("/dev/fd")
    monkeypatch.setattr(os, "pipe", refuse)
    with pytest.raises(OSError, match="Too many"):
        git.run(os.fsencode(tmp_path), ["version"], b"")
    assert os.listdir("/dev/fd") == before
