"""Continuity codes: what a session did and left to do, one short line each, for the next session to read.

Pure: the rules that make codes of a session's events, and how codes are written. No prose, no language model.
`codes_of_log` reads the events of a store, `facts` those of the end of the journals; both fold them here, so
both give the same codes. Words and rules are those of S4; docs/codes.md says which way was taken where they
contradict each other. On the hook path: imports neither `dataclasses` nor `re`.
"""

from eventlog.base.errors import EventLogError
from eventlog.base.types import COMMAND_ARGUMENTS
from eventlog.blobs.ids import from_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from eventlog.blobs.store import BlobStore
    from eventlog.memory.codes_files import SessionContext

ACTIVE, COMPLETED, EXPIRED = "active", "completed", "expired"
# The events that leave codes; `code` is what somebody noted.
CODE = "code"
TYPES = ("file", "action", "decision", "error", CODE)
# The lists of a session's codes in the order of their lines; completions are stored, but have no line.
LISTS = ("files", "functions", "decisions", "blockers", "next_actions")

# Above this many tokens a session's codes are worth a warning; nothing is ever left out for it (S4-35).
TOKENS_WARNED = 1500

_MESSAGE_SIZE_MAX = 80
_EXCERPT_SIZE_MAX = 30
_CONTENT_SIZE_MAX = 1 << 20
_DEFINING = ("def", "func", "function", "function*", "fn")
_TESTING = frozenset(("test", "tests", "pytest", "unittest", "vitest", "nextest", "jest", "ctest", "rspec"))
# Programs that are given tests to do something else with.
_NO_RUNNERS = (
    "test",
    "[",
    "cd",
    "ls",
    "cat",
    "echo",
    "rm",
    "mkdir",
    "rg",
    "grep",
    "git",
    "sed",
    "head",
    "vim",
)
_DECISIONS = ("let's use", "we'll use", "decision:")
_BLOCKERS = frozenset(("blocked", "unclear", "need", "needs", "issue", "issues"))
# Lists of things to do, as the agents' own tools are given them: the name of the list, of a text.
_TODO_LISTS = ("todos", "plan")
_TODO_TEXTS = ("content", "step", "description", "text", "title")
# What a failure says first without saying what failed.
_SAYS_NOTHING = (
    "exit code",
    "traceback (most recent",
    "command failed",
    "error: exit status",
    "stderr:",
    "stdout:",
)
_SAYS_WHAT = ("error", "failed", "fatal", "panicked", "assert", "not found", "denied", "no such")


class SessionContextCapture:
    """Collects the codes of one session: lists without repetitions, in order of arrival."""

    def __init__(self, session_id: str, project: str) -> None:
        self.session_id = session_id
        self.project = project
        self.completed: "list[str]" = []
        self.next_actions: "list[str]" = []
        self.decisions: "list[str]" = []
        self.blockers: "list[str]" = []
        self.files_modified: "list[str]" = []
        self.key_functions: "list[str]" = []

    def record_completion(self, action: str) -> None:
        _add(self.completed, one_line(action))

    def record_next(self, action: str) -> None:
        _add(self.next_actions, one_line(action))

    def record_decision(self, choice: str, reason: "str | None" = None) -> None:
        _add(self.decisions, _joined("dec:" + "-".join(part for part in (choice, reason) if part)))

    def record_blocker(self, blocker_type: str, description: str) -> None:
        _add(self.blockers, _joined(f"block:{blocker_type}:{description}"))

    def record_file_modified(self, path: str) -> None:
        """The name alone: files of one name in two folders are one code."""
        parts = path.replace("\\", "/") if "/" not in path else path
        _add(self.files_modified, one_line(f"impl:{parts.rstrip('/').rpartition('/')[2]}"))

    def record_function(self, name: str) -> None:
        _add(self.key_functions, one_line(f"impl:{name}"))

    def to_context(
        self, phase: "str | None" = None, *, now: "datetime | None" = None, status: str = ACTIVE
    ) -> "SessionContext":
        """What was collected, as of `now`; it expires a week later."""
        from eventlog.memory.codes_files import context_of

        return context_of(self, phase, now, status)


