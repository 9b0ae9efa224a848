"""The prefilter for secrets: whether a text, or a JSON text, may hold one, at a fraction of the cost of a
search.

Where `may_hold` is false, `rules.find` finds nothing in any of the texts. The tests are for bytes that a text
and JSON spell alike; where an escape may come between two parts of a secret, only the parts count. There are
no regular expressions here: the hook path loads no `re`, and the time is linear.

Pure functions; any thread. docs/secrets.md is the protocol. On the hook path.
"""

from eventlog.secrets.table import COMMANDS, KEYS_OF, OPTIONS, OTHERS, PASSWORDS, TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DIGIT = b"0123456789"
UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LOWER = b"abcdefghijklmnopqrstuvwxyz"
ALNUM = DIGIT + UPPER + LOWER
WORD = ALNUM + b"_-"
DOTTED = WORD + b"."
ALNUM_SET = frozenset(ALNUM)

NAME_MAX = 48
URL_USER_MAX = 256

KEY = b"key"
ENDINGS = (*PASSWORDS, *OTHERS, KEY)

_WITH_PASSWORD = (b"withpassword", b"encryptedpassword", b"passwordtype")
# These are searched in a text without its most frequent bytes, which is a tenth of it.
_RARE = UPPER + b":*]5"
_NOT_RARE = bytes(c for c in range(256) if c not in _RARE)
_MARKS = (b"]:587", b":5432:", b":*:", b"PSK ", b"RSAKeyValue", b"SSH2 ENC", b"AZDO", b"tTRUE", b"\tTRUE")
_AMONG_RARE = tuple((mark.translate(None, _NOT_RARE), mark) for mark in _MARKS)
_RAREST = frozenset(next(c for c in left if c in b"5*KVHZU") for left, _ in _AMONG_RARE)  # each has one
SETTERS = (b"setx ", b"secret set ", b"configure set ")
CRYPTS = (b"$6$", b"$5$", b"$y$", b"$1$", b"$2a$", b"$2b$", b"$2y$", b"$apr1$", b"$7$")

_LONG_RUN = b"x" * 15  # the shortest run of a token in the table, except where the table says so
_AS_RUNS = bytes(ord("x") if c in DOTTED + b"~" else 32 for c in range(256))
_AS_WORDS = bytes(c if c in ALNUM_SET else 32 for c in range(256))

# The bytes that may be between a name and its sign. Without them the two are adjacent.
_BETWEEN = DIGIT + b"-_\\\"'`] \t\r\n,"
_AS_SIGNS = bytes(ord(":") if c in b"=:>" else c for c in range(256)).lower()
_AS_OPTIONS = bytes(c if c in DOTTED else 32 for c in range(256)).lower()

# By the beginning of a token: the rest of its row in the table.
RULES = {
    beginning: (kind, letters, least, most, check)
    for kind, beginnings, letters, least, most, check in TOKENS
    for beginning in beginnings
}
# Tokens without a long run, or that begin with bytes at which runs are cut.
APART = frozenset(beginning for beginning in RULES if beginning.strip(DOTTED + b"~"))


def _together(name: bytes) -> bytes:
    return name.translate(None, _BETWEEN)


# A tab, in JSON, leaves a `t` between a name and its sign.
_WHOLE = (*PASSWORDS, *OTHERS, *(word + KEY for word in KEYS_OF))
_NAMES = tuple({_together(name) for name in (*_WHOLE, b"sig", b"kty", b"thin")}
               | {_together(name).rstrip(b"t") for name in _WHOLE})  # fmt: skip
_LASTS = frozenset((name + tabs)[-3:] for name in (*_NAMES, b"value") for tabs in (b"", b"t", b"tt", b"ttt"))


def _grouped(pairs: "Iterable[tuple[bytes, bytes]]") -> "dict[bytes, tuple[bytes, ...]]":
    groups: "dict[bytes, tuple[bytes, ...]]" = {}
    for key, value in pairs:
        groups[key] = (*groups.get(key, ()), value)
    return groups


_BY_LAST = _grouped([(name[-2:], name) for name in _NAMES])


def _first_word(beginning: bytes) -> bytes:
    words = beginning.translate(_AS_WORDS).split()
    return words[1] if beginning.startswith(b"k_") else words[0]


