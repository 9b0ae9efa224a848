"""GitHub Copilot: the sessions of its command line and of its chat in an editor. Transcripts only."""

from eventlog.agents.kit.spec import AgentSpec, TranscriptSpec

SPEC = AgentSpec(
    name="copilot-cli",
    title="GitHub Copilot",
    transcripts=TranscriptSpec(reader="eventlog.agents.copilot_cli.transcript"),
)
