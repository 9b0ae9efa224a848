"""Standard output and error, and the stores that an answer comes from: what each command needs at once."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from eventlog import Store

# The stores that this command's answers come from.
opened: "list[Store]" = []


# The last of these gets what commands put, instead of standard output (all_stores.py).
sinks: "list[Callable[[str | bytes, bool | None], None]]" = []


def unread() -> tuple[range, ...]:
    """The positions that this command's answers left out, because damage took their events."""
    return tuple(positions for store in opened for positions in store.unread)


def put(text: str | bytes, *, colour: bool | None = None) -> None:
    """Write data to stdout. Raises: OSError with its name.

    Args: colour: whether to leave colours in; None where that is for a terminal alone.
    """
    if sinks:
        sinks[-1](text, colour)
        return
    with naming_stdout():
        click.echo(text, nl=False, color=colour)


@contextlib.contextmanager
def naming_stdout() -> Iterator[None]:
    """Errors of writing to standard output carry its name, as those of files do."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = "standard output"
        raise


def say(text: str) -> None:
    """Write a message to stderr; a failure to do so changes nothing."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


def can_ask() -> bool:
    """Whether there is a terminal, to ask a person and to read the answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()
