"""What the hooks of Codex mean: from hook input to events, and a session through the real hook program."""

from pathlib import Path
from typing import Any

import pytest

from eventlog.agents.codex.hooks import interpret
from eventlog.base.names import event_id_of
from eventlog.base.paths import patch_paths
from eventlog.store import Store
from tests.agents.codex_support import TURN, begin, events_in, item, meta
from tests.cli.hook_support import Codex, events, here, notes, project, replayed

SAID = {"session_id": "s", "turn_id": "t", "cwd": "/w", "model": "m", "transcript_path": None}
EVENT_TYPES = {
    "SessionStart": ["session"],
    "SessionEnd": ["session"],
    "UserPromptSubmit": ["turn", "snapshot", "intent"],
    "PreToolUse": ["tool_start"],
    "PostToolUse": ["action"],
    "PostModelRequest": ["llm"],
    "Stop": ["snapshot", "turn"],
    "Interrupt": ["snapshot", "turn"],
    "SubagentStart": ["subagent"],
    "SubagentStop": ["subagent"],
    "PreModelRequest": ["hook"],
    "PermissionRequest": ["hook"],
    "PreCompact": ["hook"],
    "PostCompact": ["hook"],
    "NotYetInvented": ["hook"],
}
USAGE = {
    "input_tokens": 1500, "cached_input_tokens": 1000, "cache_write_input_tokens": 30, "output_tokens": 50,
    "reasoning_output_tokens": 20, "total_tokens": 1550,
}  # fmt: skip


def hook_input(name: str, **fields: Any) -> dict[str, Any]:
    return {**SAID, "hook_event_name": name, **fields}


def script(*texts: str) -> list[dict[str, str]]:
    """The output of a script of `exec` that completed, as 0.144 and later have it."""
    head = "Script completed\nWall time 0.3 seconds\nOutput:\n"
    return [{"type": "input_text", "text": text} for text in (head, *texts)]


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_event_has_a_meaning_or_is_kept_raw(name: str) -> None:
    """S0-21: of each event, and of ones to come, nothing is dropped."""
    call = interpret(hook_input(name, tool_name="Bash", tool_use_id="call_1", tool_input={"command": "ls"}))

    assert [event["event_type"] for event in call.events] == EVENT_TYPES[name]
    assert call.columns == {
        "agent": "codex", "agent_session_id": "s", "agent_turn_id": "t", "cwd": "/w", "model": "m",
    }  # fmt: skip


def test_tokens_include_what_came_from_the_cache() -> None:
    """S1-34, P7: the client's input counts the cache already; what it does not say is unknown."""
    (event,) = interpret(hook_input("PostModelRequest", status="completed", token_usage=USAGE)).events
    (failed,) = interpret(hook_input("PostModelRequest", status="failed", error="overloaded")).events

    assert event.items() >= {
        "prompt_tokens": 1500, "cache_read_tokens": 1000, "cache_write_tokens": 30, "completion_tokens": 50,
        "reasoning_tokens": 20, "success": True,
    }.items()  # fmt: skip
    assert failed["success"] is False
    assert "prompt_tokens" not in failed


@pytest.mark.parametrize(
    ("answer", "success"),
    [
        ("Exit code: 0\nOutput:\n", True),
        ("Exit code: 2\nOutput:\n", False),
        ("Exit code: many\n", None),
        ("No such file or directory", None),
        (None, None),
        ("Script completed\nWall time 0.3 seconds\nOutput:\nfine", True),
        ("Script completed\nWall time 0.3 seconds\nOutput:\n" + '{"exit_code":101,"output":""}', False),
        ("Script failed\nWall time 0.3 seconds\nOutput:\nScript error:\nno", False),
        ("Script running with cell ID 3\nWall time 9.0 seconds\nOutput:\n", None),
        (script('{"exit_code":0}', "text of a file"), True),
        (script('{"exit_code":0}', '[{"exit_code":0},{"exit_code":-9}]'), False),
        (script('"exit_code": 3', '{"exit_code": 3', '{"exit_code": "3"}', "[7]"), True),
    ],
)
def test_success_is_known_where_an_exit_code_is(answer: Any, success: bool | None) -> None:
    """P7, S1-30: the output of a command does not tell whether it failed, that of a script does; a failure
    is an error, with the id that the transcript gives it."""
    call = hook_input("PostToolUse", tool_name="exec", tool_use_id="call_1a2b3", tool_response=answer)
    action, *errors = interpret(call).events

    assert action.get("success") == success
    of_call = event_id_of("codex", "error", "call_1a2b3")
    assert [one.get("event_id") for one in errors] == ([of_call] if success is False else [])
    lines = [
        item(2, "custom_tool_call", name="exec", input="await tools.exec_command()", call_id="call_1a2b3"),
        item(3, "custom_tool_call_output", call_id="call_1a2b3", output=answer),
    ]
    reported, *failures = events_in([meta(), *begin(1, TURN), *lines], "action", "error")
    assert reported.get("success") == success
    assert [one["event_id"] for one in failures] == ([of_call] if success is False else [])


