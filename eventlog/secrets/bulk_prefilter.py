"""Which of many texts may hold a secret: a first look for imports, by RE2 and without a miss.

`suspects(contents)` is true for every content in which `rules.find` finds something, and
`json_suspects(texts)` for every JSON text, as `jsontext` spells it, of a value in which redaction changes
something by the rules alone; what a person denied is not known here. Both are true for some others too.
Of much they cost a tenth of a look in Python; of little they cost more, so `looking`, which lends the look
to a redactor, leaves that to Python.

The expressions are made from the rules' own tables, character by character: JSON spells each character of a
text in one way, so each is searched as it is in contents, and as JSON spells it in JSON. No part of an
expression asks what stands before or behind it, so what is found in a text is found in whatever holds it.
Any thread.
"""

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import accumulate

from eventlog.secrets import prefilter, table
from eventlog.secrets.redaction import Redactor

# Loading pyarrow takes 50 ms of processor time, making the automaton about 10: a look in Python takes as
# long for so many bytes, of which it takes 30 ns each.
_WORTH_BYTES = 2 << 20
_WORTH_LOADED_BYTES = 512 << 10

_AT_ONCE_BYTES = 16 << 20


def _bytes_escaped(text: bytes) -> str:
    return "".join(chr(c) if chr(c).isalnum() else f"\\x{c:02x}" for c in text)


_RUN_MAX = 16  # no token of the table has a shorter run

# Sets of characters. A value without quotes ends at the first of _ENDS, and holds no bracket.
_LETTERS = "abcdefghijklmnopqrstuvwxyz_.-"
_BLANK = " \t\r\n\0"
_SPACES = " \t"
_ESCAPE = "\\"
_QUOTES = "\"'`"
_CLOSING = _QUOTES + "\\]"  # of a name
_ENDS = _BLANK + _QUOTES + ",)}]<>|\\"
_BRACKETS = "({["
_NOT_FIRST = "$%{<([*/@#"
_URL_CUT = _BLANK + _QUOTES + "/<>\\(){}|@"

# RE2 takes bytes for Latin-1, and so do the names.
_PASSWORDS = [word.decode("latin-1") for word in table.PASSWORDS]
_OTHERS = [word.decode() for word in table.OTHERS]
_OTHERS += [f"{word.decode()}key" for word in table.KEYS_OF]
_SCHEMES = "bearer |basic |token |apikey "


@contextmanager
def looking(redactor: Redactor) -> Iterator[None]:
    """Lends the look to a redactor, for the duration of an import. What is written goes the same way."""
    before, redactor.look = redactor.look, _look
    try:
        yield
    finally:
        redactor.look = before


def _look(lines: Sequence[bytes]) -> list[bool] | None:
    return json_suspects(lines) if pays(lines) else None


def pays(texts: Sequence[bytes]) -> bool:
    """Whether a look at these takes less time than one in Python, loading and preparing included."""
    size = sum(map(len, texts))
    return size >= _WORTH_BYTES or (size >= _WORTH_LOADED_BYTES and "pyarrow.compute" in sys.modules)


def suspects(contents: Sequence[bytes]) -> list[bool]:
    """For each content whether it has to be looked at closely."""
    # In UTF-16 letters do not stand beside each other.
    return [
        found or prefilter.is_wide(data)
        for found, data in zip(_matches(contents, _in_contents()), contents, strict=True)
    ]


def json_suspects(texts: Sequence[bytes]) -> list[bool]:
    """For each JSON text whether its value has to be looked at closely."""
    return list(_matches(texts, _in_json()))


def _matches(texts: Sequence[bytes], expressions: Sequence[str]) -> Iterator[bool]:
    import pyarrow as pa
    import pyarrow.compute as pc

    for some in _parts(texts):
        places = array("q", accumulate(map(len, some), initial=0))
        parts = [None, pa.py_buffer(places), pa.py_buffer(b"".join(some))]
        # RE2 takes bytes for Latin-1: each is a character.
        column = pa.Array.from_buffers(pa.large_binary(), len(some), parts)
        found = [pc.match_substring_regex(column, expression).to_pylist() for expression in expressions]
        yield from map(any, zip(*found, strict=True))


