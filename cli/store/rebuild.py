"""`locus store rebuild`: the index anew from the log."""

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress


@click.command("rebuild")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Make the index anew from the log.

    The index is derived: deleting it or rebuilding it changes no answer.
    """
    with open_store(ctx) as store, Progress("rebuilding"):
        index = store.rebuild()
    if as_json:
        put(document({"index": index}))
    elif index is None:
        say("Nothing is sealed yet, so there is nothing to index. `locus store seal` seals.")
    else:
        say(f"Rebuilt {index}.")
