"""The stat cache: the stat, kind and id of every path at the last capture of a working directory.

Two files for each working directory, a base and an overlay, whose format docs/stat-cache.md describes. Derived:
deleting them costs time and changes no answer (I22); one that is damaged, foreign, or of another format
counts as absent.

Any process may load or save at any time: the last one wins, and whatever pair of files is there is true of
its own moment. On the hook path.
"""

import os
import stat

from eventlog.base.fs import FileSystem, opened, read_file, write_all
from eventlog.base.layout import STATCACHE_DIR, Layout, parse_overlay, parse_statcache
from eventlog.worktree.base_rows import DIGEST_SIZE, HEAD, MAGIC, VERSION, OpenFile, decode_base, encode_base
from eventlog.worktree.overlay_rows import decode_overlay, encode_overlay
from eventlog.worktree.stored_rows import (
    MISSING, STAT_SIZE, UNPROVEN, StatCache, StoredDirectory, Unusable, pack_fields, pack_stat, rows_with,
)  # fmt: skip

TYPE_CHECKING = False

__all__ = [
    "MISSING", "STAT_SIZE", "UNPROVEN", "CacheKey", "StatCache", "StoredDirectory", "Unusable", "pack_fields",
    "pack_stat", "rows_with",
]  # fmt: skip

_OVERLAY_SIZE_MAX = 1 << 30
_PATH_SIZE_MAX = 4096

# A new base is written instead of a larger overlay (docs/stat-cache.md §3).
_OVERLAY_SIZE = 256 << 10
_OVERLAY_SHARE = 32
_BASE_SIZE = 16 << 20
_BASE_SHARE = 4
# Maintenance folds overlays larger than this.
FOLDED_SIZE_MIN = 64 << 10


class CacheKey:
    """Identifies a cache: it must agree in all of this to be used."""

    __slots__ = ("options", "path", "store_id", "worktree")

    def __init__(self, store_id: bytes, worktree: bytes, options: bytes, path: bytes = b"") -> None:
        self.store_id = store_id
        self.worktree = worktree  # 16 bytes: of its path
        self.options = options  # 16 bytes: of the parameters that decide what is captured
        self.path = path  # of the working directory, for `sweep`


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
    _write_base(fs, layout, key, encode_base(cache, key))


def _write_base(fs: FileSystem, layout: Layout, key: CacheKey, data: bytes) -> None:
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
        _write_base(fs, layout, key, encode_base(cache, key))
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
