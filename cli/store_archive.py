"""`locus store archive`: release a session, so that its contents may be collected."""

import click

from .access import open_store, say
from .text import count


@click.command("archive")
@click.argument("names", metavar="SESSION…", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Why, for the log.")
@click.option("--undo", is_flag=True, help="Hold the sessions again, what is left of them.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], reason: str | None, undo: bool) -> None:
    """Release a session, so that its contents may go.

    Collection may then remove what only released sessions need. Their events stay. Nothing goes
    before `locus store gc`, or maintenance, has run; what it sets aside can be brought back for a
    day with --undo. An active or pinned session is refused with exit code 3.
    """
    from eventlog.recorder import sessions
    from eventlog.retention import retention

    with open_store(ctx) as store:
        # Of a conversation the part that may be active, and so refused, comes first.
        ids = [one for name in names for one in reversed(sessions.parts(store, name))]
        changed = [one for one in ids if retention.archive(store, one, reason=reason, undo=undo)]
    did = "Held again" if undo else "Released"
    say(f"{did}: {', '.join(changed)}." if changed else "Nothing to do: that is so already.")
    if changed and not undo:
        what = count(len(changed), "session")
        say(f"`locus store gc --dry-run` shows what goes with the contents of {what}.")
