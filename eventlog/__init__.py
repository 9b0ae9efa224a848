"""Locus: the flight recorder of coding agents. An append-only, replayable, queryable event log.

The public names below are resolved on first use, so that a program which needs only the log does
not pay for DuckDB, and the hook path pays for nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.errors import (
        Ambiguous,
        Conflict,
        Corruption,
        EventLogError,
        InvalidEvent,
        LockTimeout,
        NoStore,
        NotDurable,
        NotFound,
        QueryError,
        Refused,
        Unsupported,
    )
    from eventlog.event import Event
    from eventlog.query.engine import Limits, Result
    from eventlog.query.lookup import TurnRef
    from eventlog.recorder.hooks import Hooks
    from eventlog.recorder.ledger import Consumer
    from eventlog.recorder.recorder import Recorder, Session, Turn
    from eventlog.recorder.requests import (
        ContextTypeFilter,
        CreateEventRequest,
        EventKind,
        EventLinks,
        RetrieveOptions,
        TurnSummary,
    )
    from eventlog.store import Store

__version__ = "0.1.0"

_HOME_OF = {
    "Ambiguous": "eventlog.errors",
    "Conflict": "eventlog.errors",
    "Consumer": "eventlog.recorder.ledger",
    "ContextTypeFilter": "eventlog.recorder.requests",
    "Corruption": "eventlog.errors",
    "CreateEventRequest": "eventlog.recorder.requests",
    "Event": "eventlog.event",
    "EventKind": "eventlog.recorder.requests",
    "EventLinks": "eventlog.recorder.requests",
    "EventLogError": "eventlog.errors",
    "Hooks": "eventlog.recorder.hooks",
    "InvalidEvent": "eventlog.errors",
    "Limits": "eventlog.query.engine",
    "LockTimeout": "eventlog.errors",
    "NoStore": "eventlog.errors",
    "NotDurable": "eventlog.errors",
    "NotFound": "eventlog.errors",
    "QueryError": "eventlog.errors",
    "Recorder": "eventlog.recorder.recorder",
    "Refused": "eventlog.errors",
    "Result": "eventlog.query.engine",
    "RetrieveOptions": "eventlog.recorder.requests",
    "Session": "eventlog.recorder.recorder",
    "Store": "eventlog.store",
    "Turn": "eventlog.recorder.recorder",
    "TurnRef": "eventlog.query.lookup",
    "TurnSummary": "eventlog.recorder.requests",
    "Unsupported": "eventlog.errors",
}

__all__ = [
    "Ambiguous",
    "Conflict",
    "Consumer",
    "ContextTypeFilter",
    "Corruption",
    "CreateEventRequest",
    "Event",
    "EventKind",
    "EventLinks",
    "EventLogError",
    "Hooks",
    "InvalidEvent",
    "Limits",
    "LockTimeout",
    "NoStore",
    "NotDurable",
    "NotFound",
    "QueryError",
    "Recorder",
    "Refused",
    "Result",
    "RetrieveOptions",
    "Session",
    "Store",
    "Turn",
    "TurnRef",
    "TurnSummary",
    "Unsupported",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'eventlog' has no attribute {name!r}")
    import sys

    __import__(home)
    value = getattr(sys.modules[home], name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted([*globals(), *__all__])
