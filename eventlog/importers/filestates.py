"""The contents of files, followed through a session by the edits of its transcript (docs/transcripts.md).

Each path has a known content, is known to be absent, or is unknown. An edit changes that state. Where a line
shows a file again, the prediction is checked, and a difference is a `mismatch` event. Agents show text, so
line ends and a byte order mark are no difference, and the chain keeps those that it knows. Files outside the
root are named by `secrets/outside_names.py`, and followed like the others. The contents kept in memory are
bounded: beyond that, the oldest become unknown. One thread.
"""

import os
import re
from collections import OrderedDict
from collections.abc import Callable

from eventlog.agents.kit.draft import BACKUP, DELETE, PATCH, REPLACE, SEEN, WRITE, FileEdit, FileItem
from eventlog.agents.kit.patches import apply_section, is_section, without_names
from eventlog.agents.kit.unified import agrees, apply_patch
from eventlog.base.names import event_id_of
from eventlog.base.paths import is_outside, path_text
from eventlog.base.types import RELATED_OF_TYPE, Event
from eventlog.blobs.ids import to_text

Put = Callable[[bytes], bytes]
# The content of a repository-relative path at the commit that the session names; None when there is none.
Base = Callable[[str], "bytes | None"]
# Absolute path of a file outside the root → its name in events.
Name = Callable[[str], str]
# The content that the agent keeps under a name; None when there is none.
Backup = Callable[[str], "bytes | None"]

_CONTENTS_BYTES_MAX = 64 << 20
_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")
_BOM = b"\xef\xbb\xbf"
_PATHS_MAX = 10_000
# In the ids of events it stands for every path outside the root; no path inside begins so.
_ANY_OUTSIDE = "/"


class _Absent:
    __slots__ = ()


_ABSENT = _Absent()
_State = bytes | _Absent | None  # None: unknown


