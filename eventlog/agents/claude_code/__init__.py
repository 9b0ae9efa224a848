"""Claude Code: its hooks, its transcripts, its tools."""
