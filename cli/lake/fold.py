"""`locus lake fold`: the projections of all stores that published, as tables."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..exits import PARTIAL, exit_with
from ..options import json_option
from ..output import count, document, put, say
from ..progress import Progress
from .tables import catalog_help

if TYPE_CHECKING:
    from eventlog.lake.folding.driver import FoldedLake, Runner


@click.command("fold")
@click.argument("to", metavar="TO")
@click.option("--catalog", required=True, metavar="URI", help=catalog_help)
@click.option("--master", metavar="URL", help="Fold on Apache Spark: spark://HOST:PORT, or local[N].")
@click.option("--full", is_flag=True, help="Fold every store from nothing.")
@json_option
def command(to: str, catalog: str, master: str | None, full: bool, as_json: bool) -> None:
    """Make tables of turns, sessions and model calls.

    Folds each store that published since the last time, as that store itself does it: what SQL shows of it is
    what the tables `lake.llm_calls`, `lake.turns`, `lake.sessions` and `lake.sessions_master` have, under its
    policy. Can be repeated and stopped anywhere, any number at once. Exit code 4 where a store cannot be
    read: it is listed, and the others are folded.
    """
    from eventlog.lake.folding import driver
    from eventlog.lake.place import open_place

    place = open_place(to)
    with Progress("folding"), _runner(master) as runner:
        done = driver.fold(place, catalog, runner=runner, full=full)
    if as_json:
        put(document({"fold": asdict(done)}))
    else:
        _tell(done)
    if done.left:
        exit_with(PARTIAL)


def _runner(master: str | None) -> "AbstractContextManager[Runner]":
    """Runs tasks in this process, or on Spark."""
    if master is None:
        from eventlog.lake.folding.driver import in_process

        return nullcontext(in_process)
    from eventlog.lake.folding import spark

    return spark.runner(master)


def _tell(done: "FoldedLake") -> None:
    for line in done.left:
        say(f"left: {line}")
    if done.folded:
        rows = ", ".join(f"{name} {number:,}" for name, number in done.rows.items())
        stores = f"{count(done.folded, 'store')} of {done.stores:,}, {done.in_full:,} in full"
        say(f"Folded {stores}. Rows: {rows}.")
    if done.wide.added:
        rows = ", ".join(f"{name} {number:,}" for name, number in done.wide.rows.items())
        once_more = count(done.wide.touched, "session")
        say(f"Over all stores: {rows}; {once_more} with parts of several stores.")
    if not (done.folded or done.removed or done.wide.added or done.left):
        say(f"Nothing to fold: the tables have what {count(done.stores, 'store')} published.")
