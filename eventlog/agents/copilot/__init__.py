"""GitHub Copilot: the sessions of its command line and of its chat in an editor. Transcripts only."""
