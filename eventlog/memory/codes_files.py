"""Continuity codes in files: `<base>/memory/sessions/active-<project>.json`, and `archive/` beside them.

`base` may be shared by the projects of one user. Nothing here raises for what a file holds: what cannot be
read is no context (S4-17), and its bytes stay. Files are replaced whole, so a reader sees the old or the
new one; any number of processes may read and write.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from eventlog.memory.budget import tokens_of
from eventlog.memory.codes import ACTIVE, SessionContextCapture, lines_of
from eventlog.memory.files import make_private, pretty, read_json, replace_file, stamp

EXPIRES_AFTER = timedelta(days=7)
_ACTIVE, _ARCHIVE = "active-", "archive"


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What one session leaves to the next. Every list holds codes, without repetitions, in order of arrival.

    `id` is `YYYYMMDD-HHMMSS`, the beginning of the session in UTC; times are aware.
    """

    id: str
    project: str
    timestamp: datetime
    expires: datetime
    phase: "str | None" = None
    completed: "tuple[str, ...]" = ()
    next_actions: "tuple[str, ...]" = ()
    decisions: "tuple[str, ...]" = ()
    blockers: "tuple[str, ...]" = ()
    files_modified: "tuple[str, ...]" = ()
    key_functions: "tuple[str, ...]" = ()
    status: str = ACTIVE


@dataclass(frozen=True, slots=True)
class InjectionPackage:
    """Codes ready for a session's start. `token_count` is an estimate (`tokens_of`)."""

    codes: str
    token_count: int
    session_id: str
    expires_at: str


def context_of(
    capture: SessionContextCapture, phase: "str | None", now: "datetime | None", status: str
) -> SessionContext:
    """What was collected, as of `now`; it expires a week later."""
    made = now or datetime.now(UTC)
    return SessionContext(
        capture.session_id,
        capture.project,
        made,
        made + EXPIRES_AFTER,
        phase,
        tuple(capture.completed),
        tuple(capture.next_actions),
        tuple(capture.decisions),
        tuple(capture.blockers),
        tuple(capture.files_modified),
        tuple(capture.key_functions),
        status,
    )


class SessionContextInjector:
    """The files below one base directory. Raises OSError only when it writes."""

    def __init__(self, base_path: "str | os.PathLike[str]") -> None:
        self.sessions_dir = Path(base_path) / "memory" / "sessions"
        make_private(self.sessions_dir)

    def path_of(self, project: str) -> Path:
        """Where the codes of a project are; what a file name cannot hold is quoted."""
        return self.sessions_dir / f"{_ACTIVE}{_file_name(project)}.json"

    def inject(self, project: str, *, now: "datetime | None" = None) -> "InjectionPackage | None":
        """The codes of a project's last session; None when there are none, they are unreadable or too old.

        Those that are too old go to the archive.
        """
        path = self.path_of(project)
        data = _load(path)
        if data is None:
            return None
        if is_expired(data, now):
            archive(path, data, now)
            return None
        codes = "\n".join(lines_of({**data, "project": project}))
        metadata = data["metadata"]
        return InjectionPackage(codes, tokens_of(codes), str(data.get("session_id")), metadata["expires_at"])

    def save_context(self, context: SessionContext, **more: object) -> Path:
        """Write a context as its project's active one; `more` are keys beside those of the format."""
        path = self.path_of(context.project)
        replace_file(path, encoded(context, **more))
        return path

    def mark_complete(self, project: str) -> None:
        """Its codes are not needed any more."""
        self.path_of(project).unlink(missing_ok=True)


class SessionCleanupManager:
    """Takes what is too old out of the way, for all projects of a base directory."""

    def __init__(self, base_path: "str | os.PathLike[str]") -> None:
        self.sessions_dir = Path(base_path) / "memory" / "sessions"

    def cleanup_expired(self, *, now: "datetime | None" = None) -> int:
        """Archive what has expired; how many. What cannot be read goes there, too, and does not count."""
        archived = 0
        for path in sorted(self.sessions_dir.glob(f"{_ACTIVE}*.json")):
            data = _load(path)
            if data is None:
                _keep_aside(path)
            elif is_expired(data, now):
                archive(path, data, now)
                archived += 1
        return archived


def stored(context: SessionContext) -> "dict[str, Any]":
    """A context as its file has it."""
    return {
        "session_id": context.id,
        "project": context.project,
        "timestamp": stamp(context.timestamp),
        "files": list(context.files_modified),
        "functions": list(context.key_functions),
        "decisions": list(context.decisions),
        "blockers": list(context.blockers),
        "next_actions": lines_of({"next_actions": list(context.next_actions)})[1:],
        "completed": list(context.completed),
        "phase": context.phase,
        "metadata": {"expires_at": stamp(context.timestamp + EXPIRES_AFTER)},
    }


def encoded(context: SessionContext, **more: object) -> bytes:
    """The bytes of its file; `more` are keys beside those of the format."""
    return pretty({**stored(context), **more})


def is_expired(data: "dict[str, Any]", now: "datetime | None" = None) -> bool:
    """Whether a stored context is too old; one that does not say when it expires is."""
    try:
        expires = datetime.fromisoformat(data["metadata"]["expires_at"])
        if expires.tzinfo is None:
            expires = expires.replace(tzinfo=UTC)
        return (now or datetime.now(UTC)) > expires
    except (KeyError, TypeError, ValueError):
        return True


def archive(path: Path, data: "dict[str, Any]", now: "datetime | None" = None) -> None:
    """Move a context to the archive, under its session's id. Nothing that is there is replaced."""
    name = data.get("session_id")
    stem = _file_name(name) if isinstance(name, str) and name else path.stem
    archived = {**data, "archived_at": stamp(now or datetime.now(UTC))}
    replace_file(_free(path.parent / _ARCHIVE, stem), pretty(archived))
    path.unlink(missing_ok=True)


def _keep_aside(path: Path) -> None:
    directory = path.parent / _ARCHIVE
    try:
        os.rename(path, _free(directory, f"unreadable-{path.stem}"))
    except FileNotFoundError:
        pass  # another process was first


def _free(directory: Path, stem: str) -> Path:
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / f"{stem}.json"
    number = 2
    while path.exists():
        path = directory / f"{stem}-{number}.json"
        number += 1
    return path


def _load(path: Path) -> "dict[str, Any] | None":
    data = read_json(path)
    return data if isinstance(data, dict) else None


def _file_name(name: str) -> str:
    return quote(name, safe=" ", errors="surrogatepass")[:200] or "%"
