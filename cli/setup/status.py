"""`locus status`: what the store holds."""

import dataclasses

import click

from eventlog.projections.elsewhere import totals
from eventlog.retention import indexed

from ..access import open_store
from ..all_stores import in_all_stores
from ..options import json_option
from ..output import count, document, pairs, put, size

_NO_INDEX = "none (answers come from the log itself; `locus store seal` makes one)"
_UNFINISHED = (
    "under way, or killed: `locus restore --recover` finishes it, "
    "`locus restore --recover --undo` takes it back"
)


@click.command("status")
@json_option
@in_all_stores
def command(as_json: bool) -> None:
    """Show what the store holds: events, turns, sessions, sizes, index."""
    with open_store() as store:
        status = store.status()
        if status.active_sessions:
            from eventlog.memory import intent  # nobody else here needs what it imports

            # The log still counts a session as active whose process is gone and that is not closed yet.
            active = intent.listed_without_stale(store, intent.now_us(store))
            status = dataclasses.replace(store.status(), active_sessions=len(active))
        retained = indexed.indexed_retention(store)
        own_sessions, own_turns = totals(store.query, store.repo_hash) if status.sessions else (0, 0)
    if as_json:
        retention_counts = {
            "released_sessions": len(retained.released),
            "pinned_sessions": len(retained.held),
            "project_sessions": own_sessions,
            "project_turns": own_turns,
        }
        put(document({"status": {**dataclasses.asdict(status), **retention_counts}}))
        return
    origin = {"roots": "from the first commits", "random": "random: no git history to take it from"}
    others = own_sessions < status.sessions  # imported from other projects
    counts = {
        "of this project": own_sessions if others else 0,
        "active": status.active_sessions,
        "released": len(retained.released),
        "pinned": len(retained.held),
    }
    states = ", ".join(f"{number:,} {state}" for state, number in counts.items() if number)
    unsealed = f" ({status.unsealed_events:,} not sealed yet)" if status.unsealed_events else ""
    unfinished = [("restore", _UNFINISHED)] if status.unfinished_restore else []
    put(
        pairs(
            [
                ("project", status.project_name),
                ("repository", f"{status.repo_hash} ({origin[status.repo_hash_origin]})"),
                ("store", f"{status.root} ({status.store_id})"),
                ("sessions", f"{status.sessions:,}" + (f" ({states})" if states else "")),
                ("turns", f"{status.turns:,}" + (f" ({own_turns:,} of this project)" if others else "")),
                ("events", f"{status.events:,}{unsealed}"),
                ("log", _log(status.segments, status.segment_bytes, status.journals, status.journal_bytes)),
                ("contents", f"{count(status.packs, 'pack')} ({size(status.pack_bytes)})"),
                ("index", f"ready ({status.index})" if status.index else _NO_INDEX),
                *unfinished,
            ]
        )
    )


def _log(segments: int, segment_bytes: int, journals: int, journal_bytes: int) -> str:
    return (
        f"{count(segments, 'segment')} ({size(segment_bytes)}), "
        f"{count(journals, 'journal')} ({size(journal_bytes)})"
    )
