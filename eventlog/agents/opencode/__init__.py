"""OpenCode: its plugin, what the plugin reports, and the database of its sessions."""

from eventlog.agents.kit.spec import (
    COMMAND_LINE,
    AgentSpec,
    HomeSpec,
    HookSpec,
    ServerSpec,
    SettingsSpec,
    TranscriptSpec,
)

# Whatever the plugin may report; what OpenCode does not say, the plugin derives from what it does say.
EVENTS = (
    "session.created", "session.resumed", "chat.message", "tool.execute.before", "tool.execute.after",
    "tool.error", "step.finish", "message.error", "permission.replied", "session.compacted", "session.idle",
    "session.deleted", "session.end",
)  # fmt: skip

SPEC = AgentSpec(
    name="opencode",
    title="OpenCode",
    program="opencode",
    resume=("opencode", "--session"),
    home=HomeSpec(variable="XDG_CONFIG_HOME", default=".config", folder="opencode"),
    folder=".opencode",
    hooks=HookSpec(
        adapter="eventlog.agents.opencode.hooks",
        process_variable="CLAUDE_PID",  # our plugin sets it
        reads_answer=True,  # our plugin does
    ),
    settings=SettingsSpec(
        events=EVENTS,
        file="plugin/locus.js",
        plugin="eventlog.agents.opencode.plugin",
    ),
    server=ServerSpec(
        files=("opencode.jsonc", "opencode.json"),
        user_files=("opencode.jsonc", "opencode.json"),
        key="mcp",
        entry=(("type", "local"), ("command", COMMAND_LINE), ("enabled", True)),
        has_comments=True,
    ),
    transcripts=TranscriptSpec(reader="eventlog.agents.opencode.transcript", is_deleted=True),
    stop_reason_key="reason",
)
