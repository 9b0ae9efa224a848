"""Whether an answer still equals a committed one, and which answers were changed on purpose.

JSON is additive (docs/cli.md): an object may have more keys than it had, also within; everything else must
be as it was, lists with their order and length. SQL is asked for the columns that there were. Words must be
equal.
"""

import gzip
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tests.golden.stores import STORES, Answer, answers_of

CHANGES = STORES / "CHANGES.toml"


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of CHANGES.toml: which answers of which stores, since when, by which rule."""

    answers: str
    stores: list[str]
    since: str
    rule: str

    def covers(self, store: str, answer: str) -> bool:
        return fnmatchcase(answer, self.answers) and any(fnmatchcase(store, one) for one in self.stores)


def changes() -> list[Change]:
    """What was changed on purpose. Raises: TypeError for an entry that lacks a key."""
    return [Change(**entry) for entry in tomllib.loads(CHANGES.read_text()).get("change", [])]


def changed_of(name: str) -> list[Answer]:
    """The answers of a store that take the place of committed ones."""
    path = STORES / f"{name}.changed.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines() if path.exists() else ()
    return [Answer(**json.loads(line)) for line in lines]


def expected_of(name: str) -> list[Answer]:
    """What a store is to answer today, in the order in which it is asked."""
    later = {answer.name: answer for answer in changed_of(name)}
    return [later.get(answer.name, answer) for answer in answers_of(name)]


def difference(expected: Answer, found: Answer) -> str | None:
    """The first thing that is stated otherwise; None when all is stated that was."""
    if (expected.code, expected.err) != (found.code, found.err):
        return f"{expected.name}: {expected.code} {expected.err!r} → {found.code} {found.err!r}"
    old, new = _documents(expected.out), _documents(found.out)
    if old is None or new is None:
        return None if expected.out == found.out else f"{expected.name}: {_first(expected.out, found.out)}"
    where = _lost(old, new, "")
    return None if where is None else f"{expected.name}: {where}"


def _documents(text: str) -> list[Any] | None:
    """What the text is in JSON: one document, or one in each line; None when it is words."""
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return None


def _lost(old: Any, new: Any, place: str) -> str | None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                return f"{place}.{key} is gone"
            if (found := _lost(value, new[key], f"{place}.{key}")) is not None:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return next((found for n, (a, b) in pairs if (found := _lost(a, b, f"{place}[{n}]"))), None)
    return None if type(old) is type(new) and old == new else f"{place}: {_short(old)} → {_short(new)}"


def _first(old: str, new: str) -> str:
    lines: Sequence[str] = new.splitlines()
    for number, line in enumerate(old.splitlines()):
        if number >= len(lines) or lines[number] != line:
            other = lines[number] if number < len(lines) else None
            return f"line {number + 1}: {_short(line)} → {_short(other)}"
    return "there is more than there was"


def _short(value: Any) -> str:
    return repr(value)[:200]
