"""`locus store du` and `gc`: what takes the space, and removing what no kept session needs."""

from dataclasses import asdict
from typing import Any

import click

from eventlog.gc import usage
from eventlog.gc.usage import Reuse, Row
from eventlog.retention import collection
from eventlog.retention.collection import Collected, CollectionPlan

from ..access import open_store
from ..consent import Consent, with_consent
from ..options import json_option, limit_option
from ..output import count, document, one_line, pairs, put, say, size, table
from ..progress import Progress

_COUNTED = {"kind": "FILES OR CONTENTS", "session": "CONTENTS", "path": "VERSIONS"}


@click.command("du")
@click.option(
    "--by",
    type=click.Choice(("kind", "session", "path", "reuse")),
    default="kind",
    show_default=True,
    help="What to add up.",
)
@limit_option(30)
@json_option
def du(by: str, limit: int, as_json: bool) -> None:
    """Show what takes the space of the store, the largest first.

    \b
    --by kind      kinds of files
    --by session   what only that session needs: what `store archive` and `store gc` would free;
                   `shared` is what several sessions need
    --by path      all recorded versions of a file
    --by reuse     how much the snapshots hold, and how much of it is stored

    The bytes of a content are its share of the group with which it is compressed.
    """
    with open_store() as store, store.view() as view, Progress("adding up"):
        if by == "reuse":
            _put_reuse(usage.reuse(store.blobs, view), as_json)
            return
        if by == "kind":
            rows = usage.by_kind(store.blobs)
        else:
            rows = (usage.by_session if by == "session" else usage.by_path)(store.blobs, view)
    if as_json:
        total = sum(row.bytes for row in rows)
        put(document({"du": {"by": by, "bytes": total, "rows": rows}}))
        return
    put(_table(by, rows[:limit]))
    if len(rows) > limit:
        rest = rows[limit:]
        say(f"And {len(rest):,} more of {size(sum(row.bytes for row in rest))}; --limit N shows more.")
    say(f"Together {size(sum(row.bytes for row in rows))}.")


def _table(by: str, rows: list[Row]) -> str:
    cells = [(size(row.bytes), f"{row.count:,}", one_line(row.name)) for row in rows]
    return table(("SIZE", _COUNTED[by], by.upper()), cells, right=(0, 1), free=())


def _put_reuse(reuse: Reuse, as_json: bool) -> None:
    if as_json:
        fields = {
            "named": reuse.named,
            "distinct": reuse.distinct,
            "kept": reuse.stored,
            "factor": reuse.factor,
        }
        put(document({"du": {"by": "reuse", **fields}}))
        return
    factor = "unknown" if reuse.factor is None else f"{reuse.factor:,.1f}"
    put(
        pairs(
            [
                ("named", f"{size(reuse.named)} in all snapshots and changes, each in full"),
                ("distinct", f"{size(reuse.distinct)} of different contents"),
                ("kept", f"{size(reuse.stored)} in packs"),
                ("factor", factor),
            ]
        )
    )


@click.command("gc")
@click.option("--dry-run", "-n", is_flag=True, help="Only show what would go.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--token", metavar="TOKEN", help="Carry out the plan of that token, no other.")
@json_option
@with_consent
def gc(consent: Consent, as_json: bool) -> None:
    """Remove the contents that no kept session needs.

    These are contents that only released sessions name, or none. Released are the sessions that
    were archived, and those that the rules of config.toml choose. The contents are set aside now, and
    removed by a run a day later. The log itself stays whole: its events can still be read, the files
    of these turns cannot be replayed.
    """
    with open_store() as store:
        with Progress("finding live contents"):
            plan = collection.plan(store)
        consent.check_plan(
            plan.token,
            "the store was changed since that plan was made; nothing was removed. "
            "--dry-run shows the plan as it is now.",
        )
        if not as_json:
            _show(plan)
        done = None
        if not consent.dry_run:
            if plan.freed or plan.candidates:
                consent.ask(plan.token, f"Remove contents of {size(plan.freed)}?")
            with Progress("collecting"):
                done = collection.collect(store, plan)
    if as_json:
        put(document({"gc": _as_json(plan, done)}))
    elif done is None:
        say(f"Nothing was changed. --token {plan.token} carries this plan out.")
    else:
        _tell_collected(done)


def _show(plan: CollectionPlan) -> None:
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


def _tell_collected(done: Collected) -> None:
    if done.released:
        say(f"Released {count(len(done.released), 'session')}.")
    if done.condemned:
        say(f"Set aside {count(len(done.condemned), 'pack')}; a run a day later removes them.")
    if done.swept.unlinked:
        say(f"Removed {count(len(done.swept.unlinked), 'pack')} of {size(done.swept.bytes)}.")
    if done.swept.rescued:
        say(f"Brought back {count(len(done.swept.rescued), 'pack')} that something needs again.")


def _as_json(plan: CollectionPlan, done: Collected | None) -> dict[str, Any]:
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
