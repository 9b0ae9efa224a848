"""Finds secrets that are the value of a name: `password = …` in programs, settings, JSON and headers.

Which names and which values count is in names.py. Used by `rules.find` only; pure. On the hook path, after
the prefilter matched.
"""

from eventlog.secrets.names import (
    MARK,
    is_passphrase,
    is_placeholder,
    is_random,
    is_secret_name,
    is_secret_value,
    kind_of,
)
from eventlog.secrets.prefilter import ALNUM_SET, DIGIT, DOTTED, LOWER, NAME_MAX, WORD, offsets, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.secrets.rules import Span

SPACES = b" \t"
VALUE_MAX = 512
_QUOTES = b"\"'`"
_AFTER_NAME = frozenset(b"\"'`\\] \t\r\n=:>" + DIGIT)
_VALUE_ENDS = b" \t\r\n\"'`,;)}]<>|&\\\0"
_AS_VALUE = bytes(32 if c in _VALUE_ENDS else 120 for c in range(256))
_LOW = frozenset(LOWER)


def find(data: bytes, low: bytes, ending: bytes, spans: "list[Span]") -> None:
    """`NAME = value` in the spellings of programs, settings, JSON, headers and command lines."""
    size = len(data)
    for offset in offsets(low, ending):
        name_end = offset + len(ending)
        if name_end < size and data[name_end] in _AFTER_NAME:
            before = low[max(0, offset - NAME_MAX) : offset]
            front = before[len(before.rstrip(WORD)) :]
            # A name in which a new word begins: `dbPass`, `userAuth`.
            if front and data[offset : offset + 1].isupper() and data[offset - 1] in _LOW:
                front += b"_"
            name = front + ending
            if is_secret_name(name):
                word = before[len(before.rstrip(DOTTED)) :]
                _find_value(data, name_end, name, (word or ending).startswith(b"-"), spans)


def _find_value(data: bytes, offset: int, name: bytes, is_flag: bool, spans: "list[Span]") -> None:
    """Add the value after a name, if it is a secret."""
    offset += run(data, offset, DIGIT, 3)
    offset += run(data, offset, b"\\\"'`]", 6)
    spaces = run(data, offset, SPACES, 8)
    offset += spaces
    sign = data[offset : offset + 1]
    if sign in (b"=", b":"):
        offset += 1 + run(data, offset + 1, b"=>", 2)
    elif sign == b">" and not spaces:
        offset += 1
    else:
        value_start = _after_value_word(data, offset - spaces)
        if value_start:
            offset = value_start
        elif not (is_flag and spaces):
            return
    offset += run(data, offset, SPACES, 8)
    if data[offset : offset + 4] == b"&lt;":
        return  # `<your password>` in HTML
    offset += data[offset : offset + 1] == b"&"  # `: &str = "value"`
    start, end, quoted = _value(data, offset)
    if not quoted and data[end : end + 4].lstrip(b" ")[:1] == b"=":  # NAME: type = "value"
        offset = end + data[end : end + 4].find(b"=") + 1
        offset += run(data, offset, SPACES, 4)
        start, end, quoted = _value(data, offset)
    if name.endswith(b"authorization"):
        _find_authorization(data, start, end, quoted, spans)
        return
    if not quoted and name.endswith(_PHRASES):  # words to the end of the line
        line = data[start : start + 256].partition(b"\n")[0].partition(b"\\n")[0].rstrip(b" \r\"',")
        if is_passphrase(line):
            spans.append((start, start + len(line), "private-key"))
            return
    value = data[start:end]
    low = value[:8].lower()
    for scheme in _SCHEMES:
        if low.startswith(scheme) or (not quoted and low == scheme[:-1] and data[end : end + 1] == b" "):
            start += len(scheme)
            end = end if quoted else start + _run_until(data, start)
            value = data[start:end]
            break
    if not quoted and data[end : end + 1] in (b"(", b"["):
        return
    if (
        not quoted and data[offset - 1 : offset] == b">" and data[end : end + 1] == b" "
    ):  # <password>several words</password>
        close = data.find(b"<", end, end + 80)
        if close >= 0 and is_passphrase(data[start:close]):
            spans.append((start, close, kind_of(name)))
            return
    if is_secret_value(name, value, quoted):
        spans.append((start, end, kind_of(name)))


