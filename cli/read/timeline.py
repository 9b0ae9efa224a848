"""`locus timeline`: everything that happened in a turn, in order."""

from typing import TYPE_CHECKING, Any

import click

from eventlog.base.display import event_words as what

from .. import table
from ..access import json_option, open_store, put
from ..jsonout import certainty_json, document
from ..records import Record, at, certainty_words, event_json, status_words, turn_record, with_life
from ..text import UNKNOWN, clock, microseconds, moment, one_line, terminal_width

if TYPE_CHECKING:
    from eventlog.replay.certainty import Certainty


@click.command("timeline")
@click.argument("turn", metavar="TURN")
@json_option
@click.pass_context
def command(ctx: click.Context, turn: str, as_json: bool) -> None:
    """Show everything that happened in a turn, in order.

    \b
    locus timeline last
    locus timeline git:1a2b3c4
    """
    with open_store(ctx) as store:
        ref = store.turn(turn)
        anchor = turn_record(store, ref, whole=as_json)
        events: list[Any] = list(store.timeline(ref))
        certainties = {at: store.certainty(ref, at) for at in ("start", "end")}
        store.line_counts.fill(events)
    if as_json:
        certainty = {at: certainty_json(certainty) for at, certainty in certainties.items()}
        listed = [event_json(event) for event in events]
        turn_row = with_life(anchor, certainties["end"])
        put(document({"turn": turn_row, "certainty": certainty, "events": listed}))
        return
    put(_head(anchor, certainties))
    started = microseconds(anchor["started_at"])
    cells = [
        (
            f"{event['seq']:03d}" if event["seq"] is not None else "",
            event["event_id"][:12],
            _time(at(event), started) or UNKNOWN,
            event["event_type"],
            what(event),
        )
        for event in events
    ]
    put(table.render(("SEQ", "EVENT", "TIME (UTC)", "TYPE", "WHAT"), cells, width=terminal_width()))


def _head(anchor: Record, certainties: "dict[str, Certainty]") -> str:
    started, completed = microseconds(anchor["started_at"]), microseconds(anchor["completed_at"])
    span = moment(started) + (f" to {moment(completed)}" if completed not in (None, started) else "")
    title = one_line(anchor["title"] or anchor["user_request"] or "")
    return (
        table.pairs(
            [
                ("turn", f"{anchor['context_id']}{' · ' + title if title else ''}"),
                ("when", f"{span} UTC" if span else ""),
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
    same_day = us is not None and started is not None and moment(us)[:10] == moment(started)[:10]
    return clock(us) if same_day else moment(us)
