"""Upkeep: what a process that nobody waits for does for a store, so that no command is needed for it.

`is_needed` is asked after a command has answered, and reads names and sizes only. `maintain` works beside
any number of readers and writers. Whatever keeps it from its work (a lock, damage, a full disk) is the
business of the command that meets it next, and nothing is lost by doing it later.
"""

from typing import TYPE_CHECKING

from eventlog.base.errors import EventLogError
from eventlog.base.fs import count_files
from eventlog.base.layout import CONDEMNED_DIR, PACK_DIR, TMP_DIR
from eventlog.log import checked
from eventlog.log.shorten import is_long, shorten

if TYPE_CHECKING:
    from eventlog.store import Store

# With fewer packs, no merge of them pays.
_PACKS_MIN = 8
# The maintainer merges packs of no more bytes at a time: some minutes of two cores.
_REPACKED_BYTES_MAX = 1 << 30
# Segments that the maintainer compares with their hashes in one run: a second of one core.
_SCRUBBED_BYTES_MAX = 1 << 30
# Each pack that no idx covers costs a reader an open and a read.
_PACKS_WITHOUT_IDX_MAX = 64


def is_needed(store: "Store") -> bool:
    """Whether `maintain` has work to do, other than to check segments and to sweep `tmp/`.

    Never raises for the store's state.
    """
    from eventlog.log.compact import mergeable_bytes

    try:
        return is_long(store) or mergeable_bytes(store.files) is not None or _repack_pays(store)
    except (EventLogError, OSError):
        return False


def maintain(store: "Store") -> bool:
    """Sweep, seal, index, merge segments and packs where that pays, and check segments.

    Gives whether it wrote or removed files other than temporary ones. Never raises for the store's state.
    """
    try:
        if store.fs.listdir(store.layout.directory(TMP_DIR)):
            from eventlog.log.sweep import sweep

            sweep(store.fs, store.layout)
        indexed = shorten(store)
        if not indexed and _packs_need_an_idx(store):
            store.reindex()
            indexed = True
        compacted = _compact(store)
        repacked = _repack(store)
        with store.view() as view:
            checked.scrub(store.fs, store.layout, view.manifest.segments, _SCRUBBED_BYTES_MAX)
        return indexed or compacted or repacked
    except (EventLogError, OSError):
        return False


def _compact(store: "Store") -> bool:
    from eventlog.log.compact import mergeable_bytes

    if mergeable_bytes(store.files) is None:
        return False
    store.compact(lock_timeout_s=0.0)
    return True


def _repack(store: "Store") -> bool:
    swept: tuple[str, ...] = ()
    if _count(store, CONDEMNED_DIR):
        from eventlog.gc.condemn import sweep_condemned

        swept = sweep_condemned(store.blobs, lock_timeout_s=0.0).unlinked
    if not _repack_pays(store):
        return bool(swept)
    # Writers come and go; work that takes minutes may wait for a gap between them.
    return bool(store.repack(bytes_max=_REPACKED_BYTES_MAX).condemned or swept)


def _repack_pays(store: "Store") -> bool:
    from eventlog.gc.repack_policy import is_worthwhile

    return _count(store, PACK_DIR) >= _PACKS_MIN and is_worthwhile(
        store.fs, store.layout, _REPACKED_BYTES_MAX
    )


def _packs_need_an_idx(store: "Store") -> bool:
    """Whether readers open many packs one by one. Their headers are read only where there are many packs."""
    few = _PACKS_WITHOUT_IDX_MAX
    return _count(store, PACK_DIR) > few and store.blobs.recent_count() > few


def _count(store: "Store", directory: str) -> int:
    return count_files(store.fs, store.layout.directory(directory))[0]
