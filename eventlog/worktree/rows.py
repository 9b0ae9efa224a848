"""The rows of a working directory: as its last capture left them, and while a scan brings them up to date.

The stat cache is a tree of directories that is read where it is needed. A directory of it is a number, that
of one in the base (`statcache`), or a `StoredDirectory` in memory: one of the overlay, or one that a scan has
made. What a number stands for is a whole sub-tree of the base, so everything that is alike in two caches is
shared, and none of it is ever changed. A scan loads those directories in which something has changed as
`Directory`, which belongs to it alone. docs/stat-cache.md has the format. On the hook path.
"""

import os
from struct import Struct, pack, unpack

from eventlog.blobs.ids import blob_id, tree_id
from eventlog.blobs.tree import DIRECTORY, PLAIN, SKIPPED, SUBMODULE, encode_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from eventlog.worktree.statcache import BaseRows

    Handle: TypeAlias = "int | StoredDirectory"
    # kind, id, size, stat, tracked, what is below: a directory of the cache, or a loaded one
    # kind, id, size, stat, flag, and of a directory where it is
    Row = tuple[bytes, bytes, int, bytes, bytes, "Handle | Directory | None"]
    StoredRow = tuple[bytes, bytes, int, bytes, bytes, "Handle | None"]
    RootRow = tuple[bytes, bytes, int]  # id, stat, size

LEFT_OUT = ".locusignore leaves it out"
EMPTY_TREE = tree_id(encode_tree(()))

# Is a row's path tracked? KEPT: git ignores it, and it is kept all the same.
NO, YES, KEPT_IGNORED = b"\0", b"\1", b"\2"
LEFT_OUT_ROW = SKIPPED, blob_id(LEFT_OUT.encode())
_DIRS = (DIRECTORY, SUBMODULE)
_DIRECTORY = DIRECTORY[0]

_STAT = Struct("<IQQqq")
STAT_SIZE = _STAT.size
ID_SIZE = 32
_SIZE = Struct("<Q")

UNPROVEN = bytes(STAT_SIZE)
MISSING = b"\xff" * STAT_SIZE
KEPT_FLAG = 2  # the flag of a file that git ignores and that is kept all the same

pack_fields = _STAT.pack  # mode, inode, size, mtime ns, ctime ns

# A directory with all below it: directories (itself included), rows, files, links, submodules, entries `s`,
# kept ignored files, names left out.
TOTALS = 8
DIR_COUNT, ROW_COUNT, FILE_COUNT, LINK_COUNT, SUBMODULE_COUNT, SKIPPED_COUNT, KEPT_COUNT, IGNORED_COUNT = (
    range(TOTALS)
)

_RANGE = 256  # rows


class Unusable(Exception):
    """A cache that is damaged, or contradicts itself, where it is read."""


def pack_stat(file_stat: os.stat_result) -> bytes:
    """The fields that prove a content unchanged."""
    return _STAT.pack(
        file_stat.st_mode, file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns, file_stat.st_ctime_ns
    )


def _cut(column: bytes, size: int) -> "list[bytes]":
    """The values of a column, of `size` bytes each."""
    return [column[at : at + size] for at in range(0, len(column), size)]


