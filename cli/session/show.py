"""`locus session ls` and `show`: which sessions there are, and one of them with its turns."""

import click

from eventlog.memory import intent
from eventlog.projections.definitions import SESSIONS_NEWEST_FIRST, all_of
from eventlog.recorder.sessions import chain
from eventlog.retention import indexed

from .. import complete
from ..access import open_store
from ..all_stores import in_all_stores
from ..options import json_option
from ..output import document, json_line, put, say
from ..read.show import session_and_turns
from ..records import records
from .text import agent_option, end_stale, meant, retention_fields, session_table


@click.command("ls")
@click.option("--all", "want_all", is_flag=True, help="Ended ones too.")
@click.option("--agent", metavar="NAME", shell_complete=complete.agents, help="Only those of this agent.")
@json_option
@in_all_stores
def ls(want_all: bool, agent: str | None, as_json: bool) -> None:
    """List sessions, the latest first.

    Ordered by their last event; undated ones come last. Active ones only, unless --all. With --json one
    object per line. A session that nobody ended within 24 hours ends then. The state shows which are
    released or pinned (`locus store pin`).
    """
    with open_store() as store:
        end_stale(store)
        rows = intent.listed(store, active_only=not want_all, agent=agent)
        retained = indexed.indexed_retention(store)
        if as_json:
            fields_by_session = {row.session_id: intent.fields(row) for row in rows}
            result = store.query(
                f"select {all_of('sessions')} from sessions where list_contains($1, session_id) "
                f"order by {SESSIONS_NEWEST_FIRST}",
                [list(fields_by_session)],
            )
            for record in records(result):
                put(
                    json_line(
                        {
                            **fields_by_session[record["session_id"]],
                            **record,
                            "status": fields_by_session[record["session_id"]]["status"],
                            "end_reason": fields_by_session[record["session_id"]]["end_reason"],
                            "retention": retention_fields(retained, str(record["session_id"])),
                        }
                    )
                )
            return
    put(session_table(rows, retained))
    if not rows:
        say("No sessions." if want_all else "No active sessions; --all shows those that ended.")


@click.command("show")
@click.argument("session", required=False, shell_complete=complete.sessions)
@agent_option
@json_option
@in_all_stores
def show(session: str | None, agent: str, as_json: bool) -> None:
    """Show one session and its turns.

    SESSION is its id, the beginning of it, sess-ID, or session:SLUG_ID; without it, the active session of
    the agent, or the only one that is active. For a conversation of several sessions the turns of all are
    shown; for session:SLUG_ID those of that one.
    """
    with open_store() as store:
        end_stale(store)
        session_row = meant(store, session, agent)
        alone = session is not None and session.startswith("session:")
        parts = [session_row.session_id] if alone else chain(store, session_row.session_id)
        fields, text = session_and_turns(store, session_row.session_id, parts, whole=as_json)
    put(document(fields) if as_json else text)
