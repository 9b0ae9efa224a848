"""What tools say of files that git ignores and that a store keeps: left out before it is written (P5).

    outside = Outside(root)
    events = leave_out(events, outside)

A call names such a file in an argument that is a path, in a patch, or as a word of a command. Then its result
is left out, and of its arguments all but paths, numbers and commands that only name the file. A result that
quotes such a file as `grep` does (`PATH:`) is left out, too. docs/secrets.md says what this cannot see. Files
are meant of which `kept_ignored.is_withheld` knows the name, where git ignores them and does not track them.

Works on the events of a hook and on those of a transcript. On the hook path.
"""

import os

from eventlog.agents.tools import COMMAND_ARGUMENTS, LEFT_OUT, PATH_ARGUMENTS, patch_paths
from eventlog.snapshots.ignore import IgnoreFiles
from eventlog.snapshots.kept_ignored import is_withheld
from eventlog.types import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Wanted = Callable[[str], bool]

_ARGUMENTS = ("args", "tool_input")
# The rest of what a tool said. Other keys of a payload are the agent's own: ids, modes, times.
_SAID = frozenset(
    (
        "result", "tool_response", "response", "output", "stdout", "stderr", "content", "message", "error",
        "tool_output", "patch", "diff", "permission_suggestions",
    )
)  # fmt: skip
TYPES = frozenset(("tool_start", "action", "error", "hook", "file", "mismatch"))
_PATH_SIZE_MAX = 4096
_COMMAND_SIZE_MAX = 1 << 20
_DEPTH_MAX = 32
_GIT_TIMEOUT_S = 0.3

# What stands between the words of a command; a command with one of the latter may hold what it writes.
_BETWEEN = str.maketrans(dict.fromkeys(";|&<>()`'\"={},$:@[]\n\t\r", " "))
_WRITES = frozenset("><='\"`$\n\\")
_WRITERS = frozenset(
    ("awk", "dd", "ed", "ex", "jq", "node", "perl", "php", "printf", "python", "python3", "ruby", "sed",
     "sqlite3", "tee", "yq")
)  # fmt: skip
_MOVERS = frozenset(("cd", "pushd", "-C"))  # what follows is looked up in another directory


class Outside:
    """Which paths are outside of git in a directory: ignored, and not tracked. Remembers its answers.

    Where git cannot be asked, the `.gitignore` files are read. One thread.
    """

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(os.path.realpath(root))
        self._known: "dict[bytes, bool]" = {}

    def has(self, path: str, cwd: "str | None") -> bool:
        """Whether a file, as a tool names it, is ignored. Not for one outside of the directory."""
        try:
            full = os.path.join(os.fsencode(cwd) if cwd else self._root, os.fsencode(path))
            full = os.path.realpath(os.path.dirname(full)) + b"/" + os.path.basename(full)
        except (OSError, ValueError):
            return True
        top = self._root.rstrip(b"/") + b"/"
        if not full.startswith(top):
            return False
        inside = full[len(top) :]
        if inside not in self._known:
            self._known[inside] = self._ask(inside)
        return self._known[inside]

    def _ask(self, path: bytes) -> bool:
        import time

        from eventlog.snapshots import worktree_git

        try:
            # Without --no-index: what git tracks is not ignored.
            _, answer = worktree_git.run(
                self._root,
                ["check-ignore", "-z", "--stdin"],
                b"./" + path + b"\0",
                time.monotonic() + _GIT_TIMEOUT_S,
                fine=(0, 1),
            )
            return bool(answer)
        except worktree_git.GitFailed:
            return IgnoreFiles(self._root).hidden(path, False)


def leave_out(events: "Sequence[Event]", outside: "Outside | None", cwd: object = None) -> "list[Event]":
    """The events without what they say of ignored files. Events of one tool call are judged together.

    Args: outside: None where the directory is not known; then the name of a file decides. cwd: of the agent,
    where the events do not say it.
    """
    calls = {one.get("tool_use_id") or id(one) for one in events if _names_one(one, outside, cwd)}
    return [without(one) if (one.get("tool_use_id") or id(one)) in calls else one for one in events]


