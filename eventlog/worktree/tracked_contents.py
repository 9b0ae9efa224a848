"""Contents of files that git tracks: they are not withheld even if an ignored file has the same.

Files are compared as they are now, and only those of the same size are read. On the hook path.
"""

import os
import stat

from eventlog.blobs.ids import blob_id
from eventlog.worktree.rows import SKIPPED_COUNT, YES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eventlog.worktree.rows import StatCache


class TrackedRows:
    """The tracked contents of one capture: from its tables, and from files that it did not read."""

    def __init__(self, tables: "StatCache", root: bytes) -> None:
        self._tables = tables
        self._root = root
        self._unread: "dict[int, list[bytes]] | None" = None  # tracked paths by size

    def has(self, id: bytes, size: int) -> bool:
        tables = self._tables
        if any(
            directory.id(row) == id and directory.flags[row] == YES[0] for _, directory, row in tables.rows()
        ):
            return True
        if self._unread is None:
            self._unread = _by_size(self._rows_unread())
        return _is_in(self._root, self._unread.get(size, ()), id)

    def _rows_unread(self) -> "Iterator[tuple[int, bytes]]":
        for path, directory, row in self._tables.special(SKIPPED_COUNT):
            if directory.flags[row] == YES[0]:
                yield directory.size(row), path


class TrackedFiles:
    """The tracked contents of a directory, listed by git at the first question; none where git fails."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(os.path.realpath(root))
        self._paths: "dict[int, list[bytes]] | None" = None

    def has(self, id: bytes, size: int) -> bool:
        if self._paths is None:
            self._paths = _by_size(self._listed())
        return _is_in(self._root, self._paths.get(size, ()), id)

    def _listed(self) -> "Iterator[tuple[int, bytes]]":
        from eventlog.worktree import git

        try:
            _, answer = git.run(self._root, ["ls-files", "-z"], b"")
        except git.GitFailed:
            return
        for path in answer.split(b"\0"):
            try:
                file_stat = os.lstat(os.path.join(self._root, path))
            except OSError:
                continue
            if stat.S_ISREG(file_stat.st_mode):
                yield file_stat.st_size, path


def _by_size(sized_paths: "Iterable[tuple[int, bytes]]") -> "dict[int, list[bytes]]":
    paths: "dict[int, list[bytes]]" = {}
    for size, path in sized_paths:
        paths.setdefault(size, []).append(path)
    return paths


def _is_in(root: bytes, paths: "Iterable[bytes]", id: bytes) -> bool:
    """Whether one of these files has the content with this id."""
    from eventlog.worktree.staging import open_below
    from eventlog.worktree.userfiles import UserFiles

    for path in paths:
        try:
            with open(open_below(UserFiles(), os.fsdecode(root), path), "rb") as file:
                if blob_id(file.read()) == id:
                    return True
        except OSError:
            continue
    return False
