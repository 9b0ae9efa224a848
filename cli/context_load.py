"""`locus context load`: what is known of a workstream."""

import click

from .access import open_store, put, say
from .context_access import contexts_of, phase_option, workstream_argument
from .jsonout import document


@click.command("load")
@workstream_argument
@phase_option
@click.pass_context
def command(ctx: click.Context, workstream: str, phase: str) -> None:
    """Show what is known of a workstream, and whether it still holds.

    That is the entry of WORKSTREAM on this branch, as JSON. What somebody else committed since is taken
    into the log.
    """
    from eventlog.memory.shared_entry import new_entry
    from eventlog.memory.shared_nodes import key_here
    from eventlog.memory.shared_state import marked, staleness, state_of

    with open_store(ctx) as store:
        contexts = contexts_of(store)
        key = key_here(contexts, workstream)
        loaded = contexts.load(phase)
        entry = loaded.entries.get(key) or new_entry(key)
        found = staleness(contexts.root, entry, state_of(contexts.root))
        sessions = contexts.sessions(phase).get(key, {})
    put(
        document(
            {
                "phase": phase,
                "entry": marked(entry, found),
                "stale": found.stale,
                "reasons": list(found.reasons),
                "scan_again": found.scan_again,
                "cli_sessions": sessions,
            }
        )
    )
    for problem in loaded.problems:
        say(problem)
