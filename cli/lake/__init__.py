"""`locus publish` and `locus lake …`: stores of many machines in one place (docs/lake.md)."""

import click

from ..lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    "Go back",
    Entry("replay", "lake.replay", "Put the files of a published turn into a directory, byte for byte."),
)


@click.command("lake", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Replay turns of stores that published to one place."""
