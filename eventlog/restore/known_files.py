"""The files of a target that need no reading: the stat cache of captures, for plans (I26).

A row is believed under the rule of captures (docs/capture.md §2): the `lstat` of its path is, in every field,
the one that was taken before the content was read, and was older than that scan. A plan believes only that a
file is as wanted, which leaves it alone; what it would replace or delete is read.

Where no capture has a cache, plans write their own, which no capture uses. One `KnownFiles`
belongs to one plan. Nothing here fails: an unknown file is read.
"""

import os
import stat
from collections.abc import Iterable, Set
from struct import Struct

from blake3 import blake3

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.blobs.tree import DIRECTORY
from eventlog.checkout.directory import NO_ID, OpenDirectory, State
from eventlog.worktree import statcache
from eventlog.worktree.capture import probe_of
from eventlog.worktree.statcache import UNPROVEN, CacheKey, StatCache, Tables, pack_stat

_ID, _STAT = Struct("32s"), Struct(f"{statcache.STAT_SIZE}s")

# Options of a cache that a plan wrote; those of a capture are a digest.
_OF_PLANS = bytes(16)

# A cache is written anew when it would get this many new rows, and this share of all.
_NEW_MIN, _NEW_SHARE = 64, 16


class KnownFiles:
    """The rows of the target's stat cache, and what a plan learns on its way, where that is to be stored."""

    def __init__(
        self, fs: FileSystem, layout: Layout, store_id: bytes, target: OpenDirectory, *, learns: bool
    ) -> None:
        self._fs = fs
        self._layout = layout
        path = os.fsencode(target.path)
        self._key = CacheKey(store_id, blake3(path).digest(16), _OF_PLANS, path)
        loaded = statcache.load_any(fs, layout, store_id, self._key.worktree)
        self._cache: StatCache | None = None
        self._keeps = learns and (loaded is None or loaded[1] == _OF_PLANS)
        if loaded is not None:
            self._cache = loaded[0]
        try:
            self._now, self._device = probe_of(fs, layout, path) if self._keeps else (0, 0)
        except OSError:
            self._keeps = False
        self._learned: dict[bytes, tuple[bytes, bytes, int, bytes]] = {}  # kind, id, size, stat

    def rows(self) -> Iterable[tuple[bytes, int, tuple[bytes], tuple[bytes]]]:
        """(path, kind, id, stat) of every path that was seen; id and stat as tuples of one."""
        cache = self._cache
        if cache is None:
            return ()
        return zip(
            cache.paths, cache.kinds, _ID.iter_unpack(cache.ids), _STAT.iter_unpack(cache.stats), strict=True
        )

    def learn(self, path: bytes, state: State, path_stat: os.stat_result) -> None:
        """Note a file that was read. Args: path_stat: its stat from before."""
        proven = path_stat.st_mtime_ns < self._now and path_stat.st_ctime_ns < self._now
        if (
            self._keeps
            and proven
            and path_stat.st_dev == self._device
            and not stat.S_ISDIR(path_stat.st_mode)
        ):
            self._learned[path] = state.kind, state.id, state.size, pack_stat(path_stat)

    def store(self, believed: Set[bytes]) -> None:
        """Write the cache of plans anew when enough is new. Args: believed: the paths whose row is true."""
        if len(self._learned) < max(_NEW_MIN, len(believed) // _NEW_SHARE):
            return
        rows = dict(self._learned)
        for path, letter, (id,), (proof,) in self.rows():
            if path in believed:
                rows[path] = bytes((letter,)), id, 0, proof
        tables = Tables()
        root = tables.begin_dir()
        tables.add_rows([b""], [(DIRECTORY, NO_ID, 0, UNPROVEN, b"\0", None)])
        files = tables.begin_dir()
        paths = sorted(rows)
        tables.add_rows(paths, [(*rows[path], b"\0", None) for path in paths])
        tables.end_dir(files, len(rows))
        tables.end_dir(root, 1)
        cache = tables.finish(tracked=bytes(16), generation=0, watched=(), absent=())
        statcache.save(self._fs, self._layout, self._key, cache)