class StoredDirectory:
    """The rows of one directory in the order of their names. `below` are its directories, in that order."""

    __slots__ = ("below", "flags", "ids", "ignored", "kinds", "names", "sizes", "stats", "totals")

    def __init__(
        self,
        names: "list[bytes]",
        columns: "Sequence[bytes]",
        below: "list[Handle]",
        ignored: int,
        totals: "tuple[int, ...]" = (),
    ) -> None:
        """Args: columns: stats, sizes, ids, kinds, flags; totals: with all below it, if they are known."""
        self.names = names
        self.stats, self.sizes, self.ids, self.kinds, self.flags = columns
        self.below = below
        self.ignored = ignored  # names left out because git ignores them
        self.totals = totals

    def own_totals(self) -> "tuple[int, ...]":
        """Its totals without what is below it."""
        kinds = self.kinds.translate(PLAIN)
        files = kinds.count(b"f") + kinds.count(b"x")
        skipped, withheld = kinds.count(b"s"), self.flags.count(KEPT_FLAG)
        links, submodules = kinds.count(b"l"), kinds.count(b"m")
        return 1, len(kinds), files, links, submodules, skipped, withheld, self.ignored

    def find(self, name: bytes) -> int:
        """The row of a name, -1 where it has none."""
        try:
            return self.names.index(name)
        except ValueError:
            return -1

    def stat(self, row: int) -> bytes:
        return self.stats[row * STAT_SIZE : (row + 1) * STAT_SIZE]

    def id(self, row: int) -> bytes:
        return self.ids[row * ID_SIZE : (row + 1) * ID_SIZE]

    def kind(self, row: int) -> bytes:
        return self.kinds[row : row + 1]

    def size(self, row: int) -> int:
        size: int = _SIZE.unpack_from(self.sizes, row * 8)[0]
        return size

    def child(self, row: int) -> "Handle":
        """The directory of a row of kind `d`."""
        return self.below[self.kinds.count(b"d", 0, row)]

    def rows(self) -> "dict[bytes, StoredRow]":
        """The row of each name."""
        below = iter(self.below)
        columns = (
            _cut(self.kinds, 1), _cut(self.ids, ID_SIZE), self.all_sizes(), _cut(self.stats, STAT_SIZE),
            _cut(self.flags, 1), [next(below) if kind == _DIRECTORY else None for kind in self.kinds],
        )  # fmt: skip
        return dict(zip(self.names, zip(*columns, strict=True), strict=True))

    def all_sizes(self) -> "tuple[int, ...]":
        return unpack(f"<{len(self.names)}Q", self.sizes)

    def entries(self) -> "Iterator[tuple[bytes, int, bytes, int]]":
        """(name, kind as a number, id, size) of each row: what a tree has of it."""
        return zip(self.names, self.kinds, _cut(self.ids, ID_SIZE), self.all_sizes(), strict=True)

    def with_rows(self, rows: "dict[int, tuple[bytes, bytes, int, bytes]]") -> "StoredDirectory":
        """The same with other contents of some rows, none of them directories: kind, id, size, stat."""
        stats, sizes, ids, kinds = map(bytearray, (self.stats, self.sizes, self.ids, self.kinds))
        for row, (kind, id, size, stat) in rows.items():
            kinds[row : row + 1] = kind
            ids[row * ID_SIZE : (row + 1) * ID_SIZE] = id
            _SIZE.pack_into(sizes, row * 8, size)
            stats[row * STAT_SIZE : (row + 1) * STAT_SIZE] = stat
        columns = [*map(bytes, (stats, sizes, ids, kinds)), self.flags]
        return StoredDirectory(self.names, columns, self.below, self.ignored)


def directory_of(rows: "Sequence[tuple[bytes, Row]]", below: "list[Handle]", ignored: int) -> StoredDirectory:
    """A directory from its rows, in the order of their names; `below` in the same order."""
    if not rows:
        return StoredDirectory([], (b"",) * 5, [], ignored)
    kinds, ids, sizes, stats, flags, _ = zip(*(row for _, row in rows), strict=True)
    sizes_column = pack(f"<{len(sizes)}Q", *sizes)
    columns = (b"".join(stats), sizes_column, b"".join(ids), b"".join(kinds), b"".join(flags))
    return StoredDirectory([name for name, _ in rows], columns, below, ignored)


class RowRange:
    """Some rows that follow one another; `read` gives their paths and their stats."""

    __slots__ = ("count", "read")

    def __init__(self, count: int, read: "Callable[[], tuple[list[bytes], bytes]]") -> None:
        self.count = count
        self.read = read


class Basis:
    """What the rows of a cache rest on: which names belong to the tree, and that its contents are stored.

    Args: tracked: digest of the set of paths that git tracks; generation: how often contents were collected;
    watched: the files that the rules come from, with `watch_stats`, one after another.
    """

    __slots__ = ("generation", "tracked", "watch_stats", "watched")

    def __init__(
        self, tracked: bytes, generation: int, watched: "Sequence[bytes]", watch_stats: bytes
    ) -> None:
        self.tracked = tracked
        self.generation = generation
        self.watched = watched
        self.watch_stats = watch_stats


