"""Which of many texts may hold a secret: a prefilter for imports, by expressions and without a miss.

`suspects(contents)` is true for every content in which `rules.find` finds something. `json_suspects(texts)`
is true for every JSON text, as `jsontext` spells it, of a value that redaction changes by the rules alone; it
does not know the texts that a person denied. Both are true for some other texts too. For much text they cost
a tenth of the prefilter in Python; for little text they cost more, so a redactor with `attached_to` leaves
that to Python.

The expressions are made from the rules' own tables, character by character: JSON spells each character of a
text in one way, so each is searched as it is in contents, and as JSON spells it in JSON. No part of an
expression depends on what precedes or follows it, so a match in a text is a match in any text around it.
Any thread.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from eventlog.secrets import prefilter, table
from eventlog.secrets.engines import Matcher
from eventlog.secrets.redaction import Redactor

# Loading pyarrow takes 50 ms of processor time, making the automaton about 10: Python's prefilter takes as
# long for so many bytes, at 30 ns each.
_WORTH_BYTES = 2 << 20
_WORTH_LOADED_BYTES = 512 << 10


def _bytes_escaped(text: bytes) -> str:
    return "".join(chr(c) if chr(c).isalnum() else f"\\x{c:02x}" for c in text)


_RUN_MAX = 16  # every token of the table has a run of this length

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
def attached_to(redactor: Redactor) -> Iterator[None]:
    """Attach this prefilter to a redactor, for the duration of an import. It changes no result."""
    before, redactor.bulk_prefilter = redactor.bulk_prefilter, _bulk_prefilter
    try:
        yield
    finally:
        redactor.bulk_prefilter = before


def _bulk_prefilter(lines: Sequence[bytes]) -> list[bool] | None:
    return json_suspects(lines) if _pays(lines, _in_json()) else None


def pays(contents: Sequence[bytes]) -> bool:
    """Whether this prefilter is faster than Python's for contents, loading and preparing included."""
    return _pays(contents, _in_contents())


def _pays(texts: Sequence[bytes], matcher: Matcher) -> bool:
    size = sum(map(len, texts))
    if matcher.has_database(size):
        return True  # its search of the shortest text is faster, too
    return size >= _WORTH_BYTES or (size >= _WORTH_LOADED_BYTES and "pyarrow.compute" in sys.modules)


def suspects(contents: Sequence[bytes]) -> list[bool]:
    """For each content, whether the rules have to search it."""
    # In UTF-16, letters are not adjacent.
    return [
        matches or prefilter.is_wide(data)
        for matches, data in zip(_in_contents().matches(contents), contents, strict=True)
    ]


def json_suspects(texts: Sequence[bytes]) -> list[bool]:
    """For each JSON text, whether the rules have to search its value."""
    return _in_json().matches(texts)


@cache
def _in_contents() -> Matcher:
    return _matcher(_expressions(_Spelling(), _nothing))


@cache
def _in_json() -> Matcher:
    """With private blocks, and values that their key, or the flag before them, makes a secret."""
    spell = _JsonSpelling()

    def after_key(value: _Value) -> str:
        return rf'|[_-]*[0-9]*"[ \t\r\n]*[:,][ \t\r\n]*"{value(spell, _BLANK[1:], _NOT_FIRST)}'

    return _matcher((*_expressions(spell, after_key), "(?i:<private>)"))


def _matcher(expressions: Sequence[str]) -> Matcher:
    """There are several, because an automaton of all has more states than RE2 caches, and is twenty times
    slower. Hyperscan needs one for each token.
    """
    return Matcher(("|".join(_tokens()), *expressions), (*_single_tokens(), *expressions), os.environ)


class _Spelling:
    """The spelling of a character: as it is."""

    def some(self, characters: str) -> str:
        """One of the characters."""
        return f"[{_escaped(characters)}]"

    def other(self, characters: str) -> str:
        """A character that is none of them."""
        return f"[^{_escaped(characters)}]"


# The letters of escapes. The others are `\u` and digits.
_LETTER_OF = {'"': '"', "\\": "\\", "\t": "t", "\r": "r", "\n": "n", "\b": "b", "\f": "f"}


