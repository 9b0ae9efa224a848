"""Cursor. Transcripts only."""

from eventlog.agents.kit.spec import AgentSpec, TranscriptSpec

SPEC = AgentSpec(
    name="cursor",
    title="Cursor",
    transcripts=TranscriptSpec(reader="eventlog.agents.cursor.transcript"),
)
