"""`locus store seal`, `compact`, `repack` and `rebuild`: fewer and faster files that hold the same."""

import dataclasses

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count, size


@click.command("seal")
@json_option
@click.pass_context
def seal(ctx: click.Context, as_json: bool) -> None:
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


@click.command("compact")
@click.option("--all", "everything", is_flag=True, help="All segments, not only the newest small ones.")
@json_option
@click.pass_context
def compact(ctx: click.Context, everything: bool, as_json: bool) -> None:
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


@click.command("repack")
@click.option("--all", "everything", is_flag=True, help="Merge all packs, also those that pay little.")
@json_option
@click.pass_context
def repack(ctx: click.Context, everything: bool, as_json: bool) -> None:
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


@click.command("rebuild")
@json_option
@click.pass_context
def rebuild(ctx: click.Context, as_json: bool) -> None:
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
