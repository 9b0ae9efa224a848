"""`locus store pin`: keep the contents of a session or a turn, whatever a rule says."""

import click

from ..access import open_store, say


@click.command("pin")
@click.argument("names", metavar="SESSION|TURN…", nargs=-1, required=True)
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Keep a session or a turn, whatever a rule says.

    No rule releases what is pinned, and it cannot be archived. A pinned turn keeps its whole
    session. `locus store unpin` takes it back.
    """
    pin(ctx, names, undo=False)


def pin(ctx: click.Context, names: tuple[str, ...], *, undo: bool) -> None:
    """Pin or unpin each of the names."""
    from eventlog.query.lookup import TurnRef, names_a_turn
    from eventlog.recorder import sessions
    from eventlog.retention import retention

    with open_store(ctx) as store:
        # All names first: a wrong one changes nothing.
        wanted: list[TurnRef | str] = []
        for name in names:
            is_turn = names_a_turn(name) or "_" in name
            if is_turn and not name.startswith("session:"):
                wanted.append(store.turn(name))
            else:
                wanted += sessions.parts(store, name)
        for what in wanted:
            called = f"turn {what.name}" if isinstance(what, TurnRef) else f"session {what}"
            if retention.pin(store, what, undo=undo):
                say(f"{called} is no longer pinned." if undo else f"{called} is pinned.")
            else:
                say(f"{called} is {'not pinned' if undo else 'pinned already'}.")
