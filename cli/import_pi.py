"""`locus import pi`: the sessions that the pi coding agent left on disk."""

from . import import_transcripts

command = import_transcripts.make("pi", has_default_location=True)
