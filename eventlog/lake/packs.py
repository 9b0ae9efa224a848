"""Packs for a lake: made of what may leave a store, and found again by their tables (docs/lake.md §7).

Made of a set of ids: each content is hashed as it is read, trees come first in groups of their own,
contents in the order of their paths. Equal ids give equal bytes, so a publisher that was killed makes the
same pack again. What is not in the set is never read.

Read from the end: footer and tables by one GET, by two where the tables are large. Threads read the tables of
several packs at once; all else is one thread's.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter

from blake3 import blake3

from eventlog.base import jsontext, runs
from eventlog.base.errors import Corruption, EventLogError, NotFound
from eventlog.blobs.ids import hasher_of, to_text
from eventlog.blobs.pack import (
    BLOB,
    ENTRY_SIZE,
    FOOTER_SIZE,
    GROUP_RAW_MAX,
    TREE,
    ZSTD,
    Group,
    PackTables,
    decode_tables,
    encode_group_head,
    encode_header,
    encode_tables,
    tables_range,
)
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY
from eventlog.blobs.writer import encoded_group
from eventlog.gc.live_contents import tree_rows
from eventlog.lake import chain
from eventlog.lake.chain import Chain, stem_of
from eventlog.lake.place import Place, StoredObject, each

# Raw bytes of one pack, unless it is one larger content: what making a pack takes of memory, twice.
PACK_RAW_MAX = 64 << 20
# A reader of a pack keeps its tables in memory; these are some 16 MB.
PACK_ENTRIES_MAX = 250_000

# As those of a repacked store (gc/repack.py): a group ends after the path with which it reaches the first
# size, or at the second.
_GROUP_BYTES = 4 << 20
_GROUP_BYTES_MAX = GROUP_RAW_MAX
_LEVEL = 9

# The end of a pack that is read first: footer and tables of some 1,100 contents.
END_BYTES = 64 << 10
# Tables of four times the entries that a pack of ours may have; a larger claim is not believed.
_TABLES_BYTES_MAX = 4 * PACK_ENTRIES_MAX * (ENTRY_SIZE + 20)
# Packs whose tables are read at a time.
PACKS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class MadePack:
    """A pack to publish: its name (BLAKE3 of its bytes, hexadecimal), the bytes, and the ids in it."""

    name: str
    data: bytes
    ids: "frozenset[bytes]"


@dataclass(frozen=True, slots=True)
class _Content:
    """What is known of a content before it is read."""

    id: bytes
    kind: int
    size: int
    path: bytes


def made_packs(blobs: BlobStore, ids: Collection[bytes], missing: "dict[bytes, str]") -> Iterator[MadePack]:
    """The packs with these contents and trees of a store, made one after the other; none for no ids.

    Args: ids: of what may leave; missing: gets the ids that the store cannot read, each with the reason.
    """
    contents_in_order = _in_order(blobs, ids, missing)
    for window in runs.bounded(contents_in_order, attrgetter("size"), PACK_RAW_MAX, PACK_ENTRIES_MAX):
        contents: dict[bytes, bytes] = {}
        for id in blobs.read_order(content.id for content in window):
            try:
                contents[id] = blobs.get(id)
            except (NotFound, Corruption) as error:
                missing[id] = str(error)
        members = [content for content in window if _holds(contents, content, missing)]
        if members:
            yield _pack_of(blobs.store_id, members, contents)


def _holds(contents: "dict[bytes, bytes]", content: _Content, missing: "dict[bytes, str]") -> bool:
    """Whether a content was read and is what its id promises, as the kind that its pack says."""
    data = contents.get(content.id)
    if data is None:
        return False
    if hasher_of(content.kind).update(data).digest() == content.id:
        return True
    missing[content.id] = f"{to_text(content.id)} is known by another hash, so it is not published"
    return False


def _in_order(blobs: BlobStore, ids: Collection[bytes], missing: "dict[bytes, str]") -> list[_Content]:
    """All that the store has of `ids`: trees, then contents by path, those without one last."""
    wanted = set(ids)
    located = blobs.locations(wanted)
    located |= blobs.condemned_locations(wanted - located.keys())
    kinds = {id: (location[1], location[4]) for id, location in located.items()}
    for id in wanted - kinds.keys():
        try:
            kinds[id] = BLOB, len(blobs.get(id))  # in no pack: git may hold it
        except (NotFound, Corruption) as error:
            missing[id] = str(error)
    paths = _paths(blobs, {id for id, (kind, _) in kinds.items() if kind == TREE}, kinds.keys())
    contents = [_Content(id, kind, size, paths.get(id, b"")) for id, (kind, size) in kinds.items()]
    return sorted(contents, key=lambda c: (c.kind != TREE, c.id not in paths, c.path, -c.size, c.id))


def _paths(blobs: BlobStore, trees: "set[bytes]", ids: Collection[bytes]) -> "dict[bytes, bytes]":
    """The least path of each id below the trees that no other of them names; ids that none names have none.

    Trees are read twice: what they name would be a hundred times what is kept of it.
    """
    below = {
        child
        for _, encoding in _encodings(blobs, trees)
        for kind, child, _ in tree_rows(encoding)
        if kind == DIRECTORY
    }
    paths = dict.fromkeys(trees - below, b"")
    level = dict(paths)
    while level:
        named: dict[bytes, bytes] = {}
        for id, encoding in _encodings(blobs, level):
            prefix = level[id] + b"/" if level[id] else b""
            for _, child, name in tree_rows(encoding):
                if child in ids and child not in paths:
                    path = prefix + name
                    named[child] = min(named.get(child, path), path)
        paths |= named
        level = {id: path for id, path in named.items() if id in trees}
    return paths


def _encodings(blobs: BlobStore, trees: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """(id, encoding) of the trees that can be read."""
    for id in blobs.read_order(trees):
        try:
            yield id, blobs.get(id)
        except (NotFound, Corruption):
            continue  # it is listed as missing when its own turn comes


def _pack_of(store_id: bytes, members: Iterable[_Content], contents: Mapping[bytes, bytes]) -> MadePack:
    """The pack with these contents, each group decoded and hashed again before it counts."""
    header = encode_header(store_id)
    parts = [header]
    size = len(header)
    groups: list[Group] = []
    entries: list[tuple[bytes, int, int, int, int]] = []
    for group in _groups(members):
        placed = []  # id, kind, offset, length
        raw_size = 0
        for content in group:
            length = len(contents[content.id])
            placed.append((content.id, content.kind, raw_size, length))
            raw_size += length
        codec, stored = encoded_group(b"".join(contents[id] for id, *_ in placed), placed, ZSTD, _LEVEL)
        entries += [(id, kind, len(groups), offset, length) for id, kind, offset, length in placed]
        groups.append(Group(size, codec, raw_size, len(stored)))
        parts += [encode_group_head(codec, raw_size, len(stored)), stored]
        size += len(parts[-2]) + len(stored)
    parts += encode_tables(header, groups, entries, size)
    data = b"".join(parts)
    return MadePack(blake3(data).hexdigest(), data, frozenset(id for id, *_ in entries))


def _groups(members: Iterable[_Content]) -> Iterator[list[_Content]]:
    """Members of one kind that are compressed together; a large content is alone."""
    group: list[_Content] = []
    size = 0
    for content in members:
        last = group[-1] if group else content
        ends = last.kind != content.kind or size + content.size > _GROUP_BYTES_MAX
        if group and (ends or (size >= _GROUP_BYTES and last.path != content.path)):
            yield group
            group, size = [], 0
        group.append(content)
        size += content.size
    if group:
        yield group


def live_packs(place: Place, state: Chain) -> list[StoredObject]:
    """The packs of a store in a place, without those that a rewrite removed; in the order of their names."""
    removed = {stem_of(name) for rewrite in state.rewrites for name in rewrite.removes_packs}
    removed -= {stem_of(name) for rewrite in state.rewrites for name in rewrite.adds_packs}
    entries = place.list(f"{chain.prefix_of(state.store_id)}/packs")
    return [entry for entry in entries if stem_of(entry.name) not in removed]


def named_packs(place: Place, names: Iterable[str]) -> "set[str]":
    """The names (as `MadePack.name`) of the packs that these files of events were published with."""
    named: set[str] = set()
    for name in names:
        named.update(jsontext.decode(chain.metadata_of(place, name).get("packs", "[]").encode()))
    return {stem_of(name) for name in named}


def tables_of(
    place: Place, store_id: bytes, entries: "list[StoredObject]"
) -> "Iterator[tuple[StoredObject, PackTables | EventLogError]]":
    """The tables of these packs, or why each cannot be read; some at a time, in their order."""
    for start in range(0, len(entries), PACKS_AT_ONCE):
        part = entries[start : start + PACKS_AT_ONCE]
        yield from zip(part, each(lambda entry: _tables(place, store_id, entry), part), strict=True)


def _tables(place: Place, store_id: bytes, entry: StoredObject) -> "PackTables | EventLogError":
    try:
        return read_tables(place, store_id, entry)
    except (Corruption, NotFound) as error:
        return error


def read_tables(place: Place, store_id: bytes, entry: StoredObject) -> PackTables:
    """The tables of a pack, from its end alone. Raises: Corruption, NotFound."""
    address = place.address(entry.name)
    end = place.read_end(entry.name, END_BYTES)
    base, until = tables_range(end[-FOOTER_SIZE:], entry.size, address)
    if until - base > _TABLES_BYTES_MAX:
        raise Corruption(
            address, f"its tables claim {until - base} bytes, more than a pack of ours has", base
        )
    if base >= entry.size - len(end):
        tables = end[len(end) - (entry.size - base) : -FOOTER_SIZE]
    else:
        tables = place.read_range(entry.name, base, until - base)
    # Its digest covers the header, too: that of this store and no other.
    header = encode_header(store_id)
    return decode_tables(header, tables, end[-FOOTER_SIZE:], entry.size, address, stem_of(entry.name))
