"""A text of the search index: consecutive passages, packed into one value of the table `texts`.

A row for each passage would be as large as a third of the words. A passage has the numbers of `own` words, of
words `following` it and of `pieces`, and the positions `since` and `until`. Where one of these is `OPEN`, so
that a version may still have the passage or lack it, it also has the `key` that identifies it.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress

OPEN = 0  # no position yet; a passage that came at position 0 was always there

# Bits: the text may grow at its older end, at its newer end.
OLDER, NEWER = 1, 2

_CODES = (("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32), ("Q", 1 << 64))
_KEY_SIZE = 6


@dataclass(slots=True)
class Text:
    """The passages in order, as columns."""

    own: "list[int]" = field(default_factory=list)
    following: "list[int]" = field(default_factory=list)
    pieces: "list[int]" = field(default_factory=list)
    since: "list[int]" = field(default_factory=list)
    until: "list[int]" = field(default_factory=list)
    keys: "list[int]" = field(default_factory=list)

    def add(self, own: int, following: int, pieces: int, span: "tuple[int, int]", key: int) -> None:
        self.own.append(own)
        self.following.append(following)
        self.pieces.append(pieces)
        self.since.append(span[0])
        self.until.append(span[1])
        self.keys.append(key)

    @property
    def grows(self) -> int:
        """At which ends it may grow."""
        return OLDER * (OPEN in self.since) | NEWER * (OPEN in self.until)

    def ends(self) -> "list[int]":
        """After which word each passage ends, with the words that follow it."""
        return list(accumulate(map(sum, zip(self.own, self.following, self.pieces, strict=True))))

    def pack(self) -> bytes:
        open_ends = [a == OPEN or b == OPEN for a, b in zip(self.since, self.until, strict=True)]
        keys = (key.to_bytes(_KEY_SIZE, "big") for key in compress(self.keys, open_ends))
        numbers = map(_column, (self.own, self.following, self.pieces, self.since, self.until))
        return b"".join(chain((len(self.own).to_bytes(4, "little"),), numbers, keys))


def unpack(data: bytes) -> Text:
    count, offset = int.from_bytes(data[:4], "little"), 4
    columns: list[list[int]] = []
    for _ in range(5):
        column, offset = _numbers(data, offset, count)
        columns.append(column)
    text = Text(*columns)
    for since, until in zip(text.since, text.until, strict=True):
        key = 0
        if since == OPEN or until == OPEN:
            key = int.from_bytes(data[offset : offset + _KEY_SIZE], "big")
            offset += _KEY_SIZE
        text.keys.append(key)
    return text


class PassageLocator:
    """Finds the passage of a word in a text."""

    def __init__(self, line: int, data: bytes) -> None:
        self.line = line
        self._text = unpack(data)
        self._ends = self._text.ends()

    def passage(self, word: int) -> int:
        """The number of the passage that holds the word of this number."""
        return bisect_right(self._ends, word)

    def is_own(self, number: int, word: int) -> bool:
        """Whether that word is the passage's own, and not one that follows it."""
        text = self._text
        return word < self._ends[number] - text.following[number] - text.pieces[number]

    def span(self, number: int) -> "tuple[int, int]":
        return self._text.since[number], self._text.until[number]


def _column(values: "list[int]") -> bytes:
    """The numbers less a base below the least, in as few bytes as they need; zero stays zero."""
    base = min(filter(None, values), default=1) - 1
    top = max(values, default=0) - base
    code = next(n for n, (_, limit) in enumerate(_CODES) if top < limit)
    offsets: Iterable[int] = (value and value - base for value in values)
    if len(set(values)) == 1:
        code, offsets = len(_CODES), ()  # all are the same
        base = values[0]
    head = base.bit_length() + 7 >> 3
    return bytes((code << 4 | head,)) + base.to_bytes(head, "little") + _array(code, offsets).tobytes()


def _array(code: int, values: "Iterable[int]" = ()) -> "array[int]":
    return array(_CODES[code][0] if code < len(_CODES) else "B", values)


def _numbers(data: bytes, offset: int, count: int) -> "tuple[list[int], int]":
    code, head = data[offset] >> 4, data[offset] & 15
    offset += 1 + head
    base = int.from_bytes(data[offset - head : offset], "little")
    if code == len(_CODES):
        return [base] * count, offset
    values = _array(code)
    end = offset + count * values.itemsize
    values.frombytes(data[offset:end])
    return [value and value + base for value in values], end