def _parts(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Neighbours, of bounded size together: they are copied to be looked at."""
    begun = size = 0
    for i, text in enumerate(texts):
        size += len(text)
        if size >= _AT_ONCE_BYTES:
            yield texts[begun : i + 1]
            begun, size = i + 1, 0
    if begun < len(texts):
        yield texts[begun:]


@cache
def _in_contents() -> tuple[str, ...]:
    return _expressions(_Spelling(), _nothing)


@cache
def _in_json() -> tuple[str, ...]:
    """With private blocks, and values whose key, or the flag in front of them, says what they are."""
    spell = _JsonSpelling()

    def behind_key(value: _Value) -> str:
        return rf'|[_-]*[0-9]*"[ \t\r\n]*[:,][ \t\r\n]*"{value(spell, _BLANK[1:], _NOT_FIRST)}'

    return (*_expressions(spell, behind_key), "(?i:<private>)")


class _Spelling:
    """How a character is searched: as it is."""

    def some(self, characters: str) -> str:
        """One of the characters."""
        return f"[{_escaped(characters)}]"

    def other(self, characters: str) -> str:
        """One that is none of them."""
        return f"[^{_escaped(characters)}]"


# The letters of escapes. The others are `\u` and digits.
_LETTER_OF = {'"': '"', "\\": "\\", "\t": "t", "\r": "r", "\n": "n", "\b": "b", "\f": "f"}


class _JsonSpelling(_Spelling):
    """As JSON spells it, where quotes, backslashes and what comes before a space are escapes.

    Of `\\u001b` the beginning counts; its digits are passed wherever such a character is passed. NUL cannot
    be told from others that are spelled so, and counts as one of them.
    """

    def some(self, characters: str) -> str:
        letters = "".join(_LETTER_OF.get(c, "") for c in characters)
        plain = "".join(c for c in characters if c not in _LETTER_OF)
        ways = [f"[{_escaped(plain)}]"] * bool(plain) + [f"\\\\[{_escaped(letters)}]"] * bool(letters)
        return f"(?:{'|'.join(ways)})"

    def other(self, characters: str) -> str:
        letters = "".join(letter for c, letter in _LETTER_OF.items() if c not in characters)
        plain = {*characters, '"', "\\"} - {"\0"}
        return f"(?:[^{_escaped(''.join(sorted(plain)))}]|\\\\[{_escaped(letters)}u])"


_Value = Callable[[_Spelling, str, str], str]


def _expressions(spell: _Spelling, behind_key: Callable[[_Value], str]) -> tuple[str, ...]:
    """What `rules.find` finds, rule by rule, and more.

    Several, because an automaton of all of them has more states than RE2 keeps, and is twenty times slower.
    """
    user = spell.other(_URL_CUT)
    others = (
        "[0-9]Q~[A-Za-z0-9_.~-]{16}",
        "-----BEGIN [A-Z0-9 ]*PRIVATE KEY",
        r"[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{16}",
        f"://{user}*:{user}{{3}}{user}*@",
        f"(?i:bearer{spell.some(_SPACES)}+[A-Za-z0-9_.~+/=-]{{16}})",
    )
    return (
        "|".join(_tokens()),
        "|".join((*others, _encoded())),
        "|".join(_PLACES),
        _assigned(spell, _PASSWORDS, _password, behind_key(_password)),
        _assigned(spell, _OTHERS, _random, behind_key(_random)),
    )


# Of what `context_rules` and the rules without a name find: a piece that is spelled alike in a text and in
# JSON.
_PLACES = (
    "AZDO[A-Za-z0-9]{4}",
    f":(?:{'|'.join(_bytes_escaped(mark) for mark in prefilter.CRYPTS)})[A-Za-z0-9./$=,+_-]{{8}}",
    r":(?:5432|\*):[^:]+:",
    r"(?i:login(?: |\t|\\t)+[^ \t]+(?:[ \t\r\n]|\\[rnt])+password(?:[ \t]|\\t))",
    r"(?i:mnemonic|phrase|bindpw|cookie|identified|authorization|chpasswd|define\(|<[a-z0-9:]*pass)",
    "(?i:password (?:type|'))",
    "(?i:setx |secret set |configure set |spawn)",
    r"(?:\t|\\t)TRUE(?:\t|\\t)",
    r"\]:587|:thin:|PSK |requirepass |masterauth |RSAKeyValue|SSH2 ENC|untrusted c|assword +[^ \n=]*[0-9]",
    "kty|Private-Lines|sig=[A-Za-z0-9%+/=_-]{16}",
    f"(?:{'|'.join(_bytes_escaped(word) for word in table.COMMANDS)})(?: |\\t|\\\\t)",
)


def _encoded() -> str:
    """The beginning of text in Base64."""
    one, two, three = (
        "".join(_escaped(c) for c in sorted(chars.decode()))
        for chars in (prefilter.FIRST, prefilter.SECOND, prefilter.THIRD)
    )
    return f"(?:[{one}][{two}][{three}][A-Za-z0-9]){{{prefilter.BASE64_LEAST // 4}}}"


def _nothing(_: _Value) -> str:
    return ""


def _tokens() -> Iterator[str]:
    """Beginnings with as much behind them as all have; one alternative for all that are followed alike."""
    alike: dict[str, list[str]] = {}
    for _, beginning, allowed, least, _, _ in table.TOKENS:
        in_front = "[0-9]{8}" if beginning == b":AA" else ""
        run = f"[{_escaped(allowed.decode())}]{{{min(least, _RUN_MAX)}}}"
        alike.setdefault(run, []).append(in_front + _escaped(beginning.decode()))
    for run, beginnings in alike.items():
        yield f"(?:{'|'.join(beginnings)}){run}"


def _assigned(spell: _Spelling, names: Sequence[str], value: _Value, behind_key: str) -> str:
    """A value behind a name and a sign, or behind a flag; with a type between, as in `name: type = value`."""
    space = spell.some(_SPACES)
    closing = f"[0-9]{{0,3}}{spell.some(_CLOSING)}{{0,6}}"
    sign = "[=:>][=>]{0,2}"
    typed = f"{spell.other(_ENDS)}*[ ]{{0,3}}={space}{{0,4}}"
    quoted = "|".join(
        spell.some(quote) + f"(?:{_SCHEMES})?" + value(spell, _BLANK[1:] + quote, _NOT_FIRST)
        for quote in _QUOTES
    )
    plain = value(spell, _ENDS + _BRACKETS, _NOT_FIRST + "=")
    any_value = f"(?:[rbfu]?{spell.some(_ESCAPE)}{{0,8}}(?:{quoted})|(?:{_SCHEMES})?{plain}|(?:{_SCHEMES})=)"
    any_value = f"(?:(?:{typed})?{any_value}|{typed}=)"
    name = "|".join(_spaced(word) if word.endswith("key") else _escaped(word) for word in names)
    words = "|".join(dict.fromkeys("key" if word.endswith("key") else _escaped(word) for word in names))
    # A value may begin with a sign itself; behind `>` the first is one.
    signed = f"{sign}{space}{{0,8}}{any_value}|{sign}{space}{{1,8}}=|[=:>][=>]{{2}}="
    beside = f"(?:{spell.some(_SPACES + _QUOTES + _ESCAPE + ',' + chr(13) + chr(10))}|[nrt]){{1,60}}value"
    return (
        f"(?i:(?:{name})(?:{closing}(?:{space}{{0,8}}(?:{signed})|>=|>[^<]* ){behind_key}|{beside})"
        f"|-[a-z0-9_.-]*(?:{words}){closing}{space}{{1,16}}{any_value})"
    )


def _spaced(word: str) -> str:
    """A name of a key, between whose letters lines may stand."""
    return "".join(f"{letter}[_-]*" for letter in word.removesuffix("key")) + "key"


def _password(spell: _Spelling, ends: str, not_first: str) -> str:
    """The beginning of a password: up to what is no letter, dot or line."""
    sign, first = spell.other(_LETTERS + ends), spell.other(_LETTERS + ends + not_first)
    letters = f"[{_escaped(_LETTERS)}]*"
    return f"(?:[a-z_.-]{letters}(?:{sign}|(?-i:[a-z][A-Z]|[A-Z][a-z]){letters})|{first})"


def _random(spell: _Spelling, ends: str, not_first: str) -> str:
    """The beginning of what is a secret only with a digit in it: up to that."""
    return f"(?:{spell.other(ends + not_first)}{spell.other(ends)}*)?[0-9]"


def _escaped(characters: str) -> str:
    """As they are written in an expression and in its sets."""
    return "".join(c if c.isalnum() and c.isascii() else f"\\x{ord(c):02x}" for c in characters)
