"""Paths as text: reversible for every byte that a file name may hold.

A path in an event is UTF-8 text with `/` between names. A path that is not valid UTF-8, or that
begins with a double quote, is written between double quotes with C escapes for the bytes that need
them, the way git prints odd names: `"caf\\351.txt"`. Trees hold the exact bytes in any case.

A file outside of the repository is `root:`, the id of its directory (16 hex digits, `outside.py`), `/`, its
name. That is the path of no file of a repository: one that is called so has the quoted form.
"""

OUTSIDE = "root:"
OUTSIDE_ID_DIGITS = 16

_SLASH_AT = len(OUTSIDE) + OUTSIDE_ID_DIGITS
_HEX = frozenset("0123456789abcdef")


def is_outside(text: str) -> bool:
    """Whether a path as text is that of a file outside of the repository."""
    if not text.startswith(OUTSIDE) or text[_SLASH_AT : _SLASH_AT + 1] != "/":
        return False
    return _HEX.issuperset(text[len(OUTSIDE) : _SLASH_AT])


def path_text(path: bytes) -> str:
    """The text form of a path's bytes."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return _quoted(path)
    return _quoted(path) if text.startswith('"') or is_outside(text) else text


def path_bytes(text: str) -> bytes:
    """The bytes of a path's text form.

    Raises: ValueError when a quoted form is malformed, or the file lies outside of the repository.
    """
    if is_outside(text):
        raise ValueError(f"{text} lies outside of the repository; `locus history` lists its versions")
    if not text.startswith('"'):
        return text.encode("utf-8", "surrogateescape")
    if len(text) < 2 or not text.endswith('"'):
        raise ValueError(f"quoted path without its closing quote: {text}")
    out = bytearray()
    inner = text[1:-1]
    at = 0
    while at < len(inner):
        c = inner[at]
        if c != "\\":
            out += c.encode("utf-8")
            at += 1
        elif inner[at + 1 : at + 2] in ("\\", '"'):
            out += inner[at + 1].encode("ascii")
            at += 2
        else:
            digits = inner[at + 1 : at + 4]
            if len(digits) != 3 or any(d not in "01234567" for d in digits):
                raise ValueError(f"bad escape in quoted path: {text}")
            value = int(digits, 8)
            if value > 255:
                raise ValueError(f"bad escape in quoted path: {text}")
            out.append(value)
            at += 4
    return bytes(out)


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
