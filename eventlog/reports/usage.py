"""What a viewer shows of figures: rows, what may be chosen, and a map of the hours of a week. One thread.

The answer `figures` of docs/view.md. All of it is of one snapshot of the log (`figures.asking`).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from eventlog.query.lookup import Query, rewritten_turns
from eventlog.reports import figures, zones
from eventlog.reports.figures import Figures
from eventlog.reports.scope import ALL, COMMITS, Scope

if TYPE_CHECKING:
    from eventlog.query.prices import Prices

WEEKDAYS, HOURS = 7, 24


def usage(
    query: Query,
    dimensions: "Sequence[str]",
    prices: "Prices | None",
    scope: Scope = ALL,
    zone: "tzinfo | None" = None,
) -> "dict[str, dict[str, Any]]":
    """For each dimension the figures of a scope, in total and by it, as JSON values; money is text, exact.

    Args: dimensions: of `figures.DIMENSIONS`, or `project`; zone: whose days and hours, by default UTC.
    """
    keys = {name: "repo" if name == "project" else name for name in dimensions}
    rows = figures.figures_by(query, (None, *keys.values()), prices, scope, zone=zone)
    total = described(rows[None][0])
    shared = {
        "total": total,
        "saved_by_caching_usd": total["saved_usd"],
        "commits": _commits(query, scope),
        "with_commits": scope.commits,
        "hours": hours_of_week(query, scope, zone),
        "prices": str(prices.source) if prices else None,
        "choices": choices(query),
    }
    return {name: {**shared, "rows": [described(row) for row in rows[key]]} for name, key in keys.items()}


def described(row: Figures) -> "dict[str, Any]":
    """Every figure by its name, for JSON."""
    return {
        name: f"{value:f}" if isinstance(value, Decimal) else value
        for name, value in (row.described() | {"tokens": row.tokens}).items()
    }


def hours_of_week(query: Query, scope: Scope, zone: "tzinfo | None") -> "list[list[int]]":
    """How many turns began in each hour of each weekday, Monday first, by the zone's clock.

    Commits are left out: their hours are those of imports and of scripts as often as of work.
    """
    span = query("select epoch_us(min(started_at)), epoch_us(max(started_at)) from turns", []).rows[0]
    clock = zones.local(zone, span[0] or 0, span[1] or 0) if zone else "epoch_us({})".format
    shown = f"make_timestamp({clock('started_at')})"
    rows = query(
        f"select isodow({shown}), hour({shown}), count(*) from turns where started_at is not null "
        f"and agent is distinct from '{COMMITS}' and {scope.condition('started_at')} group by 1, 2",
        [],
    ).rows
    counts = [[0] * HOURS for _ in range(WEEKDAYS)]
    for weekday, hour, count in rows:
        counts[weekday - 1][hour] = count
    return counts


def choices(query: Query) -> "dict[str, list[str]]":
    """The agents, projects and people of the log, each sorted."""
    columns = {
        "agent": ("agent", "sessions"),
        "project": ("coalesce(project_name, repo)", "sessions_master"),
        "person": ("person", "turns"),
    }
    return {
        name: [
            value for (value,) in query(f"select distinct {column} from {view} order by 1", []).rows if value
        ]
        for name, (column, view) in columns.items()
    }


def _commits(query: Query, scope: Scope) -> int:
    """The commits of an imported history that some line still reaches: turns that no agent worked in."""
    condition = f"agent = '{COMMITS}' and {replace(scope, commits=True).condition('started_at')}"
    (count,) = query(f"select count(*) from turns where {condition}", []).rows[0]
    return int(count) - rewritten_turns(query, condition)
