"""Values of kept ignored files that a tool's texts show: removed before they are written.

`ignored_texts` handles calls that name such a file. The output of a program may show their contents without
naming them. So texts are compared with the lines of these files and the values of their settings, as far as
these are too long to be common words. Values that a tracked file beside them also has (`.env.example`) do not
count. docs/secrets.md lists what this cannot see.

`live/<worktree>.kept` has a line for each such file, the path in hex and the id of its content, so that no
hook has to search for them. Captures write it, and it is derived (I22). On the hook path.
"""

import os

from eventlog.agents.kit.tools import LEFT_OUT
from eventlog.base.errors import EventLogError
from eventlog.base.layout import Layout
from eventlog.base.types import Event
from eventlog.hooks.ignored_texts import TYPES, Outside
from eventlog.worktree.kept_ignored import database_name, is_withheld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Get = Callable[[bytes], bytes]

_FILES_MAX = 64
_FILE_BYTES_MAX = 64 << 10
_VALUES_MAX = 400
_WORK_MAX = 400 << 20  # bytes of texts times values: some 0.2 s
_DEPTH_MAX = 32

_LENGTH_MIN = 8  # of a value with other characters than letters
_WORD_LENGTH_MIN = 16
_KEY = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. \"'")
_AROUND = " \t\r\"',;"


def note(layout: Layout, worktree: str, contents: "Mapping[bytes, bytes]") -> None:
    """Remember the files with settings among those kept. Args: contents: path → id. Raises: OSError."""
    files = sorted((path, contents[path]) for path in contents if _has_settings(path))[:_FILES_MAX]
    path = layout.live(f"{worktree}.kept")
    data = b"".join(b"%b %b\n" % (name.hex().encode(), id.hex().encode()) for name, id in files)
    if data == (_read(path) or b""):
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def _has_settings(path: bytes) -> bool:
    return database_name(path) is None and is_withheld(path)


class KeptValues:
    """The values of the kept files of a directory, as they are now and as the last capture saw them."""

    def __init__(self, layout: Layout, worktree: str, root: str, outside: Outside, get: "Get") -> None:
        """Args: get: the content with an id; raises EventLogError."""
        self._root = os.fsencode(root)
        self._outside = outside
        self._get = get
        lines = (_read(layout.live(f"{worktree}.kept")) or b"").split(b"\n")
        pairs = [line.decode("ascii", "replace").split(" ") for line in lines]
        self._files: "dict[bytes, bytes]" = {}
        for words in pairs:
            try:
                name, content_id = (bytes.fromhex(word) for word in words)
            except ValueError:
                continue  # the last one may be half written
            if name and len(content_id) == 32:
                self._files[name] = content_id
        self._values: "list[str] | None" = None
        self._public: "set[str] | None" = None

    def take_out(self, events: "Sequence[Event]") -> "list[Event]":
        """The events of a call without these values."""
        if not self._files:
            return list(events)
        return [self._without(event) if event.get("event_type") in TYPES else event for event in events]

    def _without(self, event: Event) -> Event:
        new = {**event, "payload": self._cleaned(event.get("payload"), 0)}
        if isinstance(event.get("title"), str):
            new["title"] = self._cleaned(event["title"], 0)
        return new

    def _cleaned(self, value: object, depth: int) -> object:
        if isinstance(value, str):
            return self._text(value) if len(value) >= _LENGTH_MIN else value
        if depth > _DEPTH_MAX:
            return value
        if isinstance(value, dict):
            return {name: self._cleaned(part, depth + 1) for name, part in value.items()}
        if isinstance(value, list):
            return [self._cleaned(part, depth + 1) for part in value]
        return value

    def _text(self, text: str) -> str:
        if self._values is None:
            self._values = sorted(self._find(), key=len, reverse=True)[:_VALUES_MAX]
        if len(text) * len(self._values) > _WORK_MAX:
            return LEFT_OUT
        for value in self._values:
            if value in text and value not in self._public_values() and not self._is_path(value):
                text = text.replace(value, LEFT_OUT)
        return text

    def _find(self) -> "set[str]":
        from eventlog.blobs.ids import blob_id

        values: "set[str]" = set()
        for name, id in self._files.items():
            data = _read(os.path.join(self._root, name))
            values |= _values_in(data)
            if data is None or blob_id(data) != id:
                try:
                    values |= _values_in(self._get(id))
                except EventLogError:
                    continue  # it is not stored yet, or erased
        return values

    def _is_path(self, value: str) -> bool:
        """Whether a value is the path of something that exists: paths are recorded anyway."""
        try:
            return os.path.lexists(os.path.join(self._root, os.fsencode(value)))
        except ValueError:
            return False

    def _public_values(self) -> "set[str]":
        """Values that git tracks, and that are therefore recorded: those in files of such names beside
        them."""
        if self._public is None:
            self._public = set()
            for directory in {os.path.dirname(name) for name in self._files}:
                try:
                    names = os.listdir(os.path.join(self._root, directory))
                except OSError:
                    continue
                for name in names:
                    path = os.path.join(directory, name)
                    if path in self._files or not is_withheld(path):
                        continue
                    if not self._outside.has(os.fsdecode(path), None):
                        self._public |= _values_in(_read(os.path.join(self._root, path)))
        return self._public


def _read(path: "str | bytes") -> "bytes | None":
    """The beginning of a regular file; None where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.pread(fd, _FILE_BYTES_MAX, 0)
    except OSError:
        return None  # a pipe, a directory
    finally:
        os.close(fd)


def _values_in(data: "bytes | None") -> "set[str]":
    if data is None or b"\0" in data:
        return set()
    lines: "Iterable[str]" = data[:_FILE_BYTES_MAX].decode("utf-8", "replace").split("\n")
    return {value for line in lines if _is_distinctive(value := _value_of(line))}


def _value_of(line: str) -> str:
    """The value of a setting, or the whole line where it is not a setting."""
    line = line.strip().lstrip("#/;").strip()
    for sign in "=:":
        key, separator, value = line.partition(sign)
        if separator and key and _KEY.issuperset(key):
            return value.strip(_AROUND)
    return line.strip(_AROUND)


def _is_distinctive(value: str) -> bool:
    """Whether a value is not one that other texts have, too, as `development` or `http://localhost:3000`."""
    if len(value) < _LENGTH_MIN or (value.isalpha() and len(value) < _WORD_LENGTH_MIN):
        return False
    return "@" in value or not ("localhost" in value or "127.0.0.1" in value)
