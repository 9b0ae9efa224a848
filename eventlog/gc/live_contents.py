"""Which contents are live: those that roots name, and all below the trees among them.

A list of deferred contents is live where an entry of a live tree names it, and with it what became of its
files (docs/certainty.md §3).

Reads only, without a lock, level by level: each tree is read once, in the order in which packs hold them, and
hashed on the way. Memory: some 250 bytes for each live id. A `BlobStore` belongs to one thread at a time.

A root that is not there keeps nothing and is no error: its content was erased, or collected before somebody
kept its session again. A tree that is there and cannot be read is one: what stands below it would pass for
dead, and be gone when the tree is brought back.
"""

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, NotFound
from eventlog.base.fs import FileSystem, translate_os_errors
from eventlog.base.layout import LIVE_DIR, Layout
from eventlog.blobs.deferred import list_of, sentence_of
from eventlog.blobs.groups import GroupReader
from eventlog.blobs.ids import ID_SIZE, to_text, tree_id
from eventlog.blobs.pack import GROUP_RAW_MAX, TREE
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import SKIPPED

_MAGIC_SIZE = 2
_ENTRY = struct.Struct("<c8x32sH")  # as in `tree`, without the size
_DIRECTORY = b"d"
_NOTE_SIZE_MAX = 1 << 20
_LAST_MAX = 512
_ENDS_SIZE = 48
_NOTHING: Mapping[bytes, Iterable[bytes]] = MappingProxyType({})


def live_ids(
    blobs: BlobStore,
    roots: Iterable[bytes],
    live: set[bytes] | None = None,
    stored: Mapping[bytes, Iterable[bytes]] = _NOTHING,
) -> set[bytes]:
    """`live` with the roots added, and everything below the trees that it did not hold.

    Args:
        live: of an earlier call; everything below its trees is in it. It is changed.
        stored: list of deferred contents → the trees of what became of them; live as the list is.
    Raises: Corruption.
    """
    live = set() if live is None else live
    skipped: set[bytes] = set()
    blobs.refresh()
    _walk(blobs, set(roots) - live, live, skipped)
    lists = _lists_named(blobs, skipped)
    live |= lists
    trees = {tree for list_id, of_list in stored.items() if list_id in live for tree in of_list}
    _walk(blobs, trees - live, live, skipped)
    return live


def _walk(blobs: BlobStore, level: set[bytes], live: set[bytes], skipped: set[bytes]) -> None:
    """Add these ids, and all below the trees among them, to `live`; ids of entries `s` also to `skipped`."""
    while level:
        live |= level
        below: set[bytes] = set()
        unlike = _Unlike()
        for _, encoding in read_trees(blobs, level):
            for kind, id in unlike.rows(encoding):
                if kind == _DIRECTORY:
                    below.add(id)
                    continue
                live.add(id)
                if kind == SKIPPED:
                    skipped.add(id)
        level = below - live


def _lists_named(blobs: BlobStore, sentences: set[bytes]) -> set[bytes]:
    """The lists of deferred contents that some of these sentences name."""
    size = len(sentence_of(bytes(ID_SIZE)))
    found = set()
    for id, (_, _, _, _, length) in blobs.places(sentences).items():
        if length == size:
            found.add(list_of(blobs.get(id)))
    return {list_id for list_id in found if list_id is not None}


