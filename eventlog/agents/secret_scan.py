"""Which of many contents may hold a secret: a first look for imports, by RE2 and without a miss.

`suspects(contents)` is true for every content in which `secret_rules.find` finds something, and for some
others. It costs a twentieth of that search, so an import looks closely at few contents. The expression is
made from the rules' own tables. Any thread.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from eventlog import secret_rules

# No value is a secret that is made of letters, dots and lines alone, and none without quotes in which a
# bracket or the value's end comes before anything else.
_SCHEME = r"(?:(?:bearer|basic|token|apikey) )?"
_QUOTED = r"[rbfu]?\\{0,8}[\"'`]" + _SCHEME + r"[a-z_.-]*[^a-z_. \t\r\n\"'`-]"
_PLAIN = r"(?:[a-z_.-]*[^a-z_.=<> \t\r\n({\[,)}\]|\\\"'`-]|[a-z_.-]+=)"
_VALUE = rf"{_SCHEME}(?:{_QUOTED}|{_PLAIN})"


def suspects(contents: Sequence[bytes]) -> list[bool]:
    """For each content whether it has to be looked at closely."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.match_substring_regex(pa.array(contents, type=pa.large_binary()), _expression())
    answers: list[Any] = found.to_pylist()
    # UTF-16 is told by its first bytes; its letters do not stand beside each other.
    return [
        bool(answer) or data[:2] in (b"\xff\xfe", b"\xfe\xff")
        for answer, data in zip(answers, contents, strict=True)
    ]


@cache
def _expression() -> str:
    quoted = [
        _quoted(beginning) + r"[A-Za-z0-9_.%+/=~-]{10}" for _, beginning, _, _, _, _ in secret_rules.TOKENS
    ]
    plain = [e.decode() for e in secret_rules.ENDINGS if e != b"key"]
    keys = "|".join(word.decode() for word in secret_rules.KEYS_OF)
    name = rf"(?:{'|'.join(plain)}|(?:{keys})[_-]*key)[0-9]{{0,3}}"
    close = r"[\"'`\\\]]{0,6}[ \t]{0,8}"
    assigned = rf"(?i:{name}{close}(?:[=:>][=>]{{0,2}}[ \t]{{0,8}}{_VALUE}|[=:>][=>]{{3}}))"
    typed = rf"(?i:{name}{close}[=:>][=>]{{0,2}}[ \t]{{0,8}}[^ =\n]*[ ]{{0,3}}=[ \t]{{0,4}}{_VALUE})"
    flag = rf"(?i:-[a-z0-9_-]*{name}{close}[=:>]?[=>]{{0,2}}[ \t]{{0,8}}{_VALUE})"
    return "|".join(
        [
            *quoted,
            r"[0-9]Q~",
            "-----BEGIN [^\\n]{0,60}PRIVATE KEY",
            "://[^ \\t\\r\\n/@]{0,250}:[^ \\t\\r\\n/@]{3}",
            r"(?i:bearer[ \t]+[A-Za-z0-9_.~+/=-]{8})",
            assigned,
            typed,
            flag,
        ]
    )


def _quoted(text: bytes) -> str:
    return "".join(c if c.isalnum() else f"\\{c}" for c in text.decode())
