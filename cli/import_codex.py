"""`locus import codex`: the sessions that Codex left on disk."""

from . import import_transcripts

command = import_transcripts.make("codex", has_default_location=True)
