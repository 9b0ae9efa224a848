"""`locus session show`: one session and its turns."""

import click

from .access import json_option, open_store, put
from .jsonout import document
from .show import session_and_turns


@click.command("show")
@click.argument("session")
@json_option
@click.pass_context
def command(ctx: click.Context, session: str, as_json: bool) -> None:
    """Show one session and its turns.

    SESSION is its id, the beginning of it, sess-ID, or session:SLUG_ID.
    """
    from eventlog.recorder import sessions

    with open_store(ctx) as store:
        fields, text = session_and_turns(store, sessions.named(store, session).session_id)
    put(document(fields) if as_json else text)
