"""Putting events and file contents into the tables of a search index.

One thread; the caller has a transaction open. Memory: one piece, that is some 16,000 events or about 16 MB of
texts, one content, and what SQLite keeps.
"""

import sqlite3
from collections.abc import Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from blake3 import blake3

from eventlog import jsontext
from eventlog.errors import EventLogError
from eventlog.paths import path_text
from eventlog.search import document, words
from eventlog.search.query import session_word, type_word
from eventlog.snapshots.ids import TEXT_PREFIX, from_text, to_text
from eventlog.snapshots.tree import FILES
from eventlog.types import IMPORTED_AGENTS

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.reader import LogView
    from eventlog.snapshots.store import BlobStore

# A piece is one transaction: half a second of one core, the most that an erasure waits.
_PIECE_ROWS = 16_384
_PIECE_BYTES = 16 << 20
_SLICE_ROWS = 1_024

# Contents are numbered behind every position that a log can have.
FIRST_CONTENT = 1 << 40

# Rows of `kept` hold so many events, in the columns of `KEPT`.
_KEPT_ROWS = 128
_KEPT_BYTES = 256 << 10
KEPT = (
    "position", "event_id", "event_type", "session_id", "turn", "turn_id", "occurred_at", "recorded_at",
    "title", "tool", "path", "operation", "error_type", "after_hash",
)  # fmt: skip


class Named(NamedTuple):
    """A content of a `file` event: the event's position, path and facets, and the content's id.

    `late`: it was stored after the event, which does not name it (docs/certainty.md).
    """

    position: int
    path: str
    id: bytes
    facets: str
    late: bool = False


_HASH_SIZE = len(TEXT_PREFIX) + 64

_READ = (*KEPT, "agent", "agent_session_id", "before_hash", "tree_hash", "payload")
_PUT = "INSERT INTO words(rowid, title, path, body, pieces, facets) VALUES (?, ?, ?, ?, ?, ?)"


class Covered(Protocol):
    """The part of the index's own description that grows."""

    position: int
    last: int
    last_id: str
    contents: int
    too_large: int