class StatCache:
    """All rows of a working directory: those of `base`, except where `top` leads to others."""

    def __init__(
        self,
        base: "BaseRows | None",
        top: "Handle",
        *,
        root: "RootRow",
        basis: Basis,
        absent: "Sequence[bytes] | None",
        next_row: int = 0,
    ) -> None:
        """Args: absent: None for those of the base."""
        self.base = base
        self.top = top
        self.root, self.root_stat, self.root_size = root
        self.basis = basis
        self.next_row = next_row
        self._absent = absent
        self._last: "tuple[bytes, StoredDirectory] | None" = None

    @property
    def absent(self) -> "Sequence[bytes]":
        """The tracked paths that have no row."""
        if self._absent is None:
            assert self.base is not None
            self._absent = self.base.absent
        return self._absent

    def close(self) -> None:
        """Close the file of the base, which is otherwise closed with the last reader of it."""
        if self.base is not None and self.base.file is not None:
            self.base.file.close()

    def set_absent(self, absent: "Sequence[bytes]", last: "StatCache | None") -> None:
        """Args: last: the cache before; what it shares with this one is not written again."""
        is_same = last is not None and last.base is self.base and list(absent) == list(last.absent)
        self._absent = last._absent if last is not None and is_same else absent

    @property
    def absent_of_base(self) -> bool:
        """Whether these are those of the base."""
        return self._absent is None or (self.base is not None and self._absent is self.base.known_absent)

    def resumed(self, next_row: int) -> "StatCache":
        """The same, but the next full capture begins at another row."""
        return self._copy(self.top, self.root, next_row)

    def replaced(self, top: StoredDirectory, root: bytes) -> "StatCache":
        """The same with another tree of directories."""
        return self._copy(top, root, self.next_row)

    def _copy(self, top: "Handle", root: bytes, next_row: int) -> "StatCache":
        row = root, self.root_stat, self.root_size
        return StatCache(self.base, top, root=row, basis=self.basis, absent=self._absent, next_row=next_row)

    def directory(self, handle: "Handle") -> StoredDirectory:
        """Raises: Unusable."""
        if isinstance(handle, StoredDirectory):
            return handle
        assert self.base is not None
        return self.base.directory(handle)

    def totals(self, handle: "Handle") -> "tuple[int, ...]":
        """The totals of a directory with all below it. Raises: Unusable."""
        if isinstance(handle, int):
            assert self.base is not None
            return self.base.totals(handle)
        if not handle.totals:
            handle.totals = add(handle.own_totals(), *map(self.totals, handle.below))
        return handle.totals

    def add_totals(self, new: StoredDirectory, old: StoredDirectory) -> None:
        """Give `new`, which replaces `old`, its totals from what differs."""
        came, went = set(new.below).difference(old.below), set(old.below).difference(new.below)
        more = add(new.own_totals(), *map(self.totals, came))
        less = add(old.own_totals(), *map(self.totals, went))
        new.totals = tuple(
            total + plus - minus for total, plus, minus in zip(self.of(old), more, less, strict=True)
        )

    def of(self, directory: StoredDirectory) -> "tuple[int, ...]":
        return directory.totals or self.totals(directory)

    def find(self, path: bytes) -> "tuple[StoredDirectory, int] | None":
        """The directory and the row of a path; None where it has none. Raises: Unusable."""
        above, _, name = path.rpartition(b"/")
        if self._last is None or self._last[0] != above:
            directory = self.directory_at(above)
            if directory is None:
                return None
            self._last = above, directory
        directory = self._last[1]
        row = directory.find(name)
        return None if row < 0 else (directory, row)

    def directory_at(self, path: bytes) -> "StoredDirectory | None":
        """The directory at a path; None where there is none. Raises: Unusable."""
        directory = self.directory(self.top)
        for name in path.split(b"/") if path else ():
            row = directory.find(name)
            if row < 0 or directory.kind(row) != b"d":
                return None
            directory = self.directory(directory.child(row))
        return directory

    def times(self, path: bytes) -> "tuple[int, int, int, int] | None":
        """(size, mtime ns, ctime ns, inode) of a path, None where they are unproven."""
        present = self.find(path)
        stat = UNPROVEN if present is None else present[0].stat(present[1])
        _, inode, size, mtime_ns, ctime_ns = _STAT.unpack(stat)
        return None if stat == UNPROVEN else (size, mtime_ns, ctime_ns, inode)

    def special(self, *columns: int) -> "Iterator[tuple[bytes, StoredDirectory, int]]":
        """(path, directory, row) of submodules, entries `s` and kept files, in the order of rows.

        Only directories with such rows are read. Args: columns: which of these totals count.
        """
        stack: "list[tuple[bytes, Handle]]" = [(b"", self.top)]
        while stack:
            prefix, handle = stack.pop()
            totals = self.totals(handle)
            if not any(totals[column] for column in columns):
                continue
            directory = self.directory(handle)
            for row in _special_rows(directory, columns):
                yield prefix + directory.names[row], directory, row
            stack += [(prefix + name + b"/", below) for name, below in reversed(_below(directory))]

    def rows(self) -> "Iterator[tuple[bytes, StoredDirectory, int]]":
        """(path, directory, row) of every row."""
        stack: "list[tuple[bytes, Handle]]" = [(b"", self.top)]
        while stack:
            prefix, handle = stack.pop()
            directory = self.directory(handle)
            for row, name in enumerate(directory.names):
                yield prefix + name, directory, row
            stack += [(prefix + name + b"/", below) for name, below in reversed(_below(directory))]

    def pieces(self) -> "Iterator[tuple[bytes, StoredDirectory] | tuple[int, int]]":
        """All directories in pre-order: (path with a slash, directory in memory), or [number, number) of the
        base."""
        stack: "list[tuple[bytes, Handle]]" = [(b"", self.top)]
        while stack:
            prefix, handle = stack.pop()
            if isinstance(handle, StoredDirectory):
                yield prefix, handle
                stack += [(prefix + name + b"/", below) for name, below in reversed(_below(handle))]
                continue
            first, end = handle, handle + self.totals(handle)[DIR_COUNT]
            while stack and stack[-1][1] == end:
                end += self.totals(stack.pop()[1])[DIR_COUNT]
            yield first, end

    def row_ranges(self) -> "Iterator[RowRange]":
        """All rows, some hundred at a time."""
        for piece in self.pieces():
            first, second = piece
            if isinstance(second, StoredDirectory):
                yield from _ranges_of(first, second)  # type: ignore[arg-type]
            else:
                assert self.base is not None
                yield from self.base.row_ranges(first, second, _RANGE)  # type: ignore[arg-type]


