"""`locus import copilot-cli`: the sessions of GitHub Copilot's command line, and named chats of VS Code."""

from . import import_transcripts

command = import_transcripts.make("copilot-cli", has_default_location=True)
