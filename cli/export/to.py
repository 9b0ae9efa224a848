"""The target of an export: `--to`, or the argument that two exports took in 0.1."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

_Command = Callable[..., Any]


def to_option(kind: str) -> Callable[[_Command], _Command]:
    """`--to`, which the command gets as `path`. Args: kind: what it names, FILE or DIRECTORY."""

    def decorate(function: _Command) -> _Command:
        @wraps(function)
        def command(older: str | None, path: str | None, **rest: Any) -> None:
            if (older is None) == (path is None):
                context = click.get_current_context()
                raise click.UsageError(f"say once where to write it: --to {kind}", context)
            function(path=older if path is None else path, **rest)

        help = f"The {kind.lower()} to write.  [required]"
        named = click.option("--to", "path", metavar=kind, type=click.Path(), help=help)(command)
        return click.argument("older", metavar="", required=False, type=click.Path())(named)

    return decorate
