"""The stat cache: the stat, kind and id of every path at the last capture of a working directory.

Two files for each working directory, a base and an overlay; docs/stat-cache.md has their format. Derived:
deleting them costs time and changes no answer (I22); one that is damaged, foreign, or of another format
counts as absent.

Any process may load or save at any time: the last one wins, and whatever pair of files is there is true of
its own moment. On the hook path.
"""

import os
from struct import Struct, pack, unpack
from struct import error as StructError

from blake3 import blake3

from eventlog.base.fs import FileSystem, opened, read_file, write_all
from eventlog.base.layout import Layout
from eventlog.worktree.rows import (
    DIR_COUNT,
    ID_SIZE,
    ROW_COUNT,
    STAT_SIZE,
    TOTALS,
    Basis,
    RowRange,
    StatCache,
    StoredDirectory,
    Unusable,
    split_rows,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eventlog.worktree.rows import Handle
    from eventlog.worktree.statcache_upkeep import BaseTables

MAGIC = b"\x89EVS"
VERSION = 4
# magic, version, flags, store id, worktree, options, tracked set, root tree, its stat and size, generation,
# next row, directories, rows, watched files, absent paths, bytes of paths and of names
HEAD = Struct("<4sHH16s16s16s16s32s36sQQIIIIIQQ")
DIGEST_SIZE = 16
BLOCK_SIZE = 16 << 10
_BLOCKS_MAX = 64
_DIRECTORIES_MAX = 64
# first row, rows, own bytes of a path, where its paths begin, names left out, and the totals
BASE_DIR = Struct("<IIIQI8I")
_DIRS_AT_ONCE = 128
BASE_ROW_SIZES = (STAT_SIZE, 8, ID_SIZE, 1, 1, 4)
_STATS, _SIZES, _IDS, _KINDS, _FLAGS, _BELOW = range(6)

_OVERLAY_MAGIC = b"\x89EVO"
# magic, version, flags, identity of the base, tracked set, root tree, its stat and size, generation,
# next row, directories, rows, watched files, absent paths, rows of directories, bytes of names of rows and of
# names
_OVERLAY_HEAD = Struct("<4sHH16s16s32s36sQQIIIIIIQQ")
_OVERLAY_DIR = Struct(f"<II{TOTALS}I")
_INT = Struct("<I")
_OF_BASE = 0xFFFFFFFF
_OVERLAY_ROW_SIZES = (STAT_SIZE, 8, ID_SIZE, 1, 1)
_OVERLAY_SIZE_MAX = 1 << 30

# A new base is written instead of a larger overlay (docs/stat-cache.md §3).
_OVERLAY_SIZE = 256 << 10
_OVERLAY_SHARE = 32
_BASE_SIZE = 16 << 20
_BASE_SHARE = 4


class CacheKey:
    """Identifies a cache: it must agree in all of this to be used."""

    __slots__ = ("options", "path", "store_id", "worktree")

    def __init__(self, store_id: bytes, worktree: bytes, options: bytes, path: bytes = b"") -> None:
        self.store_id = store_id
        self.worktree = worktree  # 16 bytes: of its path
        self.options = options  # 16 bytes: of the parameters that decide what is captured
        self.path = path  # of the working directory, for `sweep`


# -- the base -----------------------------------------------------------------------------------


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
        starts, offset = [], self.dirs * BASE_DIR.size
        for size in BASE_ROW_SIZES:
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
        size = BASE_ROW_SIZES[column]
        return self._read(self._starts[column] + first * size, count * size)

    def entry(self, number: int) -> "tuple[int, ...]":
        """The entry of a directory in the table of directories."""
        if not 0 <= number < self.dirs:
            raise Unusable
        entry = BASE_DIR.unpack(self._read(number * BASE_DIR.size, BASE_DIR.size))
        if (
            entry[0] + entry[5 + ROW_COUNT] > self.row_count
            or not 0 < entry[5 + DIR_COUNT] <= self.dirs - number
        ):
            raise Unusable
        return entry

    def totals(self, number: int) -> "tuple[int, ...]":
        return self.entry(number)[5:]

    def directory(self, number: int) -> StoredDirectory:
        """The rows of a directory."""
        directory = self._directories.get(number)
        if directory is None:
            if len(self._directories) >= _DIRECTORIES_MAX:
                self._directories.clear()
            directory = self._directories[number] = self._read_directory(number)
        return directory

    def _read_directory(self, number: int) -> StoredDirectory:
        first, count, prefix, start, ignored, *totals = self.entry(number)
        paths = self._paths(start, self._paths_end(number + 1), count)
        if count > totals[ROW_COUNT] or len(paths) != count:
            raise Unusable
        columns = [self.column(column, first, count) for column in range(_BELOW)]
        steps = filter(None, unpack(f"<{count}I", self.column(_BELOW, first, count)))
        below: "list[int | StoredDirectory]" = [number + step for step in steps]
        if len(below) != columns[_KINDS].count(b"d") or (below and max(below) >= number + totals[DIR_COUNT]):  # type: ignore[type-var, operator]
            raise Unusable
        return StoredDirectory([path[prefix:] for path in paths], columns, below, ignored, tuple(totals))

    def row_ranges(self, number: int, end: int, size: int) -> "Iterator[RowRange]":
        """The rows of the directories [number, end), about `size` at a time."""
        first = count = start = 0
        for entry in self._entries(number, end):
            if count and count + entry[1] > size:
                yield from self._row_ranges(first, count, start, entry[3], size)
                count = 0
            if count == 0:
                first, start = entry[0], entry[3]
            count += entry[1]
        if count:
            yield from self._row_ranges(first, count, start, self._paths_end(end), size)

    def _row_ranges(self, first: int, count: int, start: int, end: int, size: int) -> "Iterator[RowRange]":
        """Rows whose paths are [start, end): one range, or those of one large directory."""
        return split_rows(
            count,
            size,
            lambda: self._paths(start, end, count),
            lambda at, rows: self.column(_STATS, first + at, rows),
        )

    def _entries(self, number: int, end: int) -> "Iterator[tuple[int, ...]]":
        for at in range(number, end, _DIRS_AT_ONCE):
            table = self._read(at * BASE_DIR.size, (min(end, at + _DIRS_AT_ONCE) - at) * BASE_DIR.size)
            yield from BASE_DIR.iter_unpack(table)

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
            into.dirs.append(BASE_DIR.pack(entry[0] + rows, *entry[1:3], entry[3] + paths, *entry[4:]))
        columns = [self.column(column, first, stop - first) for column in range(len(BASE_ROW_SIZES))]
        stop_paths = self._paths_end(end)
        into.add(columns, self._read(self._paths_at + start, stop_paths - start))


class BlockReader:
    """The blocks of a file's tables, checked when they are read."""

    def __init__(self, read: "Callable[[int, int], bytes]", start: int, size: int, digests: bytes) -> None:
        """Args: read: the bytes at (size, offset) of the file; start, size: of the tables in it."""
        self._read = read
        self._start = start
        self._size = size
        self._digests = digests
        self._blocks: "dict[int, bytes]" = {}

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
        block = self._blocks.get(number)
        if block is None:
            at = number * BLOCK_SIZE
            try:
                block = self._read(min(BLOCK_SIZE, self._size - at), self._start + at)
            except OSError as error:
                raise Unusable from error
            digest = self._digests[number * DIGEST_SIZE : (number + 1) * DIGEST_SIZE]
            if blake3(block).digest(DIGEST_SIZE) != digest:
                raise Unusable
            if len(self._blocks) >= _BLOCKS_MAX:
                self._blocks.clear()
            self._blocks[number] = block
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
    (
        magic,
        version,
        _,
        store,
        tree,
        options,
        tracked,
        root,
        root_stat,
        root_size,
        generation,
        next_row,
        *counts,
    ) = HEAD.unpack(head)
    if (magic, version, store, tree) != (MAGIC, VERSION, store_id, worktree):
        return None
    blocks = _block_count(size)
    digests = read(blocks * DIGEST_SIZE + DIGEST_SIZE, HEAD.size)
    identity = digests[-DIGEST_SIZE:]
    digests = digests[:-DIGEST_SIZE]
    if blake3(head + digests).digest(DIGEST_SIZE) != identity:
        return None
    start = HEAD.size + len(digests) + DIGEST_SIZE
    tables = BlockReader(read, start, size - start, digests)
    base = BaseRows(tuple(counts), tables.read, identity)
    if base.size != size - start:
        return None
    try:
        names = base.names()
        basis = Basis(tracked, generation, names[: counts[2]], base.watch_stats())
        row = root, root_stat, root_size
        cache = StatCache(base, 0, root=row, basis=basis, absent=None, next_row=next_row)
    except Unusable:
        return None
    base.known_absent = names[counts[2] : -1]
    return cache, options


def _block_count(size: int) -> int:
    """How many blocks the tables of a file of this size have."""
    tables = size - HEAD.size - DIGEST_SIZE
    return max(0, -(-tables // (BLOCK_SIZE + DIGEST_SIZE)))


# -- the overlay --------------------------------------------------------------------------------


def encode_overlay(cache: StatCache) -> bytes:
    """The bytes of the overlay of a cache that has a base. Raises: Unusable."""
    assert cache.base is not None
    stored = [piece[1] for piece in cache.pieces() if isinstance(piece[1], StoredDirectory)]
    dirs = [_OVERLAY_DIR.pack(len(own.names), own.ignored, *cache.of(own)) for own in stored]
    columns = [b"".join(getattr(own, name) for own in stored) for name in _OVERLAY_COLUMNS]
    below = [below if isinstance(below, int) else _OF_BASE for own in stored for below in own.below]
    names = b"\0".join(name for own in stored for name in own.names)
    absent = () if cache.absent_of_base else cache.absent
    basis = cache.basis
    other_names = b"\0".join((*basis.watched, *absent))
    head = _OVERLAY_HEAD.pack(
        _OVERLAY_MAGIC, VERSION, 0, cache.base.identity, basis.tracked, cache.root, cache.root_stat,
        cache.root_size, basis.generation, cache.next_row, len(stored), len(columns[3]), len(basis.watched),
        _OF_BASE if cache.absent_of_base else len(absent), len(below), len(names), len(other_names),
    )  # fmt: skip
    body = b"".join(
        (head, *dirs, *columns, basis.watch_stats, pack(f"<{len(below)}I", *below), names, other_names)
    )
    return body + blake3(body).digest(DIGEST_SIZE)


_OVERLAY_COLUMNS = ("stats", "sizes", "ids", "kinds", "flags")


def decode_overlay(data: bytes, base: BaseRows) -> "StatCache | None":
    """The cache of a base with this overlay; None for any other bytes, or the overlay of another base."""
    end = len(data) - DIGEST_SIZE
    if end < _OVERLAY_HEAD.size or blake3(memoryview(data)[:end]).digest(DIGEST_SIZE) != data[end:]:
        return None
    magic, version, _, identity, tracked, root, root_stat, root_size, generation, next_row, *counts = (
        _OVERLAY_HEAD.unpack_from(data)
    )
    if (magic, version, identity) != (_OVERLAY_MAGIC, VERSION, base.identity):
        return None
    dirs, rows, watched, absent, d_rows, names_size, other_size = counts
    parts, offset = [], _OVERLAY_HEAD.size
    column_sizes = (rows * size for size in _OVERLAY_ROW_SIZES)
    for size in (
        dirs * _OVERLAY_DIR.size,
        *column_sizes,
        watched * STAT_SIZE,
        d_rows * 4,
        names_size,
        other_size,
    ):
        parts.append(data[offset : offset + size])
        offset += size
    if offset != end:
        return None
    table, *columns, watch_stats, below, names_of_rows, other_names = parts
    try:
        entries = list(_OVERLAY_DIR.iter_unpack(table))
        numbers = unpack(f"<{d_rows}I", below)
        names = names_of_rows.split(b"\0") if rows else []
        # Without any directory only the facts in the head are newer than the base.
        top = _tree_of(base, entries, columns, numbers, names) if entries else 0
    except (StructError, Unusable):
        return None
    others = other_names.split(b"\0") if other_names else []
    if len(others) != watched + (0 if absent == _OF_BASE else absent):
        return None
    return StatCache(
        base,
        top,
        root=(root, root_stat, root_size),
        basis=Basis(tracked, generation, others[:watched], watch_stats),
        absent=None if absent == _OF_BASE else others[watched:],
        next_row=next_row,
    )


def _tree_of(
    base: BaseRows,
    entries: "list[tuple[int, ...]]",
    columns: "list[bytes]",
    numbers: "tuple[int, ...]",
    names: "list[bytes]",
) -> StoredDirectory:
    """The root of the overlay's directories, made from the last one on: those below one follow it."""
    made: "list[StoredDirectory]" = []
    row, number = len(names), len(numbers)
    if sum(entry[0] for entry in entries) != row:
        raise Unusable
    for count, ignored, *totals in reversed(entries):
        first = row - count
        own = [
            column[first * size : row * size]
            for column, size in zip(columns, _OVERLAY_ROW_SIZES, strict=True)
        ]
        d_rows = own[3].count(b"d")
        if d_rows > number:
            raise Unusable
        below: "list[Handle]" = []
        for of_base in numbers[number - d_rows : number]:
            if (of_base != _OF_BASE and of_base >= base.dirs) or (of_base == _OF_BASE and not made):
                raise Unusable
            below.append(made.pop() if of_base == _OF_BASE else of_base)
        made.append(StoredDirectory(names[first:row], own, below, ignored, tuple(totals)))
        row, number = first, number - d_rows
    if len(made) != 1 or number:
        raise Unusable
    return made[0]


# -- the files ----------------------------------------------------------------------------------


def load(fs: FileSystem, layout: Layout, key: CacheKey) -> "StatCache | None":
    """The cache of a working directory, None when there is none that can be used."""
    loaded = load_any(fs, layout, key.store_id, key.worktree)
    return loaded[0] if loaded is not None and loaded[1] == key.options else None


def load_any(
    fs: FileSystem, layout: Layout, store_id: bytes, worktree: bytes
) -> "tuple[StatCache, bytes] | None":
    """The cache of a working directory and its options, whatever they are: each row is true of its path."""
    try:
        file = OpenFile(fs, layout.statcache(worktree.hex()), os.O_RDONLY)
        loaded = decode_base(file.read, fs.fstat(file.fd).st_size, store_id, worktree)
    except (OSError, ValueError):
        return None
    if loaded is None:
        return None
    cache, options = loaded
    assert cache.base is not None
    cache.base.file = file
    try:
        data = read_file(fs, layout.statcache_overlay(worktree.hex()), _OVERLAY_SIZE_MAX)
    except (OSError, ValueError):
        return cache, options
    return decode_overlay(data, cache.base) or cache, options


def save(fs: FileSystem, layout: Layout, key: CacheKey, cache: StatCache) -> None:
    """Replace the last cache with this one; a full disk only costs time later.

    Not synced: a power cut leaves a file that fails its digest, or none. `rename` is right here because the
    files are derived: these, the last ones, or none in between are all true. Raises: Unusable.
    """
    if cache.base is not None:
        overlay = encode_overlay(cache)
        size = len(overlay)
        fits = size <= _OVERLAY_SIZE + cache.base.size // _OVERLAY_SHARE
        if fits or (cache.base.size > _BASE_SIZE and size < cache.base.size // _BASE_SHARE):
            _write_overlay(fs, layout, key, overlay)
            return
    from eventlog.worktree.statcache_upkeep import encode_base  # which few captures need

    write_base(fs, layout, key, encode_base(cache, key))


def write_base(fs: FileSystem, layout: Layout, key: CacheKey, data: bytes) -> None:
    tmp = layout.tmp(f"statcache-{fs.random_bytes(8).hex()}")
    path = layout.statcache(key.worktree.hex())
    try:
        with opened(fs, tmp, os.O_WRONLY | os.O_CREAT) as fd:
            write_all(fs, fd, data)
        try:
            # ext4 syncs a file that is renamed over another, which takes longer than the capture.
            fs.unlink(path)
        except FileNotFoundError:
            pass
        fs.rename(tmp, path)
    except OSError:
        _remove(fs, tmp)


def _write_overlay(fs: FileSystem, layout: Layout, key: CacheKey, data: bytes) -> None:
    tmp = layout.tmp(f"statcache-{fs.random_bytes(8).hex()}")
    path = layout.statcache_overlay(key.worktree.hex())
    spare = layout.tmp(f"statcache-{key.worktree.hex()}")
    try:
        try:
            # The file before last is overwritten: on ext4, new files are slow where others were removed
            # lately.
            fs.rename(spare, tmp)
        except FileNotFoundError:
            pass
        with opened(fs, tmp, os.O_WRONLY | os.O_CREAT) as fd:
            write_all(fs, fd, data)
            fs.truncate(fd, len(data))
        try:
            fs.rename(path, spare)
        except FileNotFoundError:
            pass
        fs.rename(tmp, path)
    except OSError:
        _remove(fs, tmp)


def _remove(fs: FileSystem, tmp: str) -> None:
    try:
        fs.unlink(tmp)
    except OSError:
        pass  # a leftover in tmp/ is swept later


def read_generation(fs: FileSystem, layout: Layout) -> int:
    """How often contents were collected; a cache with another number proves no content's existence.

    It does not change while the gc lock is held.
    """
    try:
        fd = fs.open(layout.gc_generation, os.O_RDONLY)
    except FileNotFoundError:
        return 0
    try:
        digits = fs.pread(fd, 32, 0).strip()
    finally:
        fs.close(fd)
    return int(digits) if digits.isdigit() else 0


def raise_generation(fs: FileSystem, layout: Layout) -> None:
    """Raise the number durably, before the first content is removed.

    It is written in place: 20 digits, cut anywhere, with the old ones after the cut, are either the old
    number, which is right since nothing was removed yet, or a higher one.
    """
    value = read_generation(fs, layout) + 1
    with opened(fs, layout.gc_generation, os.O_WRONLY | os.O_CREAT) as fd:
        write_all(fs, fd, b"%020d\n" % value)
        fs.fsync(fd)
    fs.fsync_dir(os.path.dirname(layout.gc_generation))
