"""`locus context status`: whether context is shared, and what there is."""

from typing import Any

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..table import render
from ..text import one_line
from .access import contexts_of


@click.command("status")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show whether context is shared, and what there is."""
    from eventlog.memory.shared_entry import PHASES
    from eventlog.memory.shared_nodes import is_enabled
    from eventlog.memory.shared_state import staleness, state_of

    with open_store(ctx) as store:
        contexts = contexts_of(store, whatever=True)
        enabled = is_enabled(contexts)
        rows: list[dict[str, Any]] = []
        cells: list[list[str]] = []
        problems: list[str] = []
        state = state_of(contexts.root)
        for phase in PHASES if enabled else ():
            loaded = contexts.load(phase)
            problems += loaded.problems
            for key, entry in sorted(loaded.entries.items()):
                drift = staleness(contexts.root, entry, state)
                row = {"phase": phase, **key.as_dict(), "updated_at": entry.get("updated_at")}
                rows.append({**row, "stale": drift.stale, "reasons": list(drift.reasons)})
                state_text = "; ".join(drift.reasons) or "fresh"
                texts = [phase, key.workstream_id, key.branch, str(entry.get("updated_at") or ""), state_text]
                cells.append([one_line(text) for text in texts])
    if as_json:
        put(document({"enabled": enabled, "entries": rows, "problems": problems}))
        return
    say("Context is shared." if enabled else "Context is not shared: [context] shared = true would have it.")
    if cells:
        put(render(["phase", "workstream", "branch", "updated", "state"], cells))
    for problem in problems:
        say(problem)
