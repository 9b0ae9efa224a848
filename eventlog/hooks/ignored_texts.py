"""Texts of tools about files that git ignores and a store keeps: left out before anything is written (P5).

    outside = Outside(root)
    events = leave_out(events, outside)

A call names such a file in an argument that is a path, in a patch, or as a word of a command. Then its result
is left out, and its arguments except paths, numbers and commands that only name the file. A result that
quotes such a file as `grep` does (`PATH:`) is left out, too. docs/secrets.md lists what this cannot see. It
applies to files whose names `kept_ignored.is_withheld` knows, where git ignores them and does not track them.

Works on the events of a hook and on those of a transcript. On the hook path.
"""

import os

from eventlog.agents.kit.tools import LEFT_OUT
from eventlog.base.paths import (
    COMMAND_ARGUMENTS,
    NAME_SIZE_MAX,
    PATH_ARGUMENTS,
    TOOL_OUTPUT_KEYS,
    WORDS_BETWEEN,
    paths_named,
)
from eventlog.base.types import DIRECTORY_ARGUMENTS, Event
from eventlog.worktree.kept_ignored import is_withheld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_ARGUMENTS = ("args", "tool_input")
_SHOWN = PATH_ARGUMENTS.union(DIRECTORY_ARGUMENTS)
TYPES = frozenset(("tool_start", "action", "error", "hook", "file", "mismatch"))
_DEPTH_MAX = 32
_GIT_TIMEOUT_S = 0.3

# A command with one of these may hold what it writes.
_WRITES = frozenset("><='\"`$\n\\")
_WRITERS = frozenset(
    ("awk", "dd", "ed", "ex", "jq", "node", "perl", "php", "printf", "python", "python3", "ruby", "sed",
     "sqlite3", "tee", "yq")
)  # fmt: skip


class Outside:
    """Which paths of a directory are outside of git: ignored, and not tracked. Remembers its answers.

    Where git cannot be asked, the `.gitignore` files are read. One thread.
    """

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(os.path.realpath(root))
        self._answers: "dict[bytes, bool]" = {}

    def has(self, path: str, cwd: "str | None") -> bool:
        """Whether a file, as a tool names it, is ignored; False for one outside of the directory."""
        try:
            full = os.path.join(os.fsencode(cwd) if cwd else self._root, os.fsencode(path))
            full = os.path.realpath(os.path.dirname(full)) + b"/" + os.path.basename(full)
        except (OSError, ValueError):
            return True
        top = self._root.rstrip(b"/") + b"/"
        if not full.startswith(top):
            return False
        inside = full[len(top) :]
        if inside not in self._answers:
            self._answers[inside] = self._ask(inside)
        return self._answers[inside]

    def _ask(self, path: bytes) -> bool:
        import time

        from eventlog.worktree import git

        try:
            # Without --no-index: what git tracks is not ignored.
            _, answer = git.run(
                self._root,
                ["check-ignore", "-z", "--stdin"],
                b"./" + path + b"\0",
                time.monotonic() + _GIT_TIMEOUT_S,
                accepted=(0, 1),
            )
            return bool(answer)
        except git.GitFailed:
            from eventlog.worktree.ignore import IgnoreFiles

            return IgnoreFiles(self._root).hidden(path, False)


def leave_out(events: "Sequence[Event]", outside: "Outside | None", cwd: object = None) -> "list[Event]":
    """The events without their texts about ignored files. Events of one tool call are judged together.

    Args: outside: None where the directory is not known; then the name of a file decides. cwd: of the agent,
    where the events do not have it.
    """
    calls = {
        event.get("tool_use_id") or id(event) for event in events if _names_ignored_file(event, outside, cwd)
    }
    return [without(event) if (event.get("tool_use_id") or id(event)) in calls else event for event in events]


def _names_ignored_file(event: Event, outside: "Outside | None", cwd: object) -> bool:
    payload = event.get("payload")
    if event.get("event_type") not in TYPES or not isinstance(payload, dict):
        return False
    cwd = event.get("cwd") or cwd or payload.get("cwd")
    base = cwd if isinstance(cwd, str) else None
    named = paths_named(payload, _is_suspect)
    path = event.get("path")
    if isinstance(path, str) and _is_suspect(path) and (outside is None or outside.has(path, None)):
        return True
    return any(not sure or outside is None or outside.has(path, base) for path, sure in named)


def _is_suspect(path: str) -> bool:
    return is_withheld(path.encode("utf-8", "surrogateescape").rstrip(b"/"))


def without(event: Event) -> Event:
    """The event without the texts of its tool call."""
    payload = event.get("payload")
    if event.get("event_type") not in TYPES or not isinstance(payload, dict):
        return event
    new: "dict[str, object]" = {}
    for name, value in payload.items():
        if name in _ARGUMENTS:
            new[name] = _arguments(value, 0)
        elif name in COMMAND_ARGUMENTS:
            new[name] = _command(value)
        elif name in TOOL_OUTPUT_KEYS and value is not None and not isinstance(value, (bool, int, float)):
            new[name] = LEFT_OUT
        else:
            new[name] = value
    return {**event, "payload": new}


def _arguments(value: object, depth: int) -> object:
    if depth > _DEPTH_MAX or isinstance(value, str):
        return LEFT_OUT
    if isinstance(value, list):
        return [_arguments(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    new = {}
    for name, item in value.items():
        if name in COMMAND_ARGUMENTS:
            new[name] = _command(item)
        elif name in _SHOWN and _are_paths(item):
            new[name] = item
        else:
            new[name] = _arguments(item, depth + 1)
    return new


def _are_paths(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) and len(item) <= NAME_SIZE_MAX and "\n" not in item for item in values)


def _command(value: object) -> object:
    """A command that names an ignored file, unless it may hold what it writes into it."""
    words = value if isinstance(value, list) else [value]
    text = " ".join(word for word in words if isinstance(word, str))
    if not _WRITES.isdisjoint(text) or "echo" in text:
        return LEFT_OUT
    programs = {os.path.basename(word) for word in text.translate(WORDS_BETWEEN).split()}
    return value if _WRITERS.isdisjoint(programs) else LEFT_OUT
