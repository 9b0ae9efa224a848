"""The differences between two trees: a list of changed paths, without reading contents (docs/design.md §14).

Both trees are walked side by side and equal sub-trees are skipped, so the cost follows the changes and not
the size of the trees. A path that one side could not capture is listed with its reason and is no change:
whether it changed is unknown, and it is never reported as deleted (P1, P7). Pure but for reading trees.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.base.errors import NotFound, Refused
from eventlog.blobs.extent import DEPTH_MAX, Walk
from eventlog.blobs.tree import DIRECTORY, FILE, FILES, SKIPPED, SYMLINK, TreeEntry
from eventlog.replay.certainty import doubt_bytes
from eventlog.replay.deferred import hashed

if TYPE_CHECKING:
    from eventlog.replay.trees import TreeState

ADD, EDIT, DELETE, RENAME, MODE, TYPE = "add", "edit", "delete", "rename", "mode", "type"

ROOT = b"."  # the whole tree, as a path

# Kinds that a rename may turn into each other.
_FAMILY = {**dict.fromkeys(FILES, FILE), SYMLINK: SYMLINK}

_Entries = dict[bytes, TreeEntry]


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path that differs.

    `operation` is `add`, `edit` (the content, perhaps the permissions too), `delete`, `rename` (the
    same content under another name, perhaps other permissions), `mode` (the permissions alone)
    or `type` (a file became a symlink, a symlink a submodule, …). An entry that is a directory counts
    for an empty one.
    """

    path: bytes
    operation: str
    before: TreeEntry | None
    after: TreeEntry | None
    old_path: bytes | None = None  # of a rename

    def concerns(self, path: bytes) -> bool:
        """Whether this is about the file or folder at `path`, under its new name or its old one."""
        return _is_below(self.path, path) or (self.old_path is not None and _is_below(self.old_path, path))


@dataclass(frozen=True, slots=True)
class Missing:
    """A path that was not captured on at least one side, and why."""

    path: bytes
    before: TreeEntry | None
    after: TreeEntry | None
    reason: str

    def concerns(self, path: bytes) -> bool:
        """Whether this is about the file or folder at `path`, or about a folder above it."""
        return _is_below(self.path, path) or _is_below(path, self.path)


@dataclass(frozen=True, slots=True)
class TreeComparison:
    """The differences between two trees, in order of paths."""

    changes: tuple[PathChange, ...]
    missing: tuple[Missing, ...]


def compare(before: "TreeState", after: "TreeState") -> TreeComparison:
    """How `before` becomes `after`. Raises: NotFound, Corruption when a tree cannot be read."""
    unstated = {**_unstated(before), **_unstated(after)}
    doubts = {**_doubts(before), **_doubts(after)}
    changes: list[PathChange] = []
    missing: list[Missing] = []
    for path, old, new in _differences(before, after):
        reason = _reason(unstated, path) or _skipped(before, old) or _skipped(after, new)
        if reason is not None:
            missing.append(Missing(path, old, new, reason))
        else:
            changes.append(PathChange(path, operation_of(old, new), old, new))
    listed = {entry.path for entry in missing}
    missing += [Missing(path, None, None, why) for path, why in doubts.items() if path not in listed]
    changes.sort(key=lambda change: change.path)
    return TreeComparison(
        tuple(with_renames(changes)),
        tuple(sorted(missing, key=lambda entry: entry.path)),
    )


def with_renames(changes: Sequence[PathChange]) -> list[PathChange]:
    """The changes, with a deletion and an addition of one content as a rename.

    Equal contents are always paired: first those with the same last name, then in order of paths.
    """
    gone = [(c, c.before) for c in changes if c.operation == DELETE and c.before and c.before.kind in _FAMILY]
    added = [(c, c.after) for c in changes if c.operation == ADD and c.after and c.after.kind in _FAMILY]
    partner: dict[bytes, PathChange] = {}
    taken: set[bytes] = set()
    for key in (_content_and_name, _content):
        pool: dict[tuple[bytes, ...], list[PathChange]] = {}
        for change, entry in reversed(gone):
            if change.path not in taken:
                pool.setdefault(key(entry, change.path), []).append(change)
        for change, entry in added:
            candidates = pool.get(key(entry, change.path))
            if candidates and change.path not in partner:
                old = partner[change.path] = candidates.pop()
                taken.add(old.path)
    result = []
    for change in changes:
        if change.operation == ADD and change.path in partner:
            old = partner[change.path]
            result.append(PathChange(change.path, RENAME, old.before, change.after, old.path))
        elif change.operation != DELETE or change.path not in taken:
            result.append(change)
    return result


