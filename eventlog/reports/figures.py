"""Counts, durations, errors, tokens and cost of a log: in total, and by day, session, model and so on.

All figures are of one snapshot of the log: `asking` pins a view, and every question of an answer goes to it.
An event counts at its own time, or where that is unknown when it was recorded; days, weeks and months are
those of UTC, or of the wanted zone. A turn counts on the day it began, a session on every day with activity
in it. Model calls are those of the view `llm_calls`, each counted once (P3). A count over nothing is 0, a sum
over nothing is null, and so is a figure that does not exist in the wanted dimension (P7). One thread.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from eventlog.projections.definitions import (
    HAPPENED_AT,
    LLM_CALLS,
    SESSIONS_NEWEST_FIRST,
    names_of,
    quoted,
)
from eventlog.query.lookup import NOT_REWRITTEN, Query, rewritten_turns
from eventlog.query.prices import Prices
from eventlog.reports import zones
from eventlog.reports.scope import ALL, Scope
from eventlog.search import failures

if TYPE_CHECKING:
    from eventlog.store import Store

DIMENSIONS = (
    "day", "week", "month", "window", "session", "model", "agent", "repo", "person", "host", "tool", "path",
)  # fmt: skip
OF_TIME = ("day", "week", "month", "window")

_WINDOW_HOURS = 5
_HOURS_OF_400_YEARS = 146_097 * 24  # after which the calendar repeats itself
_HOURS_BEFORE_1970 = 719_162 * 24  # since the year 1


# Makes an SQL expression for the µs that the reader's clock shows, from one for a time.
Local = Callable[[str], str]


def _utc(at: str) -> str:
    return f"epoch_us({at})"


def _dates(at: str, local: Local) -> "dict[str, str]":
    """The day, the week by ISO 8601 and the month of a time, by the reader's clock."""
    forms = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}
    return {name: f"strftime(make_timestamp({local(at)}), '{form}')" for name, form in forms.items()}


# `{prices}`: the cost of the call and what a cache saved, where the caller wants them.
_CALLS = (
    f"(select {quoted(names_of(LLM_CALLS))}, happened, repo, person, host, {{prices}} "
    "from llm_calls join "
    f"(select position, repo, person, host, {HAPPENED_AT} as happened from events where event_type = 'llm') "
    "using (position))"
)
_ACTIONS = "event_type in ('action', 'mcp_action')"
_CHANGES = "event_type = 'file' and operation is distinct from 'read'"
_ERRORS = "event_type = 'error'"
# Changes of empty directories, which are of no file. Few events lack both hashes.
_EMPTY_DIRECTORIES = (
    f"(select position from events where {_CHANGES} and before_hash is null and after_hash is null and "
    "'040000' in (try(json_extract_string(payload, '$.after_mode')), "
    "try(json_extract_string(payload, '$.before_mode'))))"
)
_ALL_REWRITTEN = "(select session_id from turns group by 1 having bool_and(coalesce(rewritten, false)))"
# Events that an import adds itself happen when it runs, and do not count as activity on that day.
_DOINGS = (
    "turn",
    "intent",
    "message",
    "llm",
    "action",
    "mcp_action",
    "file",
    "decision",
    "error",
    "feedback",
)

_WHO = {"person": "person", "host": "host"}


# The keys under which a row of each relation counts. A relation without a dimension adds nothing to it.
_OF_SESSIONS = {"agent": "agent", "repo": "repo", **_WHO}


def _of_events(local: Local) -> "dict[str, str]":
    names = ("agent", "repo", "tool", "path")
    return {**_dates(HAPPENED_AT, local), "session": "session_id", **{name: name for name in names}, **_WHO}


def _of_turns(local: Local) -> "dict[str, str]":
    return {**_dates("started_at", local), "session": "session_id", "agent": "agent", "repo": "repo", **_WHO}


def _of_calls(local: Local) -> "dict[str, str]":
    names = ("model", "agent", "repo")
    window = "(epoch_us(happened) // 3600000000)::varchar"  # the hour; `_windows` makes windows of them
    return {
        **_dates("happened", local), "window": window, "session": "session_id",
        **{name: name for name in names}, **_WHO,
    }  # fmt: skip


_OF_EVENTS, _OF_TURNS, _OF_CALLS = _of_events(_utc), _of_turns(_utc), _of_calls(_utc)

