"""The search index: one SQLite database with full text (FTS5) of the log in front of a position.

Derived and disposable: deleting it changes no answer, only its speed (I22). What it covers stands in it, in a
row that is written in the same transaction as the words: a process that dies leaves the state before or
after. Readers and the one writer do not wait for each other (SQLite's WAL); none of them touches the log's
locks. A writer holds the lock `search`, begins nothing while an erasure is under way, and ends when one
begins; the erasure removes the file under that lock (I30). Whatever is wrong with a file, it counts as
absent.

The database is opened by SQLite itself, not by `FileSystem`; only looking for it, making and removing it are.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from blake3 import blake3

from eventlog.errors import EventLogError
from eventlog.fs import FileSystem
from eventlog.layout import INDEX_DIR, Layout
from eventlog.locks import SEARCH, try_acquire
from eventlog.search import document
from eventlog.search.fill import Filler
from eventlog.search.meaning import Model, cover

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.snapshots.store import BlobStore

FORMAT = 1  # raised by hand when the meaning of a table changes, or how texts are cut

SIZE_MAX = 4_000_000_000  # bytes; file contents may have half of it
PREFIX, SUFFIX = "search-", ".sqlite"

# Words of new events are kept in memory up to so many bytes, then written as one sorted run. So many runs
# are merged into one, a bit of it with each transaction: with the usual four, merging takes a quarter of all,
# and no search is faster. Only when so many are there must one transaction wait for a whole merge.
_HASH_BYTES = 16 << 20
_RUNS_MERGED, _RUNS_MAX = 16, 64
_CACHE_KB = 16_000
_BUSY_S = 5.0

# How much a word counts in the title, the path, the text, its pieces. Type and session count nothing.
_WEIGHTS = "bm25(6.0, 4.0, 1.0, 0.7, 0.0)"

_TABLES = f"""
CREATE VIRTUAL TABLE words USING fts5(
    title, path, body, pieces, facets, content='', tokenize='unicode61 remove_diacritics 2');
INSERT INTO words(words, rank) VALUES ('rank', '{_WEIGHTS}');
INSERT INTO words(words, rank) VALUES ('hashsize', {_HASH_BYTES});
INSERT INTO words(words, rank) VALUES ('automerge', {_RUNS_MERGED});
INSERT INTO words(words, rank) VALUES ('crisismerge', {_RUNS_MAX});
CREATE TABLE kept(first INTEGER PRIMARY KEY, last INTEGER, newest INTEGER, data BLOB);
CREATE TABLE contents(doc INTEGER PRIMARY KEY, key INTEGER UNIQUE, position INTEGER, hash TEXT);
CREATE TABLE awaited(
    list TEXT, path TEXT, position INTEGER, facets TEXT, PRIMARY KEY (list, path)) WITHOUT ROWID;
