"""Locus: the flight recorder of coding agents. An append-only, replayable, queryable event log.

The public names below are resolved on first use, so that a program which needs only the log does
not pay for DuckDB, and the hook path pays for nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.base.errors import Ambiguous as Ambiguous
    from eventlog.base.errors import Conflict as Conflict
    from eventlog.base.errors import Corruption as Corruption
    from eventlog.base.errors import EventLogError as EventLogError
    from eventlog.base.errors import InvalidEvent as InvalidEvent
    from eventlog.base.errors import LockTimeout as LockTimeout
    from eventlog.base.errors import NoStore as NoStore
    from eventlog.base.errors import NotDurable as NotDurable
    from eventlog.base.errors import NotFound as NotFound
    from eventlog.base.errors import QueryError as QueryError
    from eventlog.base.errors import Refused as Refused
    from eventlog.base.errors import Unsupported as Unsupported
    from eventlog.base.event import Event as Event
    from eventlog.base.names import safe_context_name as safe_context_name
    from eventlog.base.names import sanitize_context_id as sanitize_context_id
    from eventlog.memory.codes import AutoCapture as AutoCapture
    from eventlog.memory.codes import SessionContextCapture as SessionContextCapture
    from eventlog.memory.codes_files import InjectionPackage as InjectionPackage
    from eventlog.memory.codes_files import SessionCleanupManager as SessionCleanupManager
    from eventlog.memory.codes_files import SessionContext as SessionContext
    from eventlog.memory.codes_files import SessionContextInjector as SessionContextInjector
    from eventlog.memory.engram import EngramStore as EngramStore
    from eventlog.memory.intent import STALE_SESSION_HOURS as STALE_SESSION_HOURS
    from eventlog.memory.shared_nodes import ContextLoadNode as ContextLoadNode
    from eventlog.memory.shared_nodes import ContextWriteNode as ContextWriteNode
    from eventlog.memory.shared_nodes import ValidationNode as ValidationNode
    from eventlog.memory.shared_store import ContextStore as ContextStore
    from eventlog.memory.window import ContextBlock as ContextBlock
    from eventlog.memory.window import Situation as Situation
    from eventlog.query.engine import Limits as Limits
    from eventlog.query.engine import Result as Result
    from eventlog.query.lookup import TurnRef as TurnRef
    from eventlog.recorder.hooks import Hooks as Hooks
    from eventlog.recorder.hooks import StrictHooks as StrictHooks
    from eventlog.recorder.ledger import Consumer as Consumer
    from eventlog.recorder.recorder import Recorder as Recorder
    from eventlog.recorder.recorder import Session as Session
    from eventlog.recorder.recorder import Turn as Turn
    from eventlog.recorder.requests import CONTEXT_DECISIONS as CONTEXT_DECISIONS
    from eventlog.recorder.requests import CONTEXT_EDITOR as CONTEXT_EDITOR
    from eventlog.recorder.requests import CONTEXT_ERRORS as CONTEXT_ERRORS
    from eventlog.recorder.requests import CONTEXT_SESSIONS as CONTEXT_SESSIONS
    from eventlog.recorder.requests import CONTEXT_TERMINAL as CONTEXT_TERMINAL
    from eventlog.recorder.requests import CONTEXT_TOOLS as CONTEXT_TOOLS
    from eventlog.recorder.requests import CONTEXT_USER_INTENT as CONTEXT_USER_INTENT
    from eventlog.recorder.requests import Context as Context
    from eventlog.recorder.requests import ContextResult as ContextResult
    from eventlog.recorder.requests import ContextType as ContextType
    from eventlog.recorder.requests import ContextTypeFilter as ContextTypeFilter
    from eventlog.recorder.requests import CreateEventRequest as CreateEventRequest
    from eventlog.recorder.requests import EventKind as EventKind
    from eventlog.recorder.requests import EventLinks as EventLinks
    from eventlog.recorder.requests import InsightResult as InsightResult
    from eventlog.recorder.requests import InsightsOptions as InsightsOptions
    from eventlog.recorder.requests import Memory as Memory
    from eventlog.recorder.requests import RetrieveOptions as RetrieveOptions
    from eventlog.recorder.requests import TurnSummary as TurnSummary
    from eventlog.replay.certainty import Certainty as Certainty
    from eventlog.replay.diffs import Diff as Diff
    from eventlog.replay.diffs import FileDiff as FileDiff
    from eventlog.replay.history import FileVersion as FileVersion
    from eventlog.replay.trees import TreeState as TreeState
    from eventlog.restore.plan import RestorePlan as RestorePlan
    from eventlog.restore.run import RestoreOutcome as RestoreOutcome
    from eventlog.store import Store as Store
    from eventlog.undo.plan import UndoPlan as UndoPlan

__version__ = "0.1.0"

# The public names, by the module that has each.
_NAMES_OF = {
    "eventlog.base.errors": (
        "Ambiguous",
        "Conflict",
        "Corruption",
        "EventLogError",
        "InvalidEvent",
        "LockTimeout",
        "NoStore",
        "NotDurable",
        "NotFound",
        "QueryError",
        "Refused",
        "Unsupported",
    ),
    "eventlog.base.event": ("Event",),
    "eventlog.base.names": (
        "safe_context_name",
        "sanitize_context_id",
    ),
    "eventlog.memory.codes": (
        "AutoCapture",
        "SessionContextCapture",
    ),
    "eventlog.memory.codes_files": (
        "InjectionPackage",
        "SessionCleanupManager",
        "SessionContext",
        "SessionContextInjector",
    ),
    "eventlog.memory.engram": ("EngramStore",),
    "eventlog.memory.intent": ("STALE_SESSION_HOURS",),
    "eventlog.memory.shared_nodes": (
        "ContextLoadNode",
        "ContextWriteNode",
        "ValidationNode",
    ),
    "eventlog.memory.shared_store": ("ContextStore",),
    "eventlog.memory.window": (
        "ContextBlock",
        "Situation",
    ),
    "eventlog.query.engine": (
        "Limits",
        "Result",
    ),
    "eventlog.query.lookup": ("TurnRef",),
    "eventlog.recorder.hooks": (
        "Hooks",
        "StrictHooks",
    ),
    "eventlog.recorder.ledger": ("Consumer",),
    "eventlog.recorder.recorder": (
        "Recorder",
        "Session",
        "Turn",
    ),
    "eventlog.recorder.requests": (
        "CONTEXT_DECISIONS",
        "CONTEXT_EDITOR",
        "CONTEXT_ERRORS",
        "CONTEXT_SESSIONS",
        "CONTEXT_TERMINAL",
        "CONTEXT_TOOLS",
        "CONTEXT_USER_INTENT",
        "Context",
        "ContextResult",
        "ContextType",
        "ContextTypeFilter",
        "CreateEventRequest",
        "EventKind",
        "EventLinks",
        "InsightResult",
        "InsightsOptions",
        "Memory",
        "RetrieveOptions",
        "TurnSummary",
    ),
    "eventlog.replay.certainty": ("Certainty",),
    "eventlog.replay.diffs": (
        "Diff",
        "FileDiff",
    ),
    "eventlog.replay.history": ("FileVersion",),
    "eventlog.replay.trees": ("TreeState",),
    "eventlog.restore.plan": ("RestorePlan",),
    "eventlog.restore.run": ("RestoreOutcome",),
    "eventlog.undo.plan": ("UndoPlan",),
    "eventlog.store": ("Store",),
}
_HOME_OF = {name: home for home, names in _NAMES_OF.items() for name in names}

__all__ = sorted(_HOME_OF)


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
