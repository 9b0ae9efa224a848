"""`locus store salvage`: whatever verifies, into a new store."""

import dataclasses
import os
from typing import TYPE_CHECKING

import click

from eventlog.base import identity

from .. import exits
from ..access import json_option, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count, one_line

if TYPE_CHECKING:
    from eventlog.repair.salvage import SalvageReport

_SHOWN = 20


@click.command("salvage")
@click.argument("dest", type=click.Path())
@json_option
@click.pass_context
def command(ctx: click.Context, dest: str, as_json: bool) -> None:
    """Write everything that verifies into a new store at DEST.

    For a store that no longer opens, also one without STORE or manifests (name its directory with
    --store). The store itself is not changed. Exit code 4 when something was left behind.
    """
    from eventlog.base.errors import NoStore
    from eventlog.repair.salvage import salvage

    root = ctx.find_root().obj or identity.find(os.getcwd(), os.environ)
    if root is None:
        raise NoStore("no Locus store here or above; `--store DIR` names the directory that is to be saved.")
    with Progress("saving") as progress:
        report = salvage(root, dest, progress=progress)
    if as_json:
        put(document({"salvage": dataclasses.asdict(report)}))
    else:
        _tell(report)
    if report.skipped or report.gaps:
        ctx.exit(exits.PARTIAL)


def _tell(report: "SalvageReport") -> None:
    for path, what in report.skipped[:_SHOWN]:
        say(f"left behind: {path}: {one_line(what)}")
    if len(report.skipped) > _SHOWN:
        say(f"left behind: {len(report.skipped) - _SHOWN} more; --json lists all")
    for base, end in report.gaps[:_SHOWN]:
        say(f"not found: the events at positions {base} to {end - 1}")
    if report.ledger_left_out:
        say(f"left out: {count(report.ledger_left_out, 'note')} of consumers' positions, which have moved")
    say(f"Saved {count(report.events, 'event')} and {count(report.contents, 'content')} to {report.dest}.")
