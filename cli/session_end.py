"""`locus session end`: close a session."""

import click

from .access import open_store, put, say
from .session_text import agent_option
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
    from eventlog.errors import NotFound, Refused
    from eventlog.recorder import sessions
    from eventlog.recorder.completeness import completeness
    from eventlog.recorder.recorder import Recorder

    with open_store(ctx) as store:
        row = sessions.named(store, session) if session else sessions.active(store, store.repo_hash, agent)
        if row is None:
            raise NotFound(
                f"{agent} has no active session here. `locus session ls` lists those of other agents; "
                "`locus session end SESSION` closes one of them."
            )
        if row.status != "active":
            raise Refused(f"{row.context_id} is not active: nothing to end.")
        recorder = Recorder(store, agent=row.agent or agent, repo=row.repo)
        recorder.resume(row.session_id)
        recorder.end_session(summary)
        said = completeness(store, row.session_id)
    say(f"Ended: {one_line(str(said))}.")
    put(f"{row.context_id}\n")
