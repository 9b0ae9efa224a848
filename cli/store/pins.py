"""`locus store pin`, `unpin` and `archive`: which sessions keep their contents."""

import click

from ..access import open_store, say
from ..text import count


@click.command("pin")
@click.argument("names", metavar="SESSION|TURN…", nargs=-1, required=True)
@click.pass_context
def pin(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Keep a session or a turn, whatever a rule says.

    No rule releases what is pinned, and it cannot be archived. A pinned turn keeps its whole
    session. `locus store unpin` takes it back.
    """
    _pin(ctx, names, undo=False)


def _pin(ctx: click.Context, names: tuple[str, ...], *, undo: bool) -> None:
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


@click.command("unpin")
@click.argument("names", metavar="SESSION|TURN…", nargs=-1, required=True)
@click.pass_context
def unpin(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Take back a pin.

    Rules may release the session again, or the turn's, and it can be archived.
    """
    _pin(ctx, names, undo=True)


@click.command("archive")
@click.argument("names", metavar="SESSION…", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Why, for the log.")
@click.option("--undo", is_flag=True, help="Hold the sessions again, as far as they remain.")
@click.pass_context
def archive(ctx: click.Context, names: tuple[str, ...], reason: str | None, undo: bool) -> None:
    """Release a session, so that its contents may go.

    Collection may then remove contents that only released sessions need. Their events stay. Nothing is
    removed before `locus store gc`, or maintenance, has run; --undo brings contents back for a day. An
    active or pinned session is refused with exit code 3.
    """
    from eventlog.recorder import sessions
    from eventlog.retention import retention

    with open_store(ctx) as store:
        # The last part of a conversation comes first: it may be active, and so refused.
        ids = [session_id for name in names for session_id in reversed(sessions.parts(store, name))]
        changed = [
            session_id for session_id in ids if retention.archive(store, session_id, reason=reason, undo=undo)
        ]
    did = "Held again" if undo else "Released"
    say(f"{did}: {', '.join(changed)}." if changed else "Nothing to do: that is so already.")
    if changed and not undo:
        what = count(len(changed), "session")
        say(f"`locus store gc --dry-run` shows what goes with the contents of {what}.")
