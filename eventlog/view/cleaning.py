"""What is taken out of answers before they leave the machine: secrets, people, paths of this machine.

Answers come from a log whose texts were redacted when they were recorded, by the rules of that day. A page
that somebody else will read passes the rules of today once more. Pure but for the redactor.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from eventlog.query.people import FULL, People, text_without
from eventlog.secrets.redaction import Redactor

SECRET, HOME, USER, PERSON = "secret", "home directory", "user name", "person"

_HASH = re.compile(r"blake3:[0-9a-f]{64}")
_SHORTEST_NAME = 3  # a shorter user name is a word of many texts
_NO_NAME = frozenset(("root", "user", "home", "admin"))
_WITHHELD_NOW = "it looks like it holds a secret by the rules of today"


class Cleaner:
    """Takes out of answers what may not leave; `removed` counts it by kind."""

    def __init__(self, redactor: Redactor, people: People, *, home: str = "", user: str = "") -> None:
        """Args: home, user: of this machine; empty to keep paths as they are."""
        self.removed: Counter[str] = Counter()
        self._redactor = redactor
        self._people = people
        self._home = home.rstrip("/")
        name_is_a_word = len(user) < _SHORTEST_NAME or user in _NO_NAME
        self._user = None if name_is_a_word else re.compile(rf"(?<![\w.-]){re.escape(user)}(?![\w-])")
        self._texts: dict[str, str] = {}

    def answer(self, value: "Mapping[str, Any]") -> "dict[str, Any]":
        """The answer without them. Contents and differences are looked at whole, not line by line."""
        cleaned: dict[str, Any] = self._cleaned(dict(value))
        return cleaned

    def text(self, text: str) -> str:
        """A text without secrets, home directories, and names of people."""
        if text not in self._texts:
            self._texts[text] = self._cleaned_text(text)
        return self._texts[text]

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {name: self._member(name, value) for name in value}
        if isinstance(value, Sequence):
            return [self._cleaned(item) for item in value]
        return value

    def _member(self, name: str, parent: "Mapping[str, Any]") -> Any:
        value = parent[name]
        if name in ("person", "host") and self._people.mode != FULL:
            self.removed[PERSON] += value is not None
            return None
        if name == "text" and isinstance(value, list):
            return self._lines(value)
        if name == "hunks":
            return self._hunks(value)
        return self._cleaned(value)

    def _lines(self, lines: "list[list[list[str]]]") -> "list[list[list[str]]]":
        """The lines of a content, as lists of [class, text]; a secret may run over several of them."""
        whole = "\n".join("".join(text for _, text in line) for line in lines)
        if self._redactor.text(whole) != whole:
            self.removed[SECRET] += 1
            return [[["", f"(left out: {_WITHHELD_NOW})"]]]
        return [[[kind, self.text(text)] for kind, text in line] for line in lines]

    def _hunks(self, hunks: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
        """A hunk in which a secret runs over lines keeps its header alone."""
        cleaned = []
        for hunk in hunks:
            whole = "\n".join(line[3] for line in hunk["lines"])
            redacted = self._redactor.text(whole)
            lines = redacted.split("\n")
            self.removed[SECRET] += redacted != whole
            if len(lines) != len(hunk["lines"]):
                lines = [""] * len(hunk["lines"])
            pairs = zip(hunk["lines"], lines, strict=True)
            cleaned_lines = [[*line[:3], self.text(text)] for line, text in pairs]
            cleaned.append({"header": self.text(hunk["header"]), "lines": cleaned_lines})
        return cleaned

    def _cleaned_text(self, text: str) -> str:
        if _HASH.fullmatch(text):
            return text
        redacted = self._redactor.text(text)
        self.removed[SECRET] += redacted != text
        if self._home and self._home in redacted:
            at_home = re.sub(rf"{re.escape(self._home)}(?![\w.-])", "~", redacted)
            self.removed[HOME] += at_home != redacted
            redacted = at_home
        nameless = text_without(self._people, redacted)
        self.removed[PERSON] += nameless != redacted
        if self._user is None:
            return nameless
        anonymous = self._user.sub("user", nameless)
        self.removed[USER] += anonymous != nameless
        return anonymous


def of_this_machine() -> "tuple[str, str]":
    """The home directory and the name of the user that runs this; empty where they are unknown."""
    home = os.path.expanduser("~")
    return (home if home not in ("~", "/") else ""), os.path.basename(home)
