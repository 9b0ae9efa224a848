"""Finds the secrets in bytes: tokens with a known beginning, and shapes that depend on their surroundings.

`find(data)` returns their spans. There are no regular expressions here: a token is a literal beginning and a
run of allowed bytes in a bounded window, so the time is linear in the input. The tokens are listed in
own.toml and published.toml; assignments.py has values of names, context_rules.py commands and files.
`prefilter.may_hold` tests first, at a fraction of the cost, whether a search is necessary.

Pure functions; any thread. docs/secrets.md says how to add a rule. On the hook path, after the prefilter
matched.
"""

from eventlog.secrets import assignments, context_rules
from eventlog.secrets.assignments import SPACES, VALUE_MAX
from eventlog.secrets.names import (
    MARK,
    is_placeholder,
    is_published,
    is_random,
    is_secret_name,
    is_secret_value,
    is_wordy,
)
from eventlog.secrets.prefilter import (
    ALNUM,
    ALNUM_SET,
    APART,
    BASE64_LEAST,
    DIGIT,
    DOTTED,
    LOWER,
    RULES,
    UPPER,
    URL_USER_MAX,
    beginnings,
    commands_in,
    endings_in,
    escapes_in,
    long_runs,
    may_be_base64,
    may_hold,
    offsets,
    words_of,
)
from eventlog.secrets.prefilter import run as _run
from eventlog.secrets.table import TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Span = tuple[int, int, str]  # start, end, kind

__all__ = ["KINDS", "MARK", "TOKENS", "find", "is_secret_name", "is_secret_value", "may_hold"]

_BASE64 = ALNUM + b"+/="
_OPEN_MAX = 512  # of a token without a fixed length, read first; a longer run is followed to its end
_FAILED_RUN_MAX = 256  # a longer run that is not a token is skipped as a whole
_BASE64_MAX = 1 << 16

# So many bytes before these beginnings belong to the token.
_IN_FRONT = {b"k_live_": 1, b"k_test_": 1, b"k_prod_": 1, b".atlasv1.": 14}
_BOT_DIGITS = (8, 9, 10)  # the number of a Telegram bot
_URL_WORDS = frozenset(
    b"guest pass passwd password pw pwd secret token user username key apikey "
    b"postgres root admin test".split()
)
_ORDER = {beginning: i for i, beginning in enumerate(RULES)}

_OTHER_KINDS = (
    "authorization azure-secret cookie crypt discord-token password private-key secret url-password web-token"
)
KINDS = tuple(sorted({row[0] for row in TOKENS}.union(_OTHER_KINDS.split())))


def _strong(text: bytes) -> bool:
    """Looks random: small letters, capitals and digits."""
    return any(c in text for c in LOWER) and any(c in text for c in UPPER) and any(c in text for c in DIGIT)


def _dots(text: bytes) -> bool:
    parts = text.split(b".")
    return len(parts) == 2 and len(parts[1]) == 64 and not parts[1].strip(b"0123456789abcdef")


def _dashed(text: bytes) -> bool:
    return text.count(b"-") in (5, 6) and _mixed(text) and not any(c in text for c in LOWER)


def _uuid(text: bytes) -> bool:
    return [len(part) for part in text[-36:].split(b"-")] == [8, 4, 4, 4, 12]


def _resend(text: bytes) -> bool:
    first, _, last = text[3:].partition(b"_")
    return 7 <= len(first) <= 10 and len(last) >= 20 and _strong(text)


def _jwt(text: bytes) -> bool:
    parts = text.split(b".")
    return len(parts) >= 3 and len(parts[0]) >= 12 and len(parts[1]) >= 8 and len(parts[2]) >= 16


def _sendgrid(text: bytes) -> bool:
    parts = text.split(b".")
    return len(parts) >= 3 and len(parts[1]) >= 16 and len(parts[2]) >= 32


def _mixed(text: bytes) -> bool:
    """Holds letters and digits; a single word, or a number, is not a key."""
    return bool(text.strip(UPPER + LOWER + b"_-.")) and bool(text.strip(DIGIT + b"_-."))


_CHECKS: "dict[str, Callable[[bytes], bool]]" = {
    "mixed": _mixed, "strong": _strong, "jwt": _jwt, "sendgrid": _sendgrid, "dots": _dots, "dashed": _dashed,
    "uuid": _uuid, "resend": _resend,
}  # fmt: skip


