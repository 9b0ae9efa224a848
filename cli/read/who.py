"""`locus who`: who is at work here, on what, and where two of them meet."""

import click

from eventlog.memory import who
from eventlog.memory.who import Worker

from ..access import open_store
from ..all_stores import in_all_stores
from ..options import json_option
from ..output import count, document, one_line, path_words, put, say
from ..outside import local
from ..session.text import end_stale
from ..times import with_zone

_FILES_SHOWN = 10


@click.command("who")
@json_option
@in_all_stores
def command(as_json: bool) -> None:
    """Show the active sessions: since when, on what, which files each touched, who meets whom.

    The log shows overlaps: a session changed, or is about to change, what another one changed that has
    not ended, or what lies within the scope of another.
    """
    with open_store() as store:
        end_stale(store)
        workers = who.who(store)
    overlaps = who.overlaps(workers)
    if as_json:
        put(
            document(
                {
                    "sessions": [who.fields(worker) for worker in workers],
                    "overlaps": [who.overlap_fields(overlap) for overlap in overlaps],
                }
            )
        )
        return
    put("\n".join(map(_shown, workers)))
    if overlaps:
        put("\nOverlaps\n" + "".join(f"  {one_line(overlap.words())}\n" for overlap in overlaps))
    if not workers:
        say("Nobody is at work here.")


def _shown(worker: Worker) -> str:
    session = worker.intent
    scope = f" [{', '.join(session.scope)}]" if session.scope else ""
    agent, focus = one_line(session.agent), one_line(session.focus + scope)
    head = f"{session.name}  {agent}  since {with_zone(session.opened_us)}  {focus}\n"
    if session.description:
        head += f"  {one_line(session.description)}\n"
    for touch in worker.touches[:_FILES_SHOWN]:
        path = path_words(local(touch.path))
        head += f"  {touch.event_id[:12]}  {with_zone(touch.at_us)}  {path}  {touch.how}\n"
    more = len(worker.touches) - _FILES_SHOWN
    return head + (f"  and {count(more, 'more file')}\n" if more > 0 else "")
