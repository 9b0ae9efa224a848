"""`locus export locusgraph`: the next batch of wire records."""

import dataclasses
from typing import TYPE_CHECKING

import click

from . import exits
from .access import json_option, open_store, put, say
from .jsonout import document
from .progress import Progress
from .text import count, size

if TYPE_CHECKING:
    from eventlog.exports.locusgraph import ExportReport


@click.command("locusgraph")
@click.option("--to", "path", required=True, metavar="FILE", type=click.Path(), help="The file to write.")
@click.option("--since", type=click.IntRange(min=0), metavar="POSITION", help="Begin at this position.")
@click.option("--all", "everything", is_flag=True, help="Begin at the beginning of the log.")
@click.option(
    "--graph",
    default="locus-agent",
    show_default=True,
    metavar="ID",
    envvar="LOCUSGRAPH_GRAPH_ID",
    help="The graph that the records are for. [env: LOCUSGRAPH_GRAPH_ID]",
)
@click.option(
    "--max-payload",
    type=click.IntRange(min=1_024),
    default=65_536,
    show_default=True,
    metavar="BYTES",
    help="Payloads that are larger are shortened, and say so.",
)
@click.option("--no-diffs", is_flag=True, help="Leave out the diffs of file events.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--dry-run", is_flag=True, help="Only count what would be written.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    path: str,
    since: int | None,
    everything: bool,
    graph: str,
    max_payload: int,
    no_diffs: bool,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write what is new as records for LocusGraph, one JSON object a line.

    The final state of every session and turn that changed since the last export, and the new events,
    parents first; docs/locusgraph.md describes the records. The log itself remembers how far exports
    have come. Nothing is sent anywhere, and the form was never tried against a server. Where nothing is
    new, no file is made.
    """
    from eventlog.exports.locusgraph import export

    if everything and since is not None:
        raise click.UsageError("give either --since or --all", ctx)
    with open_store(ctx) as store, Progress("exporting"):
        report = export(
            store,
            path,
            since=0 if everything else since,
            graph_id=graph,
            payload_bytes_max=max_payload,
            diffs=not no_diffs,
            force=force,
            dry_run=dry_run,
        )
    if as_json:
        put(document({"export": dataclasses.asdict(report)}))
    else:
        _tell(report, dry_run)
    if report.lost:
        ctx.exit(exits.PARTIAL)


def _tell(report: "ExportReport", dry_run: bool) -> None:
    if not report.records:
        say(f"Nothing new: the exports have come to position {report.since:,}. No file was made.")
        return
    groups = ", ".join(f"{number:,} {group}" for group, number in report.records.items())
    verb = "Would write" if dry_run else "Wrote"
    say(
        f"{verb} {count(report.total, 'record')} ({groups}; {size(report.bytes)}) for positions "
        f"{report.since:,} to {report.until - 1:,}."
    )
    for base, end in report.lost:
        say(f"Not exported: the events at positions {base:,} to {end - 1:,}, which damage took from the log.")
    if report.payloads_cut:
        say(f"{count(report.payloads_cut, 'payload')} shortened; each says where the whole of it is.")
    if report.links_left_out:
        say(f"{count(report.links_left_out, 'link')} left out: without a type, or beyond the limits.")
    if not dry_run and not report.advanced:
        say("The next export does not go on from here: this one did not begin where the last one ended.")
