"""Continuity codes out of the log: a fold over one session's events, and the file that is exported from it.

The log is the truth and the file a view (P2): deleted and exported again it has the same bytes. What people
say themselves (`say`) is an event of type `code` first. Used by the command line and the maintainer, not by
hooks: the session is looked up in the index.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from eventlog import config
from eventlog.errors import EventLogError
from eventlog.jsontext import object_of
from eventlog.memory.codes import (
    COMPLETED,
    AutoCapture,
    SessionContext,
    SessionContextCapture,
    functions_in,
    runner_of,
)
from eventlog.memory.codes_files import SessionContextInjector, encoded
from eventlog.recorder.sessions import SessionRow, named, recent
from eventlog.snapshots.ids import from_text
from eventlog.store import Store
from eventlog.types import Event

CODE = "code"
NEXT, DONE, DECISION, BLOCKER, COMPLETE = "next", "done", "decision", "blocker", "complete"

_RECENT = 20
_CONTENT_SIZE_MAX = 1 << 20
_MESSAGE_SIZE_MAX = 80
# Lists of things to do, as the agents' own tools are given them: the name of the list, of a state, of a text.
_LISTS = ("todos", "plan")
_TEXTS = ("content", "step", "description", "text", "title")
_COLUMNS = (
    "event_type", "operation", "title", "path", "tool", "success", "error_type", "before_hash",
    "after_hash", "occurred_at", "recorded_at", "position", "payload",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SessionCodes:
    """The context of one session, and what of the log it was made from."""

    context: SessionContext
    session_id: str
    position: int  # of its last event


def of_session(store: Store, name: str) -> SessionCodes:
    """The codes of the session that `name` means. Raises: NotFound, Ambiguous, Corruption."""
    row = named(store, name)
    return _folded(store, row, store.withheld(), _open_errors(store, [row]))


def of_store(store: Store) -> "SessionCodes | None":
    """The codes of the session that something was done in last; None when no session left any.

    Raises: Corruption.
    """
    withheld = store.withheld()
    rows = recent(store, limit=_RECENT)
    is_open = _open_errors(store, rows)
    found = [_folded(store, row, withheld, is_open) for row in rows]
    left = [codes for codes in found if _says_something(codes.context)]
    return max(left, key=lambda codes: (codes.context.timestamp, codes.position), default=None)


def export(store: Store, base: "str | os.PathLike[str] | None" = None) -> "Path | None":
    """Bring the file of the store's project up to date; its path, None when there is nothing to say.

    Args: base: the directory above `memory/sessions`; by default what config.toml says, else the store.
    Raises: OSError, Corruption.
    """
    injector = SessionContextInjector(base or base_of(store))
    memory = os.path.dirname(store.layout.briefing)
    if os.path.isdir(memory) and os.stat(memory).st_mode & 0o077:
        os.chmod(memory, 0o700)  # an earlier version left it to the umask
    codes = of_store(store)
    path = injector.path_of(store.project_name)
    if codes is None or codes.context.status == COMPLETED:
        injector.mark_complete(store.project_name)
        return None
    more = {"locus": {"session": codes.session_id, "position": codes.position}}
    if not path.exists() or path.read_bytes() != encoded(codes.context, **more):
        injector.save_context(codes.context, **more)
    return path


def base_of(store: Store) -> Path:
    """The directory above `memory/sessions` by the store's settings, else the store itself."""
    said = config.read(store.fs, store.layout).codes_base
    return Path(store.layout.root if said is None else said).expanduser()


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


def on_session_save(
    capture: AutoCapture, phase: "str | None" = None, *, base: "str | os.PathLike[str] | None" = None
) -> int:
    """Save what was captured; how many files were modified."""
    context = capture.get_context(phase)
    SessionContextInjector(base or _home()).save_context(context)
    return len(context.files_modified)


def on_session_start(project: str, *, base: "str | os.PathLike[str] | None" = None) -> "str | None":
    """The codes to begin a session of this project with, None when there are none."""
    package = SessionContextInjector(base or _home()).inject(project)
    return None if package is None else package.codes


def inject_all(
    project: str, memory: "str | None" = None, *, base: "str | os.PathLike[str] | None" = None
) -> str:
    """What is remembered, then the session's codes, a blank line between them; what is empty is left out."""
    return "\n\n".join(part for part in (memory, on_session_start(project, base=base)) if part)


def _home() -> Path:
    return Path.home() / ".cerberus"


def _says_something(context: SessionContext) -> bool:
    lists = (context.files_modified, context.key_functions, context.decisions, context.blockers)
    return bool(context.next_actions or context.completed or any(lists) or context.status == COMPLETED)