class Filler:
    """Puts the events behind what is covered into the index of a connection."""

    def __init__(self, con: sqlite3.Connection, blobs: "BlobStore", covered: Covered) -> None:
        self._con = con
        self._blobs = blobs
        self._covered = covered
        self._facets: dict[tuple[object, object], str] = {}

    def pieces(self, view: "LogView") -> "Iterator[list[pa.RecordBatch]]":
        """The view's events behind what is covered, and an empty piece behind the last of them."""
        piece: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in view.batches(self._covered.position, columns=_READ):
            for start in range(0, batch.num_rows, _SLICE_ROWS):
                part = batch.slice(start, _SLICE_ROWS)
                piece.append(part)
                rows += part.num_rows
                size += part.nbytes
                if rows >= _PIECE_ROWS or size >= _PIECE_BYTES:
                    yield piece
                    piece, rows, size = [], 0, 0
        if piece:
            yield piece
        if self._covered.position < view.next_position:
            # What stands behind the last visible event: duplicates, or positions that were lost.
            self._covered.position = view.next_position
            yield []

    def put(self, piece: "list[pa.RecordBatch]", *, contents: bool) -> None:
        """Index a piece. Args: contents: also what the files held that its events name."""
        for part in piece:
            self._put_withheld(part)
        files: list[Named] = []
        for part in piece:
            files += self._put_events(part)
            files += self._stored_since(part)
        self._put_contents(files, contents)

    def _put_withheld(self, part: "pa.RecordBatch") -> None:
        types, titles = part["event_type"].to_pylist(), part["title"].to_pylist()
        said = [(title,) for kind, title in zip(types, titles, strict=True) if kind == "withheld" and title]
        self._con.executemany("INSERT OR IGNORE INTO withheld VALUES (?)", said)

    def _put_events(self, part: "pa.RecordBatch") -> "list[Named]":
        """Index the events themselves; the file contents that they name."""

        kinds = part["event_type"].to_pylist()
        titles = part["title"].to_pylist()
        paths = part["path"].to_pylist()
        bodies = document.bodies_of(part["payload"].to_pylist(), titles)
        heads = [
            " ".join(filter(None, row))
            for row in zip(titles, part["tool"].to_pylist(), part["error_type"].to_pylist(), strict=True)
        ]
        for number in self._unsearched(kinds):
            heads[number] = bodies[number] = ""
            paths[number] = None
        said = [path or "" for path in paths]
        pieces = words.pieces_of_each(list(map("\n".join, zip(heads, said, bodies, strict=True))))
        positions = part["position"].to_pylist()
        facets = list(map(self._facets_of, kinds, part["session_id"].to_pylist()))
        rows = zip(positions, heads, said, bodies, pieces, facets, strict=True)
        self._con.executemany(_PUT, [row for row in rows if row[1] or row[2] or row[3]])
        self._keep(part, bodies)
        covered = self._covered
        covered.last = positions[-1]
        covered.last_id = part["event_id"][-1].as_py()
        covered.position = covered.last + 1
        self._await(part, positions, paths, facets)
        return list(_named(kinds, part, positions, paths, facets))

    def _await(
        self, part: "pa.RecordBatch", positions: "list[int]", paths: "list[str | None]", facets: "list[str]"
    ) -> None:
        """Note the files whose contents may be stored later, by the list that names them."""
        rows = [
            (list_text, path, position, facet)
            for list_text, path, position, facet in zip(
                _lists_of(part), paths, positions, facets, strict=True
            )
            if list_text is not None and path
        ]
        self._con.executemany("INSERT OR IGNORE INTO awaited VALUES (?, ?, ?, ?)", rows)

    def _stored_since(self, part: "pa.RecordBatch") -> "Iterator[Named]":
        """The contents that events of this part say were stored, each with the file event that lacks it."""
        kinds = part["event_type"].to_pylist()
        if "content" not in kinds:
            return
        told = zip(kinds, part["before_hash"].to_pylist(), part["tree_hash"].to_pylist(), strict=True)
        for kind, list_text, tree_text in told:
            if kind == "content" and list_text and tree_text:
                yield from self._stored(list_text, tree_text)

    def _stored(self, list_text: str, tree_text: str) -> "Iterator[Named]":
        from eventlog.snapshots.materialize import walk

        select = "SELECT position, facets FROM awaited WHERE list = ? AND path = ?"
        try:
            for name, entry in walk(self._blobs, from_text(tree_text)):
                path = path_text(name)
                awaited = self._con.execute(select, [list_text, path]).fetchone()
                if awaited is not None and entry.kind in FILES:
                    yield Named(awaited[0], path, entry.id, awaited[1], late=True)
        except EventLogError:
            return  # damaged, or collected since

    @staticmethod
    def _unsearched(kinds: "list[str]") -> "Iterator[int]":
        if not document.UNSEARCHED_TYPES.isdisjoint(kinds):
            yield from (n for n, kind in enumerate(kinds) if kind in document.UNSEARCHED_TYPES)

    def _facets_of(self, kind: str, session: "str | None") -> str:
        facets = self._facets.get((kind, session))
        if facets is None:
            if len(self._facets) > 10_000:
                self._facets.clear()
            facets = self._facets[kind, session] = f"{type_word(kind)} {session_word(session)}"
        return facets

    def _keep(self, part: "pa.RecordBatch", bodies: "list[str]") -> None:
        """Keep what is needed to show hits, some rows at a time: each is read as a whole."""
        import pyarrow as pa
        import pyarrow.compute as pc

        schema = kept_schema()
        # Of what was imported the time of the import says nothing (docs/times.md); so `types.is_undated`.
        imported = pc.and_(
            pc.is_in(part["agent"], pa.array(IMPORTED_AGENTS)),
            pc.or_(pc.is_valid(part["agent_session_id"]), pc.equal(part["event_type"], "transcript")),
        )
        recorded = pc.if_else(imported, pa.scalar(None, part["recorded_at"].type), part["recorded_at"])
        times = pc.max(pc.coalesce(part["occurred_at"], recorded))
        newest = times.cast(pa.int64()).as_py()
        taken = {**{name: part[name] for name in KEPT}, "recorded_at": recorded}
        columns = [taken[name].cast(schema.field(name).type) for name in KEPT]
        begin = document.KEPT_SIZE_MAX
        kept = pa.array([body[:begin] if len(body) > begin else body for body in bodies], pa.string())
        rows = pa.RecordBatch.from_arrays([*columns, kept], schema=schema)
        start = 0
        while start < rows.num_rows:
            count = min(_KEPT_ROWS, rows.num_rows - start)
            while count > 1 and kept.slice(start, count).nbytes > _KEPT_BYTES:
                count //= 2
            some = rows.slice(start, count)
            raw = some.serialize()
            data = raw.size.to_bytes(4, "little") + self._codec.compress(raw, asbytes=True)
            at = some.column(0)
            self._con.execute(
                "INSERT INTO kept VALUES (?, ?, ?, ?)", [at[0].as_py(), at[-1].as_py(), newest, data]
            )
            start += count

    @cached_property
    def _codec(self) -> "pa.Codec":
        import pyarrow as pa

        return pa.Codec("zstd", 1)

    def _put_contents(self, files: "list[Named]", wanted: bool) -> None:
        """Index the contents that were not met at their path before."""
        places = self._blobs.places({named.id for named in files})
        fresh: dict[int, Named] = {}
        for named in files:
            if named.id in places:
                key = _key(named.path, named.id)
                if key not in fresh and not self._is_known(key):
                    fresh[key] = named
        withheld = {row[0] for row in self._con.execute("SELECT hash FROM withheld")} if fresh else ()
        todo: dict[bytes, list[tuple[int, Named]]] = {}
        for key, named in fresh.items():
            id = named.id
            if places[id][4] > document.CONTENT_BYTES_MAX or not wanted:
                self._covered.too_large += 1
            elif to_text(id) not in withheld:
                todo.setdefault(id, []).append((key, named))
        for id in self._blobs.read_order(todo):
            try:
                text = document.text_of(self._blobs.get(id))
            except EventLogError:
                continue  # damaged, or collected since: there is nothing to find
            if text is not None:
                self._put_content(text, todo[id])

    def _is_known(self, key: int) -> bool:
        return self._con.execute("SELECT 1 FROM contents WHERE key = ?", [key]).fetchone() is not None

    def _put_content(self, text: str, at: "list[tuple[int, Named]]") -> None:
        pieces = words.pieces_of(text)
        for key, (position, path, id, facets, late) in at:
            doc = FIRST_CONTENT + self._covered.contents
            self._covered.contents += 1
            hash = to_text(id) if late else None
            self._con.execute("INSERT INTO contents VALUES (?, ?, ?, ?)", [doc, key, position, hash])
            self._con.execute(_PUT, [doc, "", document.clean(path), text, pieces, facets])