def test_a_patch_names_its_files() -> None:
    """Paths come from the patch's own lines, each once, moves included."""
    patch = (
        "*** Begin Patch\n*** Add File: a b.py\n+*** Add File: not.py\n*** Update File: c\n*** Move to: d/e\n"
        "@@\n-x\n+y\n*** Delete File: f\n*** Update File: c\n*** Add File:  \n*** End Patch"
    )

    assert patch_paths(patch) == ["a b.py", "c", "d/e", "f"]


def test_a_session_of_patches_and_commands(tmp_path: Path) -> None:
    """P1, P4, S1-23, S1-57: a session from its start to its end; each turn's replay is the directory."""
    work = project(tmp_path)
    agent = Codex(work)
    agent.start()
    agent.prompt("make hi.py again")
    agent.say("PreModelRequest")
    agent.say("PostModelRequest", status="completed", error=None, token_usage=USAGE)

    def apply() -> None:
        (work / "hi.py").write_text("hi\n")
        (work / "readme.md").rename(work / "README.md")

    patched = agent.patch(
        "*** Begin Patch\n*** Add File: hi.py\n+hi\n*** Update File: readme.md\n*** Move to: README.md\n"
        "*** End Patch\n",
        apply,
    )
    # A patch within a shell command is reported before it runs and not after.
    unheard = agent.begin("Bash", {"command": "apply_patch <<'EOF' …"})
    (work / "by_heredoc.txt").write_text("1\n")
    agent.say("PreModelRequest")
    listed = agent.shell("ls /nonexistent_dir; chmod +x hi.py")
    agent.say("PostModelRequest", status="completed", error=None, token_usage=USAGE)
    agent.stop()
    files = here(work)
    turn = events(work, "turn")[-1]
    agent.prompt("stop it")
    agent.say("Interrupt")
    agent.turn = ""
    agent.finish()

    assert notes(work) == ""
    assert replayed(work, turn, tmp_path / "out") == files
    causes = {(e["operation"], e["path"]): e["cause"] for e in events(work, "file")}
    assert causes == {
        ("add", "hi.py"): event_id_of("codex", "action", patched),
        ("rename", "README.md"): event_id_of("codex", "action", patched),
        ("add", "by_heredoc.txt"): event_id_of("codex", "action", unheard),
        ("mode", "hi.py"): event_id_of("codex", "action", listed),
    }
    assert [e["tool_use_id"] for e in events(work, "action")] == [patched, unheard, listed]
    assert [e["status"] for e in events(work, "turn")] == ["active", "completed", "active", "interrupted"]
    with Store.open(work / ".locus") as store:
        (row,) = store.query("select prompt_tokens, completion_tokens, llm_calls, status from sessions").rows
    assert tuple(row) == (3000, 100, 2, "closed")


def test_a_subagents_tool_goes_on_while_its_agent_asks_the_model(tmp_path: Path) -> None:
    """P7: the agent's next model call says that its own tools are over, and nothing of its subagents'."""
    agent = Codex(project(tmp_path))
    agent.start()
    agent.prompt("have it made")
    subagent = {"agent_id": "sub1", "agent_type": "worker", "turn_id": "inner"}
    agent.say("SubagentStart", **subagent)
    make = {"command": "make"}
    id = agent.begin("Bash", make, **subagent)
    agent.say("PreModelRequest")
    agent.end(id, "Bash", make, "Exit code: 0\nOutput:\nmade", **subagent)
    agent.stop()

    (action,) = events(agent.work, "action")
    assert (action["subagent_id"], action["success"], action["turn"]) == ("sub1", True, 1)
