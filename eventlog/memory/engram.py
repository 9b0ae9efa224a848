"""Sessions and events as programs written for engram's store know them: its calls, its values, over the log.

`EngramStore(store)` keeps nothing: every call appends events or folds them (docs/memory.md has the mapping).
Session ids are `sess-` and the eight characters of ours. Raises `NotFound` for a session that is not there.
One thread at a time, as the store; any number of processes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from eventlog.base import names
from eventlog.base.errors import InvalidEvent
from eventlog.memory import intent
from eventlog.memory.intent import STALE_SESSION_HOURS, Intent
from eventlog.recorder import lifecycle
from eventlog.recorder.hooks import append
from eventlog.recorder.placement import SESSION_ALIAS, time_given
from eventlog.store import Store

# What agents tell each other, with the kind of event that each is; the names are the event types. A mutation
# is no `file` event: those state contents, which nobody captured here, and a replay rests on them.
KINDS = {
    "discovery": "observation",
    "decision": "decision",
    "warning": "observation",
    "mutation": "action",
    "outcome": "action",
}


@dataclass
class Session:
    """A session's intent. Times are ISO 8601 in UTC; `ended_at` None is active, `scope` None is none."""

    id: str
    agent_id: str
    focus: str
    scope: list[str] | None = None
    started_at: str = ""
    ended_at: str | None = None
    description: str | None = None


@dataclass
class Event:
    """What an agent tells the others. `id` and `timestamp` are filled in where they are empty."""

    event_type: str
    agent_id: str
    content: str
    scope: list[str] | None = None
    id: str = ""
    timestamp: str = ""
    session_id: str | None = None


class EngramStore:
    """The calls of engram's store over an open store of ours."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def insert_session(self, session: Session) -> Session:
        """Begin a session; one that the agent has active ends. Raises: InvalidEvent."""
        if not session.focus or not session.agent_id:
            raise InvalidEvent("a session needs an agent_id and a focus")
        store = self.store
        random_id = names.random_session_id(store.fs.random_bytes(8))
        session_id = session.id.removeprefix(SESSION_ALIAS) or random_id
        started_us = time_given(session.started_at or None) or intent.now_us(store)
        before = intent.active_of(store, session.agent_id)
        if before is not None:
            intent.end(store, before, ended_us=started_us, reason="superseded")
        declared = {
            "focus": session.focus,
            "scope": intent.scope_of(session.scope),
            "description": session.description or None,
        }
        slug = names.slugify(store.redactor.text(session.focus), session_id)
        started = lifecycle.session_start(
            session_id,
            slug,
            None,
            store.repo_hash,
            intent=declared,
            agent=session.agent_id,
            occurred_at=started_us,
        )
        store.append_rows([started])
        if session.ended_at is not None:
            return self.end_session(session_id, session.ended_at)
        return _session(intent.find(store, session_id))

    def get_session(self, session_id: str) -> Session | None:
        """The session of exactly that id."""
        session = intent.by_id(self.store, session_id.removeprefix(SESSION_ALIAS))
        return None if session is None else _session(session)

    def end_session(self, session_id: str, ended_at: str | None = None) -> Session:
        """Close a session; one that is closed stays as it is. Raises: NotFound."""
        session = intent.find(self.store, session_id)
        if session.is_active:
            intent.end(self.store, session, ended_us=time_given(ended_at or None))
        return _session(intent.find(self.store, session_id))

    def list_sessions(self, active_only: bool = True, agent_id: str | None = None) -> list[Session]:
        """Sessions, the one that something happened in last first."""
        sessions = intent.listed(self.store, active_only=active_only, agent=agent_id)
        return [_session(session) for session in sessions]

    def get_active_session(self, agent_id: str) -> Session | None:
        """What the agent is at."""
        session = intent.active_of(self.store, agent_id)
        return None if session is None else _session(session)

    def cleanup_stale_sessions(self, timeout_hours: float = STALE_SESSION_HOURS) -> int:
        """Close the sessions that nobody ended in time; how many."""
        return intent.end_stale(self.store, intent.now_us(self.store), timeout_hours)

    def insert(self, event: Event) -> Event:
        """Append an event, in the session named, if any. Raises: InvalidEvent for an unknown type."""
        if event.event_type not in KINDS:
            raise InvalidEvent(f"no event type {event.event_type!r}; there are {', '.join(KINDS)}")
        scope = intent.scope_of(event.scope)
        key = "decision" if event.event_type == "decision" else "message"
        happened_us = time_given(event.timestamp or None) or intent.now_us(self.store)
        session_id = (event.session_id or "").removeprefix(SESSION_ALIAS) or None
        stored = append(
            self.store,
            lifecycle.timeline_event(
                event.event_type,
                session_id,
                None,
                {key: event.content, "scope": scope},
                event_id=event.id or None,
                event_kind=KINDS[event.event_type],
                source="agent",
                agent=event.agent_id,
                repo=self.store.repo_hash,
                path=scope[0] if scope else None,
                occurred_at=happened_us,
            ),
        )
        name = None if session_id is None else f"{SESSION_ALIAS}{session_id}"
        return replace(
            event, scope=scope, id=stored.event_id, timestamp=intent.iso(happened_us) or "", session_id=name
        )


def compact(sessions: Iterable[Session]) -> str:
    """Sessions a line each."""
    lines = []
    for session in sessions:
        scope = f" ({', '.join(session.scope)})" if session.scope else ""
        lines.append(f'[{session.id}] {session.agent_id}: "{session.focus}"{scope}')
    return "\n".join(lines)


def _session(begun: Intent) -> Session:
    scope = None if begun.scope is None else list(begun.scope)
    started, ended = intent.iso(begun.started_us) or "", intent.iso(begun.ended_us)
    return Session(begun.name, begun.agent, begun.focus, scope, started, ended, begun.description)
