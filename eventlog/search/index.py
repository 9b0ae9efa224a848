"""The search index: one SQLite database with full text (FTS5) of the log, the newest events first.

Derived and disposable: deleting it changes no answer, only its speed (I22). A row of it says what it covers.
That row is written in the same transaction as the words, so a process that dies leaves the state before or
after. Readers and the one writer do not wait for each other (SQLite's WAL); none of them touches the log's
locks. A writer holds the lock `search`, begins nothing while an erasure is under way, and ends when one
begins; the erasure removes the file under that lock (I30). A file with any defect counts as absent.

SQLite itself opens the database; only finding, making and removing it go through `FileSystem`.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from blake3 import blake3

from eventlog.base.errors import EventLogError
from eventlog.base.fs import FileSystem
from eventlog.base.layout import INDEX_DIR, Layout
from eventlog.base.locks import SEARCH, try_acquire
from eventlog.search.indexer import PIECE_ROWS, Indexer, read_newest, read_oldest, withheld_hashes
from eventlog.search.meaning import Model, cover
from eventlog.search.tables import Meta, Stretch, code8, gaps, make, read_meta, write_meta

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.blobs.store import BlobStore
    from eventlog.log.reader import LogView

FULL = "the index is full"
SIZE_MAX = 4_000_000_000  # bytes; file contents may have half of it
PREFIX, SUFFIX = "search-", ".sqlite"

# A caller that may not write waits for each piece: what it got is the sooner there, all of it a fifth later.
MEMORY_ROWS = 1_024
_CACHE_KB = 16_000
_BUSY_S = 5.0


class Searched(Protocol):
    """What a search needs of a store."""

    fs: FileSystem
    layout: Layout
    blobs: "BlobStore"

    def view(self) -> "LogView": ...


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The result of an update. `missing` events are not indexed yet; `why` is the reason, if there is one."""

    indexed: int
    missing: int
    why: "str | None" = None


def path_of(layout: Layout) -> str:
    return f"{layout.directory(INDEX_DIR)}/{PREFIX}{code8()}{SUFFIX}"


def exists(fs: FileSystem, layout: Layout) -> bool:
    """Whether there is an index of this code."""
    return fs.exists(path_of(layout))


def was_searched(fs: FileSystem, layout: Layout) -> bool:
    """Whether somebody has searched here before, with this code or another."""
    return any(name.startswith(PREFIX) for name in fs.listdir(layout.directory(INDEX_DIR)))


@contextmanager
def reading(
    fs: FileSystem, layout: Layout, store_id: bytes
) -> "Iterator[tuple[sqlite3.Connection, Meta] | None]":
    """The index as it is, or None where there is none that can be used. Writes nothing to it."""
    con = None
    if exists(fs, layout) and not fs.exists(layout.erasing):
        con = _open_reading(path_of(layout), fs)
    try:
        meta = None if con is None else read_meta(con)
        if con is None or meta is None or meta.store_id != store_id.hex():
            yield None
        else:
            con.execute("BEGIN")  # all queries see one state of it
            yield con, meta
    finally:
        if con is not None:
            con.close()


def update(store: Searched, *, seconds: "float | None" = None) -> IndexProgress:
    """Bring the index up to the end of the log, for at most about so many seconds.

    Never raises for the state of the index: an unusable one is rebuilt. Raises: Corruption of
    the log, NotDurable.
    """
    fs, layout = store.fs, store.layout
    with store.view() as view, reading(fs, layout, view.store_id) as current:
        if current is not None and _is_whole(store, view, *current):
            return IndexProgress(0, 0)
    with _locked(store) as why_not:
        if why_not is None and fs.exists(layout.erasing):
            why_not = "an erasure is under way"
        if why_not is not None:
            return _not_updated(store, why_not)
        deadline = None if seconds is None else fs.monotonic() + seconds
        with store.view() as view:
            view.make_durable()
            try:
                return _update(store, view, deadline)
            except sqlite3.OperationalError as error:  # a full disk, no permission
                return IndexProgress(0, view.next_position, f"it cannot be written ({error})")
            except sqlite3.DatabaseError:
                remove(fs, layout)  # damaged: the log has everything
                return _update(store, view, deadline)


def give_vectors(store: Searched, model: "Model") -> bool:
    """Give vectors to the indexed events; False when that is not possible now."""
    fs, layout = store.fs, store.layout
    with _locked(store) as why_not:
        if why_not is not None or fs.exists(layout.erasing) or not exists(fs, layout):
            return False
        with closing(_open_writing(fs, layout)) as con, store.view() as view:
            cover(con, model, view)
    return True


def discard(store: Searched) -> bool:
    """Remove an index that cannot be read; False when that is not possible now."""
    with _locked(store) as why_not:
        if why_not is None:
            remove(store.fs, store.layout)
    return why_not is None


