"""The rows of a working directory as its last capture left them: a tree of directories, read where it is needed.

A directory is a number, that of one in the base (`base_rows`), or a `StoredDirectory` in memory: one of the
overlay, or one that a scan has just made. What a number stands for is a whole sub-tree of the base, so
everything that is alike in two caches is shared, and nothing is ever changed. The format is described in
docs/stat-cache.md. On the hook path.
"""

import os
from bisect import bisect_left
from struct import Struct, pack

from eventlog.blobs.tree import PLAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from eventlog.worktree.base_rows import BaseRows
    from eventlog.worktree.rows import Row

    Handle: TypeAlias = "int | StoredDirectory"

_STAT = Struct("<IQQqq")
STAT_SIZE = _STAT.size
ID_SIZE = 32
_SIZE = Struct("<Q")

UNPROVEN = bytes(STAT_SIZE)
MISSING = b"\xff" * STAT_SIZE
KEPT = 2  # the flag of a file that git ignores and that is kept all the same

pack_fields = _STAT.pack  # mode, inode, size, mtime ns, ctime ns
unpack_fields = _STAT.unpack

# A directory with all below it: directories (itself included), rows, files, links, submodules, entries `s`,
# kept ignored files, names left out.
TOTALS = 8
DIRS, ROWS, FILES, LINKS, SUBMODULES, SKIPPED, KEPT_FILES, IGNORED = range(TOTALS)

_STRETCH = 256  # rows


class Unusable(Exception):
    """A cache that is damaged, or contradicts itself, where it is read."""


def pack_stat(file_stat: os.stat_result) -> bytes:
    """The fields that prove a content unchanged."""
    return _STAT.pack(
        file_stat.st_mode, file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns, file_stat.st_ctime_ns
    )


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
        skipped, kept = kinds.count(b"s"), self.flags.count(KEPT)
        links, submodules = kinds.count(b"l"), kinds.count(b"m")
        return 1, len(kinds), files, links, submodules, skipped, kept, self.ignored

    def find(self, name: bytes) -> int:
        """The row of a name, -1 where it has none."""
        row = bisect_left(self.names, name)
        return row if row < len(self.names) and self.names[row] == name else -1

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

    def items(self) -> "Iterator[tuple[bytes, bytes, bytes, int, bytes, bytes, Handle | None]]":
        """(name, kind, id, size, stat, flag, directory) of each row."""
        below = iter(self.below)
        for row, name in enumerate(self.names):
            kind = self.kinds[row : row + 1]
            handle = next(below) if kind == b"d" else None
            yield name, kind, self.id(row), self.size(row), self.stat(row), self.flags[row : row + 1], handle

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


class Stretch:
    """Some rows that follow one another; `read` gives their paths and their stats."""

    __slots__ = ("count", "read")

    def __init__(self, count: int, read: "Callable[[], tuple[list[bytes], bytes]]") -> None:
        self.count = count
        self.read = read


class StatCache:
    """All rows of a working directory: those of `base`, except where `top` leads to others."""

    def __init__(
        self,
        base: "BaseRows | None",
        top: "Handle",
        *,
        root: bytes,
        root_stat: bytes,
        root_size: int,
        tracked: bytes,
        generation: int,
        watched: "Sequence[bytes]",
        watch_stats: bytes,
        absent: "Sequence[bytes] | None",
        next_row: int = 0,
    ) -> None:
        """Args: tracked: digest of the set of paths that git tracks; absent: None for those of the base."""
        self.base = base
        self.top = top
        self.root = root
        self.root_stat = root_stat
        self.root_size = root_size
        self.tracked = tracked
        self.generation = generation
        self.watched = watched
        self.watch_stats = watch_stats
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
        """The same, but the next full look begins at another row."""
        return self._copy(self.top, self.root, next_row)

    def replaced(self, top: StoredDirectory, root: bytes) -> "StatCache":
        """The same with another tree of directories."""
        return self._copy(top, root, self.next_row)

    def _copy(self, top: "Handle", root: bytes, next_row: int) -> "StatCache":
        return StatCache(
            self.base, top, root=root, root_stat=self.root_stat, root_size=self.root_size,
            tracked=self.tracked, generation=self.generation, watched=self.watched,
            watch_stats=self.watch_stats, absent=self._absent, next_row=next_row,
        )  # fmt: skip

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
        found = self.find(path)
        stat = UNPROVEN if found is None else found[0].stat(found[1])
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
            first, end = handle, handle + self.totals(handle)[DIRS]
            while stack and stack[-1][1] == end:
                end += self.totals(stack.pop()[1])[DIRS]
            yield first, end

    def stretches(self) -> "Iterator[Stretch]":
        """All rows, some hundred at a time."""
        for piece in self.pieces():
            first, second = piece
            if isinstance(second, StoredDirectory):
                yield from _stretches_of(first, second)  # type: ignore[arg-type]
            else:
                assert self.base is not None
                yield from self.base.stretches(first, second, _STRETCH)  # type: ignore[arg-type]


def add(*totals: "Sequence[int]") -> "tuple[int, ...]":
    """The sum of totals."""
    return tuple(map(sum, zip(*totals, strict=True)))


def split_stretch(
    count: int,
    size: int,
    paths: "Callable[[], list[bytes]]",
    stats: "Callable[[int, int], bytes]",
) -> "Iterator[Stretch]":
    """Stretches of `count` rows. Args: paths: of all of them; stats: of some, from a row on."""
    if count <= 2 * size:
        yield Stretch(count, lambda: (paths(), stats(0, count)))
        return
    read: "list[list[bytes]]" = []  # one large directory: its paths are read once

    def part(at: int, rows: int) -> "tuple[list[bytes], bytes]":
        if not read:
            read.append(paths())
        return read[0][at : at + rows], stats(at, rows)

    for at in range(0, count, size):
        rows = min(size, count - at)
        yield Stretch(rows, lambda at=at, rows=rows: part(at, rows))  # type: ignore[misc]


def _stretches_of(prefix: bytes, directory: StoredDirectory) -> "Iterator[Stretch]":
    if directory.names:
        yield from split_stretch(
            len(directory.names),
            _STRETCH,
            lambda: [prefix + name for name in directory.names],
            lambda at, rows: directory.stats[at * STAT_SIZE : (at + rows) * STAT_SIZE],
        )


def _below(directory: StoredDirectory) -> "list[tuple[bytes, Handle]]":
    """The names and handles of the directories in a directory."""
    if not directory.below:
        return []
    return list(zip(map(directory.names.__getitem__, rows_with(directory.kinds, b"d")), directory.below, strict=True))


def _special_rows(directory: StoredDirectory, columns: "Sequence[int]") -> "list[int]":
    rows: "set[int]" = set()
    for column, table, mark in (
        (SUBMODULES, directory.kinds, b"m"),
        (SKIPPED, directory.kinds, b"s"),
        (KEPT_FILES, directory.flags, b"\2"),
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
