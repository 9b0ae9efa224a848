"""How texts are cut into words, for indexing and for searching.

Pure, but for SQLite in memory. SQLite's `unicode61` cuts at everything but letters and digits, drops case and
accents, and so makes `snake_case`, paths and dotted names runs of words, which a phrase matches. This module
cuts the rest: words in camel case, and runs of a script that writes without spaces, whose characters become
words of their own. These pieces are indexed beside the text, in a column of their own.
"""

import re
import sqlite3
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

TOKENIZER = "unicode61 remove_diacritics 2"
_ASCII_WORDS = bytes(b if chr(b).isalnum() and b < 128 else 32 for b in range(256))
_SEPARATOR = "\x01"  # of texts; one that holds it is counted alone
_ASCII_WORDS_APART = bytes(1 if b == 1 else word for b, word in enumerate(_ASCII_WORDS))

# Between the pieces of one word and those of the next, so that no phrase reaches across. Of the category Co,
# which `unicode61` takes for a letter.
BREAK = "\ue000"

# Han, kana, hangul, and the scripts of South East Asia that set no spaces.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003134f"
)
_UNSPACED_CHAR = re.compile(f"[{_UNSPACED}]")
_UNSPACED_WORD = re.compile(rf"[^\W_]*[{_UNSPACED}][^\W_]*")
_PIECES = re.compile(f"[{_UNSPACED}]|[^{_UNSPACED}]+")

# Upper, lower or digit, anything else: one byte in, one byte out.
_CLASSES = bytes(
    ord("U") if 65 <= b <= 90 else ord("l") if 97 <= b <= 122 or 48 <= b <= 57 else ord(" ")
    for b in range(256)
)
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORD_SIZE_MAX = 200  # longer ones are data

# The pieces of recent words; most words of a code base recur.
_KNOWN_MAX = 50_000
_known: "dict[bytes, str]" = {}


def pieces_of(text: str) -> str:
    """The pieces of the camel case words and unspaced runs of a text, once for each different word."""
    return pieces_of_each([text])[0]


def pieces_of_each(texts: "Sequence[str]") -> "list[str]":
    """`pieces_of` for many texts at once, which is cheap for texts without pieces."""
    pieces_by_text: dict[int, dict[str, None]] = {}
    whole = "\n".join(texts)
    data = whole.encode("ascii", "replace")  # one byte for each character
    classes = data.translate(_CLASSES)
    offset = classes.find(b"lU")
    ends = list(accumulate(len(text) + 1 for text in texts)) if offset >= 0 else []
    while offset >= 0:
        start = classes.rfind(b" ", 0, offset) + 1
        end = classes.find(b" ", offset)
        if end < 0:
            end = len(classes)
        if end - start <= _WORD_SIZE_MAX:
            pieces_by_text.setdefault(bisect_right(ends, offset), {})[_camel(data[start:end])] = None
        offset = classes.find(b"lU", end)
    if not whole.isascii():
        for number, text in enumerate(texts):
            if not text.isascii():
                for match in _UNSPACED_WORD.finditer(text):
                    pieces_by_text.setdefault(number, {})[" ".join(_PIECES.findall(match[0]))] = None
    pieces = [""] * len(texts)
    for number, text_pieces in pieces_by_text.items():
        pieces[number] = f" {BREAK} ".join(text_pieces)
    return pieces


def _camel(word: bytes) -> str:
    pieces = _known.get(word)
    if pieces is None:
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        pieces = _known[word] = " ".join(_CAMEL.findall(word.decode("ascii")))
    return pieces


def is_unspaced(text: str) -> bool:
    """Whether characters of the text are words of their own."""
    return _UNSPACED_CHAR.search(text) is not None


def words_in(text: str) -> "list[str]":
    """The words as `unicode61` cuts them, with case and accents."""
    return _WORD.findall(text)


_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")


def pieces_in(word: str) -> "list[str]":
    """The pieces of a word of a query: the word itself where it is one piece."""
    if is_unspaced(word):
        pieces = [piece for part in _WORD.findall(word) for piece in _PIECES.findall(part)]
    else:
        pieces = [
            p for part in _WORD.findall(word) for p in (_CAMEL.findall(part) if part.isascii() else [part])
        ]
    return pieces


def folded(text: str) -> str:
    """The text without case and accents, character for character of the same length."""
    if text.isascii():
        return text.lower()
    return "".join(_folded_char(c) for c in text)


def _folded_char(c: str) -> str:
    if c.isascii():
        return c.lower()
    low = c.lower()
    base = unicodedata.normalize("NFD", low)[:1] if len(low) == 1 else low[:1]
    return base if len(base) == 1 and not is_unspaced(c) else c


def is_word_start(text: str, offset: int) -> bool:
    """Whether a word, or a piece of one, begins at this offset."""
    if offset == 0 or not text[offset - 1].isalnum() or is_unspaced(text[offset - 1 : offset + 1]):
        return True
    before, here = text[offset - 1], text[offset]
    if here.isupper():
        return not before.isupper() or text[offset + 1 : offset + 2].islower()
    return here.isdigit() != before.isdigit()


def is_word_end(text: str, offset: int) -> bool:
    """Whether a word, or a piece of one, ends before this offset."""
    return offset >= len(text) or not text[offset].isalnum() or is_word_start(text, offset)


class Tokenizer:
    """Cuts texts into words exactly as the index does, since SQLite does both."""

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

    def counts(self, texts: "list[str]") -> "list[int]":
        """How many words each of some texts has."""
        joined = _SEPARATOR.join(texts).replace(BREAK, "x")  # each is a letter
        if not joined.isascii() or joined.count(_SEPARATOR) >= len(texts):
            return list(map(self.count, texts))
        # One pass over all of them: a call for each text takes longer than its words.
        separator = _SEPARATOR.encode()
        return [len(part.split()) for part in joined.encode().translate(_ASCII_WORDS_APART).split(separator)]

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
