"""`locus import jsonl`: the log back from lines of JSON."""

import sys

import click

import eventlog
from eventlog.exports.jsonl_import import JsonlImportReport, load, read

from ..access import open_store
from ..exits import PARTIAL, exit_with
from ..options import json_option
from ..output import count, document, one_line, put, say
from ..progress import Progress, seal_shown


@click.command("jsonl")
@click.argument("file", type=click.Path())
@click.option("--salvage", is_flag=True, help="Take the valid lines of a damaged file.")
@json_option
def command(file: str, salvage: bool, as_json: bool) -> None:
    """Take in the log that `locus export jsonl` wrote to FILE; - is standard input.

    The file is checked as a whole before anything is written. Events that the store has are skipped,
    so repeating is safe, and finishes an import that was killed. With --salvage a damaged file is not
    refused: its invalid lines are listed, and the exit code is 4.
    """
    with open_store(records=True) as store:
        with Progress("importing"):
            report = _load(store, file, salvage)
        seal_shown(store)
    if as_json:
        put(document({"import": report}))
    else:
        _tell(report)
    if report.skipped:
        exit_with(PARTIAL)


def _load(store: "eventlog.Store", file: str, salvage: bool) -> JsonlImportReport:
    if file != "-":
        return load(store, file, salvage=salvage)
    return read(store, sys.stdin.buffer, "standard input", salvage=salvage)


def _tell(report: JsonlImportReport) -> None:
    for number, reason in report.skipped:
        say(f"line {number:,} skipped: {one_line(reason)}")
    known_before = f" ({report.known:,} known before)" if report.known else ""
    held = f" and {count(report.contents, 'content')}" if report.contents_included else ""
    held += f" ({report.known_contents:,} known before)" if report.known_contents else ""
    say(f"Imported {count(report.events, 'event')}{known_before}{held} of {one_line(report.project_name)}.")
    if report.foreign:
        say(f"They are of another repository ({one_line(report.repo_hash)}) than this store.")
    if not report.contents_included:
        say("The file has no contents (--contents was not given): turns cannot be replayed from it.")
    if report.ledger_left_out:
        say(
            f"{count(report.ledger_left_out, 'note')} of how far an export had come left out: positions "
            "differ here. The next export starts over."
        )
