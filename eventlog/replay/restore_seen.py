"""What is known of the files in a target without reading them: the stat cache of captures, for plans (I26).

A row is believed under the rule of captures (docs/capture.md §2): the `lstat` of its path is, in every field,
the one that was taken before the content was read, and was older than that scan. A plan believes only that a
file is as wanted, which leaves it alone; what it would replace or delete is read.

Where no capture keeps a cache, plans keep one of their own, which no capture takes for its own. One `Seen`
belongs to one plan. Nothing here fails: what is not known is read.
"""

import os
import stat
from collections.abc import Iterator

from blake3 import blake3

from eventlog.fs import FileSystem
from eventlog.layout import Layout
from eventlog.replay.restore_place import NO_ID, Place, State
from eventlog.snapshots import statcache
from eventlog.snapshots.statcache import UNPROVEN, Key, StatCache, Tables, pack_stat
from eventlog.snapshots.tree import DIRECTORY
from eventlog.snapshots.worktree import probe_of

# Options of a cache that a plan wrote; those of a capture are a digest.
_OF_PLANS = bytes(16)

# A cache is written anew when it would hold this many rows, and this share of all, that it has not.
_NEW_MIN, _NEW_SHARE = 64, 16


class Seen:
    """What the stat cache of `place` says; and what a plan learns on its way."""

    def __init__(self, fs: FileSystem, layout: Layout, store_id: bytes, place: Place) -> None:
        self._fs = fs
        self._layout = layout
        path = os.fsencode(place.path)
        self._key = Key(store_id, blake3(path).digest(16), _OF_PLANS, path)
        found = statcache.load_any(fs, layout, store_id, self._key.worktree)
        self._cache: StatCache | None = None
        self._keeps = found is None or found[1] == _OF_PLANS
        if found is not None:
            self._cache = found[0]
        try:
            self._now, self._device = probe_of(fs, layout, path) if self._keeps else (0, 0)
        except OSError:
            self._keeps = False
        self._rows: dict[bytes, tuple[State, bytes]] = {}  # what is true of this moment
        self._learned = 0

    def rows(self) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
        """(path, kind, id, stat) of every file and link whose stat proves its content."""
        cache = self._cache
        if cache is None:
            return
        kinds, ids, stats, size = cache.kinds, cache.ids, cache.stats, statcache.STAT_SIZE
        for row, path in enumerate(cache.paths):
            kind = kinds[row : row + 1]
            if kind != DIRECTORY:
                yield path, kind, ids[row * 32 : row * 32 + 32], stats[row * size : row * size + size]

    def believe(self, path: bytes, state: State, proof: bytes) -> None:
        """A row that the present stat bears out."""
        if self._keeps:
            self._rows[path] = state, proof

    def learn(self, path: bytes, state: State, found: os.stat_result) -> None:
        """A file that was read. Args: found: its stat from before."""
        proven = found.st_mtime_ns < self._now and found.st_ctime_ns < self._now
        if self._keeps and proven and found.st_dev == self._device and not stat.S_ISDIR(found.st_mode):
            self._rows[path] = state, pack_stat(found)
            self._learned += 1

    def keep(self) -> None:
        """Write the cache of plans anew when enough was learned."""
        if self._learned < max(_NEW_MIN, len(self._rows) // _NEW_SHARE):
            return
        tables = Tables()
        root = tables.begin_dir()
        tables.add_row(b"", DIRECTORY, NO_ID, 0, UNPROVEN, b"\0")
        files = tables.begin_dir()
        for path, (state, proof) in sorted(self._rows.items()):
            tables.add_row(path, state.kind, state.id, state.size, proof, b"\0")
        tables.end_dir(files, len(self._rows))
        tables.end_dir(root, 1)
        cache = tables.finish(tracked=bytes(16), generation=0, watched=(), absent=())
        statcache.save(self._fs, self._layout, self._key, cache)
