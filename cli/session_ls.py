"""`locus session ls`: which sessions there are."""

import click

from .access import json_option, open_store, put, say
from .jsonout import line
from .records import records
from .session_text import end_stale, kept_fields, session_table


@click.command("ls")
@click.option("--all", "want_all", is_flag=True, help="Ended ones too.")
@click.option("--agent", metavar="NAME", help="Only those of this agent.")
@json_option
@click.pass_context
def command(ctx: click.Context, want_all: bool, agent: str | None, as_json: bool) -> None:
    """List sessions, the latest first.

    By when something happened in them last; the undated come last. Active ones only, unless --all. With
    --json one object per line. A session that nobody ended within 24 hours ends then. Of one that is
    released or pinned (`locus store pin`) the state says so.
    """
    from eventlog.memory import intent
    from eventlog.projections.definitions import SESSIONS_NEWEST_FIRST, all_of
    from eventlog.retention import retention

    with open_store(ctx) as store:
        end_stale(store)
        rows = intent.listed(store, active_only=not want_all, agent=agent)
        kept = retention.indexed_retention(store)
        if as_json:
            told = {row.session_id: intent.fields(row) for row in rows}
            found = store.query(
                f"select {all_of('sessions')} from sessions where list_contains($1, session_id) "
                f"order by {SESSIONS_NEWEST_FIRST}",
                [list(told)],
            )
            for record in records(found):
                put(
                    line(
                        {
                            **told[record["session_id"]],
                            **record,
                            "status": told[record["session_id"]]["status"],
                            "end_reason": told[record["session_id"]]["end_reason"],
                            "retention": kept_fields(kept, str(record["session_id"])),
                        }
                    )
                )
            return
    put(session_table(rows, kept))
    if not rows:
        say("No sessions." if want_all else "No active sessions; --all shows those that ended.")
