"""Many packs become one: the contents of all in solid zstd groups, equal ones once (I25).

Packs are merged geometrically, so that a byte is rewritten a logarithmic number of times. Trees come
first, in groups of their own. Contents are ordered by path and, within one, newest first: so neighbours
resemble each other, and what is read most is read soonest. Paths are those of the trees that are merged and
those that the caller knows from the log; what has none comes last.

The new pack is written under the gc lock shared, then read back; an input goes to `condemned/` when every id
of it was read and hashed there (`condemn.py`). A content that cannot be read keeps the packs that hold it
where they are. Killed anywhere, every id is in an input, in the new pack, or in both (I24, I32); the next run
finds inputs that the new pack makes needless. Any number of processes may repack at once, to no more than
wasted work.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass
from typing import Any

from eventlog.base import runs
from eventlog.base.errors import Corruption, NotFound
from eventlog.base.fs import translate_os_errors
from eventlog.base.layout import PACK_DIR
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.pack import BLOB, GROUP_RAW_MAX, TREE, PackTables
from eventlog.blobs.proof import proven
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY
from eventlog.gc.condemn import condemn
from eventlog.gc.live_contents import Needed, read_trees, tree_rows
from eventlog.gc.repack_policy import choose

_LEVEL = 9
_THREADS = 2

# A group ends after the first path with which it reaches the first size, or at the second. Contents of one
# path share most of their bytes, so a cut between its versions costs one of them whole: in histories where a
# version takes a hundredth of its length, cuts every 4 MiB made packs larger by a quarter.
_GROUP_BYTES = 4 << 20
_GROUP_BYTES_MAX = GROUP_RAW_MAX

# Raw bytes that are read at a time, in the order of the inputs, to be written in another.
_WINDOW_BYTES = 64 << 20

# (id, path, position): the event at that position names that content, or tree, as that of the path
Named = Iterable[tuple[bytes, bytes, int]]
_Key = tuple[bytes, int]
_UNNAMED: _Key = (b"", 1)


@dataclass(frozen=True, slots=True)
class Repacked:
    """What a merge did: the new pack's name, if one was made, and the packs that went to `condemned/`.

    Bytes are those of the files: of the packs that went, and of the new one.
    """

    pack: str | None
    condemned: list[str]
    bytes_before: int
    bytes_after: int

    def figures(self) -> dict[str, Any]:
        """For the event that notes it."""
        return asdict(self) | {"condemned": len(self.condemned)}


def repack(
    blobs: BlobStore,
    *,
    everything: bool = False,
    only: Collection[str] | None = None,
    bytes_max: int | None = None,
    needed: Needed | None = None,
    named: Callable[[Set[bytes]], Named] | None = None,
    lock_timeout_s: float = 10.0,
) -> Repacked:
    """Merge packs: those that are worth it, or everything, or only these.

    Args:
        bytes_max: leave alone packs that would make the inputs larger than this.
        needed: leave out every other id.
        named: the paths and positions of these ids in the log, in any order.
    Raises: LockTimeout, NotDurable, Corruption (a tree that is to name paths), EventLogError.
    """
    with translate_os_errors(blobs.layout.directory(PACK_DIR), "merge packs"):
        packs = {tables.name: tables for tables in blobs.tables()}
        if only is not None:
            packs = {name: packs[name] for name in packs.keys() & set(only)}
        condemned: list[str] = []
        if only is None:
            condemned = _condemn_needless(blobs, packs, lock_timeout_s)
        inputs = {name: packs[name] for name in packs.keys() - set(condemned)}
        if not everything and only is None:
            sizes = {name: tables.size for name, tables in inputs.items()}
            inputs = {name: packs[name] for name in choose(sizes, bytes_max)}
        new, bytes_after = None, 0
        proven: dict[str, Set[bytes]] = {}
        if inputs:
            new = _merge(blobs, inputs, None if needed is None else needed.ids, named, lock_timeout_s)
            if new is not None:
                try:
                    bytes_after = blobs.fs.stat(blobs.layout.pack(new)).st_size
                    proven = {new: prove(blobs, new)}
                except FileNotFoundError:
                    pass  # others have merged or collected it already, so it proves nothing
            names = inputs.keys() - {new}
            condemned += condemn(blobs, names, proven, needed, lock_timeout_s=lock_timeout_s)
        bytes_before = sum(packs[name].size for name in condemned)
        return Repacked(new, condemned, bytes_before, bytes_after)


def prove(blobs: BlobStore, name: str) -> frozenset[bytes]:
    """The ids of a pack, each read from its file and hashed.

    Raises: Corruption.
    """
    tables = load_tables(blobs.fs, blobs.layout.pack(name), name, blobs.store_id)
    tables.check()
    return frozenset(_proven_in(blobs, tables, None))


def _proven_in(blobs: BlobStore, tables: PackTables, wanted: Set[bytes] | None) -> Iterator[bytes]:
    for id, _, _, data in proven(blobs.fs, tables, wanted, decodes=False):
        if isinstance(data, Exception):
            raise data
        yield id


def _condemn_needless(blobs: BlobStore, packs: Mapping[str, PackTables], lock_timeout_s: float) -> list[str]:
    """Condemn packs of which larger ones hold everything: a merge died, or gave up, after its commit."""
    seen: set[bytes] = set()
    needless: dict[str, set[bytes]] = {}
    larger: list[PackTables] = []
    for tables in sorted(packs.values(), key=lambda tables: (-len(tables), tables.name)):
        ids = set(tables.ids())
        if ids <= seen:
            needless[tables.name] = ids
        else:
            larger.append(tables)
            seen |= ids
    if not needless:
        return []
    wanted: set[bytes] = set().union(*needless.values())
    proven = {}
    for tables in larger:
        try:
            proven[tables.name] = set(_proven_in(blobs, tables, wanted))
        except (Corruption, FileNotFoundError):
            continue  # what it should hold is needed from elsewhere, so that stays
    return condemn(blobs, needless.keys(), proven, lock_timeout_s=lock_timeout_s)


def _merge(
    blobs: BlobStore,
    inputs: Mapping[str, PackTables],
    live: Set[bytes] | None,
    named: Callable[[Set[bytes]], Named] | None,
    lock_timeout_s: float,
) -> str | None:
    """Write the pack that holds all of the inputs; None when nothing in them is live."""
    with blobs.writer(
        codec="zstd",
        level=_LEVEL,
        group_bytes=_GROUP_BYTES_MAX,
        threads=_THREADS,
        lock_timeout_s=lock_timeout_s,
    ) as writer:
        # No process removes an input while this lock is held, and none of them changes.
        sizes = _sizes(inputs.values(), live)
        keys = _keys(blobs, sizes, [] if named is None else named(sizes[TREE].keys() | sizes[BLOB].keys()))
        for kind in (TREE, BLOB):
            ordered = sorted(sizes[kind], key=lambda id: (id not in keys, keys.get(id, _UNNAMED), id))
            last = b""
            for window in runs.bounded(ordered, sizes[kind].__getitem__, _WINDOW_BYTES):
                contents = _read(blobs, window)
                for id in window:
                    path = keys.get(id, _UNNAMED)[0]
                    if path != last or id not in keys:
                        writer.end_copies(_GROUP_BYTES)
                    last = path
                    if id in contents:
                        writer.add_copy(id, kind, contents.pop(id))
        return writer.flush()


def _sizes(inputs: Iterable[PackTables], live: Set[bytes] | None) -> dict[int, dict[bytes, int]]:
    """The length of each id, by kind."""
    sizes: dict[int, dict[bytes, int]] = {TREE: {}, BLOB: {}}
    for tables in inputs:
        tables.check()
        for id, kind, _, _, length in tables.entries():
            if live is None or id in live:
                sizes[kind][id] = length
    return sizes


def _keys(blobs: BlobStore, sizes: Mapping[int, Mapping[bytes, int]], named: Named) -> dict[bytes, _Key]:
    """(path, minus the last position at which it was there) of each id that has a path."""
    trees, contents = sizes[TREE], sizes[BLOB]
    keys: dict[bytes, _Key] = {}
    for id, path, position in named:
        if -position < keys.get(id, _UNNAMED)[1]:
            keys[id] = path, -position
    level = {id: keys[id] for id in keys.keys() & trees.keys()}
    walked: set[bytes] = set()
    while level or len(walked) < len(trees):
        if not level:  # trees that neither the log nor another tree of these packs names
            level = dict.fromkeys(trees.keys() - walked, (b"", 0))
        walked |= level.keys()
        below: dict[bytes, _Key] = {}
        for id, encoding in read_trees(blobs, level):
            path, age = keys[id] = level[id]
            prefix = path + b"/" if path else path
            for kind, child, name in tree_rows(encoding):
                target_keys = below if kind == DIRECTORY else keys
                if child in target_keys:
                    if age < target_keys[child][1]:
                        target_keys[child] = target_keys[child][0], age
                elif child in (trees if kind == DIRECTORY else contents) and child not in walked:
                    target_keys[child] = prefix + name, age
        level = below
    return keys


def _read(blobs: BlobStore, ids: Iterable[bytes]) -> dict[bytes, bytes]:
    """The contents that can be read, hashed. Packs with a content that cannot be read stay."""
    contents = {}
    for id in blobs.read_order(ids):
        try:
            contents[id] = blobs.get(id)
        except (NotFound, Corruption):
            continue
    return contents