def _open_errors(store: Store, rows: "Sequence[SessionRow]") -> "frozenset[int]":
    """Positions of the errors of these sessions that are not known to be resolved."""
    sessions = [row.session_id for row in rows]
    asked = "select position from errors where resolved is not true and list_contains($1, session_id)"
    return frozenset(row[0] for row in store.query(asked, [sessions]).rows) if sessions else frozenset()


def _folded(
    store: Store, row: SessionRow, withheld: "frozenset[str]", open_errors: "frozenset[int]"
) -> SessionCodes:
    capture = SessionContextCapture("", store.project_name)
    failed: list[tuple[str, str]] = []
    first: "datetime | None" = None
    last = datetime.fromtimestamp(0, UTC)
    position, status = 0, "active"
    with store.view() as view:
        for event in view.iterate(session_id=row.session_id, columns=_COLUMNS):
            at = _time_of(event)
            first, last = first or at, max(last, at)
            position = int(str(event["position"]))
            status = "active"
            match event["event_type"]:
                case "file":
                    _note_file(store, capture, event, withheld)
                case "action":
                    _note_action(capture, event)
                case "decision":
                    capture.record_decision(_text(event, "decision"), _text(event, "reasoning") or None)
                case "error" if position in open_errors:
                    kind = str(event["error_type"] or "error")
                    failed.append((kind, _first_line(_text(event, "message"))))
                case "code":
                    status = _note_code(capture, event)
    for kind, message in failed:
        capture.record_blocker(kind, message)
    capture.session_id = (row.started_at or first or last).astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    context = capture.to_context(now=last, status=status)
    return SessionCodes(context, row.session_id, position)


def _note_file(
    store: Store, capture: SessionContextCapture, event: Event, withheld: "frozenset[str]"
) -> None:
    after, path = event["after_hash"], event["path"]
    if not isinstance(path, str) or (event["operation"] == "delete"):
        return
    capture.record_file_modified(path)
    before = event["before_hash"]
    if isinstance(after, str) and after != before and not {before, after} & withheld:
        old = set(_content(store, before).split("\n"))
        for line in _content(store, after).split("\n"):
            for name in functions_in(line) if line not in old else ():
                capture.record_function(name)


def _content(store: Store, content_hash: object) -> str:
    """A text, or nothing where there is none to be had."""
    if not isinstance(content_hash, str):
        return ""
    try:
        id = from_text(content_hash)
        # To be told why a content is missing takes a look through the log.
        data = store.blobs.get(id) if store.blobs.contains(id) else b""
    except EventLogError:
        return ""
    return data.decode("utf-8", "replace") if len(data) <= _CONTENT_SIZE_MAX and b"\0" not in data else ""


def _note_action(capture: SessionContextCapture, event: Event) -> None:
    args = object_of(event["payload"]).get("args")
    if not isinstance(args, dict):
        return
    command = _command_of(args)
    if event["success"] is not False:
        tested = None if command is None else runner_of(command)
        if tested is not None:
            capture.record_completion(f"test:{tested}")
    for name in _LISTS:
        if isinstance(args.get(name), list):
            # Each list replaces the one before.
            capture.next_actions.clear()
            for text, done in _things_to_do(args[name]):
                (capture.record_completion if done else capture.record_next)(text)


def _things_to_do(items: "list[object]") -> "Iterator[tuple[str, bool]]":
    for item in items:
        if isinstance(item, dict):
            text = next((item[name] for name in _TEXTS if isinstance(item.get(name), str)), None)
            if text and item.get("status") not in ("cancelled", "deleted"):
                yield "-".join(text.split()), item.get("status") in ("completed", "done")


def _note_code(capture: SessionContextCapture, event: Event) -> str:
    """What somebody said; the status of the session by it."""
    text = _text(event, "text")
    match event["operation"]:
        case "next":
            capture.record_next("-".join(text.split()))
        case "done":
            done = "-".join(text.split())
            capture.record_completion(done)
            if done in capture.next_actions:
                capture.next_actions.remove(done)
        case "decision":
            choice, _, reason = text.partition("=")
            capture.record_decision(choice.strip(), reason.strip() or None)
        case "blocker":
            kind, _, description = text.partition(":")
            capture.record_blocker(*((kind, description) if description else ("user_reported", kind)))
        case "complete":
            return COMPLETED
    return "active"


def _command_of(said: "dict[str, object]") -> "str | None":
    for name in ("command", "cmd"):
        command = said.get(name)
        if isinstance(command, str):
            return command
        if isinstance(command, list):
            return " ".join(str(part) for part in command)
    return None


def _text(event: Event, name: str) -> str:
    value = object_of(event["payload"]).get(name)
    return value if isinstance(value, str) else ""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_MESSAGE_SIZE_MAX]


def _time_of(event: Event) -> datetime:
    at = event["occurred_at"] or event["recorded_at"]
    return at if isinstance(at, datetime) else datetime.fromtimestamp(int(str(at)) / 1e6, UTC)
