"""What was erased from a store, as far as it must be known not to come back: `.locus/erased`, and its copy.

One rule a line, each ended by a newline; lines are only added, a `check`
behind them, under the maintain lock, and synced:

    text <length> <0|1> <32 hex> <64 hex>   a text of that many bytes, without white space or with, its
                                            BLAKE3-128, and the key of that; without one it is `redaction.key`
    expression <JSON string>                a regular expression of Python's `re`, on UTF-8 bytes
    content <64 hex>                        a content, by its id
    check <32 hex>                          BLAKE3-128 of all bytes in front of this line

A text itself stands nowhere. It is found again where it stands as a word of its own: where it begins with a
letter or digit none stands in front of it, and the same behind it. Who has the store has the key, and can
try guesses.

`erased.copy` is the same again, so that damage of one file lets nothing come back: the rules of both count,
but for those of a file in which a check does not fit while the other one is sound (I11). A line that is not
whole was cut short by a crash, and is passed over. On the hook path.
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
_TEXT_SIZE_MAX = 1 << 24
KEY_SIZE = 32

_CHECK = b"check "
_CHECK_SIZE = len(_CHECK) + 2 * _DIGEST_SIZE


class Rules:
    """The rules of one store. One thread at a time."""

    __slots__ = ("_contents", "_expressions", "_texts", "problem")

    def __init__(self, lines: "Iterable[bytes]", key: bytes, problem: "str | None" = None) -> None:
        """`key` is that of texts that come without; `problem` says which file is damaged."""
        import re

        self.problem = problem
        self._contents: "set[bytes]" = set()
        self._expressions: "list[Any]" = []
        digests: "dict[tuple[int, bool, bytes], set[bytes]]" = {}
        for line in lines:
            try:
                kind, _, rest = line.partition(b" ")
                if kind == b"content":
                    self._contents.add(bytes.fromhex(rest.decode()))
                elif kind == b"expression":
                    self._expressions.append(re.compile(jsontext.decode(rest).encode()))
                elif kind == b"text":
                    size, spaces, digest, *its_key = rest.split(b" ")
                    using = bytes.fromhex(its_key[0].decode()) if its_key else key
                    if len(using) == KEY_SIZE and 0 < int(size) <= _TEXT_SIZE_MAX:
                        where = (int(size), spaces == b"1", using)
                        digests.setdefault(where, set()).add(bytes.fromhex(digest.decode()))
            except (ValueError, AttributeError, OverflowError, RecursionError, re.error):
                continue
        self._texts = []
        for (length, spaced, using), found in digests.items():
            some = rb"[\s\S]" if spaced else rb"\S"
            # As a look-ahead, so that windows may overlap.
            window = rb"(?=(%b{%d}))(?:(?<![0-9A-Za-z])|(?![0-9A-Za-z]))" % (some, length)
            self._texts.append((length, re.compile(window), using, found))

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
        for length, window, key, digests in self._texts:
            if length > len(data):
                continue
            for match in window.finditer(data):
                start, end = match.span(1)
                if data[end - 1 : end].isalnum() and data[end : end + 1].isalnum():
                    continue  # the word goes on
                if digest_of(match[1], key) in digests:
                    found.append((start, end, ERASED))
        return found


class RuleFile:
    """One of the two files, as it is. `checks` are those that fit; `problem` says why it is damaged."""

    __slots__ = ("checks", "data", "lines", "path", "problem")

    def __init__(self, path: str, data: bytes, problem: "str | None" = None) -> None:
        self.path = path
        self.data = data
        self.problem = problem
        self.lines: "list[bytes]" = []
        self.checks: "list[str]" = []
        summed, seen, at = blake3(), 0, 0
        for line in data.split(b"\n")[:-1]:
            if line.startswith(_CHECK) and len(line) >= _CHECK_SIZE:  # a shorter one was cut short by a crash
                summed.update(data[seen:at])
                seen = at
                said = line[len(_CHECK) :].decode("utf-8", "replace")
                if said == summed.digest(_DIGEST_SIZE).hex():
                    self.checks.append(said)
                elif self.problem is None:
                    self.problem = f"{path}: the bytes in front of byte {at} are not what was written"
            elif not line.startswith(_CHECK):
                self.lines.append(line)
            at += len(line) + 1


def files(fs: FileSystem, layout: Layout) -> "list[RuleFile]":
    """Both files, without those that are not there. One that cannot be read is damaged and says nothing."""
    found: "list[RuleFile]" = []
    for path in (layout.erased, layout.erased_copy):
        if not fs.exists(path):
            continue
        try:
            data = read_file(fs, path, _SIZE_MAX)
        except (OSError, ValueError) as error:
            found.append(RuleFile(path, b"", f"{path} cannot be read: {error}"))
        else:
            if not found or found[0].data != data:  # the same again says no more
                found.append(RuleFile(path, data))
    return found


def rules_of(found: "Iterable[RuleFile]") -> "list[bytes]":
    """The rules that count."""
    all_of = list(found)
    some = [one for one in all_of if one.problem is None] or all_of
    return list(dict.fromkeys(line for one in some for line in one.lines))


def read(fs: FileSystem, layout: Layout) -> "Rules | None":
    """The rules of a store; None when nothing was erased. Damage is told by their `problem`."""
    found = files(fs, layout)
    if not found:
        return None
    problems = [one.problem for one in found if one.problem is not None]
    problem = f"{problems[0]}. `locus store verify` says what to do" if problems else None
    try:
        key = read_file(fs, layout.redaction_key, 1024) if fs.exists(layout.redaction_key) else b""
    except (OSError, ValueError):
        key = b""  # verify names it
    return Rules(rules_of(found), sound_key(key) or b"", problem)


def add(fs: FileSystem, layout: Layout, lines: "Iterable[bytes]") -> "list[str]":
    """Add rules, durably, to both files; the checks behind them. The caller holds the maintain lock.

    Rules that only one file has are added to the other. Raises: OSError, ValueError.
    """
    wanted = dict.fromkeys((*rules_of(files(fs, layout)), *lines))
    if not wanted:
        return []
    checks = [_add(fs, path, wanted) for path in (layout.erased, layout.erased_copy)]
    fs.fsync_dir(layout.root)
    return checks


def _add(fs: FileSystem, path: str, wanted: "Iterable[bytes]") -> str:
    fd = fs.open(path, os.O_RDWR | os.O_CREAT)
    try:
        one = RuleFile(path, fs.pread(fd, _SIZE_MAX, 0))
        known = set(one.lines)
        new = [line for line in wanted if line not in known]
        check = one.checks[-1] if one.checks else ""
        if new or not one.data.endswith(_CHECK + check.encode() + b"\n"):
            torn = b"\n" if one.data and not one.data.endswith(b"\n") else b""
            more = torn + b"".join(line + b"\n" for line in new)
            check = blake3(one.data + more).digest(_DIGEST_SIZE).hex()
            write_all(fs, fd, more + _CHECK + check.encode() + b"\n", len(one.data))
        fs.fsync(fd)
    finally:
        fs.close(fd)
    return check


def key_file(key: bytes) -> bytes:
    """What `redaction.key` holds: the key, and its digest."""
    return key + blake3(key).digest(_DIGEST_SIZE)


def sound_key(data: bytes) -> "bytes | None":
    """The key in such a file, which may be of the form without the digest; None when it is damaged."""
    key = data[:KEY_SIZE]
    return key if len(key) == KEY_SIZE and data in (key, key_file(key)) else None


def text_rule(text: bytes, key: bytes) -> bytes:
    """The rule for a text."""
    spaced = b"1" if len(text.split()) > 1 or text.strip() != text else b"0"
    digest = digest_of(text, key).hex().encode()
    return b"text %d %b %b %b" % (len(text), spaced, digest, key.hex().encode())


def expression_rule(expression: str) -> bytes:
    return b"expression " + jsontext.encode(expression)


def content_rule(id: bytes) -> bytes:
    return b"content " + id.hex().encode()


def digest_of(text: bytes, key: bytes) -> bytes:
    return blake3(text, key=key).digest(_DIGEST_SIZE)
