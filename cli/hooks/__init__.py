"""`locus hooks …`: what coding agents are to tell us."""

import click

from ..lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    "Set up",
    Entry("install", "hooks.install:install_command", "Have coding agents tell Locus what they do."),
    Entry("uninstall", "hooks.install:uninstall", "Take the hooks out of the agents' settings again."),
    Entry("show", "hooks.install:show", "Show which hooks are installed, and where."),
)


@click.command("hooks", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Have coding agents tell Locus what they do."""