class _JsonSpelling(_Spelling):
    """As JSON spells it, where quotes, backslashes and characters below a space are escapes.

    Of `\\u001b` the beginning counts; its digits are skipped wherever such a character is skipped. NUL has
    the same beginning as others, and counts as one of them.
    """

    def some(self, characters: str) -> str:
        letters = "".join(_LETTER_OF.get(c, "") for c in characters)
        plain = "".join(c for c in characters if c not in _LETTER_OF)
        spellings = [f"[{_escaped(plain)}]"] * bool(plain) + [f"\\\\[{_escaped(letters)}]"] * bool(letters)
        return f"(?:{'|'.join(spellings)})"

    def other(self, characters: str) -> str:
        letters = "".join(letter for c, letter in _LETTER_OF.items() if c not in characters)
        plain = {*characters, '"', "\\"} - {"\0"}
        return f"(?:[^{_escaped(''.join(sorted(plain)))}]|\\\\[{_escaped(letters)}u])"


_Value = Callable[[_Spelling, str, str], str]


def _expressions(spell: _Spelling, after_key: Callable[[_Value], str]) -> tuple[str, ...]:
    """Expressions for everything that `rules.find` finds, rule by rule, and more, without tokens."""
    user = spell.other(_URL_CUT)
    others = (
        "[0-9]Q~[A-Za-z0-9_.~-]{16}",
        "-----BEGIN [A-Z0-9 ]*PRIVATE KEY",
        r"[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{16}",
        f"://{user}*:{user}{{3}}{user}*@",
        f"(?i:bearer{spell.some(_SPACES)}+[A-Za-z0-9_.~+/=-]{{16}})",
    )
    return (
        "|".join((*others, _encoded())),
        "|".join(_CONTEXTS),
        _assigned(spell, _PASSWORDS, _password, after_key(_password)),
        _assigned(spell, _OTHERS, _random, after_key(_random)),
    )


# For each rule of `context_rules`, and each rule without a name: a piece that a text and JSON spell alike.
_CONTEXTS = (
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
    first, second, third = (
        "".join(_escaped(c) for c in sorted(chars.decode()))
        for chars in (prefilter.FIRST, prefilter.SECOND, prefilter.THIRD)
    )
    return f"(?:[{first}][{second}][{third}][A-Za-z0-9]){{{prefilter.BASE64_LEAST // 4}}}"


def _nothing(_: _Value) -> str:
    return ""


def _tokens() -> Iterator[str]:
    """Beginnings with the shortest run after them; one alternative for all with the same run."""
    alike: dict[str, list[str]] = {}
    for beginning, run in _runs():
        alike.setdefault(run, []).append(beginning)
    for run, beginnings in alike.items():
        yield f"(?:{'|'.join(beginnings)}){run}"


def _single_tokens() -> Iterator[str]:
    return (beginning + run for beginning, run in _runs())


def _runs() -> Iterator[tuple[str, str]]:
    """The beginning of each token, and the shortest run after it."""
    for beginning, (_, allowed, least, *_) in prefilter.RULES.items():
        in_front = "[0-9]{8}" if beginning == b":AA" else ""
        yield (
            in_front + _escaped(beginning.decode()),
            f"[{_escaped(allowed.decode())}]{{{min(least, _RUN_MAX)}}}",
        )


def _assigned(spell: _Spelling, names: Sequence[str], value: _Value, after_key: str) -> str:
    """A value after a name and a sign, or after a flag; with a type between, as in `name: type = value`."""
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
    # A value may begin with a sign itself; after `>` the first character is one.
    signed = f"{sign}{space}{{0,8}}{any_value}|{sign}{space}{{1,8}}=|[=:>][=>]{{2}}="
    beside = f"(?:{spell.some(_SPACES + _QUOTES + _ESCAPE + ',' + chr(13) + chr(10))}|[nrt]){{1,60}}value"
    return (
        f"(?i:(?:{name})(?:{closing}(?:{space}{{0,8}}(?:{signed})|>=|>[^<]* ){after_key}|{beside})"
        f"|-[a-z0-9_.-]*(?:{words}){closing}{space}{{1,16}}{any_value})"
    )


def _spaced(word: str) -> str:
    """The name of a key, with any `_` and `-` between its letters."""
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
