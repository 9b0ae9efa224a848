"""`locus publish` and `locus lake …`: stores of many machines in one place (docs/lake.md)."""

import click

from ..lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    "Tables",
    Entry("init", "lake.tables:init", "Make the Iceberg tables of a place."),
    Entry("commit", "lake.tables:commit", "Bring the tables up to what was published."),
    Entry("fold", "lake.fold", "Make tables of turns, sessions and model calls."),
    "Keep",
    Entry("verify", "lake.care:verify", "Check what was published, and the tables of it."),
    Entry("maintain", "lake.care:maintain", "Merge small files, and delete what nothing needs any more."),
    "Go back",
    Entry("replay", "lake.replay", "Put the files of a published turn into a directory, byte for byte."),
)


@click.command("lake", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Make tables of what stores published to one place, keep it in order, and replay turns.

    TO is s3://BUCKET/PREFIX or file:///DIRECTORY, as in `locus publish TO`. docs/lake.md has the rest.
    """
