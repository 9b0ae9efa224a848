"""The final state of contexts as wire payloads: project, sessions master, sessions, turns.

Read from the projections of one pinned view. A context is written again only when its state may have changed
since a position: it has a later event, a model call that it counted is now counted elsewhere, or the session
that it extends got its name. A session that *waits*, without a name, a turn and an end, has no settled id
yet: nothing of it is written. Pure except for the queries; one thread.
"""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlog.base.names import project_context, turn_context
from eventlog.exports import streams
from eventlog.exports.locusgraph import wire
from eventlog.log.numbering import default_context
from eventlog.projections import definitions, joins, resolutions
from eventlog.projections.definitions import HAPPENED_AT
from eventlog.query.derived import derived_of
from eventlog.replay.certainty import EXACT, NONE

if TYPE_CHECKING:
    import duckdb

    from eventlog.log.reader import LogView
    from eventlog.store import Store

USER_MESSAGE_BYTES_MAX = 1_000  # S0-14, ruling c3: only on the wire; the log has all of it

_VIEWS = ("events", "sessions_master", "sessions", "turns")

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
_OF_DONE_TURN = (
    "title", "user_request", "actions_taken", "outcome", "decisions", "files_read", "files_modified",
    "event_count", "tokens_used",
)  # fmt: skip

_Row = Mapping[str, Any]


class Anchor(NamedTuple):
    """One context's final state; `at` is when its last event happened, in microseconds.

    `session_id` is None for projects and masters.
    """

    group: str
    context_id: str
    payload: str
    extends: list[str]
    at: int | None
    session_id: str | None = None
    event_kind: str = "fact"
    source: str = "system"
    related_to: tuple[str, ...] = ()


@dataclass(slots=True)
class ContextFacts:
    """Facts that a pass over the contexts also finds: complete once it has yielded its first one.

    `waiting`: sessions without a settled id → their agent. `late`: sessions that waited at `since` and no
    longer do → the position of their first event. `untouched`: contexts that may be extended and have not
    changed. `parents`: timeline events that others extend; `earlier`: those of them before `since`.
    """

    waiting: dict[str, str | None] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    untouched: list[str] = field(default_factory=list)
    parents: set[str] = field(default_factory=set)
    earlier: list[str] = field(default_factory=list)


def changed(
    view: "LogView", store: "Store", since: int, facts: ContextFacts | None = None
) -> Iterator[Anchor]:
    """The contexts whose state may have changed at or after `since`, parents first.

    The projections are folded once, and read as they are needed.
    """
    collected = ContextFacts() if facts is None else facts

    def ask(con: "duckdb.DuckDBPyConnection") -> Iterator[Anchor]:
        con.execute(_KEYS)
        con.execute(_ENDS)
        con.execute(_WAITING)
        con.execute(_touched(since))
        _derive(con)
        _collect_facts(con, since, collected, store)
        yield from _masters(list(streams.rows(con, _MASTERS)), store)
        yield from map(_session, streams.rows(con, _SESSIONS))
        yield from map(_provisional, streams.rows(con, _NAMED))
        yield from map(_turn, streams.rows(con, _TURNS))

    # Only columns of events that do not depend on settled ids of sessions: here these are not settled.
    return streams.of_views(view, store, _VIEWS, ask, frozenset(("position",)), homes=True)


def _collect_facts(con: "duckdb.DuckDBPyConnection", since: int, facts: ContextFacts, store: "Store") -> None:
    facts.waiting = dict(con.execute("SELECT session_id, agent FROM waiting ORDER BY place").fetchall())
    facts.late = dict(con.execute(_LATE.format(since=since)).fetchall()) if since > 0 else {}
    facts.untouched = [row[0] for row in con.execute(_UNTOUCHED).fetchall()]
    for row in streams.rows(con, _MASTERS_UNTOUCHED):
        project = _project(row, store)
        facts.untouched += [row["context_id"], *([] if project is None else [project])]
    parents = [row[0] for row in con.execute(_PARENTS).fetchall()]
    facts.parents = {wire.context(link) for link in parents}
    facts.earlier = [
        wire.context(row[0])
        for row in con.execute(
            f"SELECT DISTINCT context_id FROM events WHERE position < {since} AND context_id IN "
            "(SELECT unnest(?::VARCHAR[]))",
            [parents],
        ).fetchall()
    ]


