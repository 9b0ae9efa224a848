"""`locus import claude-code`: the sessions that Claude Code left on disk."""

from . import import_transcripts

command = import_transcripts.make("claude-code", has_default_location=True)
