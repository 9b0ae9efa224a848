"""Claude Code: its hooks, its transcripts, its tools."""

from eventlog.agents.kit.spec import (
    ARGUMENTS,
    PROGRAM,
    AgentSpec,
    HomeSpec,
    HookSpec,
    ServerSpec,
    SettingsSpec,
    TranscriptSpec,
)

SPEC = AgentSpec(
    name="claude-code",
    title="Claude Code",
    program="claude",
    resume=("claude", "--resume"),
    home=HomeSpec(variable="CLAUDE_CONFIG_DIR", default=".claude"),
    folder=".claude",
    hooks=HookSpec(
        adapter="eventlog.agents.claude_code.hooks",
        model_calls="eventlog.agents.claude_code.usage_tail",
        process_variable="CLAUDE_PID",
        reads_answer=True,
        answered_prompt="UserPromptSubmit",
    ),
    settings=SettingsSpec(
        # Those that become events of their own, then those that are kept as they are. Not registered: those
        # that ask for an answer (PermissionRequest, WorktreeCreate, Elicitation), and MessageDisplay, which
        # comes by the word.
        events=(
            "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure",
            "PostToolBatch", "SubagentStart", "SubagentStop", "Stop", "StopFailure", "SessionEnd",
            "PreCompact", "PostCompact", "Notification", "ConfigChange", "CwdChanged",
        ),
        file="settings.json",
        local_file="settings.local.json",
        has_status_line=True,
    ),
    server=ServerSpec(
        files=(".mcp.json",),
        user_files=(".claude.json",),
        is_beside_home=True,
        entry=(("type", "stdio"), ("command", PROGRAM), ("args", ARGUMENTS)),
    ),
    transcripts=TranscriptSpec(reader="eventlog.agents.claude_code.transcript", is_deleted=True),
    session_variable="CLAUDE_CODE_SESSION_ID",
)  # fmt: skip
