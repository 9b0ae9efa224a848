"""`locus report`: a page of figures and charts, as one HTML file."""

from datetime import tzinfo

import click

import eventlog
from eventlog.exports import files
from eventlog.query import prices
from eventlog.query.people import FULL, People, allowed
from eventlog.reports.scope import Scope
from eventlog.secrets.redaction import Redactor
from eventlog.view.cleaning import Cleaner, of_this_machine
from eventlog.view.counted import with_commits
from eventlog.view.document import Recording
from eventlog.view.document import document as page
from eventlog.view.report import report
from eventlog.view.stores import ViewedStores

from ..exits import usage_error
from ..lake.asking import asked_log, lake_options
from ..options import force_option, json_option
from ..output import document, put, say, size
from ..progress import Progress
from .scope import refuse_unknown, scope_options


@click.command("report")
@click.option(
    "--to", "--html", "path", required=True, metavar="FILE", type=click.Path(),
    help="The file to write; - is stdout.",
)  # fmt: skip
@scope_options
@lake_options
@force_option
@json_option
def command(
    path: str,
    scope: Scope,
    clock: tzinfo | None,
    lake: str | None,
    lake_events: int,
    force: bool,
    as_json: bool,
) -> None:
    """Write a page of figures and charts to open in a browser.

    One file that needs no network, loads nothing and sends nothing: cost and tokens by day, model and
    project, tools and errors, hot files, agents, people and sessions with their turns. Titles, paths and
    recorded errors are in it, prompts and contents of files are not. With --lake it is of all
    stores that published to a place.
    """
    if path == "-" and as_json:
        raise usage_error("--json reports on stdout, where the page goes; give --to FILE")
    if path != "-":
        files.check_free(path, force=force)
    with Progress("counting"):
        data = page(_recording(scope, clock, lake, lake_events))
    if path == "-":
        put(data)
        return
    with files.staged(path, force=force) as file:
        file.write(data)
    if as_json:
        put(document({"report": {"path": path, "bytes": len(data)}}))
    else:
        say(f"Wrote {path} ({size(len(data))}).")


def _recording(scope: Scope, clock: tzinfo | None, lake: str | None, lake_events: int) -> Recording:
    """What the page has, of a lake or of the store of the command line."""
    with asked_log(lake, lake_events) as log, log.asking() as query:
        refuse_unknown(scope, query)
        counted = with_commits(scope, query, None if scope.commits else False)
        stores = None if log.store is None else ViewedStores({log.name: log.store})
        return report(log.name, query, prices.load(), counted, clock, _cleaner(log.store), stores)


def _cleaner(store: "eventlog.Store | None") -> Cleaner:
    if store is None:
        return Cleaner(Redactor(), People(FULL))  # what was published holds no secret
    home, user = of_this_machine()
    return Cleaner(store.redactor, allowed(store.fs, store.layout), home=home, user=user)
