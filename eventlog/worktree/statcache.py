"""The stat cache: the stat, kind and id of every path at the last capture of a working directory.

One file per working directory, replaced as a whole, read whole. Derived: deleting it costs time and changes
no answer (I22); one that is damaged, foreign, or of another format counts as absent.

    128 header (below)
    12  per directory, a directory before those in it: number of rows u32, span u32 (directories in
        its sub-tree, itself included), number of ignored entries u32 (names that were left out)
    36  per row: mode u32, inode u64, size u64, mtime ns i64, ctime ns i64; zeros when it proves nothing
    8   per row: size in the tree entry u64
    32  per row: id
    1   per row: kind, as in a tree
    1   per row: 1 when git tracks it, 2 when git ignores it and it is kept all the same
    36  per watched file: its stat as above, all ones when it is missing
    n   NUL-separated: the path of each row, each watched file, each tracked path that is not on disk, and
        last that of the working directory itself
    16  BLAKE3-128 of everything above

Directory 0 holds one row: the working directory itself, with an empty path. The rows of a directory
stand together in the order of names, the rows of directories in the order of directories; so a
directory with all that is below it is one stretch of every table, and is copied as one.

Any process may load or save at any time: the last one wins, and either file is true of its own moment. On the
hook path.
"""

import os
import stat
from itertools import accumulate
from struct import Struct, pack
from struct import error as StructError

from blake3 import blake3

from eventlog.base.fs import FileSystem, opened, read_file, write_all
from eventlog.base.layout import STATCACHE_DIR, Layout, parse_statcache
from eventlog.blobs.tree import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eventlog.worktree.rows import Row

_MAGIC = b"\x89EVS"
_VERSION = 3
# magic, version, flags, store id, worktree, options, tracked set, root tree, generation, directories,
# rows, watched files, absent paths
_HEADER = Struct("<4sHH16s16s16s16s32sQIIII")
_DIGEST_SIZE = 16
_SIZE_MAX = 1 << 30
_PATH_SIZE_MAX = 4096

_STAT = Struct("<IQQqq")
STAT_SIZE = _STAT.size
_DIR = Struct("<III")
_SIZE = Struct("<Q")

UNPROVEN = bytes(STAT_SIZE)
MISSING = b"\xff" * STAT_SIZE

pack_fields = _STAT.pack  # mode, inode, size, mtime ns, ctime ns


def pack_stat(file_stat: os.stat_result) -> bytes:
    """The fields that prove a content unchanged."""
    return _STAT.pack(
        file_stat.st_mode, file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns, file_stat.st_ctime_ns
    )


class CacheKey:
    """Identifies a cache: it must agree in all of this to be used."""

    __slots__ = ("options", "path", "store_id", "worktree")

    def __init__(self, store_id: bytes, worktree: bytes, options: bytes, path: bytes = b"") -> None:
        self.store_id = store_id
        self.worktree = worktree  # 16 bytes: of its path
        self.options = options  # 16 bytes: of the parameters that decide what is captured
        self.path = path  # of the working directory, for `sweep`


def rows_with(table: bytes, mark: bytes) -> "Iterator[int]":
    """The rows that have this byte in a table of one byte for each, ascending."""
    row = table.find(mark)
    while row >= 0:
        yield row
        row = table.find(mark, row + 1)


