"""A text as passages: pieces of a few lines each, which most versions of a file have in common.

Where a passage ends depends on the lines at its end alone, so a change moves only the boundaries beside it,
and passages that two versions share are indexed once. Each passage carries the first words of the text after
it, so that a phrase across the boundary matches. Pure.
"""

import re
from typing import NamedTuple
from zlib import crc32

from blake3 import blake3

# A passage, with the words after it, holds each phrase of so many words that begins in the passage.
PHRASE_WORDS = 4

# One line in so many ends a passage, and so many lines end it in any case.
_LINES = 4
_LINES_MAX = 16
_LINE_SIZE_MAX = 1_000
_CONTEXT_SIZE = 400

_PARTS = re.compile(r"[^;,{} ]*[;,{} ]+|[^;,{} ]+")
_CONTEXT = re.compile(rf"[\W_]*(?:[^\W_]+[\W_]+){{0,{PHRASE_WORDS - 2}}}(?:[^\W_]+)?")
_LAST_WORD = re.compile(r"[^\W_]+\Z")


class Passage(NamedTuple):
    """`text` is its own; `following` is the beginning of the text after it."""

    text: str
    following: str

    @property
    def key(self) -> int:
        """A number that tells the passages of one path apart, in 47 bits."""
        both = f"{self.text}\0{self.following}".encode()
        return int.from_bytes(blake3(both).digest(6), "big") >> 1


def passages_of(text: str) -> "list[Passage]":
    """The passages of a text, in order; lines without words belong to the passage before them."""
    ends = _ends(text)
    return [
        Passage(text[start:end], _following_words(text, end))
        for start, end in zip([0, *ends], ends, strict=False)
    ]


def _ends(text: str) -> "list[int]":
    ends: list[int] = []
    offset = count = 0
    for line in text.splitlines(keepends=True):
        for part in (line,) if len(line) <= _LINE_SIZE_MAX else _PARTS.findall(line):
            offset += len(part)
            count += 1
            if count == _LINES_MAX or (len(part) > 1 and crc32(part.encode()) % _LINES == 0):
                ends.append(offset)
                count = 0
    if count:
        ends.append(offset)
    return ends


def _following_words(text: str, end: int) -> str:
    """The next few words, without a word that is cut off, since it would be another word."""
    window = text[end : end + _CONTEXT_SIZE]
    match = _CONTEXT.match(window)
    assert match is not None
    is_cut = match.end() == len(window) and end + len(window) < len(text)
    return _LAST_WORD.sub("", match[0]) if is_cut else match[0]
