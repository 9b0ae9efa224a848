"""The versions of one path as passages, each with its first and last version.

Passages that two neighbouring versions share are indexed once. A line grows at its newer end, as the log
does, or at its older end, since the newest is indexed first; versions are given in that order. A content that
a path held twice counts once, at the older position, so that no answer depends on the order of indexing.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from eventlog.search import tokenizer
from eventlog.search.passages import PHRASE_WORDS, Passage, passages_of
from eventlog.search.tables import FIRST_TEXT, MARK, Meta
from eventlog.search.texts import NEWER, OLDER, OPEN, Text, unpack
from eventlog.search.tokenizer import Tokenizer

_PUT = "INSERT INTO words(rowid, body, title, path, pieces) VALUES (?, ?, '', '', '')"

# No phrase reaches across it.
_BREAK = f" {tokenizer.BREAK} "


@dataclass(frozen=True, slots=True)
class IndexedVersion:
    """What a path held after the event at a position. `content` is the number of its id."""

    position: int
    content: int
    id: bytes


@dataclass(frozen=True, slots=True)
class _Indexed:
    """A passage in the index: the text number `doc`, and its number in that."""

    doc: int
    text: Text
    number: int

    @property
    def key(self) -> int:
        return self.text.keys[self.number]

    @property
    def size(self) -> int:
        """In words."""
        return self.text.own[self.number]


class Versions:
    """Puts versions of one path into the index."""

    def __init__(
        self,
        con: sqlite3.Connection,
        meta: Meta,
        tokenizer: Tokenizer,
        text_of: "Callable[[bytes], str | None]",
    ) -> None:
        self._con = con
        self._meta = meta
        self._count = tokenizer.count
        self._text_of = text_of
        self._changed: dict[int, Text] = {}
        # The key, and the pieces of the words, of the passages seen in versions of this path.
        self._met: dict[Passage, tuple[int, list[str]]] = {}

    def put(
        self, versions: "Iterable[IndexedVersion]", path: int, stretch: int, head: int, *, backward: bool
    ) -> None:
        """Args: head: how many words each version has besides those of its text."""
        fresh = [version for version in versions if self._is_first(path, version)]
        if not fresh:
            return
        line, edge = self._line(path, stretch)
        growing = self._growing(line, backward)
        for version in fresh:
            text = self._text_of(version.id) if self._is_first(path, version) else None
            if text is not None:
                growing, size = self._put_passages(edge, version, growing, text, backward)
                self._put_version(line, path, version, head + size)
                if backward or edge is None:
                    edge = version.position
        self._con.execute("UPDATE lines SET edge = ? WHERE id = ?", [edge, line])
        self._con.executemany(
            "INSERT OR REPLACE INTO texts VALUES (?, ?, ?, ?)",
            [(doc, line, text.grows, text.pack()) for doc, text in self._changed.items()],
        )
        self._changed.clear()
        self._met.clear()

    def _is_first(self, path: int, version: IndexedVersion) -> bool:
        """Whether no older version of the path that is indexed has the same content."""
        sql = "SELECT position FROM versions WHERE path = ? AND content = ?"
        row = self._con.execute(sql, [path, version.content]).fetchone()
        return row is None or row[0] > version.position

    def _line(self, path: int, stretch: int) -> "tuple[int, int | None]":
        self._con.execute("INSERT OR IGNORE INTO lines(stretch, path) VALUES (?, ?)", [stretch, path])
        sql = "SELECT id, edge FROM lines WHERE path = ? AND stretch = ?"
        line, edge = self._con.execute(sql, [path, stretch]).fetchone()
        return line, edge

    def _growing(self, line: int, backward: bool) -> "dict[int, list[_Indexed]]":
        """The passages of the version at the growing end, by key."""
        growing: dict[int, list[_Indexed]] = {}
        for doc, packed in self._con.execute(
            "SELECT doc, passages FROM texts WHERE line = ? AND grows > 0 AND grows & ? ORDER BY doc",
            [line, OLDER if backward else NEWER],
        ):
            text = unpack(packed)
            for number, end in enumerate(text.since if backward else text.until):
                if end == OPEN:
                    growing.setdefault(text.keys[number], []).append(_Indexed(doc, text, number))
        return growing

    def _put_passages(
        self,
        edge: "int | None",
        version: IndexedVersion,
        growing: "dict[int, list[_Indexed]]",
        text: str,
        backward: bool,
    ) -> "tuple[dict[int, list[_Indexed]], int]":
        """Index what the neighbour lacks, end what only it has. Returns: the passages now, how many words."""
        now: dict[int, list[_Indexed]] = {}
        fresh: list[Passage] = []
        passages = passages_of(text)
        self._meet(passages)
        pieces: set[str] = set()
        for passage in passages:
            key, passage_pieces = self._met[passage]
            pieces.update(passage_pieces)
            same = growing.get(key)
            if same:
                now.setdefault(key, []).append(same.pop())
            else:
                fresh.append(passage)
        for gone in chain.from_iterable(growing.values()):
            if backward:
                gone.text.since[gone.number] = edge or OPEN
            else:
                gone.text.until[gone.number] = version.position
            self._changed[gone.doc] = gone.text
        span = (OPEN, edge or OPEN) if backward else (OPEN if edge is None else version.position, OPEN)
        for indexed in self._indexed(span, fresh):
            now.setdefault(indexed.key, []).append(indexed)
        return now, sum(indexed.size for group in now.values() for indexed in group) + _size(pieces)

    def _meet(self, passages: "list[Passage]") -> None:
        """Work out each passage once: most passages are those of the version before."""
        fresh = [passage for passage in passages if passage not in self._met]
        for passage, pieces in zip(
            fresh, tokenizer.pieces_of_each([passage.text for passage in fresh]), strict=True
        ):
            self._met[passage] = passage.key, pieces.split(_BREAK) if pieces else []

    def _indexed(self, span: "tuple[int, int]", fresh: "list[Passage]") -> "Iterator[_Indexed]":
        """Index the passages as one text."""
        if not fresh:
            return
        doc = FIRST_TEXT + self._meta.texts
        self._meta.texts += 1
        out: list[str] = []
        text = self._changed[doc] = Text()
        for passage in fresh:
            key, pieces = self._met[passage]
            own, following = self._count(passage.text), self._count(passage.following)
            out += (passage.text, passage.following, " ")
            if following < PHRASE_WORDS - 1:
                out.append(_BREAK)
                following += 1
            marks = list(map(self._mark, pieces))
            out += marks
            text.add(own, following, len(marks), span, key)
            yield _Indexed(doc, text, len(text.own) - 1)
        self._con.execute(_PUT, [doc, "".join(out)])

    def _mark(self, pieces: str) -> str:
        """The mark that stands for all words that are made of these pieces."""
        row = self._con.execute("SELECT id FROM spellings WHERE pieces = ?", [pieces]).fetchone()
        if row is None:
            row = self._con.execute("SELECT coalesce(max(id), 0) + 1 FROM spellings").fetchone()
            self._con.execute("INSERT INTO spellings VALUES (?, ?)", [row[0], pieces])
            self._con.execute("INSERT INTO spelled(rowid, pieces) VALUES (?, ?)", [row[0], pieces])
        return f"{MARK}{row[0]} "

    def _put_version(self, line: int, path: int, version: IndexedVersion, size: int) -> None:
        """Note the version; a later version with the same content no longer counts."""
        meta = self._meta
        same = "FROM versions WHERE path = ? AND content = ?"
        for (former,) in self._con.execute(f"SELECT size {same}", [path, version.content]).fetchall():
            self._con.execute(f"DELETE {same}", [path, version.content])
            meta.rows -= 1
            meta.tokens -= former
        self._con.execute(
            "INSERT INTO versions VALUES (?, ?, ?, ?, ?)",
            [line, version.position, path, version.content, size],
        )
        meta.rows += 1
        meta.tokens += size


def _size(pieces: "set[str]") -> int:
    """How many words the pieces are, with the breaks between them."""
    return sum(piece.count(" ") + 2 for piece in pieces) - 1 if pieces else 0
