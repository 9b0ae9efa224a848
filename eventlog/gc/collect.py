"""The plan of a collection of contents, and carrying it out.

A collection frees what its plan names and no more (I29); it cannot be repeated, since it raises the
generation that the plan names. Killed anywhere, a live id is in a pack that stays (I32).
"""

from collections.abc import Set
from dataclasses import dataclass

from blake3 import blake3

from eventlog.base.errors import Corruption, Refused
from eventlog.base.fs import translate_os_errors
from eventlog.base.layout import PACK_DIR, RESTORE_DIR, parse_restore
from eventlog.blobs.pack import PackTables
from eventlog.blobs.store import BlobStore
from eventlog.gc.condemn import condemn, refuse_other_generation
from eventlog.gc.live_contents import Needed
from eventlog.gc.repack import repack
from eventlog.worktree.statcache import read_generation

# A pack of which more than this share of bytes is dead is rewritten without them, unless the caller asks
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
    names = [share.name for share in plan.dead]
    with translate_os_errors(blobs.layout.directory(PACK_DIR), "collect packs"):
        refuse_other_generation(blobs, plan.generation)
        _refuse_unfinished(blobs)
        condemned = condemn(
            blobs, names, {}, needed, generation=plan.generation, lock_timeout_s=lock_timeout_s
        )
    partial = [share.name for share in plan.partial]
    if partial:
        condemned += repack(blobs, only=partial, needed=needed, lock_timeout_s=lock_timeout_s).condemned
    return condemned


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
