"""`locus report`: a page of figures and charts, as one HTML file."""

import dataclasses
import datetime

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..since import Since
from ..text import size


@click.command("report")
@click.option(
    "--to", "--html", "path", required=True, metavar="FILE", type=click.Path(),
    help="The file to write; - is stdout.",
)  # fmt: skip
@click.option("--since", type=Since(), metavar="WHEN", help="A date, a time, or an age: 2026-01-31, 3d, 12h.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@json_option
@click.pass_context
def command(ctx: click.Context, path: str, since: int | None, force: bool, as_json: bool) -> None:
    """Write a page of figures and charts to open in a browser.

    One file that needs no network and runs no script: cost and tokens by day and model, tools and errors,
    hot files, agents and sessions. Titles and paths that are recorded stand in it, contents of files do not.
    """
    from eventlog.exports import files
    from eventlog.query import prices
    from eventlog.reports import figures, overview, page

    if path == "-" and as_json:
        raise click.UsageError("--json reports on stdout, where the page goes; give --to FILE", ctx)
    if path != "-":
        files.check_free(path, force=force)
    now = datetime.datetime.now(datetime.UTC)
    with open_store(ctx) as store, figures.asking(store) as query, Progress("counting"):
        seen = overview.gather(query, store.project_name, prices.load(), since, now)
        paths = [dataclasses.replace(row, key=store.redactor.text(str(row.key))) for row in seen.paths]
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
