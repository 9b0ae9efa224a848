"""`locus store du`: what takes the space."""

import dataclasses
from typing import TYPE_CHECKING

import click

from .. import table
from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..progress import Progress
from ..text import one_line, size, terminal_width

if TYPE_CHECKING:
    from eventlog.gc.usage import Reuse, Row

_COUNTED = {"kind": "FILES OR CONTENTS", "session": "CONTENTS", "path": "VERSIONS"}


@click.command("du")
@click.option(
    "--by",
    type=click.Choice(("kind", "session", "path", "reuse")),
    default="kind",
    show_default=True,
    help="What to add up.",
)
@click.option("--limit", "-n", type=click.IntRange(min=1), default=30, show_default=True, metavar="N")
@json_option
@click.pass_context
def command(ctx: click.Context, by: str, limit: int, as_json: bool) -> None:
    """Show what takes the space of the store, the largest first.

    \b
    --by kind      kinds of files
    --by session   what only that session needs: what `store archive` and `store gc` would free;
                   `shared` is what several sessions need
    --by path      all recorded versions of a file
    --by reuse     how much the snapshots hold, and how much of it is stored

    The bytes of a content are its share of the group with which it is compressed.
    """
    from eventlog.gc import usage

    with open_store(ctx) as store, store.view() as view, Progress("adding up"):
        if by == "reuse":
            _put_reuse(usage.reuse(store.blobs, view), as_json)
            return
        if by == "kind":
            rows = usage.by_kind(store.blobs)
        else:
            rows = (usage.by_session if by == "session" else usage.by_path)(store.blobs, view)
    if as_json:
        total = sum(row.bytes for row in rows)
        put(document({"du": {"by": by, "bytes": total, "rows": [dataclasses.asdict(row) for row in rows]}}))
        return
    put(_table(by, rows[:limit]))
    if len(rows) > limit:
        rest = rows[limit:]
        say(f"And {len(rest):,} more of {size(sum(row.bytes for row in rest))}; --limit N shows more.")
    say(f"Together {size(sum(row.bytes for row in rows))}.")


def _table(by: str, rows: "list[Row]") -> str:
    cells = [(size(row.bytes), f"{row.count:,}", one_line(row.name)) for row in rows]
    return table.render(("SIZE", _COUNTED[by], by.upper()), cells, right=(0, 1), width=terminal_width())


def _put_reuse(reuse: "Reuse", as_json: bool) -> None:
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
        table.pairs(
            [
                ("named", f"{size(reuse.named)} in all snapshots and changes, each in full"),
                ("distinct", f"{size(reuse.distinct)} of different contents"),
                ("kept", f"{size(reuse.stored)} in packs"),
                ("factor", factor),
            ]
        )
    )
