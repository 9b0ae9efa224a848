"""Tools that write: each appends events, durably, before it answers; and those about sessions.

Sessions are those of `eventlog/memory/intent.py`; an agent posts events of the log's own types.
"""

import os
from collections.abc import Iterator
from typing import Annotated

from eventlog import agents
from eventlog.base.display import one_line
from eventlog.base.errors import Refused
from eventlog.base.types import Event
from eventlog.mcp.arguments import Agent, Focus, Path, Paths, Reasoning, SessionId
from eventlog.mcp.call import Hint, WriteReceipt, tool
from eventlog.mcp.memory import session_line
from eventlog.mcp.read import inside
from eventlog.memory import intent
from eventlog.memory.engram import KINDS
from eventlog.recorder import lifecycle, sessions
from eventlog.recorder.hooks import append
from eventlog.store import Store

_Alternatives = Annotated[list[str], Hint("Not chosen.", aliases=("alternatives_considered", "options"))]
_FeedbackType = Annotated[
    str, Hint(choices=("approval", "rejection", "correction"), aliases=("type", "kind"))
]


@tool("Start a session", writes=True)
def session_start(
    store: Store,
    focus: Focus,
    scope: Paths | None = None,
    agent_id: Agent = "",
    description: Annotated[str, Hint("More of it.")] | None = None,
) -> WriteReceipt:
    """Say what you begin to work on, for others and later sessions. Ends your active session."""
    _end_stale(store)
    before = intent.active_of(store, agent_id)
    begun = intent.start(store, agent_id, focus, scope, description)
    ended = "" if before is None else f"Ended {before.name}, which was active.\n"
    return WriteReceipt(f"{ended}Started {session_line(begun)}\n", session_id=begun.session_id)


@tool("End a session", writes=True)
def session_end(store: Store, session_id: SessionId | None = None, agent_id: Agent = "") -> WriteReceipt:
    """Say that your work is over."""
    _end_stale(store)
    if session_id is None:
        session = intent.must_be_active(store, agent_id)
    else:
        session = intent.find(store, session_id)
        if not session.is_active:
            raise Refused(f"Session {session.name} is already ended.")
    intent.end(store, session)
    return WriteReceipt(f"Ended {session_line(session)}\n", session_id=session.session_id)


@tool("List sessions")
def list_sessions(store: Store, active_only: bool = True) -> Iterator[str]:
    """Sessions: about what, since when."""
    now_us = intent.now_us(store)
    listed = intent.at_work(store) if active_only else intent.listed(store, active_only=False)
    none = True
    for session in listed:
        # Reading writes nothing: a session that is over by its age is listed as stale, and the next start or
        # end closes it.
        late = session.is_active and not session.is_history and session.opened_us is not None
        stale = late and intent.is_stale(session.opened_us or 0, now_us)
        if active_only and stale:
            continue
        none = False
        yield f"{session_line(session)}{' (stale)' if stale else ''}\n"
    if none:
        yield "No session is active.\n" if active_only else "There is no session.\n"


@tool("Record an event", writes=True)
def post_event(
    store: Store,
    event_type: Annotated[str, Hint(choices=tuple(KINDS), aliases=("type",))],
    content: Annotated[str, Hint("A sentence or two.", aliases=("message", "summary"))],
    agent_id: Agent = "",
    session_id: SessionId | None = None,
    path: Path | None = None,
    reasoning: Reasoning | None = None,
) -> WriteReceipt:
    """What is worth knowing later."""
    key = "decision" if event_type == "decision" else "message"
    columns = {"path": None if path is None else inside(store, path), "title": _title(store, content)}
    session = _session_of(store, session_id, agent_id)
    payload = {key: content, "reasoning": reasoning}
    kind = KINDS[event_type]
    event = lifecycle.timeline_event(
        event_type, session, None, payload, event_kind=kind, source="agent", **columns
    )
    return _append(store, event, agent_id)


@tool("Record a decision", writes=True)
def store_decision(
    store: Store,
    summary: Annotated[str, Hint(aliases=("decision", "content", "title"))],
    reasoning: Reasoning | None = None,
    alternatives: _Alternatives | None = None,
    confidence: Annotated[float, Hint("0 to 1.")] | None = None,
    agent_id: Agent = "",
    session_id: SessionId | None = None,
) -> WriteReceipt:
    """A choice that was made, and why."""
    event = lifecycle.decision(
        _session_of(store, session_id, agent_id),
        None,
        summary,
        reasoning,
        confidence=confidence,
        alternatives_considered=alternatives or (),
        title=_title(store, summary),
    )
    return _append(store, event, agent_id)


@tool("Record an error", writes=True)
def store_error(
    store: Store,
    context: Annotated[str, Hint("Where, or the error's type.", aliases=("error_type",))],
    message: Annotated[str, Hint(aliases=("content", "error"))],
    command: Annotated[str, Hint(aliases=("command_or_file",))] | None = None,
    file: Annotated[str, Hint(aliases=("path",))] | None = None,
    line: int | None = None,
    resolved: bool | None = None,
    resolution: Annotated[str, Hint("What helped.", aliases=("fix",))] | None = None,
    agent_id: Agent = "",
    session_id: SessionId | None = None,
) -> WriteReceipt:
    """Something failed."""
    event = lifecycle.error(
        _session_of(store, session_id, agent_id),
        None,
        context,
        message,
        resolved=resolved or resolution is not None or None,
        file=file,
        line=line,
        command=command,
        resolution=resolution,
    )
    return _append(store, event, agent_id)


@tool("Record feedback", writes=True)
def store_feedback(
    store: Store,
    message: Annotated[str, Hint(aliases=("content", "feedback"))],
    feedback_type: _FeedbackType | None = None,
    sentiment: Annotated[str, Hint(choices=("positive", "negative", "neutral"))] | None = None,
    agent_id: Agent = "",
    session_id: SessionId | None = None,
) -> WriteReceipt:
    """Record what the user said about the work."""
    session = _session_of(store, session_id, agent_id)
    event = lifecycle.feedback(session, None, feedback_type, message, sentiment=sentiment)
    return _append(store, event, agent_id)


def _append(store: Store, event: Event, agent_id: str) -> WriteReceipt:
    """Append an event of the session's current turn, or of no session; its id is new."""
    stored = append(store, {**event, "agent": agent_id, "repo": store.repo_hash})
    session = event.get("session_id")
    return _stored(str(event["event_type"]), stored.event_id, None if session is None else str(session))


def _title(store: Store, content: str) -> str:
    """The text in lists. It is redacted before it is cut: half a secret cannot be recognised."""
    return one_line(store.redactor.text(content), 80)


def _session_of(store: Store, session_id: str | None, agent_id: str) -> str | None:
    """The session that was named, else the client's own, else the agent's active one, else none.

    Two windows of an agent are one agent; some tell the server which of them it serves.
    """
    if session_id is not None:
        return intent.find(store, session_id).session_id
    spec = agents.spec_of(agent_id)
    own = None if spec is None or spec.session_variable is None else os.environ.get(spec.session_variable)
    if own is not None and (row := sessions.latest(store, store.repo_hash, agent_id, own)) is not None:
        return row.session_id
    session = intent.active_of(store, agent_id)
    return None if session is None else session.session_id


def _end_stale(store: Store) -> None:
    intent.end_stale(store, intent.now_us(store))


def _stored(what: str, event_id: str, session_id: str | None) -> WriteReceipt:
    where = "in no session" if session_id is None else f"in session sess-{session_id}"
    return WriteReceipt(f"Recorded the {what} as event {event_id}, {where}.\n", event_id, session_id)
