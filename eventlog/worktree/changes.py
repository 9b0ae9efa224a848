"""What changed between two trees of one working directory.

Only directories whose ids differ are opened. The earlier tree is read from the stat cache when it is the tree
of that cache, else from the store. A rename is a delete and an add of the same content, not empty, paired in
order of paths. A file whose content changed as well is a delete and an add. On the hook path.
"""

from eventlog.blobs.tree import DIRECTORY, FILES, SKIPPED, TreeEntry, item
from eventlog.worktree.rows import EMPTY_TREE, YES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eventlog.blobs.store import BlobStore
    from eventlog.worktree.rows import Handle, StatCache, StoredDirectory

    # Entries of a directory with a handle of what is below each
    _Entries = dict[bytes, tuple[TreeEntry, Handle | bytes]]
    _Side = Callable[[Handle | bytes], _Entries]
    _Both = Callable[[Handle | bytes | None, Handle | bytes | None], tuple[_Entries, _Entries]]

ADD, EDIT, DELETE, RENAME, MODE = "add", "edit", "delete", "rename", "mode"


class CapturedChange(tuple[str, bytes, "TreeEntry | None", "TreeEntry | None", "bytes | None"]):
    """(operation, path, before, after, old path of a rename).

    `mode` is a change of the permissions alone; an `edit` may change the kind too. Only empty directories
    have changes of their own.
    """

    __slots__ = ()

    operation: str = item(0)
    path: bytes = item(1)
    before: "TreeEntry | None" = item(2)
    after: "TreeEntry | None" = item(3)
    old_path: "bytes | None" = item(4)


def changes_between(
    blobs: "BlobStore", previous: bytes, cache: "StatCache | None", tables: "StatCache"
) -> "tuple[list[CapturedChange], bool]":
    """The changes from the tree `previous` to that of `tables`, in order of paths; and whether the mode of a
    directory in both differs, which is no change of a path.

    Raises: NotFound, Corruption when the previous tree cannot be read.
    """
    after = _of_tables(tables)
    if cache is not None and cache.root == previous:
        last, before = cache, _of_tables(cache)

        def both(old: "Handle | bytes | None", new: "Handle | bytes | None") -> "tuple[_Entries, _Entries]":
            if old is None or new is None or isinstance(old, bytes) or isinstance(new, bytes):
                return _of_both(before, old, after, new)
            return _differing(last, old, tables, new)

        changes, modes_changed = _compare(both, cache.top, tables.top)
    else:
        before = _of_store(blobs)
        changes, modes_changed = _compare(
            lambda old, new: _of_both(before, old, after, new), previous, tables.top
        )
    return sorted(_with_renames(changes), key=lambda change: change[1]), modes_changed


def _of_tables(tables: "StatCache") -> "_Side":
    def entries(handle: "Handle | bytes") -> "_Entries":
        assert not isinstance(handle, bytes)
        return {
            name: (TreeEntry(name, *row[:3]), b"" if row[5] is None else row[5])
            for name, row in tables.directory(handle).rows().items()
        }

    return entries


def _differing(
    before: "StatCache", before_handle: "Handle", after: "StatCache", after_handle: "Handle"
) -> "tuple[_Entries, _Entries]":
    """The entries of two directories of caches that are not alike; as a rule few of many."""
    olds, news = before.directory(before_handle), after.directory(after_handle)
    unlike = set(olds.entries()).symmetric_difference(news.entries())
    names = {entry[0] for entry in unlike}
    return _entries_of(olds, names), _entries_of(news, names)


def _entries_of(directory: "StoredDirectory", names: "set[bytes]") -> "_Entries":
    entries: "_Entries" = {}
    for name in names:
        row = directory.find(name)
        if row >= 0:
            kind = directory.kind(row)
            entry = TreeEntry(name, kind, directory.id(row), directory.size(row))
            entries[name] = entry, directory.child(row) if kind == DIRECTORY else b""
    return entries


def _of_store(blobs: "BlobStore") -> "_Side":
    def entries(id: "Handle | bytes") -> "_Entries":
        assert isinstance(id, bytes)
        if id == EMPTY_TREE:
            return {}
        return {entry.name: (entry, entry.id) for entry in blobs.get_tree(id)}

    return entries


def _of_both(
    before: "_Side", old: "Handle | bytes | None", after: "_Side", new: "Handle | bytes | None"
) -> "tuple[_Entries, _Entries]":
    return {} if old is None else before(old), {} if new is None else after(new)


