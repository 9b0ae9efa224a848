"""Paths as text: reversible for every byte that a file name may hold.

A path in an event is UTF-8 text with `/` between names. A path that is not valid UTF-8, or that
begins with a double quote, is written between double quotes, with octal escapes for odd bytes:
`"caf\\351.txt"`. Trees hold the exact bytes in any case. A quoted path that is read may have all escapes of
git's form, in which people and diffs get names with control characters: `"new\\nline.txt"`.

A file outside the repository is `root:`, the id of its directory (16 hex digits,
`secrets/outside_names.py`), `/`, its name. No file of a repository has such a path: a file with such a name
has the quoted form.

The second part finds the paths that a tool call names, whichever agent's tool it is. On the hook path.
"""

from eventlog.base import types
from eventlog.base.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Wanted = Callable[[str], bool]

OUTSIDE = "root:"
OUTSIDE_ID_DIGITS = 16

_SLASH_AT = len(OUTSIDE) + OUTSIDE_ID_DIGITS
_HEX = frozenset("0123456789abcdef")
_ESCAPE_OF = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_BYTE_OF = {letter: byte for byte, letter in _ESCAPE_OF.items()}
_ACCEPTED = (
    r"Between double quotes, a backslash stands before \ and \", before n, t and the other letters of C, and "
    "before three octal digits for any byte."
)


class OutsidePath(NotFound, ValueError):
    """A path lies outside of the repository, where there are no bytes of it."""


class MalformedPath(NotFound, ValueError):
    """The quoted form of a path is malformed, so it names no file. The message says what is accepted."""

    exit_code = 2


def is_outside(text: str) -> bool:
    """Whether a path as text is that of a file outside of the repository."""
    if not text.startswith(OUTSIDE) or text[_SLASH_AT : _SLASH_AT + 1] != "/":
        return False
    return _HEX.issuperset(text[len(OUTSIDE) : _SLASH_AT])


def is_below(path: bytes, above: bytes) -> bool:
    """Whether `path` is `above` or in it; everything is in the directory b""."""
    return path == above or path.startswith(above + b"/") or not above


