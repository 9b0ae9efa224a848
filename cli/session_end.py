"""`locus session end`: close a session."""

import click

from .access import open_store, put, say
from .session_text import agent_option, end_stale
from .text import one_line


@click.command("end")
@click.argument("session", required=False)
@agent_option
@click.option("--summary", metavar="TEXT", help="What came of it.")
@click.pass_context
def command(ctx: click.Context, session: str | None, agent: str, summary: str | None) -> None:
    """Close a session.

    The active one of the agent, or SESSION. Its context id goes to stdout.
    """
    from eventlog.errors import EventLogError
    from eventlog.memory import intent
    from eventlog.recorder.completeness import completeness

    with open_store(ctx, records=True) as store:
        end_stale(store)
        one = intent.find(store, session) if session else intent.must_be_active(store, agent)
        if not one.is_active:
            raise EventLogError(f"Session {session} is already ended.")
        intent.end(store, one, summary)
        said = completeness(store, one.session_id)
    say(f"Ended: {one_line(str(said))}.")
    put(f"{one.context_id}\n")
