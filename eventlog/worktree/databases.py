"""Databases that git ignores and a capture keeps: exact only with their journals (docs/capture.md §1).

A database and its journal are two files, and a process may write to both while they are read. So their stats
are compared once more after the last read. Where one differs, the tree notes that the database is not exact.
Belongs to one scan. On the hook path.
"""

from eventlog.blobs.tree import SKIPPED
from eventlog.worktree import kept_ignored
from eventlog.worktree.rows import KEPT_IGNORED, UNPROVEN, join, pack_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from eventlog.worktree.contents import Lists
    from eventlog.worktree.entries import Entries, ReadEntry
    from eventlog.worktree.rows import Directory, Row

    Put = Callable[[Directory, bytes, ReadEntry], None]


class Databases:
    """The databases of which a scan read some part."""

    def __init__(self, entries: "Entries", lists: "Lists") -> None:
        self._entries = entries
        self._lists = lists
        self._seen: "dict[bytes, tuple[Directory, bytes]]" = {}
        self._stats: "dict[bytes, bytes]" = {}  # of the parts that were read

    def note(self, directory: "Directory", name: bytes, file_stat: "os.stat_result") -> None:
        """Take note of a kept file and its stat, if it is a database or the journal of one."""
        database = kept_ignored.database_name(name)
        if database is not None:
            self._seen[join(directory, database)] = directory, database
            self._stats[join(directory, name)] = pack_stat(file_stat)

    def check(self, put: "Put") -> None:
        """Replace the rows of databases that are not exact by the reason. Args: put: puts a row."""
        for directory, name in self._seen.values():
            parts = [name, *kept_ignored.journals_of(name)]
            present = [
                part for part in parts if part in directory.rows and directory.rows[part][4] == KEPT_IGNORED
            ]
            if name not in present or self._is_missing(directory.rows[name]):
                continue
            if any(self._has_moved(directory, part) for part in parts):
                reason, replaced = kept_ignored.IN_PIECES, present
            elif any(self._is_missing(directory.rows[part]) for part in present[1:]):
                reason, replaced = kept_ignored.JOURNAL_MISSING, present[:1]
            else:
                continue
            for part in replaced:
                # Without a proof: it is read again next time.
                put(directory, part, self._entries.skipped(reason, directory.rows[part][2], UNPROVEN))

    def _is_missing(self, row: "Row") -> bool:
        """Whether a row has no content, and will never have one."""
        return row[0] == SKIPPED and self._lists.named_by(row[1]) is None

    def _has_moved(self, directory: "Directory", name: bytes) -> bool:
        """Whether a part of a database has changed since it was read."""
        try:
            now = pack_stat(self._entries.lstat(directory.path, name))
        except FileNotFoundError:
            return name in directory.rows
        except OSError:
            return True
        row = directory.rows.get(name)
        return now != self._stats.get(join(directory, name), None if row is None else row[3])
