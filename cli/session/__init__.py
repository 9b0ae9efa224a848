"""`locus session …`: sessions, as a person or a script opens, closes and finds them."""

import click

from ..lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    (
        "Record",
        (
            Entry("start", "session.life:start", "Begin a session, or go on with one."),
            Entry("end", "session.life:end", "Close a session."),
        ),
    ),
    (
        "Look",
        (
            Entry("ls", "session.show:ls", "List sessions, the latest first."),
            Entry("show", "session.show:show", "Show one session and its turns."),
        ),
    ),
)


@click.command("session", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Begin, end and list sessions.

    A session is named by its eight characters or a unique beginning of them, by sess-ID, or by its
    context id session:SLUG_ID.
    """
