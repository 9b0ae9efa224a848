"""Intents: what each session is about, and which sessions are at work, as the SQL view `sessions` says it.

A session's focus, scope and description are in the payload of its start (S3-1); there is no other record of
them. One session per (repository, agent) is active: the one opened last, and beside it those that went on
after it was opened, as two windows of one agent do. docs/memory.md has the rules. Only what the log does not
know is added here: which processes are gone. Reading writes nothing; `start`, `end` and `end_stale` append.
Any number of processes; not for hooks, which ask no index.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eventlog.base import activity, names
from eventlog.base.errors import Ambiguous, EventLogError, NotFound
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
    return _matching(store, "session_id = $1", [session.session_id])[0]


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
    return _matching(store, "session_id = $1", [row.session_id])[0]


def by_id(store: Store, session_id: str) -> Intent | None:
    """The session of exactly that id (S3-6)."""
    return next(iter(_matching(store, "session_id = $1", [session_id])), None)


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
        where.append("status = 'active'")
    intents = _matching(store, " and ".join(where), parameters)
    intents.sort(key=lambda s: (s.last_us is not None, s.last_us, s.last_position), reverse=True)
    return [session for session in intents if session.is_active or not active_only]


def at_work(store: Store) -> list[Intent]:
    """Active sessions of agents and people, without those that a history was imported as."""
    return [session for session in listed(store) if not session.is_history]


def end_stale(store: Store, now_us: int, hours: float = STALE_SESSION_HOURS) -> int:
    """Close the sessions that nobody ended in time, as of then (S3-30); how many.

    A store that cannot be written to stays as it is. Two processes that find the same write it once (I8).
    """
    events = stale_ends(store, _active(store), now_us, hours)
    try:
        store.append_rows(events)
    except EventLogError:
        return 0  # a reader without the right to write gets its answer too
    return len(events)


def listed_without_stale(store: Store, now_us: int) -> list[Intent]:
    """The active sessions, as they were opened, after `end_stale`, which needs them anyway.

    Without what was declared for them, for which payloads would be read.
    """
    sessions = _active(store)
    ends = stale_ends(store, sessions, now_us)
    try:
        store.append_rows(ends)
    except EventLogError:
        return sessions
    return _active(store) if ends else sessions


def _active(store: Store) -> list[Intent]:
    return [s for s in _matching(store, "status = 'active'", [], declared=False) if s.is_active]


def stale_ends(
    store: Store, sessions: Iterable[Intent], now_us: int, hours: float = STALE_SESSION_HOURS
) -> list[Event]:
    """The events that end those of these sessions that nobody ended in time."""
    return [
        _end_of(
            store,
            session,
            None,
            "stale",
            occurred_at=session.opened_us + round(hours * _HOUR_US),
            event_id=names.event_id_of("locus", "stale", session.session_id, str(session.opened_position)),
        )
        for session in sessions
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


def _matching(store: Store, where: str, parameters: Sequence[Any], *, declared: bool = True) -> list[Intent]:
    """The sessions that fit, in the order in which they were opened; `declared`: with what was declared."""
    about = "focus, scope, description"
    about = about if declared else f"null as {about.replace(', ', ', null as ')}"
    result = store.query(
        f"select session_id, context_id, agent, agent_session_id, repo, title, {about}, "
        "epoch_us(started_at) as started_us, epoch_us(ended_at) as ended_us, epoch_us(last_at) as last_us, "
        "epoch_us(case when event_id is null then started_at else opened_at end) as opened_us, "
        "opened_position, last_position, status, end_reason, turn_count, coalesce(event_id, '') as event_id "
        f"from sessions left join (select position as opened_position, {HAPPENED_AT} as opened_at, event_id "
        f"from events where event_type = 'session') using (opened_position) where {where} "
        "order by opened_position",
        parameters,
    )
    gone = _gone(store)
    rows = (dict(zip(result.columns, row, strict=True)) for row in result.rows)
    return [_without_its_agent(_intent(row, store.project_name), gone) for row in rows]


def _intent(row: dict[str, Any], project: str) -> Intent:
    title, focus, scope = row.pop("title"), row["focus"], filter(None, row["scope"] or ())
    row |= {"agent": row["agent"] or "", "status": row["status"] or "unknown"}
    row |= {"focus": focus or title or project, "scope": tuple(scope_of(scope) or ()) or None}
    return Intent(**row, declared=focus is not None)


def _gone(store: Store) -> set[tuple[str, str]]:
    """The sessions with a turn whose process is gone, by (agent, its id of it)."""
    dead = activity.dead_turns(store.layout, store.fs.time_ns() / 1e9)
    return {(turn.agent, turn.session) for turn in dead}


def _without_its_agent(session: Intent, gone: set[tuple[str, str]]) -> Intent:
    if session.is_active and (session.agent, session.agent_session_id) in gone:
        return replace(session, status="interrupted", end_reason="process gone")
    return session


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
