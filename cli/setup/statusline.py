"""`locus statusline` as a command among the others: for its help, and with `--store`."""

import os

import click

from ..access import put


@click.command("statusline")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print a line for the status bar of a coding agent.

    Reads the JSON that Claude Code passes to its status line from stdin, and shows whether this session is
    recorded, the costs of the session and of today as maintenance last counted them ("–" where unknown),
    and what needs attention: turns to close (`locus doctor` does), errors of hooks. Always exits 0.
    `locus hooks install --statusline` sets it up.
    """
    from ..statusline_entry import text

    store_option = ctx.find_root().obj
    put(text({**os.environ, **({"LOCUS_DIR": str(store_option)} if store_option else {})}) + "\n")
