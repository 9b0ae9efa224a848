"""What files held, chained through a session from what its transcript says (docs/transcripts.md).

Each path has a known content, is known to be absent, or is unknown. An edit says what it did to that;
where a line shows a file again, the prediction is checked, and a difference is a `mismatch` event. Agents
show text, so line ends and a byte-order mark are no difference, and the chain keeps those that it knows.
The contents kept in memory are bounded: beyond that, the oldest become unknown. One thread.
"""

import os
import re
from collections import OrderedDict
from collections.abc import Callable

from eventlog.names import event_id_of
from eventlog.paths import path_text
from eventlog.snapshots.ids import to_text
from eventlog.transcripts.draft import DELETE, PATCH, REPLACE, SEEN, WRITE, FileEdit, FileItem
from eventlog.transcripts.readers.codex_patch import apply_section, is_section
from eventlog.transcripts.unified import agrees, apply_patch
from eventlog.types import KIND_OF_TYPE, SOURCE_OF_TYPE, Event

Put = Callable[[bytes], bytes]
# The content of a repository-relative path at the commit that the session names; None when there is none.
Base = Callable[[str], "bytes | None"]

_CONTENTS_BYTES_MAX = 64 << 20
_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")
_BOM = b"\xef\xbb\xbf"


class _Absent:
    __slots__ = ()


_ABSENT = _Absent()
_State = bytes | _Absent | None  # None: unknown


