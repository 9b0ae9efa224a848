"""What `erase --secret` searches for: a text, or an expression between slashes, in every spelling of it.

Pure. A text matches as it is, as JSON spells it once more, in base64 (whatever comes before it) and in
UTF-16. At the end of a title that was cut short, its first half or more is enough. In names made from texts
(slugs, context ids) its letters and digits match in order, whatever is between them. An expression is matched
against texts as they are.
"""

import base64
import re

from eventlog.base import config, jsontext
from eventlog.base.errors import InvalidEvent

_TEXT_SIZE_MIN = 6
_CUT_SIZE_MIN = 6  # a shorter end of a text may be anything
_CUTS_MAX = 64
_NAME_SIZE_MIN = 4  # letters and digits of a text that is searched for in names


class Pattern:
    """One pattern. `text` is None for an expression."""

    def __init__(self, pattern: str) -> None:
        """Raises: InvalidEvent when it is too short, or no expression."""
        self.expression: "str | None" = None
        self.text: "str | None" = None
        self._name: "re.Pattern[str] | None" = None
        if config.is_expression(pattern):
            self.expression = pattern[1:-1]
            try:
                self._texts = re.compile(self.expression)
                self._bytes = re.compile(self.expression.encode("utf-8"))
            except re.error as error:
                raise InvalidEvent(f"{pattern} is no regular expression ({error})") from None
            if self._texts.search("") is not None:
                raise InvalidEvent(f"{pattern} matches the empty text, so everything; say more")
            return
        if len(pattern.encode("utf-8", "surrogatepass")) < _TEXT_SIZE_MIN:
            raise InvalidEvent(
                f"a text to erase needs {_TEXT_SIZE_MIN} bytes: a shorter one is found in everything"
            )
        self.text = pattern
        spellings = dict.fromkeys(
            [pattern, _in_json(pattern), *_in_base64(pattern.encode("utf-8", "surrogatepass"))]
        )
        cuts = [
            pattern[:size] for size in range(len(pattern) - 1, max(_CUT_SIZE_MIN, len(pattern) // 2) - 1, -1)
        ]
        parts = [re.escape(text) for text in spellings]
        if cuts:
            ends = "|".join(map(re.escape, cuts[:_CUTS_MAX]))
            parts.append(rf"(?:{ends})(?:…|\.\.\.)?\Z")
        self._texts = re.compile("|".join(parts))
        in_bytes = [text.encode("utf-8", "surrogatepass") for text in spellings]
        in_bytes += [pattern.encode(code, "surrogatepass") for code in ("utf-16-le", "utf-16-be")]
        self._bytes = re.compile(b"|".join(map(re.escape, in_bytes)))
        words = re.findall("[0-9a-z]+", pattern.lower())
        if sum(map(len, words)) >= _NAME_SIZE_MIN:
            self._name = re.compile("[^0-9a-z]*".join(words), re.IGNORECASE)

    def sub(self, text: str, mark: str) -> str:
        """The text with a mark for each occurrence; the same object when there is none."""
        return self._texts.sub(mark, text) if self._texts.search(text) is not None else text

    def sub_name(self, name: str) -> str:
        """A name made of texts, without the part that was made of the pattern."""
        expression = self._texts if self._name is None else self._name
        return expression.sub("erased", name) if expression.search(name) is not None else name

    def is_in(self, data: bytes) -> bool:
        """Whether a content holds the pattern."""
        return self._bytes.search(data) is not None


def _in_json(text: str) -> str:
    return jsontext.encode(text).decode("utf-8", "surrogatepass")[1:-1]


def _in_base64(data: bytes) -> "list[str]":
    """The digits that are the same whatever comes before and after, for each of the three alignments."""
    if len(data) < 9:
        return []
    digits = []
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + data).decode("ascii").rstrip("=")
        first = (shift * 8 + 5) // 6
        last = (shift + len(data)) * 8 // 6
        digits.append(whole[first:last])
    return [*digits, *(text.replace("+", "-").replace("/", "_") for text in digits)]
