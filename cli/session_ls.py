"""`locus session ls`: which sessions there are."""

import click

from .access import json_option, open_store, put, say
from .jsonout import line
from .records import records
from .session_text import session_table


@click.command("ls")
@click.option("--all", "want_all", is_flag=True, help="Ended ones too.")
@click.option("--agent", metavar="NAME", help="Only those of this agent.")
@json_option
@click.pass_context
def command(ctx: click.Context, want_all: bool, agent: str | None, as_json: bool) -> None:
    """List sessions, the latest first.

    Active ones only, unless --all. With --json one object per line.
    """
    from eventlog.recorder import sessions

    with open_store(ctx) as store:
        rows = sessions.recent(store, agent=agent, only_active=not want_all, limit=None)
        if as_json:
            found = store.query(
                "select * from sessions where list_contains($1, session_id) order by last_position desc",
                [[row.session_id for row in rows]],
            )
            for record in records(found):
                put(line(record))
            return
    put(session_table(rows))
    if not rows:
        say("No sessions." if want_all else "No active sessions; --all shows those that ended.")
