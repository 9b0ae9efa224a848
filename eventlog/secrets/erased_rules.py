"""The rules that keep erased texts and contents from coming back: `.locus/erased`, and its copy.

One rule a line, each ended by a newline. Lines are only added, a `check` after them, under the maintain lock,
and synced:

    text <length> <0|1> <32 hex> <64 hex> <shape>
                                            a text of that many bytes, without white space or with, its
                                            BLAKE3-128, the key of that, and the kinds of its first 24 bytes:
                                            `a` letter, `0` digit, `.` other printable ASCII, `_` white space,
                                            `~` control, `<` and `=` first and further bytes of other letters.
                                            The older form has no shape; without a key it is `redaction.key`
    expression <JSON string>                a regular expression of Python's `re`, on UTF-8 bytes
    content <64 hex>                        a content, by its id
    check <32 hex>                          BLAKE3-128 of all bytes before this line

A text itself is kept nowhere. It matches where it is a word of its own: if it begins with a letter or digit,
none precedes it, and likewise at its end. Digests are made only where the shape matches, which C code tests.
A person with the store has the key, and can try guesses; the shape says which are possible.

`erased.copy` is the same again, so that damage of one file lets nothing come back: the rules of both count,
except those of a file with a wrong check while the other file is valid (I11). An incomplete line was cut
short by a crash, and is skipped. On the hook path.
"""

import os
import time

from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.fs import FileSystem, opened, read_file, write_all
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
_STEP = 1 << 20  # bytes that are searched at a time

# A rule without a shape is tried only where a character of UTF-8 begins, as every text does.
_CHARACTER = rb"(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
_CHARACTERS_MAX = 8

_CHECK = b"check "
_CHECK_SIZE = len(_CHECK) + 2 * _DIGEST_SIZE