class AutoCapture:
    """The codes of a session, from what its tools and user say, one by one; `take` is given events instead.

    `at_us` and `position` are those of the last event that counted. One thread at a time.
    """

    def __init__(self, session_id: str, project: str) -> None:
        self.capture = SessionContextCapture(session_id, project)
        self.status = ACTIVE
        self.began_us: "int | None" = None
        self.at_us = 0
        self.position = -1
        self._failed: "list[dict[str, Any]]" = []
        self._changes: "list[tuple[object, object]]" = []
        self._tried: "dict[str, str | None]" = {}

    def on_tool_use(self, tool_name: str, params: "Mapping[str, object]", result: object = None) -> None:
        """A tool ran and did not fail. Of an edit's lines those count that were not there before."""
        del result
        if tool_name in ("Edit", "Write"):
            path = params.get("file_path")
            if isinstance(path, str) and path:
                self.capture.record_file_modified(path)
            before = str(params.get("old_string") or "")
            for name in ("content", "new_string"):
                self._note_functions(before, str(params.get(name) or ""))
        command = command_of(params)
        tested = None if command is None else runner_of(command)
        if tested is not None:
            self.capture.record_completion(f"test:{tested}")

    def on_user_message(self, message: str) -> None:
        """The user wrote: words that sound like a decision, or like something in the way, are noted."""
        lowered = message.lower()
        if any(word in lowered for word in _DECISIONS):
            self.capture.record_decision("user_specified", "explicit")
        if _BLOCKERS.intersection(_words(lowered)):
            self.capture.record_blocker("user_reported", message[:_EXCERPT_SIZE_MAX])

    def get_context(self, phase: "str | None" = None) -> "SessionContext":
        return self.capture.to_context(phase, status=self.status)

    # -- events --------------------------------------------------------------------------------

    def take(
        self,
        event: "Mapping[str, Any]",
        payload_of: "Callable[[], dict[str, Any]]",
        at_us: int,
        position: int,
    ) -> None:
        """One of the session's events of `TYPES`, in the order of the log; of errors those that are open.

        Args: payload_of: gives its payload, called where it matters.
        """
        self.began_us = at_us if self.began_us is None else self.began_us
        self.at_us, self.position, self.status = max(self.at_us, at_us), position, ACTIVE
        match event["event_type"]:
            case "file":
                self._take_file(event)
            case "action":
                self._take_action(event, payload_of())
            case "decision":
                payload = payload_of()
                self.capture.record_decision(_text(payload, "decision"), _text(payload, "reasoning") or None)
            case "error":
                self._take_error(event, payload_of())
            case "code":
                self._take_code(str(event.get("operation")), _text(payload_of(), "text"))

    def read(self, text_of: "Callable[[object], str]") -> None:
        """Note what the contents of changed files define: call it when all events were taken.

        Args: text_of: the text of a content's hash, empty where there is none.
        """
        before_hash, text = None, ""
        for before, after in self._changes:
            old = text if before == before_hash else text_of(before)
            before_hash, text = after, text_of(after)
            self._note_functions(old, text)
        self._changes.clear()

    def _take_file(self, event: "Mapping[str, Any]") -> None:
        path, before, after = event.get("path"), event.get("before_hash"), event.get("after_hash")
        if isinstance(path, str) and event.get("operation") not in ("delete", "read"):
            self.capture.record_file_modified(path)
            if after is not None and after != before:
                self._changes.append((before, after))

    def _note_functions(self, before: str, after: str) -> None:
        old = set(before.split("\n"))
        for line in after.split("\n"):
            for name in functions_in(line) if line not in old else ():
                self.capture.record_function(name)

    def _take_action(self, event: "Mapping[str, Any]", payload: "dict[str, Any]") -> None:
        args = payload.get("args")
        if not isinstance(args, dict):
            return
        if event.get("success") is not False:
            self.on_tool_use(event.get("tool") or "", args)
        elif isinstance(event.get("tool_use_id"), str):
            self._tried[event["tool_use_id"]] = command_of(args)
        for name in _TODO_LISTS:
            if isinstance(args.get(name), list):
                self.capture.next_actions.clear()  # each list replaces the one before
                for text, done in _things_to_do(args[name]):
                    (self.capture.record_completion if done else self.capture.record_next)(text)

    def _take_error(self, event: "Mapping[str, Any]", payload: "dict[str, Any]") -> None:
        command = command_of(payload) or self._tried.get(str(event.get("tool_use_id")))
        code = _joined(blocker_of(event.get("error_type"), command, _text(payload, "message")))
        self._failed.append({"event": event["event_id"], "code": code})

    def forget(self, errors: "set[str]") -> None:
        """These errors, by the ids of their events, are over."""
        self._failed = [failure for failure in self._failed if failure["event"] not in errors]

    def _take_code(self, operation: str, text: str) -> None:
        """Apply one instruction about a code."""
        capture, code = self.capture, "-".join(text.split())
        match operation:
            case "next":
                capture.record_next(code)
            case "done":
                capture.record_completion(code)
                if code in capture.next_actions:
                    capture.next_actions.remove(code)
            case "decision":
                choice, _, reason = text.partition("=")
                capture.record_decision(choice.strip(), reason.strip() or None)
            case "blocker":
                kind, _, description = text.partition(":")
                capture.record_blocker(*((kind, description) if description else ("user_reported", kind)))
            case "complete":
                self.status = COMPLETED

    # -- as facts ------------------------------------------------------------------------------

    def finished(self) -> SessionContextCapture:
        """The codes, with a blocker for each error that is open: call it when all events were taken."""
        for failure in self._failed:
            _add(self.capture.blockers, failure["code"])
        return self.capture

    def facts(self) -> "dict[str, Any]":
        """All of it as JSON has it, from which `of_facts` goes on."""
        capture = self.capture
        return {
            "session": capture.session_id,
            "began_us": self.began_us,
            "at_us": self.at_us,
            "position": self.position,
            "status": self.status,
            "files": capture.files_modified,
            "functions": capture.key_functions,
            "decisions": capture.decisions,
            "blockers": capture.blockers,
            "failed": self._failed,
            "next_actions": capture.next_actions,
            "completed": capture.completed,
        }

    @staticmethod
    def of_facts(facts: "dict[str, Any]") -> "AutoCapture":
        auto = AutoCapture(facts["session"], "")
        auto.began_us, auto.at_us, auto.position = facts["began_us"], facts["at_us"], facts["position"]
        auto.status, auto._failed = facts["status"], facts["failed"]
        capture = auto.capture
        capture.files_modified, capture.key_functions = facts["files"], facts["functions"]
        capture.decisions, capture.blockers = facts["decisions"], facts["blockers"]
        capture.next_actions, capture.completed = facts["next_actions"], facts["completed"]
        return auto


