"""`locus lake verify` and `maintain`: a place and its tables in order."""

from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..access import open_store, store_option
from ..exits import ERROR, PARTIAL, exit_with
from ..options import json_option
from ..output import count, document, put, say
from ..progress import Progress
from .tables import catalog_help

if TYPE_CHECKING:
    from eventlog.lake.maintain import Maintained
    from eventlog.lake.verify import LakeVerified


@click.command("verify")
@click.argument("to", metavar="TO")
@click.option("--catalog", metavar="URI", help=f"Check these tables, too: {catalog_help}")
@click.option("--read", "reads", is_flag=True, help="Read every object whole: checksums and hashes.")
@click.option("--here", is_flag=True, help="Compare the rows of the store here with its own log, too.")
@json_option
def verify(to: str, catalog: str | None, reads: bool, here: bool, as_json: bool) -> None:
    """Check what was published, and the tables of it.

    Reads names, the ends of all files and the tables of packs: chains without gaps, counts of rows, nothing
    left of what was erased. With --catalog it folds every store from nothing and compares that with the
    tables that `locus lake fold` made: all rows and columns. Changes nothing. Exit code 1 where something is
    not as it should be; each such line says what to do.
    """
    from eventlog.lake import verify as checking
    from eventlog.lake.place import open_place

    place = open_place(to)
    with ExitStack() as stack:
        source: Any = None
        if here or store_option() is not None:
            from eventlog.lake import source as sources
            from eventlog.lake.policy import Policy

            store = stack.enter_context(open_store())
            view = stack.enter_context(store.view())
            source = sources.opened(store, view, Policy.of(store.fs, store.layout))
        with Progress("verifying"):
            result = checking.verify(place, catalog, reads=reads, source=source)
    if as_json:
        put(document({"verify": asdict(result)}))
    else:
        _tell_verified(result)
    if result.findings:
        exit_with(ERROR)


def _tell_verified(result: "LakeVerified") -> None:
    for finding in result.findings:
        say(f"{finding.where}: {finding.what}. To do: {finding.todo}.")
    unfolded = [count(len(result.unfolded), "store")] if result.unfolded else []
    unfolded += ["what is over all stores"] if result.unfolded_wide else []
    if unfolded:
        say(f"Not folded yet: {' and '.join(unfolded)}. `locus lake fold` does it.")
    rows = "" if result.table_rows is None else f" The table has {count(result.table_rows, 'row')}."
    compared = f" {count(result.compared, 'file')} compared with the log here." if result.compared else ""
    if result.projected:
        compared += f" {count(result.projected, 'file')} of projections compared."
    say(
        f"{count(result.stores, 'store')}: {count(result.files, 'file')} with {count(result.rows, 'row')}, "
        f"{count(result.packs, 'pack')}.{rows}{compared} {count(len(result.findings), 'finding')}."
    )


@click.command("maintain")
@click.argument("to", metavar="TO")
@click.option("--catalog", metavar="URI", help=f"Keep these tables in order, too: {catalog_help}")
@json_option
def maintain(to: str, catalog: str | None, as_json: bool) -> None:
    """Merge small files, and delete what nothing needs any more.

    Merges the small files of each store, brings the tables up to that, expires snapshots that are older than
    a day or reach rows that were erased, and deletes what is left of both, also of the tables that
    `locus lake fold` made. Objects that nothing ever named go
    after a day. Others may publish, commit and read meanwhile; what a killed run left, the next one finishes.
    Exit code 4 where something could not be done, as for want of a right: it is listed.
    """
    from eventlog.lake import maintain as maintaining
    from eventlog.lake.place import open_place

    place = open_place(to)
    if catalog is None and place.directories("tables"):
        say("The place has tables: without --catalog what they may name stays.")
    with Progress("maintaining"):
        done = maintaining.maintain(place, catalog)
    if as_json:
        put(document({"maintain": asdict(done)}))
    else:
        _tell_maintained(done)
    if done.left:
        exit_with(PARTIAL)


def _tell_maintained(done: "Maintained") -> None:
    for line in done.left:
        say(f"left: {line}")
    if done.merged:
        say(f"Merged {count(done.merged, 'file')} into {done.merged_into}.")
    if done.expired:
        say(f"Expired {count(done.expired, 'snapshot')} of the tables.")
    if done.deleted:
        say(f"Deleted {count(done.deleted, 'object')}.")
    if not (done.merged or done.expired or done.deleted or done.left):
        say("Nothing to do.")
