"""What lines of Claude Code say of the copies that it keeps of files before it edits them. Pure.

`file-history-snapshot` lists the copies of all files that a session has edited, at each prompt and again
when a file is edited first; `file-history-delta`, of newer versions, one of them. The copies themselves are
in `file-history/SESSION/NAME`, beside `projects`.
"""

import os
from typing import Any

from eventlog.agents.kit.call import object_of, text_of
from eventlog.agents.kit.draft import BACKUP, FileEdit

_LISTS = frozenset(("file-history-snapshot", "file-history-delta"))
_KNOWN_MAX = 10_000


class NamedBackups:
    """Which copies were named so far: a line repeats those of the lines before, which say nothing of now."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def new_in(self, record: "dict[str, Any]", cwd: "str | None") -> list[FileEdit]:
        """The files that a line names a new copy of; `cwd` is the session's."""
        if text_of(record, "type") not in _LISTS:
            return []
        edits = []
        for path, copy in _copies(record):
            if not path or not isinstance(copy, dict):
                continue
            name = text_of(copy, "backupFileName")
            if name is None and copy.get("backupFileName", "") is not None:
                continue
            if self._known.get(path, "") == name:
                continue
            if len(self._known) < _KNOWN_MAX or path in self._known:
                self._known[path] = name
                edits.append(FileEdit(BACKUP, os.path.join(cwd or "", path), backup=name))
        return edits


def _copies(record: "dict[str, Any]") -> list[tuple[str, object]]:
    path = text_of(record, "trackingPath")
    listed = list(object_of(object_of(record, "snapshot"), "trackedFileBackups").items())
    return listed if path is None else [*listed, (path, record.get("backup"))]
