"""Puts stored contents in place of deferred entries of trees and stat caches (docs/certainty.md §3).

Pure except for the trees that it puts with a writer. An entry is replaced only when it is the sentence of
this list, so what a later capture found instead stays.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from eventlog.blobs.tree import DIRECTORY, SKIPPED, TreeEntry
from eventlog.blobs.writer import BlobWriter
from eventlog.worktree.rows import StatCache, StoredDirectory

# The entry of a path: kind, id, size.
Content = tuple[bytes, bytes, int]
Contents = Mapping[bytes, Content]


class PutsTrees(Protocol):
    """What trees are put with."""

    def put_tree(self, entries: "Iterable[TreeEntry]") -> bytes: ...


def put_tree_of(writer: PutsTrees, contents: Contents) -> bytes:
    """Store the tree that holds these paths alone; its id."""
    entries: list[TreeEntry] = []
    below: dict[bytes, dict[bytes, Content]] = {}
    for path, (kind, id, size) in contents.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            below.setdefault(name, {})[rest] = kind, id, size
        else:
            entries.append(TreeEntry(name, kind, id, size))
    for name, held in below.items():
        entries.append(TreeEntry(name, DIRECTORY, put_tree_of(writer, held), 0))
    return writer.put_tree(entries)


def heal_tree(
    get: Callable[[bytes], tuple[TreeEntry, ...]],
    writer: BlobWriter,
    root: bytes,
    sentence: bytes,
    became: Contents,
) -> bytes:
    """The tree `root` with what its entries of that sentence became.

    Args: get: the entries of a tree; sentence: the id of the blob. Raises: NotFound, Corruption.
    """
    entries = {entry.name: entry for entry in get(root)}
    below: dict[bytes, dict[bytes, Content]] = {}
    changed = False
    for path, content in became.items():
        name, slash, rest = path.partition(b"/")
        entry = entries.get(name)
        if entry is None:
            continue
        if slash and entry.kind == DIRECTORY:
            below.setdefault(name, {})[rest] = content
        elif not slash and entry.kind == SKIPPED and entry.id == sentence:
            entries[name] = TreeEntry(name, *content)
            changed = True
    for name, held in below.items():
        id = heal_tree(get, writer, entries[name].id, sentence, held)
        changed = changed or id != entries[name].id
        entries[name] = TreeEntry(name, DIRECTORY, id, 0)
    return writer.put_tree(entries.values()) if changed else root


def heal_cache(
    writer: BlobWriter, cache: StatCache, sentence: bytes, became: Contents, proofs: Mapping[bytes, bytes]
) -> StatCache | None:
    """The cache with what its rows of that sentence became; None when it has none.

    Args: proofs: path → the stat that proves what it became, where that is not the one of the row.
    Raises: Unusable.
    """
    rows: dict[bytes, dict[int, tuple[bytes, bytes, int, bytes]]] = {b"": {}}
    for path, (kind, id, size) in became.items():
        present = cache.find(path)
        if present is None or present[0].kind(present[1]) != SKIPPED or present[0].id(present[1]) != sentence:
            continue
        directory, row = present
        above = path.rpartition(b"/")[0]
        rows.setdefault(above, {})[row] = kind, id, size, proofs.get(path, directory.stat(row))
        while above:
            above = above.rpartition(b"/")[0]
            rows.setdefault(above, {})
    if not any(rows.values()):
        return None
    below: dict[bytes, list[tuple[bytes, StoredDirectory, bytes]]] = {}  # name, directory, id of its tree
    id = b""
    for path in sorted(rows, key=lambda path: (bool(path), path.count(b"/")), reverse=True):
        old = cache.directory_at(path)
        assert old is not None
        directory, id = _with_rows(writer, old, rows[path], below.get(path, []))
        cache.add_totals(directory, old)
        above, _, name = path.rpartition(b"/")
        below.setdefault(above, []).append((name, directory, id))
    return cache.replaced(directory, id)


def _with_rows(
    writer: BlobWriter,
    old: StoredDirectory,
    rows: dict[int, tuple[bytes, bytes, int, bytes]],
    below: list[tuple[bytes, StoredDirectory, bytes]],
) -> tuple[StoredDirectory, bytes]:
    """A directory with these rows and directories instead of its own, and the id of its tree."""
    handles = list(old.below)
    for name, directory, id in below:
        row = old.find(name)
        rows[row] = DIRECTORY, id, old.size(row), old.stat(row)
        handles[old.kinds.count(DIRECTORY, 0, row)] = directory
    new = old.with_rows(rows)
    new.below = handles
    return new, writer.put_tree(TreeEntry(name, *row[:3]) for name, row in new.rows().items())
