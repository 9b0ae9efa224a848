"""`locus export locusgraph`: the next batch of wire records, to a file or to a server."""

from typing import Any

import click

from eventlog.exports.locusgraph.locusgraph import ExportReport, RecordOptions, export

from ..access import open_store
from ..exits import PARTIAL, exit_with, usage_error
from ..options import force_option, json_option
from ..output import count, document, put, say, size
from ..progress import Progress
from .shortcomings import tell_left_out, tell_shortcomings

_ONLY_SENDING = ("api", "session", "limit", "batch", "rate", "follow", "status", "retry_failed")


@click.command("locusgraph")
@click.option("--to", "path", metavar="FILE", type=click.Path(), help="The file to write.")
@click.option("--server", metavar="URL", help="The server to send to, by its REST interface.")
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
    help="Shorten larger payloads, with a mark in them.",
)
@click.option("--no-diffs", is_flag=True, help="Leave out the diffs of file events.")
@click.option(
    "--include",
    multiple=True,
    metavar="TYPE",
    help="Also events of this type, left out by default: transcript, import, message …, or all.",
)
@force_option
@click.option("--dry-run", is_flag=True, help="Only count what would be written or sent.")
@click.option(
    "--api",
    type=click.Choice(["0.x", "1.0"]),
    default="1.0",
    show_default=True,
    help="The interface that the server speaks.",
)
@click.option("--session", metavar="SESSION", help="Send only this session; the position stays.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Send at most so many records.")
@click.option(
    "--batch",
    type=click.IntRange(1, 1_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Records in one call; 0.x takes 100 at most.",
)
@click.option(
    "--rate",
    type=click.IntRange(min=0),
    default=300,
    show_default=True,
    metavar="N",
    help="Calls in a minute at most; 0 is without limit.",
)
@click.option("--follow", is_flag=True, help="Go on sending new events, until stopped.")
@click.option("--retry-failed", is_flag=True, help="Send again what the server refused.")
@click.option("--status", is_flag=True, help="Show how far the exports have come, and their errors.")
@json_option
def command(path: str | None, server: str | None, as_json: bool, **arguments: Any) -> None:
    """Write or send what is new as records for LocusGraph.

    The final state of every session and turn that changed since the last export, and the new events,
    parents first; docs/locusgraph.md describes records and calls. The log itself remembers how far
    exports have come, for the file and for every graph of a server on its own.

    With --to, one JSON object a line goes to a file, and nothing is sent anywhere. With --server, they
    are posted there; the key is read from the variable LOCUSGRAPH_AGENT_SECRET. To resume an export that
    was killed or cut off, start it again: it continues there, and records sent twice change nothing.
    """
    if arguments["everything"] and arguments["since"] is not None:
        raise usage_error("give either --since or --all")
    if path is not None and server is not None:
        raise usage_error("give either --to or --server")
    if arguments["everything"]:
        arguments["since"] = 0
    if arguments["status"] or server is not None:
        from . import locusgraph_send as sending

        if arguments["force"] or (arguments["status"] and path is not None):
            raise usage_error("--force is for files, --status for servers")
        sending.run(server, arguments, as_json)
        return
    if path is None:
        raise usage_error("give --to FILE, or --server URL")
    for name in _ONLY_SENDING:
        if click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise usage_error(f"--{name.replace('_', '-')} is for --server")
    _write(path, arguments, as_json)


def _write(path: str, arguments: dict[str, Any], as_json: bool) -> None:
    with open_store() as store, Progress("exporting"):
        options = RecordOptions(
            arguments["max_payload"], diffs=not arguments["no_diffs"], include=frozenset(arguments["include"])
        )
        report = export(
            store,
            path,
            options,
            since=arguments["since"],
            graph_id=arguments["graph"],
            force=arguments["force"],
            dry_run=arguments["dry_run"],
        )
    if as_json:
        put(document({"export": report}))
    else:
        _tell(report, arguments["dry_run"])
    if report.lost:
        exit_with(PARTIAL)


def _tell(report: ExportReport, dry_run: bool) -> None:
    if not report.records:
        say(f"Nothing new: the exports have come to position {report.since:,}. No file was made.")
        tell_left_out(report.not_included, report.sessions_left_out)
        return
    groups = ", ".join(f"{number:,} {group}" for group, number in report.records.items())
    verb = "Would write" if dry_run else "Wrote"
    say(
        f"{verb} {count(report.total, 'record')} ({groups}; {size(report.bytes)}) for positions "
        f"{report.since:,} to {report.until - 1:,}."
    )
    tell_shortcomings(report.lost, report.payloads_cut, report.links_left_out)
    tell_left_out(report.not_included, report.sessions_left_out)
    if not dry_run and not report.advanced:
        say("The next export does not go on from here: this one did not begin where the last one ended.")
