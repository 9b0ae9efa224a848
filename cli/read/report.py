"""`locus report`: a page of figures and charts, as one HTML file."""

from contextlib import ExitStack
from datetime import tzinfo

import click

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

from ..access import open_store
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
    errors that are recorded stand in it, prompts and contents of files do not. With --lake it is of all
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
    home, user = of_this_machine()
    with ExitStack() as stack:
        stores, cleaner = None, Cleaner(Redactor(), People(FULL))  # what was published holds no secret
        if lake is None:
            store = stack.enter_context(open_store())
            stores = ViewedStores({store.project_name: store})
            cleaner = Cleaner(store.redactor, allowed(store.fs, store.layout), home=home, user=user)
        log = stack.enter_context(asked_log(lake, lake_events))
        query = stack.enter_context(log.asking())
        refuse_unknown(scope, query)
        return report(
            log.name,
            query,
            prices.load(),
            with_commits(scope, query, None if scope.commits else False),
            clock,
            cleaner,
            stores,
        )