_ESCAPED = frozenset(b"nrtbf")
_X, _XU = ord("x"), frozenset(b"xu")
_DIGIT_BYTES = frozenset(bytes([c]) for c in DIGIT)
_DIGITS, _HEX = frozenset(DIGIT), frozenset(b"0123456789abcdefABCDEF")
_LETTERS = (b"n", b"r", b"t", b"b", b"f")  # of escapes
# Beginnings by their first word when a sign ends it, else by three bytes.
_INSIDE = [beginning for beginning in RULES if beginning not in APART and len(beginning) > 2]
BY_WORD = _grouped([(_first_word(beginning), beginning) for beginning in _INSIDE if not beginning.isalnum()])
BY_FRONT = _grouped([(beginning[:3], beginning) for beginning in _INSIDE if beginning.isalnum()])
# Also after an escape.
_WORDS = frozenset([*BY_WORD, *[letter + word for letter in _LETTERS for word in BY_WORD]])
_FRONTS = frozenset(BY_FRONT)


def may_hold(data: bytes) -> bool:
    """Whether `rules.find` may find something in `data`, or in a text of JSON as `jsontext` spells it.

    Also whether a value in that JSON may be a secret because of its key, or of the flag before it in a list.
    It never misses one.
    """
    runs = long_runs(data)
    escapes = escapes_in(data)
    if runs and _may_hold_token(data, runs, escapes):
        return True
    if b"@" in data and b"://" in data and _may_be_url_password(data):
        return True
    if b"-----BEGIN" in data and b"PRIVATE KEY" in data:
        return True
    if b"$" in data and any(mark in data for mark in CRYPTS):
        return True
    rare = data.translate(None, _NOT_RARE)
    if b":AA" in rare and _may_be_token(data, b":AA"):
        return True
    if not _RAREST.isdisjoint(rare):
        for left, mark in _AMONG_RARE:
            if left in rare and mark in data:
                return True
    if b"masterauth " in data or b"untrusted c" in data:
        return True
    # Every secret of `context_rules` needs one of these pieces: in lower case, with `:` for each sign and
    # without the bytes of `_BETWEEN`. The parts that several share are searched first.
    together = data.translate(_AS_SIGNS, _BETWEEN)
    if (
        (b"ook" in together and (b"cookie" in together or b"webhook" in together))
        or b"setx" in together
        or b"secretset" in together
        or b"configureset" in together
        or b"identifiedby" in together
        or b"bindpw" in together
        or b"privatelines" in together
        or (b"(" in together and b"define(" in together)
    ):
        return True
    if b"pass" in together and (
        b"chpasswd" in together or b"<pass" in together or b"requirepass" in together
    ):
        return True
    if b"assword" in together and (
        any(mark in together for mark in _WITH_PASSWORD)
        or (b"machine" in together and b"login" in together)
        or (b"assword " in data and _may_be_line(data))
        or (b"spawn" in data and b"send " in data)
    ):
        return True
    if b"bearer" in together and _may_be_bearer(data.lower()):
        return True
    pieces = together.split(b":")
    del pieces[-1]
    if any([_is_name(piece) for piece in pieces if piece[-3:] in _LASTS]):  # noqa: C419 - faster so
        return True
    return b"-" in data and _may_be_command(data, escapes)


def _may_hold_token(data: bytes, runs: bytes, escapes: "set[bytes]") -> bool:
    words = words_of(runs)
    for beginning in beginnings(data, runs, words, escapes):
        if _may_be_token(data, beginning):
            return True
    if b"Q~" in runs or b"hooks.slack.com" in runs:
        return True
    for word in words:
        if len(word) >= BASE64_LEAST and may_be_base64(word):
            return True
    return b"." in runs and any(run.count(b".") > 1 and len(run) > 55 for run in runs.split())


def _may_be_command(data: bytes, escapes: "set[bytes]") -> bool:
    """Whether it has a flag with a secret's name, or a command with a password among its options."""
    shape = _shape(data, escapes)
    pieces = shape.split(b" -")[1:]
    return bool(_flags(pieces)) or (_has_options(pieces) and not _COMMANDS.isdisjoint(shape.split()))


def endings_in(data: bytes) -> "set[bytes]":
    """The ends of names in a text that may have a value after a sign, or that are flags."""
    endings: "set[bytes]" = set()
    for piece in {piece[-128:] for piece in data.translate(_AS_SIGNS, _BETWEEN).split(b":")[:-1]}:
        if piece[-3:] in _LASTS and _is_name(piece):
            bare = piece.removesuffix(b"value").rstrip(b"nrt:")
            piece = piece.rstrip(b"t")
            endings |= {end for end, name in _TOGETHER if piece.endswith(name) or bare.endswith(name)}
    if b"-" in data:
        for word in _flags(_shape(data, escapes_in(data)).split(b" -")[1:]):
            endings |= {ending for ending in ENDINGS if word.endswith(ending)}
    return endings