def _names_one(event: Event, outside: "Outside | None", cwd: object) -> bool:
    payload = event.get("payload")
    if event.get("event_type") not in TYPES or not isinstance(payload, dict):
        return False
    cwd = event.get("cwd") or cwd or payload.get("cwd")
    place = cwd if isinstance(cwd, str) else None
    named = paths_named(payload, _is_suspect)
    path = event.get("path")
    if isinstance(path, str) and _is_suspect(path) and (outside is None or outside.has(path, None)):
        return True
    return any(not sure or outside is None or outside.has(path, place) for path, sure in named)


def paths_named(payload: "dict[str, object]", wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    """The paths that a tool call names, in arguments, patches and commands, or in front of lines of its
    result; and whether it is known from where each is meant. Args: wanted: which ones are."""
    yield from _named_in(payload, 0, wanted)
    yield from _quoted_in(payload, wanted)


def _named_in(value: object, depth: int, wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    if not isinstance(value, dict) or depth > _DEPTH_MAX:
        if isinstance(value, list) and depth <= _DEPTH_MAX:
            for item in value:
                yield from _named_in(item, depth + 1, wanted)
        return
    for name, item in value.items():
        if name in COMMAND_ARGUMENTS:
            yield from _named_by_command(item, wanted)
        elif name in PATH_ARGUMENTS:
            for path in item if isinstance(item, list) else [item]:
                if isinstance(path, str) and len(path) <= _PATH_SIZE_MAX and wanted(path):
                    yield path.removeprefix("file://"), True
        elif isinstance(item, str):
            yield from _named_by_patch(item, wanted)
        elif name not in _SAID:
            yield from _named_in(item, depth + 1, wanted)


def _named_by_command(command: object, wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    words = command if isinstance(command, list) else [command]
    text = " ".join(word for word in words if isinstance(word, str))[:_COMMAND_SIZE_MAX]
    yield from _named_by_patch(text, wanted)
    found = text.translate(_BETWEEN).split()
    moves = not _MOVERS.isdisjoint(found)
    for word in found:
        if len(word) <= _PATH_SIZE_MAX and wanted(word):
            yield word, not moves


def _named_by_patch(text: str, wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    if "*** " in text:
        for path in patch_paths(text):
            if wanted(path):
                yield path, True


def _quoted_in(payload: "dict[str, object]", wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    """The paths in front of lines of a result, as `grep` gives them."""
    waiting = [(value, 0) for name, value in payload.items() if name in _SAID]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict) and depth < _DEPTH_MAX:
            waiting += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list) and depth < _DEPTH_MAX:
            waiting += [(item, depth + 1) for item in value]
        elif isinstance(value, str) and ":" in value:
            for path in {line[:_PATH_SIZE_MAX].partition(":")[0] for line in value.split("\n")}:
                if " " not in path and wanted(path):
                    yield path, True


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
        elif name in _SAID and value is not None and not isinstance(value, (bool, int, float)):
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
        elif name in PATH_ARGUMENTS and _are_paths(item):
            new[name] = item
        else:
            new[name] = _arguments(item, depth + 1)
    return new


def _are_paths(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(one, str) and len(one) <= _PATH_SIZE_MAX and "\n" not in one for one in values)


def _command(value: object) -> object:
    """A command that names an ignored file, unless it may hold what it writes into it."""
    words = value if isinstance(value, list) else [value]
    text = " ".join(word for word in words if isinstance(word, str))
    if not _WRITES.isdisjoint(text) or "echo" in text:
        return LEFT_OUT
    found = {os.path.basename(word) for word in text.translate(_BETWEEN).split()}
    return value if _WRITERS.isdisjoint(found) else LEFT_OUT