_TOKENS = (
    "prompt_tokens", "completion_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens",
    "cache_write_1h_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one key. Times in µs or ms as named, tokens as in the view `llm_calls`.

    `cost_usd` is that of the calls with a price, `saved_usd` how much more they would have cost without a
    cache; `unpriced_calls` have none, and report `unpriced_tokens`
    (prompt and completion). The line counts of `lines_unknown` changes are unknown: the sums are those of the
    others.
    """

    key: "str | None" = None
    label: "str | None" = None  # title of a session, or the name under which a model is priced
    sessions: "int | None" = None
    turns: "int | None" = None
    turn_median_us: "int | None" = None
    tool_calls: "int | None" = None
    tool_succeeded: "int | None" = None
    tool_failed: "int | None" = None
    tool_unknown: "int | None" = None  # with an unknown result
    tool_total_ms: "int | None" = None
    tool_median_ms: "int | None" = None
    errors: "int | None" = None
    errors_open: "int | None" = None
    resolve_median_us: "int | None" = None
    file_changes: "int | None" = None
    files: "int | None" = None
    lines_added: "int | None" = None
    lines_removed: "int | None" = None
    lines_unknown: "int | None" = None
    llm_calls: "int | None" = None
    prompt_tokens: "int | None" = None
    completion_tokens: "int | None" = None
    reasoning_tokens: "int | None" = None
    cache_read_tokens: "int | None" = None
    cache_write_tokens: "int | None" = None
    cache_write_1h_tokens: "int | None" = None
    cost_usd: "Decimal | None" = None
    saved_usd: "Decimal | None" = None
    unpriced_calls: "int | None" = None
    unpriced_tokens: "int | None" = None

    @property
    def tokens(self) -> "int | None":
        """Prompt and completion."""
        counts = [n for n in (self.prompt_tokens, self.completion_tokens) if n is not None]
        return sum(counts) if counts else None

    @property
    def success(self) -> "float | None":
        """The share of successful tool calls, of those with a known result."""
        with_result = (self.tool_succeeded or 0) + (self.tool_failed or 0)
        return (self.tool_succeeded or 0) / with_result if with_result else None

    def described(self) -> "dict[str, Any]":
        """Every figure by its name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


Rows = dict["str | None", list[Figures]]


@contextmanager
def asking(store: "Store") -> "Iterator[Query]":
    """A way to ask in SQL, always about the same snapshot of the log."""
    from eventlog.query.connection_cache import ConnectionCache
    from eventlog.query.engine import Bound, Snapshot, run

    with store.view() as view, ConnectionCache[Bound]() as cache:
        yield partial(run, Snapshot(view, store.layout, store.fs, None, cache, store.line_counts))


def total(query: Query, prices: "Prices | None", scope: Scope = ALL) -> Figures:
    """All figures of a scope."""
    return figures_by(query, (None,), prices, scope)[None][0]


def by(query: Query, dimension: str, prices: "Prices | None", scope: Scope = ALL) -> "list[Figures]":
    """A row for each key: days from the oldest, sessions from the newest, others from the largest."""
    return figures_by(query, (dimension,), prices, scope)[dimension]


def rewritten_turns_in(query: Query, scope: Scope = ALL) -> int:
    """How many turns of rewritten commits began in a scope."""
    return rewritten_turns(query, scope.condition("started_at"))


def figures_by(
    query: Query,
    dimensions: "Sequence[str | None]",
    prices: "Prices | None",
    scope: Scope = ALL,
    *,
    rewritten: bool = False,
    zone: "tzinfo | None" = None,
) -> Rows:
    """The rows of several dimensions, with one query of each relation; None is the total, one row.

    Args: rewritten: also count commits that no line reaches any more; zone: whose days, weeks and months.
    """
    assert set(dimensions) <= {None, *DIMENSIONS}, dimensions
    figures: dict[str | None, _FiguresByKey] = {dimension: {} for dimension in dimensions}
    if None in figures:
        figures[None][None] = {}
    left_out = not rewritten and rewritten_turns(query) > 0
    local = _utc if zone is None else zones.local(zone, *_span(query))
    readings = (
        partial(_events, left_out, local),
        partial(_sessions, left_out),
        partial(_turns, left_out, local),
        partial(_calls, prices, local),
    )
    for reading in readings:
        for dimension, key, counts in reading(query, dimensions, scope):
            figures[dimension].setdefault(key, {}).update(counts)
    # An error without a path does not count by path.
    figures.get("path", {}).pop(None, None)
    rows_by_dimension: Rows = {}
    for dimension, keys in figures.items():
        nothing: dict[str, Any] = dict.fromkeys(_counts_of(dimension, prices), 0)
        labels = _labels(query, prices, dimension, keys)
        rows = [Figures(key=key, label=labels.get(key), **nothing | counts) for key, counts in keys.items()]
        rows_by_dimension[dimension] = _ordered(query, dimension, rows)
    return rows_by_dimension


_FiguresByKey = dict["str | None", dict[str, Any]]
_KeyedFigures = Iterator[tuple["str | None", "str | None", dict[str, Any]]]


def _span(query: Query) -> "tuple[int, int]":
    """The first and the last time of the log, in µs; both 0 of an empty one."""
    first, last = query(
        f"select epoch_us(min({HAPPENED_AT})), epoch_us(max({HAPPENED_AT})) from events", []
    ).rows[0]
    return first or 0, last or 0


def _counts_of(dimension: "str | None", prices: "Prices | None") -> "list[str]":
    """The figures that are 0 for a key without rows."""
    names = ["sessions"]
    if dimension is None or dimension in _OF_TURNS:
        names.append("turns")
    if dimension is None or dimension in _OF_CALLS:
        names += ["llm_calls", "unpriced_calls"] if prices else ["llm_calls"]
    if dimension is None or dimension in _OF_EVENTS:
        names += ["errors", "errors_open"]
        if dimension != "path":
            names += ["tool_calls", "tool_succeeded", "tool_failed", "tool_unknown"]
        names += ["file_changes", "files", "lines_unknown"] if dimension != "tool" else []
    return names


def _ordered(query: Query, dimension: "str | None", rows: "list[Figures]") -> "list[Figures]":
    if dimension in OF_TIME:
        return sorted(rows, key=lambda row: row.key or "")
    if dimension == "session":
        newest = query(f"select session_id from sessions order by {SESSIONS_NEWEST_FIRST}", []).rows
        order = {key: n for n, (key,) in enumerate(newest)}
        return sorted(rows, key=lambda row: order.get(row.key, len(order)))
    return sorted(rows, key=lambda row: (*(-(n or 0) for n in _weight(row)), row.key or ""))


def _weight(row: Figures) -> "tuple[int | Decimal | None, ...]":
    if row.turns is None and row.llm_calls is None:
        return row.tool_calls or row.file_changes, row.errors
    return row.cost_usd, row.tokens, row.turns


class _Sets:
    """Several groupings in one statement: its SELECT, its GROUP BY, and the dimension of a row."""

    def __init__(
        self, columns: "dict[str, str]", dimensions: "Sequence[str | None]", *, also: str = ""
    ) -> None:
        self._names = [name for name in columns if name in dimensions]
        self.known: list[str | None] = [*self._names, *([None] if None in dimensions else [])]
        quoted = {name: f'"{name}"' for name in self._names}  # some are words of SQL
        sets = ", ".join(f"({', '.join(filter(None, (name, also)))})" for name in quoted.values())
        empty = f"({also})" if None in dimensions else ""
        self.group = f"group by grouping sets ({', '.join(filter(None, (sets, empty)))})"
        self.keys = "".join(f"{columns[name]} as {as_name}, " for name, as_name in quoted.items())
        self.select = "".join(f"{name}, grouping({name}) = 0, " for name in quoted.values())

    def read(self, row: "tuple[Any, ...]") -> "tuple[str | None, str | None, tuple[Any, ...]]":
        """The dimension, the key, and the columns that were selected after `select`."""
        rest = row[2 * len(self._names) :]
        for n, name in enumerate(self._names):
            if row[2 * n + 1]:
                return name, row[2 * n], rest
        return None, None, rest


def _events(
    left_out: bool, local: Local, query: Query, dimensions: "Sequence[str | None]", scope: Scope
) -> _KeyedFigures:
    """Sessions, tools, errors, changes of files."""
    sets = _Sets(_of_events(local), dimensions)
    if not sets.known:
        return
    names = (
        "tool_calls", "tool_succeeded", "tool_failed", "tool_unknown", "tool_total_ms", "tool_median_ms",
        "errors", "file_changes", "files", "lines_added", "lines_removed", "lines_unknown",
    )  # fmt: skip
    rows = query(
        f"""
        with changed as (select position, lines_added as added, lines_removed as removed from files),
        done as (
            select {sets.keys} session_id as session_of, path as path_of, event_type, operation, success,
                duration_ms, added, removed
            from events left join changed using (position)
            where event_type in {_DOINGS} and {scope.condition(HAPPENED_AT)}
                and {f"(turn is null or {NOT_REWRITTEN})" if left_out else "true"}
                and position not in {_EMPTY_DIRECTORIES})
        select {sets.select}
            count(distinct session_of), count(distinct session_of) filter ({_ACTIONS}),
            count(distinct session_of) filter ({_CHANGES}),
            count(*) filter ({_ACTIONS}), count(*) filter ({_ACTIONS} and success),
            count(*) filter ({_ACTIONS} and not success),
            count(*) filter ({_ACTIONS} and success is null), sum(duration_ms) filter ({_ACTIONS})::bigint,
            median(duration_ms) filter ({_ACTIONS}), count(*) filter ({_ERRORS}),
            count(*) filter ({_CHANGES}), count(distinct path_of) filter ({_CHANGES}),
            sum(added) filter ({_CHANGES})::bigint, sum(removed) filter ({_CHANGES})::bigint,
            count(*) filter ({_CHANGES} and (added is null or removed is null))
        from done {sets.group}""",
        [],
    ).rows
    of_errors = _resolutions(local, query, sets.known, scope) if any(row[-6] for row in rows) else {}
    for row in rows:
        dimension, key, (sessions, of_tool, of_path, *rest) = sets.read(row)
        counts: dict[str, Any] = dict(zip(names, rest, strict=True))
        counts["tool_median_ms"] = _whole(counts["tool_median_ms"])
        counts["sessions"] = {"tool": of_tool, "path": of_path}.get(dimension or "", sessions)
        counts |= _resolved(of_errors.get((dimension, key), []), counts["errors"])
        if dimension in ("tool", "path"):  # tools have no figures of files, paths none of tools
            gone = names[:6] if dimension == "path" else names[7:]
            counts = {name: value for name, value in counts.items() if name not in gone}
            if not (counts["errors"] or counts.get("tool_calls") or counts.get("file_changes")):
                continue
        yield dimension, key, counts


_Failures = list[failures.FoundError]


def _resolutions(
    local: Local, query: Query, dimensions: "Sequence[str | None]", scope: Scope
) -> "dict[tuple[str | None, str | None], _Failures]":
    """The errors with their resolutions, by dimension and key."""
    keys = [name for name in dimensions if name is not None]
    select = "".join(f", {_of_events(local)[name]}" for name in keys)
    rows = query(
        f"select position{select} from events where {_ERRORS} and {scope.condition(HAPPENED_AT)} "
        f"order by position desc limit {failures.ERRORS_MAX}",
        [],
    ).rows
    keys_by_position = {row[0]: row[1:] for row in rows}
    failures_by_key: dict[tuple[str | None, str | None], _Failures] = defaultdict(list)
    for failure in failures.failures(query, positions=list(keys_by_position)):
        failures_by_key[None, None].append(failure)
        for name, key in zip(keys, keys_by_position[failure.position], strict=True):
            failures_by_key[name, key].append(failure)
    return failures_by_key


def _resolved(errors_read: _Failures, errors: int) -> "dict[str, int | None]":
    is_complete = len(errors_read) == errors  # else there are more than one answer reads
    return {
        "errors_open": sum(failure.resolved is None for failure in errors_read) if is_complete else None,
        "resolve_median_us": failures.median_us(errors_read),
    }


def _sessions(
    left_out: bool, query: Query, dimensions: "Sequence[str | None]", scope: Scope
) -> _KeyedFigures:
    """The sessions of the log (docs/sql.md), also those without figures."""
    sets = _Sets(_OF_SESSIONS, dimensions)
    if not sets.known:
        return
    on_line = f"session_id not in {_ALL_REWRITTEN}" if left_out else "true"
    present = scope.condition("last_at")
    if scope.until is not None:  # its last event may come after that
        active = f"event_type in {_DOINGS} and {scope.condition(HAPPENED_AT)}"
        present = f"({present} or session_id in (select session_id from events where {active}))"
    rows = query(
        f"""
        with there as (
            select {sets.keys} session_id from sessions where {present} and {on_line})
        select {sets.select} count(*) from there {sets.group}""",
        [],
    ).rows
    for row in rows:
        dimension, key, (sessions,) = sets.read(row)
        yield dimension, key, {"sessions": sessions}


def _turns(
    left_out: bool, local: Local, query: Query, dimensions: "Sequence[str | None]", scope: Scope
) -> _KeyedFigures:
    sets = _Sets(_of_turns(local), dimensions)
    if not sets.known:
        return
    on_line = "rewritten is not true" if left_out else "true"
    rows = query(
        f"""
        with begun as (
            select {sets.keys} epoch_us(completed_at) - epoch_us(started_at) as took
            from turns where {scope.condition("started_at")} and {on_line})
        select {sets.select} count(*), median(took) filter (took > 0) from begun {sets.group}""",
        [],
    ).rows
    for row in rows:
        dimension, key, (turns, took) = sets.read(row)
        if turns:
            yield dimension, key, {"turns": turns, "turn_median_us": _whole(took)}


def _calls(
    prices: "Prices | None",
    local: Local,
    query: Query,
    dimensions: "Sequence[str | None]",
    scope: Scope,
) -> _KeyedFigures:
    """Tokens and cost, which is that of SQL (docs/costs.md)."""
    sets = _Sets(_of_calls(local), dimensions)
    if not sets.known:
        return
    names = ("llm_calls", *_TOKENS, "cost_usd", "saved_usd", "unpriced_calls", "unpriced_tokens")
    priced = "cost_usd as cost, saved_usd as saved" if prices else "null as cost, null as saved"
    sums = ", ".join(f"sum({name})::bigint" for name in _TOKENS)
    rows = query(
        f"""
        with called as (
            select {sets.keys} session_id as session_of, cost, saved, {", ".join(_TOKENS)}
            from {_CALLS.format(prices=priced)} where {scope.condition("happened")})
        select {sets.select} count(distinct session_of), count(*), {sums}, sum(cost), sum(saved),
            count(*) filter (cost is null), coalesce(sum(coalesce(prompt_tokens, 0)
                + coalesce(completion_tokens, 0)) filter (cost is null), 0)::bigint
        from called {sets.group}""",
        [],
    ).rows
    windows: list[tuple[str, dict[str, Any]]] = []
    for row in rows:
        dimension, key, (of_sessions, *figures) = sets.read(row)
        counts = dict(zip(names, figures, strict=True))
        if not counts["llm_calls"] and dimension is not None:
            continue
        if prices is None:
            counts = {name: counts[name] for name in ("llm_calls", *_TOKENS)}
        else:
            for name in ("cost_usd", "saved_usd"):
                counts[name] = None if counts[name] is None else counts[name].normalize()
        if dimension == "model":
            counts["sessions"] = of_sessions
        if dimension != "window":
            yield dimension, key, counts
        elif key is not None:
            windows.append((key, counts))
    for key, counts in _windows(windows):
        yield "window", key, counts


def _windows(hours: "list[tuple[str, dict[str, Any]]]") -> "Iterator[tuple[str, dict[str, Any]]]":
    """Five-hour windows, as subscriptions have them, from hours since 1970: each begins with the full hour of
    the
    first call after the window before."""
    began = -_WINDOW_HOURS
    windows: dict[int, dict[str, Any]] = {}
    for hour, counts in sorted((int(key), counts) for key, counts in hours):
        if hour >= began + _WINDOW_HOURS:
            began = hour
        sums = windows.setdefault(began, {})
        for name, n in counts.items():
            addends = [addend for addend in (sums.get(name), n) if addend is not None]
            sums[name] = sum(addends[1:], addends[0]) if addends else None
    for hour, sums in windows.items():
        yield _hour_name(hour), sums


def _hour_name(hour: int) -> str:
    """An hour since 1970 in UTC, also of a year that Python's calendar does not reach."""
    cycles, rest = divmod(hour + _HOURS_BEFORE_1970, _HOURS_OF_400_YEARS)
    moment = datetime(1, 1, 1) + timedelta(hours=rest)
    return f"{moment.year + 400 * cycles:04d}-{moment:%m-%dT%H:%MZ}"


def _labels(
    query: Query, prices: "Prices | None", dimension: "str | None", keys: "Iterable[str | None]"
) -> "dict[str | None, str | None]":
    if dimension == "session":
        return dict(query("select session_id, title from sessions", []).rows)
    if dimension == "repo":
        return dict(query("select repo, project_name from sessions_master", []).rows)
    if dimension == "model" and prices is not None:
        return {key: prices.known_as(key) for key in keys}
    return {}


def _whole(value: Any) -> "int | None":
    return None if value is None else round(value)
