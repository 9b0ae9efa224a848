"""`locus report`: a page of figures and charts, as one HTML file."""

import dataclasses
import datetime

import click

from eventlog.exports import files
from eventlog.query import prices
from eventlog.reports import overview, page

from ..exits import usage_error
from ..lake.asking import asked_log, lake_options
from ..options import force_option, json_option, since_option
from ..output import document, put, say, size
from ..progress import Progress


@click.command("report")
@click.option(
    "--to", "--html", "path", required=True, metavar="FILE", type=click.Path(),
    help="The file to write; - is stdout.",
)  # fmt: skip
@since_option
@lake_options
@force_option
@json_option
def command(
    path: str, since: int | None, lake: str | None, lake_events: int, force: bool, as_json: bool
) -> None:
    """Write a page of figures and charts to open in a browser.

    One file that needs no network and runs no script: cost and tokens by day and model, tools and errors,
    hot files, agents and sessions. Titles and paths that are recorded stand in it, contents of files do not.
    With --lake it is of all stores that published to a place.
    """
    if path == "-" and as_json:
        raise usage_error("--json reports on stdout, where the page goes; give --to FILE")
    if path != "-":
        files.check_free(path, force=force)
    now = datetime.datetime.now(datetime.UTC)
    with asked_log(lake, lake_events) as log, Progress("counting"), log.asking() as query:
        seen = overview.gather(query, log.name, prices.load(), since, now)
        paths = [dataclasses.replace(row, key=log.redacted(str(row.key))) for row in seen.paths]
    seen = dataclasses.replace(seen, paths=paths)
    data = page.render(seen).encode()
    if path == "-":
        put(data)
        return
    with files.staged(path, force=force) as file:
        file.write(data)
    if as_json:
        put(document({"report": {"path": path, "bytes": len(data)}}))
    else:
        say(f"Wrote {path} ({size(len(data))}).")
