"""`locus timeline`: everything that happened in a turn, in order."""

from typing import Any

import click

import eventlog
from eventlog.base.display import event_words as what
from eventlog.projections.happened import happened_at
from eventlog.replay.certainty import status_words

from .. import complete
from ..access import open_store
from ..all_stores import in_all_stores
from ..options import json_option
from ..output import (
    UNKNOWN,
    certainty_json,
    document,
    microseconds,
    one_line,
    pairs,
    put,
    table,
)
from ..records import Record, certainty_words, event_json, turn_record, with_life
from ..terminal import put_styled, row
from ..times import clock, local, zone


@click.command("timeline")
@click.argument("turn", metavar="TURN", shell_complete=complete.turns)
@json_option
@in_all_stores
def command(turn: str, as_json: bool) -> None:
    """Show everything that happened in a turn, in order.

    \b
    locus timeline last
    locus timeline git:1a2b3c4
    """
    with open_store() as store:
        ref = store.turn(turn)
        events: list[Any] = list(store.timeline(ref))  # first, with all that is read of it afterwards
        anchor = turn_record(store, ref, whole=as_json)
        certainties = {at: store.certainty(ref, at) for at in ("start", "end")}
        store.line_counts.fill(events)
    if as_json:
        certainty = {at: certainty_json(certainty) for at, certainty in certainties.items()}
        event_rows = [event_json(event) for event in events]
        turn_row = with_life(anchor, certainties["end"])
        put(document({"turn": turn_row, "certainty": certainty, "events": event_rows}))
        return
    started = microseconds(anchor["started_at"])
    cells = [
        (
            f"{event['seq']:03d}" if event["seq"] is not None else "",
            event["event_id"][:12],
            _time(happened_at(event), started) or UNKNOWN,
            event["event_type"],
            what(event),
        )
        for event in events
    ]
    heads = ("SEQ", "EVENT", f"TIME ({zone()})", "TYPE", "WHAT")
    listed = table(heads, cells, drop=("SEQ", "TIME", "TYPE"))
    put_styled(_head(anchor, certainties) + listed, row, paged=True)


def _head(anchor: Record, certainties: "dict[str, eventlog.Certainty]") -> str:
    started, completed = microseconds(anchor["started_at"]), microseconds(anchor["completed_at"])
    span = local(started) + (f" to {local(completed)}" if completed not in (None, started) else "")
    title = one_line(anchor["title"] or anchor["user_request"] or "")
    return (
        pairs(
            [
                ("turn", f"{anchor['context_id']}{' · ' + title if title else ''}"),
                ("when", f"{span} {zone()}" if span else ""),
                ("agent", anchor["agent"] or ""),
                ("commit", anchor["commit"] or ""),
                ("status", status_words(anchor["status"], certainties["end"])),
                *((f"files at {at}", certainty_words(certainty)) for at, certainty in certainties.items()),
            ]
        )
        + "\n"
    )


def _time(us: int | None, started: int | None) -> str:
    """The time of day; with the date when that is not the turn's."""
    same_day = us is not None and started is not None and local(us)[:10] == local(started)[:10]
    return clock(us) if same_day else local(us)