class FileStates:
    """The chain of one session.

    Paths are relative to `root`, None when no directory is known; `real_root` is the same without links.
    Without `name_outside`, files outside it are passed over.
    """

    def __init__(
        self,
        agent: str,
        root: str | None,
        put: Put,
        base: "Base | None" = None,
        *,
        real_root: str | None = None,
        name_outside: "Name | None" = None,
        backup: "Backup | None" = None,
    ) -> None:
        self._agent = agent
        spellings = () if root is None else (root, real_root or root)
        self._roots = tuple(dict.fromkeys(map(_plain, spellings)))
        self._put = put
        self._base = base
        self._name_outside = name_outside
        self._backup = backup
        self._states: OrderedDict[str, _State] = OrderedDict()
        self._size = 0
        self._edits_of: dict[str, int] = {}
        # Path → name of the copy that the agent kept of it since its last edit.
        self._backup_names: dict[str, str | None] = {}
        self.outside: dict[str, str] = {}  # names of files outside, each with its absolute path

    def events_of(self, item: FileItem) -> list[Event]:
        """The events of an edit: a mismatch when it contradicts the prediction, then the change."""
        edit = item.edit
        path = self._path_of(edit.path, item)
        if path is None:
            return []
        if edit.kind == BACKUP:
            if len(self._backup_names) < _PATHS_MAX or path in self._backup_names:
                self._backup_names[path] = edit.backup
            return []
        number = self._nth(item, _ANY_OUTSIDE) if is_outside(path) else 0
        if edit.kind == SEEN:
            return self._seen(item, path, number)
        old_path = None if edit.old_path is None else self._path_of(edit.old_path, item)
        source = path if old_path is None else old_path
        events: list[Event] = []
        before = self._before(item, source, number, events)
        after = _after(edit, before)
        if old_path is not None and is_outside(old_path) != is_outside(path):
            # It moved across the root: the path inside is added or deleted; restores need no other side.
            old_number = self._nth(item, _ANY_OUTSIDE) if is_outside(old_path) else 0
            events.append(self._change(item, old_path, None, before, _ABSENT, old_number))
            events.append(self._change(item, path, None, _ABSENT, after, number))
        else:
            events.append(self._change(item, path, old_path, before, after, number))
        if old_path is not None:
            self._set_state(old_path, _ABSENT)
        self._set_state(path, after)
        return events

    def _before(self, item: FileItem, path: str, number: int, events: list[Event]) -> _State:
        """The content of the file before an edit; a mismatch goes to `events`."""
        edit = item.edit
        shown: _State = None
        if edit.original is not None:
            shown = _bytes_of(edit.original)
        elif edit.created:
            shown = _ABSENT
        predicted = self._states.get(path)
        if shown is not None and predicted is not None and _alike(predicted, shown):
            return predicted
        backup = self._backup_content(path)
        if shown is not None:
            if predicted is not None and not (predicted is _ABSENT and shown == b""):
                events.append(self._mismatch(item, path, predicted, shown, "before", number))
            # The agent shows text; its copy has the line ends, too.
            return backup if backup is not None and _alike(backup, shown) else shown
        if (
            backup is not None
            and _fits(edit, backup)
            and not (predicted is not None and _alike(predicted, backup))
        ):
            if predicted is not None:
                events.append(self._mismatch(item, path, predicted, backup, "file-history", number))
            return backup
        if predicted is None:
            return self._from_base(path, edit)
        # Codex matches leniently, so a section that does not fit exactly proves nothing.
        if not _fits(edit, predicted) and not is_section(edit.patch or ""):
            events.append(self._mismatch(item, path, predicted, None, "edit", number))
            return None
        return predicted

    def _backup_content(self, path: str) -> _State:
        """The agent's last copy of the file, if no edit or read came after it."""
        if path not in self._backup_names or self._backup is None:
            return None
        name = self._backup_names[path]
        return _ABSENT if name is None else self._backup(name)

    # -- events ----------------------------------------------------------------------------------

    def _change(
        self, item: FileItem, path: str, old_path: str | None, before: _State, after: _State, number: int
    ) -> Event:
        edit = item.edit
        if after is _ABSENT:
            operation = "delete"
        elif old_path is not None:
            operation = "rename"
        else:
            operation = "add" if before is _ABSENT else "edit"
        before_hash, after_hash = self._hash(before), self._hash(after)
        payload: dict[str, object] = {}
        if old_path is not None:
            payload["old_path"] = old_path
        if isinstance(after, bytes):
            payload["after_size"] = len(after)
        if before is None or after is None:
            payload["unknown"] = [
                name for name, state in (("before", before), ("after", after)) if state is None
            ]
            is_moved_across = old_path is None and edit.old_path is not None
            if edit.patch is not None:
                names = is_section(edit.patch) and (is_outside(path) or is_moved_across)
                payload["diff"] = without_names(edit.patch) if names else edit.patch
        key = (_ANY_OUTSIDE, str(number)) if number else (path, str(self._nth(item, path)))
        event = self._event(item, "file", payload, *key)
        event |= {"operation": operation, "path": path, "related_to": RELATED_OF_TYPE["file"]}
        for name, value in (
            ("before_hash", before_hash),
            ("after_hash", after_hash),
            ("lines_added", edit.added),
            ("lines_removed", edit.removed),
        ):
            if value is not None:
                event[name] = value
        blobs = [content_hash for content_hash in (before_hash, after_hash) if content_hash is not None]
        if blobs:
            event["blobs"] = blobs
        return event

    def _seen(self, item: FileItem, path: str, number: int) -> list[Event]:
        edit = item.edit
        assert edit.content is not None
        content = _bytes_of(edit.content)
        predicted = self._states.get(path)
        shown: _State = content
        if edit.first_line is not None:
            if predicted is None or _has_lines(predicted, content, edit.first_line):
                return []
            shown = None
        elif predicted is None:
            if not edit.loose:
                self._set_state(path, content)
            return []
        elif _alike(predicted, content) or (edit.loose and _alike(predicted, content + b"\n")):
            return []
        event = self._mismatch(item, path, predicted, shown, "read", number)
        self._set_state(path, None if edit.loose else shown)
        return [event]

    def _mismatch(
        self,
        item: FileItem,
        path: str,
        predicted: "bytes | _Absent",
        shown: _State,
        evidence: str,
        number: int,
    ) -> Event:
        before_hash, after_hash = self._hash(predicted), self._hash(shown)
        key = (_ANY_OUTSIDE, str(number)) if number else (path,)
        event = self._event(item, "mismatch", {"evidence": evidence}, *key)
        event |= {"path": path, "title": f"{path} was changed outside of the recorded tool calls"}
        for name, value in (("before_hash", before_hash), ("after_hash", after_hash)):
            if value is not None:
                event[name] = value
        event["blobs"] = [
            content_hash for content_hash in (before_hash, after_hash) if content_hash is not None
        ]
        return event

    def _event(self, item: FileItem, event_type: str, payload: "dict[str, object]", *key: str) -> Event:
        cause = str(item.cause["event_id"])
        event: Event = {
            "event_type": event_type,
            **item.columns,
            "cause": cause,
            "payload": payload,
            "event_id": event_id_of(self._agent, event_type, cause, *key),
        }
        for name in ("tool", "tool_use_id"):
            if name in item.cause:
                event[name] = item.cause[name]
        return event

    def _nth(self, item: FileItem, path: str) -> int:
        """The number of an edit among those of one file by one tool call."""
        key = f"{item.cause['event_id']}:{path}"
        if len(self._edits_of) > 10_000:
            self._edits_of.clear()
        nth = self._edits_of[key] = self._edits_of.get(key, 0) + 1
        return nth

    # -- states ----------------------------------------------------------------------------------

    def _set_state(self, path: str, state: _State) -> None:
        self._backup_names.pop(path, None)
        old = self._states.pop(path, None)
        self._size += (len(state) if isinstance(state, bytes) else 0) - (
            len(old) if isinstance(old, bytes) else 0
        )
        self._states[path] = state
        while self._size > _CONTENTS_BYTES_MAX and len(self._states) > 1:
            _, oldest = self._states.popitem(last=False)  # unknown from here on
            self._size -= len(oldest) if isinstance(oldest, bytes) else 0

    def _from_base(self, path: str, edit: FileEdit) -> _State:
        """The content in the commit, if the edit fits it."""
        if self._base is None or edit.kind not in (REPLACE, PATCH):
            return None
        content = self._base(path)
        return content if content is not None and _fits(edit, content) else None

    def _hash(self, state: _State) -> str | None:
        return to_text(self._put(state)) if isinstance(state, bytes) else None

    def _path_of(self, path: str, item: FileItem) -> str | None:
        """The path relative to the root, else its name outside; None where it is no path of a file."""
        full = _full(path, item.columns.get("cwd"), self._roots)
        inside = _inside(full, self._roots)
        if inside is not None:
            return inside
        if full is None or self._name_outside is None or full in self._roots or not full.strip("/"):
            return None
        name = self._name_outside(full)
        if len(self.outside) >= _PATHS_MAX:
            self.outside.clear()
        self.outside[name] = full
        return name


