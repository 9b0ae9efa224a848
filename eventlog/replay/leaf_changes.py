"""The differences between two trees, file by file, so that they make one tree of the other (docs/view.md).

`compare` answers what a person asks for, and leaves out what is not known. Here a path that was not captured
is an entry like any other, and so is an empty directory: applied in order to the files of the first tree, the
changes give those of the second, exactly. Equal directories are skipped. Pure but for reading trees.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from eventlog.base.errors import NotFound, Refused
from eventlog.blobs.extent import DEPTH_MAX
from eventlog.blobs.tree import DIRECTORY, SKIPPED, TreeEntry
from eventlog.replay.compare import DELETE, PathChange, operation_of, with_renames
from eventlog.replay.deferred import hashed

if TYPE_CHECKING:
    from eventlog.replay.trees import TreeState

_Pair = tuple[bytes, TreeEntry | None, TreeEntry | None]


class TooManyChanges(Refused):
    """More paths differ than the caller wants to know."""


class LeafChange(NamedTuple):
    """A path that differs. `entry` is what is there then, None where nothing is.

    `operation` is that of `PathChange`. `reason` says why a content was not captured. An entry that is a
    directory is an empty one.
    """

    path: bytes
    operation: str
    entry: TreeEntry | None
    old_path: bytes | None = None
    reason: str | None = None


class LeafChanges(NamedTuple):
    """How the files of one tree become those of another.

    `added` is by how many files there are more (fewer, where it is negative). `lasting` says that both trees
    will always give the same: none of these contents can still become known.
    """

    changes: tuple[LeafChange, ...]
    added: int
    lasting: bool


def leaf_changes(before: "TreeState | None", after: "TreeState", most: int) -> LeafChanges:
    """The changes from `before`, or from the empty tree, to `after`.

    Raises: TooManyChanges (more than `most`), NotFound and Corruption when a tree cannot be read.
    """
    walk = _Walk(before, after, most)
    listed: list[PathChange] = []
    added = 0
    for path, old, new in walk.differences():
        added += _is_file(new) - _is_file(old)
        listed.append(PathChange(path, operation_of(old, new), old, new))
    listed.sort(key=lambda change: change.path)
    changes = with_renames(listed) if before is not None else listed
    return LeafChanges(tuple(_leaf(change, after) for change in changes), added, walk.lasting)


def _leaf(change: PathChange, after: "TreeState") -> LeafChange:
    entry = None if change.operation == DELETE else change.after
    reason = None if entry is None or entry.kind != SKIPPED else reason_of(after, entry)
    return LeafChange(change.path, change.operation, entry, change.old_path, reason)


def reason_of(state: "TreeState", entry: TreeEntry) -> str:
    """Why the content of an entry was not captured."""
    try:
        return state.blobs.get(entry.id).decode("utf-8", "replace")
    except NotFound as error:
        return str(error)


def _is_file(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.kind != DIRECTORY


class _Walk:
    """Two trees, side by side."""

    def __init__(self, before: "TreeState | None", after: "TreeState", most: int) -> None:
        self._before = before
        self._after = after
        self._left = most
        self.lasting = True

    def differences(self) -> Iterator[_Pair]:
        """(path, entry before, entry after) of each file, symlink, submodule and empty directory."""
        stack: list[_Pair] = [
            (
                b"",
                None if self._before is None else TreeEntry(b"", DIRECTORY, self._before.root),
                TreeEntry(b"", DIRECTORY, self._after.root),
            )
        ]
        while stack:
            path, old, new = stack.pop()
            below_old = _below(self._before, old)
            below_new = _below(self._after, new)
            prefix = path + b"/" if path else b""
            if prefix.count(b"/") > DEPTH_MAX:
                raise Refused(f"directories are nested deeper than {DEPTH_MAX} levels at {path[:80]!r}…")
            stack += _differing(prefix, below_old, below_new)
            old = None if below_old or not path else self._leaf(self._before, old, path)
            new = None if below_new or not path else self._leaf(self._after, new, path)
            if not _are_same(old, new):
                self._left -= 1
                yield path, old, new
            if self._left < len(stack):
                raise TooManyChanges("more files differ than can be listed")

    def _leaf(self, state: "TreeState | None", entry: TreeEntry | None, path: bytes) -> TreeEntry | None:
        """The entry with the id of its content, as far as that is known by now."""
        if state is None or entry is None or entry.kind != SKIPPED:
            return entry
        known = state.deferred.entry(entry, path)
        self.lasting = self.lasting and not state.deferred.is_deferred(entry)
        try:
            return hashed(state.blobs, known)
        except NotFound:
            return known  # the code that shows its content reports why


def _below(state: "TreeState | None", entry: TreeEntry | None) -> tuple[TreeEntry, ...]:
    """What is in a directory; nothing in a file."""
    if state is None or entry is None or entry.kind != DIRECTORY:
        return ()
    return state.stored_tree(entry.id)


def _differing(prefix: bytes, before: Iterable[TreeEntry], after: Iterable[TreeEntry]) -> Iterator[_Pair]:
    old = {entry.name: entry for entry in before}
    for entry in after:
        was = old.pop(entry.name, None)
        if was is None or (was.kind, was.id) != (entry.kind, entry.id):
            yield prefix + entry.name, was, entry
    yield from ((prefix + name, entry, None) for name, entry in old.items())


def _are_same(old: TreeEntry | None, new: TreeEntry | None) -> bool:
    """Whether nothing differs: also where a deferred content equals the one on the other side."""
    if old is None or new is None:
        return old is new
    return (old.kind, old.id) == (new.kind, new.id)
