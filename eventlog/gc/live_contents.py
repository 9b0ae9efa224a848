"""Which contents are live: those that roots name, and all below the trees among them.

A list of deferred contents is live where an entry of a live tree names it, and with it what became of its
files (docs/certainty.md §3).

Reads only, without a lock, level by level: each tree is read once, in the order in which packs hold them, and
hashed on the way. Memory: some 250 bytes for each live id. A `BlobStore` belongs to one thread at a time.

A missing root retains nothing and is no error: its content was erased, or collected before its session was
held again. A tree that exists and cannot be read is an error: what is below it would pass for dead, and be
gone when the tree is brought back.
"""

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, NotFound
from eventlog.base.fs import FileSystem, translate_os_errors
from eventlog.base.layout import LIVE_DIR, Layout
from eventlog.blobs.deferred import list_of, sentence_of
from eventlog.blobs.groups import GroupReader
from eventlog.blobs.ids import ID_SIZE, from_texts, to_text, tree_id
from eventlog.blobs.pack import GROUP_RAW_MAX, TREE
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import SKIPPED
from eventlog.log.reader import LogView
from eventlog.log.retained import stored_in

_MAGIC_SIZE = 2
_ENTRY = struct.Struct("<c8x32sH")  # as in `tree`, without the size
_DIRECTORY = b"d"
_NOTE_SIZE_MAX = 1 << 20
_LAST_MAX = 512
_ENDS_SIZE = 48
_NOTHING: Mapping[bytes, Iterable[bytes]] = MappingProxyType({})


class Needed:
    """The contents that are needed: `ids` as they were marked, and what became live since.

    Args: late: gives the roots that are live by now, and need not have been when `ids` were marked.
    """

    __slots__ = ("_late", "ids")

    def __init__(self, ids: set[bytes], late: Callable[[], Iterable[bytes]] = tuple) -> None:
        self.ids = ids
        self._late = late

    def include_late(self, blobs: BlobStore) -> None:
        """Under the gc lock, where nothing more can become live. Raises: Corruption."""
        live_ids(blobs, self._late(), self.ids)


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
    lists = set()
    for id, (_, _, _, _, length) in blobs.locations(sentences).items():
        if length == size:
            lists.add(list_of(blobs.get(id)))
    return {list_id for list_id in lists if list_id is not None}


def baseline_trees(fs: FileSystem, layout: Layout) -> list[bytes]:
    """The baselines: the trees that the next captures of hooks compare with.

    Perhaps no retained event names them, so they are roots of their own. Hooks ignore a checkpoint that
    cannot be read too (docs/hooks.md). The files are synced, so that a power cut brings no older one back;
    hooks write them under the gc lock, so its exclusive holder sees them all.
    """
    with translate_os_errors(layout.directory(LIVE_DIR), "read the notes of hooks"):
        return list(_baseline_trees(fs, layout))


def _baseline_trees(fs: FileSystem, layout: Layout) -> Iterator[bytes]:
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
    locations = blobs.locations(wanted)
    if missing := wanted - locations.keys():
        locations |= blobs.condemned_locations(missing)
        # An id that was in neither listing may have come back between them.
        locations |= blobs.locations(missing - locations.keys())
    absent = missing - locations.keys()
    trees = sorted((location, id) for id, location in locations.items() if location[1] == TREE)
    del wanted, locations
    if absent:
        try:
            blobs.get(absent.pop())  # one of them is enough: it raises when a pack cannot be read
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


def walk(
    blobs: BlobStore, roots: Iterable[bytes], passed: Collection[bytes] = ()
) -> Iterator[tuple[bytes, list[tuple[bytes, bytes, bytes]]]]:
    """(id, rows) of the trees among the roots and of all below them, each once, level by level.

    Args: passed: trees below which it does not go. Raises: Corruption.
    """
    level, seen = set(roots), set(roots)
    while level:
        below: set[bytes] = set()
        for tree, encoding in read_trees(blobs, level):
            rows = list(tree_rows(encoding))
            below.update(id for kind, id, _ in rows if kind == _DIRECTORY and id not in passed)
            yield tree, rows
        level = below - seen
        seen |= level


def reaching(ids: Iterable[bytes], parents: Mapping[bytes, Iterable[bytes]]) -> set[bytes]:
    """The ids, and all trees from which one of them is reached. Args: parents: of each id the trees."""
    reached = set(ids)
    waiting = list(reached)
    while waiting:
        above = set(parents.get(waiting.pop(), ())) - reached
        reached |= above
        waiting += above
    return reached


def stored_trees(view: LogView, since: int = 0) -> dict[bytes, list[bytes]]:
    """The stored deferred contents by events from `since` on: list → trees."""
    trees_by_list: dict[bytes, list[bytes]] = {}
    for text, trees in stored_in(view, since).items():
        for list_id in from_texts((text,)):
            trees_by_list[list_id] = list(from_texts(trees))
    return trees_by_list


def tree_rows(encoding: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(kind, id, name) of each entry of a tree whose bytes were hashed; reads no more than it must.

    Raises: Corruption.
    """
    offset, end = _MAGIC_SIZE, len(encoding)
    unpack, head = _ENTRY.unpack_from, _ENTRY.size
    while offset + head <= end:
        kind, id, length = unpack(encoding, offset)
        offset += head
        yield kind, id, encoding[offset : offset + length]
        offset += length
    if offset != end:
        raise Corruption(to_text(b""), "a tree ends inside an entry", offset)


class _Unlike:
    """Rows of trees, without those that equal the rows of the last tree with the same beginning and end.

    Versions of a directory differ in few rows; finding where costs a small part of decoding every row.
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
        rows_and_starts = _rows_between(encoding, max(start, _MAGIC_SIZE), stop)
        if rows_and_starts is None:
            begin, end = 0, len(starts)
            rows_and_starts = _rows_between(encoding, _MAGIC_SIZE, len(encoding))
            if rows_and_starts is None:
                raise Corruption("a tree", "it ends inside an entry", len(encoding))
        rows, between = rows_and_starts
        if longer or between != starts[begin:end]:
            starts_after = (
                [start_of_row + longer for start_of_row in starts[end:]]
                if old and end < len(starts)
                else [len(encoding)]
            )
            starts = starts[:begin] + between + starts_after
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


def _rows_between(
    encoding: bytes, offset: int, stop: int
) -> tuple[list[tuple[bytes, bytes]], list[int]] | None:
    """(kind, id) of the rows in [at, stop), and where they begin; None when no row ends at `stop`."""
    rows, starts = [], []
    unpack, head = _ENTRY.unpack_from, _ENTRY.size
    while offset + head <= stop:
        kind, id, length = unpack(encoding, offset)
        rows.append((kind, id))
        starts.append(offset)
        offset += head + length
    return (rows, starts) if offset == stop else None
