"""SWE-agent. Transcripts only."""

from eventlog.agents.kit.spec import AgentSpec, TranscriptSpec

SPEC = AgentSpec(
    name="swe-agent",
    title="SWE-agent",
    transcripts=TranscriptSpec(reader="eventlog.agents.swe_agent.transcript", is_found=False),
)