# What most statements read of sessions. A table of its own: to plan what sessions are to each other takes
# longer than to work it out for a small log.
_KEYS = """
    CREATE TABLE session_keys AS
    SELECT session_id, context_id, agent, repo, turn_count, end_reason, first_position, last_position,
        opened_position
    FROM sessions"""

_PROVISIONAL = definitions.default_context("session_id")
# Such a session has had no prompt yet, so its name may still come.
_WAITING = f"""
    CREATE TABLE waiting AS
    SELECT session_id, context_id, agent, first_position AS place FROM session_keys
    WHERE turn_count = 0 AND context_id = {_PROVISIONAL} AND session_id NOT IN (
        SELECT session_id FROM events
            WHERE event_type = 'session' AND operation = 'end' AND session_id IS NOT NULL)"""

# Sessions of which an export up to `since` wrote nothing, because they waited then.
_LATE = f"""
    SELECT session_id, min(position) FROM events
    WHERE position < {{since}} AND session_id IN (
        SELECT session_id FROM session_keys WHERE first_position < {{since}} AND last_position >= {{since}}
            AND session_id NOT IN (SELECT session_id FROM waiting))
    GROUP BY session_id
    HAVING count(turn) FILTER (event_type <> 'session') = 0
        AND count(*) FILTER (event_type = 'session' AND {definitions.FIXES_CONTEXT}) = 0
    ORDER BY 2"""

_MASTERS_UNTOUCHED = """
    SELECT context_id, repo, project_name, extends FROM sessions_master
    WHERE repo NOT IN (SELECT repo FROM masters_touched)"""
_UNTOUCHED = """
    SELECT context_id FROM session_keys
    WHERE session_id NOT IN (SELECT session_id FROM sessions_touched)
        AND session_id NOT IN (SELECT session_id FROM waiting)
    UNION ALL SELECT context_id FROM turns
    WHERE (session_id, turn) NOT IN (SELECT (session_id, turn) FROM turns_touched)"""

_PARENTS = """
    SELECT DISTINCT link FROM (SELECT unnest(extends) AS link FROM events
        WHERE event_type NOT IN ('session', 'turn', 'sessions'))
    WHERE NOT starts_with(link, 'turn:') AND NOT starts_with(link, 'session:')"""


# When the last event of a context happened. A table of its own, so that no join carries texts.
_ENDS = f"""
    CREATE TABLE ends AS
    SELECT position, epoch_us({HAPPENED_AT}) AS "at" FROM events
    WHERE position IN (SELECT last_position FROM session_keys UNION ALL SELECT last_position FROM turns
        UNION ALL SELECT last_position FROM sessions_master)"""


def _touched(since: int) -> str:
    """SQL for the contexts to write: tables `masters_touched`, `sessions_touched`, `turns_touched` of keys.

    `lost`: turns of model calls that an event after `since` repeats, and that so may no longer count.
    `named`: sessions that got their name there, which their turns extend. `gone`: repositories of sessions
    that name another one there, and so count in its master from then on. `ended`: sessions that ended because
    the next one of their agent was opened there. Totals also change where an event there resolves an error of
    another session.
    """
    if since <= 0:
        return """
            CREATE TABLE masters_touched AS SELECT repo FROM sessions_master;
            CREATE TABLE sessions_touched AS SELECT session_id FROM session_keys;
            CREATE TABLE turns_touched AS SELECT session_id, turn FROM turns"""
    call = "hash(coalesce(agent, ''), coalesce(message_id, ''), coalesce(request_id, ''))"
    calls = "event_type = 'llm' AND (message_id IS NOT NULL OR request_id IS NOT NULL)"
    return f"""
        CREATE TABLE lost AS
            SELECT DISTINCT session_id, turn FROM events
            WHERE {calls} AND position < {since}
                AND {call} IN (SELECT {call} FROM events WHERE {calls} AND position >= {since});
        CREATE TABLE named AS
            SELECT s.session_id FROM session_keys s JOIN events e ON e.session_id = s.session_id
                AND e.event_type = 'session' AND e.context_id = s.context_id
            GROUP BY ALL HAVING min(e.position) >= {since};
        CREATE TABLE gone AS
            SELECT DISTINCT e.repo FROM events e JOIN (
                SELECT DISTINCT session_id, repo FROM events
                WHERE position >= {since} AND session_id IS NOT NULL AND repo IS NOT NULL) later
            ON later.session_id = e.session_id AND later.repo <> e.repo WHERE e.position < {since};
        CREATE TABLE ended AS
            SELECT session_id FROM (
                SELECT session_id, end_reason, lead(opened_position) OVER (
                    PARTITION BY repo, agent ORDER BY opened_position) AS next_opened
                FROM session_keys)
            WHERE end_reason IN ('rollover', 'superseded') AND next_opened >= {since};
        CREATE TABLE masters_touched AS
            SELECT repo FROM sessions_master
            WHERE last_position >= {since} OR repo IN (SELECT repo FROM gone);
        CREATE TABLE sessions_touched AS
            SELECT session_id FROM session_keys
            WHERE last_position >= {since} OR session_id IN (SELECT session_id FROM lost)
                OR session_id IN (SELECT session_id FROM ended)
                OR session_id IN (SELECT e.session_id FROM events e JOIN (
                    SELECT unnest({resolutions.NAMES}) AS name FROM events
                    WHERE event_type = 'error' AND resolved AND position >= {since}) mark
                ON mark.name = e.context_id WHERE e.event_type = 'error' AND e.position < {since});
        CREATE TABLE turns_touched AS
            SELECT session_id, turn FROM turns
            WHERE last_position >= {since} OR session_id IN (SELECT session_id FROM named)
                OR (session_id, turn) IN (SELECT (session_id, turn) FROM lost)"""