def _shape(data: bytes, escapes: "set[bytes]") -> bytes:
    """The words of a text, in lower case; in JSON without the letters of escapes before a minus sign, and the
    words after the digits of other escapes once more.
    """
    if b"u0" in escapes:
        data = b" ".join((data, *(piece[2 : NAME_MAX + 18] for piece in data.split(b"\\u00")[1:])))
    shape = b" " + data.translate(_AS_OPTIONS) + b" "
    for letter in _LETTERS:
        if letter + b"-" in escapes:
            shape = shape.replace(b" " + letter + b"-", b"  -")
    return shape


def commands_in(data: bytes) -> "list[bytes]":
    """The commands with a password among their options that a text may hold."""
    if b"-" not in data:
        return []
    shape = _shape(data, escapes_in(data))
    return [word for word in COMMANDS if word + b" " in shape] if _has_options(shape.split(b" -")[1:]) else []


def _has_options(pieces: "list[bytes]") -> bool:
    """Whether it has an option that a password may follow."""
    firsts = {piece[:1] for piece in pieces}
    return not firsts.isdisjoint(_OPTION_STARTS) or (
        not firsts.isdisjoint(_LONG_STARTS) and any(piece.startswith(_LONG_OPTIONS) for piece in pieces)
    )


_OPTIONS = {option[1:].lower() for _, options, _ in OPTIONS for option in options}
_OPTION_STARTS = frozenset(option[:1] for option in _OPTIONS if not option.startswith(b"-"))
_LONG_OPTIONS = (*(option for option in _OPTIONS if option.startswith(b"-")), b"-password", b"-stdin",
                 b"b ", b"nb", b"cb ", b"bn", b"bc ")  # fmt: skip
_LONG_STARTS = frozenset(option[:1] for option in _LONG_OPTIONS)
_COMMANDS = frozenset(letter + word for word in COMMANDS for letter in (b"", *_LETTERS))
_TOGETHER = tuple((ending, _together(ending)) for ending in ENDINGS) + tuple(
    (ending, _together(ending).rstrip(b"t")) for ending in ENDINGS
)


def _is_name(piece: bytes) -> bool:
    bare = piece.rstrip(b"t")
    if bare.endswith(_BY_LAST.get(bare[-2:], ())):
        return True
    return bare.endswith(b"value") and bare[:-5].rstrip(b"nrt:").endswith(_NAMES)


def long_runs(data: bytes) -> bytes:
    """All runs of token bytes that are as long as a token, with spaces between."""
    shape = data.translate(_AS_RUNS)
    runs = []
    offset = shape.find(_LONG_RUN)
    while offset >= 0:
        end = shape.find(b" ", offset)
        if end < 0:
            end = len(data)
        runs.append(data[offset:end])
        offset = shape.find(_LONG_RUN, end)
    return b" ".join(runs)


def escapes_in(data: bytes) -> "set[bytes]":
    """The two bytes after each backslash."""
    return {piece[:2] for piece in data.split(b"\\")[1:]}


def words_of(runs: bytes) -> "set[bytes]":
    """The letters and digits between other signs."""
    return set(runs.translate(_AS_WORDS).split())


def beginnings(data: bytes, runs: bytes, words: "set[bytes]", escapes: "set[bytes]") -> "list[bytes]":
    """The beginnings of tokens that may be in a text, some of them twice; also after an escape.

    Text inside of text has its newlines as `\\n`, its quotes as `%22` or `\\u0022`, its colours as `ESC[32m`.
    """
    first_words = words & _WORDS
    fronts = {word[:3] for word in words}
    if escapes:
        fronts.update([word[1:4] for word in words if word[0] in _ESCAPED])
        if any(escape[0] in _XU for escape in escapes if escape):
            escaped = [word[3 if word[0] == _X else 5 :] for word in words if word[0] in _XU]
            first_words |= _WORDS.intersection(escaped)
            fronts.update([word[:3] for word in escaped])
    if b"%" in data:
        escaped = [word[2:] for word in words if word[0] in _HEX]
        first_words |= _WORDS.intersection(escaped)
        fronts.update([word[:3] for word in escaped])
    if b"[" in data and not _DIGIT_BYTES.isdisjoint([piece[:1] for piece in data.split(b"[")[1:]]):
        escaped = [word[word.find(b"m") + 1 :] for word in words if word[0] in _DIGITS and b"m" in word[:5]]
        first_words |= _WORDS.intersection(escaped)
        fronts.update([word[:3] for word in escaped])
    groups = [BY_WORD.get(word, ()) for word in first_words]
    groups += [BY_WORD.get(word[1:], ()) for word in first_words if word[:1] in _LETTERS]
    groups += [BY_FRONT[front] for front in fronts & _FRONTS]
    candidates = [beginning for group in groups for beginning in group if beginning in runs]
    if b"SK" in runs:
        candidates.append(b"SK")
    return candidates


