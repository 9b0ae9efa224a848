"""The data of a page: the figures in total and by each dimension, cut to fit. One thread."""

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
# One wrong clock must not draw thousands of empty years: in a longer span, gaps are left out.
_FILLED_DAYS_MAX = 70 * 365
# Name, the first day of the unit that holds a day, and its length in days.
_UNITS: "tuple[tuple[str, Callable[[datetime.date], datetime.date], int], ...]" = (
    ("day", lambda at: at, 1),
    ("week", lambda at: at - datetime.timedelta(days=at.weekday()), 7),
    ("month", lambda at: at.replace(day=1), 30),
    ("year", lambda at: at.replace(month=1, day=1), 365),
)


@dataclass(frozen=True, slots=True)
class Period:
    """A day, a week from its Monday, a month or a year, with its figures."""

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
    """Everything on a page; lists hold at most ROWS_MAX rows, `more` counts the others."""

    project: str
    made_at: datetime.datetime
    since: "int | None"
    prices: "PriceSource | None"
    total: Figures
    days: "tuple[str | None, str | None]"  # the first and the last with activity
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
    """Read all of it, from one snapshot of the log (`figures.asking`)."""
    figures_by = figures.figures_by(
        query, (None, "day", "model", "agent", "tool", "path", "session"), prices, since
    )
    days = [row for row in figures_by["day"] if _is_busy(row)]
    lists = {f"{name}s": figures_by[name] for name in ("model", "agent", "tool", "path", "session")}
    # A path that only errors name was not changed, and a session without a turn has no figures.
    lists["paths"] = [row for row in lists["paths"] if row.file_changes]
    lists["sessions"] = [row for row in lists["sessions"] if row.turns or row.llm_calls]
    lists["tools"] = [row for row in lists["tools"] if row.tool_calls]
    errors = _kinds(failures(query, since=since))
    dates = [row.key for row in days if _date(row.key) is not None]
    unit, periods = _periods(days)
    return Overview(
        project=project,
        made_at=now,
        since=since,
        prices=prices.source if prices else None,
        total=figures_by[None][0],
        days=(dates[0], dates[-1]) if dates else (None, None),
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


def _kinds(errors: "list[FoundError]") -> "list[ErrorKind]":
    counts = Counter(failure.error_type for failure in errors)
    kinds = []
    for name, n in counts.most_common():
        same_type = [failure for failure in errors if failure.error_type == name]
        kinds.append(
            ErrorKind(name, n, sum(error.resolved is None for error in same_type), median_us(same_type))
        )
    return kinds


def _periods(days: "list[Figures]") -> "tuple[str, list[Period]]":
    """Days without a gap, or weeks, months, years where there would be too many of them."""
    rows_by_date = {day: row for row in days if (day := _date(row.key)) is not None}
    if not rows_by_date:
        return "day", []
    first, last = min(rows_by_date), max(rows_by_date)
    fitting = (unit_row for unit_row in _UNITS if (last - first).days < unit_row[2] * _PERIODS_MAX)
    unit, begin, _ = next(fitting, _UNITS[-1])
    rows_by_period: dict[datetime.date, list[Figures]] = {}
    if (last - first).days < _FILLED_DAYS_MAX:
        for n in range((last - first).days + 1):
            rows_by_period.setdefault(begin(first + datetime.timedelta(days=n)), [])
    for day in sorted(rows_by_date):
        rows_by_period.setdefault(begin(day), []).append(rows_by_date[day])
    return unit, [_period(begins, rows) for begins, rows in sorted(rows_by_period.items())][
        -_PERIODS_MAX - 1 :
    ]


def _date(day: "str | None") -> "datetime.date | None":
    """The date of a day, None for one beyond the calendar: a clock can be wrong."""
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
