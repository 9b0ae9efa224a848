"""Which address shows what a person named, and a page that opens it without naming the token to others."""

import html
import os
import tempfile
from collections.abc import Sequence
from urllib.parse import quote, urlencode

from eventlog.base.errors import NotFound
from eventlog.projections.definitions import SESSIONS_NEWEST_FIRST
from eventlog.query.lookup import names_a_turn
from eventlog.store import Store


def page_of(store: Store, name: str | None, paths: Sequence[str] = ()) -> str:
    """The address of what `name` means: a turn, a session, an event, a file; without one the newest session.

    Args: paths: what the repository may call a file of that name. Raises: NotFound.
    """
    if name is None:
        rows = store.query(
            f"select session_id from sessions order by {SESSIONS_NEWEST_FIRST} limit 1", []
        ).rows
        return f"/s/{quote(rows[0][0])}" if rows else "/"
    if names_a_turn(name):
        return f"/turn/{quote(store.turn(name).name)}"
    session = name.removeprefix("session:").removeprefix("sess-")
    rows = store.query("select session_id from sessions where session_id = $1", [session]).rows
    if rows:
        return f"/s/{quote(session)}"
    for path in paths:
        known = "select 1 from events where event_type = 'file' and path = $1 limit 1"
        if store.query(known, [path]).rows:
            return f"/file?{urlencode({'path': path})}"
    for address in (_turn, _event):
        try:
            return address(store, name)
        except NotFound:
            continue
    raise NotFound(
        f"{name!r} is no turn, session, event or recorded file. `locus log` and `locus session ls` list them."
    )


def _turn(store: Store, name: str) -> str:
    return f"/turn/{quote(store.turn(name).name)}"


def _event(store: Store, name: str) -> str:
    return f"/event/{quote(str(store.event(name)['event_id']))}"


def redirect_file(address: str) -> str:
    """A file that only this user may read and that leads to an address: a command line is read by others.

    Returns: its path, in a directory of its own.
    """
    directory = tempfile.mkdtemp(prefix="locus-view-")
    path = os.path.join(directory, "open.html")
    text = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" '
    text += f'content="0; url={html.escape(address)}">'
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{text}<title>Locus</title>\n")
    return path