@contextmanager
def _locked(store: Searched) -> "Iterator[str | None]":
    """Under the lock `search`: None, or the reason why it cannot be had now."""
    try:
        lock = try_acquire(store.fs, store.layout, SEARCH)
    except EventLogError as error:  # a store that may only be read
        yield f"it cannot be written ({error})"
        return
    if lock is None:
        yield "another process is indexing"
        return
    with lock:
        yield None


def maintain(store: Searched) -> None:
    """What the detached maintainer does: bring the index up to date where somebody has searched before.

    Never raises for the store's state: the next search reports it.
    """
    try:
        if was_searched(store.fs, store.layout):
            update(store)
    except (EventLogError, OSError):
        return


def remove(fs: FileSystem, layout: Layout) -> None:
    """Remove every search index, of this code and of others. The caller holds the lock `search`."""
    for name in fs.listdir(layout.directory(INDEX_DIR)):
        if name.startswith(PREFIX):
            try:
                fs.unlink(layout.index(name))
            except FileNotFoundError:
                pass  # SQLite removes a database's side files when its last user closes it


class MemoryIndex:
    """A temporary index of events that are in no other, for a caller that may not write.

    It goes on where it stopped, and starts over where the log does not continue. One thread; close it.
    """

    def __init__(self) -> None:
        self._made: tuple[sqlite3.Connection, Meta] | None = None

    def updated(
        self, store: Searched, view: "LogView", elsewhere: "list[Stretch]", seconds: "float | None"
    ) -> "tuple[sqlite3.Connection, Meta]":
        """The index with the newest events that are in no stretch `elsewhere`, as many as time allows."""
        if self._made is not None and not self._goes_on(self._made[1], view, elsewhere):
            self.close()
        if self._made is None:
            self._made = (
                sqlite3.connect(":memory:", isolation_level=None),
                Meta(view.store_id.hex(), began=view.next_position),
            )
            make(*self._made)
        con, meta = self._made
        deadline = None if seconds is None else store.fs.monotonic() + seconds
        _fill(con, store, view, meta, deadline, elsewhere)
        return con, meta

    def _goes_on(self, meta: Meta, view: "LogView", elsewhere: "list[Stretch]") -> bool:
        """Whether the log continues what is in it, and no other index has it by now."""
        pairs = ((own, other) for own in meta.stretches for other in elsewhere)
        overlap = any(own.low < other.high and other.low < own.high for own, other in pairs)
        return not overlap and _continues(meta, view)

    def close(self) -> None:
        if self._made is not None:
            made, self._made = self._made, None
            made[0].close()


def as_it_is(store: Searched) -> IndexProgress:
    """How far the index goes, for a caller that may not write."""
    return _not_updated(store, "it is only read here")


def _not_updated(store: Searched, why: str) -> IndexProgress:
    with store.view() as view, reading(store.fs, store.layout, view.store_id) as current:
        return IndexProgress(0, view.next_position - (current[1].covered() if current else 0), why)


def _is_whole(store: Searched, view: "LogView", con: sqlite3.Connection, meta: Meta) -> bool:
    """Whether nothing is to be indexed."""
    if meta.end > view.next_position or gaps(meta.stretches, view.next_position):
        return False
    return meta.packs == _packs(store) or con.execute("SELECT 1 FROM awaited LIMIT 1").fetchone() is None


def _packs(store: Searched) -> str:
    """Changes with the packs of the store, since a new pack may bring contents that were absent."""
    store.blobs.refresh()
    return blake3("\n".join(sorted(store.blobs.pack_names)).encode()).hexdigest()[:16]


def _update(store: Searched, view: "LogView", deadline: "float | None") -> IndexProgress:
    fs, layout = store.fs, store.layout
    with closing(_open_writing(fs, layout)) as con:
        meta = read_meta(con)
        if meta is not None and _continues(meta, view):
            return _fill(con, store, view, meta, deadline)
    remove(fs, layout)
    with closing(_open_writing(fs, layout)) as con:
        meta = Meta(view.store_id.hex(), began=view.next_position)
        make(con, meta)
        return _fill(con, store, view, meta, deadline)


def _continues(meta: Meta, view: "LogView") -> bool:
    """Whether the log is the one that was indexed, and nothing of it was erased since."""
    if meta.store_id != view.store_id.hex() or meta.end > view.next_position:
        return False
    if any(view.iterate(max(meta.end, meta.began), event_types=("erasure",), columns=("position",))):
        return False
    if meta.last < 0:
        return True
    last_ids = [event["event_id"] for event in view.iterate(meta.last, meta.last + 1, columns=("event_id",))]
    return last_ids == [meta.last_id]


