"""`locus decisions` and `locus errors`: what was decided and why; what failed, and how it was resolved."""

from dataclasses import asdict
from typing import Any

import click

import eventlog
from eventlog.base.display import nothing_fits
from eventlog.projections.definitions import DATED_DECISIONS, DECISIONS_NEWEST_FIRST
from eventlog.search.failures import FoundError, failures, median_us

from ..access import open_store
from ..all_stores import in_all_stores
from ..filters import Where, check_filters, filter_of
from ..options import json_option, limit_option, session_option, since_option
from ..output import (
    count,
    document,
    duration,
    microseconds,
    moment_exact,
    one_line,
    path_words,
    put,
    say,
    table,
)
from ..records import records
from ..times import when, zone
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
@in_all_stores
def decisions(
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
        put(
            document(
                {"decisions": [_decision_json(row) for row in rows], "more": more, "not_indexed": missing}
            )
        )
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


def _decision_json(row: dict[str, Any]) -> dict[str, Any]:
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
    head = f"{turn_name(row) or '-'}  {row['event_id'][:12]}  {when(microseconds(row['happened']))}"
    why = f"\n    because {one_line(row['reasoning'])}" if row["reasoning"] else ""
    others = ""
    if row["alternatives"]:
        others = f"\n    instead of {one_line('; '.join(row['alternatives']))}"
    decision = row["decision"] or row["title"] or ""
    return f"{head}  {one_line(decision)}{why}{others}\n"


@click.command("errors", cls=WordsCommand)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[WORDS]…")
@click.option("--open", "state", flag_value="open", help="Only those not known to be resolved.")
@click.option("--resolved", "state", flag_value="resolved", help="Only those that were resolved.")
@click.option("--path", metavar="PATH", help="Only on this file, or below this directory.")
@session_option
@since_option
@limit_option(20, most=1000)
@json_option
@in_all_stores
def errors(
    words: tuple[str, ...],
    state: str | None,
    path: str | None,
    session: str | None,
    since: int | None,
    limit: int,
    as_json: bool,
) -> int | None:
    """List what failed, newest first, and whether and when it was resolved.

    An error is resolved when the log says so (told), when the same worked later in the session on the
    same path, or with the same command (seen), or when the failed command only searched, such as rg or
    which (exploratory). Anything else counts as open. With WORDS the best matches come first.
    """
    with open_store() as store:
        only = check_filters(store, session)
        path = filter_of(store, path)
        positions, answer = chosen(store, words, "error", path, only, since, 1000)
        errors = failures(store.query, positions=positions, path=path, sessions=only, since=since)
    missing = answer.missing if answer else 0
    if positions is not None:
        errors.sort(key=lambda failure: positions.index(failure.position))
    opened = sum(failure.resolved is None for failure in errors)
    resolved = len(errors) - opened
    median = median_us(errors)
    fits = [f for f in errors if state is None or (f.resolved is None) == (state == "open")]
    shown = fits[:limit]
    if as_json:
        summary = {"errors": len(errors), "open": opened, "resolved": resolved, "median_us": median}
        rows = [_error_json(failure) for failure in shown]
        put(document({"summary": summary, "errors": rows, "more": len(fits) > limit, "not_indexed": missing}))
        return say_partial(answer)
    put(_table(shown))
    resolution_time = "" if median is None else f"; median time to resolution {duration(median)}"
    say(f"{count(len(errors), 'error')}: {opened:,} open, {resolved:,} resolved{resolution_time}.")
    if len(fits) > limit:
        say(f"There are more; --limit N shows more than {limit}.")
    return say_partial(answer)


def _error_json(failure: FoundError) -> dict[str, Any]:
    return {
        **asdict(failure),
        "at": moment_exact(failure.at),
        "resolved_at": moment_exact(failure.resolved_at),
        "took_us": failure.took_us,
        "replay": replay(failure.turn_name),
    }


def _where(failure: FoundError) -> str:
    return path_words(failure.path) if failure.path else one_line(failure.tool or "")


def _table(errors: list[FoundError]) -> str:
    cells = [
        (
            failure.turn_name or "",
            failure.event_id[:12],
            when(failure.at),
            failure.resolved or "open",
            "" if failure.took_us is None else duration(failure.took_us),
            one_line(failure.error_type or ""),
            " ".join(filter(None, (_where(failure), one_line(failure.message or "")))),
        )
        for failure in errors
    ]
    heads = ("TURN", "EVENT", f"WHEN ({zone()})", "STATE", "TOOK", "ERROR", "WHAT")
    drop = ("TOOK", "ERROR", "TURN", "STATE", "WHEN")
    return table(heads, cells, right=(4,), free=("ERROR", "WHAT"), drop=drop) if cells else ""
