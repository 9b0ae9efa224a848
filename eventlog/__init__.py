"""Locus: the flight recorder of coding agents. An append-only, replayable, queryable event log.

The public names below are resolved on first use, so that a program which needs only the log does
not pay for DuckDB, and the hook path pays for nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.base.errors import (
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
    from eventlog.base.event import Event
    from eventlog.base.names import safe_context_name, sanitize_context_id
    from eventlog.memory.codes import AutoCapture, SessionContextCapture
    from eventlog.memory.codes_files import (
        InjectionPackage,
        SessionCleanupManager,
        SessionContext,
        SessionContextInjector,
    )
    from eventlog.memory.engram import EngramStore
    from eventlog.memory.intent import STALE_SESSION_HOURS
    from eventlog.memory.shared_nodes import ContextLoadNode, ContextWriteNode, ValidationNode
    from eventlog.memory.shared_store import ContextStore
    from eventlog.memory.window import ContextBlock, Situation
    from eventlog.query.engine import Limits, Result
    from eventlog.query.lookup import TurnRef
    from eventlog.recorder.hooks import Hooks, StrictHooks
    from eventlog.recorder.ledger import Consumer
    from eventlog.recorder.recorder import Recorder, Session, Turn
    from eventlog.recorder.requests import (
        CONTEXT_DECISIONS,
        CONTEXT_EDITOR,
        CONTEXT_ERRORS,
        CONTEXT_SESSIONS,
        CONTEXT_TERMINAL,
        CONTEXT_TOOLS,
        CONTEXT_USER_INTENT,
        Context,
        ContextResult,
        ContextType,
        ContextTypeFilter,
        CreateEventRequest,
        EventKind,
        EventLinks,
        InsightResult,
        InsightsOptions,
        Memory,
        RetrieveOptions,
        TurnSummary,
    )
    from eventlog.store import Store

__version__ = "0.1.0"

_HOME_OF = {
    "Ambiguous": "eventlog.base.errors",
    "AutoCapture": "eventlog.memory.codes",
    "CONTEXT_DECISIONS": "eventlog.recorder.requests",
    "CONTEXT_EDITOR": "eventlog.recorder.requests",
    "CONTEXT_ERRORS": "eventlog.recorder.requests",
    "CONTEXT_SESSIONS": "eventlog.recorder.requests",
    "CONTEXT_TERMINAL": "eventlog.recorder.requests",
    "CONTEXT_TOOLS": "eventlog.recorder.requests",
    "CONTEXT_USER_INTENT": "eventlog.recorder.requests",
    "Conflict": "eventlog.base.errors",
    "Consumer": "eventlog.recorder.ledger",
    "Context": "eventlog.recorder.requests",
    "ContextBlock": "eventlog.memory.window",
    "ContextLoadNode": "eventlog.memory.shared_nodes",
    "ContextResult": "eventlog.recorder.requests",
    "ContextStore": "eventlog.memory.shared_store",
    "ContextType": "eventlog.recorder.requests",
    "ContextTypeFilter": "eventlog.recorder.requests",
    "ContextWriteNode": "eventlog.memory.shared_nodes",
    "Corruption": "eventlog.base.errors",
    "CreateEventRequest": "eventlog.recorder.requests",
    "EngramStore": "eventlog.memory.engram",
    "Event": "eventlog.base.event",
    "EventKind": "eventlog.recorder.requests",
    "EventLinks": "eventlog.recorder.requests",
    "EventLogError": "eventlog.base.errors",
    "Hooks": "eventlog.recorder.hooks",
    "InjectionPackage": "eventlog.memory.codes_files",
    "InsightResult": "eventlog.recorder.requests",
    "InsightsOptions": "eventlog.recorder.requests",
    "InvalidEvent": "eventlog.base.errors",
    "Limits": "eventlog.query.engine",
    "LockTimeout": "eventlog.base.errors",
    "Memory": "eventlog.recorder.requests",
    "NoStore": "eventlog.base.errors",
    "NotDurable": "eventlog.base.errors",
    "NotFound": "eventlog.base.errors",
    "QueryError": "eventlog.base.errors",
    "Recorder": "eventlog.recorder.recorder",
    "Refused": "eventlog.base.errors",
    "Result": "eventlog.query.engine",
    "RetrieveOptions": "eventlog.recorder.requests",
    "STALE_SESSION_HOURS": "eventlog.memory.intent",
    "Session": "eventlog.recorder.recorder",
    "SessionCleanupManager": "eventlog.memory.codes_files",
    "SessionContext": "eventlog.memory.codes_files",
    "SessionContextCapture": "eventlog.memory.codes",
    "SessionContextInjector": "eventlog.memory.codes_files",
    "Situation": "eventlog.memory.window",
    "Store": "eventlog.store",
    "StrictHooks": "eventlog.recorder.hooks",
    "Turn": "eventlog.recorder.recorder",
    "TurnRef": "eventlog.query.lookup",
    "TurnSummary": "eventlog.recorder.requests",
    "Unsupported": "eventlog.base.errors",
    "ValidationNode": "eventlog.memory.shared_nodes",
    "safe_context_name": "eventlog.base.names",
    "sanitize_context_id": "eventlog.base.names",
}

__all__ = [
    "CONTEXT_DECISIONS",
    "CONTEXT_EDITOR",
    "CONTEXT_ERRORS",
    "CONTEXT_SESSIONS",
    "CONTEXT_TERMINAL",
    "CONTEXT_TOOLS",
    "CONTEXT_USER_INTENT",
    "STALE_SESSION_HOURS",
    "Ambiguous",
    "AutoCapture",
    "Conflict",
    "Consumer",
    "Context",
    "ContextBlock",
    "ContextLoadNode",
    "ContextResult",
    "ContextStore",
    "ContextType",
    "ContextTypeFilter",
    "ContextWriteNode",
    "Corruption",
    "CreateEventRequest",
    "EngramStore",
    "Event",
    "EventKind",
    "EventLinks",
    "EventLogError",
    "Hooks",
    "InjectionPackage",
    "InsightResult",
    "InsightsOptions",
    "InvalidEvent",
    "Limits",
    "LockTimeout",
    "Memory",
    "NoStore",
    "NotDurable",
    "NotFound",
    "QueryError",
    "Recorder",
    "Refused",
    "Result",
    "RetrieveOptions",
    "Session",
    "SessionCleanupManager",
    "SessionContext",
    "SessionContextCapture",
    "SessionContextInjector",
    "Situation",
    "Store",
    "StrictHooks",
    "Turn",
    "TurnRef",
    "TurnSummary",
    "Unsupported",
    "ValidationNode",
    "safe_context_name",
    "sanitize_context_id",
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
