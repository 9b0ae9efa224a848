"""`locus log`: turns, newest first, or events."""

from typing import TYPE_CHECKING, Any

import click

from eventlog.base.paths import is_within, within_sql
from eventlog.projections.definitions import ASKED_FOR, HAPPENED_AT, TURNS_NEWEST_FIRST, all_of
from eventlog.query.lookup import NOT_REWRITTEN, rewritten_turns

from .. import exits
from ..access import json_option, open_store, put, say
from ..jsonout import line
from ..outside import local
from ..records import EVENT_COLUMNS, Record, at, event_json, events, records, with_life
from ..repopath import filter_of
from ..since import Since
from ..text import NO_TITLE, UNKNOWN, harmless, microseconds, moment, one_line, terminal_width
from .rewritten import all_option, say_left_out
from .search import check_filters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eventlog.store import Store


_COMMIT_SHOWN = 7
_EVENT_SHOWN = 12


@click.command("log")
@click.option("--events", "want_events", is_flag=True, help="List events instead of turns.")
@click.option(
    "--session",
    metavar="SESSION",
    help="Only this session, with all its parts: its id, or the beginning of it.",
)
@click.option("--type", "event_type", metavar="TYPE", help="Only events of this type; implies --events.")
@click.option("--path", metavar="PATH", help="Only events on this file or below it; implies --events.")
@click.option("--since", type=Since(), metavar="WHEN", help="A date, a time, or an age: 2026-01-31, 3d, 12h.")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, metavar="N")
@all_option
@click.option("--follow", "-f", is_flag=True, help="List events oldest first and go on as they come.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
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
    where = _Where()
    if event_type is not None:
        where.add("event_type = {}", event_type)
    if since is not None:
        moment_column = HAPPENED_AT if want_events else "happened_at"
        where.add(f"epoch_us({moment_column}) >= {{}}", since)
    with open_store(ctx) as store:
        only = check_filters(store, session, [] if event_type is None else [event_type])
        if only is not None:
            where.add("list_contains({}, session_id)", list(only))
        within = filter_of(store, path)
        if within is not None:
            condition, parameters = within_sql("path", within)
            where.add(condition, *parameters)
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
            listed = [_with_life(store, turn) for turn in listed]
    more = len(listed) > limit
    del listed[limit:]
    if as_json:
        for record in map(event_json, listed) if want_events else listed:
            put(line(record))
        return None
    put(_event_table(listed) if want_events else _turn_table(listed))
    if not listed:
        nothing = "Nothing" if want_events else "No turn"
        is_empty = not (where.parameters or left_out)
        say(f"{nothing} is recorded yet. `locus import git` starts." if is_empty else "Nothing fits.")
    if more:
        say(f"There are more; --limit N shows more than {limit}.")
    say_left_out(left_out)
    return None


def _follow(
    store: "Store",
    where: "_Where",
    limit: int,
    as_json: bool,
    sessions: tuple[str, ...] | None,
    event_type: str | None,
    path: str | None,
) -> int:
    """Print the newest matching events, oldest first, and each later one as it comes."""
    end = store.journal.next_position()
    where.add("position < {}", end)

    def fits(event: "Mapping[str, Any]") -> bool:
        return (sessions is None or event["session_id"] in sessions) and (
            path is None or is_within(event["path"] or "", path)
        )

    def show(event: "Mapping[str, Any]") -> None:
        put(line(event_json(event)) if as_json else harmless(local("  ".join(_cells(event)))) + "\n")

    try:
        for event in reversed(_find_events(store, where, limit)):
            show(event)
        for event in store.follow(end, event_types=None if event_type is None else [event_type]):
            if fits(event):
                store.line_counts.fill([event])
                show(event)
    except KeyboardInterrupt:  # the normal way to end it
        pass
    return exits.INTERRUPTED


class _Where:
    """Conditions of a query and their parameters."""

    def __init__(self) -> None:
        self.parameters: list[Any] = []
        self._conditions: list[str] = []

    def add(self, condition: str, *values: object) -> None:
        first = len(self.parameters) + 1
        self.parameters += values
        self._conditions.append(condition.format(*(f"${first + n}" for n in range(len(values)))))

    @property
    def all(self) -> tuple[str, list[Any]]:
        """The condition, and its parameters."""
        return " and ".join(self._conditions) or "true", self.parameters

    def __str__(self) -> str:
        return f"where {' and '.join(self._conditions)}" if self._conditions else ""


def _find_turns(store: "Store", where: _Where, limit: int, *, whole: bool) -> "list[Record]":
    """The newest matching turns; `whole`: with the columns that no table shows."""
    columns = all_of("turns", () if whole else ASKED_FOR)
    rows = store.query(
        f"select {columns} from turns {where} order by {TURNS_NEWEST_FIRST} limit {limit}",
        where.parameters,
    )
    return list(records(rows))


def _find_events(store: "Store", where: _Where, limit: int) -> "list[dict[str, Any]]":
    """The newest matching events, without half lines that were read in full later."""
    question = f"select {EVENT_COLUMNS} from events {{}} order by position desc limit {limit}"
    listed = list(events(store.query(question.format(where), where.parameters)))
    if any(event["operation"] in ("malformed", "line_completed") for event in listed):
        from eventlog.query.views import SHOWN_EVENTS

        where.add(SHOWN_EVENTS)  # which has to read every event
        listed = list(events(store.query(question.format(where), where.parameters)))
    store.line_counts.fill(listed)
    return listed


def _with_life(store: "Store", turn: "Record") -> "Record":
    """The row of a turn; running where SQL, which knows of no process, says unfinished."""
    if turn["end_certainty"] != "unfinished":
        return turn
    at_end = store.certainty(f"{turn['session_id']}_{turn['turn_id']}")
    return with_life({**turn, "end_certainty": at_end.state}, at_end)


def _turn_table(turns: "list[Record]") -> str:
    from ..table import render

    # The column is left out where all turns are exact.
    states = [_state(turn) for turn in turns]
    cells = [
        (
            f"{turn['session_id']}_{turn['turn_id']}",
            moment(microseconds(turn["started_at"])) or UNKNOWN,
            (turn["commit"] or "")[:_COMMIT_SHOWN],
            str(len(turn["files_modified"] or ())),
            *((state,) if any(states) else ()),
            one_line(turn["title"] or turn["user_request"] or NO_TITLE),
        )
        for turn, state in zip(turns, states, strict=True)
    ]
    heads = ("TURN", "STARTED (UTC)", "COMMIT", "FILES", *(("END",) if any(states) else ()), "TITLE")
    return render(heads, cells, right=(3,), width=terminal_width()) if cells else ""


def _state(turn: "Record") -> str:
    """How well the end of a turn is known; empty where it is exact."""
    state = str(turn["end_certainty"])
    if state == "unfinished" and turn["completed_at"] is None:
        from eventlog.replay.certainty import NOT_CLOSED

        return NOT_CLOSED
    return "" if state == "exact" else state


def _event_table(events: "list[dict[str, Any]]") -> str:
    from ..table import render

    cells = [_cells(event) for event in events]
    heads = ("EVENT", "WHEN (UTC)", "TURN", "TYPE", "WHAT")
    return render(heads, cells, width=terminal_width()) if cells else ""


def _cells(event: "Mapping[str, Any]") -> tuple[str, str, str, str, str]:
    from eventlog.base.display import event_words as what

    return (
        event["event_id"][:_EVENT_SHOWN],
        moment(at(event)) or UNKNOWN,
        f"{event['session_id']}_{event['turn_id']}" if event["turn_id"] else event["session_id"] or "",
        event["event_type"],
        what(event),
    )
