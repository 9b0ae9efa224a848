"""`locus session show`: one session and its turns."""

import click

from ..access import json_option, open_store, put
from ..jsonout import document
from ..read.show import session_and_turns
from .text import agent_option, end_stale, meant


@click.command("show")
@click.argument("session", required=False)
@agent_option
@json_option
@click.pass_context
def command(ctx: click.Context, session: str | None, agent: str, as_json: bool) -> None:
    """Show one session and its turns.

    SESSION is its id, the beginning of it, sess-ID, or session:SLUG_ID; without it, the active session of
    the agent, or the only one that is active. For a conversation of several sessions the turns of all are
    shown; for session:SLUG_ID those of that one.
    """
    from eventlog.recorder.sessions import chain

    with open_store(ctx) as store:
        end_stale(store)
        session_row = meant(ctx, store, session, agent)
        alone = session is not None and session.startswith("session:")
        parts = [session_row.session_id] if alone else chain(store, session_row.session_id)
        fields, text = session_and_turns(store, session_row.session_id, parts, whole=as_json)
    put(document(fields) if as_json else text)
