"""Intents: what each session is about, and which sessions are at work; a fold of the `session` events.

A session's focus, scope and description stand in the payload of its start (S3-1); there is no other record
of them. One session per (repository, agent) is active: the one opened last, and beside it those that went on
after it was opened, as two windows of one agent do. docs/memory.md has the rules. Reading writes nothing;
`start`, `end` and `end_stale` append. Any number of processes; not for hooks, which ask no index.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eventlog.base import activity, names
from eventlog.base.errors import Ambiguous, EventLogError, NotFound
from eventlog.base.jsontext import object_of
from eventlog.base.types import Event
from eventlog.projections.definitions import HAPPENED_AT
from eventlog.recorder import lifecycle, sessions
from eventlog.recorder.placement import SESSION_ALIAS
from eventlog.recorder.recorder import Recorder
from eventlog.store import Store

# A session that nobody ended is over this long after it was opened (S3-31).
STALE_SESSION_HOURS = 24

_HOUR_US = 3_600_000_000
# Its sessions are groups of commits: nobody is at work in them, and a later import goes on with them.
_HISTORY = "git"
_OPENED = ("start", "resume", "clear", "fork")


@dataclass(frozen=True, slots=True)
class Intent:
    """A session and what it is about. Times are µs since 1970; `ended_us` None is active.

    `declared` says that somebody named the focus; else it is the session's title, or the project's name.
    """

    session_id: str
    context_id: str
    agent: str
    agent_session_id: str | None
    repo: str | None
    focus: str
    declared: bool
    scope: tuple[str, ...] | None
    description: str | None
    started_us: int | None
    opened_us: int | None  # the start, or where it was opened again
    opened_position: int
    last_position: int
    ended_us: int | None
    ended_position: int | None
    status: str
    end_reason: str | None
    turn_count: int
    event_id: str  # of the event that opened it
    last_us: int | None = None  # of its last event

    @property
    def name(self) -> str:
        return f"{SESSION_ALIAS}{self.session_id}"

    @property
    def is_active(self) -> bool:
        return self.status == "active"

    @property
    def is_history(self) -> bool:
        return self.agent == _HISTORY


def start(
    store: Store,
    agent: str,
    focus: str,
    scope: Iterable[str] | None = None,
    description: str | None = None,
    *,
    title: str | None = None,
) -> Intent:
    """Begin a session of an agent; the one that it has active ends first (S3-12, S3-32)."""
    intent = {"focus": focus or None, "scope": scope_of(scope), "description": description or None}
    session = Recorder(store, agent=agent).start_session(focus, title=title, intent=intent)
    return _known(store, session.session_id, agent)


def end(
    store: Store,
    session: Intent,
    summary: str | None = None,
    *,
    ended_us: int | None = None,
    reason: str = "explicit",
) -> None:
    """Close an active session (S3-13)."""
    columns = {} if ended_us is None else {"occurred_at": ended_us}
    store.append_rows([_end_of(store, session, summary, reason, **columns)])


def find(store: Store, name: str) -> Intent:
    """The session that `name` means: its id, a unique beginning, sess-ID, session:SLUG_ID.

    Raises: NotFound, Ambiguous.
    """
    try:
        row = sessions.named(store, name)
    except Ambiguous:
        raise
    except NotFound:
        raise NotFound(f"Session not found: {name}") from None
    return _known(store, row.session_id, row.agent)


def by_id(store: Store, session_id: str) -> Intent | None:
    """The session of exactly that id (S3-6)."""
    row = sessions.by_id(store, session_id)
    return None if row is None else _known(store, session_id, row.agent)


def active_of(store: Store, agent: str) -> Intent | None:
    """The session that an agent has active in this repository, the one opened last (S3-9)."""
    here = [session for session in listed(store, agent=agent) if session.repo in (None, store.repo_hash)]
    return max(here, key=lambda session: session.opened_position, default=None)


def must_be_active(store: Store, agent: str) -> Intent:
    """`active_of`. Raises: NotFound."""
    session = active_of(store, agent)
    if session is None:
        raise NotFound(f"No active session for agent '{agent}'.")
    return session


def listed(store: Store, *, active_only: bool = True, agent: str | None = None) -> list[Intent]:
    """Sessions, the one that something happened in last first (S3-8)."""
    where, parameters = ["true"], []
    if agent is not None:
        where.append("agent = $1")
        parameters.append(agent)
    if active_only:
        # And what was declared and may hold for one of them: it was followed, or ended since then.
        where.append(
            "(status = 'active' or (agent_session_id is null and (end_reason in ('superseded', 'idle') or "
            "last_position >= (select min(opened_position) from sessions where status = 'active'))))"
        )
    intents = _fold(store, " and ".join(where), parameters)
    intents.sort(key=lambda s: (s.last_us is not None, s.last_us, s.last_position), reverse=True)
    return [session for session in intents if session.is_active or not active_only]


def at_work(store: Store) -> list[Intent]:
    """Active sessions of agents and people, without those that a history was imported as."""
    return [session for session in listed(store) if not session.is_history]


def end_stale(store: Store, now_us: int, hours: float = STALE_SESSION_HOURS) -> int:
    """Close the sessions that nobody ended in time, as of then (S3-30); how many.

    A store that cannot be written to stays as it is. Two processes that find the same write it once (I8).
    """
    events = stale_ends(store, now_us, hours)
    try:
        store.append_rows(events)
    except EventLogError:
        return 0  # a reader without the right to write gets its answer too
    return len(events)


def stale_ends(store: Store, now_us: int, hours: float = STALE_SESSION_HOURS) -> list[Event]:
    """The events that `end_stale` appends."""
    return [
        _end_of(
            store,
            session,
            None,
            "stale",
            occurred_at=session.opened_us + round(hours * _HOUR_US),
            event_id=names.event_id_of("locus", "stale", session.session_id, str(session.opened_position)),
        )
        for session in _fold(store, "status = 'active'", [])
        if session.is_active
        and not session.is_history
        and session.opened_us is not None
        and is_stale(session.opened_us, now_us, hours)
    ]


def is_stale(opened_us: int, now_us: int, hours: float = STALE_SESSION_HOURS) -> bool:
    return now_us - opened_us > hours * _HOUR_US


def scope_of(paths: "Iterable[str] | None") -> "list[str] | None":
    """Paths as the log has them: in POSIX form, each once; None for none at all (S3-33, S3-37)."""
    spelled = [path.replace("\\", "/").removeprefix("./") for path in paths or ()]
    return [path for path in dict.fromkeys(spelled) if path] or None


def iso(us: int | None) -> str | None:
    """A time as ISO 8601 in UTC."""
    if us is None:
        return None
    return sessions.moment_of(us).isoformat(timespec="microseconds").replace("+00:00", "Z")


def fields(session: Intent) -> dict[str, Any]:
    """A session as JSON has it (S3-40)."""
    return {
        "id": session.name,
        "agent_id": session.agent,
        "focus": session.focus,
        "declared": session.declared,
        "scope": None if session.scope is None else list(session.scope),
        "description": session.description,
        "started_at": iso(session.started_us),
        "ended_at": iso(session.ended_us),
        "status": session.status,
        "end_reason": session.end_reason,
        "context_id": session.context_id,
        "agent_session_id": session.agent_session_id,
        "turn_count": session.turn_count,
        "event_id": session.event_id,
    }


def _known(store: Store, session_id: str, agent: str | None) -> Intent:
    """A session that there is, of that agent."""
    candidates = _fold(
        store,
        "agent is not distinct from $1 and "
        "(session_id = $2 or status = 'active' or agent_session_id is null)",
        [agent, session_id],
    )
    return next(session for session in candidates if session.session_id == session_id)


# -- the fold --------------------------------------------------------------------------------------


def _fold(store: Store, where: str, parameters: Sequence[Any]) -> list[Intent]:
    """The sessions that fit, in the order in which they were opened."""
    rows = store.query(
        "select session_id, context_id, agent, agent_session_id, repo, title, status, end_reason, "
        "started_at, ended_at, turn_count, opened_position, last_position, last_at from sessions "
        f"where {where} order by opened_position",
        parameters,
    ).rows
    events = _session_events(store, [row[0] for row in rows])
    gone = _gone(store)
    intents = (_intent(store, row, events.get(row[0], ())) for row in rows)
    return _with_declared([_without_its_agent(session, gone) for session in intents])


def _gone(store: Store) -> set[tuple[str, str]]:
    """The sessions with a turn whose process is gone, by (agent, its id of it)."""
    dead = activity.dead_turns(store.layout, store.fs.time_ns() / 1e9)
    return {(turn.agent, turn.session) for turn in dead}


def _without_its_agent(session: Intent, gone: set[tuple[str, str]]) -> Intent:
    if session.is_active and (session.agent, session.agent_session_id) in gone:
        return replace(session, status="interrupted", end_reason="process gone")
    return session


def _session_events(store: Store, session_ids: Sequence[str]) -> dict[str, list[tuple[Any, ...]]]:
    """Of each session its own events, in order: (position, operation, µs, payload, event id)."""
    events: dict[str, list[tuple[Any, ...]]] = {}
    if session_ids:
        for session_id, *rest in store.query(
            f"select session_id, position, operation, epoch_us({HAPPENED_AT}), payload, "
            "event_id from events where event_type = 'session' and list_contains($1, session_id) "
            "order by position",
            [list(session_ids)],
        ).rows:
            events.setdefault(session_id, []).append(tuple(rest))
    return events


def _intent(store: Store, row: Sequence[Any], events: Iterable[Sequence[Any]]) -> Intent:
    (session_id, context_id, agent, agent_session_id, repo, title, status, end_reason, started, ended,
     turns, opened_position, last_position, last_at) = row  # fmt: skip
    keys: dict[str, Any] = {}
    opened_us, event_id = sessions.microseconds_of(started), ""
    ended_position: int | None = -1
    for position, operation, at, payload, id in events:
        keys |= {name: value for name, value in payload_of(payload).items() if value is not None}
        if operation in _OPENED and (ended_position is not None or operation == "start"):
            opened_us, opened_position, event_id = at, position, id
        ended_position = position if operation == "end" else None
    focus, scope, description = keys.get("focus"), keys.get("scope"), keys.get("description")
    declared = isinstance(focus, str) and bool(focus)
    return Intent(
        session_id,
        context_id,
        agent or "",
        agent_session_id,
        repo,
        focus if declared and isinstance(focus, str) else title or store.project_name,
        declared,
        _scope_in(scope),
        description if isinstance(description, str) else None,
        sessions.microseconds_of(started),
        opened_us,
        int(opened_position),
        int(last_position),
        sessions.microseconds_of(ended),
        None if ended_position == -1 else ended_position,
        status or "unknown",
        end_reason,
        int(turns),
        event_id,
        sessions.microseconds_of(last_at),
    )


def payload_of(payload: object) -> dict[str, Any]:
    try:
        return object_of(payload)
    except (ValueError, RecursionError):
        return {}


def _scope_in(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(scope_of(path for path in value if isinstance(path, str)) or ()) or None


def _with_declared(intents: list[Intent]) -> list[Intent]:
    """`found`, where what was declared for an agent before it came holds for the session that it opens
    (docs/memory.md)."""
    completed: list[Intent] = []
    declared: dict[tuple[str | None, str], Intent] = {}
    for session in intents:
        key = (session.repo, session.agent)
        before = declared.get(key)
        if session.declared and session.agent_session_id is None:
            declared[key] = session
        elif not session.declared and before is not None and _was_open(before, session.opened_position):
            session = replace(
                session, focus=before.focus, declared=True, scope=before.scope, description=before.description
            )
        completed.append(session)
    return completed


def _was_open(session: Intent, position: int) -> bool:
    return session.ended_position is None or session.ended_position > position


def _end_of(store: Store, session: Intent, summary: str | None, reason: str, **columns: Any) -> Event:
    slug = session.context_id.removeprefix("session:").removesuffix(f"_{session.session_id}")
    return lifecycle.session_end(
        session.session_id,
        slug,
        session.repo or store.repo_hash,
        summary=summary,
        turn_count=session.turn_count,
        end_reason=reason,
        agent=session.agent or None,
        **columns,
    )


def now_us(store: Store) -> int:
    return store.fs.time_ns() // 1000
