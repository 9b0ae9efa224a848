"""Which events are about a path, for its erasure (docs/maintenance.md §7).

An event is about a path when its columns have it, or a tool's arguments, patch, command or the lines of its
result name it. Other events may quote its content: they are found by its lines. Pure but for the contents
that are read. One thread.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from eventlog.base import paths
from eventlog.base.errors import EventLogError
from eventlog.base.jsontext import object_of
from eventlog.blobs.payload_texts import PayloadTexts
from eventlog.log.erased_rows import KEPT_TYPES

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore
    from eventlog.log.reader import LogView

# Shorter lines occur anywhere; so many lines of a content show that it was quoted.
_LINE_SIZE_MIN = 16
_LINES_QUOTED = 3
_CONTENT_SIZE_MAX = 16 << 20

_OF_TOOLS = ("tool_start", "action", "error", "hook", "mismatch")


class PathEvents:
    """The events about one file, or about all below a folder. `path` is text (docs/trees.md, section 5)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._name = path.rpartition("/")[2]

    def has(self, event: "Mapping[str, Any]") -> bool:
        """Whether an event is about it."""
        kind, payload = event["event_type"], event["payload"]
        if kind in KEPT_TYPES:
            return False
        if self._is_it(event["path"]):
            return True
        if payload is None or self._name not in payload:
            return False
        fields = object_of(payload)
        if kind == "file":
            return self._is_it(fields.get("old_path"))
        if kind not in _OF_TOOLS:
            return False
        cwd = event["cwd"] or fields.get("cwd")
        named = paths.paths_named(fields, lambda name: self._name in name.split("/"))
        return any(self._is_meant(name, cwd, is_sure=is_sure) for name, is_sure in named)

    def _is_it(self, path: object) -> bool:
        return isinstance(path, str) and (path == self._path or path.startswith(f"{self._path}/"))

    def _is_meant(self, name: str, cwd: object, *, is_sure: bool) -> bool:
        """Whether a name means the path: from a directory at or above `cwd`, or from any where that is not
        known."""
        full = os.path.normpath(os.path.join(cwd, name) if isinstance(cwd, str) else name)
        at = f"/{full}/".find(f"/{self._path}/")
        while at > 0 and is_sure and isinstance(cwd, str):
            if f"{cwd}/".startswith(full[: at - 1] + "/"):
                return True
            at = f"/{full}/".find(f"/{self._path}/", at + 1)
        if at == 0 or not isinstance(cwd, str):
            return at >= 0
        return not is_sure and f"/{self._path}".endswith("/" + os.path.normpath(name).lstrip("./"))


def quoting(
    view: "LogView", blobs: "BlobStore", contents: "Collection[bytes]", but: "Collection[str]"
) -> "Iterator[str]":
    """The ids of other events whose texts hold lines of these contents. Args: but: events left out."""
    lines = set(_lines_of(blobs, contents))
    wanted = min(_LINES_QUOTED, len(lines))
    texts = PayloadTexts(blobs, lambda _: True)
    columns = ("event_id", "event_type", "payload")
    for event in view.iterate(columns=columns) if lines else ():
        if event["event_type"] not in (*KEPT_TYPES, "file") and event["event_id"] not in but:
            matches = set[str]()
            for text in _texts_in(texts.fill(object_of(event["payload"]))):
                matches |= lines.intersection(map(str.strip, text.split("\n")))
            if len(matches) >= wanted:
                yield str(event["event_id"])


def _lines_of(blobs: "BlobStore", contents: "Collection[bytes]") -> "Iterator[str]":
    for id, location in blobs.locations(contents).items():
        if location[4] <= _CONTENT_SIZE_MAX:
            try:
                text = blobs.get(id).decode("utf-8", "replace")
            except EventLogError:
                continue
            yield from (line for line in map(str.strip, text.split("\n")) if len(line) >= _LINE_SIZE_MIN)


def _texts_in(value: object) -> "Iterator[str]":
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