def find(data: bytes, inside: bool = True) -> "list[Span]":
    """The spans of secrets, possibly overlapping; not by offset: the more exact kinds come first.

    `inside`: also search text in Base64.
    """
    spans: "list[Span]" = []
    runs = long_runs(data)
    if runs:
        words = words_of(runs)
        for beginning in sorted(set(beginnings(data, runs, words, escapes_in(data))), key=_ORDER.__getitem__):
            _find_tokens(data, beginning, spans)
        if b"Q~" in runs:
            _find_azure(data, spans)
        if b"." in runs:
            _find_dotted(data, runs, spans)
        if inside and any(len(word) >= BASE64_LEAST and may_be_base64(word) for word in words):
            _find_encoded(data, spans)
    for beginning in APART:
        if beginning in data:
            _find_tokens(data, beginning, spans)
    if b"AZDO" in data:
        _find_devops(data, spans)
    if b"-----BEGIN " in data:
        _find_private_keys(data, spans)
    if b"://" in data:
        _find_url_passwords(data, spans)
    low = data.lower()
    if b"bearer" in low:
        _find_bearers(data, low, spans)
    for ending in endings_in(data):
        assignments.find(data, low, ending, spans)
    context_rules.find(data, low, commands_in(data), spans)
    return _outside_of_examples(data, spans) if spans and b"\nDOCUMENTATION = " in data else spans


def _outside_of_examples(data: bytes, spans: "list[Span]") -> "list[Span]":
    """Without made-up values in the self-descriptions of Ansible modules; tokens stay."""
    texts = []
    for mark in _DESCRIPTIONS:
        for offset in offsets(data, mark, 1):
            start = offset + len(mark) + (data[offset + len(mark) : offset + len(mark) + 1] in (b"r", b"u"))
            quotes = data[start : start + 3]
            end = data.find(quotes, start + 3) if quotes in (b"'''", b'"""') else start
            texts.append((start, end if end >= 0 else len(data)))
    return [s for s in spans if s[2] not in _MADE_UP or not any(start < s[0] < end for start, end in texts)]


_DESCRIPTIONS = (b"\nDOCUMENTATION = ", b"\nEXAMPLES = ", b"\nRETURN = ")
_MADE_UP = ("password", "private-key", "secret", "url-password")


def _find_tokens(data: bytes, beginning: bytes, spans: "list[Span]") -> None:
    kind, allowed, least, most, check = RULES[beginning]
    front = _IN_FRONT.get(beginning, 0)
    offset = data.find(beginning)
    while offset >= 0:
        if beginning == b":AA":
            before = data[max(0, offset - 11) : offset]
            front = len(before) - len(before.rstrip(DIGIT))
        value_start = offset + len(beginning)
        size = _run(data, value_start, allowed, most + 1 if most else _OPEN_MAX)
        if not most and size == _OPEN_MAX:
            size += _rest_of_run(data, value_start + size, allowed)
        end = value_start + size
        is_token = size >= least and (not most or size <= most) and _begins(data, offset, front)
        if is_token and beginning == b":AA":
            is_token = front in _BOT_DIGITS
        if is_token:
            text = data[offset:end]
            is_token = (
                _varied(text[len(beginning) :])
                and not is_published(text)
                and (not check or _CHECKS[check](text))
            )
        if is_token:
            if data[end - 1 : end] == b".":
                end -= 1
            start = max(0, offset - front)
            if beginning.startswith(b"/"):  # the address before a webhook's path
                start -= len(data[max(0, offset - 80) : offset]) - len(
                    data[max(0, offset - 80) : offset].rstrip(DOTTED + b":/")
                )
            spans.append((start, end, kind))
        offset = data.find(beginning, end if is_token or size > _FAILED_RUN_MAX else offset + 1)


def _rest_of_run(data: bytes, offset: int, allowed: bytes) -> int:
    start = offset
    while True:
        size = _run(data, offset, allowed, 1 << 16)
        offset += size
        if size < 1 << 16:
            return offset - start


