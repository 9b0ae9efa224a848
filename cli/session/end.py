"""`locus session end`: close a session."""

import click

from ..access import open_store, put, say
from ..text import one_line
from .text import agent_option, end_stale, meant


@click.command("end")
@click.argument("session", required=False)
@agent_option
@click.option("--summary", metavar="TEXT", help="Its outcome.")
@click.pass_context
def command(ctx: click.Context, session: str | None, agent: str, summary: str | None) -> None:
    """Close a session.

    SESSION, or the active one of the agent; without either, the only one that is active. The id of any
    part of a conversation closes the part that is active. Its context id goes to stdout.
    """
    from eventlog.base.errors import EventLogError
    from eventlog.doctor.completeness import completeness
    from eventlog.memory import intent
    from eventlog.recorder import sessions

    with open_store(ctx, records=True) as store:
        end_stale(store)
        session_row = meant(ctx, store, session, agent)
        if not session_row.is_active and session is not None:
            intents = (intent.find(store, id) for id in sessions.parts(store, session))
            session_row = next((part for part in intents if part.is_active), session_row)
        if not session_row.is_active:
            raise EventLogError(f"Session {session} is already ended.")
        intent.end(store, session_row, summary)
        report = completeness(store, session_row.session_id)
    say(f"Ended: {one_line(str(report))}.")
    put(f"{session_row.context_id}\n")
