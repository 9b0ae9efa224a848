"""gitleaks' published rules, evaluated here: no binary of it is needed, only its `config/gitleaks.toml`.

What is evaluated, as its detector does by default: keywords, paths, expressions, the group that is the
secret, entropy, the allow lists (global and a rule's; expressions on the secret, the match or the line; stop
words; paths), the comment `gitleaks:allow`, a general rule giving way to a special one on the same line, and
up to five passes of decoding (base64, hex, percent). What is not: archives, commits, base lines, `\\u`
escapes.

Its expressions are RE2's. `python_expression` spells them for Python; whether one matches at all is asked of
RE2 itself (pyarrow), so that Python looks only at texts with a match.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_DECODED_MAX = 5
_ENCODED = re.compile(
    r"(?P<percent>%[0-9A-Fa-f]{2}(?:.*%[0-9A-Fa-f]{2})?)|(?P<hex>\b[0-9A-Fa-f]{32,}\b)"
    r"|(?P<base64>[\w/+-]{16,}={0,2})",
    re.ASCII,
)
_TEXT = re.compile(r"[\t\n\r\x20-\x7e]+\Z")


@dataclass(frozen=True)
class Finding:
    """A rule's find in a text: `match` is all that its expression took, `secret` the part that it names."""

    rule: str
    match: str
    secret: str
    line: int


@dataclass(frozen=True)
class _Allowed:
    paths: list[re.Pattern[str]]
    regexes: list[re.Pattern[str]]
    target: str
    stop_words: list[str]
    needs_all: bool

    def has_path(self, path: str) -> bool:
        return bool(path) and any(p.search(path) for p in self.paths)

    def allows(self, found: Finding, line: str, path: str) -> bool:
        target = {"match": found.match, "line": line}.get(self.target, found.secret)
        by_text = any(r.search(target) for r in self.regexes)
        low = found.secret.lower()
        by_word = any(word in low for word in self.stop_words)
        if not self.needs_all:
            return by_text or by_word
        asked = [(self.paths, self.has_path(path)), (self.regexes, by_text), (self.stop_words, by_word)]
        return all(answer for has, answer in asked if has)


@dataclass(frozen=True)
class _Rule:
    id: str
    expression: str
    compiled: re.Pattern[str]
    keywords: list[str]
    entropy: float
    group: int
    path: re.Pattern[str] | None
    allowed: list[_Allowed] = field(default_factory=list)


class Rules:
    """The rules of one file."""

    def __init__(self, file: str) -> None:
        with open(file, "rb") as stream:
            table = tomllib.load(stream)
        lists = table.get("allowlists", [])
        lists += [table["allowlist"]] if "allowlist" in table else []
        self._allowed = [_allowed(row) for row in lists]
        self._rules = [_rule(row) for row in table["rules"] if "regex" in row]
        self.count = len(self._rules)
        self.left_out = [row["id"] for row in table["rules"] if "regex" not in row]

    def find(self, texts: Sequence[tuple[str, str]]) -> list[list[Finding]]:
        """For each (path or "", text) what is found in it."""
        found: list[list[Finding]] = [[] for _ in texts]
        at = [i for i, (path, _) in enumerate(texts) if not any(a.has_path(path) for a in self._allowed)]
        now = {i: texts[i][1] for i in at}
        for depth in range(_DECODED_MAX + 1):
            for i, finding in self._pass(now, texts):
                if depth == 0 or finding.secret not in texts[i][1]:
                    found[i].append(finding)
            now = {i: decoded for i, text in now.items() if (decoded := _decoded(text)) != text}
        return [_without_general(some) for some in found]

    def _pass(
        self, now: Mapping[int, str], texts: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[int, Finding]]:
        low = {i: text.lower() for i, text in now.items()}
        for rule in self._rules:
            some = [
                i
                for i, text in low.items()
                if (not rule.keywords or any(word in text for word in rule.keywords))
                and (rule.path is None or rule.path.search(texts[i][0]))
            ]
            if not some:
                continue
            matched = pc.match_substring_regex(
                pa.array([now[i] for i in some], pa.large_string()), rule.expression
            )
            for i, matches in zip(some, matched.to_pylist(), strict=True):
                if matches:
                    for finding in self._of(rule, now[i], texts[i][0]):
                        yield i, finding

    def _of(self, rule: _Rule, text: str, path: str) -> Iterator[Finding]:
        if any(a.has_path(path) and not a.needs_all for a in rule.allowed):
            return
        for hit in rule.compiled.finditer(text):
            match = hit[0].strip("\n")
            groups = [group for group in hit.groups() if group]
            secret = (hit[rule.group] or match) if rule.group else (groups[0] if groups else match)
            start = text.rfind("\n", 0, hit.start() + 1) + 1
            end = text.find("\n", hit.end() - 1)
            line = text[start : end if end >= 0 else len(text)]
            finding = Finding(rule.id, match, secret, text.count("\n", 0, hit.start()))
            if "gitleaks:allow" in line or (rule.entropy and _entropy(secret) <= rule.entropy):
                continue
            if not any(a.allows(finding, line, path) for a in (*self._allowed, *rule.allowed)):
                yield finding


