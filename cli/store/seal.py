"""`locus store seal`: journals become segments."""

import dataclasses

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count


@click.command("seal")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Turn the journals into sealed Parquet segments, and bring the index up to date.

    Changes no event and no number. Queries over sealed events are faster.
    """
    with open_store(ctx) as store, Progress("sealing"):
        report = store.seal()
        index = store.reindex()
    if as_json:
        put(document({"seal": dataclasses.asdict(report), "index": index}))
    elif not report.journals:
        say("Nothing to seal: every event is in a segment.")
    else:
        dropped = f", {count(report.dropped, 'repeated event')} left out" if report.dropped else ""
        say(f"Sealed {count(report.events, 'event')} into {count(len(report.segments), 'segment')}{dropped}.")
        if report.lost:
            say(f"{count(report.lost, 'event')} could not be read: `locus store verify` lists them.")