def add(*totals: "Sequence[int]") -> "tuple[int, ...]":
    """The sum of totals."""
    return tuple(map(sum, zip(*totals, strict=True)))


def split_rows(
    count: int,
    size: int,
    paths: "Callable[[], list[bytes]]",
    stats: "Callable[[int, int], bytes]",
) -> "Iterator[RowRange]":
    """RowRangees of `count` rows. Args: paths: of all of them; stats: of some, from a row on."""
    if count <= 2 * size:
        yield RowRange(count, lambda: (paths(), stats(0, count)))
        return
    read: "list[list[bytes]]" = []  # one large directory: its paths are read once

    def part(at: int, rows: int) -> "tuple[list[bytes], bytes]":
        if not read:
            read.append(paths())
        return read[0][at : at + rows], stats(at, rows)

    for at in range(0, count, size):
        rows = min(size, count - at)
        yield RowRange(rows, lambda at=at, rows=rows: part(at, rows))  # type: ignore[misc]


def _ranges_of(prefix: bytes, directory: StoredDirectory) -> "Iterator[RowRange]":
    if directory.names:
        yield from split_rows(
            len(directory.names),
            _RANGE,
            lambda: [prefix + name for name in directory.names],
            lambda at, rows: directory.stats[at * STAT_SIZE : (at + rows) * STAT_SIZE],
        )


def _below(directory: StoredDirectory) -> "list[tuple[bytes, Handle]]":
    """The names and handles of the directories in a directory."""
    if not directory.below:
        return []
    return list(
        zip(map(directory.names.__getitem__, rows_with(directory.kinds, b"d")), directory.below, strict=True)
    )


