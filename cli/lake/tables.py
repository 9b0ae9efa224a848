"""`locus lake init` and `commit`: Iceberg tables of what was published."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..exits import PARTIAL, exit_with
from ..options import json_option
from ..output import count, document, put, say
from ..progress import Progress

if TYPE_CHECKING:
    from eventlog.lake.tables import Committed

catalog_help = "sqlite:////FILE, postgresql+psycopg2://USER@HOST/DATABASE, or https://… (REST)."


@click.command("init")
@click.argument("to", metavar="TO")
@click.option("--catalog", required=True, metavar="URI", help=catalog_help)
@json_option
def init(to: str, catalog: str, as_json: bool) -> None:
    """Make the Iceberg tables of a place.

    The table `lake.events` names the published files themselves; nothing is copied. Engines find it in the
    catalog, which calls itself `locus`. Can be repeated: it adds the columns of newer versions.
    """
    from eventlog.lake import tables
    from eventlog.lake.place import open_place

    place = open_place(to)
    others = bool(place.list(tables.objects_of(tables.TABLE)))
    with Progress("making tables"):
        made = tables.init(place, catalog)
    if made and others:
        say(
            "The place has metadata of tables that this catalog does not know. A place has one catalog: "
            "`locus lake maintain` with this one deletes, after a day, what only another names."
        )
    if as_json:
        put(document({"init": {"to": place.uri, "table": tables.TABLE, "made": made}}))
    elif made:
        say(f"Made the table {tables.TABLE} of {place.uri}. `locus lake commit` fills it.")
    else:
        say(f"The table {tables.TABLE} of {place.uri} is there already, with the columns of this version.")


@click.command("commit")
@click.argument("to", metavar="TO")
@click.option("--catalog", required=True, metavar="URI", help=catalog_help)
@json_option
def commit(to: str, catalog: str, as_json: bool) -> None:
    """Bring the tables up to what was published.

    Adds the rows of new files and takes out those of files that are gone, in one step; out of the tables that
    `locus lake fold` made, what an erasure or a narrower policy took out. Anybody with the right may do it,
    any number at once, and at any time: what is there already stays as it is. Exit code 4 where the right to
    a table is missing.
    """
    from eventlog.lake import tables
    from eventlog.lake.place import open_place

    place = open_place(to)
    with Progress("committing"):
        done = tables.commit(place, catalog)
    if as_json:
        put(document({"commit": asdict(done)}))
    else:
        _tell(done)
    if done.left:
        exit_with(PARTIAL)


def _tell(done: "Committed") -> None:
    from eventlog.lake import tables

    for line in done.left:
        say(f"left: {line}")
    if done.added or done.removed:
        added = f"{count(len(done.added), 'file')} added, with {count(done.rows_added, 'row')}"
        say(f"{tables.TABLE}: {added}; {count(len(done.removed), 'file')} taken out.")
    for name, files in done.dead.items():
        say(
            f"{name}: {count(len(files), 'file')} taken out, as it may hold what was erased. "
            "`locus lake fold` makes it again, without."
        )
    if not (done.left or done.added or done.removed or done.dead):
        say(f"Nothing to commit: {tables.TABLE} has what was published.")
