"""What files held, chained through a session from what its transcript says (docs/transcripts.md).

Each path has a known content, is known to be absent, or is unknown. An edit says what it did to that;
where a line shows a file again, the prediction is checked, and a difference is a `mismatch` event. The
contents kept in memory are bounded: beyond that, the oldest become unknown. One thread.
"""

import os
import re
from collections import OrderedDict
from collections.abc import Callable

from eventlog.names import event_id_of
from eventlog.paths import path_text
from eventlog.snapshots.ids import to_text
from eventlog.transcripts.draft import DELETE, PATCH, REPLACE, SEEN, WRITE, FileEdit, FileItem
from eventlog.transcripts.unified import apply_patch
from eventlog.types import KIND_OF_TYPE, SOURCE_OF_TYPE, Event

Put = Callable[[bytes], bytes]
# The content of a repository-relative path at the commit that the session names; None when there is none.
Base = Callable[[str], "bytes | None"]

_CONTENTS_BYTES_MAX = 64 << 20
_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")


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
        if shown is not None:
            if predicted is not None and predicted != shown and not (predicted is _ABSENT and shown == b""):
                found.append(self._mismatch(item, source, predicted, shown, "before"))
            before: _State = shown
        elif predicted is not None:
            before = predicted
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
        if predicted == content or (edit.loose and predicted == content + b"\n"):
            return []
        event = self._mismatch(item, path, predicted, content, "read")
        self._keep(path, None if edit.loose else content)
        return [event]

    def _mismatch(
        self, item: FileItem, path: str, predicted: "bytes | _Absent", shown: "bytes | _Absent", evidence: str
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
        """What the commit held, if the edit can have been made to it: a replacement that fits shows that."""
        if self._base is None or edit.kind not in (REPLACE, PATCH):
            return None
        content = self._base(path)
        if content is None or _after(edit, content) is None:
            return None
        return content

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


def _after(edit: FileEdit, before: _State) -> _State:
    """The content after the edit; None when it cannot be computed."""
    if edit.kind == DELETE:
        return _ABSENT
    if edit.content is not None:
        return _bytes_of(edit.content)
    if not isinstance(before, bytes):
        return None
    if edit.kind == PATCH and edit.patch is not None:
        return apply_patch(before, edit.patch)
    if edit.kind == WRITE:
        return None
    content = before
    for old, new, everywhere in edit.replacements:
        old_bytes, new_bytes = _bytes_of(old), _bytes_of(new)
        if not old_bytes:
            if content:
                return None
            content = new_bytes
            continue
        count = content.count(old_bytes)
        if count == 0 or (count > 1 and not everywhere):
            return None
        content = content.replace(old_bytes, new_bytes)
    return content
