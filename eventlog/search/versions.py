"""The versions of one path, as passages that each knows from which version to which it was there.

What two neighbouring versions share is indexed once. A line grows at its newer end, as the log does, or at
its older one, since the newest is indexed first; versions are given in that order. A content that a path held
twice counts once, at the older place, so that no answer tells in which order things were indexed.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from eventlog.search import words
from eventlog.search.passages import PHRASE_WORDS, Passage, Tokenizer, passages_of
from eventlog.search.tables import FIRST_TEXT, MARK, Meta
from eventlog.search.texts import NEWER, OLDER, OPEN, Text, unpack

_PUT = "INSERT INTO words(rowid, body, title, path, pieces) VALUES (?, ?, '', '', '')"

# No phrase reaches over it.
_BREAK = f" {words.BREAK} "


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
        # Of the passages met in versions of this path: the key, and the pieces of its words.
        self._met: dict[Passage, tuple[int, list[str]]] = {}

    def put(
        self, versions: "Iterable[IndexedVersion]", path: int, stretch: int, head: int, *, backward: bool
    ) -> None:
        """Args: head: how many words each version has besides those of its text."""
        fresh = [one for one in versions if self._is_first(path, one)]
        if not fresh:
            return
        line, edge = self._line(path, stretch)
        known = self._known(line, backward)
        for one in fresh:
            text = self._text_of(one.id) if self._is_first(path, one) else None
            if text is not None:
                known, size = self._put_passages(edge, one, known, text, backward)
                self._put_version(line, path, one, head + size)
                if backward or edge is None:
                    edge = one.position
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

    def _known(self, line: int, backward: bool) -> "dict[int, list[_Indexed]]":
        """What the version at the end has that grows, by key."""
        known: dict[int, list[_Indexed]] = {}
        for doc, packed in self._con.execute(
            "SELECT doc, passages FROM texts WHERE line = ? AND grows > 0 AND grows & ? ORDER BY doc",
            [line, OLDER if backward else NEWER],
        ):
            text = unpack(packed)
            for number, end in enumerate(text.since if backward else text.until):
                if end == OPEN:
                    known.setdefault(text.keys[number], []).append(_Indexed(doc, text, number))
        return known

    def _put_passages(
        self,
        edge: "int | None",
        version: IndexedVersion,
        known: "dict[int, list[_Indexed]]",
        text: str,
        backward: bool,
    ) -> "tuple[dict[int, list[_Indexed]], int]":
        """Index what the neighbour lacks and end what only it has; what is known now, and how many words."""
        now: dict[int, list[_Indexed]] = {}
        fresh: list[Passage] = []
        passages = passages_of(text)
        self._meet(passages)
        pieces: set[str] = set()
        for passage in passages:
            key, some = self._met[passage]
            pieces.update(some)
            same = known.get(key)
            if same:
                now.setdefault(key, []).append(same.pop())
            else:
                fresh.append(passage)
        for gone in (one for some in known.values() for one in some):
            if backward:
                gone.text.since[gone.number] = edge or OPEN
            else:
                gone.text.until[gone.number] = version.position
            self._changed[gone.doc] = gone.text
        span = (OPEN, edge or OPEN) if backward else (OPEN if edge is None else version.position, OPEN)
        for one in self._indexed(span, fresh):
            now.setdefault(one.key, []).append(one)
        return now, sum(one.size for some in now.values() for one in some) + _size(pieces)

    def _meet(self, passages: "list[Passage]") -> None:
        """Most passages are those of the version before, so they are looked into once."""
        fresh = [one for one in passages if one not in self._met]
        for passage, pieces in zip(fresh, words.pieces_of_each([one.text for one in fresh]), strict=True):
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
            own, behind = self._count(passage.text), self._count(passage.behind)
            out += (passage.text, passage.behind, " ")
            if behind < PHRASE_WORDS - 1:
                out.append(_BREAK)
                behind += 1
            marks = list(map(self._mark, pieces))
            out += marks
            text.add(own, behind, len(marks), span, key)
            yield _Indexed(doc, text, len(text.own) - 1)
        self._con.execute(_PUT, [doc, "".join(out)])

    def _mark(self, pieces: str) -> str:
        """What stands for all words that are made of these pieces."""
        row = self._con.execute("SELECT id FROM spellings WHERE pieces = ?", [pieces]).fetchone()
        if row is None:
            row = self._con.execute("SELECT coalesce(max(id), 0) + 1 FROM spellings").fetchone()
            self._con.execute("INSERT INTO spellings VALUES (?, ?)", [row[0], pieces])
            self._con.execute("INSERT INTO spelled(rowid, pieces) VALUES (?, ?)", [row[0], pieces])
        return f"{MARK}{row[0]} "

    def _put_version(self, line: int, path: int, version: IndexedVersion, size: int) -> None:
        """Note the version; where the path held the same later, that one counts no more."""
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
    """How many words pieces are, with what stands between those of two words."""
    return sum(one.count(" ") + 2 for one in pieces) - 1 if pieces else 0
