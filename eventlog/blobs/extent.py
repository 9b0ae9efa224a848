"""How many files and bytes a tree is when it is written out, counted without doing so.

A few directories can name any number of files: ten levels that each name the one below a thousand times
are 10^30. So each distinct directory is read once and counted once, and what it adds up to serves wherever
it is named again. The work depends on what is stored, not on what it expands to.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from eventlog.base.errors import EventLogError, Refused
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, SKIPPED, SUBMODULE, SYMLINK, TreeEntry

DEPTH_MAX = 2_048  # PATH_MAX allows no deeper working tree to be captured
ENTRIES_MAX = 10_000_000  # of a tree that is written out, listed or compared
WALKED_MAX = 10_000  # entries that a walk meets before it counts what the whole tree is

_NOT_WRITTEN = "nothing was written"

# The wanted names of one directory, each with the wish for what is below it. The empty name, which no
# file has, means that all of the directory is wanted; so does no wish at all.
Wish = dict[bytes, Any]
ALL = b""

Entries = Sequence[TreeEntry]
# The entries of each directory by its id, or why they cannot be read.
Directories = Mapping[bytes, "Entries | str"]

WITHOUT_CONTENT = frozenset((SYMLINK, SUBMODULE, SKIPPED))


class Extent(NamedTuple):
    """What a tree is when it is written out: names, bytes of its files, levels of directories."""

    entries: int
    bytes: int
    depth: int


def wish_of(paths: Sequence[bytes]) -> Wish | None:
    """Paths as nested names. The empty path and `.` name the whole tree."""
    wish: Wish = {}
    for path in paths:
        level = wish
        for name in path.split(b"/"):
            if name not in (b"", b"."):
                level = level.setdefault(name, {})
        level[ALL] = {}
    return wish or None


def wanted_of(entries: Entries, wish: Wish | None) -> list[tuple[TreeEntry, Wish | None]]:
    """The wanted entries of a directory, each with the wish for what is below it."""
    if not wish:
        return [(entry, None) for entry in entries]
    return [(entry, wish.get(entry[0])) for entry in entries if ALL in wish or entry[0] in wish]


def read_directories(
    blobs: BlobStore,
    get: Callable[[bytes], Entries],
    top: Entries,
    wish: Wish | None,
    entries_max: int,
    undone: str = _NOT_WRITTEN,
) -> dict[bytes, Entries | str]:
    """Every distinct wanted directory below `top`, each read once.

    Raises: Refused when they alone are too many, or too deep; `undone` names what is not done then.
    """
    read: dict[bytes, Entries | str] = {}
    count = 0
    seen: set[tuple[bytes, int]] = set()
    level: list[tuple[Entries, Wish | None]] = [(top, wish)]
    for _ in range(DEPTH_MAX):
        below: list[tuple[bytes, Wish | None]] = []
        for entries, part in level:
            for entry, wanted in wanted_of(entries, part):
                if entry[1] == DIRECTORY and _key(entry[2], wanted) not in seen:
                    seen.add(_key(entry[2], wanted))
                    below.append((entry[2], wanted))
        if not below:
            return read
        for id in blobs.read_order({id for id, _ in below} - read.keys()):
            try:
                read[id] = listed = get(id)
            except EventLogError as error:
                read[id] = f"its list of names cannot be read: {error}"
                continue
            count += len(listed)
            if count > entries_max:
                raise too_many(entries_max, undone)
        level = [(names, wanted) for id, wanted in below if not isinstance(names := read[id], str)]
    raise too_deep(undone)


def extent_of(
    top: Entries, wish: Wish | None, directories: Directories, lengths: Mapping[bytes, int]
) -> Extent:
    """What the wanted part of a tree adds up to.

    Args: lengths: of contents, by id. For a content that is not in it the size in the tree counts.
    """
    done: dict[tuple[bytes, int], Extent] = {}
    top_key = (b"", 0)
    stack: list[tuple[tuple[bytes, int], Entries, Wish | None]] = [(top_key, top, wish)]
    while stack:
        key, entries, part = stack[-1]
        if key in done:
            stack.pop()
            continue
        count = size = depth = 0
        uncounted = {}
        for (_, kind, id, claimed), wanted in wanted_of(entries, part):
            count += 1
            if kind == DIRECTORY:
                below = _key(id, wanted)
                listed = directories.get(id, "")
                if isinstance(listed, str):
                    continue  # it cannot be read, and is reported as missing
                if below not in done:
                    uncounted[below] = (below, listed, wanted)
                    continue
                count += done[below].entries
                size += done[below].bytes
                depth = max(depth, done[below].depth)
            elif kind not in WITHOUT_CONTENT:
                size += lengths.get(id, claimed)
        if uncounted:
            stack += uncounted.values()
        else:
            done[key] = Extent(count, size, depth + 1)
    return done[top_key]


def _key(tree: bytes, wish: Wish | None) -> tuple[bytes, int]:
    """A directory together with what is wanted of it."""
    return tree, id(wish) if wish and wish.keys() != {ALL} else 0


class Walk:
    """How much of some trees a walk has met; one that is too large is refused before it is walked on (P4).

    A short walk costs no count. Args: trees: a reader and the root of each; undone: what is not done then.
    """

    def __init__(
        self, blobs: BlobStore, trees: Iterable[tuple[Callable[[bytes], Entries], bytes]], undone: str
    ) -> None:
        self._blobs = blobs
        self._trees = tuple(trees)
        self._undone = undone
        self._left = WALKED_MAX

    def met(self, entries: int) -> None:
        """The walk goes on over so many entries. Raises: Refused."""
        self._left -= entries
        if self._left >= 0 or not self._trees:
            return
        trees, self._trees = self._trees, ()
        for get, root in trees:
            refuse_too_large(self._blobs, get, root, None, self._undone)


def refuse_too_large(
    blobs: BlobStore, get: Callable[[bytes], Entries], root: bytes, wish: Wish | None, undone: str
) -> tuple[Entries, Directories]:
    """The root of a tree and its wanted directories. Raises: Refused when they are too much to walk."""
    top = get(root)
    directories = read_directories(blobs, get, top, wish, ENTRIES_MAX, undone)
    allowed_extent(top, wish, directories, {}, undone)
    return top, directories


def allowed_extent(
    top: Entries,
    wish: Wish | None,
    directories: Directories,
    lengths: Mapping[bytes, int],
    undone: str = _NOT_WRITTEN,
) -> Extent:
    """What `extent_of` adds up to. Raises: Refused when that is too much."""
    extent = extent_of(top, wish, directories, lengths)
    if extent.entries > ENTRIES_MAX:
        raise too_many(ENTRIES_MAX, undone)
    if extent.depth > DEPTH_MAX:
        raise too_deep(undone)
    return extent


def too_many(entries_max: int, undone: str = _NOT_WRITTEN) -> Refused:
    return Refused(f"the tree holds more than {entries_max} files; {undone}")


def too_deep(undone: str = _NOT_WRITTEN) -> Refused:
    return Refused(f"the tree is more than {DEPTH_MAX} directories deep; {undone}")
