"""`locus import cursor`: the conversations that Cursor's agent left on disk."""

from . import import_transcripts

command = import_transcripts.make("cursor", has_default_location=True)
