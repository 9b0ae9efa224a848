"""Erasing contents: packs are rewritten without them, and no copy stays.

`holding` searches; `remove` makes one new pack of all those that hold an erased id, without it, reads it
back, and unlinks the old ones at once, where a merge would keep them for a day. Other contents that only a
condemned pack holds are stored again first. Writers go on meanwhile; the exclusive `gc` lock is held while
packs go. Killed anywhere, every id that was not erased is found (I24), and repeating it finishes it (I32).
"""

from collections.abc import Collection, Iterator, Mapping, Set

from eventlog.base.errors import Corruption, EventLogError, InvalidEvent, NotFound
from eventlog.base.fs import translate_os_errors
from eventlog.base.layout import CONDEMNED_DIR, PACK_DIR, parse_pack
from eventlog.base.locks import GC, acquire
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.ids import tree_id
from eventlog.blobs.pack import TREE, PackTables
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, TreeEntry, encode_tree
from eventlog.gc.live_contents import Needed, read_trees, tree_rows, walk
from eventlog.gc.repack import repack
from eventlog.log.pattern import Pattern
from eventlog.worktree.statcache import raise_generation

# A further round is needed when another process had begun a merge, or stored a content again.
_ROUNDS_MAX = 10


def holding(blobs: BlobStore, pattern: Pattern) -> dict[bytes, bool]:
    """The ids of contents that hold the pattern, and whether each is a tree: then names in it hold it.

    Reads every content once. One that a collection removes meanwhile is left out.
    Raises: Corruption when one cannot be read.
    """
    kinds: dict[bytes, int] = {}
    for tables in [*blobs.tables(), *(tables for _, tables in _condemned(blobs))]:
        kinds.update(_kinds(tables))
    trees_by_id = {}
    for id in blobs.read_order(kinds):
        try:
            if pattern.is_in(blobs.get(id)):
                trees_by_id[id] = kinds[id] == TREE
        except NotFound:
            continue
    return trees_by_id


def renamed(
    blobs: BlobStore, holding: Collection[bytes], pattern: Pattern, mark: str
) -> dict[bytes, tuple[TreeEntry, ...]]:
    """The trees without the pattern in their names: those `holding` it, and all above them.

    By id the entries of its replacement. A tree is left out where its names cannot do without the pattern.
    Raises: Corruption when a tree cannot be read.
    """
    above: dict[bytes, list[bytes]] = {}
    trees = (id for tables in blobs.tables() for id, kind in _kinds(tables) if kind == TREE)
    for id, encoding in read_trees(blobs, trees):
        for kind, child, _ in tree_rows(encoding):
            if kind == DIRECTORY:
                above.setdefault(child, []).append(id)
    new: dict[bytes, tuple[TreeEntry, ...]] = {}
    ids: dict[bytes, bytes] = {}
    waiting = list(holding)
    while waiting:
        id = waiting.pop()
        entries = tuple(
            TreeEntry(
                _without(entry.name, pattern, mark), entry.kind, ids.get(entry.id, entry.id), entry.size
            )
            for entry in blobs.get_tree(id)
        )
        try:
            encoding = encode_tree(entries)
        except InvalidEvent:
            continue  # two of its names would be one
        if pattern.is_in(encoding) or ids.get(id) == tree_id(encoding):
            continue
        new[id], ids[id] = entries, tree_id(encoding)
        waiting += above.get(id, ())
    return new


def _without(name: bytes, pattern: Pattern, mark: str) -> bytes:
    return pattern.sub(name.decode("utf-8", "surrogateescape"), mark).encode("utf-8", "surrogateescape")


def _kinds(tables: PackTables) -> Iterator[tuple[bytes, int]]:
    for id, kind, *_ in tables.entries():
        yield id, kind


def at_path(blobs: BlobStore, roots: Collection[bytes], path: bytes) -> set[bytes]:
    """The ids of all contents at `path`, or below it, in one of the trees. Raises: Corruption."""
    level = set(roots)
    parts = path.split(b"/")
    ids: set[bytes] = set()
    for number, part in enumerate(parts):
        below: set[bytes] = set()
        for _, encoding in read_trees(blobs, level):
            for kind, id, name in tree_rows(encoding):
                if name == part:
                    last = number == len(parts) - 1
                    (below if kind == DIRECTORY else ids if last else set()).add(id)
        level = below
    for _, rows in walk(blobs, level):
        ids.update(id for kind, id, _ in rows if kind != DIRECTORY)
    return ids