def _compare(
    both: "_Both", before_start: "Handle | bytes", after_start: "Handle"
) -> "tuple[list[CapturedChange], bool]":
    """Args: both: the entries of a directory before and after, by its handles; those alike may lack."""
    changes: "list[CapturedChange]" = []
    modes_changed = False
    stack: "list[tuple[bytes, Handle | bytes | None, Handle | bytes | None]]" = [
        (b"", before_start, after_start)
    ]
    while stack:
        prefix, before_handle, after_handle = stack.pop()
        befores, afters = both(before_handle, after_handle)
        for name in befores.keys() | afters.keys():
            before, before_below = befores.get(name, (None, None))
            after, after_below = afters.get(name, (None, None))
            path = prefix + name
            was_dir = before is not None and before.kind == DIRECTORY
            is_dir = after is not None and after.kind == DIRECTORY
            if before is not None and after is not None and before[1:] == after[1:]:
                continue
            if was_dir or is_dir:
                stack.append(
                    (path + b"/", before_below if was_dir else None, after_below if is_dir else None)
                )
            shown_before = None if was_dir and not _is_empty(before) else before
            shown_after = None if is_dir and not _is_empty(after) else after
            if before is not None and after is not None and was_dir and is_dir:
                modes_changed = modes_changed or before.size != after.size
                continue
            operation = _operation(shown_before, shown_after)
            if operation is not None:
                changes.append(CapturedChange((operation, path, shown_before, shown_after, None)))
    return changes, modes_changed


def _is_empty(entry: "TreeEntry | None") -> bool:
    return entry is not None and entry.id == EMPTY_TREE


def _operation(before: "TreeEntry | None", after: "TreeEntry | None") -> "str | None":
    if before is None:
        return None if after is None else ADD
    if after is None:
        return DELETE
    if before.id == after.id and before.kind in FILES and after.kind in FILES:
        return MODE if before.kind != after.kind else None
    return EDIT


def _has_content(entry: "TreeEntry") -> bool:
    """Whether the id of an entry is that of a content, not of a reason or of an empty directory."""
    return entry.kind not in (DIRECTORY, SKIPPED) and entry.size > 0


def _with_renames(changes: "list[CapturedChange]") -> "list[CapturedChange]":
    """The changes with each delete and add of one content combined."""
    deleted: "dict[bytes, list[CapturedChange]]" = {}
    for change in sorted(changes, key=lambda change: change[1], reverse=True):
        if change.operation == DELETE and change.before is not None and _has_content(change.before):
            deleted.setdefault(change.before.id, []).append(change)
    if not deleted:
        return changes
    paired = []
    moved = set()
    for change in sorted(changes, key=lambda change: change[1]):
        after = change.after
        if change.operation == ADD and after is not None and _has_content(after) and deleted.get(after.id):
            old = deleted[after.id].pop()
            moved.add(old.path)
            change = CapturedChange((RENAME, change.path, old.before, after, old.path))
        paired.append(change)
    return [change for change in paired if not (change.operation == DELETE and change.path in moved)]


# -- tracked paths that are not on disk ---------------------------------------------------------


def absent_of(tables: "StatCache", tracked: "Iterable[bytes]") -> "list[bytes]":
    """The tracked paths that are not on disk. Reads all rows."""
    rows = (path for path, directory, row in tables.rows() if directory.flags[row : row + 1] == YES)
    return sorted(set(tracked).difference(rows))


def absent_after(before: "StatCache", after: "StatCache") -> "list[bytes]":
    """The same, from the cache before: git tracks what it tracked then. Reads what differs."""
    went, came = _tracked_moves(before, after)
    return sorted(set(before.absent).union(went).difference(came))


def _tracked_moves(before: "StatCache", after: "StatCache") -> "tuple[list[bytes], list[bytes]]":
    """The tracked paths that have rows only before, and only after. What both share is not read."""
    went: "list[bytes]" = []
    came: "list[bytes]" = []
    stack: "list[tuple[bytes, Handle | None, Handle | None]]" = [(b"", before.top, after.top)]
    while stack:
        prefix, old, new = stack.pop()
        olds, old_below = _tracked_rows(before, prefix, old)
        news, new_below = _tracked_rows(after, prefix, new)
        went += olds - news
        came += news - olds
        for path in old_below.keys() | new_below.keys():
            old, new = old_below.get(path), new_below.get(path)
            if old is not new and old != new:
                stack.append((path + b"/", old, new))
    return went, came


def _tracked_rows(
    cache: "StatCache", prefix: bytes, handle: "Handle | None"
) -> "tuple[set[bytes], dict[bytes, Handle]]":
    """The tracked paths in a directory, and the directories in it."""
    rows: "set[bytes]" = set()
    below: "dict[bytes, Handle]" = {}
    if handle is not None:
        for name, (*_, flag, child) in cache.directory(handle).rows().items():
            if flag == YES:
                rows.add(prefix + name)
            if child is not None:
                below[prefix + name] = child
    return rows, below
