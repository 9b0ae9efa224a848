"""`locus log`: turns, newest first, or events."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import click

import eventlog
from eventlog.base import jsontext
from eventlog.base.display import event_words as what
from eventlog.base.paths import is_within
from eventlog.projections.definitions import ASKED_FOR, HAPPENED_AT, TURNS_NEWEST_FIRST, all_of
from eventlog.projections.happened import happened_at
from eventlog.query.lookup import NOT_REWRITTEN, rewritten_turns
from eventlog.replay.certainty import NOT_CLOSED, changes_without_events

from ..access import open_store
from ..all_stores import in_all_stores
from ..exits import INTERRUPTED
from ..filters import Where, check_filters, filter_of
from ..options import json_option, limit_option, rewritten_option, session_option, since_option
from ..output import (
    UNKNOWN,
    harmless,
    json_line,
    microseconds,
    put,
    say,
    say_left_out,
    table,
)
from ..outside import local
from ..records import EVENT_COLUMNS, Record, event_json, events, records, title_of, with_erased, with_life
from ..terminal import put_styled, row
from ..times import local as local_time
from ..times import when, zone

_COMMIT_SHOWN = 7
_EVENT_SHOWN = 12


@click.command("log")
@click.option("--events", "want_events", is_flag=True, help="List events instead of turns.")
@session_option
@click.option("--type", "event_type", metavar="TYPE", help="Only events of this type; implies --events.")
@click.option("--path", metavar="PATH", help="Only events on this file or below it; implies --events.")
@since_option
@limit_option()
@rewritten_option
@click.option("--follow", "-f", is_flag=True, help="List events oldest first and go on as they come.")
@json_option
@in_all_stores
def command(
    want_events: bool,
    session: str | None,
    event_type: str | None,
    path: str | None,
    since: int | None,
    limit: int,
    want_all: bool,
    follow: bool,
    as_json: bool,
) -> int | None:
    """List turns or events, newest first.

    Turns are ordered by when they happened, not by when they were imported; turns of unknown time come
    last. Events are ordered by when they were recorded. With --json one object per line. With --follow
    the newest events come oldest first, then new ones, until Ctrl-C.
    """
    want_events = want_events or follow or event_type is not None or path is not None
    where = Where()
    if event_type is not None:
        where.add("event_type = {}", event_type)
    if since is not None:
        moment_column = HAPPENED_AT if want_events else "happened_at"
        where.add(f"epoch_us({moment_column}) >= {{}}", since)
    with open_store() as store:
        only = check_filters(store, session, [] if event_type is None else [event_type])
        within = filter_of(store, path)
        where.add_sessions(only)
        where.add_path(within)
        if follow:
            return _follow(store, where, limit, as_json, only, event_type, within)
        left_out = 0
        if not want_all:
            # For events this needs the anchors of turns, and there is seldom anything to leave out.
            left_out = (
                rewritten_turns(store.query) if want_events else rewritten_turns(store.query, *where.all)
            )
            if left_out:
                where.add(f"(turn is null or {NOT_REWRITTEN})" if want_events else "rewritten is not true")
        # One more than is shown, to know whether there are more.
        if want_events:
            listed = _find_events(store, where, limit + 1)
        else:
            listed = _find_turns(store, where, limit + 1, whole=as_json)
            listed = with_erased(store, [_with_life(store, turn) for turn in listed])
            listed = _with_uncounted(store, listed)
    more = len(listed) > limit
    del listed[limit:]
    if as_json:
        for record in map(event_json, listed) if want_events else listed:
            put(json_line(record))
        return None
    put_styled(_event_table(listed) if want_events else _turn_table(listed), row, paged=True)
    if not listed:
        nothing = "Nothing" if want_events else "No turn"
        is_empty = not (where.parameters or left_out)
        say(f"{nothing} is recorded yet. `locus import git` starts." if is_empty else "Nothing fits.")
    if not want_events:
        _say_uncounted(listed)
    if more:
        say(f"There are more; --limit N shows more than {limit}.")
    say_left_out(left_out)
    return None


def _follow(
    store: "eventlog.Store",
    where: Where,
    limit: int,
    as_json: bool,
    sessions: tuple[str, ...] | None,
    event_type: str | None,
    path: str | None,
) -> int:
    """Print the newest matching events, oldest first, and each later one as it comes."""
    end = store.journal.next_position()
    where.add("position < {}", end)

    def fits(event: Mapping[str, Any]) -> bool:
        return (sessions is None or event["session_id"] in sessions) and (
            path is None or is_within(event["path"] or "", path)
        )

    def show(event: Mapping[str, Any]) -> None:
        if as_json:
            put(json_line(event_json(event)))
        else:
            put(harmless(local("  ".join(_cells(event, local_time)))) + "\n")

    try:
        for event in reversed(_find_events(store, where, limit)):
            show(event)
        for event in store.follow(end, event_types=None if event_type is None else [event_type]):
            if fits(event):
                store.line_counts.fill([event])
                show(event)
    except KeyboardInterrupt:  # the normal way to end it
        pass
    return INTERRUPTED


def _find_turns(store: "eventlog.Store", where: Where, limit: int, *, whole: bool) -> list[Record]:
    """The newest matching turns; `whole`: with the columns that no table shows."""
    columns = all_of("turns", () if whole else ASKED_FOR)
    rows = store.query(
        f"select {columns} from turns {where} order by {TURNS_NEWEST_FIRST} limit {limit}",
        where.parameters,
    )
    return list(records(rows))


def _find_events(store: "eventlog.Store", where: Where, limit: int) -> list[dict[str, Any]]:
    """The newest matching events, without half lines that were read in full later."""
    question = f"select {EVENT_COLUMNS} from events {{}} order by position desc limit {limit}"
    listed = list(events(store.query(question.format(where), where.parameters)))
    if any(event["operation"] in ("malformed", "line_completed") for event in listed):
        from eventlog.query.views import SHOWN_EVENTS  # brings DuckDB

        where.add(SHOWN_EVENTS)  # which has to read every event
        listed = list(events(store.query(question.format(where), where.parameters)))
    store.line_counts.fill(listed)
    return listed


def _with_life(store: "eventlog.Store", turn: Record) -> Record:
    """The row of a turn; running where SQL, which knows of no process, says unfinished."""
    if turn["end_certainty"] != "unfinished":
        return turn
    at_end = store.certainty(f"{turn['session_id']}_{turn['turn_id']}")
    return with_life({**turn, "end_certainty": at_end.state}, at_end)


_WITHOUT_EVENTS = "changes_without_events"
_SNAPSHOTS = (
    "select session_id, turn, payload from events where event_type = 'snapshot' and turn is not null "
    "and list_contains($1, session_id) and contains(payload::varchar, '\"told\":')"
)


def _with_uncounted(store: "eventlog.Store", turns: list[Record]) -> list[Record]:
    """The turns; those with changes that were too many at once for an event each have their number too."""
    changed = [t for t in turns if t["start_tree"] != t["end_tree"] and t["agent"] != "git"]
    sessions = sorted({turn["session_id"] for turn in changed})
    numbers: Counter[tuple[str, int]] = Counter()
    for session, turn, payload in store.query(_SNAPSHOTS, [sessions]).rows if sessions else ():
        numbers[session, turn] += changes_without_events({"payload": jsontext.object_of(payload)})
    return [
        {**turn, _WITHOUT_EVENTS: number} if (number := numbers[turn["session_id"], turn["turn"]]) else turn
        for turn in turns
    ]


def _say_uncounted(turns: list[Record]) -> None:
    uncounted = [turn for turn in turns if turn.get(_WITHOUT_EVENTS)]
    if uncounted:
        name = f"{uncounted[0]['session_id']}_{uncounted[0]['turn_id']}"
        say(
            f"{UNKNOWN} in FILES: too many changed at once for an event each; `locus diff {name}` shows them."
        )


def _turn_table(turns: list[Record]) -> str:
    # The column is left out where all turns are exact.
    states = [_state(turn) for turn in turns]
    cells = [
        (
            f"{turn['session_id']}_{turn['turn_id']}",
            when(microseconds(turn["started_at"])) or UNKNOWN,
            (turn["commit"] or "")[:_COMMIT_SHOWN],
            _files(turn),
            *((state,) if any(states) else ()),
            title_of(turn),
        )
        for turn, state in zip(turns, states, strict=True)
    ]
    heads = ("TURN", f"STARTED ({zone()})", "COMMIT", "FILES", *(("END",) if any(states) else ()), "TITLE")
    drop = ("COMMIT", "FILES", "END", "STARTED")
    return table(heads, cells, right=(3,), drop=drop) if cells else ""


def _files(turn: Record) -> str:
    is_unknown = turn.get(_WITHOUT_EVENTS) or turn.get("erased")
    return UNKNOWN if is_unknown else str(len(turn["files_modified"] or ()))


def _state(turn: Record) -> str:
    """How well the end of a turn is known; empty where it is exact."""
    state = str(turn["end_certainty"])
    if state == "unfinished" and turn["completed_at"] is None:
        return NOT_CLOSED
    return "" if state == "exact" else state


def _event_table(events: list[dict[str, Any]]) -> str:
    cells = [_cells(event, when) for event in events]
    heads = ("EVENT", f"WHEN ({zone()})", "TURN", "TYPE", "WHAT")
    return table(heads, cells, drop=("TYPE", "TURN", "WHEN")) if cells else ""


def _cells(event: Mapping[str, Any], spelled: Callable[[int | None], str]) -> tuple[str, str, str, str, str]:
    return (
        event["event_id"][:_EVENT_SHOWN],
        spelled(happened_at(event)) or UNKNOWN,
        f"{event['session_id']}_{event['turn_id']}" if event["turn_id"] else event["session_id"] or "",
        event["event_type"],
        what(event),
    )
