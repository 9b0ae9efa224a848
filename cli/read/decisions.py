"""`locus decisions`: what was decided, and why."""

from typing import TYPE_CHECKING, Any

import click

from eventlog.base.display import nothing_fits
from eventlog.base.paths import within_sql
from eventlog.projections.definitions import DATED_DECISIONS, DECISIONS_NEWEST_FIRST

from ..access import json_option, open_store, put, say
from ..jsonout import document
from ..repopath import filter_of
from ..text import microseconds, moment, moment_exact, one_line
from .search import WordsCommand, check_filters, replay, say_partial, session_and_since

if TYPE_CHECKING:
    from eventlog.search.find import SearchAnswer
    from eventlog.store import Store

_COLUMNS = (
    "event_id, position, session_id, turn, turn_id, happened, coalesce(title, decision) as title, decision, "
    "reasoning, confidence, alternatives, path"
)


@click.command("decisions", cls=WordsCommand)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[WORDS]…")
@click.option("--path", metavar="PATH", help="Only on this file, or below this directory.")
@session_and_since
@click.option(
    "--limit", "-n", type=click.IntRange(min=1, max=1000), default=20, show_default=True, metavar="N"
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    path: str | None,
    session: str | None,
    since: int | None,
    limit: int,
    as_json: bool,
) -> int | None:
    """List what was decided and why, newest first; with WORDS the best matches first."""
    with open_store(ctx) as store:
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


def chosen(
    store: "Store",
    words: tuple[str, ...],
    event_type: str,
    path: str | None,
    sessions: tuple[str, ...] | None,
    since: int | None,
    limit: int,
) -> "tuple[list[int] | None, SearchAnswer | None]":
    """The positions that match words, the best first, and the answer of the search; None: all."""
    if not words:
        return None, None
    from eventlog.search import find, query

    filters = find.Filters((event_type,), path, sessions, since)
    wanted = query.parse(" ".join(words))
    answer = find.search(store, wanted, filters, limit=limit, seconds=find.WAIT_S)
    return [hit.position for hit in answer.hits], answer


def _rows(
    store: "Store",
    positions: "list[int] | None",
    path: str | None,
    sessions: tuple[str, ...] | None,
    since: int | None,
    limit: int,
) -> list[dict[str, Any]]:
    from ..records import records

    where = ["true"]
    parameters: list[Any] = []

    def add(condition: str, *values: object) -> None:
        first = len(parameters) + 1
        parameters.extend(values)
        where.append(condition.format(*(f"${first + n}" for n in range(len(values)))))

    if positions is not None:
        add("list_contains({}, position)", positions)
    if path is not None:
        condition, named = within_sql("path", path)
        add(condition, *named)
    if sessions is not None:
        add("list_contains({}, session_id)", list(sessions))
    if since is not None:
        add("epoch_us(happened) >= {}", since)
    sql = f"select {_COLUMNS} from {DATED_DECISIONS} where {' and '.join(where)} "
    sql += f"order by {DECISIONS_NEWEST_FIRST} limit {limit}"
    decisions = list(records(store.query(sql, parameters)))
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
