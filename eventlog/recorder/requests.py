"""What goes to the context store and comes back: requests, links, summaries, results.

The Python equivalents of the client's types (S0-3). Values, without a store or a connection; any
thread may share them. Absent means unknown and is left out of `to_dict`, never written as null (P7).
An error of these calls is an `EventLogError`; there is no second tree of errors beside it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from eventlog.base.errors import InvalidEvent

# Contexts that gather the events of one subject (S0-5, S0-6). The type in front is the event kind.
CONTEXT_DECISIONS = "decision:decisions"
CONTEXT_EDITOR = "action:editor"
CONTEXT_ERRORS = "observation:errors"
CONTEXT_SESSIONS = "fact:sessions"
CONTEXT_TERMINAL = "action:terminal"
CONTEXT_TOOLS = "fact:tools"
CONTEXT_USER_INTENT = "observation:user_intent"


class EventKind(StrEnum):
    """What sort of statement an event is."""

    FACT = "fact"
    ACTION = "action"
    DECISION = "decision"
    OBSERVATION = "observation"
    FEEDBACK = "feedback"


@dataclass(frozen=True, slots=True)
class EventLinks:
    """To which contexts an event is linked: it is about, details, confirms, or corrects them."""

    related_to: tuple[str, ...] = ()
    extends: tuple[str, ...] = ()
    reinforces: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()

    def with_related_to(self, *context_ids: str) -> "EventLinks":
        return self.merge(EventLinks(related_to=context_ids))

    def with_extends(self, *context_ids: str) -> "EventLinks":
        return self.merge(EventLinks(extends=context_ids))

    def with_reinforces(self, *context_ids: str) -> "EventLinks":
        return self.merge(EventLinks(reinforces=context_ids))

    def with_contradicts(self, *context_ids: str) -> "EventLinks":
        return self.merge(EventLinks(contradicts=context_ids))

    def merge(self, other: "EventLinks") -> "EventLinks":
        """Both, list by list, the other's after ours; nothing is taken out."""
        return EventLinks(*(getattr(self, name) + getattr(other, name) for name in LINK_NAMES))


LINK_NAMES = tuple(f.name for f in fields(EventLinks))


@dataclass(frozen=True, slots=True)
class CreateEventRequest:
    """An event as a client asks for it to be stored. A list of links that is None was not given.

    `timestamp` is ISO 8601 text, or seconds since 1970 as text.
    """

    event_kind: EventKind
    payload: Mapping[str, Any]
    context_id: str | None = None
    source: str | None = None
    related_to: tuple[str, ...] | None = None
    extends: tuple[str, ...] | None = None
    reinforces: tuple[str, ...] | None = None
    contradicts: tuple[str, ...] | None = None
    timestamp: str | None = None

    def with_links(self, links: EventLinks) -> "CreateEventRequest":
        """The same request with these links after its own."""
        lists: dict[str, Any] = {}
        for name in LINK_NAMES:
            own, more = getattr(self, name), getattr(links, name)
            lists[name] = (own or ()) + more if more else own
        return CreateEventRequest(
            self.event_kind, self.payload, self.context_id, self.source, timestamp=self.timestamp, **lists
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; what is absent is left out."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CreateEventRequest":
        """Raises: InvalidEvent for an unknown key, kind, or type of value."""
        given = _known(cls, data)
        try:
            given["event_kind"] = EventKind(str(given.get("event_kind")))
        except ValueError:
            kinds = ", ".join(EventKind)
            raise InvalidEvent(f"event_kind must be one of {kinds}, not {data.get('event_kind')!r}") from None
        if not isinstance(given.get("payload"), Mapping):
            raise InvalidEvent("an event request needs a payload, a JSON object")
        for name in LINK_NAMES:
            if name in given:
                given[name] = _texts(name, given[name])
        for name in ("context_id", "source", "timestamp"):
            if name in given:
                _check_text(name, given[name])
        return cls(**given)


@dataclass(frozen=True, slots=True)
class TurnSummary:
    """What a turn came to. `event_count` is the caller's; anchors say what the log holds."""

    title: str
    user_request: str = ""
    actions_taken: tuple[str, ...] = ()
    outcome: str = ""
    decisions: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    event_count: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: all eight keys, `event_count` only when it is known."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TurnSummary":
        """Raises: InvalidEvent for an unknown key or type of value, or without a title."""
        given = _known(cls, data)
        _check_text("title", given.get("title"))
        for name, value in given.items():
            if name in ("actions_taken", "decisions", "files_read", "files_modified"):
                given[name] = _texts(name, value)
            elif name == "event_count":
                if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                    raise InvalidEvent(f"event_count must be a number of events, not {value!r}")
            else:
                _check_text(name, value)
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Context:
    """A context: what is known under one id. Times are integer microseconds since 1970 UTC."""

    context_id: str
    context_type: str
    context_name: str
    created_at: int | None
    updated_at: int | None
    reference_count: int  # events that link to it


@dataclass(frozen=True, slots=True)
class ContextType:
    """A type of contexts, and how many there are of it."""

    context_type: str
    count: int


@dataclass(frozen=True, slots=True)
class ContextTypeFilter:
    """Which contexts of a type are meant, by name; no name means all of them."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrieveOptions:
    """What a retrieval searches.

    `extends` keeps only what is directly under that context, such as `turn:a1b2c3d4_002`.
    """

    limit: int | None = None
    context_ids: tuple[str, ...] = ()
    context_types: Mapping[str, ContextTypeFilter] = field(default_factory=dict)
    extends: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """One thing found: the latest of its context that fits, and the event that says it."""

    context_id: str | None
    event_id: str
    event_type: str
    position: int
    at: int | None  # microseconds since 1970 UTC
    text: str

    @property
    def cites(self) -> tuple[str, str]:
        """Where it comes from: its context, else its type, and the beginning of its event's id."""
        return self.context_id or self.event_type, self.event_id[:12]


@dataclass(frozen=True, slots=True)
class ContextResult:
    """What was found, as text and one by one. `degraded` means that the search could not be made."""

    memories: str
    items_found: int
    degraded: bool = False
    items: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class InsightsOptions:
    """What insights are drawn from; `locus_query` narrows by text where the task is worded otherwise."""

    locus_query: str | None = None
    limit: int | None = None
    context_ids: tuple[str, ...] = ()
    context_types: Mapping[str, ContextTypeFilter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InsightResult:
    """What the log says on a task. `confidence` is 0…1, None where nobody measured it."""

    insight: str
    recommendation: str
    confidence: float | None = None
    event_ids: tuple[str, ...] = ()


def _to_dict(value: Any) -> dict[str, Any]:
    values = ((f.name, getattr(value, f.name)) for f in fields(value))
    return {name: _plain(value) for name, value in values if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, EventKind):
        return value.value
    return dict(value) if isinstance(value, Mapping) else value


def _known(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that are given with a value. Raises: InvalidEvent for one that the class lacks."""
    names = {f.name for f in fields(cls)}
    unknown = sorted(set(data) - names)
    if unknown:
        raise InvalidEvent(f"{cls.__name__} has no {', '.join(unknown)}; it has {', '.join(sorted(names))}")
    return {name: value for name, value in data.items() if value is not None}


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidEvent(f"{name} must be a list of text, not {value!r}")
    texts = tuple(value)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidEvent(f"{name} must be a list of text, not {value!r}")
    return texts


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidEvent(f"{name} must be text, not {value!r}")
