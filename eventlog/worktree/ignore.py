"""Patterns in the syntax of gitignore: those that include ignored files or leave out others, and `.gitignore`
files where git cannot be asked.

A hook in a repository needs this only where a setting includes files or there is a `.locusignore`; `re` is
imported on the first pattern. A pattern that matches nothing in git matches nothing here. Any number of
threads may use a `Patterns`. docs/decisions/ignored-files.md says why git does not answer for these.
"""

import os

from eventlog.worktree.userfiles import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

_CLASSES = {
    b"alnum": b"0-9A-Za-z",
    b"alpha": b"A-Za-z",
    b"blank": b" \\t",
    b"cntrl": b"\\x00-\\x1f\\x7f",
    b"digit": b"0-9",
    b"graph": b"!-~",
    b"lower": b"a-z",
    b"print": b" -~",
    b"punct": b"!-/:-@\\[-`{-~",
    b"space": b"\\s",
    b"upper": b"A-Z",
    b"xdigit": b"0-9A-Fa-f",
}

_STAR, _DEEP = b"[^/]*", b"(?:.*/)?"
_WILD = frozenset(b"*?[\\")


class _Pattern:
    """One line. `ways` match the directories that lead to what an anchored pattern names."""

    __slots__ = ("anchored", "dirs_only", "negated", "regex", "ways")

    def __init__(
        self,
        regex: "re.Pattern[bytes]",
        ways: "list[re.Pattern[bytes]]",
        *,
        anchored: bool,
        dirs_only: bool,
        negated: bool,
    ) -> None:
        self.regex = regex
        self.ways = ways
        self.anchored = anchored
        self.dirs_only = dirs_only
        self.negated = negated


class Patterns:
    """Lines in their order: the last one that matches decides.

    Args: hide: a line leaves out what it names, and one with `!` includes it, as in an ignore file.
    """

    __slots__ = ("_patterns",)

    def __init__(self, lines: "Iterable[str | bytes]", *, hide: bool = False) -> None:
        texts = (line if isinstance(line, bytes) else os.fsencode(line) for line in lines)
        self._patterns = [pattern for pattern in map(_parse, texts) if pattern is not None]
        for pattern in self._patterns if hide else ():
            pattern.negated = not pattern.negated

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def verdict(self, path: bytes, is_dir: bool) -> "bool | None":
        """Whether the last pattern that matches `path` takes it in; None when none does."""
        name = path.rpartition(b"/")[2]
        for pattern in reversed(self._patterns):
            if pattern.dirs_only and not is_dir:
                continue
            if pattern.regex.fullmatch(path if pattern.anchored else name):
                return not pattern.negated
        return None

    def inherited_verdict(self, path: bytes, is_dir: bool) -> "bool | None":
        """Whether `path`, or the nearest directory above it with a verdict, is included; a directory also
        when it leads to what an anchored pattern names. None when no pattern applies.
        """
        verdict = self.verdict(path, is_dir)
        above = path.rpartition(b"/")[0]
        while verdict is None and above:
            verdict = self.verdict(above, True)
            above = above.rpartition(b"/")[0]
        if verdict or not is_dir:
            return verdict
        on_the_way = any(
            way.fullmatch(path) for pattern in self._patterns if not pattern.negated for way in pattern.ways
        )
        return True if on_the_way else verdict


class IgnoreFiles:
    """The `.gitignore` files below `root`, each read once, at the first question about a name below it."""

    __slots__ = ("_above", "_root")

    def __init__(self, root: bytes) -> None:
        self._root = root
        # Directory → the files with patterns in it and above it: (where names below begin, patterns)
        self._above: "dict[bytes, list[tuple[int, Patterns]]]" = {}

    def hidden(self, path: bytes, is_dir: bool) -> bool:
        """Whether a pattern hides `path` or a directory above it."""
        above = self._files_above(path.rpartition(b"/")[0])
        if not above:
            return False
        # From the top: what is below a hidden directory cannot be shown again.
        return any(_verdict(above, part, dirs) for part, dirs in _from_the_top(path, is_dir))

    def _files_above(self, directory: bytes) -> "list[tuple[int, Patterns]]":
        unread = []
        above = directory
        while above not in self._above:
            unread.append(above)
            if not above:
                break
            above = above.rpartition(b"/")[0]
        files = self._above.get(above, [])
        for below in reversed(unread):
            full = self._root + b"/" + below if below else self._root
            patterns = Patterns(lines_of(full + b"/.gitignore"))
            if patterns:
                files = [*files, (len(below) + 1 if below else 0, patterns)]
            self._above[below] = files
        return files


def _verdict(files: "list[tuple[int, Patterns]]", path: bytes, is_dir: bool) -> bool:
    """The verdict of the deepest file that has one."""
    for start, patterns in reversed(files):
        verdict = patterns.verdict(path[start:], is_dir) if start < len(path) else None
        if verdict is not None:
            return verdict
    return False


def _from_the_top(path: bytes, is_dir: bool) -> "Iterator[tuple[bytes, bool]]":
    """The directories above a path, then the path: what is below a hidden one cannot be shown again."""
    slash = path.find(b"/")
    while slash >= 0:
        yield path[:slash], True
        slash = path.find(b"/", slash + 1)
    yield path, is_dir


