"""`locus context …`: what a model should know for a message, and what is shared of a workstream."""

import click

from ..lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    (
        "Look",
        (
            Entry(
                "for", "context.for_message", "Print what a model should know for MESSAGE, within one budget."
            ),
            Entry("status", "context.shared:status", "Show whether context is shared, and what there is."),
            Entry(
                "load",
                "context.shared:load",
                "Show what is known of a workstream, and whether it still holds.",
            ),
            Entry("bundle", "context.shared:bundle", "Print what goes into a prompt, within its budget."),
            Entry(
                "validate", "context.shared:validate", "See whether what is known still holds and is shown."
            ),
        ),
    ),
    ("Record", (Entry("write", "context.shared:write", "Add to what is known of a workstream."),)),
)


@click.command("context", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Give a model what it should know, and share what is known of a workstream.

    `for` gives all of it for one message. The other verbs are about workstreams: what sessions and tools
    share of one lies in data/context/ of the repository, to be committed. It is off unless config.toml says
    [context] shared = true, or SHARED_CONTEXT_ENABLED is true.
    """
