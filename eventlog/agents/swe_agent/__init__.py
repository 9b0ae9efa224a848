"""SWE-agent. Transcripts only."""
