"""Continuity codes out of the log: a fold over one session's events, and the file that is exported from it.

The log is the truth and the file a view (P2): deleted and exported again it has the same bytes. What people
say themselves (`say`) is an event of type `code` first. Used by the command line and the maintainer, not by
hooks: it reads the index. Hooks fold the end of the journals by the same rules (`facts.py`).
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eventlog.base import config
from eventlog.base.jsontext import object_of
from eventlog.base.types import Event
from eventlog.memory import codes
from eventlog.memory.codes import CODE, COMPLETED, AutoCapture
from eventlog.memory.codes_files import SessionContext, SessionContextInjector, encoded
from eventlog.recorder.sessions import SessionRow, microseconds_of, named, recent
from eventlog.store import Store

NEXT, DONE, DECISION, BLOCKER, COMPLETE = "next", "done", "decision", "blocker", "complete"

_RECENT = 20
_SESSIONS_OF_FACTS = 5  # sessions whose codes are cached for hooks: one of them may go on
_COLUMNS = (
    "event_id", "event_type", "operation", "title", "path", "tool", "tool_use_id", "success", "error_type",
    "resolved", "before_hash", "after_hash", "occurred_at", "recorded_at", "position", "payload",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SessionCodes:
    """The context of one session, and what of the log it was made from."""

    context: SessionContext
    session_id: str
    position: int  # of the last event that counts


def of_session(store: Store, name: str) -> SessionCodes:
    """The codes of the session that `name` means. Raises: NotFound, Ambiguous, Corruption."""
    row = named(store, name)
    [capture] = folded(store, [row])
    capture.read(_reader(store))
    return _codes(row, capture)


def of_store(store: Store) -> "SessionCodes | None":
    """The codes of the session that something was done in last; None when no session left any.

    Raises: Corruption.
    """
    rows = recent(store, of_project=True, limit=_RECENT)
    captures = folded(store, rows)
    chosen = codes.last([capture.facts() for capture in captures])
    if chosen is None:
        return None
    index = next(n for n, capture in enumerate(captures) if capture.position == chosen["position"])
    captures[index].read(_reader(store))
    return _codes(rows[index], captures[index])


def facts(store: Store) -> "list[dict[str, Any]]":
    """Facts of the sessions that something was done in last, for `codes.lines_left` and for hooks."""
    captures = [
        capture
        for capture in folded(store, recent(store, of_project=True, limit=_RECENT))
        if capture.position >= 0
    ]
    latest = sorted(captures, key=lambda capture: (-capture.at_us, -capture.position))[:_SESSIONS_OF_FACTS]
    for capture in latest:
        capture.read(_reader(store))
    return [capture.facts() for capture in latest]


def folded(store: Store, rows: "Sequence[SessionRow]") -> "list[AutoCapture]":
    """The codes of each of these sessions; contents are not read yet."""
    open_errors = _open_errors(store, rows)
    captures = []
    with store.view() as view:
        for row in rows:
            capture = AutoCapture(row.session_id, store.project_name)
            for event in view.iterate(session_id=row.session_id, event_types=codes.TYPES, columns=_COLUMNS):
                position = int(str(event["position"]))
                if event["event_type"] != "error" or position in open_errors:
                    capture.take(event, _payload_reader(event), _time_of(event), position)
            captures.append(capture)
    return captures


def export(store: Store, base: "str | os.PathLike[str] | None" = None) -> "Path | None":
    """Bring the file of the store's project up to date; its path, None when there is nothing to say.

    Args: base: the directory above `memory/sessions`; by default what config.toml says, else the store.
    Raises: OSError, Corruption.
    """
    injector = SessionContextInjector(base or base_of(store))
    memory = os.path.dirname(store.layout.briefing)
    if os.path.isdir(memory) and os.stat(memory).st_mode & 0o077:
        os.chmod(memory, 0o700)  # an earlier version left it to the umask
    left = of_store(store)
    path = injector.path_of(store.project_name)
    if left is None or left.context.status == COMPLETED:
        injector.mark_complete(store.project_name)
        return None
    more = {"locus": {"session": left.session_id, "position": left.position}}
    if not path.exists() or path.read_bytes() != encoded(left.context, **more):
        injector.save_context(left.context, **more)
    return path


def base_of(store: Store) -> Path:
    """The directory above `memory/sessions` by the store's settings, else the store itself."""
    configured = config.read(store.fs, store.layout).codes_base
    return Path(store.layout.root if configured is None else configured).expanduser()


def say(store: Store, operation: str, text: str, session_id: "str | None" = None) -> range:
    """Record what somebody says of a session: what is next, done, decided, in the way, or all complete.

    Args: operation: one of the words above; text: what its code is to say, `type:description` of a blocker.
    """
    event: Event = {
        "event_type": CODE,
        "event_kind": "fact",
        "source": "user",
        "operation": operation,
        "session_id": session_id,
        "repo": store.repo_hash,
        "payload": {"text": text},
    }
    return store.append_rows([event])


def _codes(row: SessionRow, auto: AutoCapture) -> SessionCodes:
    capture = auto.finished()
    began_us = microseconds_of(row.started_at) or auto.began_us or 0
    capture.session_id = _moment(began_us).strftime("%Y%m%d-%H%M%S")
    context = capture.to_context(now=_moment(auto.at_us), status=auto.status)
    return SessionCodes(context, row.session_id, auto.position)


def _reader(store: Store) -> "Callable[[object], str]":
    withheld = store.withheld()
    return lambda hash: "" if hash in withheld else codes.text_in(store.blobs, hash)


def _open_errors(store: Store, rows: "Sequence[SessionRow]") -> "frozenset[int]":
    """Positions of the errors of these sessions that are not known to be resolved."""
    sessions = [row.session_id for row in rows]
    sql = "select position from errors where resolved is not true and list_contains($1, session_id)"
    return frozenset(row[0] for row in store.query(sql, [sessions]).rows) if sessions else frozenset()


def _payload_reader(event: Event) -> "Callable[[], dict[str, Any]]":
    return lambda: object_of(event["payload"])


def _time_of(event: Event) -> int:
    time = event["occurred_at"] or event["recorded_at"]
    return (microseconds_of(time) or 0) if isinstance(time, datetime) else int(str(time))


def _moment(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / 1e6, UTC)
