"""`locus store backup`: a copy of the store elsewhere."""

import dataclasses
from typing import TYPE_CHECKING

import click

from eventlog.base.errors import Corruption

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count, size

if TYPE_CHECKING:
    from eventlog.maintenance.backup import BackupReport


@click.command("backup")
@click.argument("dest", type=click.Path())
@click.option("--link", is_flag=True, help="Share packs and segments with the store, on the same disk.")
@click.option("--prune", is_flag=True, help="Remove from DEST what the store has dropped since.")
@click.option("--check", is_flag=True, help="Read all of DEST; copy anew what does not verify.")
@json_option
@click.pass_context
def command(ctx: click.Context, dest: str, link: bool, prune: bool, check: bool, as_json: bool) -> None:
    """Copy the store to the directory DEST, or bring the copy there up to date.

    DEST is a store: `locus --store DEST` reads it. Others may work meanwhile; a backup that is
    killed leaves the copy before it, and is finished by repeating it. Never record into DEST. Exit
    code 12 when files of the store are damaged.
    """
    from eventlog.maintenance.backup import backup

    with open_store(ctx) as store, Progress("copying") as progress:
        report = backup(store, dest, link=link, prune=prune, check=check, progress=progress)
    if as_json:
        put(document({"backup": dataclasses.asdict(report)}))
    else:
        _tell(report)
    if report.damaged:
        ctx.exit(Corruption.exit_code)


def _tell(report: "BackupReport") -> None:
    for what in report.damaged:
        say(f"damaged: {what}")
    if report.repaired:
        say(f"{count(report.repaired, 'file')} of the copy did not verify and came anew.")
    shared = f", {count(report.linked, 'file')} shared" if report.linked else ""
    gone = f", {count(report.pruned, 'file')} removed" if report.pruned else ""
    say(
        f"{report.dest} holds the log up to position {report.next_position:,}: "
        f"{count(report.packs, 'pack')}, {count(report.segments, 'segment')} and "
        f"{count(report.journals, 'journal')} new ({size(report.bytes)} written{shared}{gone})."
    )
