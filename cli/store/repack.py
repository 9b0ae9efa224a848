"""`locus store repack`: many packs become one."""

import dataclasses

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count, size


@click.command("repack")
@click.option("--all", "everything", is_flag=True, help="Merge all packs, also those that pay little.")
@json_option
@click.pass_context
def command(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """Merge packs of file contents into few that are smaller and read faster.

    Changes no content. The packs that were merged are kept aside for a day.
    """
    with open_store(ctx) as store, Progress("repacking"):
        report = store.repack(everything=everything)
    if as_json:
        put(document({"repack": dataclasses.asdict(report)}))
    elif not report.condemned:
        say("Nothing to merge: there are few packs. --all merges them all the same.")
    else:
        merged = count(len(report.condemned), "pack")
        now = f" into one of {size(report.bytes_after)}" if report.pack else " that others made needless"
        say(f"Merged {merged} of {size(report.bytes_before)}{now}.")
