"""What the verbs share: opening the store that the command line means, and the `--json` option."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from eventlog.store import Store

F = TypeVar("F", bound=Callable[..., Any])


def open_store(ctx: click.Context) -> "Store":
    """The store of `--store`, LOCUS_DIR, or the nearest `.locus`. Raises: NoStore."""
    from eventlog.store import Store

    return Store.open(ctx.find_root().obj)


def json_option(function: F) -> F:
    """The `--json` of every command that reads."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/cli.md has its shape).")(
        function
    )


def put(text: str | bytes) -> None:
    """Data to stdout."""
    click.echo(text, nl=False)


def say(text: str) -> None:
    """Words to stderr."""
    click.echo(text, err=True)