def _fill(
    con: sqlite3.Connection,
    store: Searched,
    view: "LogView",
    meta: Meta,
    deadline: "float | None",
    elsewhere: "list[Stretch] | None" = None,
) -> IndexProgress:
    """Index one piece after another, the newest first, until all is indexed or something ends it."""
    end, others = view.next_position, elsewhere or []
    before = sum(high - low for low, high in gaps([*meta.stretches, *others], end))
    with closing(Indexer(con, store.blobs, meta)) as indexer:
        with _transaction(con, meta):
            indexer.put_withheld(withheld_hashes(view, meta.withheld_until))
            meta.withheld_until = end
            if elsewhere is None and (packs := _packs(store)) != meta.packs:
                indexer.put_awaited(view, contents=_size(con) < SIZE_MAX // 2)
                meta.packs = packs
        while True:
            left = sum(high - low for low, high in gaps([*meta.stretches, *others], end))
            why = None if elsewhere is not None else _reason_to_end(con, store)
            if left and why is not None:
                return IndexProgress(before - left, left, why)
            if not left or (left < before and deadline is not None and store.fs.monotonic() >= deadline):
                return IndexProgress(before - left, left)
            with _transaction(con, meta):
                rows = PIECE_ROWS if elsewhere is None else min(PIECE_ROWS, MEMORY_ROWS)
                _put_next(indexer, view, meta, others, rows, contents=_size(con) < SIZE_MAX // 2)


@contextmanager
def _transaction(con: sqlite3.Connection, meta: Meta) -> Iterator[None]:
    con.execute("BEGIN IMMEDIATE")
    try:
        yield
        write_meta(con, meta)
        con.execute("COMMIT")
    except BaseException:
        con.execute("ROLLBACK")
        raise


def _reason_to_end(con: sqlite3.Connection, store: Searched) -> "str | None":
    if store.fs.exists(store.layout.erasing):
        return "an erasure is under way"
    return FULL if _size(con) >= SIZE_MAX else None


def _put_next(
    indexer: Indexer, view: "LogView", meta: Meta, others: "list[Stretch]", rows: int, *, contents: bool
) -> None:
    """Index the next piece. A few new events extend the newest stretch; many begin one of their own,
    since the newest of them come first.
    """
    low, high = gaps([*meta.stretches, *others], view.next_position)[0]
    newest = meta.stretches[0] if meta.stretches else None
    if newest is not None and newest.high == low and high - low <= rows:
        piece, newest.high = read_oldest(view, low, high)
        indexer.put(piece, newest.number, backward=False, contents=contents)
    else:
        stretch = next((newer for newer in meta.stretches if newer.low == high), None) or _begun(meta, high)
        piece, stretch.low = read_newest(view, max(low, high - rows), high)
        indexer.put(piece, stretch.number, backward=True, contents=contents)
    _note_last(meta, piece)


def _begun(meta: Meta, position: int) -> Stretch:
    """A stretch that grows from a position towards older events."""
    meta.numbers += 1
    begun = Stretch(position, position, meta.numbers)
    meta.stretches.append(begun)
    meta.stretches.sort(key=lambda stretch: (-stretch.high, -stretch.low))
    return begun


def _note_last(meta: Meta, piece: "list[pa.RecordBatch]") -> None:
    if piece and (last := piece[-1]["position"][-1].as_py()) > meta.last:
        meta.last, meta.last_id = last, piece[-1]["event_id"][-1].as_py()


def _size(con: sqlite3.Connection) -> int:
    return int(con.execute("PRAGMA page_count").fetchone()[0]) * int(
        con.execute("PRAGMA page_size").fetchone()[0]
    )


def _open_writing(fs: FileSystem, layout: Layout) -> sqlite3.Connection:
    path = path_of(layout)
    if not fs.exists(path):
        try:  # SQLite would make it readable for others; its side files get the same mode
            fs.close(fs.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        except OSError as error:
            raise sqlite3.OperationalError(str(error.strerror)) from error
    con = sqlite3.connect(_uri(path, "rw"), uri=True, isolation_level=None, timeout=_BUSY_S)
    try:
        con.execute("PRAGMA journal_mode = WAL")
        con.execute("PRAGMA synchronous = NORMAL")
        con.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        return con
    except sqlite3.DatabaseError:
        con.close()
        raise


def _open_reading(path: str, fs: FileSystem) -> "sqlite3.Connection | None":
    """Open it beside a writer; or as an immutable file, where nothing may be written and nobody writes."""
    for mode in ("ro", "ro&immutable=1"):
        if mode != "ro" and fs.exists(f"{path}-wal"):
            return None
        try:
            con = sqlite3.connect(_uri(path, mode), uri=True, isolation_level=None, timeout=_BUSY_S)
        except sqlite3.Error:
            continue
        try:
            con.execute("SELECT count(*) FROM meta").fetchone()
            return con
        except sqlite3.Error:
            con.close()
    return None


def _uri(path: str, mode: str) -> str:
    return f"file:{quote(path)}?mode={mode}"
