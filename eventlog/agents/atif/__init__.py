"""ATIF, the interchange format of agents' trajectories. Transcripts only."""

from eventlog.agents.kit.spec import AgentSpec, TranscriptSpec

SPEC = AgentSpec(
    name="atif",
    title="ATIF",
    transcripts=TranscriptSpec(reader="eventlog.agents.atif.transcript", is_found=False),
)
