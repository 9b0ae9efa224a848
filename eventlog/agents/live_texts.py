"""Large texts and images of an event, moved to the blob store: the event keeps a beginning and a reference.

`payload.in_blobs` maps the place of what was moved (names and numbers joined by dots) to its blob, its size
in bytes, and `base64` where the text was the base64 form of the blob. Nothing is moved before the gate has
redacted it (P5). Pure but for `put`. On the hook path.
"""

from eventlog import jsontext
from eventlog.snapshots.ids import blob_id, to_text
from eventlog.types import ANCHOR_TYPES, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Put = Callable[[bytes], bytes]
    Moved = dict[str, dict[str, object]]

TEXT_SIZE_MAX = 16 << 10
_KEPT = 1_000
# What a person said is wanted in full wherever it is shown.
_SAID_SIZE_MAX = 1 << 20
_SAID_KEPT = 64 << 10
_ENCODED = ("data", "base64")  # the names of what holds bytes
_SAID_TYPES = (*ANCHOR_TYPES, "intent")
# A frame holds 16 MiB; a payload of very many small parts is moved as a whole.
_PAYLOAD_SIZE_MAX = 4 << 20
_DEPTH_MAX = 64


def move(event: Event, put: "Put", *, suspect: bool) -> Event:
    """The event with its large texts moved; the same object when there are none.

    Args: put: stores a content and gives its id; suspect: the payload may be too large without large texts.
    """
    payload = event.get("payload")
    if not isinstance(payload, dict):
        return event
    said = event["event_type"] in _SAID_TYPES
    sizes = (_SAID_SIZE_MAX, _SAID_KEPT) if said else (TEXT_SIZE_MAX, _KEPT)
    moved: "Moved" = {}
    found = {name: _walk(part, (str(name),), sizes, put, moved) for name, part in payload.items()}
    if suspect:
        encoded = jsontext.encode(found)
        if len(encoded) > _PAYLOAD_SIZE_MAX:
            moved[""] = {"blob": to_text(put(encoded)), "size": len(encoded)}
            found = {name: value for name, value in payload.items() if name in ("hook_us", "capture")}
    if not moved:
        return event
    ids = [str(one["blob"]) for one in moved.values()]
    blobs = event.get("blobs")
    known = list(blobs) if isinstance(blobs, (list, tuple)) else []
    return {**event, "payload": {**found, "in_blobs": moved}, "blobs": list(dict.fromkeys([*known, *ids]))}


def _walk(
    value: object, place: "tuple[str, ...]", sizes: "tuple[int, int]", put: "Put", moved: "Moved"
) -> "object":
    if isinstance(value, str):
        if place[-1] in _ENCODED:
            sizes = (TEXT_SIZE_MAX, _KEPT)  # nobody reads it, in a prompt neither
        return _text(value, place, sizes, put, moved) if len(value) > sizes[0] // 4 else value
    if len(place) > _DEPTH_MAX:
        return value
    if isinstance(value, dict):
        return {name: _walk(part, (*place, str(name)), sizes, put, moved) for name, part in value.items()}
    if isinstance(value, list):
        return [_walk(part, (*place, str(i)), sizes, put, moved) for i, part in enumerate(value)]
    return value


def _text(text: str, place: "tuple[str, ...]", sizes: "tuple[int, int]", put: "Put", moved: "Moved") -> str:
    size_max, kept = sizes
    data = text.encode("utf-8", "replace")
    if len(data) <= size_max:
        return text
    entry: "dict[str, object]" = {}
    if place[-1] in _ENCODED:
        from binascii import Error as Base64Error
        from binascii import a2b_base64

        try:
            data = a2b_base64(data, strict_mode=True)
            entry["base64"], kept = True, 0
        except Base64Error:
            pass  # a text like any other
    entry["blob"] = to_text(put(data))
    entry["size"] = len(data)
    moved[".".join(place)] = entry
    return text[:kept]


def void(data: bytes) -> bytes:
    """An id for a content that is stored nowhere."""
    return blob_id(data)


def forget_blobs(event: Event) -> None:
    """The contents that its texts were moved to could not be stored: their hashes are all that stays."""
    payload = event["payload"]
    if isinstance(payload, dict) and "in_blobs" in payload:
        payload["lost_texts"] = payload.pop("in_blobs")
        event["blobs"] = []
