"""Codex: its hooks, its rollouts, its tools and patches."""

from eventlog.agents.kit.spec import (
    TOML,
    AgentSpec,
    HomeSpec,
    HookSpec,
    ServerSpec,
    SettingsSpec,
    TranscriptSpec,
)

SPEC = AgentSpec(
    name="codex",
    title="Codex",
    program="codex",
    resume=("codex", "resume"),
    home=HomeSpec(variable="CODEX_HOME", default=".codex"),
    folder=".codex",
    hooks=HookSpec(
        adapter="eventlog.agents.codex.hooks",
        model_calls="eventlog.agents.codex.words_tail",
        reads_answer=True,
        answered_prompt="UserPromptSubmit",
        tells_outcome_of_calls=True,
        spells_arguments=True,
    ),
    settings=SettingsSpec(
        # Not registered: those that ask for an answer (PermissionRequest).
        events=(
            "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreModelRequest",
            "PostModelRequest", "SubagentStart", "SubagentStop", "Stop", "Interrupt", "SessionEnd",
            "PreCompact", "PostCompact",
        ),
        file="hooks.json",
        timeouts_s=(("SessionEnd", 3), ("Interrupt", 3)),  # it allows no more
        counts_each_hook=True,
        next_step="Codex leaves hooks out until you trust them: start `codex` here and give the command "
        "/hooks.",
        missing_step="trust the hooks (/hooks)",
        check="eventlog.agents.codex.trust",
    ),
    server=ServerSpec(
        files=(".codex/config.toml",),
        user_files=("config.toml",),
        format=TOML,
        key="mcp_servers",
        needs_store=True,
        next_step="Codex reads a project's settings when you trust the project. The entry names the store by "
        "its path on this machine, since Codex does not tell servers where they are.",
        next_step_of_user="Codex does not tell servers where they are: with --scope user the server serves "
        "the project that it is started in, or the one that a call names.",
    ),
    transcripts=TranscriptSpec(
        reader="eventlog.agents.codex.transcript", is_deleted=True, copies_lack_times=True
    ),
    counts_calls_late=True,
)  # fmt: skip
