"""Upkeep: what ordinary commands do for the store on the side, and the detached maintainer thoroughly.

Runs beside any number of readers and writers. The next command that meets an obstacle to upkeep (a lock,
damage, a full disk) reports it, and nothing is lost by doing the work later.
"""

from typing import TYPE_CHECKING, NamedTuple

from eventlog.base.errors import EventLogError
from eventlog.base.layout import CONDEMNED_DIR, PACK_DIR, TMP_DIR
from eventlog.log import checked
from eventlog.log.shorten import shorten
from eventlog.store import count_files

if TYPE_CHECKING:
    from eventlog.store import Store

# Ordinary commands merge segments of no more bytes on the side: a quarter of a second of one core.
_MERGED_BESIDE_BYTES_MAX = 1 << 20
# Fewer packs are not worth reading their sizes.
_PACKS_MIN = 8
# The detached maintainer merges packs of no more bytes at a time: some minutes of two cores.
_REPACKED_BYTES_MAX = 1 << 30
# Segments that the detached maintainer compares with their hashes in one run: a second of one core.
_SCRUBBED_BYTES_MAX = 1 << 30
# Each pack that no idx covers costs a reader an open and a read.
_RECENT_PACKS_MAX = 64


class Upkeep(NamedTuple):
    """Whether some work was done, and whether some is left to the detached maintainer."""

    done: bool
    waits: bool


def maintain(store: "Store", *, thorough: bool = False) -> Upkeep:
    """Do the work that is worth it: seal, refresh the index, merge segments, and merge packs.

    Long work is only done with `thorough`. Never raises for the store's state.
    """
    waits = False
    try:
        if store.fs.listdir(store.layout.directory(TMP_DIR)):
            from eventlog.log.sweep import sweep

            sweep(store.fs, store.layout)
        indexed = shorten(store)
        if not indexed and _needs_idx(store):
            store.reindex()
            indexed = True
        compacted = _compact_if_worthwhile(store, thorough)
        waits = compacted.waits
        repacked = _repack_if_worthwhile(store, thorough)
        if thorough:
            with store.view() as view:
                checked.scrub(store.fs, store.layout, view.manifest.segments, _SCRUBBED_BYTES_MAX)
        waits = waits or repacked.waits
        return Upkeep(repacked.done or compacted.done or indexed, waits)
    except (EventLogError, OSError):
        return Upkeep(False, waits)


def _compact_if_worthwhile(store: "Store", thorough: bool) -> Upkeep:
    from eventlog.log.compact import mergeable_bytes

    size = mergeable_bytes(store.fs, store.layout, store.identity.store_id)
    if size is None:
        return Upkeep(False, False)
    if size > _MERGED_BESIDE_BYTES_MAX and not thorough:
        return Upkeep(False, True)
    store.compact(lock_timeout_s=0.0)
    return Upkeep(True, False)


def _repack_if_worthwhile(store: "Store", thorough: bool) -> Upkeep:
    if _count(store, PACK_DIR) < _PACKS_MIN and not _count(store, CONDEMNED_DIR):
        return Upkeep(False, False)
    swept: tuple[str, ...] = ()
    if thorough:
        from eventlog.gc.condemn import sweep_condemned

        swept = sweep_condemned(store.blobs, lock_timeout_s=0.0).unlinked
    from eventlog.gc.repack_policy import is_worthwhile

    if not is_worthwhile(store.fs, store.layout, _REPACKED_BYTES_MAX):
        return Upkeep(bool(swept), False)
    if not thorough:
        return Upkeep(False, True)
    # Writers come and go; work of minutes may wait for a gap between them.
    return Upkeep(bool(store.repack(bytes_max=_REPACKED_BYTES_MAX).condemned or swept), False)


def _needs_idx(store: "Store") -> bool:
    """Whether look-ups go through many packs one by one. A few packs need no closer check."""
    return _count(store, PACK_DIR) > _RECENT_PACKS_MAX and store.blobs.recent_count() > _RECENT_PACKS_MAX


def _count(store: "Store", directory: str) -> int:
    return count_files(store.fs, store.layout, directory)[0]
