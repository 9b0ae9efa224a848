"""`locus context …`: what people and tools pass on about a workstream, in files of the repository."""

import click

from .lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    (
        "Look",
        (
            Entry("status", "context_status", "Show whether context is shared, and what there is."),
            Entry("load", "context_load", "Show what is known of a workstream, and whether it still holds."),
            Entry("bundle", "context_bundle", "Print what goes into a prompt, within its budget."),
            Entry("validate", "context_validate", "See whether what is known still holds and is shown."),
        ),
    ),
    ("Record", (Entry("write", "context_write", "Add to what is known of a workstream."),)),
)


@click.command("context", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Share what is known of a workstream between sessions and tools.

    It lies in data/context/ of the repository, to be committed. All of it is off unless config.toml says
    [context] shared = true, or SHARED_CONTEXT_ENABLED is true.
    """