def remove(blobs: BlobStore, ids: Set[bytes], *, lock_timeout_s: float = 10.0) -> list[str]:
    """Take these contents out of all packs; the names of packs that are gone.

    A merge that another process had begun may give one a new pack meanwhile: that one is next.
    Raises: LockTimeout, NotDurable; Corruption when a pack that holds one cannot be rewritten;
    EventLogError when other processes store them again and again.
    """
    if not ids:
        return []
    unlinked: list[str] = []
    tried: set[str] = set()
    with translate_os_errors(blobs.layout.directory(PACK_DIR), "erase contents"):
        for number in range(_ROUNDS_MAX):
            packs = {tables.name: tables for tables in blobs.tables() if not ids.isdisjoint(tables.ids())}
            if stays := packs.keys() & tried:
                raise Corruption(
                    packs[min(stays)].path,
                    "it holds what is to be erased, and other contents that cannot be read: "
                    "see `locus store verify`, then erase again",
                )
            if number and not packs:
                return unlinked
            tried |= packs.keys()
            unlinked += _remove_from(blobs, packs, ids, lock_timeout_s)
    raise EventLogError(
        f"{blobs.layout.root}: other processes store what is to be erased as often as it goes. "
        "End them, then go on with `locus store erase --resume`."
    )


def _remove_from(
    blobs: BlobStore, packs: Mapping[str, PackTables], ids: Set[bytes], lock_timeout_s: float
) -> list[str]:
    """Rewrite these packs without the ids, and unlink every condemned one that holds some; their names."""
    fs, layout = blobs.fs, blobs.layout
    if packs:
        live = {id for tables in packs.values() for id in tables.ids()} - ids
        repack(blobs, only=packs.keys(), needed=Needed(live), lock_timeout_s=lock_timeout_s)
    _keep_others(blobs, ids, lock_timeout_s)
    unlinked = []
    # No process is writing a pack when this lock is free.
    with acquire(fs, layout, GC, timeout_s=lock_timeout_s):
        blobs.refresh()
        raise_generation(fs, layout)  # no stat cache proves that they exist
        for name, tables in list(_condemned(blobs)):
            if not ids.isdisjoint(tables.ids()):
                fs.unlink(f"{layout.directory(CONDEMNED_DIR)}/{name}")
                unlinked.append(tables.name)
        fs.fsync_dir(layout.directory(CONDEMNED_DIR))
    blobs.close()
    return unlinked


def _keep_others(blobs: BlobStore, ids: Set[bytes], lock_timeout_s: float) -> None:
    """Store again the other contents that only a condemned pack with erased ones holds."""
    others: dict[bytes, int] = {}
    for _, tables in _condemned(blobs):
        if not ids.isdisjoint(tables.ids()):
            others.update((id, kind) for id, kind in _kinds(tables) if id not in ids)
    if not others:
        return
    with blobs.writer(lock_timeout_s=lock_timeout_s) as writer:
        alone = others.keys() - blobs.locations(others).keys()
        for id in sorted(alone, key=lambda id: (others[id] != TREE, id)):
            try:
                writer.add_copy(id, others[id], blobs.get(id))
            except (NotFound, Corruption):
                continue  # it could not be read before either
        writer.flush()


def _condemned(blobs: BlobStore) -> Iterator[tuple[str, PackTables]]:
    """(file name, tables) of the condemned packs that can be read."""
    for path, tables in _packs_in(blobs, CONDEMNED_DIR):
        if tables is not None:
            yield path.rpartition("/")[2], tables


def unreadable(blobs: BlobStore) -> list[str]:
    """Paths of packs whose contents are unknown."""
    packs = [pack for directory in (PACK_DIR, CONDEMNED_DIR) for pack in _packs_in(blobs, directory)]
    return [path for path, tables in packs if tables is None]


def _packs_in(blobs: BlobStore, name: str) -> Iterator[tuple[str, PackTables | None]]:
    """The path of each pack, and its tables unless these are damaged."""
    directory = blobs.layout.directory(name)
    for file in blobs.fs.listdir(directory):
        stem = parse_pack(file.rpartition("-")[2])
        if stem is None:
            continue
        path = f"{directory}/{file}"
        try:
            yield path, load_tables(blobs.fs, path, stem, blobs.store_id)
        except Corruption:
            yield path, None
        except FileNotFoundError:
            continue  # another process was first
