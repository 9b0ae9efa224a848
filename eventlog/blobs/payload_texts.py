"""Reading the texts of events that are in the blob store (docs/payload-texts.md).

`payload_with_texts` gives one with them, `PayloadTexts` many; where a text may not be shown, or is not
there, a mark gives the reason. One thread.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from eventlog.base import jsontext
from eventlog.base.errors import EventLogError
from eventlog.blobs.ids import from_text
from eventlog.log.withheld import withheld_in

if TYPE_CHECKING:
    from eventlog.blobs.store import BlobStore
    from eventlog.log.reader import LogView
    from eventlog.store import Store

IN_BLOBS = "in_blobs"
_WITHHELD = "[WITHHELD: it holds a secret, or may hold one; `locus cat --show-withheld` shows it]"
_NOT_KEPT = "[NOT KEPT: {why}]"


class PayloadTexts:
    """Puts texts back into payloads."""

    def __init__(
        self, blobs: "BlobStore", may_leave: "Callable[[str], bool]", *, size_max: "int | None" = None
    ) -> None:
        """Args: may_leave: whether the content of a hash may be shown; size_max: bytes of a text that are
        read back, None: all."""
        self._blobs = blobs
        self._may_leave = may_leave
        self._size_max = size_max

    @staticmethod
    def of(view: "LogView", blobs: "BlobStore", *, size_max: "int | None" = None) -> "PayloadTexts":
        """The texts that may leave the store: of no content that is withheld in the view.

        The view is asked when the first text is: most payloads have none.
        """
        withheld = cache(lambda: withheld_in(view))
        return PayloadTexts(blobs, lambda content: content not in withheld(), size_max=size_max)

    def fill(self, payload: Any) -> Any:
        """The payload with its texts; the same object where none was moved."""
        return replaced(payload, self._text)

    def fill_json(self, payload: str) -> str:
        """The same for a payload as JSON text."""
        if IN_BLOBS not in payload:
            return payload
        return jsontext.encode(self.fill(jsontext.decode(payload))).decode("utf-8", "surrogatepass")

    def _text(self, entry: "Mapping[str, Any]", excerpt: object) -> str:
        """The text of a reference; where it cannot be given, the event's excerpt and a mark."""
        excerpt = excerpt if isinstance(excerpt, str) else ""
        if not self._may_leave(str(entry["blob"])):
            return excerpt + _WITHHELD
        try:
            data = self._blobs.get(from_text(str(entry["blob"])))
        except (EventLogError, ValueError) as error:
            return excerpt + _NOT_KEPT.format(why=error)
        if entry.get("base64") is True:
            from base64 import b64encode

            data = b64encode(data)
        elif isinstance(size := entry.get("size"), int):
            data = data[:size]
        return data[: self._size_max].decode("utf-8", "replace")


def payload_with_texts(store: "Store", payload: Any) -> Any:
    """A payload with its texts. Raises: as `Store.view`."""
    if not isinstance(payload, dict) or IN_BLOBS not in payload:
        return payload
    with store.view() as view:
        return PayloadTexts.of(view, store.blobs).fill(payload)


def replaced(payload: Any, text_of: "Callable[[Mapping[str, Any], object], str]") -> Any:
    """The payload with what `text_of` gives for each reference and the event's excerpt of its text."""
    references = payload.get(IN_BLOBS) if isinstance(payload, dict) else None
    if not isinstance(references, dict):
        return payload
    whole = references.get("")
    if isinstance(whole, dict) and "blob" in whole:
        try:
            payload = {**jsontext.decode(text_of(whole, "")), **payload}
        except (ValueError, TypeError, EventLogError):
            pass  # it is missing: the excerpt is all there is
    for location, entry in references.items():
        if location and isinstance(entry, dict) and "blob" in entry:
            payload = _with(payload, list(_parts(payload, location.split("."))), entry, text_of)
    return payload


def _parts(value: Any, names: "list[str]") -> "Iterator[str]":
    """The keys that lead to a location. A key may hold dots; then the longest that exists is meant."""
    while names:
        count = 1
        if isinstance(value, dict):
            fits = (n for n in range(len(names), 0, -1) if ".".join(names[:n]) in value)
            count = next(fits, 1)
        name = ".".join(names[:count])
        yield name
        names = names[count:]
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return


def _with(
    value: Any,
    parts: "list[str]",
    entry: "Mapping[str, Any]",
    text_of: "Callable[[Mapping[str, Any], object], str]",
) -> Any:
    """The value with the text of a reference at a location; unchanged without such a location."""
    if not parts:
        return text_of(entry, value)
    if isinstance(value, dict) and parts[0] in value:
        return {**value, parts[0]: _with(value[parts[0]], parts[1:], entry, text_of)}
    if isinstance(value, list) and parts[0].isdecimal() and int(parts[0]) < len(value):
        index = int(parts[0])
        return [*value[:index], _with(value[index], parts[1:], entry, text_of), *value[index + 1 :]]
    return value
