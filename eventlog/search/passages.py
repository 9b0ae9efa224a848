"""A text as passages: pieces of a few lines each, which most versions of a file have in common.

Where a passage ends depends on the lines at its end alone, so a change moves no boundary but those beside
it, and what a version shares with another need not be indexed again. So that a phrase is found that goes on
in the next passage, each carries the first words of what follows it. Pure, but for SQLite in memory.
"""

import re
import sqlite3
from typing import NamedTuple
from zlib import crc32

from blake3 import blake3

TOKENIZER = "unicode61 remove_diacritics 2"

# A passage, with the words behind it, holds each phrase of so many words that begins in the passage.
PHRASE_WORDS = 4

# A line in so many ends a passage, and so many end it in any case.
_LINES = 4
_LINES_MAX = 16
_LINE_SIZE_MAX = 1_000
_CONTEXT_SIZE = 400

_PARTS = re.compile(r"[^;,{} ]*[;,{} ]+|[^;,{} ]+")
_CONTEXT = re.compile(rf"[\W_]*(?:[^\W_]+[\W_]+){{0,{PHRASE_WORDS - 2}}}(?:[^\W_]+)?")
_LAST_WORD = re.compile(r"[^\W_]+\Z")
_ASCII_WORDS = bytes(b if chr(b).isalnum() and b < 128 else 32 for b in range(256))


class Passage(NamedTuple):
    """`text` is its own, `behind` the beginning of what follows it."""

    text: str
    behind: str

    @property
    def key(self) -> int:
        """Tells passages apart, in 47 bits, as far as one path goes."""
        both = f"{self.text}\0{self.behind}".encode()
        return int.from_bytes(blake3(both).digest(6), "big") >> 1


def passages_of(text: str) -> "list[Passage]":
    """The passages of a text, in order; one without words stands with what is in front of it."""
    ends = _ends(text)
    return [
        Passage(text[start:end], _behind(text, end)) for start, end in zip([0, *ends], ends, strict=False)
    ]


def _ends(text: str) -> "list[int]":
    ends: list[int] = []
    at = count = 0
    for line in text.splitlines(keepends=True):
        for part in (line,) if len(line) <= _LINE_SIZE_MAX else _PARTS.findall(line):
            at += len(part)
            count += 1
            if count == _LINES_MAX or (len(part) > 1 and crc32(part.encode()) % _LINES == 0):
                ends.append(at)
                count = 0
    if count:
        ends.append(at)
    return ends


def _behind(text: str, end: int) -> str:
    """The next few words; of one that is cut off nothing, since it would be another."""
    window = text[end : end + _CONTEXT_SIZE]
    found = _CONTEXT.match(window)
    assert found is not None
    is_cut = found.end() == len(window) and end + len(window) < len(text)
    return _LAST_WORD.sub("", found[0]) if is_cut else found[0]


class Tokenizer:
    """Cuts texts into words as the index does, because SQLite does it."""

    def __init__(self) -> None:
        self._con = sqlite3.connect(":memory:", isolation_level=None)
        self._con.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='{TOKENIZER}')")
        self._con.execute("CREATE VIRTUAL TABLE found USING fts5vocab(texts, instance)")

    def tokens(self, text: str) -> "tuple[str, ...]":
        """The words of a text, in order."""
        self._put(text)
        rows = self._con.execute('SELECT term FROM found ORDER BY "offset"').fetchall()
        return tuple(row[0] for row in rows)

    def count(self, text: str) -> int:
        """How many words a text has."""
        if text.isascii():
            return len(text.encode().translate(_ASCII_WORDS).split())
        self._put(text)
        (size,) = self._con.execute("SELECT sz FROM texts_docsize").fetchone()
        return _varint(size)

    def close(self) -> None:
        self._con.close()

    def _put(self, text: str) -> None:
        self._con.execute("INSERT INTO texts(texts) VALUES ('delete-all')")
        self._con.execute("INSERT INTO texts(rowid, text) VALUES (1, ?)", [text])


def _varint(data: bytes) -> int:
    """A number as SQLite writes it: seven bits a byte, the highest first; all fit into eight bytes."""
    value = 0
    for byte in data:
        value = value << 7 | byte & 127
    return value
