"""`locus bisect …`: finding the turn that broke something."""

import click

from ..lazy import Entry, LazyGroup, Sections

_RUN = "Find the turn that broke something, with a command that says good or bad."
SECTIONS: Sections = (("Search", (Entry("run", "go_back.bisect_run", _RUN),)),)


@click.command("bisect", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Find the turn that broke something."""