# The possible first, second and third characters of each four in Base64, from the bytes that texts have.
_TEXT = frozenset((9, 10, 13, *range(32, 127)))
_SEXTETS = UPPER + LOWER + DIGIT + b"+/"
FIRST = bytes(sorted({_SEXTETS[a >> 2] for a in _TEXT}))
SECOND = bytes(sorted({_SEXTETS[a << 4 | b] for a in range(4) for b in {c >> 4 for c in _TEXT}}))
THIRD = bytes(sorted({_SEXTETS[a << 2 | b] for a in range(16) for b in {c >> 6 for c in _TEXT}}))
BASE64_LEAST = 20
_IS_FIRST = bytes(ord("x") if c in FIRST else 32 for c in range(256))
_ALL_FIRST = b"x" * (BASE64_LEAST // 4)
_LOWER, _UPPER = LOWER + DIGIT, UPPER + DIGIT


def may_be_base64(word: bytes) -> bool:
    """Whether text in Base64 may begin in the first bytes of a word, after an escape's end or not."""
    if not word.strip(_LOWER) or not word.strip(_UPPER):
        return False
    first = word[: 6 + BASE64_LEAST].translate(_IS_FIRST)
    for offset in range(min(7, len(word) - BASE64_LEAST + 1)):
        if first[offset : offset + BASE64_LEAST : 4] == _ALL_FIRST:
            part = word[offset : offset + BASE64_LEAST]
            if not part[1::4].strip(SECOND) and not part[2::4].strip(THIRD):
                return True
    return False


def run(data: bytes, offset: int, allowed: bytes, most: int) -> int:
    """How many of the allowed bytes follow from `offset`, at most so many."""
    window = data[offset : offset + most]
    return len(window) - len(window.lstrip(allowed))


def offsets(data: bytes, mark: bytes, step: int = 0) -> "Iterator[int]":
    """The offsets of a mark, each at least `step` bytes after the one before; by default the mark's size."""
    step = step or len(mark)
    offset = data.find(mark)
    while offset >= 0:
        yield offset
        offset = data.find(mark, offset + step)


def _may_be_token(data: bytes, beginning: bytes) -> bool:
    _, allowed, least, *_ = RULES[beginning]
    size = len(beginning)
    return any(run(data, offset + size, allowed, least) == least for offset in offsets(data, beginning))


def _may_be_url_password(data: bytes) -> bool:
    for offset in offsets(data, b"://"):
        user = data[offset + 3 : offset + 3 + 6 * URL_USER_MAX].partition(b"@")
        if user[1] and b":" in user[0] and user[0] == user[0].translate(None, b" /<>'`|(){}"):
            return True
    return False


def _may_be_line(data: bytes) -> bool:
    """Whether `password` and one word with a digit or a capital end a line."""
    for offset in offsets(data, b"assword "):
        start = offset + 8 + run(data, offset + 8, b" ", 16)
        window = data[start : start + 80]
        word = (
            window.replace(b"\r", b"\n")
            .replace(b"\\", b"\n")
            .replace(b'"', b"\n", 2)
            .lstrip(b"\n")
            .partition(b"\n")[0]
        )
        if len(word) >= 6 and b" " not in word.rstrip(b" "):
            return True
    return False


def _may_be_bearer(low: bytes) -> bool:
    return any(low[offset + 6 : offset + 7] in (b" ", b"\t", b"\\") for offset in offsets(low, b"bearer"))


def _flags(pieces: "list[bytes]") -> "list[bytes]":
    """The words that begin with a minus sign and end in a secret's name."""
    flags = []
    for piece in pieces:
        word = piece[: NAME_MAX + 16].partition(b" ")[0]
        bare = word.rstrip(b"0123456789-_")
        if bare[-3:] in _ENDS and bare.endswith(ENDINGS):
            flags.append(bare)
        elif len(word) > NAME_MAX:
            flags += ENDINGS
    return flags


_ENDS = frozenset(ending[-3:] for ending in ENDINGS)


def is_wide(data: bytes) -> bool:
    """Whether a content is UTF-16: by its first bytes, or because every second one of them is 0."""
    head = data[:64]
    return head[:2] in (b"\xff\xfe", b"\xfe\xff") or (
        len(head) >= 16 and (head[1::2].count(0) * 4 > len(head) or head[::2].count(0) * 4 > len(head))
    )


def plain(data: bytes) -> bytes:
    """A content as the rules search it: UTF-16 as UTF-8."""
    if not is_wide(data):
        return data
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    order = "le" if data[1:64:2].count(0) > data[:64:2].count(0) else "be"
    return data.decode(f"utf-16-{order}", "replace").encode("utf-8", "replace")