class StatCache:
    """The tables of one cache file; nothing in them is ever changed."""

    __slots__ = (
        "_paths", "absent", "dirs", "firsts", "flags", "generation", "ids", "kinds", "paths_blob", "root",
        "row_count", "sizes", "stats", "tracked", "watch_stats", "watched",
    )  # fmt: skip

    def __init__(
        self,
        tracked: bytes,
        generation: int,
        tables: "Sequence[bytes]",
        paths_blob: bytes,
        watched: "Sequence[bytes]",
        absent: "Sequence[bytes]",
    ) -> None:
        """Args: tracked: digest of the set of paths that git tracks; tables: in the order of the file."""
        self.tracked = tracked
        self.generation = generation
        self.dirs, self.stats, self.sizes, self.ids, self.kinds, self.flags, self.watch_stats = tables
        self.root = self.ids[:32]
        self.paths_blob = paths_blob
        self.watched = watched
        self.absent = absent
        self.row_count = len(self.kinds)
        self.firsts = [0, *accumulate(count for count, _, _ in _DIR.iter_unpack(self.dirs))]
        self._paths: "list[bytes] | None" = None

    @property
    def paths(self) -> "list[bytes]":
        """The path of each row, relative to the working directory."""
        if self._paths is None:
            self._paths = self.paths_blob.split(b"\0")
        return self._paths

    def stat(self, row: int) -> bytes:
        return self.stats[row * STAT_SIZE : (row + 1) * STAT_SIZE]

    def times(self, path: bytes) -> "tuple[int, int, int, int] | None":
        """(size, mtime ns, ctime ns, inode) of a path, None where they are unproven. Scans all paths."""
        stat = self.stat(self.paths.index(path))
        _, inode, size, mtime_ns, ctime_ns = _STAT.unpack(stat)
        return None if stat == UNPROVEN else (size, mtime_ns, ctime_ns, inode)

    def id(self, row: int) -> bytes:
        return self.ids[row * 32 : row * 32 + 32]

    def size(self, row: int) -> int:
        size: int = _SIZE.unpack_from(self.sizes, row * 8)[0]
        return size

    def rows_of(self, dir: int) -> "tuple[int, int]":
        """[first, end) of the rows of a directory."""
        return self.firsts[dir], self.firsts[dir + 1]

    def span(self, dir: int) -> int:
        """How many directories the sub-tree of a directory has, itself included."""
        span: int = _DIR.unpack_from(self.dirs, dir * _DIR.size)[1]
        return span

    def ignored_in(self, dir: int) -> int:
        """How many entries of a directory were left out because git ignores them."""
        ignored: int = _DIR.unpack_from(self.dirs, dir * _DIR.size)[2]
        return ignored

    @property
    def ignored_count(self) -> int:
        """The same for all directories. Scans all of them."""
        return sum(ignored for _, _, ignored in _DIR.iter_unpack(self.dirs))


class Tables:
    """A cache that is being written: parts of the last one, and new rows."""

    __slots__ = ("dir_count", "dirs", "flags", "ids", "kinds", "paths", "sizes", "stats")

    def __init__(self) -> None:
        self.dir_count = 0
        self.dirs: "list[bytes]" = []
        self.stats: "list[bytes]" = []
        self.sizes: "list[bytes]" = []
        self.ids: "list[bytes]" = []
        self.kinds: "list[bytes]" = []
        self.flags: "list[bytes]" = []
        self.paths: "list[bytes]" = []

    def begin_dir(self) -> "tuple[int, int]":
        """Begin a directory; a mark for `end_dir`."""
        self.dirs.append(b"")
        self.dir_count += 1
        return len(self.dirs) - 1, self.dir_count - 1

    def end_dir(self, mark: "tuple[int, int]", row_count: int, ignored: int = 0) -> None:
        """End a directory: all below the one begun with `mark` have been written."""
        self.dirs[mark[0]] = _DIR.pack(row_count, self.dir_count - mark[1], ignored)

    def add_rows(self, paths: "Sequence[bytes]", rows: "Sequence[Row]") -> None:
        """The rows of one directory, in order of their names."""
        if not rows:
            return
        kinds, ids, sizes, stats, flags, _ = zip(*rows, strict=True)
        self.paths += paths
        self.kinds.append(b"".join(kinds))
        self.ids.append(b"".join(ids))
        self.sizes.append(pack(f"<{len(sizes)}Q", *sizes))
        self.stats.append(b"".join(stats))
        self.flags.append(b"".join(flags))

    def copy(self, cache: StatCache, dir: int, end_dir: int) -> None:
        """Directories [dir, end_dir) of the last cache: siblings with all that is below them."""
        first, end = cache.firsts[dir], cache.firsts[end_dir]
        self.dirs.append(cache.dirs[dir * _DIR.size : end_dir * _DIR.size])
        self.dir_count += end_dir - dir
        self.stats.append(cache.stats[first * STAT_SIZE : end * STAT_SIZE])
        self.sizes.append(cache.sizes[first * 8 : end * 8])
        self.ids.append(cache.ids[first * 32 : end * 32])
        self.kinds.append(cache.kinds[first:end])
        self.flags.append(cache.flags[first:end])
        self.paths += cache.paths[first:end]

    def finish(
        self,
        *,
        tracked: bytes,
        generation: int,
        watched: "Sequence[tuple[bytes, bytes]]",
        absent: "Sequence[bytes]",
    ) -> StatCache:
        """The cache. `watched` are (path, stat)."""
        tables = (self.dirs, self.stats, self.sizes, self.ids, self.kinds, self.flags)
        cache = StatCache(
            tracked,
            generation,
            [*map(b"".join, tables), b"".join(stat for _, stat in watched)],
            b"\0".join(self.paths),
            [path for path, _ in watched],
            absent,
        )
        cache._paths = self.paths
        return cache


