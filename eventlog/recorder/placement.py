"""From a request to an event: which session and turn a context id names, and which columns a payload fills.

Pure functions. The payload stays as it came; columns are read out of it, so that projections and SQL
see what a client sent without parsing JSON. Names are parsed from the right, because a slug may hold
anything (docs/design.md §12.1).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlog.base import names
from eventlog.base.errors import InvalidEvent
from eventlog.base.types import LIFECYCLE_TYPES, Event
from eventlog.projections.happened import is_undated
from eventlog.recorder.requests import LINK_NAMES, CreateEventRequest, EventKind
from eventlog.secrets import admission

if TYPE_CHECKING:
    from eventlog.store import Store

SESSION_ALIAS = "sess-"

# Our own session ids have eight characters; clients bring longer ones, such as UUIDs. Three digits and
# no leading zero beyond them: `action:test_login_01_02` is a file's name, not the place of an event.
_SESSION_ID = re.compile(r"[0-9a-z-]{8,64}")
_NUMBER = re.compile(r"0\d\d|[1-9]\d{2,17}")

_KINDS = frozenset(EventKind)

# Envelopes that clients put around what lifecycle contexts say, and the operation that each reports.
_ENVELOPES = {
    "session_start": ("session", "start"),
    "session_end": ("session", "end"),
    "turn_start": ("turn", "start"),
    "turn_end": ("turn", "end"),
    "sessions_master": ("sessions", "start"),
    "codebase_snapshot": ("snapshot", None),
}

# Column ← (key of the payload, type): for every event, and for those of one type.
_Promoted = tuple[tuple[str, str, type], ...]
_OF_ALL: _Promoted = (
    ("title", "title", str),
    ("tool", "tool", str),
    ("path", "path", str),
    ("duration_ms", "duration_ms", int),
    ("success", "success", bool),
)
_OF_LIFECYCLE: _Promoted = (("title", "title", str), ("status", "status", str))
_OF_TYPE: dict[str, _Promoted] = {
    "session": _OF_LIFECYCLE,
    "turn": _OF_LIFECYCLE,
    "sessions": (),
    "file": (
        *_OF_ALL,
        ("operation", "operation", str),
        ("lines_added", "lines_added", int),
        ("lines_removed", "lines_removed", int),
        ("before_hash", "before_hash", str),
        ("after_hash", "after_hash", str),
    ),
    "error": (
        *_OF_ALL,
        ("error_type", "error_type", str),
        ("resolved", "resolved", bool),
        ("path", "file", str),
    ),
    "decision": (("title", "decision", str), ("title", "summary", str), *_OF_ALL),
    "llm": (
        *_OF_ALL,
        ("model", "model", str),
        ("message_id", "message_id", str),
        ("request_id", "request_id", str),
        ("prompt_tokens", "prompt_tokens", int),
        ("completion_tokens", "completion_tokens", int),
        ("reasoning_tokens", "reasoning_tokens", int),
        ("cache_read_tokens", "cache_read_tokens", int),
        ("cache_write_tokens", "cache_write_tokens", int),
        ("cache_write_1h_tokens", "cache_write_1h_tokens", int),
    ),
    "snapshot": (
        *_OF_ALL,
        ("operation", "snapshot_type", str),
        ("tree_hash", "tree_hash", str),
        ("commit", "git_head", str),
        ("branch", "git_branch", str),
    ),
}


class ContextLocation(NamedTuple):
    """Where a context id of ours is in the log."""

    event_type: str
    session_id: str | None = None
    turn: int | None = None
    seq: int | None = None
    repo: str | None = None


def location_of(context_id: str) -> ContextLocation | None:
    """The location that a sanitised context id names; None when it is not one of ours."""
    kind, _, name = context_id.partition(":")
    if name == "sessions" and kind not in _KINDS:
        return ContextLocation("sessions", repo=kind)
    if kind == "session":
        session_id = name.rpartition("_")[2]
        return ContextLocation("session", session_id) if _SESSION_ID.fullmatch(session_id) else None
    *rest, last = name.split("_")
    if kind == "turn":
        return ContextLocation("turn", rest[0], int(last)) if _are_ids(rest, last) else None
    if len(rest) == 2 and _are_ids(rest[:1], rest[1], last) and kind not in LIFECYCLE_TYPES:
        return ContextLocation(kind, rest[0], int(rest[1]), int(last))
    return None


def _are_ids(session: list[str], *numbers: str) -> bool:
    return (
        len(session) == 1
        and _SESSION_ID.fullmatch(session[0]) is not None
        and all(_NUMBER.fullmatch(number) for number in numbers)
    )


def session_id_given(text: str) -> str:
    """A session id as callers and people give it: lower case, the alias `sess-…` without its prefix.

    Raises: InvalidEvent when nothing is left.
    """
    session_id = names.safe_context_name(text.strip()).removeprefix(SESSION_ALIAS)
    if not session_id:
        raise InvalidEvent(f"{text!r} is no session id")
    return session_id


def turn_given(turn_id: str) -> int:
    """The number that a turn id stands for. Raises: InvalidEvent."""
    if not (turn_id.isascii() and turn_id.isdigit() and len(turn_id) <= 18):
        raise InvalidEvent(f"a turn id is a number such as '001', not {turn_id!r}")
    return int(turn_id)


def event_type_given(text: str) -> str:
    """The type of a turn's event, which is an open set (S0-23). Raises: InvalidEvent."""
    event_type = names.safe_context_name(text.strip())
    if not event_type or event_type in LIFECYCLE_TYPES:
        raise InvalidEvent(f"{text!r} cannot be the type of an event inside a turn")
    return event_type


