"""`locus import gemini`: the chats that Gemini CLI left on disk."""

from . import import_transcripts

command = import_transcripts.make("gemini-cli", has_default_location=True, verb="gemini")
