"""`locus redo`: bring back what the last undo took away (docs/undo.md)."""

from typing import Any

import click

from ..access import open_store
from .undo_plan import plan_options, run


@click.command("redo")
@plan_options
@click.pass_context
def command(ctx: click.Context, /, into: str | None, **how: Any) -> None:
    """Bring back what the last undo took away.

    Again for the undo before it. An agent's new turn ends this; what a person changed meanwhile is
    kept, or is a conflict.
    """
    with open_store(ctx) as store:
        run(ctx, store, lambda: store.redo_plan(into=into), **how)
