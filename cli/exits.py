"""The exit codes of `locus` that no error class carries (docs/cli.md lists them all), and endings by them."""

from typing import NoReturn

import click

ERROR, USAGE, REFUSED, PARTIAL = 1, 2, 3, 4
INTERRUPTED = 128 + 2  # SIGINT
PIPE_CLOSED = 128 + 13  # SIGPIPE


def usage_error(message: str) -> click.UsageError:
    """The command line makes no sense: an error that names the command."""
    return click.UsageError(message, click.get_current_context())


def exit_with(code: int) -> NoReturn:
    """End the command with this exit code."""
    raise click.exceptions.Exit(code)
