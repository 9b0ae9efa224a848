"""Which contents are live: those that roots name, and all below the trees among them.

Reads only, without a lock, level by level: each tree is read once, in the order in which packs hold them, and
hashed on the way. Memory: some 100 bytes for each live id. A `BlobStore` belongs to one thread at a time.

A root that is not there keeps nothing and is no error: its content was erased, or collected before somebody
kept its session again. A tree that is there and cannot be read is one: what stands below it would pass for
dead, and be gone when the tree is brought back.
"""

import os
import struct
from collections.abc import Iterable, Iterator

from eventlog import jsontext
from eventlog.errors import Corruption, NotFound
from eventlog.fs import FileSystem, Refusals
from eventlog.layout import LIVE_DIR, Layout
from eventlog.snapshots.ids import ID_SIZE, to_text
from eventlog.snapshots.pack import TREE
from eventlog.snapshots.store import BlobStore

_MAGIC_SIZE = 2
_ENTRY = struct.Struct("<c8x32sH")  # as in `tree`, without the size
_DIRECTORY = b"d"
_NOTE_SIZE_MAX = 1 << 20


def live_ids(blobs: BlobStore, roots: Iterable[bytes], live: set[bytes] | None = None) -> set[bytes]:
    """`live` with the roots added, and everything below the trees that it did not hold.

    Args: live: of an earlier call; everything below its trees is in it. It is changed.
    Raises: Corruption.
    """
    live = set() if live is None else live
    level = set(roots) - live
    blobs.refresh()
    while level:
        live |= level
        below: set[bytes] = set()
        for _, encoding in read_trees(blobs, level):
            for kind, id, _ in tree_rows(encoding):
                if kind == _DIRECTORY:
                    below.add(id)
                else:
                    live.add(id)
        level = below - live
    return live


def told_trees(fs: FileSystem, layout: Layout) -> list[bytes]:
    """The trees with which the next captures of hooks compare, and by which they name what was there before.

    No retained event need name them, so they are roots of their own. A note that cannot be read counts for
    nothing with a hook either (docs/hooks.md). Notes are synced, so that a power cut brings no older one
    back; hooks write them under the gc lock, so who holds it exclusively has them all.
    """
    with Refusals(layout.directory(LIVE_DIR), "read the notes of hooks"):
        return list(_told_trees(fs, layout))


def _told_trees(fs: FileSystem, layout: Layout) -> Iterator[bytes]:
    try:
        names = fs.listdir(layout.directory(LIVE_DIR))
    except FileNotFoundError:
        return  # a store of an earlier version
    for name in names:
        if not name.endswith(".told"):
            continue
        fd = fs.open(layout.live(name), os.O_RDONLY)
        try:
            fs.fsync(fd)
            data = fs.pread(fd, _NOTE_SIZE_MAX, 0)
        finally:
            fs.close(fd)
        try:
            tree = bytes.fromhex(jsontext.decode(data)["tree"])
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if len(tree) == ID_SIZE:
            yield tree


def read_trees(blobs: BlobStore, ids: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """(id, encoding) of those ids that are trees, in the order in which they are stored.

    Raises: Corruption.
    """
    wanted = set(ids)
    places = blobs.places(wanted)
    trees = sorted((place, id) for id, place in places.items() if place[1] == TREE)
    for _, id in trees:
        yield id, blobs.get(id)
    for id in wanted - places.keys():  # it waits in `condemned/`, or is gone
        try:
            if blobs.kind_of(id) == "tree":
                yield id, blobs.get(id)
        except NotFound:
            continue


def tree_rows(encoding: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(kind, id, name) of each entry of a tree whose bytes were hashed; looks no further than it must.

    Raises: Corruption.
    """
    at, end = _MAGIC_SIZE, len(encoding)
    unpack, head = _ENTRY.unpack_from, _ENTRY.size
    while at + head <= end:
        kind, id, length = unpack(encoding, at)
        at += head
        yield kind, id, encoding[at : at + length]
        at += length
    if at != end:
        raise Corruption(to_text(b""), "a tree ends inside an entry", at)
