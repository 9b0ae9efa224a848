"""Sessions and events as programs written for engram's store know them: its calls, its values, over the log.

`EngramStore(store)` keeps nothing: every call appends events or folds them (docs/memory.md has the mapping).
Session ids are `sess-` and the eight characters of ours. Raises `NotFound` for a session that is not there.
One thread at a time, as the store; any number of processes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from eventlog.base import names
from eventlog.base.errors import InvalidEvent
from eventlog.memory import intent
from eventlog.memory.intent import STALE_SESSION_HOURS, Intent
from eventlog.recorder import lifecycle
from eventlog.recorder.hooks import append
from eventlog.recorder.placement import SESSION_ALIAS
from eventlog.recorder.sessions import microseconds_of
from eventlog.store import Store

# What each of its types is in the log: (event type, event kind).
_TYPES = {
    "discovery": ("discovery", "observation"),
    "decision": ("decision", "decision"),
    "warning": ("warning", "observation"),
    "mutation": ("mutation", "action"),
    "outcome": ("outcome", "action"),
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
        """Begin a session; one that the agent has active ends (S3-5, S3-32). Raises: InvalidEvent."""
        if not session.focus or not session.agent_id:
            raise InvalidEvent("a session needs an agent_id and a focus")
        store = self.store
        session_id = session.id.removeprefix(SESSION_ALIAS) or names.random_session_id(
            store.fs.random_bytes(8)
        )
        at = _microseconds(session.started_at) or intent.now_us(store)
        before = intent.active_of(store, session.agent_id)
        events = [
            lifecycle.session_start(
                session_id,
                names.slugify(store.redactor.text(session.focus), session_id),
                None,
                store.repo_hash,
                intent={
                    "focus": session.focus,
                    "scope": intent.scope_of(session.scope),
                    "description": session.description or None,
                },
                agent=session.agent_id,
                occurred_at=at,
            )
        ]
        if before is not None:
            intent.end(store, before, ended_us=at, reason="superseded")
        store.append_rows(events)
        found = intent.find(store, session_id)
        if session.ended_at is not None:
            return self.end_session(session_id, session.ended_at)
        return _session(found)

    def get_session(self, session_id: str) -> Session | None:
        """The session of exactly that id (S3-6)."""
        found = intent.by_id(self.store, session_id.removeprefix(SESSION_ALIAS))
        return None if found is None else _session(found)

    def end_session(self, session_id: str, ended_at: str | None = None) -> Session:
        """Close a session; one that is closed stays as it is (S3-7). Raises: NotFound."""
        found = intent.find(self.store, session_id)
        if found.is_active:
            intent.end(self.store, found, ended_us=_microseconds(ended_at))
        return _session(intent.find(self.store, session_id))

    def list_sessions(self, active_only: bool = True, agent_id: str | None = None) -> list[Session]:
        """Sessions, the one that something happened in last first (S3-8)."""
        return [_session(one) for one in intent.listed(self.store, active_only=active_only, agent=agent_id)]

    def get_active_session(self, agent_id: str) -> Session | None:
        """What the agent is at (S3-9)."""
        found = intent.active_of(self.store, agent_id)
        return None if found is None else _session(found)

    def cleanup_stale_sessions(self, timeout_hours: float = STALE_SESSION_HOURS) -> int:
        """Close the sessions that nobody ended in time; how many (S3-10)."""
        return intent.end_stale(self.store, intent.now_us(self.store), timeout_hours)

    def insert(self, event: Event) -> Event:
        """Append an event, in the session named, if any (S3-11). Raises: InvalidEvent for an unknown type."""
        if event.event_type not in _TYPES:
            raise InvalidEvent(f"no event type {event.event_type!r}; there are {', '.join(_TYPES)}")
        event_type, kind = _TYPES[event.event_type]
        scope = intent.scope_of(event.scope)
        key = "decision" if event_type == "decision" else "message"
        id = event.id or self.store.fs.random_bytes(16).hex()
        at = _microseconds(event.timestamp) or intent.now_us(self.store)
        session_id = event.session_id and event.session_id.removeprefix(SESSION_ALIAS)
        append(
            self.store,
            lifecycle.timeline_event(
                event_type,
                session_id or None,
                None,
                {key: event.content, "scope": scope},
                event_id=id,
                event_kind=kind,
                source="agent",
                agent=event.agent_id,
                repo=self.store.repo_hash,
                path=scope[0] if scope else None,
                occurred_at=at,
            ),
        )
        said = None if not session_id else f"{SESSION_ALIAS}{session_id}"
        return Event(event.event_type, event.agent_id, event.content, scope, id, intent.iso(at) or "", said)


def compact(sessions: Iterable[Session]) -> str:
    """Sessions a line each (S3-40)."""
    lines = []
    for one in sessions:
        scope = f" ({', '.join(one.scope)})" if one.scope else ""
        lines.append(f'[{one.id}] {one.agent_id}: "{one.focus}"{scope}')
    return "\n".join(lines)


def _session(one: Intent) -> Session:
    scope = None if one.scope is None else list(one.scope)
    started, ended = intent.iso(one.started_us) or "", intent.iso(one.ended_us)
    return Session(one.name, one.agent, one.focus, scope, started, ended, one.description)


def _microseconds(text: str | None) -> int | None:
    """Raises: InvalidEvent for what is no time."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidEvent(f"{text!r} is no ISO 8601 time") from None
    return microseconds_of(at if at.tzinfo else at.replace(tzinfo=UTC))
