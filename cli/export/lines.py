"""Shared by the exports of conversations: their options, and documents written as lines of JSON."""

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..access import put
from ..since import Since

if TYPE_CHECKING:
    from eventlog.store import Store

F = TypeVar("F", bound=Callable[..., Any])


def options(function: F) -> F:
    """--to, --session, --since, --force."""
    for option in (
        click.option("--force", is_flag=True, help="Replace FILE if it exists."),
        click.option("--since", type=Since(), metavar="WHEN", help="Only sessions active since then."),
        click.option("--session", metavar="SESSION",
        help="Only this session, with all its parts: its id, or the beginning of it."),
        click.option("--to", "path", required=True, metavar="FILE", type=click.Path(),
                     help="The file to write; - is stdout."),
    ):  # fmt: skip
        function = option(function)
    return function


def session_of(store: "Store", name: str | None) -> "tuple[str, ...] | None":
    """The ids of the session of that name. Raises: NotFound, Ambiguous."""
    if name is None:
        return None
    from eventlog.recorder.sessions import parts

    return parts(store, name)


def check(ctx: click.Context, path: str, force: bool, as_json: bool) -> None:
    """Raises: Refused, NotFound, UsageError, before any work is done."""
    from eventlog.exports import files

    if path != "-":
        files.check_free(path, force=force)
    elif as_json:
        raise click.UsageError("--json reports on stdout, where the lines go; give --to FILE", ctx)


def write(documents: Iterable[dict[str, Any]], path: str, force: bool) -> int:
    """Write one document a line. Returns: how many."""
    from eventlog.base import jsontext
    from eventlog.exports import files

    written = 0
    with contextlib.nullcontext(None) if path == "-" else files.staged(path, force=force) as file:
        for document in documents:
            line = jsontext.encode_fast(document) + b"\n"
            if file is None:
                put(line)
            else:
                file.write(line)
            written += 1
    return written
