"""`locus decisions`: what was decided, and why."""

from typing import Any

import click

import eventlog
from eventlog.base.display import nothing_fits
from eventlog.projections.definitions import DATED_DECISIONS, DECISIONS_NEWEST_FIRST

from ..access import open_store
from ..filters import Where, check_filters, filter_of
from ..options import json_option, limit_option, session_option, since_option
from ..output import document, microseconds, moment, moment_exact, one_line, put, say
from ..records import records
from .words import WordsCommand, chosen, replay, say_partial

_COLUMNS = (
    "event_id, position, session_id, turn, turn_id, happened, coalesce(title, decision) as title, decision, "
    "reasoning, confidence, alternatives, path"
)


@click.command("decisions", cls=WordsCommand)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[WORDS]…")
@click.option("--path", metavar="PATH", help="Only on this file, or below this directory.")
@session_option
@since_option
@limit_option(20, most=1000)
@json_option
def command(
    words: tuple[str, ...],
    path: str | None,
    session: str | None,
    since: int | None,
    limit: int,
    as_json: bool,
) -> int | None:
    """List what was decided and why, newest first; with WORDS the best matches first."""
    with open_store() as store:
        only = check_filters(store, session)
        path = filter_of(store, path)
        positions, answer = chosen(store, words, "decision", path, only, since, limit + 1)
        rows = _rows(store, positions, path, only, since, limit + 1)
    more = len(rows) > limit
    missing, events = (answer.missing, answer.events) if answer else (0, 0)
    del rows[limit:]
    if as_json:
        put(document({"decisions": [_json(row) for row in rows], "more": more, "not_indexed": missing}))
    else:
        put("".join(map(_shown, rows)))
    if not rows:
        say(nothing_fits(missing, events, "No decision"))
    if more:
        say(f"There are more; --limit N shows more than {limit}.")
    return say_partial(answer)


def _rows(
    store: "eventlog.Store",
    positions: list[int] | None,
    path: str | None,
    sessions: tuple[str, ...] | None,
    since: int | None,
    limit: int,
) -> list[dict[str, Any]]:
    where = Where()
    if positions is not None:
        where.add("list_contains({}, position)", positions)
    where.add_path(path)
    where.add_sessions(sessions)
    if since is not None:
        where.add("epoch_us(happened) >= {}", since)
    sql = f"select {_COLUMNS} from {DATED_DECISIONS} {where} "
    sql += f"order by {DECISIONS_NEWEST_FIRST} limit {limit}"
    decisions = list(records(store.query(sql, where.parameters)))
    if positions is not None:
        decisions.sort(key=lambda row: positions.index(row["position"]))
    return decisions


def _json(row: dict[str, Any]) -> dict[str, Any]:
    name = turn_name(row)
    at = moment_exact(microseconds(row.pop("happened")))
    fields = {**row, "at": at}
    return {
        **fields,
        "replay": replay(name),
    }


def turn_name(row: dict[str, Any]) -> str | None:
    return f"{row['session_id']}_{row['turn_id']}" if row["session_id"] and row["turn_id"] else None


def _shown(row: dict[str, Any]) -> str:
    head = f"{turn_name(row) or '-'}  {row['event_id'][:12]}  {moment(microseconds(row['happened']))}"
    why = f"\n    because {one_line(row['reasoning'])}" if row["reasoning"] else ""
    others = ""
    if row["alternatives"]:
        others = f"\n    instead of {one_line('; '.join(row['alternatives']))}"
    decision = row["decision"] or row["title"] or ""
    return f"{head}  {one_line(decision)}{why}{others}\n"