def told_trees(fs: FileSystem, layout: Layout) -> list[bytes]:
    """The trees with which the next captures of hooks compare, and by which they name what was there before.

    No retained event need name them, so they are roots of their own. A note that cannot be read counts for
    nothing with a hook either (docs/hooks.md). Notes are synced, so that a power cut brings no older one
    back; hooks write them under the gc lock, so who holds it exclusively has them all.
    """
    with translate_os_errors(layout.directory(LIVE_DIR), "read the notes of hooks"):
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
    if missing := wanted - places.keys():
        places |= blobs.condemned_places(missing)
        # What was in neither listing may have come back between them.
        places |= blobs.places(missing - places.keys())
    gone = missing - places.keys()
    trees = sorted((place, id) for id, place in places.items() if place[1] == TREE)
    del wanted, places
    if gone:
        try:
            blobs.get(gone.pop())  # one answers for all: it raises when a pack cannot be read
        except NotFound:
            pass
    reader = GroupReader(blobs.fs, GROUP_RAW_MAX)  # in order, so one group at a time
    try:
        for (path, _, group_offset, offset, length), id in trees:
            try:
                encoding = reader.read(path, group_offset, offset, length)
            except (Corruption, OSError):
                encoding = b""
            if tree_id(encoding) != id:
                # The store knows other copies, and where a pack went that was condemned meanwhile.
                try:
                    encoding = blobs.get(id)
                except NotFound:
                    continue  # it is gone by now
            yield id, encoding
    finally:
        reader.close()


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


class _Unlike:
    """Rows of trees, without those in which one is like the last that began and ended with the same rows.

    Versions of a directory differ in few rows; to find where costs a small part of looking at every row.
    """

    def __init__(self) -> None:
        self._last: dict[bytes, tuple[bytes, list[int]]] = {}  # encoding; where rows begin, and its end

    def rows(self, encoding: bytes) -> list[tuple[bytes, bytes]]:
        """(kind, id) of the rows that were not in the other tree, and perhaps of some that were.

        Raises: Corruption.
        """
        ends = encoding[:_ENDS_SIZE] + encoding[-_ENDS_SIZE:]
        old, starts = self._last.pop(ends, (b"", [0]))
        # Up to `start` and from `stop` on both are equal, so rows begin at the same places.
        most = min(len(old), len(encoding))
        front, back = _equal_at_ends(old, encoding)
        begin = bisect_right(starts, front) - 1
        start = starts[begin]
        longer = len(encoding) - len(old)
        end = bisect_left(starts, len(old) - min(back, most - start))
        stop = starts[end] + longer if old else len(encoding)
        found = _rows_between(encoding, max(start, _MAGIC_SIZE), stop)
        if found is None:
            begin, end = 0, len(starts)
            found = _rows_between(encoding, _MAGIC_SIZE, len(encoding))
            if found is None:
                raise Corruption("a tree", "it ends inside an entry", len(encoding))
        rows, between = found
        if longer or between != starts[begin:end]:
            after = [at + longer for at in starts[end:]] if old and end < len(starts) else [len(encoding)]
            starts = starts[:begin] + between + after
        if len(self._last) >= _LAST_MAX:
            self._last.clear()
        self._last[ends] = encoding, starts
        return rows


def _equal_at_ends(a: bytes, b: bytes) -> tuple[int, int]:
    """How many bytes are equal at the beginning, and how many at the end."""
    most = min(len(a), len(b))
    front = _differing(a[:most], b[:most])
    back = front if len(a) == len(b) else _differing(a[len(a) - most :], b[len(b) - most :])
    # Of a number, the first byte that is not zero is found by its length, the last by its lowest bit.
    return most - (front.bit_length() + 7) // 8, ((back & -back).bit_length() - 1) // 8 if back else most


def _differing(a: bytes, b: bytes) -> int:
    return int.from_bytes(a, "big") ^ int.from_bytes(b, "big")


def _rows_between(encoding: bytes, at: int, stop: int) -> tuple[list[tuple[bytes, bytes]], list[int]] | None:
    """(kind, id) of the rows in [at, stop), and where they begin; None when no row ends at `stop`."""
    rows, starts = [], []
    unpack, head = _ENTRY.unpack_from, _ENTRY.size
    while at + head <= stop:
        kind, id, length = unpack(encoding, at)
        rows.append((kind, id))
        starts.append(at)
        at += head + length
    return (rows, starts) if at == stop else None
