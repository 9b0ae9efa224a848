"""Errors of the log, whether each was dealt with, and how long that took.

An error is resolved when the log says so (`told`: the event itself, or a later event of type `error` with the
same context id or a link to it), or when what failed went well later in its session (`seen`: the same tool on
the same path, or, without a path, with the same title). Else nobody knows it to be resolved, and it counts as
open (P7). Reads through the query it is given; writes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eventlog.paths import within_sql
from eventlog.projections.definitions import EVENTS_NEWEST_FIRST, HAPPENED_AT
from eventlog.query.lookup import Query

TOLD, SEEN = "told", "seen"

# More are not looked through for one answer.
ERRORS_MAX = 10_000

_AT = f"epoch_us({HAPPENED_AT})"
# Where adapters and callers put the command of a tool.
_COMMAND = "coalesce({})".format(
    ", ".join(
        f"json_extract_string(payload, '$.{place}')"
        for place in ("command", "args.command", "input.command", "arguments.command")
    )
)
_LINKS = " || ".join(f"coalesce({n}, [])" for n in ("extends", "related_to", "reinforces", "contradicts"))


# The first columns of a row of `failures`, as they are called.
_FACTS = (
    "event_id", "position", "session_id", "turn", "turn_id", "context_id", "at", "error_type", "tool", "path",
    "message",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failure:
    """An error. `resolved` is `told`, `seen`, or None where it is open; times in µs."""

    event_id: str
    position: int
    session_id: "str | None"
    turn: "int | None"
    turn_id: "str | None"
    context_id: "str | None"
    at: "int | None"
    error_type: "str | None"
    tool: "str | None"
    path: "str | None"
    message: "str | None"
    resolved: "str | None" = None
    resolved_by: "str | None" = None  # the event that shows it; None where the error itself says so
    resolved_at: "int | None" = None
    resolution: "str | None" = None

    @property
    def turn_name(self) -> "str | None":
        return (
            None if self.session_id is None or self.turn_id is None else f"{self.session_id}_{self.turn_id}"
        )

    @property
    def took_us(self) -> "int | None":
        """From the error to what shows it resolved; None where that is not known."""
        if self.at is None or self.resolved_at is None:
            return None
        return max(0, self.resolved_at - self.at)


def failures(
    query: Query,
    *,
    positions: "Sequence[int] | None" = None,
    path: "str | None" = None,
    session: "str | None" = None,
    since: "int | None" = None,
) -> "list[Failure]":
    """The errors that fit, the newest first. Args: positions: only of these; session: beginning of its id."""
    parameters: list[Any] = []
    where = ["event_type = 'error'"]

    def add(condition: str, *values: object) -> None:
        first = len(parameters) + 1
        parameters.extend(values)
        where.append(condition.format(*(f"${first + n}" for n in range(len(values)))))

    if positions is not None:
        add("list_contains({}, position)", list(positions))
    if path is not None:
        condition, named = within_sql("path", path)
        add(condition, *named)
    if session is not None:
        add("starts_with(session_id, {})", session)
    if since is not None:
        add(f"{_AT} >= {{}}", since)
    rows = query(
        f"select event_id, position, session_id, turn, turn_id, context_id, {_AT}, error_type, tool, path, "
        "coalesce(json_extract_string(payload, '$.message'), title), tool_use_id, resolved, "
        f"json_extract_string(payload, '$.resolution'), {_COMMAND} "
        f"from events where {' and '.join(where)} "
        f"order by {EVENTS_NEWEST_FIRST} limit {ERRORS_MAX}",
        parameters,
    ).rows
    told = _told(query, [row[5] for row in rows if row[5]])
    seen = _Seen(query, rows)
    return [_failure(row, told, seen) for row in rows]


def _failure(
    row: "tuple[Any, ...]", told: "dict[str, list[tuple[int, str, int | None]]]", seen: "_Seen"
) -> Failure:
    says_so, resolution = row[12], row[13]
    later = [one for one in told.get(row[5] or "", ()) if one[0] > row[1]]
    found = later[0][1:] if later else seen.after(row)
    how = TOLD if says_so or later else SEEN if found else None
    by, at = found or (None, None)
    facts = dict(zip(_FACTS, row, strict=False))
    return Failure(**facts, resolved=how, resolved_by=by, resolved_at=at, resolution=resolution)


def _told(query: Query, contexts: "Sequence[str]") -> "dict[str, list[tuple[int, str, int | None]]]":
    """By context: the errors marked resolved that are of it or link to it, in order."""
    found: dict[str, list[tuple[int, str, int | None]]] = {}
    if not contexts:
        return found
    rows = query(
        f"select position, event_id, {_AT}, context_id, {_LINKS} from events "
        "where event_type = 'error' and resolved order by position",
        [],
    ).rows
    wanted = set(contexts)
    for position, event_id, at, context, links in rows:
        for name in wanted.intersection([context, *links]):
            found.setdefault(name, []).append((position, event_id, at))
    return found


class _Seen:
    """What went well in the sessions of some errors, by session, tool and what it was done to."""

    def __init__(self, query: Query, errors: "Sequence[tuple[Any, ...]]") -> None:
        self._well: dict[tuple[str, str, str], list[tuple[int, str, int | None]]] = {}
        self._failed: dict[tuple[str, str], tuple[str, str]] = {}
        sessions = sorted({row[2] for row in errors if row[2]})
        if not sessions:
            return
        rows = query(
            f"select position, event_id, {_AT}, session_id, tool, path, title, "
            f"{_COMMAND}, success, tool_use_id from events "
            "where event_type in ('action', 'mcp_action') and tool is not null "
            "and list_contains($1, session_id) order by position",
            [sessions],
        ).rows
        for position, event_id, at, session, tool, path, title, command, success, use in rows:
            on = path or command or title
            if success is False and use and on:
                self._failed[session, use] = (tool, on)
            elif success and on:
                self._well.setdefault((session, tool, on), []).append((position, event_id, at))

    def after(self, error: "tuple[Any, ...]") -> "tuple[str, int | None] | None":
        """The first event behind an error in which what failed went well."""
        position, session, tool, path, use, command = (error[i] for i in (1, 2, 8, 9, 11, 14))
        known = self._failed.get((session, use)) if use else None
        tool, on = known or (tool, path or command)
        for at_position, event_id, at in self._well.get((session, tool, on), ()):
            if at_position > position:
                return event_id, at
        return None


def median_us(found: "Iterable[Failure]") -> "int | None":
    """The median time to resolution of those where it is known."""
    times = sorted(took for failure in found if (took := failure.took_us) is not None)
    return times[len(times) // 2] if times else None
