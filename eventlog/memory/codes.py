"""Continuity codes: what a session did and left to do, one short line each, for the next session to read.

Pure: the values, what fills them, and how they are written. No prose, no language model. `from_log.py` fills
them from a store, `codes_files.py` keeps them in files. Words and rules are those of S4; where they
contradict each other, docs/codes.md says which way was taken.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath, PureWindowsPath

from eventlog.memory.budget import tokens_of as tokens_of

EXPIRES_AFTER = timedelta(days=7)
ACTIVE, COMPLETED, EXPIRED = "active", "completed", "expired"

# Above this many tokens a session's codes are worth a warning; nothing is ever left out for it (S4-35).
TOKENS_WARNED = 1500

_FUNCTION = re.compile(r"\b(?:def|function)\s+(\w+)|\bfunc\s+(?:\([^()\n]*\)\s*)?(\w+)")
_TEST = re.compile(r"(?<![\w-])(?:py)?tests?(?![\w-])", re.IGNORECASE)
_DECISION_WORDS = re.compile(r"\blet's use\b|\bwe'll use\b|\bdecision:", re.IGNORECASE)
_BLOCKER_WORDS = re.compile(r"\b(?:blocked|unclear|needs?|issues?)\b", re.IGNORECASE)
_PREFIX = re.compile(r"[a-z]+:\S")
_MESSAGE_SIZE_MAX = 30
# A code is one line: what would break it, or command a terminal, becomes what a space becomes.
_BREAKING = re.compile("[\\s\x00-\x1f\x7f-\x9f\u2028\u2029]")


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


@dataclass(slots=True)
class SessionContextCapture:
    """Collects the codes of one session. One thread at a time."""

    session_id: str
    project: str
    completed: "list[str]" = field(default_factory=list)
    next_actions: "list[str]" = field(default_factory=list)
    decisions: "list[str]" = field(default_factory=list)
    blockers: "list[str]" = field(default_factory=list)
    files_modified: "list[str]" = field(default_factory=list)
    key_functions: "list[str]" = field(default_factory=list)

    def record_completion(self, action: str) -> None:
        _add(self.completed, _one_line(action))

    def record_next(self, action: str) -> None:
        _add(self.next_actions, _one_line(action))

    def record_decision(self, choice: str, reason: "str | None" = None) -> None:
        _add(self.decisions, _joined("dec:" + "-".join(part for part in (choice, reason) if part)))

    def record_blocker(self, blocker_type: str, description: str) -> None:
        _add(self.blockers, _joined(f"block:{blocker_type}:{description}"))

    def record_file_modified(self, path: str) -> None:
        """The name alone: files of one name in two folders are one code."""
        name = PureWindowsPath(path).name if "\\" in path and "/" not in path else PurePosixPath(path).name
        _add(self.files_modified, _one_line(f"impl:{name}"))

    def record_function(self, name: str) -> None:
        _add(self.key_functions, _one_line(f"impl:{name}"))

    def to_context(
        self, phase: "str | None" = None, *, now: "datetime | None" = None, status: str = ACTIVE
    ) -> SessionContext:
        """What was collected, as of `now`; it expires a week later."""
        at = now or datetime.now(UTC)
        return SessionContext(
            self.session_id,
            self.project,
            at,
            at + EXPIRES_AFTER,
            phase,
            tuple(self.completed),
            tuple(self.next_actions),
            tuple(self.decisions),
            tuple(self.blockers),
            tuple(self.files_modified),
            tuple(self.key_functions),
            status,
        )


class AutoCapture:
    """Collects codes from what a session's tools and user say, for callers that hear them one by one."""

    def __init__(self, session_id: str, project: str) -> None:
        self.capture = SessionContextCapture(session_id, project)

    def on_tool_use(self, tool_name: str, params: "Mapping[str, object]", result: object = None) -> None:
        """A tool ran. Only the parameters are read."""
        del result
        if tool_name in ("Edit", "Write"):
            path = params.get("file_path")
            if isinstance(path, str) and path:
                self.capture.record_file_modified(path)
            for name in ("content", "new_string"):
                text = params.get(name)
                for function in functions_in(text) if isinstance(text, str) else ():
                    self.capture.record_function(function)
        command = params.get("command")
        if tool_name == "Bash" and isinstance(command, str):
            tested = runner_of(command)
            if tested is not None:
                self.capture.record_completion(f"test:{tested}")

    def on_user_message(self, message: str) -> None:
        """The user wrote: words that sound like a decision, or like something in the way, are noted."""
        if _DECISION_WORDS.search(message):
            self.capture.record_decision("user_specified", "explicit")
        if _BLOCKER_WORDS.search(message):
            self.capture.record_blocker("user_reported", message[:_MESSAGE_SIZE_MAX])

    def get_context(self, phase: "str | None" = None) -> SessionContext:
        return self.capture.to_context(phase)


def functions_in(text: str) -> "list[str]":
    """Names that Python, Go and JavaScript define in `text`, methods of Go among them."""
    return [python or go for python, go in _FUNCTION.findall(text)]


def runner_of(command: str) -> "str | None":
    """The program of a command that runs tests, None for others; `latest` is no test."""
    words = command.split()
    if not words or not _TEST.search(command) or words[0] in ("test", "["):
        return None
    return words[0]


def lines_of(data: "Mapping[str, object]") -> "list[str]":
    """The codes of a stored context: project, files, functions, decisions, blockers, next actions."""
    lines = [f"proj:{_one_line(str(data.get('project', '')))}"]
    for name in ("files", "functions", "decisions", "blockers", "next_actions"):
        found = data.get(name)
        for code in found if isinstance(found, list) else ():
            if isinstance(code, str):
                line = _one_line(code)
                prefixed = name != "next_actions" or _PREFIX.match(line)
                lines.append(line if prefixed else f"next:{line}")
    return lines


def _add(codes: "list[str]", code: str) -> None:
    if code not in codes:
        codes.append(code)


def _one_line(text: str) -> str:
    return _BREAKING.sub(lambda found: " " if found[0] == " " else "-", text)


def _joined(text: str) -> str:
    return _BREAKING.sub("-", text)