def kind_given(kind: str) -> str:
    """The kind of an event. Raises: InvalidEvent."""
    try:
        return EventKind(kind).value
    except ValueError:
        raise InvalidEvent(f"event_kind must be one of {', '.join(EventKind)}, not {kind!r}") from None


def event_of(request: CreateEventRequest, repo: str, event_type: str | None = None) -> Event:
    """The event that a request asks for (S0-2). `event_type` is the caller's, where the request cannot say.

    Raises: InvalidEvent.
    """
    payload = dict(request.payload)
    context_id = context_given(request.context_id, request.event_kind)
    location = location_of(context_id) if context_id is not None else None
    operation = None
    if location is not None:
        event_type = location.event_type
        envelope = _ENVELOPES.get(str(payload.get("kind")))
        if envelope is not None and envelope[0] == event_type and _is_envelope(payload):
            # Anchors are folds over the keys of the payload itself (ruling c4); the kind is in the columns.
            operation, payload = envelope[1], payload["data"]
        operation = operation or _operation_of(event_type, payload)
    event: Event = {
        "event_type": event_type or _type_of(request, context_id),
        "event_kind": kind_given(request.event_kind),
        "source": request.source,
        "context_id": context_id,
        "occurred_at": time_given(request.timestamp),
        "payload": payload,
        **{name: links_given(getattr(request, name)) for name in LINK_NAMES},
    }
    event |= promoted(str(event["event_type"]), payload)
    if location is not None:
        event |= {"session_id": location.session_id, "turn": location.turn, "seq": location.seq}
        event["repo"] = location.repo or _repo_of(event["extends"]) or repo
        if operation is not None:
            event["operation"] = operation
    else:
        event["repo"] = repo
    return {name: value for name, value in event.items() if value is not None}


def dated(store: "Store", events: "Sequence[Event]") -> list[Event]:
    """The events as what is recorded while it happens: now, where the log would take them for an import's."""
    now_us = store.fs.time_ns() // 1000
    return [{**event, "occurred_at": now_us} if is_undated(event) else event for event in events]


def promoted(event_type: str, payload: Mapping[str, Any]) -> Event:
    """The columns that a payload fills; a value that is none of the column's fills none (P7)."""
    values = payload["data"] if _is_envelope(payload) else payload
    columns: Event = {}
    for column, key, kind in _OF_TYPE.get(event_type, _OF_ALL):
        value = values.get(key)
        if type(value) is kind and value != "" and admission.fault(column, value) is None:
            columns.setdefault(column, value)
    return columns


def context_given(text: str | None, event_kind: str) -> str | None:
    """A context id in its two layers; one without a type gets the event's kind as its type (S0-22)."""
    context_id = names.sanitize_context_id(text or "")
    if not context_id:
        return None
    return context_id if ":" in context_id else f"{event_kind}:{context_id}"


def links_given(links: "tuple[str, ...] | list[str] | None") -> list[str] | None:
    """Links as context ids are spelled; a bare category stays one (ruling c8), an empty link is none."""
    if links is None:
        return None
    return [link for link in map(names.sanitize_context_id, links) if link]


def time_given(text: str | None) -> int | None:
    """Microseconds since 1970 UTC of ISO 8601 text, or of seconds since 1970 as text.

    A time without a zone is UTC. Raises: InvalidEvent.
    """
    if text is None:
        return None
    try:
        if re.fullmatch(r"-?\d+(\.\d+)?", text.strip()):
            whole, _, part = text.strip().partition(".")
            fraction = int((part + "000000")[:6])
            return int(whole) * 1_000_000 + (-fraction if whole.startswith("-") else fraction)
        moment = datetime.fromisoformat(text.strip())
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidEvent(f"timestamp must be ISO 8601 text or seconds since 1970, not {text!r}") from error
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _is_envelope(payload: Mapping[str, Any]) -> bool:
    return set(payload) == {"kind", "data"} and isinstance(payload["data"], dict)


def _operation_of(event_type: str, payload: Mapping[str, Any]) -> str | None:
    """What a payload without an envelope reports of a lifecycle context (S1-18, S1-23, S1-47…S1-50)."""
    if event_type not in LIFECYCLE_TYPES:
        return None
    if payload.get("status") in ("closed", "completed"):
        return "end"
    begins = {"session": ("started_at", "title", "slug"), "turn": ("started_at", "user_message")}
    return "start" if any(key in payload for key in begins.get(event_type, ())) else "update"


def _type_of(request: CreateEventRequest, context_id: str | None) -> str:
    """The type of an event that is in no turn: its context's, else its kind."""
    kind = (context_id or "").partition(":")[0]
    return str(request.event_kind) if not kind or kind in LIFECYCLE_TYPES else kind


def _repo_of(extends: object) -> str | None:
    """The repository whose master is extended."""
    for link in extends if isinstance(extends, list) else ():
        location = location_of(link)
        if location is not None and location.repo is not None:
            return location.repo
    return None
