"""Patterns in the syntax of gitignore: those that take ignored files in or keep others out, and `.gitignore`
files where there is no git to ask.

`re` is imported on the first pattern, because a hook in a repository needs none. A pattern that git would
let match nothing matches nothing here. Any number of threads may use a `Patterns`. On the hook path.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

_IGNORE_FILE_BYTES_MAX = 1 << 20

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
    """Lines in the order in which they stand: the last one that matches decides.

    Args: hide: what a line names is kept out and what `!` stands before is taken in, as in an ignore file.
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

    def word(self, path: bytes, is_dir: bool) -> "bool | None":
        """Whether `path`, or the nearest directory above it with a verdict, is taken in; a directory also
        when it is on the way to what an anchored pattern names. None when no pattern has a word.
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
    """The `.gitignore` files below `root`, each read once, when a name below it is first asked about."""

    __slots__ = ("_above", "_root")

    def __init__(self, root: bytes) -> None:
        self._root = root
        # For a directory the files that hold patterns in it and above it: (where names below begin, patterns)
        self._above: "dict[bytes, list[tuple[int, Patterns]]]" = {}

    def hidden(self, path: bytes, is_dir: bool) -> bool:
        """Whether a pattern hides `path` or a directory above it."""
        above = self._files_above(path.rpartition(b"/")[0])
        if not above:
            return False
        # From the top: what is below a hidden directory cannot be shown again.
        return any(_verdict(above, part, dirs) for part, dirs in _from_the_top(path, is_dir))

    def _files_above(self, directory: bytes) -> "list[tuple[int, Patterns]]":
        todo = []
        at = directory
        while at not in self._above:
            todo.append(at)
            if not at:
                break
            at = at.rpartition(b"/")[0]
        files = self._above.get(at, [])
        for one in reversed(todo):
            patterns = Patterns(lines_of((self._root + b"/" + one if one else self._root) + b"/.gitignore"))
            if patterns:
                files = [*files, (len(one) + 1 if one else 0, patterns)]
            self._above[one] = files
        return files


def _verdict(files: "list[tuple[int, Patterns]]", path: bytes, is_dir: bool) -> bool:
    """The word of the deepest file that has one."""
    for start, patterns in reversed(files):
        verdict = patterns.verdict(path[start:], is_dir) if start < len(path) else None
        if verdict is not None:
            return verdict
    return False


def _from_the_top(path: bytes, is_dir: bool) -> "Iterator[tuple[bytes, bool]]":
    """The directories above a path, then the path: what is below a hidden one cannot be shown again."""
    at = path.find(b"/")
    while at >= 0:
        yield path[:at], True
        at = path.find(b"/", at + 1)
    yield path, is_dir


def lines_of(path: bytes) -> "list[bytes]":
    """The lines of an ignore file; none when it cannot be read, is a link (as in git) or no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        data = os.read(fd, _IGNORE_FILE_BYTES_MAX)
    except OSError:
        return []
    finally:
        os.close(fd)
    return data.removeprefix(b"\xef\xbb\xbf").split(b"\n")


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
    """Without spaces at the end, but for one behind a backslash."""
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
    at, end = 0, len(pattern)
    while at < end:
        char = pattern[at : at + 1]
        if char == b"*":
            after = at
            while pattern[after : after + 1] == b"*":
                after += 1
            # Git takes three stars and more for two. It compares the plain text before the first wildcard by
            # itself, so that what follows begins a pattern.
            begins = pattern[at - 1 : at] == b"/" or not _WILD.intersection(pattern[:at])
            free = begins and after - at >= 2
            if free and after == end:
                out.append(b".*")
            elif free and pattern[after : after + 1] == b"/":
                out.append(_DEEP)
                after += 1
            else:
                out.append(_STAR)
            at = after
            continue
        if char == b"?":
            out.append(b"[^/]")
        elif char == b"[":
            found = _bracket(pattern, at)
            if found is None:
                return None
            text, at = found
            out.append(text)
            continue
        elif char == b"\\":
            at += 1
            if at == end:
                return None
            out.append(re.escape(pattern[at : at + 1]))
        else:
            out.append(re.escape(char))
        at += 1
    try:
        return re.compile(_without_retries(out), re.DOTALL)
    except re.error:
        return None


def _without_retries(parts: "list[bytes]") -> bytes:
    """The regex of a pattern in which only the last `**/` and the last `*` try more than one place.

    Whatever stands between two of them may be taken at its first place, since the second one makes up for
    what is left. So a pattern that somebody else wrote costs no more than a few looks at a path.
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
    found: "list[list[bytes]]" = [[]]
    for part in parts:
        if part is mark:
            found.append([])
        else:
            found[-1].append(part)
    return found


def _bracket(pattern: bytes, at: int) -> "tuple[bytes, int] | None":
    """A set of characters as a regex, and where it ends; None when it does not end."""
    at += 1
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    parts = []
    first = True
    while first or pattern[at : at + 1] != b"]":
        first = False
        if pattern[at : at + 2] == b"[:":
            close = pattern.find(b":]", at)
            members = _CLASSES.get(pattern[at + 2 : close]) if close >= 0 else None
            if members is None:
                return None
            parts.append(members)
            at = close + 2
            continue
        low, at = _member(pattern, at)
        high = low
        if pattern[at : at + 1] == b"-" and pattern[at + 1 : at + 2] not in (b"]", b""):
            high, at = _member(pattern, at + 1)
        if low is None or high is None:
            return None
        if low <= high:
            parts.append(b"\\x%02x-\\x%02x" % (low, high))
    members = b"".join(parts)
    if not members:
        return (b"[^/]" if negated else b"(?!)"), at + 1
    return (b"(?!/)[^" if negated else b"(?!/)[") + members + b"]", at + 1


def _member(pattern: bytes, at: int) -> "tuple[int | None, int]":
    if pattern[at : at + 1] == b"\\":
        at += 1
    if at >= len(pattern):
        return None, at
    return pattern[at], at + 1
