"""`locus store unpin`: take back a pin."""

import click

from .pin import pin


@click.command("unpin")
@click.argument("names", metavar="SESSION|TURN…", nargs=-1, required=True)
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Take back a pin.

    Rules may release the session again, or the turn's, and it can be archived.
    """
    pin(ctx, names, undo=True)