def _named(
    kinds: "list[str]",
    part: "pa.RecordBatch",
    positions: "list[int]",
    paths: "list[str | None]",
    facets: "list[str]",
) -> "Iterator[Named]":
    """The contents that the `file` events of a part name after a change."""
    if "file" not in kinds:
        return
    afters, operations = part["after_hash"].to_pylist(), part["operation"].to_pylist()
    for kind, position, path, after, operation, facet in zip(
        kinds, positions, paths, afters, operations, facets, strict=True
    ):
        if kind == "file" and after is not None and path and operation != "read":
            yield from (Named(position, path, id, facet) for id in _id(after))


def _lists_of(part: "pa.RecordBatch") -> "Iterator[str | None]":
    """Of each event the list of contents left for later that has the one of its file."""
    kinds, afters = part["event_type"].to_pylist(), part["after_hash"].to_pylist()
    for kind, after, payload in zip(kinds, afters, part["payload"].to_pylist(), strict=True):
        is_file = kind == "file" and after is None and payload and '"deferred"' in payload
        named = jsontext.object_of(payload).get("deferred") if is_file else None
        yield named if isinstance(named, str) else None


def _key(path: str, id: bytes) -> int:
    """Tells a content at a path from all others, in 64 bits."""
    digest = blake3(path.encode("utf-8", "surrogatepass") + b"\0" + id).digest(8)
    return int.from_bytes(digest, "big", signed=True)


def kept_rows(data: bytes) -> "pa.RecordBatch":
    """What `kept` holds of some events."""
    import pyarrow as pa

    raw = pa.Codec("zstd").decompress(memoryview(data)[4:], int.from_bytes(data[:4], "little"))
    return pa.ipc.read_record_batch(raw, kept_schema())


@cache
def kept_schema() -> "pa.Schema":
    import pyarrow as pa

    numbers = {"position", "turn", "occurred_at", "recorded_at"}
    fields = [(name, pa.int64() if name in numbers else pa.string()) for name in (*KEPT, "body")]
    return pa.schema(fields)


def _id(text: str) -> "Iterator[bytes]":
    """The id in a hash; none where it is of another kind, whose content is not here."""
    if len(text) == _HASH_SIZE and text.startswith(TEXT_PREFIX):
        try:
            yield bytes.fromhex(text[len(TEXT_PREFIX) :])
        except ValueError:
            return
