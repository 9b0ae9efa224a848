"""Putting events and file contents into the tables of a search index.

One thread; the caller has a transaction open. Memory: one piece, that is some 16,000 events or about 16 MB of
texts, the passages of one path, and what SQLite keeps.
"""

import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.base.paths import path_bytes
from eventlog.blobs.ids import TEXT_PREFIX
from eventlog.blobs.payload_texts import PayloadTexts
from eventlog.projections.happened import IMPORTED_AGENTS
from eventlog.search import document, tokenizer
from eventlog.search.blocks import PATH, SESSION, TYPE, Block, Names
from eventlog.search.tables import FIRST_PATH, Meta
from eventlog.search.tokenizer import Tokenizer
from eventlog.search.versions import IndexedVersion, Versions

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.blobs.store import BlobStore
    from eventlog.log.reader import LogView

# A piece is one transaction: half a second of one core, the longest that an erasure waits.
PIECE_ROWS = 16_384
_PIECE_BYTES = 16 << 20
_SLICE_ROWS, _SLICE_BYTES = 1_024, 4 << 20

_HASH_SIZE = len(TEXT_PREFIX) + 64
# Type and session count as a word each in the length of an event or a version.
_FACETS = 2

_READ = (
    "position", "event_id", "event_type", "session_id", "occurred_at", "recorded_at", "title", "tool", "path",
    "operation", "error_type", "after_hash", "agent", "agent_session_id", "payload",
)  # fmt: skip
_PUT = "INSERT INTO words(rowid, title, path, body, pieces) VALUES (?, ?, ?, ?, ?)"

# A content that an event names: the event's position, its path, the content's id.
Named = tuple[int, str, bytes]


def read_newest(view: "LogView", low: int, high: int) -> "tuple[list[pa.RecordBatch], int]":
    """The newest of the events `[low, high)`, as many as make a piece, and where that begins."""
    piece: deque[pa.RecordBatch] = deque()
    size, begin = 0, low
    for part in _slices(view, low, high):
        piece.append(part)
        size += part.nbytes
        while len(piece) > 1 and size - piece[0].nbytes >= _PIECE_BYTES:
            size -= piece.popleft().nbytes
            begin = piece[0]["position"][0].as_py()
    return list(piece), begin


def read_oldest(view: "LogView", low: int, high: int) -> "tuple[list[pa.RecordBatch], int]":
    """The oldest of the events `[low, high)`, as many as make a piece, and where that ends."""
    piece: list[pa.RecordBatch] = []
    size = 0
    for part in _slices(view, low, high):
        if size >= _PIECE_BYTES:
            return piece, part["position"][0].as_py()
        piece.append(part)
        size += part.nbytes
    return piece, high


