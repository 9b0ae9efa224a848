"""Secrets recognized by the name before them: the names, and the values that are not placeholders.

A value under such a name is a secret unless it looks like an example: it has letters with digits or signs, of
some variety, and is not made of words. A password needs less of that than a key, because people make it up.

Pure functions on bytes; any thread. docs/secrets.md is the protocol. On the hook path, after the prefilter
matched.
"""

from eventlog.secrets.prefilter import (
    ALNUM_SET,
    DIGIT,
    DOTTED,
    KEY,
    LOWER,
    UPPER,
)
from eventlog.secrets.table import KEYS_OF, OTHERS, PASSWORDS, PLACEHOLDERS, PROSE, PUBLISHED, STOPS

MARK = b"[REDACTED:"

_LETTERS = UPPER + LOWER
_PROSE = frozenset(PROSE)
_AS_SPELLED = bytes.maketrans(b"013457@$", b"oleastas")  # as people write words of passwords
_AS_WORDS = bytes(c if c in ALNUM_SET else 32 for c in range(256))
_AS_CASES = bytes(
    ord("u") if c in UPPER else ord("l") if c in LOWER else ord("d") if c in DIGIT else 32 for c in range(256)
)


def is_secret_name(name: bytes) -> bool:
    """Whether a value with this name is a secret. `name` is in lower case."""
    bare = name.rstrip(DIGIT)
    stem = bare.rstrip(b"-_")
    if stem.endswith(KEY):
        return stem[:-3].replace(b"-", b"").replace(b"_", b"").endswith(KEYS_OF)
    if bare.endswith(b"pass"):
        return not bare[:-4] or bare[-5:-4] in (b"_", b"-", b".") or bare[:-4] in _HAVE_PASS
    if bare.endswith(b"auth"):
        return bare == b"auth" or bare.endswith(b"_auth")
    if bare.endswith(b"_secret_id"):
        return True
    return bare.endswith((*PASSWORDS, *OTHERS))


_HAVE_PASS = frozenset(
    b"db user root admin smtp mail mysql pg ftp sudo store key login my db_ bind ldap".split()
)


def is_password_name(name: bytes) -> bool:
    return name.rstrip(DIGIT).endswith(PASSWORDS)


def kind_of(name: bytes) -> str:
    """The kind of a secret with this name; `name` is in lower case."""
    if name.endswith(b"authorization"):
        return "authorization"
    return "password" if is_password_name(name) else "secret"


def is_secret_value(name: bytes, value: bytes, quoted: bool) -> bool:
    """Whether a value under a secret's name is a secret, and not a word, a placeholder, or code."""
    if name.endswith(b"authorization"):
        value = value.rpartition(b" ")[2]
    size = len(value)
    if (
        size < 6
        or size > 8192
        or value[:1] in b"$%{<([*/@#"
        or value.startswith((b"process.", b"os.env", b"./", b"../", b"~/"))
    ):
        return False
    if is_reference(value) or any(mark in value for mark in (b"{{", b"%(", b"#{")):
        return False
    if value.startswith(b"arn:") or _is_setting(value):
        return False
    if b" " in value:
        return quoted and is_password_name(name) and is_passphrase(value)
    if any(c in value for c in b"\t\r\n\0"):
        return False
    if not quoted and (any(c in value for c in b"({[") or value[-1:] in b"."):
        return False
    if is_password_name(name):
        likely = is_password(value) and (quoted or size >= 8) and (not is_wordy(value) or _is_made_up(value))
    else:
        likely = size >= 12 and is_random(value)
    return likely and not is_placeholder(value) and value.lower() not in name


def is_reference(value: bytes) -> bool:
    """Whether a value leads to a secret, or is a mark of one, and holds none itself."""
    return b"://" in value or b"${" in value or b"$(" in value or MARK in value


