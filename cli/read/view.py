"""`locus view`: the store in a browser."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

import click

import eventlog

from .. import complete
from ..access import store_option
from ..exits import usage_error
from ..filters import names_of
from ..lake.asking import lake_options, viewed_lake
from ..output import put, say

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command("view")
@click.argument("what", required=False, metavar="[WHAT]", shell_complete=complete.turns_and_sessions)
@click.option("--no-browser", is_flag=True, help="Open no browser, and print the address.")
@click.option(
    "--print-url", is_flag=True, help="Print the address, which holds the token, to standard output."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="[default: any that is free]"
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option(
    "--allow-host", "names", multiple=True, metavar="NAME", help="Answer to this name, too; repeatable."
)
@click.option("--all-stores", is_flag=True, help="Each store that you have made or recorded into.")
@lake_options
def command(
    what: str | None,
    no_browser: bool,
    print_url: bool,
    port: int,
    host: str,
    names: tuple[str, ...],
    all_stores: bool,
    lake: str | None,
    lake_events: int,
) -> None:
    """Show what is recorded in a browser: a slider over the turns, and all files as they were.

    WHAT opens there: a turn, a session, an event or a file; without it the newest session. It reads
    only. It listens on this machine alone, and anybody with the address can read everything: the address
    holds a token, which ends with the command. With --lake it shows the cost, sessions, errors and decisions
    that stores published to a place, and takes SQL. Needs the extra view. Ctrl-C ends it.
    """
    from eventlog.view import server
    from eventlog.view.guard import Guard

    server.check_installed()
    with contextlib.ExitStack() as stack:
        viewed = None
        if lake is None:
            paths, page = _stores(what, all_stores)
        else:
            if what is not None or all_stores:
                raise usage_error("--lake means all stores of a place; give it without WHAT and --all-stores")
            viewed = stack.enter_context(viewed_lake(lake, lake_events))
            paths, page = {viewed.name: lake}, "/cost"
        listener = server.listening(host, port)
        port = listener.getsockname()[1]
        guard = Guard(port, (*names, *(() if host in _LOOPBACK else (host,))))
        if host not in _LOOPBACK:
            say(f"Other machines can reach {host}:{port}. Anybody with the address can read everything.")
        shown = "127.0.0.1" if host in (*_LOOPBACK, "0.0.0.0", "::") else host
        url = f"http://{shown}:{port}{page}#t={guard.token}"
        with _browser(url, wanted=not (no_browser or print_url)) as opens:
            if print_url:
                put(f"{url}\n")
            else:
                say(f"Locus shows {', '.join(paths)} at {url if no_browser else url.partition('#')[0]}")
                say("Ctrl-C ends it.")
            server.serve(server.Viewer(paths, guard, viewed), listener, lambda _stop: opens())


def _stores(what: str | None, all_stores: bool) -> tuple[dict[str, str], str]:
    """The directories of the stores by their names, and the page to begin with."""
    from eventlog.view import address

    if all_stores and store_option() is not None:
        raise usage_error("--store names one store, and --all-stores means all; give one of them")
    with eventlog.Store.open(store_option()) as store:
        page = address.page_of(store, what, _paths(store, what))
        paths = {store.project_name: store.layout.root}
    if all_stores:
        paths = _all_stores()
        page = "/" if what is None else f"/store/{quote(store.project_name)}{page}"
    return paths, page


def _paths(store: "eventlog.Store", typed: str | None) -> Sequence[str]:
    """What the repository may call a file that is named so."""
    try:
        return names_of(store, typed) if typed else ()
    except eventlog.NotFound:
        return ()  # outside of the repository


def _all_stores() -> dict[str, str]:
    from eventlog import multi_store

    with multi_store.opened((), every=True) as known:
        for path in known.gone:
            say(f"left out: {path}")
        return {name: store.layout.root for name, store in known.stores.items()}


@contextlib.contextmanager
def _browser(url: str, *, wanted: bool) -> Iterator[Callable[[], None]]:
    """A function that opens the browser, through a file: a command line is read by other users."""
    if not wanted:
        yield lambda: None
        return
    import webbrowser

    from eventlog.view.address import redirect_file

    path = redirect_file(url)

    def opens() -> None:
        if not webbrowser.open(f"file://{path}"):
            say(f"No browser could be opened. Open this address: {url}")

    try:
        yield opens
    finally:
        shutil.rmtree(os.path.dirname(path), ignore_errors=True)