class FileStates:
    """The chain of one session. `root` is what paths are relative to; None when no directory is known."""

    def __init__(self, agent: str, root: str | None, put: Put, base: "Base | None" = None) -> None:
        self._agent = agent
        self._root = None if root is None else _plain(root)
        self._put = put
        self._base = base
        self._states: OrderedDict[str, _State] = OrderedDict()
        self._size = 0
        self._edits_of: dict[str, int] = {}

    def tell(self, item: FileItem) -> list[Event]:
        """The events of an edit: a mismatch when it shows what was not predicted, then the change."""
        edit = item.edit
        path = self._inside(edit.path, item)
        if path is None:
            return []
        if edit.kind == SEEN:
            return self._seen(item, path, edit)
        old_path = None if edit.old_path is None else self._inside(edit.old_path, item)
        source = path if old_path is None else old_path
        found: list[Event] = []
        shown: _State = None
        if edit.original is not None:
            shown = _bytes_of(edit.original)
        elif edit.created:
            shown = _ABSENT
        predicted = self._states.get(source)
        before: _State
        if shown is not None:
            before = shown
            if predicted is not None and _alike(predicted, shown):
                before = predicted
            elif predicted is not None and not (predicted is _ABSENT and shown == b""):
                found.append(self._mismatch(item, source, predicted, shown, "before"))
        elif predicted is not None:
            before = predicted
            # Codex may have found leniently what is not there exactly: that shows nothing.
            if not _fits(edit, predicted) and not is_section(edit.patch or ""):
                found.append(self._mismatch(item, source, predicted, None, "edit"))
                before = None
        else:
            before = self._from_base(source, edit)
        after = _after(edit, before)
        found.append(self._change(item, path, old_path, before, after))
        if old_path is not None:
            self._keep(old_path, _ABSENT)
        self._keep(path, after)
        return found

    # -- events ----------------------------------------------------------------------------------

    def _change(
        self, item: FileItem, path: str, old_path: str | None, before: _State, after: _State
    ) -> Event:
        edit = item.edit
        if edit.kind == DELETE:
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
            if edit.patch is not None:
                payload["diff"] = edit.patch
        event = self._event(item, "file", payload, path, str(self._nth(item, path)))
        event |= {"operation": operation, "path": path}
        for name, value in (
            ("before_hash", before_hash),
            ("after_hash", after_hash),
            ("lines_added", edit.added),
            ("lines_removed", edit.removed),
        ):
            if value is not None:
                event[name] = value
        blobs = [one for one in (before_hash, after_hash) if one is not None]
        if blobs:
            event["blobs"] = blobs
        return event

    def _seen(self, item: FileItem, path: str, edit: FileEdit) -> list[Event]:
        assert edit.content is not None
        content = _bytes_of(edit.content)
        predicted = self._states.get(path)
        if predicted is None:
            if not edit.loose:
                self._keep(path, content)
            return []
        if _alike(predicted, content) or (edit.loose and _alike(predicted, content + b"\n")):
            return []
        event = self._mismatch(item, path, predicted, content, "read")
        self._keep(path, None if edit.loose else content)
        return [event]

    def _mismatch(
        self, item: FileItem, path: str, predicted: "bytes | _Absent", shown: _State, evidence: str
    ) -> Event:
        before_hash, after_hash = self._hash(predicted), self._hash(shown)
        event = self._event(item, "mismatch", {"evidence": evidence}, path)
        event |= {"path": path, "title": f"{path} was changed outside of the recorded tool calls"}
        for name, value in (("before_hash", before_hash), ("after_hash", after_hash)):
            if value is not None:
                event[name] = value
        event["blobs"] = [one for one in (before_hash, after_hash) if one is not None]
        return event

    def _event(self, item: FileItem, event_type: str, payload: "dict[str, object]", *key: str) -> Event:
        cause = str(item.cause["event_id"])
        event: Event = {
            "event_type": event_type,
            "event_kind": KIND_OF_TYPE.get(event_type, "observation"),
            "source": SOURCE_OF_TYPE.get(event_type, "system"),
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
        """Tells several edits of one file by one tool call apart."""
        key = f"{item.cause['event_id']}:{path}"
        if len(self._edits_of) > 10_000:
            self._edits_of.clear()
        nth = self._edits_of[key] = self._edits_of.get(key, 0) + 1
        return nth

    # -- states ----------------------------------------------------------------------------------

    def _keep(self, path: str, state: _State) -> None:
        old = self._states.pop(path, None)
        self._size += (len(state) if isinstance(state, bytes) else 0) - (
            len(old) if isinstance(old, bytes) else 0
        )
        self._states[path] = state
        while self._size > _CONTENTS_BYTES_MAX and len(self._states) > 1:
            _, gone = self._states.popitem(last=False)  # unknown from here on
            self._size -= len(gone) if isinstance(gone, bytes) else 0

    def _from_base(self, path: str, edit: FileEdit) -> _State:
        """What the commit held, if the edit can have been made to it."""
        if self._base is None or edit.kind not in (REPLACE, PATCH):
            return None
        content = self._base(path)
        return content if content is not None and _fits(edit, content) else None

    def _hash(self, state: _State) -> str | None:
        return to_text(self._put(state)) if isinstance(state, bytes) else None

    def _inside(self, path: str, item: FileItem) -> str | None:
        """The path relative to the root; None for one that lies outside, or is none."""
        if "\0" in path or not path:
            return None
        path = _plain(path)
        if not (path.startswith("/") or _DRIVE.match(path)):
            cwd = item.columns.get("cwd")
            base = _plain(str(cwd)) if isinstance(cwd, str) else self._root
            if base is None:
                return None
            path = f"{base}/{path}"
        if self._root is None:
            return None
        path = os.path.normpath(path)
        if not path.startswith(f"{self._root}/"):
            return None
        return path_text(os.fsencode(path[len(self._root) + 1 :]))


def _plain(path: str) -> str:
    """A path with slashes only, whichever system it was written on."""
    if _DRIVE.match(path) or path.startswith("\\\\"):
        path = path.replace("\\", "/")
    return path.rstrip("/") or "/"


def _bytes_of(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _alike(one: "bytes | _Absent", other: "bytes | _Absent") -> bool:
    """Whether two states are the same text."""
    if isinstance(one, _Absent) or isinstance(other, _Absent) or one == other:
        return one == other
    return _text_of(one) == _text_of(other)


def _text_of(content: bytes) -> bytes:
    return content.removeprefix(_BOM).replace(b"\r\n", b"\n")


def _fits(edit: FileEdit, before: "bytes | _Absent") -> bool:
    """Whether the edit can have been made to this content."""
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

    Clients differ in whether a text that is taken away takes the newline behind it with it: the count of
    lines that the edit names decides, and where it fits neither the content is unknown.
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
