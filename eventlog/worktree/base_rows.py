"""The base of a stat cache: all rows in one file, of which only the blocks that are needed are read.

docs/stat-cache.md has the format. A block is checked against its digest when it is read from the disk; one that
fails ends the use of the whole cache. The file is read by position and not mapped: a disk that fails answers
a mapping with a signal. On the hook path.
"""

from bisect import bisect_right
from struct import Struct, unpack

from blake3 import blake3

from eventlog.worktree.stored_rows import (
    DIRS, ID_SIZE, ROWS, STAT_SIZE, StatCache, StoredDirectory, Stretch, Unusable, split_stretch,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eventlog.base.fs import FileSystem
    from eventlog.worktree.statcache import CacheKey

MAGIC = b"\x89EVS"
VERSION = 4
# magic, version, flags, store id, worktree, options, tracked set, root tree, its stat and size, generation,
# next row, directories, rows, watched files, absent paths, bytes of paths and of names
HEAD = Struct("<4sHH16s16s16s16s32s36sQQIIIIIQQ")
DIGEST_SIZE = 16
BLOCK_SIZE = 16 << 10
_BLOCKS_KEPT = 64
_DIRECTORIES_KEPT = 64
# first row, rows, own bytes of a path, where its paths begin, names left out, and the totals
_DIR = Struct("<IIIQI8I")
_DIRS_AT_ONCE = 128
_ROW_SIZES = (STAT_SIZE, 8, ID_SIZE, 1, 1, 4)
_STATS, _SIZES, _IDS, _KINDS, _FLAGS, _BELOW = range(6)


class BaseRows:
    """The tables of one base. `read(offset, size)` gives their bytes, and raises Unusable."""

    def __init__(self, head: "tuple[int, ...]", read: "Callable[[int, int], bytes]", identity: bytes) -> None:
        """Args: head: the counts and sizes, in the order of the head's."""
        self.dirs, self.row_count, watched, absent, self._paths_size, names_size = head
        self.identity = identity
        self.size = 0
        self.known_absent: "Sequence[bytes] | None" = None
        self.file: "OpenFile | None" = None  # from which it is read
        self._counts = watched, absent
        self._read = read
        starts, offset = [], self.dirs * _DIR.size
        for size in _ROW_SIZES:
            starts.append(offset)
            offset += self.row_count * size
        self._starts = starts
        self._watch_at = offset
        self._paths_at = offset + watched * STAT_SIZE
        self._directories: "dict[int, StoredDirectory]" = {}
        self._names = self._paths_at + self._paths_size, names_size
        self.size = sum(self._names)

    @property
    def absent(self) -> "Sequence[bytes]":
        if self.known_absent is None:
            self.known_absent = self.names()[self._counts[0] : -1]
        return self.known_absent

    def names(self) -> "list[bytes]":
        """The watched files, the absent paths, and the working directory."""
        names = self._read(*self._names).split(b"\0")
        if len(names) != sum(self._counts) + 1:
            raise Unusable
        return names

    def watch_stats(self) -> bytes:
        return self._read(self._watch_at, self._counts[0] * STAT_SIZE)

    def column(self, column: int, first: int, count: int) -> bytes:
        size = _ROW_SIZES[column]
        return self._read(self._starts[column] + first * size, count * size)

    def entry(self, number: int) -> "tuple[int, ...]":
        """The entry of a directory in the table of directories."""
        if not 0 <= number < self.dirs:
            raise Unusable
        entry = _DIR.unpack(self._read(number * _DIR.size, _DIR.size))
        if entry[0] + entry[5 + ROWS] > self.row_count or not 0 < entry[5 + DIRS] <= self.dirs - number:
            raise Unusable
        return entry

    def totals(self, number: int) -> "tuple[int, ...]":
        return self.entry(number)[5:]

    def directory(self, number: int) -> StoredDirectory:
        """The rows of a directory."""
        directory = self._directories.get(number)
        if directory is None:
            if len(self._directories) >= _DIRECTORIES_KEPT:
                self._directories.clear()
            directory = self._directories[number] = self._read_directory(number)
        return directory

    def _read_directory(self, number: int) -> StoredDirectory:
        first, count, prefix, start, ignored, *totals = self.entry(number)
        paths = self._paths(start, self._paths_end(number + 1), count)
        if count > totals[ROWS] or len(paths) != count:
            raise Unusable
        columns = [self.column(column, first, count) for column in range(_BELOW)]
        steps = filter(None, unpack(f"<{count}I", self.column(_BELOW, first, count)))
        below: "list[int | StoredDirectory]" = [number + step for step in steps]
        if len(below) != columns[_KINDS].count(b"d") or (below and max(below) >= number + totals[DIRS]):  # type: ignore[type-var, operator]
            raise Unusable
        return StoredDirectory([path[prefix:] for path in paths], columns, below, ignored, tuple(totals))

    def stretches(self, number: int, end: int, size: int) -> "Iterator[Stretch]":
        """The rows of the directories [number, end), about `size` at a time."""
        first = count = start = 0
        for entry in self._entries(number, end):
            if count and count + entry[1] > size:
                yield from self._stretches(first, count, start, entry[3], size)
                count = 0
            if count == 0:
                first, start = entry[0], entry[3]
            count += entry[1]
        if count:
            yield from self._stretches(first, count, start, self._paths_end(end), size)

    def _stretches(self, first: int, count: int, start: int, end: int, size: int) -> "Iterator[Stretch]":
        """Rows whose paths are [start, end): one stretch, or those of one large directory."""
        return split_stretch(
            count,
            size,
            lambda: self._paths(start, end, count),
            lambda at, rows: self.column(_STATS, first + at, rows),
        )

    def _entries(self, number: int, end: int) -> "Iterator[tuple[int, ...]]":
        for at in range(number, end, _DIRS_AT_ONCE):
            table = self._read(at * _DIR.size, (min(end, at + _DIRS_AT_ONCE) - at) * _DIR.size)
            yield from _DIR.iter_unpack(table)

    def _paths(self, start: int, end: int, count: int) -> "list[bytes]":
        if not 0 <= start <= end <= self._paths_size:
            raise Unusable
        paths = self._read(self._paths_at + start, end - start).split(b"\0")
        if len(paths) != count + 1 or paths.pop():
            raise Unusable
        return paths

    def _paths_end(self, number: int) -> int:
        return self.entry(number)[3] if number < self.dirs else self._paths_size

    def copy(self, number: int, end: int, into: "BaseTables") -> None:
        """Add the directories [number, end), which are whole sub-trees, to the tables of another base."""
        first, start = self.entry(number)[0], self.entry(number)[3]
        stop = self.entry(end)[0] if end < self.dirs else self.row_count
        rows, paths = into.row_count - first, into.paths_size - start
        for entry in self._entries(number, end):
            into.dirs.append(_DIR.pack(entry[0] + rows, *entry[1:3], entry[3] + paths, *entry[4:]))
        columns = [self.column(column, first, stop - first) for column in range(len(_ROW_SIZES))]
        stop_paths = self._paths_end(end)
        into.add(columns, self._read(self._paths_at + start, stop_paths - start))


class BaseTables:
    """A base that is being written."""

    def __init__(self) -> None:
        self.row_count = self.paths_size = 0
        self.dirs: "list[bytes]" = []
        self.columns: "list[list[bytes]]" = [[] for _ in _ROW_SIZES]
        self.paths: "list[bytes]" = []

    def add(self, columns: "Sequence[bytes]", paths: bytes) -> None:
        for parts, column in zip(self.columns, columns, strict=True):
            parts.append(column)
        self.paths.append(paths)
        self.row_count += len(columns[_KINDS])
        self.paths_size += len(paths)

    def add_directory(self, cache: StatCache, prefix: bytes, directory: StoredDirectory) -> None:
        self.dirs.append(
            _DIR.pack(
                self.row_count,
                len(directory.names),
                len(prefix),
                self.paths_size,
                directory.ignored,
                *cache.of(directory),
            )
        )
        steps, step = [], 1
        for below in directory.below:
            steps.append(step)
            step += cache.totals(below)[DIRS]
        numbers = iter(steps)
        steps_column = b"".join(
            (next(numbers) if kind == _D else 0).to_bytes(4, "little") for kind in directory.kinds
        )
        columns = (
            directory.stats, directory.sizes, directory.ids, directory.kinds, directory.flags, steps_column,
        )  # fmt: skip
        self.add(columns, b"".join(prefix + name + b"\0" for name in directory.names))


_D = ord("d")


def encode_base(cache: StatCache, key: "CacheKey") -> bytes:
    """The bytes of a base with all rows of a cache. Raises: Unusable."""
    tables = BaseTables()
    for piece in cache.pieces():
        first, second = piece
        if isinstance(second, StoredDirectory):
            tables.add_directory(cache, first, second)  # type: ignore[arg-type]
        else:
            assert cache.base is not None
            cache.base.copy(first, second, tables)  # type: ignore[arg-type]
    paths = b"".join(tables.paths)
    names = b"\0".join((*cache.watched, *cache.absent, key.path))
    columns = (b"".join(column) for column in tables.columns)
    body = b"".join((*tables.dirs, *columns, cache.watch_stats, paths, names))
    head = HEAD.pack(
        MAGIC, VERSION, 0, key.store_id, key.worktree, key.options, cache.tracked, cache.root,
        cache.root_stat, cache.root_size, cache.generation, cache.next_row, len(tables.dirs),
        tables.row_count, len(cache.watched), len(cache.absent), len(paths), len(names),
    )  # fmt: skip
    view = memoryview(body)
    blocks = range(0, len(body), BLOCK_SIZE)
    head += b"".join(blake3(view[at : at + BLOCK_SIZE]).digest(DIGEST_SIZE) for at in blocks)
    return head + blake3(head).digest(DIGEST_SIZE) + body


class Blocks:
    """The blocks of a file's tables, checked when they are read."""

    def __init__(self, read: "Callable[[int, int], bytes]", start: int, size: int, digests: bytes) -> None:
        """Args: read: the bytes at (size, offset) of the file; start, size: of the tables in it."""
        self._read = read
        self._start = start
        self._size = size
        self._digests = digests
        self._kept: "dict[int, bytes]" = {}

    def read(self, offset: int, size: int) -> bytes:
        """Raises: Unusable."""
        if size <= 0:
            return b""
        if offset < 0 or offset + size > self._size:
            raise Unusable
        number, within = divmod(offset, BLOCK_SIZE)
        if within + size <= BLOCK_SIZE:
            return self._block(number)[within : within + size]
        blocks = range(number, (offset + size - 1) // BLOCK_SIZE + 1)
        return b"".join(map(self._block, blocks))[within : within + size]

    def _block(self, number: int) -> bytes:
        block = self._kept.get(number)
        if block is None:
            at = number * BLOCK_SIZE
            try:
                block = self._read(min(BLOCK_SIZE, self._size - at), self._start + at)
            except OSError as error:
                raise Unusable from error
            digest = self._digests[number * DIGEST_SIZE : (number + 1) * DIGEST_SIZE]
            if blake3(block).digest(DIGEST_SIZE) != digest:
                raise Unusable
            if len(self._kept) >= _BLOCKS_KEPT:
                self._kept.clear()
            self._kept[number] = block
        return block


class OpenFile:
    """A descriptor that goes with the last reader of the base."""

    __slots__ = ("_fs", "fd")

    def __init__(self, fs: "FileSystem", path: str, flags: int) -> None:
        self._fs = fs
        self.fd = -1
        self.fd = fs.open(path, flags)

    def read(self, size: int, offset: int) -> bytes:
        return self._fs.pread(self.fd, size, offset)

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            self._fs.close(fd)

    def __del__(self) -> None:
        try:
            self.close()
        except OSError:
            pass  # somebody has closed all descriptors


def decode_base(
    read: "Callable[[int, int], bytes]", size: int, store_id: bytes, worktree: bytes
) -> "tuple[StatCache, bytes] | None":
    """The cache of a base without its overlay, and its options; None for any other bytes.

    Args: read: the bytes at (size, offset) of the file; size: that of the file. Raises: OSError.
    """
    head = read(HEAD.size, 0)
    if len(head) < HEAD.size:
        return None
    magic, version, _, store, tree, options, tracked, root, root_stat, root_size, generation, next_row, *counts = (
        HEAD.unpack(head)
    )
    if (magic, version, store, tree) != (MAGIC, VERSION, store_id, worktree):
        return None
    blocks = _block_count(size)
    digests = read(blocks * DIGEST_SIZE + DIGEST_SIZE, HEAD.size)
    identity = digests[-DIGEST_SIZE:]
    digests = digests[:-DIGEST_SIZE]
    if blake3(head + digests).digest(DIGEST_SIZE) != identity:
        return None
    start = HEAD.size + len(digests) + DIGEST_SIZE
    tables = Blocks(read, start, size - start, digests)
    base = BaseRows(tuple(counts), tables.read, identity)
    if base.size != size - start:
        return None
    try:
        names = base.names()
        cache = StatCache(
            base, 0, root=root, root_stat=root_stat, root_size=root_size, tracked=tracked,
            generation=generation, watched=names[: counts[2]], watch_stats=base.watch_stats(), absent=None,
            next_row=next_row,
        )  # fmt: skip
    except Unusable:
        return None
    base.known_absent = names[counts[2] : -1]
    return cache, options


def _block_count(size: int) -> int:
    """How many blocks the tables of a file of this size have."""
    tables = size - HEAD.size - DIGEST_SIZE
    return max(0, -(-tables // (BLOCK_SIZE + DIGEST_SIZE)))
