"""Packs move to `condemned/`, back from there, and are deleted.

A pack is condemned, by one rename, when nothing in it is needed from it: every id that it holds is dead, or
was read and proven in another pack. It is looked up there for a day, last of all, and then unlinked. All of
this holds the gc lock exclusively, so no writer is between finding a content and the event that names it
(I24). Ids are left out only after `gc_generation` was raised: from then on no stat cache proves that they
exist. Killed anywhere, a live id is in a pack that stays (I32).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from eventlog.base.errors import Corruption, Refused
from eventlog.base.fs import FileSystem, translate_os_errors
from eventlog.base.layout import (
    CONDEMNED_DIR,
    PACK_DIR,
    Layout,
    condemned_name,
    parse_pack,
)
from eventlog.base.locks import GC, acquire
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.store import BlobStore
from eventlog.gc.live_contents import Needed
from eventlog.worktree.statcache import raise_generation, read_generation

AGE_S_MIN = 24 * 3600


@dataclass(frozen=True, slots=True)
class Swept:
    """Names of packs that left `condemned/`, and the bytes that were freed."""

    unlinked: tuple[str, ...]
    rescued: tuple[str, ...]
    bytes: int


def condemn(
    blobs: BlobStore,
    names: Collection[str],
    proven: Mapping[str, Set[bytes]],
    needed: Needed | None = None,
    *,
    generation: int | None = None,
    lock_timeout_s: float = 10.0,
) -> list[str]:
    """Condemn those of the packs from which nothing is needed; their names.

    Args:
        proven: ids that were read and hashed, by the name of the pack in which they are.
        needed: all others may be lost; None: every id is needed.
        generation: the one that must still hold.
    Raises: LockTimeout, Refused (another generation), Corruption, OSError.
    """
    if not names:
        return []
    fs, layout = blobs.fs, blobs.layout
    # Before the lock: it takes long, and readers meanwhile open these packs themselves.
    blobs.build_idx(without=names)
    candidates = {tables.name: tables for tables in blobs.tables() if tables.name in names}
    with acquire(fs, layout, GC, timeout_s=lock_timeout_s):
        if generation is not None:
            refuse_other_generation(blobs, generation)
        blobs.refresh()
        if needed is not None:
            needed.include_late(blobs)
        present = blobs.pack_names
        elsewhere: set[bytes] = set().union(
            *(ids for name, ids in proven.items() if name in present - set(names))
        )
        chosen = []
        loses = False
        for name in sorted(candidates.keys() & present):
            missing = set(candidates[name].ids()) - elsewhere
            if missing if needed is None else not missing.isdisjoint(needed.ids):
                continue
            chosen.append(name)
            loses = loses or bool(missing)
        if loses:
            raise_generation(fs, layout)
        _move_away(fs, layout, chosen)
    blobs.refresh()
    return chosen


def sweep_condemned(
    blobs: BlobStore,
    needed: Needed | None = None,
    *,
    age_s_min: float = AGE_S_MIN,
    lock_timeout_s: float = 10.0,
) -> Swept:
    """Unlink the packs that were condemned `age_s_min` ago, and bring back those that are needed.

    Args: needed: as for `condemn`; without it a pack stays unless all it holds is in other packs.
    Raises: LockTimeout, Corruption, EventLogError.
    """
    fs, layout = blobs.fs, blobs.layout
    directory = layout.directory(CONDEMNED_DIR)
    with translate_os_errors(directory, "remove condemned packs"):
        if not any(old_enough(fs, fs.listdir(directory), age_s_min)):
            return Swept((), (), 0)
        with acquire(fs, layout, GC, timeout_s=lock_timeout_s):
            blobs.refresh()
            if needed is not None:
                needed.include_late(blobs)
            return _sweep(blobs, directory, None if needed is None else needed.ids, age_s_min)


def refuse_other_generation(blobs: BlobStore, generation: int) -> None:
    current = read_generation(blobs.fs, blobs.layout)
    if current != generation:
        raise Refused(
            f"{blobs.layout.root}: this plan was made before the last collection (generation {generation}, "
            f"now {current}). Nothing was changed; make a new plan with --dry-run."
        )


def _move_away(fs: FileSystem, layout: Layout, names: Collection[str]) -> None:
    now_s = fs.time_ns() // 10**9
    for name in names:
        fs.rename(layout.pack(name), layout.condemned(condemned_name(now_s, name)))
    if names:
        # The new name first: a pack that is in neither directory after a power cut would be lost.
        fs.fsync_dir(layout.directory(CONDEMNED_DIR))
        fs.fsync_dir(layout.directory(PACK_DIR))


def old_enough(fs: FileSystem, names: Iterable[str], age_s_min: float) -> Iterator[tuple[str, str]]:
    """(file name, pack name) of those condemned packs that are old enough."""
    now_s = fs.time_ns() / 1e9
    for name in names:
        since, _, file = name.rpartition("-")
        stem = parse_pack(file)
        if stem is not None and since.isdecimal() and now_s - int(since) >= age_s_min:
            yield name, stem


def _sweep(blobs: BlobStore, directory: str, live: set[bytes] | None, age_s_min: float) -> Swept:
    fs, layout = blobs.fs, blobs.layout
    unlinked, rescued, size = [], [], 0
    back: set[bytes] = set()
    for name, stem in old_enough(fs, fs.listdir(directory), age_s_min):
        path = f"{directory}/{name}"
        try:
            tables = load_tables(fs, path, stem, blobs.store_id)
        except Corruption:
            continue  # its contents are unknown, so it stays, for `locus store repair`
        only = set(tables.ids()) - back
        only -= blobs.locations(only).keys()
        if only and live is None:
            continue
        if live is None or only.isdisjoint(live):
            fs.unlink(path)
            unlinked.append(stem)
            size += tables.size
        else:
            fs.rename(path, layout.pack(stem))
            fs.fsync_dir(layout.directory(PACK_DIR))
            back |= set(tables.ids())
            rescued.append(stem)
    return Swept(tuple(unlinked), tuple(rescued), size)