def path_text(path: bytes) -> str:
    """The text form of a path's bytes."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return _quoted(path)
    return _quoted(path) if text.startswith('"') or is_outside(text) else text


def path_bytes(text: str) -> bytes:
    """The bytes of a path's text form.

    Raises: MalformedPath, OutsidePath.
    """
    if is_outside(text):
        raise OutsidePath(f"{text} lies outside of the repository; `locus history` lists its versions")
    if not text.startswith('"'):
        return text.encode("utf-8", "surrogateescape")
    if len(text) < 2 or not text.endswith('"'):
        raise MalformedPath(f"the quoted path {text} has no closing quote. {_ACCEPTED}")
    out = bytearray()
    inner = text[1:-1]
    offset = 0
    while offset < len(inner):
        c = inner[offset]
        if c != "\\":
            out += c.encode("utf-8")
            offset += 1
        elif inner[offset + 1 : offset + 2] in _BYTE_OF:
            out.append(_BYTE_OF[inner[offset + 1]])
            offset += 2
        else:
            digits = inner[offset + 1 : offset + 4]
            if len(digits) != 3 or any(d not in "01234567" for d in digits) or int(digits, 8) > 255:
                raise MalformedPath(f"the quoted path {text} has a bad escape (\\{digits}). {_ACCEPTED}")
            out.append(int(digits, 8))
            offset += 4
    return bytes(out)


def quoted(name: bytes) -> bytes:
    """A name as git prints it with its default settings, but for a folder whose name ends with a space.

    Git cannot read its own form of that (it takes the space for the end of the first of two names).
    """
    if all(0x20 <= c < 0x7F and c not in b'"\\' for c in name) and b" /" not in name:
        return name
    return b'"%b"' % "".join(map(_escaped, name)).encode("ascii")


def _escaped(byte: int) -> str:
    if byte in _ESCAPE_OF:
        return f"\\{_ESCAPE_OF[byte]}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def beginnings_below(text: str) -> list[str]:
    """What the text forms of all paths below the directory of this text form begin with.

    A name below may need the quoted form where the directory itself does not.
    """
    if text.startswith('"'):
        return [text.removesuffix('"') + "/"]
    return [f"{text}/", _quoted(text.encode("utf-8", "surrogatepass"))[:-1] + "/"]


def is_within(path: str, text: str) -> bool:
    """Whether a path is the one of this text form, or below it."""
    return path == text or path.startswith(tuple(beginnings_below(text)))


def within_sql(column: str, text: str) -> tuple[str, list[str]]:
    """`is_within` as a condition of SQL with a `{}` for each of the parameters."""
    beginnings = beginnings_below(text)
    below = "".join(f" or starts_with({column}, {{}})" for _ in beginnings)
    return f"({column} = {{}}{below})", [text, *beginnings]


def _quoted(path: bytes) -> str:
    parts = []
    for byte in path:
        if byte in (0x22, 0x5C):
            parts.append("\\" + chr(byte))
        elif 0x20 <= byte < 0x7F:
            parts.append(chr(byte))
        else:
            parts.append(f"\\{byte:03o}")
    return '"' + "".join(parts) + '"'


# The names of arguments that are a path, or several; and a command.
PATH_ARGUMENTS = frozenset((*types.PATH_ARGUMENTS, "paths", "files", "source", "destination", "uri"))
COMMAND_ARGUMENTS = frozenset(types.COMMAND_ARGUMENTS)
NAME_SIZE_MAX = 4096
# The keys with what a tool answered. Other keys of a payload are the agent's own: ids, modes, times.
TOOL_OUTPUT_KEYS = frozenset(
    (
        "result", "tool_response", "response", "output", "stdout", "stderr", "content", "message", "error",
        "tool_output", "patch", "diff", "permission_suggestions",
    )
)  # fmt: skip
# The characters between the words of a command.
WORDS_BETWEEN = str.maketrans(dict.fromkeys(";|&<>()`'\"={},$:@[]\n\t\r", " "))
_MOVERS = frozenset(("cd", "pushd", "-C"))  # paths after them are relative to another directory

_PATCH_LINES = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
_COMMAND_SIZE_MAX = 1 << 20
_DEPTH_MAX = 32


def patch_paths(patch: str) -> "list[str]":
    """The files that a patch names, in order, each once."""
    paths: "dict[str, None]" = {}
    for line in patch.split("\n"):
        for mark in _PATCH_LINES:
            if line.startswith(mark) and line[len(mark) :].strip():
                paths[line[len(mark) :].strip()] = None
    return list(paths)


def paths_in_arguments(arguments: object) -> "list[str]":
    """The files and directories that the arguments of any tool name, in order, each once."""
    paths: "dict[str, None]" = {}
    by_name = arguments if isinstance(arguments, dict) else {"": arguments}
    for name, value in by_name.items():
        if name in PATH_ARGUMENTS:
            values = value if isinstance(value, list) else [value]
            paths |= dict.fromkeys(path for path in values if isinstance(path, str) and path)
        elif isinstance(value, str) and "*** " in value:
            paths |= dict.fromkeys(patch_paths(value))
    return list(paths)


def paths_named(payload: "dict[str, object]", wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    """The paths that a tool call names in arguments, patches and commands, or at the beginning of lines of
    its result; and whether the directory that each is relative to is known. Args: wanted: which to give."""
    yield from _named_in(payload, 0, wanted)
    yield from _quoted_in(payload, wanted)


def _named_in(value: object, depth: int, wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    if not isinstance(value, dict) or depth > _DEPTH_MAX:
        if isinstance(value, list) and depth <= _DEPTH_MAX:
            for item in value:
                yield from _named_in(item, depth + 1, wanted)
        return
    for name, item in value.items():
        if name in COMMAND_ARGUMENTS:
            yield from _named_by_command(item, wanted)
        elif name in PATH_ARGUMENTS:
            for path in item if isinstance(item, list) else [item]:
                if isinstance(path, str) and len(path) <= NAME_SIZE_MAX and wanted(path):
                    yield path.removeprefix("file://"), True
        elif isinstance(item, str):
            yield from _named_by_patch(item, wanted)
        elif name not in TOOL_OUTPUT_KEYS:
            yield from _named_in(item, depth + 1, wanted)


def _named_by_command(command: object, wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    words = command if isinstance(command, list) else [command]
    text = " ".join(word for word in words if isinstance(word, str))[:_COMMAND_SIZE_MAX]
    yield from _named_by_patch(text, wanted)
    tokens = text.translate(WORDS_BETWEEN).split()
    moves = not _MOVERS.isdisjoint(tokens)
    for word in tokens:
        if len(word) <= NAME_SIZE_MAX and wanted(word):
            yield word, not moves


def _named_by_patch(text: str, wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    if "*** " in text:
        for path in patch_paths(text):
            if wanted(path):
                yield path, True


def _quoted_in(payload: "dict[str, object]", wanted: "Wanted") -> "Iterator[tuple[str, bool]]":
    """The paths at the beginning of lines of a result, as `grep` gives them."""
    waiting = [(value, 0) for name, value in payload.items() if name in TOOL_OUTPUT_KEYS]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict) and depth < _DEPTH_MAX:
            waiting += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list) and depth < _DEPTH_MAX:
            waiting += [(item, depth + 1) for item in value]
        elif isinstance(value, str) and ":" in value:
            for path in {line[:NAME_SIZE_MAX].partition(":")[0] for line in value.split("\n")}:
                if " " not in path and wanted(path):
                    yield path, True