def _slices(view: "LogView", low: int, high: int) -> "Iterator[pa.RecordBatch]":
    for batch in view.batches(low, high, columns=_READ):
        count = max(1, min(_SLICE_ROWS, _SLICE_BYTES * batch.num_rows // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, count):
            yield batch.slice(start, count)


class Indexer:
    """Puts pieces of the log into the index of a connection."""

    def __init__(self, con: sqlite3.Connection, blobs: "BlobStore", meta: Meta) -> None:
        self._con = con
        self._blobs = blobs
        self._meta = meta
        self._names = Names(con)
        self._tokenizer = Tokenizer()
        self._texts = PayloadTexts(blobs, self._may_show, size_max=document.MOVED_SIZE_MAX)

    def close(self) -> None:
        self._tokenizer.close()

    def put(self, piece: "list[pa.RecordBatch]", stretch: int, *, backward: bool, contents: bool) -> None:
        """Index a piece of a stretch. Args: backward: the stretch grows towards older events, else towards
        newer ones; contents: also the contents of the files that its events name.
        """
        files: list[Named] = []
        for part in piece:
            files += self._put_events(part)
        here, absent = self._parted(files)
        self._con.executemany("INSERT OR REPLACE INTO awaited VALUES (?, ?, ?, 0)", absent)
        for part in piece:
            self._con.executemany("INSERT OR REPLACE INTO awaited VALUES (?, ?, ?, 1)", _deferred(part))
        self._put_contents(here, stretch, backward=backward, wanted=contents)

    def put_awaited(self, view: "LogView", *, contents: bool) -> None:
        """Index the contents that were absent when their events were indexed, as a stretch of its own."""
        rows = self._con.execute("SELECT position, path, id, is_list FROM awaited ORDER BY 1").fetchall()
        lists = {row[2] for row in rows if row[3]}
        trees = _trees_of(view, lists) if lists else {}
        named: list[Named] = []
        for position, path, id, is_list in rows:
            if not is_list:
                named.append((position, path, id))
            elif (stored := self._stored(trees.get(id, []), path)) is not None:
                named.append((position, path, stored))
        present, _ = self._parted(named)
        if present:
            self._meta.numbers += 1
            self._put_contents(present, self._meta.numbers, backward=True, wanted=contents)
            done = [(position,) for position, _, _ in present]
            self._con.executemany("DELETE FROM awaited WHERE position = ?", done)

    def put_withheld(self, hashes: "Iterable[str]") -> None:
        """Note the contents that no answer may show, and that are not to be indexed from now on."""
        ids = [(content_number(id),) for text in hashes for id in _id(text)]
        self._con.executemany("INSERT OR IGNORE INTO withheld VALUES (?)", ids)

    # -- events --------------------------------------------------------------------------------

    def _put_events(self, part: "pa.RecordBatch") -> "list[Named]":
        """Index the events themselves. Returns: the file contents that they name."""
        kinds = part["event_type"].to_pylist()
        titles = part["title"].to_pylist()
        paths = part["path"].to_pylist()
        payloads = [payload and self._texts.fill_json(payload) for payload in part["payload"].to_pylist()]
        bodies = document.bodies_of(payloads, titles)
        heads = [
            " ".join(filter(None, row))
            for row in zip(titles, part["tool"].to_pylist(), part["error_type"].to_pylist(), strict=True)
        ]
        for number in _unsearched(kinds):
            heads[number] = bodies[number] = ""
            paths[number] = None
        path_texts = [document.clean(path or "") for path in paths]
        pieces = tokenizer.pieces_of_each(list(map("\n".join, zip(heads, path_texts, bodies, strict=True))))
        positions = part["position"].to_pylist()
        rows = list(zip(positions, heads, path_texts, bodies, pieces, strict=True))
        self._con.executemany(_PUT, [row for row in rows if row[1] or row[2] or row[3]])
        self._put_facts(part, kinds, rows)
        return list(_named(kinds, part, positions, paths))

    def _put_facts(
        self, part: "pa.RecordBatch", kinds: "list[str]", rows: "list[tuple[int, str, str, str, str]]"
    ) -> None:
        block = Block()
        number, meta = self._names.number, self._meta
        sessions, times = part["session_id"].to_pylist(), times_of(part)
        counts = self._tokenizer.counts(["\n".join(row[1:]) for row in rows])
        for kind, session, time, words, row in zip(kinds, sessions, times, counts, rows, strict=True):
            position, head, path_text, body, pieces = row
            if head or path_text or body or pieces:
                size = _FACETS + words
                path = number(PATH, path_text)
                block.add(position, size, number(TYPE, kind), number(SESSION, session), path, time)
                meta.rows += 1
                meta.tokens += size
        block.write(self._con)
        self._put_paths()

    def _put_paths(self) -> None:
        """Index the words of new paths: once for all their contents."""
        fresh = [(number, name) for number, kind, name in self._names.fresh if kind == PATH]
        self._con.executemany(_PUT, [(FIRST_PATH + number, "", name, "", "") for number, name in fresh])
        self._names.fresh.clear()

    # -- contents ------------------------------------------------------------------------------

    def _parted(self, files: "list[Named]") -> "tuple[list[Named], list[Named]]":
        """The files whose contents the store has, and the others."""
        locations = self._blobs.locations({named[2] for named in files})
        parts: tuple[list[Named], list[Named]] = [], []
        for position, path, id in files:
            parts[id not in locations].append((position, document.clean(path), id))
        return parts

    def _put_contents(self, files: "list[Named]", stretch: int, *, backward: bool, wanted: bool) -> None:
        """Index what files held, path by path, each in the order in which its stretch grows."""
        locations = self._blobs.locations({named[2] for named in files})
        by_path: dict[str, list[IndexedVersion]] = {}
        for position, path, id in reversed(files) if backward else files:
            if locations[id][4] > document.CONTENT_BYTES_MAX or not wanted:
                self._meta.too_large += 1
            elif not self._is_withheld(id):
                by_path.setdefault(path, []).append(IndexedVersion(position, content_number(id), id))
        for path, versions in by_path.items():
            number = self._names.number(PATH, path)
            head = _FACETS + self._tokenizer.count(path)
            Versions(self._con, self._meta, self._tokenizer, self._text_of).put(
                versions, number, stretch, head, backward=backward
            )
        self._put_paths()

    def _stored(self, trees: "list[bytes]", path: str) -> "bytes | None":
        """The content that was stored for a deferred one, None where no tree has its path."""
        for id in trees:
            for name in path_bytes(path).split(b"/"):
                try:
                    entries = self._blobs.get_tree(id)
                except EventLogError:
                    break
                match = next((entry for entry in entries if entry.name == name), None)
                if match is None:
                    break
                id = match.id
            else:
                return id
        return None

    def _is_withheld(self, id: bytes) -> bool:
        sql = "SELECT 1 FROM withheld WHERE content = ?"
        return self._con.execute(sql, [content_number(id)]).fetchone() is not None

    def _may_show(self, content: str) -> bool:
        return not any(map(self._is_withheld, _id(content)))

    def _text_of(self, id: bytes) -> "str | None":
        try:
            return document.text_of(self._blobs.get(id))
        except EventLogError:
            return None  # damaged, or collected since


def content_number(id: bytes) -> int:
    """A number that tells contents apart, in 63 bits."""
    return int.from_bytes(id[:8], "big") >> 1


def content_of(text: "str | None") -> "int | None":
    """The number of the content that a hash names."""
    return next((content_number(id) for id in _id(text or "")), None)


def withheld_hashes(view: "LogView", since: int) -> "Iterator[str]":
    """The contents that events from a position on declare withheld."""
    for event in view.iterate(since, event_types=("withheld",), columns=("title",)):
        yield str(event["title"] or "")


def _unsearched(kinds: "list[str]") -> "Iterator[int]":
    if not document.UNSEARCHED_TYPES.isdisjoint(kinds):
        yield from (n for n, kind in enumerate(kinds) if kind in document.UNSEARCHED_TYPES)


def times_of(part: "pa.RecordBatch") -> "list[int | None]":
    """When events happened, in µs. The time of an import says nothing about that (docs/times.md), as in
    `happened.is_undated`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    imported = pc.and_(
        pc.is_in(part["agent"], pa.array(IMPORTED_AGENTS)),
        pc.or_(pc.is_valid(part["agent_session_id"]), pc.equal(part["event_type"], "transcript")),
    )
    recorded = pc.if_else(imported, pa.scalar(None, part["recorded_at"].type), part["recorded_at"])
    times: list[int | None] = pc.coalesce(part["occurred_at"], recorded).cast(pa.int64()).to_pylist()
    return times


def _named(
    kinds: "list[str]", part: "pa.RecordBatch", positions: "list[int]", paths: "list[str | None]"
) -> "Iterator[Named]":
    """The contents that the `file` events of a part name after a change."""
    if "file" not in kinds:
        return
    afters, operations = part["after_hash"].to_pylist(), part["operation"].to_pylist()
    for kind, position, path, after, operation in zip(
        kinds, positions, paths, afters, operations, strict=True
    ):
        if kind == "file" and after is not None and path and operation != "read":
            yield from ((position, path, id) for id in _id(after))


def _deferred(part: "pa.RecordBatch") -> "Iterator[tuple[int, str, bytes]]":
    """The deferred contents of `file` events: position, path, and the list that names them."""
    kinds = part["event_type"].to_pylist()
    if "file" not in kinds:
        return
    columns = (part[name].to_pylist() for name in ("position", "path", "after_hash", "payload"))
    for kind, position, path, after, payload in zip(kinds, *columns, strict=True):
        if kind == "file" and after is None and path and payload and '"deferred"' in payload:
            list_hash = jsontext.object_of(payload).get("deferred")
            yield from ((position, document.clean(path), id) for id in _id(str(list_hash or "")))


def _trees_of(view: "LogView", lists: "set[bytes]") -> "dict[bytes, list[bytes]]":
    """By list of deferred contents, the trees of those that were stored later (docs/certainty.md §3)."""
    trees: dict[bytes, list[bytes]] = {}
    for event in view.iterate(event_types=("content",), columns=("before_hash", "tree_hash")):
        for list_id in _id(str(event["before_hash"] or "")):
            if list_id in lists:
                trees.setdefault(list_id, []).extend(_id(str(event["tree_hash"] or "")))
    return trees


def _id(text: str) -> "Iterator[bytes]":
    """The id in a hash; nothing for a hash of another kind, whose content is not in the store."""
    if len(text) == _HASH_SIZE and text.startswith(TEXT_PREFIX):
        try:
            yield bytes.fromhex(text[len(TEXT_PREFIX) :])
        except ValueError:
            return
