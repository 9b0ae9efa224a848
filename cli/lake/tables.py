"""`locus lake init` and `commit`: Iceberg tables of what was published."""

from dataclasses import asdict

import click

from ..options import json_option
from ..output import count, document, put, say
from ..progress import Progress

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
    others = bool(place.list(tables.TABLE_OBJECTS))
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

    Adds the rows of new files and takes out those of files that are gone, in one step. Anybody with the right
    may do it, any number at once, and at any time: what is there already stays as it is.
    """
    from eventlog.lake import tables
    from eventlog.lake.place import open_place

    place = open_place(to)
    with Progress("committing"):
        done = tables.commit(place, catalog)
    if as_json:
        put(document({"commit": asdict(done)}))
    elif done.added or done.removed:
        added = f"{count(len(done.added), 'file')} added, with {count(done.rows_added, 'row')}"
        say(f"{tables.TABLE}: {added}; {count(len(done.removed), 'file')} taken out.")
    else:
        say(f"Nothing to commit: {tables.TABLE} has what was published.")
