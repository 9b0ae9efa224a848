"""What was erased from a store, as far as it must be known not to come back: the file `.locus/erased`.

One rule a line, each ended by a newline; lines are only added, under the maintain lock, and synced:

    text <length> <0|1> <32 hex>    a text of that many bytes, without white space or with, and its
                                    BLAKE3-128, keyed with `redaction.key`
    expression <JSON string>        a regular expression of Python's `re`, on UTF-8 bytes
    content <64 hex>                a content, by its id

A text itself stands nowhere. It is found again where it stands as a word of its own: where it begins with a
letter or digit none stands in front of it, and the same behind it. Who has the store has the key, and can
try guesses. A line that is not whole is passed over. On the hook path.
"""

import os

from blake3 import blake3

from eventlog import jsontext
from eventlog.fs import FileSystem, read_file, write_all
from eventlog.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

ERASED = "erased"  # the kind in marks, and of contents that are not stored again

EMPTY_CONTENT = blake3(b"").digest()

_SIZE_MAX = 64 << 20
_DIGEST_SIZE = 16


class Rules:
    """The rules of one store. One thread at a time."""

    __slots__ = ("_contents", "_expressions", "_key", "_texts")

    def __init__(self, lines: "Iterable[bytes]", key: bytes) -> None:
        import re

        self._key = key
        self._contents: "set[bytes]" = set()
        self._expressions: "list[Any]" = []
        digests: "dict[tuple[int, bool], set[bytes]]" = {}
        for line in lines:
            try:
                kind, _, rest = line.partition(b" ")
                if kind == b"content":
                    self._contents.add(bytes.fromhex(rest.decode()))
                elif kind == b"expression":
                    self._expressions.append(re.compile(jsontext.decode(rest).encode()))
                elif kind == b"text":
                    size, spaces, digest = rest.split(b" ")
                    where = (int(size), spaces == b"1")
                    digests.setdefault(where, set()).add(bytes.fromhex(digest.decode()))
            except (ValueError, AttributeError, re.error):
                continue
        self._texts = []
        for (length, spaced), found in digests.items() if len(key) == 32 else ():
            some = rb"[\s\S]" if spaced else rb"\S"
            # As a look-ahead, so that windows may overlap.
            window = rb"(?=(%b{%d}))(?:(?<![0-9A-Za-z])|(?![0-9A-Za-z]))" % (some, length)
            self._texts.append((length, re.compile(window), found))

    def names(self, data: bytes) -> bool:
        """Whether this very content was erased."""
        return bool(self._contents) and blake3(data).digest() in self._contents

    def find(self, data: bytes) -> "list[tuple[int, int, str]]":
        """Where erased texts stand in `data`."""
        found = [
            (m.start(), m.end(), ERASED)
            for expression in self._expressions
            for m in expression.finditer(data)
            if m.end() > m.start()
        ]
        for length, window, digests in self._texts:
            if length > len(data):
                continue
            for match in window.finditer(data):
                start, end = match.span(1)
                if data[end - 1 : end].isalnum() and data[end : end + 1].isalnum():
                    continue  # the word goes on
                if digest_of(match[1], self._key) in digests:
                    found.append((start, end, ERASED))
        return found


def read(fs: FileSystem, layout: Layout) -> "Rules | None":
    """The rules of a store; None when nothing was erased. Raises: OSError, ValueError."""
    if not fs.exists(layout.erased):
        return None
    key = read_file(fs, layout.redaction_key, 32) if fs.exists(layout.redaction_key) else b""
    return Rules(read_file(fs, layout.erased, _SIZE_MAX).split(b"\n")[:-1], key)


def add(fs: FileSystem, layout: Layout, lines: "Iterable[bytes]") -> None:
    """Add rules, durably; those that are there are not added again. The caller holds the maintain lock."""
    fd = fs.open(layout.erased, os.O_RDWR | os.O_CREAT)
    try:
        data = fs.pread(fd, _SIZE_MAX, 0)
        known = set(data.split(b"\n"))
        new = [line for line in dict.fromkeys(lines) if line not in known]
        if new:
            torn = b"\n" if data and not data.endswith(b"\n") else b""
            write_all(fs, fd, torn + b"".join(line + b"\n" for line in new), len(data))
        fs.fsync(fd)
    finally:
        fs.close(fd)
    fs.fsync_dir(layout.root)


def text_rule(text: bytes, key: bytes) -> bytes:
    """The rule for a text."""
    spaced = b"1" if len(text.split()) > 1 or text.strip() != text else b"0"
    return b"text %d %b %b" % (len(text), spaced, digest_of(text, key).hex().encode())


def expression_rule(expression: str) -> bytes:
    return b"expression " + jsontext.encode(expression)


def content_rule(id: bytes) -> bytes:
    return b"content " + id.hex().encode()


def digest_of(text: bytes, key: bytes) -> bytes:
    return blake3(text, key=key).digest(_DIGEST_SIZE)