_PHRASES = (b"mnemonic", b"phrase")
_SCHEMES = (b"bearer ", b"basic ", b"token ", b"apikey ")


def _after_value_word(data: bytes, offset: int) -> int:
    """Where the value is of a pair whose name ends at `offset`: `name: N` and `value: V`, `key="N"
    value="V"`; or 0.
    """
    window = data[offset : offset + 60]
    text = window.lstrip(b" \t\r\n,\"'\\")
    skipped = len(window) - len(text)
    if text[:1] in b"nr" and data[offset + skipped - 1 : offset + skipped] == b"\\":  # text in JSON: `\n`
        text = text[1:].lstrip(b" \t\\n\"'")
        skipped = len(window) - len(text)
    if skipped and text[:5].lower() == b"value":
        sign = text[5:].lstrip(b"\\\"' ")
        if sign[:1] in (b"=", b":"):
            return offset + len(window) - len(sign) + 1
    return 0


def _find_authorization(data: bytes, start: int, end: int, quoted: bool, spans: "list[Span]") -> None:
    """Any scheme and its credentials, when a part of them looks random."""
    if not quoted:
        line = data[start : start + 2 * VALUE_MAX]
        for stop in (b"\n", b"\r", b"\\n", b"\\r", b"'", b'\\"', b"`", b'" ', b'"\n', b"<"):
            line = line.partition(stop)[0]
        end = start + len(line.rstrip(b" \t\"'\\,;)}"))
    value = data[start:end]
    scheme, space, rest = value.partition(b" ")
    if space and scheme and not scheme.strip(WORD) and scheme[:1].isalpha():
        start += len(scheme) + 1
        value = rest
    if scheme.lower() == b"basic" and not _is_pair_of_credentials(value):
        return
    if value[:1] in b"$%{<([*" or b"(" in value or b"{" in value or MARK in value:
        return
    if (len(value) > 12 and is_random(value) and b" " not in value and not is_placeholder(value)) or any(
        len(part) >= 16 and is_random(part) and not is_placeholder(part)
        for part in value.translate(_AS_PARTS).split()
    ):
        spans.append((start, end, "authorization"))


def _is_pair_of_credentials(value: bytes) -> bool:
    """Whether this is `user:password` in Base64 with a real password."""
    import binascii

    try:
        pair = binascii.a2b_base64(value + b"=" * (-len(value) % 4))
    except ValueError:
        return True
    _, colon, password = pair.partition(b":")
    return not colon or (len(password) >= 6 and not is_placeholder(password))


_AS_PARTS = bytes(c if c in ALNUM_SET or c in b"+/_-." else 32 for c in range(256))


def _value(data: bytes, offset: int) -> "tuple[int, int, bool]":
    """(start, end, in quotes) of the value that begins at `offset`."""
    if data[offset : offset + 1] in b"rbfuRBFU" and data[offset + 1 : offset + 2] in (b'"', b"'"):
        offset += 1
    escapes = run(data, offset, b"\\", 8)
    quote = data[offset + escapes : offset + escapes + 1]
    if quote and quote in _QUOTES:
        start = offset + escapes + 1
        window = data[start : start + VALUE_MAX]
        end = window.find(quote)
        line = window.find(b"\n")
        if end < 0 or 0 <= line < end:
            end = line if line >= 0 else len(window)  # cut off
        return start, start + len(window[:end].rstrip(b"\\") if escapes else window[:end]), True
    return offset, offset + _run_until(data, offset), False


def _run_until(data: bytes, offset: int) -> int:
    """How many bytes from `offset` on belong to a value without quotes."""
    window = data[offset : offset + VALUE_MAX]
    ends = window.translate(_AS_VALUE)
    offset = 0
    while True:
        offset = ends.find(b" ", offset)
        if offset < 0:
            return len(window)
        if window[offset : offset + 1] in (b"&", b";") and not _is_pair(window[offset + 1 :]):
            offset += 1  # part of a password, unless the next name of a query begins
            continue
        return offset


def _is_pair(text: bytes) -> bool:
    """Whether the text is empty or begins with `name=`, as after a value in a query."""
    rest = text.lstrip(WORD + b" ")
    return not text.strip() or text[:1] in b"&;\n" or rest[:1] == b"=" or text[:1] == b" "
