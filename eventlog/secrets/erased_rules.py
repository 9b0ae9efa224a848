"""What was erased from a store, as far as it must be known not to come back: `.locus/erased`, and its copy.

One rule a line, each ended by a newline; lines are only added, a `check`
behind them, under the maintain lock, and synced:

    text <length> <0|1> <32 hex> <64 hex> <shape>
                                            a text of that many bytes, without white space or with, its
                                            BLAKE3-128, the key of that, and the kinds of its first 24 bytes:
                                            `a` letter, `0` digit, `.` other printable ASCII, `_` white space,
                                            `~` control, `<` and `=` first and further bytes of other letters.
                                            The older form has no shape; without a key it is `redaction.key`
    expression <JSON string>                a regular expression of Python's `re`, on UTF-8 bytes
    content <64 hex>                        a content, by its id
    check <32 hex>                          BLAKE3-128 of all bytes in front of this line

A text itself stands nowhere. It is found again where it stands as a word of its own: where it begins with a
letter or digit none stands in front of it, and the same behind it. Digests are made only where the shape
fits, which C code finds out. Who has the store has the key, and can try guesses; the shape says which fit.

`erased.copy` is the same again, so that damage of one file lets nothing come back: the rules of both count,
but for those of a file in which a check does not fit while the other one is sound (I11). A line that is not
whole was cut short by a crash, and is passed over. On the hook path.
"""

import os
import time

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.fs import FileSystem, read_file, write_all
from eventlog.base.layout import Layout

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

_SHAPE_SIZE_MAX = 24
_KINDS = (
    b"~" * 9 + b"_" * 5 + b"~" * 18 + b"_" + b"." * 15 + b"0" * 10 + b"." * 7 + b"a" * 26 + b"." * 6
    + b"a" * 26 + b"." * 4 + b"~" + b"=" * 64 + b"<" * 64
)  # fmt: skip
_STEP = 1 << 20  # bytes that are looked through at a time

# A rule without a shape is tried where characters of UTF-8 begin: elsewhere no text does.
_CHARACTER = rb"(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
_CHARACTERS_MAX = 8

_CHECK = b"check "
_CHECK_SIZE = len(_CHECK) + 2 * _DIGEST_SIZE