def encode(cache: StatCache, key: CacheKey) -> bytes:
    """The bytes of the file."""
    header = _HEADER.pack(
        _MAGIC,
        _VERSION,
        0,
        key.store_id,
        key.worktree,
        key.options,
        cache.tracked,
        cache.root,
        cache.generation,
        len(cache.dirs) // _DIR.size,
        cache.row_count,
        len(cache.watched),
        len(cache.absent),
    )
    tables = (cache.dirs, cache.stats, cache.sizes, cache.ids, cache.kinds, cache.flags, cache.watch_stats)
    body = b"".join(
        (header, *tables, b"\0".join((cache.paths_blob, *cache.watched, *cache.absent, key.path)))
    )
    return body + blake3(body).digest(_DIGEST_SIZE)


def decode(data: bytes, key: CacheKey) -> "StatCache | None":
    """The cache, None when these bytes are not a whole one of this store, working directory and options."""
    end = len(data) - _DIGEST_SIZE
    if end < _HEADER.size or blake3(memoryview(data)[:end]).digest(_DIGEST_SIZE) != data[end:]:
        return None
    magic, version, _, store_id, worktree, options, tracked, root, generation, dirs, rows, watched, absent = (
        _HEADER.unpack_from(data)
    )
    expected = (_MAGIC, _VERSION, key.store_id, key.worktree, key.options)
    if (magic, version, store_id, worktree, options) != expected:
        return None
    parts = []
    offset = _HEADER.size
    for size in (dirs * _DIR.size, rows * STAT_SIZE, rows * 8, rows * 32, rows, rows, watched * STAT_SIZE):
        parts.append(data[offset : offset + size])
        offset += size
    if offset > end:
        return None
    # The paths of rows are most of the file: they are split later, and all at once.
    tail = data[offset:end].rsplit(b"\0", watched + absent + 1)
    names = tail[1:-1]
    try:
        cache = StatCache(tracked, generation, parts, tail[0], names[:watched], names[watched:])
    except StructError:
        return None
    agrees = (
        len(names) == watched + absent
        and dirs > 1
        and len(cache.kinds) == rows
        and cache.paths_blob.count(b"\0") == rows - 1
        and cache.firsts[-1] == rows
        and cache.firsts[1] == 1
        and cache.root == root
        and cache.kinds[:1] == b"d"
        and cache.kinds.count(b"d") == dirs - 1
        and not cache.kinds.translate(None, b"".join(KINDS))
    )
    return cache if agrees else None


def sweep(fs: FileSystem, layout: Layout, *, age_s_min: float) -> "list[str]":
    """Remove the caches of working directories that are gone; the paths of the removed files.

    A cache that was written within `age_s_min` stays: a directory may be back in a moment. So do foreign
    files and those of a newer version. A disk that is not mounted looks gone: its next capture is a first
    one.
    """
    removed = []
    for name in fs.listdir(layout.directory(STATCACHE_DIR)):
        worktree = parse_statcache(name)
        if worktree is None:
            continue
        path = layout.statcache(worktree)
        try:
            age_s = fs.time_ns() / 1e9 - fs.stat(path).st_mtime
            if age_s > age_s_min and _is_stale(fs, path):
                fs.unlink(path)
                removed.append(path)
        except OSError:
            pass  # a capture is replacing it, or it stays for the next sweep
    return removed


