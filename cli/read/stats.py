"""`locus stats`: counts, durations, errors, tokens and cost, in total or by something."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import tzinfo
from decimal import Decimal
from typing import Any

import click

from eventlog.query import prices
from eventlog.query.prices import PriceSource
from eventlog.reports import figures
from eventlog.reports.figures import Figures
from eventlog.reports.number_text import dollars
from eventlog.reports.scope import Scope

from ..all_stores import in_all_stores
from ..lake.asking import asked_log, lake_options
from ..options import json_option, limit_option, rewritten_option
from ..output import (
    bars,
    change,
    count,
    document,
    duration,
    moment_exact,
    one_line,
    pairs,
    put,
    say,
    say_left_out,
    table,
)
from ..progress import Progress
from .scope import refuse_unknown, scope_options

DIMENSIONS = (
    "day", "week", "month", "window", "session", "model", "agent", "repo", "person", "host", "tool", "path",
)  # fmt: skip
_OF_TIME = ("day", "week", "month", "window")
_NO_PRICES = "For cost install the extra: pip install 'locus-eventlog[cost]'."


@click.command("stats")
@click.option("--by", "dimension", type=click.Choice(DIMENSIONS), help="A line for each of them.")
@scope_options
@click.option("--plot", is_flag=True, help="Draw bars; by day when --by is not given.")
@limit_option(30, most=100_000)
@rewritten_option
@lake_options
@json_option
@in_all_stores
def command(
    dimension: str | None, scope: Scope, clock: tzinfo | None, plot: bool, limit: int, want_all: bool,
    lake: str | None, lake_events: int, as_json: bool,
) -> None:  # fmt: skip
    """Count sessions, turns, tool calls, errors, tokens, and what they cost.

    Each model call counts once. Cost is an estimate by public list prices, those of the installed version
    of genai-prices; an unknown model has no cost, and the share of tokens without a price is shown. Weeks
    are those of ISO 8601. A window has five hours, as with subscriptions: it begins with the full hour (UTC)
    of the first call after the last window. A commit counts for its author, a session for the person who
    worked in it (docs/people.md). With --lake each event counts once, however many stores published it.
    """
    price_list = prices.load()
    dimension = dimension or ("day" if plot else None)
    with asked_log(lake, lake_events) as log, Progress("counting"), log.asking() as query:
        refuse_unknown(scope, query)
        wanted = (None, dimension) if dimension else (None,)
        rows_by_dimension = figures.figures_by(
            query, wanted, price_list, scope, rewritten=want_all, zone=clock
        )
        left_out = 0 if want_all else figures.rewritten_turns_in(query, scope)
    total, rows = rows_by_dimension[None][0], rows_by_dimension[dimension] if dimension else []
    source = price_list.source if price_list else None
    # The last rows of times, the first of everything else.
    shown = rows[-limit:] if dimension in _OF_TIME else rows[:limit]
    if as_json:
        more = {"more": len(rows) > limit, "left_out": left_out}
        put(document({"stats": _json(total, shown, dimension, scope, source), **more}))
        return
    if dimension is None:
        put(pairs(_total(total)))
    elif plot:
        put(_plot(shown, dimension))
    else:
        put(_table(shown, dimension))
    if len(rows) > limit:
        say(f"There are more; --limit N shows more than {limit}.")
    say_left_out(left_out)
    if dimension not in ("tool", "path"):
        say(priced(total, source))


def _json(
    total: Figures,
    rows: list[Figures],
    dimension: str | None,
    scope: Scope,
    source: PriceSource | None,
) -> dict[str, Any]:
    return {
        "since": moment_exact(scope.since),
        "until": moment_exact(scope.until),
        **{name: getattr(scope, name) for name in ("agent", "project", "person")},
        "by": dimension,
        "prices": None if source is None else {**asdict(source), "currency": "USD"},
        "total": {name: value for name, value in total.described().items() if name not in ("key", "label")},
        "rows": [row.described() for row in rows],
    }


def priced(total: Figures, source: PriceSource | None) -> str:
    """The source of the cost, in a sentence or two."""
    if source is None:
        return _NO_PRICES
    if not total.llm_calls:
        return "No model calls are recorded for this."
    words = f"Cost is an estimate by list prices ({source})."
    if total.unpriced_calls:
        share = 100 * (total.unpriced_tokens or 0) / total.tokens if total.tokens else 100
        words += f" {count(total.unpriced_calls, 'call')} with {share:.1f} % of the tokens have no price."
    return words


def _total(total: Figures) -> list[tuple[str, str]]:
    tools = f"{total.tool_calls or 0:,}"
    if total.tool_calls:
        tools += f" ({total.tool_succeeded or 0:,} worked, {total.tool_failed or 0:,} failed"
        tools += f", {total.tool_unknown:,} unknown)" if total.tool_unknown else ")"
    if total.tool_median_ms is not None:
        tools += f", median {duration(total.tool_median_ms * 1000)}"
    turns = f"{total.turns or 0:,}"
    if total.turn_median_us is not None:
        turns += f", median {duration(total.turn_median_us)}"
    errors = f"{total.errors or 0:,}"
    if total.errors and total.errors_open is not None:
        errors += f" ({total.errors_open:,} open)"
    if total.resolve_median_us is not None:
        errors += f", median time to resolution {duration(total.resolve_median_us)}"
    changes = f"{total.file_changes or 0:,} in {count(total.files or 0, 'file')}"
    if lines := change(total.lines_added, total.lines_removed):
        changes += f", {lines} lines"
    if total.lines_unknown:
        unknown = f"unknown for {total.lines_unknown:,} of {total.file_changes:,}"
        changes += f", {unknown}" if lines else ", lines unknown"
    return [
        ("sessions", f"{total.sessions or 0:,}"),
        ("turns", turns),
        ("tool calls", tools),
        ("errors", errors),
        ("changes", changes),
        ("model calls", f"{total.llm_calls or 0:,}"),
        ("tokens", "" if total.tokens is None else _tokens(total)),
        ("cost", dollars(total.cost_usd)),
    ]


def _tokens(total: Figures) -> str:
    parts = [
        f"{n:,} {what}"
        for n, what in (
            (total.prompt_tokens, "read"),
            (total.cache_read_tokens, "of these from a cache"),
            (total.cache_write_tokens, "into one"),
            (total.completion_tokens, "written"),
        )
        if n is not None
    ]
    return f"{total.tokens:,} ({', '.join(parts)})"


_COLUMNS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("SESSIONS", lambda f: _number(f.sessions)),
    ("TURNS", lambda f: _number(f.turns)),
    ("MEDIAN", lambda f: "" if f.turn_median_us is None else duration(f.turn_median_us)),
    ("TOOLS", lambda f: _number(f.tool_calls)),
    ("FAILED", lambda f: _number(f.tool_failed)),
    ("TOOK", lambda f: "" if f.tool_median_ms is None else duration(f.tool_median_ms * 1000)),
    ("ERRORS", lambda f: _number(f.errors)),
    ("OPEN", lambda f: _number(f.errors_open)),
    ("CHANGES", lambda f: _number(f.file_changes)),
    ("LINES", lambda f: lines_of(f)),
    ("CALLS", lambda f: _number(f.llm_calls)),
    ("TOKENS", lambda f: _number(f.tokens)),
    ("CACHED", lambda f: _number(f.cache_read_tokens)),
    ("COST", lambda f: dollars(f.cost_usd)),
)  # fmt: skip
# On a narrow terminal columns are left out in this order.
_DROPPED = (
    "TOOK",
    "MEDIAN",
    "CACHED",
    "OPEN",
    "FAILED",
    "LINES",
    "CALLS",
    "SESSIONS",
    "CHANGES",
    "TOOLS",
    "ERRORS",
)
_WITHOUT = {"session": ("SESSIONS",), "path": ("OPEN",)}


def _table(rows: list[Figures], dimension: str) -> str:
    columns = [
        (head, show)
        for head, show in _COLUMNS
        if head not in _WITHOUT.get(dimension, ()) and any(show(row) not in ("", "0") for row in rows)
    ]
    cells = [(_name(row), *(show(row) for _, show in columns), _label(row)) for row in rows]
    heads = (dimension.upper(), *(head for head, _ in columns), "")
    right = range(1, len(columns) + 1)
    return table(heads, cells, right=tuple(right), drop=_DROPPED) if cells else ""


def _plot(rows: list[Figures], dimension: str) -> str:
    """Bars of the first figure that the rows have: cost, tokens, tool calls, changes, turns."""
    sizes: tuple[tuple[str, Callable[[Figures], Decimal | int | None]], ...] = (
        ("cost", lambda row: row.cost_usd),
        ("tokens", lambda row: row.tokens),
        ("tool calls", lambda row: row.tool_calls),
        ("changes", lambda row: row.file_changes),
        ("turns", lambda row: row.turns),
    )
    for what, size_of in sizes:
        values = [size_of(row) for row in rows]
        if any(values):
            drawn = []
            for row, size in zip(rows, values, strict=True):
                name = f"{_name(row)}  {_label(row)}".rstrip() if dimension == "session" else _name(row)
                value = dollars(size) if isinstance(size, Decimal) else _number(size)
                drawn.append((name, None if size is None else float(size), value))
            return f"{what} by {dimension}\n{bars(drawn)}"
    return ""


def lines_of(row: Figures) -> str:
    text = change(row.lines_added, row.lines_removed)
    return f"{text}, {row.lines_unknown:,} unknown" if text and row.lines_unknown else text


def _name(row: Figures) -> str:
    return "(unknown)" if row.key is None else one_line(row.key)


def _label(row: Figures) -> str:
    """The label, unless it repeats the key."""
    is_redundant = row.label is None or row.label.rpartition("/")[2] == row.key
    return "" if is_redundant or row.label is None else one_line(row.label)


def _number(n: int | None) -> str:
    return "" if n is None else f"{n:,}"
