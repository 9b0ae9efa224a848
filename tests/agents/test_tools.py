"""What the tools of each agent may change, by their records."""

import pytest

from eventlog import agents
from eventlog.agents.claude_code.hooks import TOOLS as CLAUDE_CODE
from eventlog.agents.codex.hooks import TOOLS as CODEX
from eventlog.agents.gemini_cli.hooks import TOOLS as GEMINI_CLI
from eventlog.agents.kit.tools import ANY, EDITS, QUIET, WAITS, AgentTools
from eventlog.agents.opencode.hooks import TOOLS as OPENCODE

ALL = CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE
CASES = [
    (CLAUDE_CODE, "Write", {"file_path": "a"}, EDITS, ["a"]),
    (CLAUDE_CODE, "NotebookEdit", {"notebook_path": "n"}, EDITS, ["n"]),
    (CLAUDE_CODE, "Agent", {"prompt": "p"}, WAITS, []),
    (CLAUDE_CODE, "Read", {"file_path": "a"}, QUIET, []),
    (CODEX, "apply_patch", {"command": "*** Add File: a\n"}, EDITS, ["a"]),
    (CODEX, "wait_agent", {}, WAITS, []),
    (CODEX, "spawn_agent", {}, QUIET, []),
    (GEMINI_CLI, "replace", {"file_path": "a"}, EDITS, ["a"]),
    (GEMINI_CLI, "glob", {}, QUIET, []),
    (OPENCODE, "edit", {"filePath": "a"}, EDITS, ["a"]),
    (OPENCODE, "patch", {"patchText": "*** Delete File: a\n"}, EDITS, ["a"]),
    (OPENCODE, "task", {}, WAITS, []),
    *((tools, "mcp__x__y", {"file_path": "a"}, ANY, []) for tools in ALL),
    *((tools, None, None, ANY, []) for tools in ALL),
]  # fmt: skip


@pytest.mark.parametrize(("tools", "tool", "arguments", "kind", "paths"), CASES)
def test_a_tool_is_of_a_kind(
    tools: AgentTools, tool: "str | None", arguments: object, kind: str, paths: list[str]
) -> None:
    """P7: each tool says what it may change; one that nobody knows may write anything."""
    assert (tools.kind(tool), tools.paths(tool, arguments)) == (kind, paths)


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("claude-code", {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"x": 7}}),
        ("codex", {"hook_event_name": "PreToolUse", "tool_name": "apply_patch", "tool_input": {}}),
        ("gemini-cli", {"hook_event_name": "BeforeTool", "tool_name": "replace", "tool_input": None}),
        ("opencode", {"hook_event_name": "tool.execute.before", "tool_name": "edit", "args": []}),
    ],
)  # fmt: skip
def test_an_edit_tool_that_names_nothing_may_write_anything(agent: str, said: dict[str, object]) -> None:
    """P7: what cannot be understood is no reason to trust it."""
    call = agents.interpret(agent, {"session_id": "s", "tool_use_id": "t", **said})
    assert (call.tool.kind, call.tool.named) == (ANY, [])


def test_codex_tools_have_the_names_that_its_model_uses() -> None:
    """What its hooks put before the tools for subagents is left away; other tools keep their names."""
    names = (
        "collaborationspawn_agent",
        "collaborationwait_agent",
        "spawn_agent",
        "collaborationother",
        "Bash",
    )
    calls = [
        agents.interpret("codex", {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": name})
        for name in names
    ]
    lines = [call.events[0]["tool"] for call in calls]
    assert lines == ["spawn_agent", "wait_agent", "spawn_agent", "collaborationother", "Bash"]