def captured_directories(fs: FileSystem, layout: Layout) -> "list[bytes]":
    """The working directories that have caches, including those that are gone."""
    directories = []
    for name in fs.listdir(layout.directory(STATCACHE_DIR)):
        worktree = parse_statcache(name)
        try:
            version, directory = _head(fs, layout.statcache(worktree)) if worktree is not None else (0, b"")
        except OSError:
            continue  # a capture is replacing it
        if version == _VERSION and directory.startswith(b"/"):
            directories.append(directory)
    return directories


def _is_stale(fs: FileSystem, path: str) -> bool:
    """Whether a cache is never read again: of an earlier version, or of a directory that is gone."""
    version, directory = _head(fs, path)
    if version == 0:
        return False
    if version != _VERSION or not directory.startswith(b"/"):
        return version < _VERSION
    try:
        return not stat.S_ISDIR(os.lstat(directory).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True


def _head(fs: FileSystem, path: str) -> "tuple[int, bytes]":
    """The version of a cache and its working directory; version 0 where it is no cache."""
    with opened(fs, path) as fd:
        head = fs.pread(fd, _HEADER.size, 0)
        size = fs.fstat(fd).st_size
        offset = max(0, size - _PATH_SIZE_MAX - _DIGEST_SIZE)
        tail = fs.pread(fd, size - offset, offset)[:-_DIGEST_SIZE]
    if len(head) < _HEADER.size or not head.startswith(_MAGIC):
        return 0, b""
    version: int = _HEADER.unpack(head)[1]
    return version, tail.rpartition(b"\0")[2]


def is_nested(cache: StatCache) -> bool:
    """Whether every directory's sub-directories follow it and their spans fill its own.

    A digest does not prove that the writer was honest, so every walk by spans checks this first.
    """
    dirs, kinds = len(cache.dirs) // _DIR.size, cache.kinds
    spans = [span for _, span, _ in _DIR.iter_unpack(cache.dirs)]
    for dir in range(dirs - 1, -1, -1):
        below = dir + 1
        for _ in range(kinds.count(b"d", *cache.rows_of(dir))):
            if below >= dirs:
                return False
            below += spans[below]
        if below != dir + spans[dir]:
            return False
    return True


def load(fs: FileSystem, layout: Layout, key: CacheKey) -> "StatCache | None":
    """The cache of a working directory, None when there is none that can be used."""
    loaded = load_any(fs, layout, key.store_id, key.worktree)
    return loaded[0] if loaded is not None and loaded[1] == key.options else None


def load_any(
    fs: FileSystem, layout: Layout, store_id: bytes, worktree: bytes
) -> "tuple[StatCache, bytes] | None":
    """The cache of a working directory and its options, whatever they are: each row is true of its path."""
    try:
        data = read_file(fs, layout.statcache(worktree.hex()), _SIZE_MAX)
        options: bytes = _HEADER.unpack_from(data)[5]
    except (OSError, ValueError, StructError):
        return None
    cache = decode(data, CacheKey(store_id, worktree, options))
    return None if cache is None else (cache, options)


def save(fs: FileSystem, layout: Layout, key: CacheKey, cache: StatCache) -> None:
    """Replace the last cache with this one; a full disk only costs time later.

    Not synced: a power cut leaves a file that fails its digest, or none. `rename` is right here because the
    file is derived: this one, the last one, or none in between are all true.
    """
    data = encode(cache, key)
    tmp = layout.tmp(f"statcache-{fs.random_bytes(8).hex()}")
    path = layout.statcache(key.worktree.hex())
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
            # ext4 syncs a file that is renamed over another, which takes longer than the capture.
            fs.rename(path, spare)
        except FileNotFoundError:
            pass
        fs.rename(tmp, path)
    except OSError:
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
