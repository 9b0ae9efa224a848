"""`locus import …`: histories that exist elsewhere."""

import click

from .lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    (
        "From",
        (
            Entry("git", "import_git", "Record the history of a git repository as turns."),
            Entry("claude-code", "import_claude_code", "Record the sessions that claude-code left on disk."),
            Entry("codex", "import_codex", "Record the sessions that codex left on disk."),
            Entry("gemini", "import_gemini", "Record the sessions that gemini-cli left on disk."),
            Entry("opencode", "import_opencode", "Record the sessions that opencode left on disk."),
            Entry("copilot-cli", "import_copilot_cli", "Record the sessions that copilot-cli left on disk."),
            Entry("cursor", "import_cursor", "Record the sessions that cursor left on disk."),
            Entry("pi", "import_pi", "Record the sessions that pi left on disk."),
            Entry("swe-agent", "import_swe_agent", "Record sessions of swe-agent from files."),
            Entry("atif", "import_atif", "Record sessions of atif from files."),
            Entry("jsonl", "import_jsonl", "Take in the log that `locus export jsonl` wrote to FILE."),
        ),
    ),
)


@click.command("import", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="FROM …")
def command() -> None:
    """Record a history that exists elsewhere."""
