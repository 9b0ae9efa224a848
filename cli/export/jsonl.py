"""`locus export jsonl`: the log as lines of JSON."""

import dataclasses
import sys
from typing import TYPE_CHECKING

import click

from eventlog.base.config import PEOPLE

from .. import exits
from ..access import json_option, naming_stdout, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count, one_line, size

if TYPE_CHECKING:
    from eventlog.exports.jsonl import JsonlReport


@click.command("jsonl")
@click.option(
    "--to", "path", required=True, metavar="FILE", type=click.Path(), help="The file to write; - is stdout."
)
@click.option("--contents", is_flag=True, help="Also write the files and trees that events name.")
@click.option("--since", type=click.IntRange(min=0), default=0, metavar="POSITION", help="Begin there.")
@click.option(
    "--people",
    type=click.Choice(PEOPLE),
    help="Who worked where, and who wrote commits: left out, as keyed digests, or in full. "
    "[default: as config.toml says under [export], else no]",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    path: str,
    contents: bool,
    since: int,
    people: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the log as lines of JSON, losslessly but for who worked (--people full has that too).

    A header, one event a line, and a last line with a digest of the others. With --contents the file
    holds all that `locus import jsonl` needs to make an equal store. What is lost or cannot be read is
    listed, and the exit code is 4.
    """
    from eventlog.exports.jsonl import export, write

    to_stdout = path == "-"
    if to_stdout and as_json:
        raise click.UsageError("--json reports on stdout, where the events go; give --to FILE", ctx)
    with open_store(ctx) as store, Progress("exporting"):
        if to_stdout:
            with naming_stdout():
                report = write(store, sys.stdout.buffer, contents=contents, since=since, people=people)
        else:
            report = export(store, path, contents=contents, since=since, force=force, people=people)
    if as_json:
        put(document({"export": dataclasses.asdict(report)}))
    else:
        _tell(report, contents)
    if report.missing or report.lost:
        ctx.exit(exits.PARTIAL)


def _tell(report: "JsonlReport", contents: bool) -> None:
    for content, reason in report.missing:
        say(f"not exported: {content}: {one_line(reason)}")
    for base, end in report.lost:
        say(f"not exported: the events at positions {base:,} to {end - 1:,}, which damage took from the log")
    held = f" and {count(report.contents, 'content')}" if contents else ""
    say(f"Wrote {count(report.events, 'event')}{held} ({size(report.bytes)}).")
