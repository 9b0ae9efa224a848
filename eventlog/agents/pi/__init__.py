"""pi. Transcripts only."""

from eventlog.agents.kit.spec import AgentSpec, TranscriptSpec

SPEC = AgentSpec(
    name="pi",
    title="pi",
    transcripts=TranscriptSpec(reader="eventlog.agents.pi.transcript"),
)