def _content_and_name(entry: TreeEntry, path: bytes) -> tuple[bytes, ...]:
    return _FAMILY[entry.kind], entry.id, path.rpartition(b"/")[2]


def _content(entry: TreeEntry, _path: bytes) -> tuple[bytes, ...]:
    return _FAMILY[entry.kind], entry.id


def _differences(
    before: "TreeState", after: "TreeState"
) -> Iterator[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
    """(path, entry before, entry after) of each difference below the directories of both trees."""
    if before.root == after.root:
        return
    trees = [(state.stored_tree, state.root) for state in (before, after)]
    walked = Walk(before.blobs, trees, "the two are not compared")
    stack: list[tuple[bytes, TreeEntry | None, TreeEntry | None]] = []
    _open(stack, b"", before.get_tree(before.root, b""), after.get_tree(after.root, b""))
    while stack:
        path, old, new = stack.pop()
        if any(entry is not None and entry.kind == SKIPPED for entry in (old, new)):
            yield path, old, new  # what a folder held there may still exist, unseen
            continue
        inside_old = before.get_tree(old.id, path) if old is not None and old.kind == DIRECTORY else None
        inside_new = after.get_tree(new.id, path) if new is not None and new.kind == DIRECTORY else None
        walked.met(1 + len(inside_old or ()) + len(inside_new or ()))
        if inside_old is not None and inside_new is not None:
            _open(stack, path + b"/", inside_old, inside_new)
            continue
        # A directory on one side only: its entries differ, or the directory itself where it is empty. Beside
        # a file only its entries are listed.
        if inside_old:
            _open(stack, path + b"/", inside_old, ())
        if inside_new:
            _open(stack, path + b"/", (), inside_new)
        old = None if inside_old else old
        new = None if inside_new else new
        old = None if old is None else _hashed(before, old)
        new = None if new is None else _hashed(after, new)
        if (old is not None or new is not None) and not _is_same(old, new):
            yield path, old, new


def _open(
    stack: list[tuple[bytes, TreeEntry | None, TreeEntry | None]],
    prefix: bytes,
    before: Iterable[TreeEntry],
    after: Iterable[TreeEntry],
) -> None:
    """Push the differences between two directories on the stack."""
    if prefix.count(b"/") > DEPTH_MAX:
        raise Refused(f"the directories at {prefix[:80]!r}… are nested deeper than {DEPTH_MAX} levels")
    old: _Entries = {entry.name: entry for entry in before}
    for entry in after:
        was = old.pop(entry.name, None)
        if was is None or (was.kind, was.id) != (entry.kind, entry.id):
            stack.append((prefix + entry.name, was, entry))
    stack += [(prefix + name, entry, None) for name, entry in old.items()]


def _hashed(state: "TreeState", entry: TreeEntry) -> TreeEntry:
    """The entry with the id of its content, where that can be read."""
    try:
        return hashed(state.blobs, entry)
    except NotFound:
        return entry  # the code that shows its content reports why


def _is_same(old: TreeEntry | None, new: TreeEntry | None) -> bool:
    """Whether a deferred content is equal to the content on the other side."""
    return old is not None and new is not None and (old.kind, old.id) == (new.kind, new.id)


def differing(before: "TreeState", after: "TreeState") -> Iterator[bytes]:
    """The paths that differ, or that have no content on one side."""
    return (path for path, _, _ in _differences(before, after))


def _is_below(path: bytes, folder: bytes) -> bool:
    return folder in (path, ROOT) or path.startswith(folder + b"/")


def operation_of(old: TreeEntry | None, new: TreeEntry | None) -> str:
    if old is None:
        return ADD
    if new is None:
        return DELETE
    if _FAMILY.get(old.kind, old.kind) != _FAMILY.get(new.kind, new.kind):
        return TYPE
    return MODE if old.id == new.id else EDIT


def _unstated(state: "TreeState") -> dict[bytes, str]:
    """The paths whose contents the events after a snapshot do not name."""
    return {doubt_bytes(path): reason for path, reason in state.missing}


def _doubts(state: "TreeState") -> dict[bytes, str]:
    """Every path that is not exact."""
    return {doubt_bytes(path): reason for path, reason in state.certainty.paths}


def _reason(unstated: dict[bytes, str], path: bytes) -> str | None:
    """Why a path, or a folder above it, is not known."""
    while unstated:
        if path in unstated:
            return unstated[path]
        path, slash, _ = path.rpartition(b"/")
        if not slash:
            break
    return None


def _skipped(state: "TreeState", entry: TreeEntry | None) -> str | None:
    if entry is None or entry.kind != SKIPPED:
        return None
    return state.blobs.get(entry.id).decode("utf-8", "replace")