def _special_rows(directory: StoredDirectory, columns: "Sequence[int]") -> "list[int]":
    rows: "set[int]" = set()
    for column, table, mark in (
        (SUBMODULE_COUNT, directory.kinds, b"m"),
        (SKIPPED_COUNT, directory.kinds, b"s"),
        (KEPT_COUNT, directory.flags, b"\2"),
    ):
        if column in columns:
            rows.update(rows_with(table, mark))
    return sorted(rows)


def rows_with(table: bytes, mark: bytes) -> "Iterator[int]":
    """The rows that have this byte in a table of one byte for each, ascending."""
    row = table.find(mark)
    while row >= 0:
        yield row
        row = table.find(mark, row + 1)


# -- while a scan brings them up to date -------------------------------------------------------


class Directory:
    """A directory whose rows are loaded, because something in it or below it has changed."""

    __slots__ = (
        "depth",
        "id",
        "ignored",
        "is_complete",
        "kept_ignored",
        "left_out",
        "listing",
        "name",
        "parent",
        "path",
        "proof",
        "refused",
        "rows",
        "size",
        "stat",
        "stored",
        "suspects",
    )

    def __init__(
        self, parent: "Directory | None", name: bytes, stored: "StoredDirectory | None" = None
    ) -> None:
        self.parent = parent
        self.name = name
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.path = join(parent, name) if parent is not None else b""
        self.stored = stored  # as the cache has it; None for a new one
        self.rows: "dict[bytes, Row]" = {}
        self.suspects: "set[bytes]" = set()  # names whose stat is not that of the cache
        self.left_out: "set[bytes]" = set()  # names that `.locusignore` leaves out
        self.kept_ignored: "set[bytes]" = set()  # names that git ignores and that are kept (kept_ignored.py)
        self.ignored = 0  # names that are left out because git ignores them
        self.refused: "dict[bytes, str]" = {}  # names in the tree that stand for others, and why
        self.listing = False
        self.is_complete = True
        self.stat = self.proof = UNPROVEN
        self.id = EMPTY_TREE
        self.size = 0  # of its entry: its mode, where the store keeps modes

    def set_id(self, id: bytes) -> None:
        self.id = id
        if self.parent is not None:
            self.parent.rows[self.name] = (DIRECTORY, id, self.size, self.stat, NO, self)


def join(directory: Directory, name: bytes) -> bytes:
    return directory.path + b"/" + name if directory.path else name


def is_another(row: "Row", is_dir: bool, suspect: bool) -> bool:
    """Whether a directory may have replaced something else, or something else a directory."""
    if row[0] == SKIPPED:
        return suspect and (row[:2] == LEFT_OUT_ROW or row[4] == KEPT_IGNORED)
    return (row[0] in _DIRS) != is_dir


def tables_of(
    cache: "StatCache | None",
    top: Directory,
    tracked: bytes,
    watched: "Sequence[tuple[bytes, bytes]]",
    generation: int,
    next_row: int,
) -> StatCache:
    """The cache with the rows of a scan, its absent paths not set yet.

    Args: cache: the last one; top: the directory above the root; tracked: digest of what git tracks; watched:
        (path, stat).
    """
    _, id, size, root_stat, _, root = top.rows[b""]
    assert isinstance(root, Directory)
    watch_stats = b"".join(stat for _, stat in watched)
    basis = Basis(tracked, generation, [path for path, _ in watched], watch_stats)
    base = None if cache is None else cache.base
    tables = StatCache(base, 0, root=(id, root_stat, size), basis=basis, absent=(), next_row=next_row)
    tables.top = _stored(tables, root)
    return tables


def _stored(tables: StatCache, root: Directory) -> "Handle":
    """The loaded directories as the cache has them, made from the last one on."""
    made: "dict[Directory, Handle]" = {}
    directories = [root]
    for directory in directories:
        directories += [row[5] for row in directory.rows.values() if isinstance(row[5], Directory)]
    for directory in reversed(directories):
        rows = sorted(directory.rows.items())
        below = [row[5] for _, row in rows if row[5] is not None]
        handles: "list[Handle]" = [made[sub] if isinstance(sub, Directory) else sub for sub in below]
        stored = directory_of(rows, handles, directory.ignored)
        if directory.stored is not None:
            tables.add_totals(stored, directory.stored)
        else:
            tables.totals(stored)
        made[directory] = stored
    return made[root]
