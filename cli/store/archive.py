"""`locus store archive`: release a session, so that its contents may be collected."""

import click

from ..access import open_store, say
from ..text import count


@click.command("archive")
@click.argument("names", metavar="SESSION…", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Why, for the log.")
@click.option("--undo", is_flag=True, help="Hold the sessions again, as far as they remain.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], reason: str | None, undo: bool) -> None:
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