def path_below(roots: "tuple[str, ...]", path: str, cwd: object) -> "str | None":
    """The path of a file, as a tool names it, relative to one of the roots; None where it is not below."""
    roots = tuple(map(_plain, roots))
    return _inside(_full(path, cwd, roots), roots)


def _full(path: str, cwd: object, roots: "tuple[str, ...]") -> "str | None":
    if "\0" in path or not path or not roots:
        return None
    path = _plain(path)
    if not (path.startswith("/") or _DRIVE.match(path)):
        path = f"{_plain(cwd) if isinstance(cwd, str) else roots[0]}/{path}"
    return os.path.normpath(path)


def _inside(full: "str | None", roots: "tuple[str, ...]") -> "str | None":
    root = next((root for root in roots if full is not None and full.startswith(f"{root}/")), None)
    return None if root is None or full is None else path_text(os.fsencode(full[len(root) + 1 :]))


def _plain(path: str) -> str:
    """A path with slashes only, whichever system it was written on."""
    if _DRIVE.match(path) or path.startswith("\\\\"):
        path = path.replace("\\", "/")
    return path.rstrip("/") or "/"


def _bytes_of(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _alike(state: "bytes | _Absent", other: "bytes | _Absent") -> bool:
    """Whether two states are the same text."""
    if isinstance(state, _Absent) or isinstance(other, _Absent) or state == other:
        return state == other
    return _text_of(state) == _text_of(other)


def _has_lines(content: "bytes | _Absent", lines: bytes, first_line: int) -> bool:
    """Whether a content has these lines from `first_line` on."""
    if isinstance(content, _Absent):
        return False
    expected = _text_of(lines).split(b"\n")
    return _text_of(content).split(b"\n")[first_line - 1 : first_line - 1 + len(expected)] == expected


def _text_of(content: bytes) -> bytes:
    return content.removeprefix(_BOM).replace(b"\r\n", b"\n")


def _fits(edit: FileEdit, before: "bytes | _Absent") -> bool:
    """Whether the edit fits this content."""
    if edit.kind in (WRITE, DELETE):
        return True
    if isinstance(before, _Absent) or _after(edit, before) is None:
        return False
    return edit.patch is None or edit.kind == PATCH or agrees(before, edit.patch)


def _after(edit: FileEdit, before: _State) -> _State:
    """The content after the edit; None when it cannot be computed."""
    if edit.kind == DELETE:
        return _ABSENT
    if edit.content is not None:
        return _bytes_of(edit.content)
    if not isinstance(before, bytes):
        return None
    if edit.kind == PATCH and edit.patch is not None:
        return (apply_section if is_section(edit.patch) else apply_patch)(before, edit.patch)
    if edit.kind == REPLACE:
        return _replaced(edit, before)
    return None


def _replaced(edit: FileEdit, before: bytes) -> bytes | None:
    """The content after replacements, which were made in the text with plain line ends.

    Clients differ in whether removing a text also removes the newline after it. The line counts of the edit
    decide; where they fit neither, the content is unknown.
    """
    windows = b"\r\n" in before
    if windows and before.count(b"\r\n") != before.count(b"\n"):
        return None  # which line ends such a file has after an edit is the client's choice
    text = before.replace(b"\r\n", b"\n") if windows else before
    for whole_lines in (False, True):
        after = _replace(edit.replacements, text, whole_lines, plain_ends=windows)
        if after is None:
            return None
        grown = _count_lines(after) - _count_lines(text)
        if edit.added is None or edit.removed is None or grown == edit.added - edit.removed:
            return after.replace(b"\n", b"\r\n") if windows else after
    return None


def _replace(
    replacements: "tuple[tuple[str, str, bool], ...]", content: bytes, whole_lines: bool, *, plain_ends: bool
) -> bytes | None:
    for old_text, new_text, everywhere in replacements:
        old, new = _bytes_of(old_text), _bytes_of(new_text)
        if plain_ends:
            old, new = old.replace(b"\r\n", b"\n"), new.replace(b"\r\n", b"\n")
        if not old:
            if content:
                return None
            content = new
            continue
        count = content.count(old)
        if count == 0 or (count > 1 and not everywhere):
            return None
        if whole_lines and not new and not old.endswith(b"\n") and old + b"\n" in content:
            old += b"\n"
        content = content.replace(old, new)
    return content


def _count_lines(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
