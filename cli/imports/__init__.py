"""`locus import …`: histories that exist elsewhere."""

import click

from eventlog import agents

from ..lazy import Entry, LazyGroup, Sections

_MODULE = "imports.transcripts"


def _sections() -> Sections:
    of_agents = (
        Entry(spec.command_name, _MODULE, _summary(spec.name, is_found=spec.transcripts.is_found))
        for spec in agents.importable()
        if spec.transcripts is not None
    )
    return (
        (
            "From",
            (
                Entry("git", "imports.git", "Record the history of a git repository as turns."),
                *of_agents,
                Entry("jsonl", "imports.jsonl", "Take in the log that `locus export jsonl` wrote to FILE."),
            ),
        ),
    )


def _summary(agent: str, *, is_found: bool) -> str:
    return (
        f"Record the sessions that {agent} left on disk."
        if is_found
        else f"Record sessions of {agent} from files."
    )


class _ImportGroup(LazyGroup):
    """Has a command for each agent whose transcripts can be imported."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for spec in agents.importable():
            if spec.command_name == cmd_name:
                from . import transcripts as import_transcripts

                return import_transcripts.command_of(spec)
        return super().get_command(ctx, cmd_name)


@click.command("import", cls=_ImportGroup, sections=_sections(), subcommand_metavar="FROM …")
def command() -> None:
    """Record a history that exists elsewhere."""