class ErasedRules:
    """The rules of one store. One thread at a time."""

    __slots__ = ("_contents", "_expressions", "_shaped", "_unshaped", "_word_ends", "problem")

    def __init__(self, lines: "Iterable[bytes]", key: bytes, problem: "str | None" = None) -> None:
        """`key` is for texts that have none of their own; `problem` says which file is damaged."""
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
                    size, spaces, hex, *fields = rest.split(b" ")
                    text_key = bytes.fromhex(fields[0].decode()) if fields else key
                    length, digest = int(size), bytes.fromhex(hex.decode())
                    if len(text_key) != KEY_SIZE or not 0 < length <= _TEXT_SIZE_MAX:
                        continue
                    if len(fields) > 1 and _is_shape(fields[1], length):
                        shaped.setdefault((length, text_key, fields[1]), set()).add(digest)
                    else:
                        unshaped.setdefault((length, spaces == b"1", text_key), set()).add(digest)
            except (ValueError, AttributeError, OverflowError, RecursionError, re.error):
                continue
        self._shaped = [(*rule_key, digests) for rule_key, digests in shaped.items()]
        self._unshaped = []
        for (length, spaced, text_key), digests in unshaped.items():
            # Erased again, a text has a rule with a shape as well.
            again = [
                others for size, its_key, _, others in self._shaped if (size, its_key) == (length, text_key)
            ]
            digests.difference_update(*again)
            if digests:
                character = rb"[\s\S]" if spaced else rb"\S"
                characters = min(-(-length // 4), _CHARACTERS_MAX)
                # As a look-ahead, so that windows may overlap.
                window = rb"(?=%b{%d})(?:(?<![0-9A-Za-z])|(?![0-9A-Za-z]))(?=[\x00-\x7f]{%d}|%b{%d})"
                pattern = re.compile(window % (character, length, characters, _CHARACTER, characters))
                self._unshaped.append((length, text_key, pattern, digests))

    @property
    def has_older(self) -> bool:
        """Whether some rules have no shape, which is slow in large contents."""
        return bool(self._unshaped)

    def names(self, data: bytes) -> bool:
        """Whether exactly this content was erased."""
        return bool(self._contents) and blake3(data).digest() in self._contents

    def find(self, data: bytes, until: "float | None" = None) -> "list[tuple[int, int, str]]":
        """Where erased texts are in `data`.

        After `until`, a monotonic time, no further MiB is searched. Raises: TimeoutError.
        """
        spans = [
            (m.start(), m.end(), ERASED)
            for expression in self._expressions
            for m in expression.finditer(data)
            if m.end() > m.start()
        ]
        if not self._shaped and not self._unshaped:
            return spans
        for first in range(0, len(data), _STEP):
            if until is not None and first and time.monotonic() >= until:
                raise TimeoutError(f"{first} of {len(data)} bytes were searched in time")
            if self._shaped:
                kinds = data[first : first + _STEP + _SHAPE_SIZE_MAX - 1].translate(_KINDS)
                for shaped in self._shaped:
                    self._find_shaped(data, first, kinds, *shaped, spans)
            for unshaped in self._unshaped:
                _find_unshaped(data, first, *unshaped, spans)
        return spans

    def _find_shaped(
        self, data: bytes, first: int, kinds: bytes, length: int, key: bytes, shape: bytes,
        digests: "set[bytes]", spans: "list[tuple[int, int, str]]",
    ) -> None:  # fmt: skip
        """Add the spans that begin in the step at `first`; `kinds` are the kinds of its bytes."""
        stop = _STEP + len(shape) - 1
        begins_word, is_even = shape[:1].isalnum(), shape.count(shape[:1]) == len(shape)
        offset = kinds.find(shape, 0, stop)
        while offset >= 0 and first + offset + length <= len(data):
            start = first + offset
            if begins_word and data[start - 1 : start].isalnum():  # so it would be until the word ends
                word_end = self._word_ends.search(kinds, offset, stop)
                offset = -1 if word_end is None else kinds.find(shape, word_end.end(), stop)
                continue
            after = _check_word(data, start, length, key, digests, spans, is_even)
            offset = kinds.find(shape, after - first, stop)


def _find_unshaped(
    data: bytes, first: int, length: int, key: bytes, window: "Any",
    digests: "set[bytes]", spans: "list[tuple[int, int, str]]",
) -> None:  # fmt: skip
    """Add the spans that begin in the step at `first`."""
    stop = first + _STEP + length - 1
    match = window.search(data, first, stop)
    while match is not None:
        after = _check_word(data, match.start(), length, key, digests, spans, True)
        match = window.search(data, after, stop) if after < first + _STEP else None


def _check_word(
    data: bytes, start: int, length: int, key: bytes,
    digests: "set[bytes]", spans: "list[tuple[int, int, str]]", may_be_run: bool,
) -> int:  # fmt: skip
    """Add the text at `start` if it was erased. Returns: where the next one may begin."""
    end = start + length
    if data[end - 1 : end].isalnum() and data[end : end + 1].isalnum():
        return start + 1  # the word goes on
    text = data[start:end]
    if digest_of(text, key) in digests:
        spans.append((start, end, ERASED))
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
    """One of the two files, as it is. `checks` are the correct ones; `problem` says why it is damaged."""

    __slots__ = ("checks", "data", "lines", "path", "problem")

    def __init__(self, path: str, data: bytes, problem: "str | None" = None) -> None:
        self.path = path
        self.data = data
        self.problem = problem
        self.lines: "list[bytes]" = []
        self.checks: "list[str]" = []
        summed, seen, offset = blake3(), 0, 0
        for line in data.split(b"\n")[:-1]:
            if line.startswith(_CHECK) and len(line) >= _CHECK_SIZE:  # a shorter one was cut short by a crash
                summed.update(data[seen:offset])
                seen = offset
                stated = line[len(_CHECK) :].decode("utf-8", "replace")
                if stated == summed.digest(_DIGEST_SIZE).hex():
                    self.checks.append(stated)
                elif self.problem is None:
                    self.problem = f"{path}: the bytes before byte {offset} are not what was written"
            elif not line.startswith(_CHECK):
                self.lines.append(line)
            offset += len(line) + 1


def files(fs: FileSystem, layout: Layout) -> "list[RuleFile]":
    """The files that exist. One that cannot be read is damaged and has no rules."""
    rule_files: "list[RuleFile]" = []
    for path in (layout.erased, layout.erased_copy):
        if not fs.exists(path):
            continue
        try:
            data = read_file(fs, path, _SIZE_MAX)
        except (OSError, ValueError) as error:
            rule_files.append(RuleFile(path, b"", f"{path} cannot be read: {error}"))
        else:
            if not rule_files or rule_files[0].data != data:  # an equal copy adds nothing
                rule_files.append(RuleFile(path, data))
    return rule_files


def rules_of(rule_files: "Iterable[RuleFile]") -> "list[bytes]":
    """The rules that count."""
    all_files = list(rule_files)
    counting = [rule_file for rule_file in all_files if rule_file.problem is None] or all_files
    return list(dict.fromkeys(line for rule_file in counting for line in rule_file.lines))


def read(fs: FileSystem, layout: Layout) -> "ErasedRules | None":
    """The rules of a store; None when nothing was erased. Their `problem` reports damage."""
    rule_files = files(fs, layout)
    if not rule_files:
        return None
    problems = [rule_file.problem for rule_file in rule_files if rule_file.problem is not None]
    problem = f"{problems[0]}. `locus store verify` says what to do" if problems else None
    try:
        key = read_file(fs, layout.redaction_key, 1024) if fs.exists(layout.redaction_key) else b""
    except (OSError, ValueError):
        key = b""  # verify names it
    return ErasedRules(rules_of(rule_files), valid_key(key) or b"", problem)


def add(fs: FileSystem, layout: Layout, lines: "Iterable[bytes]") -> "list[str]":
    """Add rules, durably, to both files. Returns: the checks after them. The caller holds the maintain lock.

    Rules that only one file has are added to the other. Raises: OSError, ValueError.
    """
    wanted = dict.fromkeys((*rules_of(files(fs, layout)), *lines))
    if not wanted:
        return []
    checks = [_add(fs, path, wanted) for path in (layout.erased, layout.erased_copy)]
    fs.fsync_dir(layout.root)
    return checks


def renew(fs: FileSystem, layout: Layout, text: bytes) -> bool:
    """Add rules with a shape for a text that has only older ones. Returns: whether it had.

    The caller holds the maintain lock. Raises: OSError, ValueError.
    """
    key = read_file(fs, layout.redaction_key, 1024) if fs.exists(layout.redaction_key) else b""
    lines = rules_of(files(fs, layout))
    keys = {valid_key(key) or b""}
    for line in lines:
        if line.startswith(b"text ") and len(fields := line.split(b" ")) > 4:
            try:
                keys.add(bytes.fromhex(fields[4].decode()))
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
    with opened(fs, path, os.O_RDWR | os.O_CREAT) as fd:
        rule_file = RuleFile(path, fs.pread(fd, _SIZE_MAX, 0))
        present = set(rule_file.lines)
        new = [line for line in wanted if line not in present]
        check = rule_file.checks[-1] if rule_file.checks else ""
        if new or not rule_file.data.endswith(_CHECK + check.encode() + b"\n"):
            torn = b"\n" if rule_file.data and not rule_file.data.endswith(b"\n") else b""
            more = torn + b"".join(line + b"\n" for line in new)
            check = blake3(rule_file.data + more).digest(_DIGEST_SIZE).hex()
            write_all(fs, fd, more + _CHECK + check.encode() + b"\n", len(rule_file.data))
        fs.fsync(fd)
    return check


def key_file(key: bytes) -> bytes:
    """The bytes of `redaction.key`: the key, and its digest."""
    return key + blake3(key).digest(_DIGEST_SIZE)


def valid_key(data: bytes) -> "bytes | None":
    """The key in such a file, also in the form without a digest; None when it is damaged."""
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
