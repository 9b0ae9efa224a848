"""Errors of the log, whether each was resolved, and how long that took.

The view `errors` says which are resolved (`projections/resolutions.py`); an error whose resolution is unknown
counts as open (P7). Reads through the given query; writes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eventlog.base.paths import within_sql
from eventlog.projections.definitions import DATED_ERRORS
from eventlog.query.lookup import Query

# The most that one answer reads.
ERRORS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class FoundError:
    """An error. `resolved` is `told`, `seen`, `exploratory`, or None where it is open; times in µs."""

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
    command: "str | None" = None  # what ran and failed

    @property
    def turn_name(self) -> "str | None":
        return (
            None if self.session_id is None or self.turn_id is None else f"{self.session_id}_{self.turn_id}"
        )

    @property
    def took_us(self) -> "int | None":
        """From the error to the event that shows it resolved; None where that is unknown."""
        if self.at is None or self.resolved_at is None:
            return None
        return max(0, self.resolved_at - self.at)


def failures(
    query: Query,
    *,
    positions: "Sequence[int] | None" = None,
    path: "str | None" = None,
    sessions: "Sequence[str] | None" = None,
    since: "int | None" = None,
) -> "list[FoundError]":
    """The errors that match, the newest first. Args: positions: only of these; sessions: ids."""
    parameters: list[Any] = []
    where = ["true"]

    def add(condition: str, *values: object) -> None:
        first = len(parameters) + 1
        parameters.extend(values)
        where.append(condition.format(*(f"${first + n}" for n in range(len(values)))))

    if positions is not None:
        add("list_contains({}, position)", list(positions))
    if path is not None:
        condition, named = within_sql("path", path)
        add(condition, *named)
    if sessions is not None:
        add("list_contains({}, session_id)", list(sessions))
    if since is not None:
        add("epoch_us(happened) >= {}", since)
    rows = query(
        "select event_id, position, session_id, turn, turn_id, context_id, epoch_us(happened), error_type, "
        "tool, path, coalesce(message, title), resolved_how, resolved_by, epoch_us(resolved_at), resolution, "
        "command "
        f"from {DATED_ERRORS} where {' and '.join(where)} "
        f"order by happened desc nulls last, position desc limit {ERRORS_MAX}",
        parameters,
    ).rows
    return [FoundError(*row) for row in rows]


def median_us(errors: "Iterable[FoundError]") -> "int | None":
    """The median time to resolution of those where it is known."""
    times = sorted(took for error in errors if (took := error.took_us) is not None)
    return times[len(times) // 2] if times else None