def last(sessions: "Sequence[dict[str, Any]]") -> "dict[str, Any] | None":
    """Of sessions' facts those of the one that something was done in last; None where none left any code."""
    lists = (*LISTS, "failed", "completed")
    left = [s for s in sessions if s["status"] == COMPLETED or any(s[name] for name in lists)]
    return max(left, key=lambda session: (session["at_us"], session["position"]), default=None)


def lines_left(sessions: "Sequence[dict[str, Any]]", project: str) -> "list[str]":
    """The lines that the last session left to the next one; none when it left none, or is complete."""
    left = last(sessions)
    if left is None or left["status"] == COMPLETED:
        return []
    blockers = [*left["blockers"]]
    for failure in left["failed"]:
        _add(blockers, failure["code"])
    return lines_of({**left, "blockers": blockers, "project": project})


def lines_of(data: "Mapping[str, object]") -> "list[str]":
    """The codes of a stored context: project, files, functions, decisions, blockers, next actions."""
    lines = [f"proj:{one_line(str(data.get('project', '')))}"]
    for name in LISTS:
        stored = data.get(name)
        for code in stored if isinstance(stored, list) else ():
            if isinstance(code, str):
                line = one_line(code)
                prefixed = name != "next_actions" or _is_prefixed(line)
                lines.append(line if prefixed else f"next:{line}")
    return lines


def functions_in(text: str) -> "list[str]":
    """Names that Python, Go, JavaScript, TypeScript and Rust define in `text` with a word of their own, and
    arrow functions that get a name."""
    functions = []
    for line in text.split("\n"):
        words = line.replace("(", " ( ").replace(")", " ) ").split()
        for number, word in enumerate(words[:-1]):
            if word in _DEFINING:
                after = words[number + 1 :]
                if word == "func" and after[0] == "(" and ")" in after:
                    after = after[after.index(")") + 1 :]
                functions += [name] if after and (name := _name(after[0])) else []
            elif word in ("const", "let", "var") and "=>" in words and "=" in words[number + 2 :]:
                value = words[words.index("=", number + 2) + 1 :]
                is_arrow = value[0] in ("(", "async") or value[1:2] == ["=>"]
                functions += [name] if is_arrow and (name := _name(words[number + 1])) else []
    return functions


