"""Packs move to `condemned/`, back from there, and are deleted. And the plan of a collection.

A pack is condemned, by one rename, when nothing in it is needed from it: every id that it holds is dead, or
was read and proven in another pack. It is looked up there for a day, last of all, and then unlinked. All of
this holds the gc lock exclusively, so no writer is between finding a content and the event that names it
(I24). Ids are left out only after `gc_generation` was raised: from then on no stat cache proves that they
exist.

Killed anywhere, a live id is in a pack that stays (I32). A collection frees what its plan names and no more
(I29); it cannot be repeated, since it raises the generation that the plan names.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from blake3 import blake3

from eventlog.base.errors import Corruption, Refused
from eventlog.base.fs import FileSystem, translate_os_errors
from eventlog.base.layout import (
    CONDEMNED_DIR,
    PACK_DIR,
    RESTORE_DIR,
    Layout,
    condemned_name,
    parse_pack,
    parse_restore,
)
from eventlog.base.locks import GC, acquire
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.pack import PackTables
from eventlog.blobs.store import BlobStore
from eventlog.gc.live_contents import Needed
from eventlog.worktree.statcache import raise_generation, read_generation

AGE_S_MIN = 24 * 3600

# A pack of which more than this share of bytes is dead is written anew without them, unless the caller asks
# for another share.
_DEAD_SHARE_MAX = 0.5


@dataclass(frozen=True, slots=True)
class PackShare:
    """One pack of a plan: bytes of the file, contents in it, and those that nothing live needs.

    `freed` estimates the bytes of the file that the dead contents take.
    """

    name: str
    bytes: int
    contents: int
    dead_contents: int
    freed: int


@dataclass(frozen=True, slots=True)
class CollectPlan:
    """What a collection would free: `dead` packs whole, of `partial` ones the dead contents.

    It holds for one `generation` of the store, and `token` names it.
    """

    generation: int
    dead: tuple[PackShare, ...]
    partial: tuple[PackShare, ...]
    token: str

    @property
    def freed(self) -> int:
        return sum(share.freed for share in (*self.dead, *self.partial))


@dataclass(frozen=True, slots=True)
class Swept:
    """Names of packs that left `condemned/`, and the bytes that were freed."""

    unlinked: tuple[str, ...]
    rescued: tuple[str, ...]
    bytes: int


def plan_collection(
    blobs: BlobStore, live: Set[bytes], *, dead_share_max: float = _DEAD_SHARE_MAX
) -> CollectPlan:
    """What could go when only `live` is needed; changes nothing.

    Args: dead_share_max: packs of which a smaller share is dead are left as they are.
    Raises: Corruption when a row of a pack is impossible.
    """
    with translate_os_errors(blobs.layout.gc_generation, "plan a collection"):
        generation = read_generation(blobs.fs, blobs.layout)
    dead, partial = [], []
    for tables in blobs.tables():
        share = _share(tables, live)
        if share.dead_contents == share.contents:
            dead.append(share)
        elif share.freed > share.bytes * dead_share_max:
            partial.append(share)
    facts = "\n".join([str(generation), *(f"{s.name} {s.dead_contents}" for s in (*dead, *partial))])
    token = blake3(blobs.store_id + facts.encode()).hexdigest(8)
    return CollectPlan(generation, tuple(dead), tuple(partial), token)


def carry_out(
    blobs: BlobStore, plan: CollectPlan, needed: Needed, *, lock_timeout_s: float = 10.0
) -> list[str]:
    """Carry out a plan; the packs that were condemned. A plan can be carried out once.

    Args: needed: with the ids that the plan was made with.
    Raises: Refused (another collection came between, a restore is unfinished), LockTimeout, Corruption,
        NotDurable.
    """
    from eventlog.gc.repack import repack

    names = [share.name for share in plan.dead]
    with translate_os_errors(blobs.layout.directory(PACK_DIR), "collect packs"):
        _refuse_other_generation(blobs, plan.generation)
        _refuse_unfinished(blobs)
        condemned = condemn(
            blobs, names, {}, needed, generation=plan.generation, lock_timeout_s=lock_timeout_s
        )
    partial = [share.name for share in plan.partial]
    if partial:
        condemned += repack(blobs, only=partial, needed=needed, lock_timeout_s=lock_timeout_s).condemned
    return condemned


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
            _refuse_other_generation(blobs, generation)
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


def _refuse_other_generation(blobs: BlobStore, generation: int) -> None:
    current = read_generation(blobs.fs, blobs.layout)
    if current != generation:
        raise Refused(
            f"{blobs.layout.root}: this plan was made before the last collection (generation {generation}, "
            f"now {current}). Nothing was changed; make a new plan with --dry-run."
        )


def _refuse_unfinished(blobs: BlobStore) -> None:
    """A restore or an erasure that was killed needs contents that perhaps nothing else names."""
    directory = blobs.layout.directory(RESTORE_DIR)
    if any(parse_restore(name) is not None for name in blobs.fs.listdir(directory)):
        raise Refused(
            f"{directory}: a restore is under way, or was killed. Nothing was collected; finish it with "
            "`locus restore --recover`, then try again."
        )
    if blobs.fs.exists(blobs.layout.erasing):
        raise Refused(
            f"{blobs.layout.erasing}: an erasure is under way, or was killed. Nothing was collected; finish "
            "it with `locus store erase --resume`, then try again."
        )


def _share(tables: PackTables, live: Set[bytes]) -> PackShare:
    """Stored bytes are shared out among the contents of a group by their raw lengths."""
    dead_raw = [0] * tables.group_count
    dead = 0
    for index, (id, _, group, _, length) in enumerate(tables.entries()):
        if id not in live:
            dead += 1
            if group >= tables.group_count:
                raise Corruption(tables.path, f"entry {index} is impossible")
            dead_raw[group] += length
    if dead == len(tables):
        return PackShare(tables.name, tables.size, len(tables), dead, tables.size)
    freed = 0
    for number, raw in enumerate(dead_raw):
        whole = tables.group(number)
        if whole.raw_size:
            freed += whole.stored_size * min(raw, whole.raw_size) // whole.raw_size
    return PackShare(tables.name, tables.size, len(tables), dead, freed)


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
