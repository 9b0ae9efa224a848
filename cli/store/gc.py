"""`locus store gc`: remove the contents that no kept session needs."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import count, one_line, size

if TYPE_CHECKING:
    from eventlog.retention.collection import Collected, CollectionPlan


@click.command("gc")
@click.option("--dry-run", "-n", is_flag=True, help="Only show what would go.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--token", metavar="TOKEN", help="Carry out the plan of that token, no other.")
@json_option
@click.pass_context
def command(ctx: click.Context, dry_run: bool, yes: bool, token: str | None, as_json: bool) -> None:
    """Remove the contents that no kept session needs.

    These are contents that only released sessions name, or none. Released are the sessions that
    were archived, and those that the rules of config.toml choose. The contents are set aside now, and
    removed by a run a day later. The log itself stays whole: its events can still be read, the files
    of these turns cannot be replayed.
    """
    from eventlog.base.errors import Refused
    from eventlog.retention import collection

    with open_store(ctx) as store:
        with Progress("finding live contents"):
            plan = collection.plan(store)
        if token and token != plan.token:
            raise Refused(
                "the store was changed since that plan was made; nothing was removed. "
                "--dry-run shows the plan as it is now."
            )
        if not as_json:
            _show(plan)
        done = None
        if not dry_run:
            if not (yes or token) and (plan.freed or plan.candidates):
                _ask(plan)
            with Progress("collecting"):
                done = collection.collect(store, plan)
    if as_json:
        put(document({"gc": _as_json(plan, done)}))
    elif done is None:
        say(f"Nothing was changed. --token {plan.token} carries this plan out.")
    else:
        _tell(done)


def _ask(plan: "CollectionPlan") -> None:
    from eventlog.base.errors import Refused

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refused(
            f"nothing was changed: there is no terminal to ask on. --yes carries this plan out, or "
            f"--token {plan.token}."
        )
    click.confirm(f"Remove contents of {size(plan.freed)}?", abort=True, err=True)


def _show(plan: "CollectionPlan") -> None:
    for candidate in plan.candidates:
        put(f"release {candidate.session_id} ({candidate.rule})\n")
    for lost in plan.lost:
        title = f": {one_line(lost.title)}" if lost.title else ""
        put(f"lost    {lost.session_id} ({lost.rule}), {count(lost.turns, 'turn')}{title}\n")
    for share in plan.packs.dead:
        put(f"remove  pack {share.name[:16]}, {size(share.bytes)}\n")
    for share in plan.packs.partial:
        dead = f"{share.dead_contents:,} of {count(share.contents, 'content')}"
        put(f"rewrite pack {share.name[:16]}, {size(share.bytes)}, without {dead}, {size(share.freed)}\n")
    if plan.lost:
        say(f"The files of {count(len(plan.lost), 'session')} can no longer be replayed then.")
    say(
        f"Frees about {size(plan.freed)}."
        if plan.freed
        else "Nothing would be removed: no pack holds many contents without need."
    )
    if plan.waiting:
        say(f"Set aside already: {size(plan.waiting)}, to be removed a day later.")
    if plan.over_budget:
        say(
            f"max_bytes is still exceeded by {size(plan.over_budget)}: what is left belongs to sessions that "
            "are active or pinned, or is the log itself."
        )


def _tell(done: "Collected") -> None:
    if done.released:
        say(f"Released {count(len(done.released), 'session')}.")
    if done.condemned:
        say(f"Set aside {count(len(done.condemned), 'pack')}; a run a day later removes them.")
    if done.swept.unlinked:
        say(f"Removed {count(len(done.swept.unlinked), 'pack')} of {size(done.swept.bytes)}.")
    if done.swept.rescued:
        say(f"Brought back {count(len(done.swept.rescued), 'pack')} that something needs again.")


def _as_json(plan: "CollectionPlan", done: "Collected | None") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "token": plan.token,
        "bytes": plan.freed,
        "release": [asdict(candidate) for candidate in plan.candidates],
        "lost": [asdict(lost) for lost in plan.lost],
        "dead": [asdict(share) for share in plan.packs.dead],
        "partial": [asdict(share) for share in plan.packs.partial],
        "waiting_bytes": plan.waiting,
        "over_budget": plan.over_budget,
        "done": None if done is None else asdict(done),
    }
