"""`locus store compact`: many small segments become few."""

import dataclasses

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count, size


@click.command("compact")
@click.option("--all", "everything", is_flag=True, help="All segments, not only the newest small ones.")
@json_option
@click.pass_context
def command(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """Merge neighbouring segments, so that queries open fewer files and the log takes less room.

    Changes no event and no number. The maintainer does this when eight or more have come together;
    the files that were merged go a minute later, when nobody reads them any more.
    """
    with open_store(ctx) as store, Progress("compacting"):
        report = store.compact(everything=everything)
    if as_json:
        put(document({"compact": dataclasses.asdict(report)}))
        return
    if not report.segments:
        say("Nothing to merge: the segments are few, or large enough.")
    else:
        say(
            f"Merged {count(report.merged, 'segment')} into {len(report.segments)}: "
            f"{size(report.bytes_before)} became {size(report.bytes_after)}."
        )
    if report.removed:
        say(f"Removed {count(len(report.removed), 'file')} that an earlier merging replaced.")
    if report.waiting:
        say(
            f"{count(report.waiting, 'file')} that were merged stay for a minute, and while somebody reads "
            "them; the next maintenance removes them."
        )
