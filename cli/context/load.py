"""`locus context load`: what is known of a workstream."""

import click

from ..access import open_store, put, say
from ..jsonout import document
from .access import contexts_of, phase_option, workstream_argument


@click.command("load")
@workstream_argument
@phase_option
@click.pass_context
def command(ctx: click.Context, workstream: str, phase: str) -> None:
    """Show what is known of a workstream, and whether it still holds.

    That is the entry of WORKSTREAM on this branch, as JSON. What somebody else committed since is taken
    into the log.
    """
    from eventlog.memory.shared_nodes import ContextLoadNode

    with open_store(ctx) as store:
        state = ContextLoadNode(contexts_of(store), workstream, phase, with_bundle=False)({})
    loaded = state["context"][phase]
    shown = {name: loaded[name] for name in ("entry", "stale", "reasons", "scan_again")}
    put(document({"phase": phase, **shown, "cli_sessions": state["plan"]["metadata"]["cli_sessions"]}))
    for problem in loaded["problems"]:
        say(problem)