def _parse(line: bytes) -> "_Pattern | None":
    """A line, None when it holds no pattern, or one that matches nothing."""
    line = _trimmed(line.removesuffix(b"\r"))
    if not line or line.startswith(b"#"):
        return None
    negated = line.startswith(b"!")
    line = line[negated:]
    dirs_only = line.endswith(b"/")
    line = line.removesuffix(b"/")
    anchored = b"/" in line
    line = line.removeprefix(b"/")
    regex = _compiled(line)
    if regex is None:
        return None
    ways = [_compiled(way) for way in _ways(line)] if anchored else []
    return _Pattern(
        regex,
        [way for way in ways if way is not None],
        anchored=anchored,
        dirs_only=dirs_only,
        negated=negated,
    )


def _trimmed(line: bytes) -> bytes:
    """The line without spaces at its end, except one after a backslash."""
    end = len(line)
    while end and line[end - 1 : end] == b" ":
        slashes = len(line[: end - 1]) - len(line[: end - 1].rstrip(b"\\"))
        if slashes % 2:
            break
        end -= 1
    return line[:end]


def _ways(pattern: bytes) -> "Iterator[bytes]":
    names = pattern.split(b"/")
    for count in range(1, len(names)):
        if len(names[count - 1]) > 1 and not names[count - 1].strip(b"*"):
            return
        yield b"/".join(names[:count])


def _compiled(pattern: bytes) -> "re.Pattern[bytes] | None":
    import re

    out: "list[bytes]" = []
    index, end = 0, len(pattern)
    while index < end:
        char = pattern[index : index + 1]
        if char == b"*":
            next_index = index
            while pattern[next_index : next_index + 1] == b"*":
                next_index += 1
            # Git takes three stars and more for two. It compares the plain text before the first wildcard by
            # itself, so that what follows begins a pattern.
            begins = pattern[index - 1 : index] == b"/" or not _WILD.intersection(pattern[:index])
            free = begins and next_index - index >= 2
            if free and next_index == end:
                out.append(b".*")
            elif free and pattern[next_index : next_index + 1] == b"/":
                out.append(_DEEP)
                next_index += 1
            else:
                out.append(_STAR)
            index = next_index
            continue
        if char == b"?":
            out.append(b"[^/]")
        elif char == b"[":
            bracket = _bracket(pattern, index)
            if bracket is None:
                return None
            text, index = bracket
            out.append(text)
            continue
        elif char == b"\\":
            index += 1
            if index == end:
                return None
            out.append(re.escape(pattern[index : index + 1]))
        else:
            out.append(re.escape(char))
        index += 1
    try:
        return re.compile(_without_retries(out), re.DOTALL)
    except re.error:
        return None


def _without_retries(parts: "list[bytes]") -> bytes:
    """The regex of a pattern in which only the last `**/` and the last `*` backtrack.

    The text between two of them may match at its first position, since the second one matches the rest. So a
    foreign pattern costs no more than a few passes over a path.
    """
    groups = _cut(parts, _DEEP)
    texts = []
    for number, group in enumerate(groups, 1):
        last = number == len(groups)
        first, *rest = (b"".join(part) for part in _cut(group, _STAR))
        text = first + b"".join(b"(?>[^/]*?" + part + b")" for part in (rest[:-1] if last else rest))
        text += _STAR + rest[-1] if last and rest else b""
        deep = number > 1
        texts.append((_DEEP + text if last else b"(?>(?:.*?/)??" + text + b")") if deep else text)
    return b"".join(texts)


def _cut(parts: "list[bytes]", mark: bytes) -> "list[list[bytes]]":
    groups: "list[list[bytes]]" = [[]]
    for part in parts:
        if part is mark:
            groups.append([])
        else:
            groups[-1].append(part)
    return groups


def _bracket(pattern: bytes, index: int) -> "tuple[bytes, int] | None":
    """A set of characters as a regex, and where it ends; None when it does not end."""
    index += 1
    negated = pattern[index : index + 1] in (b"!", b"^")
    index += negated
    parts = []
    first = True
    while first or pattern[index : index + 1] != b"]":
        first = False
        if pattern[index : index + 2] == b"[:":
            close = pattern.find(b":]", index)
            members = _CLASSES.get(pattern[index + 2 : close]) if close >= 0 else None
            if members is None:
                return None
            parts.append(members)
            index = close + 2
            continue
        low, index = _member(pattern, index)
        high = low
        if pattern[index : index + 1] == b"-" and pattern[index + 1 : index + 2] not in (b"]", b""):
            high, index = _member(pattern, index + 1)
        if low is None or high is None:
            return None
        if low <= high:
            parts.append(b"\\x%02x-\\x%02x" % (low, high))
    members = b"".join(parts)
    if not members:
        return (b"[^/]" if negated else b"(?!)"), index + 1
    return (b"(?!/)[^" if negated else b"(?!/)[") + members + b"]", index + 1


def _member(pattern: bytes, index: int) -> "tuple[int | None, int]":
    if pattern[index : index + 1] == b"\\":
        index += 1
    if index >= len(pattern):
        return None, index
    return pattern[index], index + 1