def _begins(data: bytes, offset: int, front: int) -> bool:
    """Whether a token may begin here: not in the middle of a word, unless an escape ends here.

    Text inside of text has its newlines as `\\n`, its quotes as `%22`, its colours as `ESC[32m`.
    """
    if front:
        before = data[max(0, offset - front) : offset]
        return len(before) == front and not before.strip(ALNUM)
    if offset == 0 or data[offset - 1] not in ALNUM_SET or data[offset] not in ALNUM_SET:
        return True
    before = data[max(0, offset - 8) : offset]
    return (
        (before[-2:-1] == b"\\" and before[-1] in b"nrtbf")
        or before[-3:-2] == b"%"
        or before[-4:-2] == b"\\x"
        or before[-6:-4] == b"\\u"
        or (before[-1:] == b"m" and _is_colour(before.rpartition(b"[")))
    )


def _is_colour(parts: "tuple[bytes, bytes, bytes]") -> bool:
    numbers = parts[2][:-1]
    return bool(parts[1]) and numbers[-1:].isdigit() and not numbers.strip(DIGIT + b";")


def _varied(text: bytes) -> bool:
    """Not a placeholder of one repeated letter or a row of digits."""
    return len(set(text[:64])) >= 6


def _find_azure(data: bytes, spans: "list[Span]") -> None:
    """Client secrets: three bytes, a digit, `Q~`, 31 to 34 more."""
    for offset in offsets(data, b"Q~"):
        size = _run(data, offset + 2, DOTTED + b"~", 40)
        start = offset - 4
        if (
            31 <= size <= 34
            and start >= 0
            and data[offset - 1 : offset].isdigit()
            and _varied(data[offset + 2 : offset + 33])
        ):
            spans.append((start, offset + 2 + size, "azure-secret"))


def _find_devops(data: bytes, spans: "list[Span]") -> None:
    """Tokens of Azure DevOps: 84 letters and digits, `AZDO` eight before the end."""
    for offset in offsets(data, b"AZDO"):
        start = offset - 76
        if start >= 0 and not data[start : offset + 8].strip(ALNUM) and _run(data, offset + 8, ALNUM, 1) == 0:
            spans.append((start, offset + 8, "azure-secret"))


def _find_dotted(data: bytes, runs: bytes, spans: "list[Span]") -> None:
    """Three parts of a Discord token, or five of an encrypted web token."""
    for run in runs.split():
        parts = run.split(b".")
        if len(run) <= 55 or len(parts) < 3 or b"~" in run:
            continue
        if len(parts) == 3 and len(parts[1]) == 6 and 24 <= len(parts[0]) <= 28 and 27 <= len(parts[2]) <= 40:
            if not (
                parts[0][-24:-23] in (b"M", b"N", b"O") or parts[0][:1] in (b"M", b"N", b"O")
            ) or not _strong(run):
                continue
            kind = "discord-token"
        elif len(parts) == 3 and parts[0][:2] == b"eJ" and len(parts[1]) == 6 and len(parts[2]) == 27:
            kind = "cookie"
        elif len(parts) == 5 and parts[0][:3] == b"eyJ" and all(map(len, parts[2:])):
            kind = "web-token"
        else:
            continue
        offset = data.find(run)
        if offset >= 0:
            spans.append((offset, offset + len(run), kind))


def _find_encoded(data: bytes, spans: "list[Span]") -> None:
    """Text in Base64 that holds a secret: all of it, with the kind of the first secret in it."""
    import binascii

    shape = data.translate(_AS_BASE64)
    done = 0
    for piece in _long_pieces(data, shape):
        start, end = piece
        if start < done:
            continue
        end = start
        while True:
            end += _rest_of_run(data, end, _BASE64_BODY)
            # Lines of 64 or 76 signs are one text.
            line = 2 if data[end : end + 2] in (b"\r\n", b"\\n") else 1 if data[end : end + 1] == b"\n" else 0
            if not line or end - start < 60 or _run(data, end + line, _BASE64_BODY, 4) < 4:
                break
            end += line
        end += _run(data, end, b"=", 2)
        done = end
        bare = data[start : min(end, start + _BASE64_MAX)].replace(b"\\n", b"").translate(None, b"\r\n=")
        bare = bare.replace(b"-", b"+").replace(b"_", b"/")
        try:
            text = binascii.a2b_base64(bare[: len(bare) - (len(bare) % 4 == 1)] + b"=" * (-len(bare) % 4))
        except ValueError:
            continue
        if text.translate(None, _PRINTED):
            continue
        secrets = find(text, False)
        if secrets:
            spans.append((start, end, secrets[0][2]))