def python_expression(expression: str) -> str:
    """An expression of RE2 in Python's spelling: flags to a group's end, named classes, `\\z` and `$`."""
    expression = expression.replace("[:alnum:]", "a-zA-Z0-9").replace("[:alpha:]", "a-zA-Z")
    expression = expression.replace("[:digit:]", "0-9").replace("[:word:]", r"\w").replace("[:upper:]", "A-Z")
    out: list[str] = []
    opened: list[list[str]] = [[]]  # of each open group the flags that were set in it
    i, in_class = 0, False
    while i < len(expression):
        c = expression[i]
        flags = None if in_class else re.match(r"\(\?([a-zA-Z-]+)\)", expression[i:])
        if c == "\\":
            out.append(r"\Z" if expression[i + 1] == "z" else expression[i : i + 2])
            i += 2
            continue
        if flags:
            opened[-1].append(flags[1])
            out.append(f"(?{flags[1]}:")
            i += flags.end()
            continue
        if in_class:
            in_class = c != "]"
            out.append(r"\[" if c == "[" else c)
        elif c == "[":
            in_class = True
            front = re.match(r"\[\^?\]?", expression[i:])
            assert front is not None
            out.append(front[0].replace("]", r"\]"))
            i += front.end()
            continue
        elif c == "(":
            opened.append([])
            out.append(c)
        elif c == ")":
            out.append(")" * len(opened.pop()) + c)
        elif c == "|":
            out.append(")" * len(opened[-1]) + c + "".join(f"(?{f}:" for f in opened[-1]))
        elif c == "$":
            out.append(r"\Z")
        else:
            out.append(c)
        i += 1
    return "".join(out) + ")" * len(opened[0])


def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(python_expression(expression), re.ASCII)


def _rule(row: dict[str, Any]) -> _Rule:
    return _Rule(
        row["id"],
        row["regex"],
        _compiled(row["regex"]),
        [word.lower() for word in row.get("keywords", [])],
        row.get("entropy", 0.0),
        row.get("secretGroup", 0),
        _compiled(row["path"]) if "path" in row else None,
        [_allowed(allowed) for allowed in row.get("allowlists", [])],
    )


def _allowed(row: dict[str, Any]) -> _Allowed:
    return _Allowed(
        [_compiled(p) for p in row.get("paths", [])],
        [_compiled(r) for r in row.get("regexes", [])],
        row.get("regexTarget", "secret"),
        [word.lower() for word in row.get("stopwords", [])],
        row.get("condition", "OR").upper() in ("AND", "&&"),
    )


def _entropy(text: str) -> float:
    shares = [text.count(c) / len(text) for c in set(text)]
    return -sum(share * math.log2(share) for share in shares)


def _decoded(text: str) -> str:
    return _ENCODED.sub(_plain, text)


def _plain(hit: re.Match[str]) -> str:
    text = hit[0]
    try:
        if hit.lastgroup == "percent":
            data = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes.fromhex(m[1].decode()), text.encode())
        elif hit.lastgroup == "hex":
            data = bytes.fromhex(text)
        elif not re.search(r"[0-9+/_-]", text):
            return text
        else:
            padded = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
            data = base64.b64decode(padded, validate=True)
        plain = data.decode("ascii")
    except (ValueError, binascii.Error):
        return text
    return plain if _TEXT.match(plain) else text


def _without_general(found: list[Finding]) -> list[Finding]:
    """A general rule gives way to a special one that found the same on its line."""
    special = [f for f in found if "generic" not in f.rule]
    return special + [
        f
        for f in found
        if "generic" in f.rule and not any(s.line == f.line and f.secret in s.secret for s in special)
    ]