CREATE TABLE withheld(hash TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK (one = 1), said TEXT)
"""


class Searched(Protocol):
    """What a search needs of a store."""

    fs: FileSystem
    layout: Layout
    blobs: "BlobStore"

    def view(self) -> "LogView": ...


@dataclass(slots=True)
class Meta:
    """What the index covers. `last_id` is the event at `last`, by which the log is known again."""

    store_id: str
    position: int = 0
    began: int = 0  # the log's next position when the index was begun
    last: int = -1
    last_id: str = ""
    contents: int = 0
    too_large: int = 0  # contents that were left out for their size, or for the index's


@dataclass(frozen=True, slots=True)
class Progress:
    """What an update came to. `missing` events are not indexed yet; `why` says what kept it, if anything."""

    indexed: int
    missing: int
    why: "str | None" = None


@cache
def code8() -> str:
    """Eight digits that change with what the tables mean, so that old files are left alone."""
    return blake3(f"{FORMAT} {_TABLES} {document.KEPT_SIZE_MAX}".encode()).hexdigest()[:8]


def path_of(layout: Layout) -> str:
    return f"{layout.directory(INDEX_DIR)}/{PREFIX}{code8()}{SUFFIX}"


def exists(fs: FileSystem, layout: Layout) -> bool:
    """Whether somebody has searched here before."""
    return fs.exists(path_of(layout))


@contextmanager
def reading(
    fs: FileSystem, layout: Layout, store_id: bytes
) -> "Iterator[tuple[sqlite3.Connection, Meta] | None]":
    """The index as it is, or None where there is none that can be used. Writes nothing to it."""
    con = None
    if exists(fs, layout) and not fs.exists(layout.erasing):
        con = _open_reading(path_of(layout), fs)
    try:
        meta = None if con is None else _meta(con)
        if con is None or meta is None or meta.store_id != store_id.hex():
            yield None
        else:
            con.execute("BEGIN")  # one state of it for all that is asked
            yield con, meta
    finally:
        if con is not None:
            con.close()


def update(store: Searched, *, seconds: "float | None" = None) -> Progress:
    """Bring the index up to the end of the log, for at most about so many seconds.

    Never raises for the state of the index: it is made anew where it is of no use. Raises: Corruption of
    the log, NotDurable.
    """
    fs, layout = store.fs, store.layout
    with store.view() as view, reading(fs, layout, view.store_id) as found:
        if found is not None and found[1].position == view.next_position:
            return Progress(0, 0)
    try:
        lock = try_acquire(fs, layout, SEARCH)
    except EventLogError as error:  # a store that may only be read
        return _not_updated(store, f"it cannot be written ({error})")
    if lock is None:
        return _not_updated(store, "another process is indexing")
    with lock:
        if fs.exists(layout.erasing):
            return _not_updated(store, "an erasure is under way")
        deadline = None if seconds is None else fs.monotonic() + seconds
        with store.view() as view:
            view.make_durable()
            try:
                return _update(store, view, deadline)
            except sqlite3.OperationalError as error:  # a full disk, no permission
                return Progress(0, view.next_position, f"it cannot be written ({error})")
            except sqlite3.DatabaseError:
                remove(fs, layout)  # damaged: the log has it all
                return _update(store, view, deadline)


def give_vectors(store: Searched, model: "Model") -> bool:
    """Give vectors to what is indexed; False when that is not possible now."""
    fs, layout = store.fs, store.layout
    try:
        lock = try_acquire(fs, layout, SEARCH)
    except EventLogError:
        return False
    if lock is None:
        return False
    with lock:
        if fs.exists(layout.erasing) or not exists(fs, layout):
            return False
        with closing(_open_writing(fs, layout)) as con:
            cover(con, model)
    return True


def discard(store: Searched) -> bool:
    """Remove an index that cannot be read; False when that is not possible now."""
    try:
        lock = try_acquire(store.fs, store.layout, SEARCH)
    except EventLogError:
        return False
    if lock is None:
        return False
    with lock:
        remove(store.fs, store.layout)
    return True


def maintain(store: Searched) -> None:
    """What the detached maintainer does: bring the index up to date where somebody has searched before.

    Never raises for the store's state: a search meets it, and says so.
    """
    try:
        if exists(store.fs, store.layout):
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
                pass  # SQLite removes what stands beside a database when its last user leaves


def in_memory(
    store: Searched, view: "LogView", since: int, seconds: "float | None"
) -> "tuple[sqlite3.Connection, Meta]":
    """An index of the events from a position on that nobody keeps; of those that the time suffices for."""
    con = sqlite3.connect(":memory:", isolation_level=None)
    meta = Meta(view.store_id.hex(), position=since)
    _make(con, meta)
    deadline = None if seconds is None else store.fs.monotonic() + seconds
    _fill(con, store, view, meta, deadline)
    return con, meta


def as_it_is(store: Searched) -> Progress:
    """How far the index goes, for who is not to write."""
    return _not_updated(store, "it is only read here")


def _not_updated(store: Searched, why: str) -> Progress:
    with store.view() as view, reading(store.fs, store.layout, view.store_id) as found:
        return Progress(0, view.next_position - (found[1].position if found else 0), why)


def _update(store: Searched, view: "LogView", deadline: "float | None") -> Progress:
    fs, layout = store.fs, store.layout
    with closing(_open_writing(fs, layout)) as con:
        meta = _meta(con)
        if meta is not None and meta.position == view.next_position and meta.store_id == view.store_id.hex():
            return Progress(0, 0)
        if meta is None or not _continues(meta, view):
            con.close()
            remove(fs, layout)
            with closing(_open_writing(fs, layout)) as anew:
                meta = Meta(view.store_id.hex(), began=view.next_position)
                _make(anew, meta)
                return _fill(anew, store, view, meta, deadline)
        return _fill(con, store, view, meta, deadline)


def _continues(meta: Meta, view: "LogView") -> bool:
    """Whether the log is the one that was indexed, and nothing of that was erased since."""
    if meta.store_id != view.store_id.hex() or meta.position > view.next_position:
        return False
    if any(view.iterate(max(meta.position, meta.began), event_types=("erasure",), columns=("position",))):
        return False
    if meta.last < 0:
        return True
    found = [event["event_id"] for event in view.iterate(meta.last, meta.last + 1, columns=("event_id",))]
    return found == [meta.last_id]


def _fill(
    con: sqlite3.Connection, store: Searched, view: "LogView", meta: Meta, deadline: "float | None"
) -> Progress:
    began = meta.position
    filler = Filler(con, store.blobs, meta)
    room = SIZE_MAX
    for piece in filler.pieces(view):
        con.execute("BEGIN IMMEDIATE")
        try:
            filler.put(piece, contents=_size(con) < room // 2)
            _say(con, meta)
            con.execute("COMMIT")
        except BaseException:
            con.execute("ROLLBACK")
            raise
        if store.fs.exists(store.layout.erasing):
            return Progress(
                meta.position - began, view.next_position - meta.position, "an erasure is under way"
            )
        if _size(con) >= room:
            return Progress(meta.position - began, view.next_position - meta.position, "the index is full")
        if deadline is not None and store.fs.monotonic() >= deadline:
            break
    return Progress(meta.position - began, view.next_position - meta.position)


def _size(con: sqlite3.Connection) -> int:
    return int(con.execute("PRAGMA page_count").fetchone()[0]) * int(
        con.execute("PRAGMA page_size").fetchone()[0]
    )


def _open_writing(fs: FileSystem, layout: Layout) -> sqlite3.Connection:
    path = path_of(layout)
    if not fs.exists(path):
        try:  # SQLite would make it readable for others; what stands beside it gets the same mode
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
    """Beside a writer; or, where nothing may be written and nobody writes, as the file that it is."""
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


def _make(con: sqlite3.Connection, meta: Meta) -> None:
    con.executescript(f"BEGIN; {_TABLES}; COMMIT")
    _say(con, meta)


def _say(con: sqlite3.Connection, meta: Meta) -> None:
    said = {name: getattr(meta, name) for name in Meta.__slots__}
    con.execute("INSERT OR REPLACE INTO meta VALUES (1, ?)", [json.dumps(said)])


def _meta(con: sqlite3.Connection) -> "Meta | None":
    try:
        row = con.execute("SELECT said FROM meta").fetchone()
        return None if row is None else Meta(**json.loads(row[0]))
    except (sqlite3.DatabaseError, ValueError, TypeError):
        return None


def rows(con: sqlite3.Connection, sql: str, parameters: "Sequence[Any]" = ()) -> "list[tuple[Any, ...]]":
    return con.execute(sql, parameters).fetchall()
