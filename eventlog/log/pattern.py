"""What `erase --secret` looks for: a text, or an expression between slashes, in every spelling that occurs.

Pure. A text is found as it is, as JSON spells it once more, in base64 (whatever stands in front of it), in
UTF-16, and as a title that was cut short ends with the first half of it or more. In names made from texts
(slugs, context ids) its letters and digits are found in order, whatever stands between. An expression is
looked for in texts as they are.
"""

import base64
import re

from eventlog.base import config, jsontext
from eventlog.base.errors import InvalidEvent

_TEXT_SIZE_MIN = 6
_CUT_SIZE_MIN = 6  # a shorter end of a text may be anything
_CUTS_MAX = 64
_NAME_SIZE_MIN = 4  # letters and digits of a text that are looked for in names


class Pattern:
    """One pattern. `text` is None for an expression."""

    def __init__(self, given: str) -> None:
        """Raises: InvalidEvent when it is too short, or no expression."""
        self.expression: "str | None" = None
        self.text: "str | None" = None
        self._name: "re.Pattern[str] | None" = None
        if config.is_expression(given):
            self.expression = given[1:-1]
            try:
                self._texts = re.compile(self.expression)
                self._bytes = re.compile(self.expression.encode("utf-8"))
            except re.error as error:
                raise InvalidEvent(f"{given} is no regular expression ({error})") from None
            if self._texts.search("") is not None:
                raise InvalidEvent(f"{given} matches the empty text, so everything; say more")
            return
        if len(given.encode("utf-8", "surrogatepass")) < _TEXT_SIZE_MIN:
            raise InvalidEvent(
                f"a text to erase needs {_TEXT_SIZE_MIN} bytes: a shorter one is found in everything"
            )
        self.text = given
        spellings = dict.fromkeys(
            [given, _in_json(given), *_in_base64(given.encode("utf-8", "surrogatepass"))]
        )
        cuts = [given[:size] for size in range(len(given) - 1, max(_CUT_SIZE_MIN, len(given) // 2) - 1, -1)]
        parts = [re.escape(text) for text in spellings]
        if cuts:
            ends = "|".join(map(re.escape, cuts[:_CUTS_MAX]))
            parts.append(rf"(?:{ends})(?:…|\.\.\.)?\Z")
        self._texts = re.compile("|".join(parts))
        in_bytes = [text.encode("utf-8", "surrogatepass") for text in spellings]
        in_bytes += [given.encode(code, "surrogatepass") for code in ("utf-16-le", "utf-16-be")]
        self._bytes = re.compile(b"|".join(map(re.escape, in_bytes)))
        words = re.findall("[0-9a-z]+", given.lower())
        if sum(map(len, words)) >= _NAME_SIZE_MIN:
            self._name = re.compile("[^0-9a-z]*".join(words), re.IGNORECASE)

    def sub(self, text: str, mark: str) -> str:
        """The text with a mark for each occurrence; the same object when there is none."""
        return self._texts.sub(mark, text) if self._texts.search(text) is not None else text

    def sub_name(self, name: str) -> str:
        """A name made of texts, without what was made of the pattern."""
        found = self._texts if self._name is None else self._name
        return found.sub("erased", name) if found.search(name) is not None else name

    def is_in(self, data: bytes) -> bool:
        """Whether a content holds it."""
        return self._bytes.search(data) is not None


def _in_json(text: str) -> str:
    return jsontext.encode(text).decode("utf-8", "surrogatepass")[1:-1]


def _in_base64(data: bytes) -> "list[str]":
    """The digits that are the same whatever stands before and behind, at each of the three places."""
    if len(data) < 9:
        return []
    found = []
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data).decode("ascii").rstrip("=")
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        found.append(whole[first:last])
    return [*found, *(text.replace("+", "-").replace("/", "_") for text in found)]
