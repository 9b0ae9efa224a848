"""`locus statusline` as a command among the others: for its help, and with `--store`."""

import os

import click

from .access import put


@click.command("statusline")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print a line for the status bar of a coding agent.

    Reads the JSON that Claude Code gives to its status line from stdin, and says whether this session is
    recorded, what it and today cost as maintenance last counted it ("–" where that is unknown), and what
    needs attention: turns that nobody closed (`locus doctor` does), errors of hooks. Exits 0 always.
    `locus hooks install --statusline` sets it up.
    """
    from .statusline_entry import text

    given = ctx.find_root().obj
    put(text({**os.environ, **({"LOCUS_DIR": str(given)} if given else {})}) + "\n")
