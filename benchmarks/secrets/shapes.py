"""Templates of secrets and of the texts that hold them.

A template is a text with fields `{name}` or `{name:argument}`; all else is literal:

    {alnum:40}                   40 random characters of that alphabet (ALPHABETS); {alnum:20-40}
    {uuid} {word} {words:4}      random, of no special alphabet
    {choice:a|b|c}               one of these
    {crc62} {crc32hex}           CRC-32 of what comes before it: since the last `_`, in base 62; all, in hex
    {der:1191:3082} {derjson:…}  so many bytes after those, in base64: lines of 64, or one line with `\\n`
    {part:x} {base64:x} {url64of:x} {hexof:x}   the kind's part `x`, as it is or encoded
    {secret} {NAME} {name} …     what the caller gives

`\\{` is no field. Pure functions of a seeded generator.
"""

from __future__ import annotations

import base64
import re
import string
import textwrap
import uuid
import zlib
from collections.abc import Callable, Mapping
from random import Random

_DIGITS, _LOWER, _UPPER = string.digits, string.ascii_lowercase, string.ascii_uppercase
BASE62 = _DIGITS + _UPPER + _LOWER
ALPHABETS = {
    "alnum": BASE62,
    "alpha": _UPPER + _LOWER,
    "lower": _LOWER,
    "upper": _UPPER,
    "digits": _DIGITS,
    "lowernum": _DIGITS + _LOWER,
    "uppernum": _DIGITS + _UPPER,
    "hex": _DIGITS + "abcdef",
    "upperhex": _DIGITS + "ABCDEF",
    "b64": BASE62 + "+/",
    "url64": BASE62 + "-_",
    "crypt64": BASE62 + "./",
    "base32": _UPPER + "234567",
    "base58": "".join(c for c in BASE62 if c not in "0OIl"),
    "BECH32": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "strong": BASE62 + "!#%*+-_.?^~",
}
_WORDS_TEXT = (
    "amber anchor autumn bakery barrel beacon bottle bridge candle canyon carpet castle cherry circle copper "
    "cotton desert dinner dragon engine falcon feather fiddle forest garden ginger glacier guitar hammer "
    "harbor hazard helmet island jacket jungle kettle ladder lantern lemon magnet marble meadow mirror "
    "monkey mountain needle ocean orange oyster paddle pepper pillow planet pocket quarry rabbit ribbon "
    "river rocket saddle salmon shadow silver spider spring stable summer sunset tailor temple thunder "
    "ticket timber tunnel turtle valley velvet violin walnut willow window winter zebra"
)
_WORDS = _WORDS_TEXT.split()
_FIELD = re.compile(r"(?<!\\)\{([A-Za-z][A-Za-z0-9]*)(?::([^{}\n]*))?\}")


def render(template: str, random: Random, given: Mapping[str, str], parts: Mapping[str, str]) -> str:
    """The template with its fields filled in.

    Args: given: the values of fields without an argument; parts: what `part` and the encodings refer to.
    Raises: KeyError for a field that nobody knows.
    """
    made: list[str] = []
    at = 0
    for field in _FIELD.finditer(template):
        made.append(template[at : field.start()])
        at = field.end()
        name, argument = field[1], field[2] or ""
        if name in given and not argument:
            text = given[name]
        elif name in ALPHABETS:
            text = _some(ALPHABETS[name], argument, random)
        elif name in _CHECKSUMS:
            text = _CHECKSUMS[name]("".join(made))
        elif name in _ENCODINGS:
            text = _ENCODINGS[name](parts[argument])
        else:
            text = _OTHERS[name](argument, random)
        made.append(text)
    made.append(template[at:])
    return "".join(made).replace("\\{", "{")


def github_checksum(part: str) -> str:
    """The last six characters of a token of GitHub and npm: CRC-32 of those before, in base 62."""
    number, digits = zlib.crc32(part.encode()), ""
    while number:
        number, digit = divmod(number, 62)
        digits = BASE62[digit] + digits
    return digits.rjust(6, "0")


def _some(alphabet: str, argument: str, random: Random) -> str:
    """Random characters; among sixteen or more are a digit and a letter, as in nearly all real ones."""
    least, _, most = argument.partition("-")
    size = random.randint(int(least), int(most or least))
    while True:
        text = "".join(random.choices(alphabet, k=size))
        if size < 16 or {c.isdigit() for c in text} == {c.isdigit() for c in alphabet}:
            return text


def _der(argument: str, random: Random) -> str:
    size, _, start = argument.partition(":")
    front = bytes.fromhex(start)
    return base64.b64encode(front + random.randbytes(int(size) - len(front))).decode()


_CHECKSUMS: dict[str, Callable[[str], str]] = {
    "crc62": lambda made: github_checksum(made.rpartition("_")[2]),
    "crc32hex": lambda made: zlib.crc32(made.rstrip("_").encode()).to_bytes(4, "little").hex(),
}
_ENCODINGS: dict[str, Callable[[str], str]] = {
    "part": lambda text: text,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "url64of": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "hexof": lambda text: text.encode().hex(),
}
_OTHERS: dict[str, Callable[[str, Random], str]] = {
    "uuid": lambda _, random: str(uuid.UUID(int=random.getrandbits(128), version=4)),
    "word": lambda _, random: random.choice(_WORDS),
    "words": lambda argument, random: " ".join(random.choices(_WORDS, k=int(argument))),
    "choice": lambda argument, random: random.choice(argument.split("|")),
    "der": lambda argument, random: "\n".join(textwrap.wrap(_der(argument, random), 64)),
    "derjson": lambda argument, random: "\\n".join(textwrap.wrap(_der(argument, random), 64)),
}
