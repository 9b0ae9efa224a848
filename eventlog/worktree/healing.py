"""Puts stored contents in place of deferred entries of trees and stat caches (docs/certainty.md §3).

Pure except for the trees that it puts with a writer. An entry is replaced only when it is the sentence of
this list, so what a later capture found instead stays.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Protocol

from eventlog.blobs.tree import DIRECTORY, SKIPPED, TreeEntry
from eventlog.blobs.writer import BlobWriter
from eventlog.worktree.statcache import STAT_SIZE, StatCache, is_nested

# The entry of a path: kind, id, size.
Content = tuple[bytes, bytes, int]
Contents = Mapping[bytes, Content]

_SIZE = Struct("<Q")


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
    """The cache with what its rows of that sentence became; None when it has none, or contradicts itself.

    Args: proofs: path → the stat that proves what it became, where that is not the one of the row.
    """
    rows = {
        row: path
        for row, path in enumerate(cache.paths)
        if cache.kinds[row : row + 1] == SKIPPED and cache.id(row) == sentence and path in became
    }
    if not rows or not is_nested(cache):
        return None
    kinds, ids = bytearray(cache.kinds), bytearray(cache.ids)
    sizes, stats = bytearray(cache.sizes), bytearray(cache.stats)
    for row, path in rows.items():
        kind, id, size = became[path]
        kinds[row : row + 1] = kind
        ids[row * 32 : row * 32 + 32] = id
        _SIZE.pack_into(sizes, row * 8, size)
        if path in proofs:
            stats[row * STAT_SIZE : (row + 1) * STAT_SIZE] = proofs[path]
    above = _rows_of_dirs(cache)
    dirs = {bisect_right(cache.firsts, row) - 1 for row in rows}
    while dirs:
        dir = max(dirs)  # those below a directory have higher numbers
        dirs.remove(dir)
        if dir == 0:
            continue
        first, end = cache.rows_of(dir)
        entries = [
            TreeEntry(
                cache.paths[row].rpartition(b"/")[2],
                bytes(kinds[row : row + 1]),
                bytes(ids[row * 32 : row * 32 + 32]),
                _SIZE.unpack_from(sizes, row * 8)[0],
            )
            for row in range(first, end)
        ]
        ids[above[dir] * 32 : above[dir] * 32 + 32] = writer.put_tree(entries)
        dirs.add(bisect_right(cache.firsts, above[dir]) - 1)
    tables = (
        cache.dirs,
        bytes(stats),
        bytes(sizes),
        bytes(ids),
        bytes(kinds),
        cache.flags,
        cache.watch_stats,
    )
    return StatCache(cache.tracked, cache.generation, tables, cache.paths_blob, cache.watched, cache.absent)


def _rows_of_dirs(cache: StatCache) -> dict[int, int]:
    """The row of each directory, by its number."""
    above = {1: 0}
    for dir in range(1, len(cache.firsts) - 1):
        below = dir + 1
        for row in range(*cache.rows_of(dir)):
            if cache.kinds[row : row + 1] == DIRECTORY:
                above[below] = row
                below += cache.span(below)
    return above
