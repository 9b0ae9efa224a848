"""The differences between trees that were made so far: `index/tree-changes`, derived (docs/view.md).

What differs between two trees follows from their ids, so it is always the same, and the file may be deleted
at any time (I22). Maintenance writes it, and erasure removes it with all of `index/`: it holds names of
files. A process that only reads keeps what the file lacks in memory.

    the content (derived_file.py), compressed with zlib: for each pair of trees both ids (zeros: the empty
    tree), by how many files there are more, how many changes; then for each change the numbers of `_CHANGE`
    and its path, old path and reason

One thread.
"""

import struct
import zlib
from collections.abc import Callable, Iterator

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.blobs.ids import ID_SIZE
from eventlog.blobs.tree import TreeEntry
from eventlog.replay.compare import ADD, DELETE, EDIT, MODE, RENAME, TYPE
from eventlog.replay.derived_file import DerivedFile
from eventlog.replay.leaf_changes import LeafChange, LeafChanges

# The last digit is raised by hand when the same trees give other changes.
MAGIC = b"locus tree changes 1\n"
NAME = "tree-changes"

_EMPTY = bytes(ID_SIZE)
_PAIR = struct.Struct("<32s32siI")
# Operation, kind, size and id of the entry (kind 0: there is none); lengths of path, old path, reason, each
# one more than it has, 0 where there is none.
_CHANGE = struct.Struct("<BBQ32sIII")
_OPERATIONS = (ADD, EDIT, DELETE, RENAME, MODE, TYPE)
_CODES = {operation: code for code, operation in enumerate(_OPERATIONS)}

_Key = tuple[bytes, bytes]


class TreeChanges:
    """The differences of one store."""

    def __init__(self, fs: FileSystem, layout: Layout) -> None:
        self._file = DerivedFile(fs, layout, NAME, MAGIC)
        self._known: dict[_Key, LeafChanges] | None = None
        self._used: set[_Key] = set()

    def get(self, before: bytes | None, after: bytes) -> LeafChanges | None:
        if self._known is None:
            self._known = self._read()
        key = before or _EMPTY, after
        self._used.add(key)
        return self._known.get(key)

    def put(self, before: bytes | None, after: bytes, changes: LeafChanges) -> None:
        """Keep these in memory, until `save` writes them."""
        if self._known is None:
            self._known = self._read()
        self._known[before or _EMPTY, after] = changes

    def save(self, ask: Callable[[], object]) -> int:
        """Write the differences that `ask` asks for, and no others. Returns: how many were new.

        Nothing is written while an erasure is under way, or while another process writes derived files.
        What takes long comes before their lock; `ask` is asked once more under it, so that no name from
        before an erasure is written after it. Raises: OSError, and as `ask`.
        """
        ask()
        with self._file.writing() as may_write:
            if not may_write:
                return 0
            before = self._read()
            self._known, self._used = {**(self._known or {}), **before}, set()
            ask()
            wanted = {key: self._known[key] for key in self._used if key in self._known}
            if wanted.keys() != before.keys():
                self._write(wanted)
            return len(wanted.keys() - before.keys())

    def forget(self) -> None:
        """Delete all of them, so that they are made again. Raises: OSError."""
        self._known = {}
        self._file.delete()

    def _read(self) -> dict[_Key, LeafChanges]:
        """Those of the file; none where it is absent, damaged or of another version."""
        content = self._file.read()
        try:
            return {} if content is None else dict(_decoded(zlib.decompress(content)))
        except (zlib.error, struct.error, ValueError, IndexError):
            return {}

    def _write(self, changes: dict[_Key, LeafChanges]) -> None:
        encoded = b"".join(_encoded(key, changes[key]) for key in sorted(changes))
        self._file.write(zlib.compress(encoded, 1))


def _encoded(key: _Key, changes: LeafChanges) -> bytes:
    parts = [_PAIR.pack(*key, changes.added, len(changes.changes))]
    for path, operation, entry, old_path, reason in changes.changes:
        kind, size, id = (0, 0, _EMPTY) if entry is None else (entry.kind[0], entry.size, entry.id)
        texts = path, old_path, None if reason is None else reason.encode("utf-8", "surrogatepass")
        lengths = (0 if text is None else len(text) + 1 for text in texts)
        parts.append(_CHANGE.pack(_CODES[operation], kind, size, id, *lengths))
        parts += [text for text in texts if text is not None]
    return b"".join(parts)


def _decoded(data: bytes) -> Iterator[tuple[_Key, LeafChanges]]:
    offset = 0
    while offset < len(data):
        before, after, added, count = _PAIR.unpack_from(data, offset)
        offset += _PAIR.size
        changes = []
        for _ in range(count):
            change, offset = _change(data, offset)
            changes.append(change)
        yield (before, after), LeafChanges(tuple(changes), added, True)


def _change(data: bytes, offset: int) -> tuple[LeafChange, int]:
    code, kind, size, id, *lengths = _CHANGE.unpack_from(data, offset)
    offset += _CHANGE.size
    texts: list[bytes | None] = []
    for length in lengths:
        texts.append(data[offset : offset + length - 1] if length else None)
        offset += max(0, length - 1)
    path, old_path, reason = texts
    assert path is not None
    entry = TreeEntry(path.rpartition(b"/")[2], bytes((kind,)), id, size) if kind else None
    why = None if reason is None else reason.decode("utf-8", "surrogatepass")
    return LeafChange(path, _OPERATIONS[code], entry, old_path, why), offset
