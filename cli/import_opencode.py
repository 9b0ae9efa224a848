"""`locus import opencode`: the sessions that OpenCode left in its database."""

from . import import_transcripts

command = import_transcripts.make("opencode", has_default_location=True)
