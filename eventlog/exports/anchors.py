"""The final state of contexts as wire payloads: project, sessions master, sessions, turns.

Read from the projections of one pinned view. A context is written again only when its state may have
changed since a position: an event of it stands behind, a model call that it counted is counted
elsewhere since, or the session it extends got its name. Pure but for the queries; one thread.
"""

import datetime
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlog.exports import wire
from eventlog.names import project_context
from eventlog.query.engine import Limits, run

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

USER_MESSAGE_BYTES_MAX = 1_000  # S0-14, ruling c3: only here, the log has all of it

# As many contexts as there are; DuckDB is told neither to stop nor to hurry.
_LIMITS = Limits(rows_max=1 << 40, timeout_s=None, threads=1)
_PAGE = 2_000  # contexts in memory at a time: some 20 MB
_NONE = 1 << 62  # a position behind all

_TOTALS = (
    "events",
    "tool_calls",
    "llm_calls",
    "prompt_tokens",
    "completion_tokens",
    "files_modified",
    "errors",
    "errors_resolved",
)


_Row = Mapping[str, Any]


class Anchor(NamedTuple):
    """One context's final state; `at` is when its last event happened, in microseconds.

    `session_id` is None for projects and masters.
    """

    group: str
    event_kind: str
    source: str
    context_id: str
    payload: str
    extends: list[str]
    at: int | None
    session_id: str | None = None


def changed(view: "LogView", store: "Store", since: int) -> Iterator[Anchor]:
    """The contexts whose state may have changed at or behind `since`, parents first."""

    def page(session: int, turn: int) -> tuple[list[_Row], list[_Row], list[_Row]]:
        """Masters, and the next sessions and turns that began behind these positions."""
        given = [since, session, turn, _PAGE]
        masters, sessions, turns = run(view, store.layout, store.fs, _CHANGED, given, _LIMITS).rows[0]
        return masters or [], sessions or [], turns or []

    masters, sessions, turns = page(-1, -1)
    yield from _masters(masters, store)
    while sessions:
        yield from map(_session, sessions)
        sessions = page(sessions[-1]["first_position"], _NONE)[1] if len(sessions) == _PAGE else []
    while turns:
        yield from map(_turn, turns)
        turns = page(_NONE, turns[-1]["first_position"])[2] if len(turns) == _PAGE else []


# One statement, so that the projections are folded once. `lost`: turns of model calls that an event behind
# $1 speaks of again, and so may count no longer. `named`: whether a session got its name there. `left`:
# repositories of sessions that name another one there, and so count in its master from then on.
_CHANGED = """
    WITH fresh AS (
        SELECT DISTINCT coalesce(agent, '') AS a, coalesce(message_id, '') AS m, coalesce(request_id, '') AS r
        FROM events WHERE event_type = 'llm' AND position >= $1
            AND (message_id IS NOT NULL OR request_id IS NOT NULL)
    ), lost AS (
        SELECT DISTINCT e.session_id, e.turn FROM events e
        JOIN fresh f ON coalesce(e.agent, '') = f.a AND coalesce(e.message_id, '') = f.m
            AND coalesce(e.request_id, '') = f.r
        WHERE e.event_type = 'llm' AND e.position < $1
    ), named AS (
        SELECT s.session_id, s.context_id, min(e.position) >= $1 AS lately
        FROM sessions s LEFT JOIN events e ON e.session_id = s.session_id AND e.event_type = 'session'
            AND e.context_id = s.context_id
        GROUP BY ALL
    ), repos AS (
        SELECT repo, min(position) AS repo_position
        FROM events WHERE repo IS NOT NULL GROUP BY repo
    ), told AS (
        SELECT DISTINCT session_id, repo FROM events
        WHERE position >= $1 AND session_id IS NOT NULL AND repo IS NOT NULL
    ), "left" AS (
        SELECT DISTINCT e.repo FROM events e
        JOIN told ON told.session_id = e.session_id AND told.repo <> e.repo
        WHERE e.position < $1
    ), masters_changed AS (
        SELECT m.*, r.repo_position,
            epoch_us(coalesce(e.occurred_at, e.recorded_at)) AS "at"
        FROM sessions_master m JOIN repos r USING (repo) LEFT JOIN events e ON e.position = m.last_position
        WHERE m.last_position >= $1 OR m.repo IN (SELECT repo FROM "left")
    ), sessions_changed AS (
        SELECT s.*, epoch_us(coalesce(e.occurred_at, e.recorded_at)) AS "at"
        FROM sessions s LEFT JOIN events e ON e.position = s.last_position
        WHERE s.last_position >= $1 OR s.session_id IN (SELECT session_id FROM lost)
    ), turns_changed AS (
        SELECT t.*, epoch_us(coalesce(e.occurred_at, e.recorded_at)) AS "at", n.context_id AS session_context
        FROM turns t JOIN named n ON n.session_id = t.session_id
        LEFT JOIN events e ON e.position = t.last_position
        WHERE t.last_position >= $1 OR n.lately
            OR EXISTS (SELECT 1 FROM lost WHERE lost.session_id = t.session_id AND lost.turn = t.turn)
    )
    SELECT (SELECT list(x ORDER BY x.repo_position) FROM masters_changed x),
        (SELECT list(x ORDER BY x.first_position) FROM
            (SELECT * FROM sessions_changed WHERE first_position > $2 ORDER BY first_position LIMIT $4) x),
        (SELECT list(x ORDER BY x.first_position) FROM
            (SELECT * FROM turns_changed WHERE first_position > $3 ORDER BY first_position LIMIT $4) x)"""


