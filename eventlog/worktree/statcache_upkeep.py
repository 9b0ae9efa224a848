"""Stat caches apart from captures: a base that is rebuilt, and caches that are folded or swept.

docs/stat-cache.md has the format. A capture that writes a base loads this, and maintenance.
"""

import os
import stat

from blake3 import blake3

from eventlog.base.fs import FileSystem, opened
from eventlog.base.layout import STATCACHE_DIR, Layout, parse_overlay, parse_statcache
from eventlog.worktree.rows import DIR_COUNT, StatCache, StoredDirectory, Unusable
from eventlog.worktree.statcache import (
    BASE_DIR,
    BASE_ROW_SIZES,
    BLOCK_SIZE,
    DIGEST_SIZE,
    HEAD,
    MAGIC,
    VERSION,
    CacheKey,
    load_any,
    write_base,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_D, _KINDS = ord("d"), 3
_PATH_SIZE_MAX = 4096
# Overlays larger than this are folded.
FOLDED_SIZE_MIN = 64 << 10


class BaseTables:
    """A base that is being written."""

    def __init__(self) -> None:
        self.row_count = self.paths_size = 0
        self.dirs: "list[bytes]" = []
        self.columns: "list[list[bytes]]" = [[] for _ in BASE_ROW_SIZES]
        self.paths: "list[bytes]" = []

    def add(self, columns: "Sequence[bytes]", paths: bytes) -> None:
        for parts, column in zip(self.columns, columns, strict=True):
            parts.append(column)
        self.paths.append(paths)
        self.row_count += len(columns[_KINDS])
        self.paths_size += len(paths)

    def add_directory(self, cache: StatCache, prefix: bytes, directory: StoredDirectory) -> None:
        self.dirs.append(
            BASE_DIR.pack(
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
            step += cache.totals(below)[DIR_COUNT]
        numbers = iter(steps)
        steps_column = b"".join(
            (next(numbers) if kind == _D else 0).to_bytes(4, "little") for kind in directory.kinds
        )
        columns = (
            directory.stats, directory.sizes, directory.ids, directory.kinds, directory.flags, steps_column,
        )  # fmt: skip
        self.add(columns, b"".join(prefix + name + b"\0" for name in directory.names))


def encode_base(cache: StatCache, key: CacheKey) -> bytes:
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
    basis = cache.basis
    names = b"\0".join((*basis.watched, *cache.absent, key.path))
    columns = (b"".join(column) for column in tables.columns)
    body = b"".join((*tables.dirs, *columns, basis.watch_stats, paths, names))
    head = HEAD.pack(
        MAGIC, VERSION, 0, key.store_id, key.worktree, key.options, basis.tracked, cache.root,
        cache.root_stat, cache.root_size, basis.generation, cache.next_row, len(tables.dirs),
        tables.row_count, len(basis.watched), len(cache.absent), len(paths), len(names),
    )  # fmt: skip
    view = memoryview(body)
    blocks = range(0, len(body), BLOCK_SIZE)
    head += b"".join(blake3(view[at : at + BLOCK_SIZE]).digest(DIGEST_SIZE) for at in blocks)
    return head + blake3(head).digest(DIGEST_SIZE) + body


def fold(fs: FileSystem, layout: Layout, store_id: bytes, worktree: bytes) -> bool:
    """Write a new base with the rows of a large overlay; whether that was done.

    A capture that saves at the same time is overwritten, or overwrites this: either is true of its moment.
    """
    try:
        if fs.stat(layout.statcache_overlay(worktree.hex())).st_size < FOLDED_SIZE_MIN:
            return False
    except OSError:
        return False
    loaded = load_any(fs, layout, store_id, worktree)
    if loaded is None or not isinstance(loaded[0].top, StoredDirectory):
        return False
    cache, options = loaded
    assert cache.base is not None
    try:
        key = CacheKey(store_id, worktree, options, cache.base.names()[-1])
        write_base(fs, layout, key, encode_base(cache, key))
    except Unusable:
        return False
    finally:
        cache.close()
    return True


def fold_all(fs: FileSystem, layout: Layout, store_id: bytes) -> int:
    """The same of all working directories; how many were folded."""
    worktrees = filter(None, map(parse_statcache, fs.listdir(layout.directory(STATCACHE_DIR))))
    return sum(fold(fs, layout, store_id, bytes.fromhex(worktree)) for worktree in worktrees)


def sweep(fs: FileSystem, layout: Layout, *, age_s_min: float) -> "list[str]":
    """Remove the caches of working directories that are gone; the paths of the removed files.

    A cache that was written within `age_s_min` stays: a directory may be back in a moment. So do foreign
    files and those of a newer version. A disk that is not mounted looks gone: its next capture is a first
    one.
    """
    removed = []
    names = fs.listdir(layout.directory(STATCACHE_DIR))
    for name in names:
        worktree, overlay = parse_statcache(name), parse_overlay(name)
        path = f"{layout.directory(STATCACHE_DIR)}/{name}"
        try:
            age_s = fs.time_ns() / 1e9 - fs.stat(path).st_mtime
            if age_s <= age_s_min:
                continue
            alone = overlay is not None and f"{overlay}.evc" not in names
            if alone or (worktree is not None and _is_stale(fs, path)):
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
        if version == VERSION and directory.startswith(b"/"):
            directories.append(directory)
    return directories


def _is_stale(fs: FileSystem, path: str) -> bool:
    """Whether a cache is never read again: of an earlier version, or of a directory that is gone."""
    version, directory = _head(fs, path)
    if version == 0:
        return False
    if version != VERSION or not directory.startswith(b"/"):
        return version < VERSION
    try:
        return not stat.S_ISDIR(os.lstat(directory).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True


def _head(fs: FileSystem, path: str) -> "tuple[int, bytes]":
    """The version of a cache and its working directory; version 0 where it is no cache."""
    with opened(fs, path) as fd:
        head = fs.pread(fd, HEAD.size, 0)
        size = fs.fstat(fd).st_size
        offset = max(0, size - _PATH_SIZE_MAX)
        tail = fs.pread(fd, size - offset, offset)
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        return 0, b""
    version: int = HEAD.unpack(head)[1]
    return version, tail.rpartition(b"\0")[2]