def _is_setting(value: bytes) -> bool:
    """Whether the value is a name and a value of its own: `state=present`."""
    name, _, rest = value.partition(b"=")
    bare = name.replace(b"_", b"")
    return len(name) > 2 and bool(rest.strip(b"=")) and bare.isalpha() and not _is_jumbled(bare)


def _is_made_up(value: bytes) -> bool:
    """A word with a capital and a number, or hyphenated words with a number, as people remember:
    `Harbor2024`.
    """
    capital = value[:1].isupper() or value.count(b"-") >= 2
    return capital and value[-1:].isdigit() and len(value) >= 8 and not any(c in value for c in b"./_")


def is_placeholder(value: bytes) -> bool:
    """Whether the words in a value mark it as an example, or are all of it."""
    low = value.lower()
    if any(word in low for word in PLACEHOLDERS) or low.startswith(PUBLISHED) or len(set(low)) < 5:
        return True
    plain = low.translate(_AS_SPELLED)
    return (
        b"password" in plain
        or b"passphrase" in plain
        or low.endswith(b"...")
        or _is_made_of_stops(low)
        or _is_made_of_stops(plain)
    )


def _is_made_of_stops(low: bytes) -> bool:
    rest = low
    for word in STOPS:
        if word in rest:
            rest = rest.replace(word, b"")
    return len(rest) < len(low) and sum(c not in DIGIT and c in ALNUM_SET for c in rest) < 3


def is_password(value: bytes) -> bool:
    """Letters with digits or signs, as people make them up."""
    letters = value.strip(DIGIT)
    return bool(letters.strip(_LETTERS + b"_-. ") or has_digit(value) or _is_jumbled(value)) and any(
        c in value for c in _LETTERS
    )


def is_published(token: bytes) -> bool:
    """Whether a token is a well-known example, or a sequence."""
    low = token.lower()
    return b"example" in low or b"1234567890" in low or b"abcdefghij" in low or low.startswith(PUBLISHED)


def is_passphrase(value: bytes) -> bool:
    """Several words that are not a sentence about passwords: four plain ones, or some with a number and a
    sign.
    """
    words = value.split(b" ")
    if len(words) in (12, 15, 18, 21, 24):  # of a wallet
        return all(word.isalpha() and word.islower() and 3 <= len(word) <= 8 for word in words)
    if not 3 <= len(words) <= 10 or not all(words) or any(len(word) > 24 for word in words):
        return False
    bare = [word.strip(b"!.,?;:").lower() for word in words]
    if is_placeholder(value) or any(c in value for c in b'<>{}()[]=/\\:"`%'):
        return False
    if len(words) >= 4 and all(word.isalpha() and len(word) > 2 and word.islower() for word in words):
        return not any(word in _PROSE for word in bare)
    return has_digit(value) and value[-1:] in b"!?*+#$&" and sum(word in _PROSE for word in bare) <= 1


def has_digit(value: bytes) -> bool:
    return any(c in value for c in DIGIT)


def is_random(value: bytes) -> bool:
    """Letters and digits with at least three bits a byte (collision entropy), and not made of words."""
    if not has_digit(value) or not any(c in value for c in _LETTERS):
        return False
    size = len(value)
    return 8 * sum(value.count(c) ** 2 for c in set(value)) <= size * size and not is_wordy(value)


def is_wordy(value: bytes) -> bool:
    """Made of words and small numbers, as identifiers and versions are."""
    for part in value.translate(_AS_WORDS).split():
        word = part.rstrip(DIGIT)
        if len(part) - len(word) > 4 or word.strip(_LETTERS) or _is_jumbled(word):
            return False
    return not value.strip(DOTTED + b"/:+@")


def _is_jumbled(word: bytes) -> bool:
    """Whether the capitals of a word are at random, and not as in names in code."""
    cases = word.translate(_AS_CASES)
    turns = cases.count(b"lu") + cases.count(b"ul") + cases.count(b"uu") // 2
    return len(word) >= 6 and 5 * turns >= 2 * len(word) + 1 and cases.count(b"l") > 0
