"""Shared by the verbs: opening the store of the command line, and the `--json` option."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from eventlog.base import config
from eventlog.base.errors import EventLogError

if TYPE_CHECKING:
    from eventlog.store import Store

F = TypeVar("F", bound=Callable[..., Any])

# Commands that report unreadable events themselves, or repair them.
_OF_DAMAGE = ("verify", "repair", "salvage")

_opened: "list[Store]" = []


def open_store(ctx: click.Context, *, records: bool = False) -> "Store":
    """The store of `--store`, LOCUS_DIR, or the nearest `.locus`. Raises: NoStore.

    A command that `records` notes the store as one of this user's, for `--all-stores`.
    """
    from eventlog.store import Store

    store = Store.open(ctx.find_root().obj)
    if ctx.info_name not in _OF_DAMAGE:
        _opened.append(store)
    if records:
        from eventlog.multi_store import remember

        remember(store.layout.root, os.environ)
    if store.redactor.problem is not None:
        say(store.redactor.problem)
    return store


def start_maintenance() -> None:
    """After a command has answered: start the maintainer of each store that it opened and that needs it.

    No command waits for maintenance, and none fails for it. Commands about damage leave everything as it is.
    """
    from .maintainer import may_start, start, start_missing_facts

    for store in _opened:
        with contextlib.suppress(EventLogError, OSError):
            if config.read(store.fs, store.layout).briefing_at_start:
                start_missing_facts(store.layout.root)
            if may_start(store.layout.root) and _needs_maintenance(store):
                start(store.layout.root)


def _needs_maintenance(store: "Store") -> bool:
    from eventlog.hooks.deferred_lists import worktrees_with_open_lists
    from eventlog.maintenance import upkeep
    from eventlog.retention.trigger import is_asked_for

    return (
        upkeep.is_needed(store)
        or store.fs.exists(store.layout.erasing)
        or bool(worktrees_with_open_lists(store.fs, store.layout))
        or is_asked_for(store.fs, store.layout)
    )


def begin() -> None:
    """Forget the stores of an earlier command of this process."""
    _opened.clear()


def unread() -> tuple[range, ...]:
    """The positions that this command's answers left out, because damage took their events."""
    return tuple(positions for store in _opened for positions in store.unread)


def json_option(function: F) -> F:
    """The `--json` of every command that reads."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/cli.md has its shape).")(
        function
    )


def put(text: str | bytes) -> None:
    """Write data to stdout. Raises: OSError with its name."""
    with naming_stdout():
        click.echo(text, nl=False)


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