def runner_of(command: str) -> "str | None":
    """The program of a command that runs tests, None for others; `latest` is no test.

    `test`, `pytest` and the like count as whole words, `make test_all` and `./run_tests.sh` as well.
    """
    for part in command.replace("&&", ";").replace("||", ";").replace("\n", ";").split(";"):
        words = [word for word in part.split() if "=" not in word.partition("/")[0] or word.startswith("-")]
        if not words or words[0] in _NO_RUNNERS:
            continue
        program, others = words[0].rpartition("/")[2], [word for word in words[1:] if "/" not in word]
        named = [program, *(word for word in others[:1] if "." not in word)]
        if _TESTING.intersection(_words(" ".join((*others, *(word.replace("_", " ") for word in named))))):
            return program if words[0].startswith("./") else words[0]
    return None


def blocker_of(error_type: "str | None", command: "str | None", message: str) -> str:
    """The code of a failure: what kind, what ran, and the first line that says what failed."""
    line = _telling_line(message)
    tested = None if command is None else runner_of(command)
    if tested is not None:
        return f"block:test:{tested} {line}"
    program = _program(command or "")
    if program and error_type in (None, "tool_failure", "error"):
        return f"block:{program}:{line}"
    return f"block:{error_type or 'error'}:{line}"


def command_of(arguments: "Mapping[str, object]") -> "str | None":
    """The command that a tool was given, None where it was given none."""
    for name in COMMAND_ARGUMENTS:
        command = arguments.get(name)
        if isinstance(command, str):
            return command
        if isinstance(command, list):
            return " ".join(str(part) for part in command)
    return None


def text_in(blobs: "BlobStore", content_hash: object) -> str:
    """The text of a content, empty where there is none to be had."""
    if not isinstance(content_hash, str):
        return ""
    try:
        id = from_text(content_hash)
        # To learn why a content is missing would take a scan of the log.
        data = blobs.get(id) if blobs.contains(id) else b""
    except EventLogError:
        return ""
    return "" if len(data) > _CONTENT_SIZE_MAX or b"\0" in data else data.decode("utf-8", "replace")


def one_line(text: str) -> str:
    """`text` without what breaks a line or commands a terminal; spaces stay."""
    if text.isprintable():
        return text
    return "".join("-" if c != " " and _breaks(c) else c for c in text)


def _joined(text: str) -> str:
    if text.isprintable() and " " not in text:
        return text
    return "".join("-" if _breaks(c) else c for c in text)


def _breaks(c: str) -> bool:
    return c.isspace() or c < " " or "\x7f" <= c <= "\x9f" or c in "\u2028\u2029"


def _add(codes: "list[str]", code: str) -> None:
    if code not in codes:
        codes.append(code)


def _is_prefixed(line: str) -> bool:
    """Whether a line begins like `next:x`."""
    prefix, colon, rest = line.partition(":")
    return bool(colon and rest[:1].strip() and prefix.isascii() and prefix.isalpha() and prefix.islower())


def _words(text: str) -> "Iterator[str]":
    """Words of letters, digits, `_` and `-`, in lower case: `--test` and `latest` are not `test`."""
    return iter("".join(c if c.isalnum() or c in "_-" else " " for c in text.lower()).split())


def _name(text: str) -> str:
    """The name that `text` begins with, empty for none."""
    end = 0
    while end < len(text) and (text[end].isalnum() or text[end] in "_$"):
        end += 1
    return text[:end]


def _program(command: str) -> str:
    """The name of the program that a command runs, after `cd …` and variables."""
    for part in command.replace("&&", ";").replace("\n", ";").split(";"):
        words = [word for word in part.split() if "=" not in word]
        if words and words[0] not in ("cd", "sudo", "env", "set", "export"):
            return words[0].rpartition("/")[2]
    return ""


def _telling_line(message: str) -> str:
    """The first line of a failure's text that says what failed; else its first line."""
    lines = [" ".join(line.split()) for line in message.splitlines()[:2000]]
    lines = [line for line in lines if any(c.isalnum() for c in line)]
    telling = [line for line in lines if not line.lower().startswith(_SAYS_NOTHING) and line[0] not in "=_"]
    marked = [line for line in telling if line.startswith("E ")]
    naming = [line for line in telling if any(word in line.lower() for word in _SAYS_WHAT)]
    return next(iter(marked or naming or telling or lines), "")[:_MESSAGE_SIZE_MAX]


def _things_to_do(items: "Sequence[object]") -> "Iterator[tuple[str, bool]]":
    for item in items:
        if isinstance(item, dict):
            text = next((item[name] for name in _TODO_TEXTS if isinstance(item.get(name), str)), None)
            if text and item.get("status") not in ("cancelled", "deleted"):
                yield "-".join(text.split()), item.get("status") in ("completed", "done")


def _text(payload: "dict[str, Any]", name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""
