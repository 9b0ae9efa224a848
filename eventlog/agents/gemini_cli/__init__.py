"""Gemini CLI: its hooks and its chat files."""

from eventlog.agents.kit.spec import (
    AgentSpec,
    HomeSpec,
    HookSpec,
    ServerSpec,
    SettingsSpec,
    TranscriptSpec,
)

SPEC = AgentSpec(
    name="gemini-cli",
    title="Gemini CLI",
    verb="gemini",
    program="gemini",
    resume=("gemini", "--resume"),
    home=HomeSpec(variable="GEMINI_CLI_HOME", folder=".gemini"),
    folder=".gemini",
    hooks=HookSpec(
        adapter="eventlog.agents.gemini_cli.hooks",
        model_calls="eventlog.agents.gemini_cli.chat_tail",
        reads_answer=True,
        forgets_answer=True,
        makes_ids=True,
    ),
    settings=SettingsSpec(
        # Gemini CLI waits for each hook, which is a process. Not registered are those around a model call, of
        # which the chat has more: BeforeModel, BeforeToolSelection, AfterModel (each piece), PreCompress
        # (before each).
        events=(
            "SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd",
            "Notification",
        ),
        file="settings.json",
        has_comments=True,
        timeout_unit=1000,
        check="eventlog.agents.gemini_cli.trust",
    ),
    server=ServerSpec(
        files=(".gemini/settings.json",), user_files=("settings.json",), has_comments=True
    ),
    transcripts=TranscriptSpec(reader="eventlog.agents.gemini_cli.transcript", is_deleted=True),
)  # fmt: skip