_FIRST = "SELECT coalesce(min(first_position), 0) FROM session_keys JOIN sessions_touched USING (session_id)"


def _derive(con: "duckdb.DuckDBPyConnection") -> None:
    """Make the tables `turns_derived` and `sessions_derived` of the columns that no fold has.

    They derive from the events of touched sessions, and from those that resolve an error of another session.
    """
    first = con.execute(_FIRST).fetchall()[0][0]
    events = f"""(SELECT * FROM events WHERE position >= {first} AND (session_id IN
        (SELECT session_id FROM sessions_touched) OR (event_type = 'error' AND resolved)))"""
    turns = "(SELECT t.* FROM turns t JOIN turns_touched USING (session_id, turn))"
    sessions = "(SELECT s.* FROM sessions s JOIN sessions_touched USING (session_id))"
    derive = derived_of(con, events)
    con.execute(f"""
        CREATE TABLE turns_derived AS SELECT session_id, turn, files_read, decisions, actions_taken
            FROM {joins.with_anchors(turns, derive, frozenset(("acts", "decided")))};
        CREATE TABLE sessions_derived AS SELECT session_id, errors_resolved
            FROM ({joins.sessions(sessions, derive, frozenset(("resolved",)))})""")


_MASTERS = """
    SELECT m.context_id, m.repo, m.project_name, m.extends, m.total_sessions, e."at",
        CASE WHEN m.active_session NOT IN (SELECT context_id FROM waiting) THEN m.active_session END
            AS active_session
    FROM sessions_master m JOIN masters_touched USING (repo)
    JOIN (SELECT repo, min(position) AS repo_position FROM events WHERE repo IS NOT NULL GROUP BY repo) r
        USING (repo)
    LEFT JOIN ends e ON e.position = m.last_position ORDER BY r.repo_position"""

_SESSIONS = f"""
    SELECT s.context_id, s.session_id, s.slug, s.title, s.status, s.end_reason, s.extends, s.summary,
        s.started_at::TIMESTAMP AS started_at, s.ended_at::TIMESTAMP AS ended_at, s.turn_count, s.last_turn,
        {", ".join(f"{'d' if name == 'errors_resolved' else 's'}.{name}" for name in _TOTALS)}, e."at"
    FROM sessions s JOIN sessions_derived d USING (session_id)
    LEFT JOIN ends e ON e.position = s.last_position
    WHERE s.session_id NOT IN (SELECT session_id FROM waiting) ORDER BY s.first_position"""

_NAMED = f"""
    SELECT context_id, session_id, title, extends FROM sessions
    WHERE context_id <> {_PROVISIONAL} ORDER BY first_position"""

_TURNS = """
    SELECT t.context_id, t.session_id, t.turn, t.turn_id, t.title, t.user_request, t.outcome, t.status,
        t.started_at::TIMESTAMP AS started_at, t.completed_at::TIMESTAMP AS completed_at,
        t.event_count, t.tokens_used, t.files_modified, d.files_read, d.decisions, d.actions_taken,
        t.end_certainty,
        e."at", s.context_id AS session_context
    FROM turns t JOIN turns_derived d USING (session_id, turn)
    JOIN session_keys s ON s.session_id = t.session_id
    LEFT JOIN ends e ON e.position = t.last_position ORDER BY t.first_position"""


