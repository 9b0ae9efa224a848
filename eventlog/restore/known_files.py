"""The files of a target that need no reading: the stat cache of captures, for plans (I26).

A row is believed under the rule of captures (docs/capture.md §2): the `lstat` of its path is, in every field,
the one that was taken before the content was read, and was older than that scan. A plan believes only that a
file is as wanted, which leaves it alone; what it would replace or delete is read.

Where no capture has a cache, plans write their own, which no capture uses. One `KnownFiles`
belongs to one plan. Nothing here fails: an unknown file is read.
"""

import os
import stat
from collections.abc import Iterator, Set

from blake3 import blake3

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.checkout.directory import NO_ID, OpenDirectory, State
from eventlog.worktree import statcache
from eventlog.worktree.capture import probe_of
from eventlog.worktree.rows import UNPROVEN, Basis, StatCache, Unusable, directory_of, pack_stat
from eventlog.worktree.statcache import CacheKey

# Options of a cache that a plan wrote; those of a capture are a digest.
_OF_PLANS = bytes(16)

# A cache is rewritten when it would get this many new rows, and this share of all.
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

    def rows(self) -> Iterator[tuple[bytes, int, tuple[bytes], tuple[bytes]]]:
        """(path, kind, id, stat) of every path that was seen; id and stat as tuples of one."""
        try:
            for path, directory, row in () if self._cache is None else self._cache.rows():
                yield path, directory.kinds[row], (directory.id(row),), (directory.stat(row),)
        except Unusable:
            self._cache = None

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
        """Rewrite the cache of plans when enough is new. Args: believed: the paths whose row is true."""
        if len(self._learned) < max(_NEW_MIN, len(believed) // _NEW_SHARE):
            return
        rows = dict(self._learned)
        for path, letter, (id,), (proof,) in self.rows():
            if path in believed:
                rows[path] = bytes((letter,)), id, 0, proof
        paths = sorted(rows)
        files = directory_of([(path, (*rows[path], b"\0", None)) for path in paths], [], 0)
        basis = Basis(bytes(16), 0, (), b"")
        cache = StatCache(None, files, root=(NO_ID, UNPROVEN, 0), basis=basis, absent=())
        statcache.save(self._fs, self._layout, self._key, cache)
