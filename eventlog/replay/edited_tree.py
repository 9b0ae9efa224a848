"""A nested tree that is changed path by path; only the directories that changed are encoded again.

It starts from a stored root and reads directories when a path leads into them, so a change costs the
depth of its path, not the size of the tree. For code that follows a series of changes: replay at an
event, and the import of a history. One instance belongs to one thread; entries are values.
"""

from collections.abc import Callable, Iterable

from eventlog.base.errors import NotFound
from eventlog.blobs.tree import DIRECTORY, TreeEntry, encode_tree, name_of_row

Reader = Callable[[bytes], Iterable[TreeEntry]]
Writer = Callable[[bytes], bytes]

# A tree is this and one row for each entry, in order of their names (docs/design.md §11.1).
_EMPTY = encode_tree(())


class _Directory:
    """Entries of one directory. Sub-directories that were visited are in `below`, not in `entries`.

    `rows` are encoded entries. Most of a directory stays as it is from one change to the next, so each
    entry is checked and encoded once, not whenever its directory is written.
    """

    __slots__ = ("below", "entries", "id", "rows", "size")

    def __init__(self, id: bytes | None, entries: Iterable[TreeEntry], size: int = 0) -> None:
        self.size = size  # of its entry, which says its mode
        self.id = id  # None: changed since it was last written
        self.entries = {entry.name: entry for entry in entries}
        self.below: dict[bytes, _Directory] = {}
        self.rows: dict[bytes, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self.entries or self.below)


class EditedTree:
    """A tree in memory, over `read`, which returns the entries of a stored one."""

    def __init__(self, read: Reader, root: bytes | None = None) -> None:
        self._read = read
        self._root = _Directory(root, read(root) if root is not None else ())

    def get(self, path: bytes) -> TreeEntry | None:
        """The entry at `path`; a visited directory has its id as last written, or zeros."""
        *folders, name = path.split(b"/")
        directory = self._root
        for folder in folders:
            child = self._enter(directory, folder)
            if child is None:
                return None
            directory = child
        below = directory.below.get(name)
        if below is not None:
            return TreeEntry(name, DIRECTORY, below.id or bytes(32), below.size)
        return directory.entries.get(name)

    def put(self, path: bytes, kind: bytes, id: bytes, size: int) -> None:
        """Put this entry at `path`; folders on the way are made, and replace files."""
        *folders, name = path.split(b"/")
        directory = self._root
        directory.id = None
        for folder in folders:
            below = self._enter(directory, folder)
            if below is None:
                directory.entries.pop(folder, None)
                directory.rows.pop(folder, None)
                below = directory.below[folder] = _Directory(None, ())
            below.id = None
            directory = below
        directory.below.pop(name, None)
        directory.rows.pop(name, None)
        directory.entries[name] = TreeEntry(name, kind, id, size)

    def remove(self, path: bytes, *, prune: bool) -> bool:
        """Remove `path`; False when it did not exist.

        Args: prune: also remove the folders that are empty without it, as git does.
        """
        *folders, name = path.split(b"/")
        directories = [self._root]
        for folder in folders:
            child = self._enter(directories[-1], folder)
            if child is None:
                return False
            directories.append(child)
        gone = directories[-1].entries.pop(name, None) or directories[-1].below.pop(name, None)
        if gone is None:
            return False
        directories[-1].rows.pop(name, None)
        for directory in directories:
            directory.id = None
        if prune:
            for parent, folder in zip(directories[-2::-1], folders[::-1], strict=True):
                if parent.below[folder]:
                    break
                del parent.below[folder]
                parent.rows.pop(folder, None)
        return True

    def write(self, write: Writer) -> bytes:
        """The root's id, after the encoding of every changed directory went through `write`, children first.

        Raises: InvalidEvent when a name was put that no tree may hold.
        """
        return self._write(self._root, write)

    def _write(self, directory: _Directory, write: Writer) -> bytes:
        if directory.id is None:
            rows = directory.rows
            for name, below in directory.below.items():
                if below.id is None or name not in rows:
                    rows[name] = _row(TreeEntry(name, DIRECTORY, self._write(below, write), below.size))
            for name, entry in directory.entries.items():
                if name not in rows:
                    rows[name] = _row(entry)
            ordered: list[bytes] = sorted(rows.values(), key=name_of_row)
            directory.id = write(_EMPTY + b"".join(ordered))
        return directory.id

    def _enter(self, directory: _Directory, name: bytes) -> _Directory | None:
        below = directory.below.get(name)
        if below is None:
            entry = directory.entries.get(name)
            if entry is None or entry.kind != DIRECTORY:
                return None
            below = directory.below[name] = _Directory(entry.id, self._read(entry.id), entry.size)
            del directory.entries[name]
        return below


def _row(entry: TreeEntry) -> bytes:
    return encode_tree((entry,))[len(_EMPTY) :]


def no_trees(id: bytes) -> Iterable[TreeEntry]:
    """A reader for a tree that starts empty."""
    raise NotFound(f"tree {id.hex()} is not here")