def _masters(rows: list[_Row], store: "Store") -> Iterator[Anchor]:
    """Masters, and before them their projects: finding out when a project began would cost too much."""
    for row in rows:
        project = _project(row, store)
        if project is not None:
            data = {"project_name": _project_name(row, store), "repo_hash": row["repo"]}
            # It does not change with its master and is sent once, so it has no time.
            yield Anchor("knowledge", project, _payload("project_anchor", data), [], None)
    for row in rows:
        project = _project(row, store)
        data = _fields(row, "active_session", "total_sessions")
        extends = row["extends"] or ([] if project is None else [project])
        payload = _payload("sessions_master", data)
        yield Anchor("master", row["context_id"], payload, extends, row["at"])


def _project(row: _Row, store: "Store") -> str | None:
    """The project's anchor: the one that the master extends, else the one made from its name."""
    name = _project_name(row, store)
    default = None if name is None else project_context(name, row["repo"])
    return next((link for link in row["extends"] or () if link.startswith("knowledge:")), default)


def _project_name(row: _Row, store: "Store") -> str | None:
    """The name from the master's own events, else the store's name for its own repository."""
    if row["project_name"] is not None:
        return str(row["project_name"])
    return store.project_name if row["repo"] == store.repo_hash else None


def _session(row: _Row) -> Anchor:
    closed = row["status"] is not None and row["status"] != "active"
    data: dict[str, Any] = {
        **_fields(row, "title", "slug", "session_id"),
        "started_at": _iso(row["started_at"]),
        **_fields(row, "status", "turn_count"),
        "last_turn": row["last_turn"] and turn_context(str(row["session_id"]), int(row["last_turn"])),
        "totals": _fields(row, *_TOTALS),
    }
    if closed:
        data |= {"ended_at": _iso(row["ended_at"]), **_fields(row, "end_reason", "summary")}
    payload = _payload("session_end" if closed else "session_start", data)
    return Anchor("sessions", row["context_id"], payload, row["extends"], row["at"], row["session_id"])


def _provisional(row: _Row) -> Anchor:
    """The anchor that replaces a session that an earlier version sent under its provisional id."""
    session_id, moved_to = str(row["session_id"]), row["context_id"]
    data = {
        "title": row["title"],
        "session_id": session_id,
        "status": "closed",
        "end_reason": "renamed",
        "moved_to": moved_to,
    }
    extends = [link for link in row["extends"] or () if link.endswith(":sessions")]
    context_id, payload = default_context(session_id), _payload("session_end", data)
    return Anchor("renamed", context_id, payload, extends, None, session_id, related_to=(moved_to,))


def _turn(row: _Row) -> Anchor:
    is_done = row["status"] is not None and row["status"] != "active"
    data: dict[str, Any] = {
        "turn_id": row["turn_id"],
        "sequence": row["turn"],
        "status": row["status"],
        "started_at": _iso(row["started_at"]),
    }
    if is_done:
        data |= {"completed_at": _iso(row["completed_at"]), **_fields(row, *_OF_DONE_TURN)}
        if row["end_certainty"] not in (EXACT, NONE):
            data["files_certainty"] = row["end_certainty"]
    else:
        user_request = row["user_request"]
        data["user_message"] = (
            None if user_request is None else wire.cut_text(user_request, USER_MESSAGE_BYTES_MAX)
        )
    return Anchor(
        "turns",
        row["context_id"],
        _payload("turn_end" if is_done else "turn_start", data),
        [row["session_context"]],
        row["at"],
        row["session_id"],
        event_kind="observation",
        source="agent" if is_done else "system",
    )


def _payload(kind: str, data: Mapping[str, Any]) -> str:
    return wire.envelope(kind, wire.encode(data))


def _fields(row: _Row, *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _iso(moment: datetime.datetime | str | None) -> str | None:
    """ISO 8601; `moment` is in UTC without a zone. One beyond Python's years is text already."""
    if isinstance(moment, str):
        return moment.replace(" ", "T") + "Z"
    return None if moment is None else f"{moment.isoformat()}Z"