class ErasedRules:
    """The rules of one store. One thread at a time."""

    __slots__ = ("_contents", "_expressions", "_shaped", "_unshaped", "_word_ends", "problem")

    def __init__(self, lines: "Iterable[bytes]", key: bytes, problem: "str | None" = None) -> None:
        """`key` is that of texts that come without; `problem` says which file is damaged."""
        import re

        self.problem = problem
        self._contents: "set[bytes]" = set()
        self._expressions: "list[Any]" = []
        self._word_ends = re.compile(rb"[^a0]")
        shaped: "dict[tuple[int, bytes, bytes], set[bytes]]" = {}
        unshaped: "dict[tuple[int, bool, bytes], set[bytes]]" = {}
        for line in lines:
            try:
                kind, _, rest = line.partition(b" ")
                if kind == b"content":
                    self._contents.add(bytes.fromhex(rest.decode()))
                elif kind == b"expression":
                    self._expressions.append(re.compile(jsontext.decode(rest).encode()))
                elif kind == b"text":
                    size, spaces, hex, *its = rest.split(b" ")
                    using = bytes.fromhex(its[0].decode()) if its else key
                    length, digest = int(size), bytes.fromhex(hex.decode())
                    if len(using) != KEY_SIZE or not 0 < length <= _TEXT_SIZE_MAX:
                        continue
                    if len(its) > 1 and _is_shape(its[1], length):
                        shaped.setdefault((length, using, its[1]), set()).add(digest)
                    else:
                        unshaped.setdefault((length, spaces == b"1", using), set()).add(digest)
            except (ValueError, AttributeError, OverflowError, RecursionError, re.error):
                continue
        self._shaped = [(*where, found) for where, found in shaped.items()]
        self._unshaped = []
        for (length, spaced, using), found in unshaped.items():
            # Erased again, a text has a rule with a shape as well.
            again = [some for size, its_key, _, some in self._shaped if (size, its_key) == (length, using)]
            found.difference_update(*again)
            if found:
                some = rb"[\s\S]" if spaced else rb"\S"
                characters = min(-(-length // 4), _CHARACTERS_MAX)
                # As a look-ahead, so that windows may overlap.
                window = rb"(?=%b{%d})(?:(?<![0-9A-Za-z])|(?![0-9A-Za-z]))(?=[\x00-\x7f]{%d}|%b{%d})"
                pattern = re.compile(window % (some, length, characters, _CHARACTER, characters))
                self._unshaped.append((length, using, pattern, found))

    @property
    def has_older(self) -> bool:
        """Whether some are without a shape: slow in large contents."""
        return bool(self._unshaped)

    def names(self, data: bytes) -> bool:
        """Whether this very content was erased."""
        return bool(self._contents) and blake3(data).digest() in self._contents

    def find(self, data: bytes, until: "float | None" = None) -> "list[tuple[int, int, str]]":
        """Where erased texts stand in `data`.

        `until` is a monotonic time from which on no further MiB is looked through. Raises: TimeoutError.
        """
        found = [
            (m.start(), m.end(), ERASED)
            for expression in self._expressions
            for m in expression.finditer(data)
            if m.end() > m.start()
        ]
        if not self._shaped and not self._unshaped:
            return found
        for first in range(0, len(data), _STEP):
            if until is not None and first and time.monotonic() >= until:
                raise TimeoutError(f"{first} of {len(data)} bytes were looked through in time")
            if self._shaped:
                kinds = data[first : first + _STEP + _SHAPE_SIZE_MAX - 1].translate(_KINDS)
                for shaped in self._shaped:
                    self._find_shaped(data, first, kinds, *shaped, found)
            for unshaped in self._unshaped:
                _find_unshaped(data, first, *unshaped, found)
        return found

    def _find_shaped(
        self, data: bytes, first: int, kinds: bytes, length: int, key: bytes, shape: bytes,
        digests: "set[bytes]", found: "list[tuple[int, int, str]]",
    ) -> None:  # fmt: skip
        """Those that begin in the step at `first`, of which `kinds` are the kinds."""
        stop = _STEP + len(shape) - 1
        begins_word, is_even = shape[:1].isalnum(), shape.count(shape[:1]) == len(shape)
        at = kinds.find(shape, 0, stop)
        while at >= 0 and first + at + length <= len(data):
            start = first + at
            if begins_word and data[start - 1 : start].isalnum():  # so it would be until the word ends
                word_end = self._word_ends.search(kinds, at, stop)
                at = -1 if word_end is None else kinds.find(shape, word_end.end(), stop)
                continue
            after = _look(data, start, length, key, digests, found, is_even)
            at = kinds.find(shape, after - first, stop)


def _find_unshaped(
    data: bytes, first: int, length: int, key: bytes, window: "Any",
    digests: "set[bytes]", found: "list[tuple[int, int, str]]",
) -> None:  # fmt: skip
    """Those that begin in the step at `first`."""
    stop = first + _STEP + length - 1
    match = window.search(data, first, stop)
    while match is not None:
        after = _look(data, match.start(), length, key, digests, found, True)
        match = window.search(data, after, stop) if after < first + _STEP else None


def _look(
    data: bytes, start: int, length: int, key: bytes,
    digests: "set[bytes]", found: "list[tuple[int, int, str]]", may_be_run: bool,
) -> int:  # fmt: skip
    """Note the text at `start` when it is erased; where the next one may begin."""
    end = start + length
    if data[end - 1 : end].isalnum() and data[end : end + 1].isalnum():
        return start + 1  # the word goes on
    text = data[start:end]
    if digest_of(text, key) in digests:
        found.append((start, end, ERASED))
        return start + 1
    if may_be_run and text == text[:1] * length:  # the same again until the run ends
        while piece := data[end : end + 4096]:
            rest = piece.lstrip(text[:1])
            end += len(piece) - len(rest)
            if rest:
                break
        return end - length + 1
    return start + 1


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


def read(fs: FileSystem, layout: Layout) -> "ErasedRules | None":
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
    return ErasedRules(rules_of(found), sound_key(key) or b"", problem)


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


def renew(fs: FileSystem, layout: Layout, text: bytes) -> bool:
    """Add rules with a shape for a text that has only older ones; whether it had.

    The caller holds the maintain lock. Raises: OSError, ValueError.
    """
    key = read_file(fs, layout.redaction_key, 1024) if fs.exists(layout.redaction_key) else b""
    lines = rules_of(files(fs, layout))
    keys = {sound_key(key) or b""}
    for line in lines:
        if line.startswith(b"text ") and len(its := line.split(b" ")) > 4:
            try:
                keys.add(bytes.fromhex(its[4].decode()))
            except ValueError:
                continue
    wanted = []
    for key in keys:
        if len(key) == KEY_SIZE:
            rule = text_rule(text, key)
            own = rule.split(b" ")
            older = {b" ".join(own[:4]), b" ".join(own[:5])}
            if rule not in lines and not older.isdisjoint(lines):
                wanted.append(rule)
    if wanted:
        add(fs, layout, wanted)
    return bool(wanted)


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
    shape = text[:_SHAPE_SIZE_MAX].translate(_KINDS)
    return b"text %d %b %b %b %b" % (len(text), spaced, digest, key.hex().encode(), shape)


def _is_shape(shape: bytes, length: int) -> bool:
    return len(shape) == min(length, _SHAPE_SIZE_MAX) and not shape.strip(b"a0._~<=")


def expression_rule(expression: str) -> bytes:
    return b"expression " + jsontext.encode(expression)


def content_rule(id: bytes) -> bytes:
    return b"content " + id.hex().encode()


def digest_of(text: bytes, key: bytes) -> bytes:
    return blake3(text, key=key).digest(_DIGEST_SIZE)