def _masters(rows: list[_Row], store: "Store") -> Iterator[Anchor]:
    """Masters, and in front of them their projects: when one of these came to be cannot be told cheaply."""
    for row in rows:
        project = _project(row, store)
        if project is not None:
            data = {"project_name": _project_name(row, store), "repo_hash": row["repo"]}
            yield Anchor(
                "knowledge",
                "fact",
                "system",
                project,
                wire.envelope("project_anchor", wire.encode(data)),
                [],
                row["at"],
            )
    for row in rows:
        project = _project(row, store)
        data = {"active_session": row["active_session"], "total_sessions": row["total_sessions"]}
        yield Anchor(
            "master",
            "fact",
            "system",
            row["context_id"],
            wire.envelope("sessions_master", wire.encode(data)),
            row["extends"] or ([] if project is None else [project]),
            row["at"],
        )


def _project(row: _Row, store: "Store") -> str | None:
    """The project's anchor: the one that the master extends, else what its name makes of it."""
    name = _project_name(row, store)
    own = None if name is None else project_context(name, row["repo"])
    return next((link for link in row["extends"] or () if link.startswith("knowledge:")), own)


def _project_name(row: _Row, store: "Store") -> str | None:
    """What the master's own events say, else what the store says of its own repository."""
    if row["project_name"] is not None:
        return str(row["project_name"])
    return store.project_name if row["repo"] == store.repo_hash else None


def _session(row: _Row) -> Anchor:
    closed = row["status"] is not None and row["status"] != "active"
    data: dict[str, Any] = {
        "title": row["title"],
        "slug": row["slug"],
        "session_id": row["session_id"],
        "started_at": _iso(row["started_at"]),
        "status": row["status"],
        "turn_count": row["turn_count"],
        "last_turn": row["last_turn"],
        "totals": {name: row[name] for name in _TOTALS},
    }
    if closed:
        data |= {
            "ended_at": _iso(row["ended_at"]),
            "end_reason": row["end_reason"],
            "summary": row["summary"],
        }
    return Anchor(
        "sessions",
        "fact",
        "system",
        row["context_id"],
        wire.envelope("session_end" if closed else "session_start", wire.encode(data)),
        row["extends"],
        row["at"],
        row["session_id"],
    )


def _turn(row: _Row) -> Anchor:
    done = row["status"] is not None and row["status"] != "active"
    data: dict[str, Any] = {
        "turn_id": row["turn_id"],
        "sequence": row["turn"],
        "status": row["status"],
        "started_at": _iso(row["started_at"]),
    }
    if done:
        data |= {
            "completed_at": _iso(row["completed_at"]),
            "title": row["title"],
            "user_request": row["user_request"],
            "actions_taken": row["actions_taken"],
            "outcome": row["outcome"],
            "decisions": row["decisions"],
            "files_read": row["files_read"],
            "files_modified": row["files_modified"],
            "event_count": row["event_count"],
            "tokens_used": row["tokens_used"],
        }
    else:
        said = row["user_request"]
        data["user_message"] = None if said is None else wire.cut_text(said, USER_MESSAGE_BYTES_MAX)
    return Anchor(
        "turns",
        "observation",
        "agent" if done else "system",
        row["context_id"],
        wire.envelope("turn_end" if done else "turn_start", wire.encode(data)),
        [row["session_context"]],
        row["at"],
        row["session_id"],
    )


def _iso(moment: datetime.datetime | str | None) -> str | None:
    """ISO 8601 in UTC. A time beyond Python's years is text already."""
    if isinstance(moment, str):
        return moment.replace(" ", "T") + "Z"
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
