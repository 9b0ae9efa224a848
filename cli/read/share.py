"""`locus share`: one session as one file that opens in any browser."""

import re
from collections.abc import Mapping

import click

import eventlog
from eventlog.exports import files as exported
from eventlog.query.people import allowed
from eventlog.view import document as pages
from eventlog.view.cleaning import Cleaner, of_this_machine
from eventlog.view.share import CHANGES, FILES, SharedParts, SharedSession, shared_session
from eventlog.view.stores import ViewedStores

from .. import complete
from ..access import open_store
from ..exits import usage_error
from ..options import force_option, json_option
from ..output import count, document, one_line, put, say, size
from ..progress import Progress

_TURNS = re.compile(r"(\d{0,6})\.\.(\d{0,6})")
_LAST = "last"


@click.command("share")
@click.argument("session", shell_complete=complete.sessions)
@click.option(
    "--to", "--html", "path", metavar="FILE", type=click.Path(), help="The file to write; - is stdout."
)
@click.option(
    "--turns", metavar="A..B", help="Only these turns of the session, counted from 1: 3..9, 3.., ..9."
)
@click.option(
    "--files",
    "which_files",
    type=click.Choice(FILES),
    default=CHANGES,
    show_default=True,
    help="What of files goes in: names alone, differences, also contents that turns made, or all contents.",
)
@click.option("--no-outputs", is_flag=True, help="Without what calls of tools gave back.")
@click.option("--keep-paths", is_flag=True, help="Leave the home directory and the user's name in texts.")
@click.option("--dry-run", is_flag=True, help="Say what would go in, and write nothing.")
@force_option
@json_option
def command(
    session: str, path: str | None, turns: str | None, which_files: str, no_outputs: bool, keep_paths: bool,
    dry_run: bool, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write a session as one page, to open in a browser or to send to somebody.

    SESSION is a session's id, or the beginning of it, or last. The page is that of locus view, with answers
    that are recorded in it: it needs no network, loads nothing and sends nothing. Every text passes the
    rules for secrets again; withheld contents stay out, and so do names of people unless [export] allows
    them. What goes in and what is left out is listed before the file is written. Nothing is uploaded.
    """
    if path is None and not dry_run:
        raise usage_error("--html FILE says where the page goes; --dry-run says what would be in it")
    if path == "-" and as_json:
        raise usage_error("--json reports on stdout, where the page goes; give --html FILE")
    first, last = _numbers(turns)
    if path not in (None, "-") and not dry_run:
        exported.check_free(str(path), force=force)
    parts = SharedParts(first, last, which_files, outputs=not no_outputs)
    with open_store() as store, Progress("reading the session"):
        home, user = ("", "") if keep_paths else of_this_machine()
        cleaner = Cleaner(store.redactor, allowed(store.fs, store.layout), home=home, user=user)
        name = _newest(store) if session == _LAST else session
        shared = shared_session(ViewedStores({store.project_name: store}), name, parts, cleaner)
    data = pages.document(shared.recording)
    written = None if dry_run else path
    if as_json:
        put(document({"share": {**_described(shared, len(data)), "path": written}}))
    else:
        for line in _lines(shared, len(data)):
            say(line)
    if written == "-":
        put(data)
    elif written is not None:
        with exported.staged(written, force=force) as file:
            file.write(data)
        if not as_json:
            say(f"Wrote {written} ({size(len(data))}).")


def _numbers(turns: str | None) -> tuple[int | None, int | None]:
    """The first and the last turn of `3..9`."""
    match = _TURNS.fullmatch(turns or "..")
    if match is None:
        raise usage_error(f"--turns {one_line(turns or '')} is not A..B, such as 3..9")
    first, last = (int(number) if number else None for number in match.groups())
    if first == 0 or (first and last and last < first):
        raise usage_error("--turns counts from 1, and its end does not come before its beginning")
    return first, last


def _newest(store: "eventlog.Store") -> str:
    return store.turn(_LAST).session_id


def _described(shared: SharedSession, size_bytes: int) -> dict[str, object]:
    return {
        "session": shared.recording.start.rpartition("/")[2],
        "title": shared.title,
        "turns": shared.turns,
        "turns_of_session": shared.turns_of_session,
        "files": shared.files,
        "contents": shared.contents,
        "bytes": size_bytes,
        "left_out": dict(shared.left_out),
        "removed": dict(shared.removed),
    }


def _lines(shared: SharedSession, size_bytes: int) -> "list[str]":
    """What goes in, and what does not."""
    of = f" of {shared.turns_of_session}" if shared.turns != shared.turns_of_session else ""
    files = f"{count(shared.files, 'name')} of files, {count(shared.contents, 'content')}"
    lines = [
        f"{one_line(shared.title)}: {shared.turns}{of} {'turn' if shared.turns == 1 else 'turns'}, {files}, "
        f"{size(size_bytes)}."
    ]
    lines += _counted("Taken out", shared.removed)
    return lines + _counted("Left out", shared.left_out)


def _counted(words: str, counts: "Mapping[str, int]") -> "list[str]":
    listed = ", ".join(f"{one_line(why)} ({number:,})" for why, number in sorted(counts.items()) if number)
    return [f"{words}: {listed}."] if listed else []