_BASE64_BODY = ALNUM + b"+/-_"
_PRINTED = bytes((9, 10, 13, *range(32, 127)))
_AS_BASE64 = bytes(ord("x") if c in ALNUM_SET else 32 for c in range(256))


def _long_pieces(data: bytes, shape: bytes) -> "list[tuple[int, int]]":
    """Where text in Base64 may begin: long words of letters and digits that may decode to text."""
    pieces = []
    offset = shape.find(b"x" * BASE64_LEAST)
    while offset >= 0:
        end = shape.find(b" ", offset)
        end = len(data) if end < 0 else end
        start = offset
        before = data[max(0, offset - 3) : offset]
        if before[-1:] == b"\\" and data[offset : offset + 1] in (b"n", b"t", b"r"):
            start += 1
        elif before[-1:] == b"%":
            start += 2
        if data[start - 1 : start] not in (b"/", b"+", b"-", b"_", b".") and may_be_base64(
            data[start : start + BASE64_LEAST]
        ):
            pieces.append((start, end))
        offset = shape.find(b"x" * BASE64_LEAST, end)
    return pieces


def _find_private_keys(data: bytes, spans: "list[Span]") -> None:
    """Blocks from BEGIN to END; one without an end goes as far as it looks like a key."""
    offset = data.find(b"-----BEGIN ")
    end_mark = 0  # where the first END after `offset` is; it only moves on, so that the search is linear
    while offset >= 0:
        head = data[offset + 11 : offset + 91]
        head = head[: head.find(b"-----") + 5] if b"-----" in head else b""
        body = offset + 11 + len(head)
        if _is_private(head) and _looks_like_key(data[body : body + 400]):
            if 0 <= end_mark < body:
                end_mark = data.find(b"-----END ", body)
            if end_mark >= 0:
                close = data[end_mark + 9 : end_mark + 89].find(b"-----")
                end = end_mark + 9 + (close + 5 if close >= 0 else 0)
            else:
                end = body + _rest_of_run(data, body, _BASE64 + b" \t\r\n\\:,\"'-")
            spans.append((offset, end, "private-key"))
            offset = end - 1
        offset = data.find(b"-----BEGIN ", offset + 1)


def _is_private(head: bytes) -> bool:
    return b"PRIVATE KEY" in head and not head[:-5].strip(UPPER + DIGIT + b" ")


def _looks_like_key(text: bytes) -> bool:
    """A line of Base64 is in the first bytes after the head, with only quotes and headers before it."""
    first = text.replace(b"\\n", b"\n").replace(b"\\r", b"\n").lstrip(b"\\\"'\r\n\t ,+-").partition(b"\n")[0]
    if _run(first, 0, _BASE64, 16) < 16 and b":" not in first[:24]:
        return False
    for c in b"\\\"'\r\n\t ":
        text = text.replace(b"%c" % c, b"\n")
    return any(len(line) >= 32 and not line.strip(_BASE64) and _varied(line) for line in text.split(b"\n"))


def _find_url_passwords(data: bytes, spans: "list[Span]") -> None:
    """`scheme://user:password@host`: the password."""
    for offset in offsets(data, b"://"):
        window = data[offset + 3 : offset + 3 + URL_USER_MAX]
        stop = window.find(b"@")
        if stop > 0:
            user = window[:stop]
            name, colon, password = user.partition(b":")
            if colon and len(password) >= 3 and not _cut_by(user) and _is_url_password(password):
                start = offset + 3 + len(name) + 1
                spans.append((start, start + len(password), "url-password"))


def _cut_by(text: bytes) -> bool:
    return any(c in text for c in b" \t\r\n/\"'<>`\\\0(){}|")


def _is_url_password(text: bytes) -> bool:
    low = text.lower()
    if low in _URL_WORDS or text[:1] in b"$*[" or len(text) < 5 or is_placeholder(text):
        return False
    return b":" not in text or not is_wordy(text)


def _find_bearers(data: bytes, low: bytes, spans: "list[Span]") -> None:
    for offset in offsets(low, b"bearer"):
        start = offset + 6 + _run(data, offset + 6, SPACES, 4)
        if start > offset + 6:
            size = _run(data, start, DOTTED + b"~+/=", VALUE_MAX)
            if size == VALUE_MAX:
                size += _rest_of_run(data, start + size, DOTTED + b"~+/=")
            value = data[start : start + size].rstrip(b".")
            if size >= 16 and is_random(value):
                spans.append((start, start + len(value), "authorization"))
