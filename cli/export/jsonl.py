"""`locus export jsonl`: the log as lines of JSON."""

import sys

import click

from eventlog.base.config import PEOPLE
from eventlog.exports.jsonl import JsonlReport, export, write

from ..access import open_store
from ..exits import PARTIAL, exit_with, usage_error
from ..options import force_option, json_option
from ..output import count, document, naming_stdout, one_line, put, say, size
from ..progress import Progress


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
@force_option
@json_option
def command(path: str, contents: bool, since: int, people: str | None, force: bool, as_json: bool) -> None:
    """Write the log as lines of JSON, losslessly except for people (--people full has these too).

    A header, one event a line, and a last line with a digest of the others. With --contents the file
    holds all that `locus import jsonl` needs to make an equal store. What is lost or cannot be read is
    listed, and the exit code is 4.
    """
    to_stdout = path == "-"
    if to_stdout and as_json:
        raise usage_error("--json reports on stdout, where the events go; give --to FILE")
    with open_store() as store, Progress("exporting"):
        if to_stdout:
            with naming_stdout():
                report = write(store, sys.stdout.buffer, contents=contents, since=since, people=people)
        else:
            report = export(store, path, contents=contents, since=since, force=force, people=people)
    if as_json:
        put(document({"export": report}))
    else:
        _tell(report, contents)
    if report.missing or report.lost:
        exit_with(PARTIAL)


def _tell(report: JsonlReport, contents: bool) -> None:
    for content, reason in report.missing:
        say(f"not exported: {content}: {one_line(reason)}")
    for base, end in report.lost:
        say(f"not exported: the events at positions {base:,} to {end - 1:,}, which damage took from the log")
    held = f" and {count(report.contents, 'content')}" if contents else ""
    say(f"Wrote {count(report.events, 'event')}{held} ({size(report.bytes)}).")
