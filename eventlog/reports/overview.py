"""What a page shows: the figures in total and by each dimension, cut to what fits. One thread."""

import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from eventlog.query.lookup import Query
from eventlog.query.prices import Prices, PriceSource
from eventlog.reports import figures
from eventlog.reports.figures import Figures
from eventlog.search.failures import FoundError, failures, median_us

ROWS_MAX = 15
_PERIODS_MAX = 70
# One wrong clock must not draw thousands of empty years: beyond this, gaps are left out.
_FILLED_DAYS_MAX = 70 * 365
# Name, where the one that a day is in begins, and how long it is.
_UNITS: "tuple[tuple[str, Callable[[datetime.date], datetime.date], int], ...]" = (
    ("day", lambda at: at, 1),
    ("week", lambda at: at - datetime.timedelta(days=at.weekday()), 7),
    ("month", lambda at: at.replace(day=1), 30),
    ("year", lambda at: at.replace(month=1, day=1), 365),
)


@dataclass(frozen=True, slots=True)
class Period:
    """A day, a week from its Monday, or a month, and what was done in it."""

    begins: datetime.date
    tokens: int
    cost: "Decimal | None"
    turns: int


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """Errors of one type."""

    name: "str | None"
    count: int
    open: int
    median_us: "int | None"


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on a page; lists hold at most ROWS_MAX rows, `more` says of which there are others."""

    project: str
    made_at: datetime.datetime
    since: "int | None"
    prices: "PriceSource | None"
    total: Figures
    days: "tuple[str | None, str | None]"  # the first and the last with anything in it
    unit: str  # day, week, month or year
    periods: "list[Period]"
    models: "list[Figures]"
    agents: "list[Figures]"
    tools: "list[Figures]"
    paths: "list[Figures]"
    sessions: "list[Figures]"
    errors: "list[ErrorKind]"
    more: "dict[str, int]"


def gather(
    query: Query, project: str, prices: "Prices | None", since: "int | None", now: datetime.datetime
) -> Overview:
    """All of it, from one moment of the log (`figures.asking`)."""
    told = figures.tell(query, (None, "day", "model", "agent", "tool", "path", "session"), prices, since)
    days = [row for row in told["day"] if _is_busy(row)]
    lists = {f"{name}s": told[name] for name in ("model", "agent", "tool", "path", "session")}
    # A path that only errors name was not changed, and a session without a turn has nothing to show.
    lists["paths"] = [row for row in lists["paths"] if row.file_changes]
    lists["sessions"] = [row for row in lists["sessions"] if row.turns or row.llm_calls]
    lists["tools"] = [row for row in lists["tools"] if row.tool_calls]
    errors = _kinds(failures(query, since=since))
    known = [row.key for row in days if _date(row.key) is not None]
    unit, periods = _periods(days)
    return Overview(
        project=project,
        made_at=now,
        since=since,
        prices=prices.source if prices else None,
        total=told[None][0],
        days=(known[0], known[-1]) if known else (None, None),
        unit=unit,
        periods=periods,
        errors=errors[:ROWS_MAX],
        more={
            **{name: max(len(rows) - ROWS_MAX, 0) for name, rows in lists.items()},
            "errors": max(len(errors) - ROWS_MAX, 0),
        },
        **{name: rows[:ROWS_MAX] for name, rows in lists.items()},
    )


def _is_busy(row: Figures) -> bool:
    return any((row.turns, row.llm_calls, row.tool_calls, row.file_changes, row.errors))


def _kinds(found: "list[FoundError]") -> "list[ErrorKind]":
    counts = Counter(failure.error_type for failure in found)
    kinds = []
    for name, n in counts.most_common():
        of = [failure for failure in found if failure.error_type == name]
        kinds.append(ErrorKind(name, n, sum(one.resolved is None for one in of), median_us(of)))
    return kinds


def _periods(days: "list[Figures]") -> "tuple[str, list[Period]]":
    """Days without a gap, or weeks, months, years where there would be too many of them."""
    known = {day: row for row in days if (day := _date(row.key)) is not None}
    if not known:
        return "day", []
    first, last = min(known), max(known)
    fitting = (one for one in _UNITS if (last - first).days < one[2] * _PERIODS_MAX)
    unit, begin, _ = next(fitting, _UNITS[-1])
    found: dict[datetime.date, list[Figures]] = {}
    if (last - first).days < _FILLED_DAYS_MAX:
        for n in range((last - first).days + 1):
            found.setdefault(begin(first + datetime.timedelta(days=n)), [])
    for day in sorted(known):
        found.setdefault(begin(day), []).append(known[day])
    return unit, [_period(begins, rows) for begins, rows in sorted(found.items())][-_PERIODS_MAX - 1 :]


def _date(day: "str | None") -> "datetime.date | None":
    """None for what no calendar has: a clock can say anything."""
    try:
        return None if day is None else datetime.date.fromisoformat(day)
    except ValueError:
        return None


def _period(begins: datetime.date, rows: "list[Figures]") -> Period:
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return Period(
        begins,
        tokens=sum(row.tokens or 0 for row in rows),
        cost=sum(costs, Decimal(0)) if costs else None,
        turns=sum(row.turns or 0 for row in rows),
    )
