"""Texts of an event that stand in the blob store: those of files, large ones, images (docs/payload-texts.md).

`payload.in_blobs` maps the place of what was moved (names and numbers joined by dots) to its blob, its size
in bytes, and `base64` where the text was the base64 form of the blob. Nothing is moved before the gate has
redacted it (P5). Pure but for `put` and `has`. On the hook path.
"""

from eventlog.agents.kit.tools import LEFT_OUT
from eventlog.base import jsontext
from eventlog.base.types import ANCHOR_TYPES, PATH_ARGUMENTS, Event
from eventlog.blobs.ids import blob_id, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Put = Callable[[bytes], bytes]
    Has = Callable[[bytes], bool]
    Moved = dict[tuple[str, ...], dict[str, object]]

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

OF_TOOLS = ("tool_start", "action")  # the types whose payload has `args`
# What tools call the whole text of the file that stands beside it.
_FILE_TEXTS = ("content", "contents", "file_text")
_PATHS = frozenset(PATH_ARGUMENTS)
_REFERENCE_SIZE = 100  # of the JSON text of a reference: a shorter text is moved only where it is a file's


def holds_file_text(event: Event, has: "Has" = lambda _: True) -> bool:
    """Whether a tool's arguments hold the text of a file, or its result one that is stored."""
    payload = event.get("payload")
    if event["event_type"] not in OF_TOOLS or not isinstance(payload, dict):
        return False
    return any(place[0] == "args" or _stored(data, has) for place, data in _file_texts(payload))


def move(event: Event, put: "Put", *, suspect: bool, has: "Has | None" = None) -> Event:
    """The event with its texts moved; the same object when there are none to move.

    Args: put: stores a content and gives its id; suspect: the payload may be too large without large texts;
    has: whether a content is stored; without it the texts of files stay.
    """
    payload = event.get("payload")
    if not isinstance(payload, dict):
        return event
    said = event["event_type"] in _SAID_TYPES
    sizes = (_SAID_SIZE_MAX, _SAID_KEPT) if said else (TEXT_SIZE_MAX, _KEPT)
    moved: "Moved" = {}  # by the place, which is joined at the end
    if has is not None and event["event_type"] in OF_TOOLS:
        for place, data in _file_texts(payload):
            id = put(data) if place[0] == "args" else _stored(data, has)
            if id is not None:
                moved[place] = {"blob": to_text(id), "size": len(data)}
    found = {name: _walk(part, (str(name),), sizes, put, moved) for name, part in payload.items()}
    if suspect:
        encoded = jsontext.encode(found)
        if len(encoded) > _PAYLOAD_SIZE_MAX:
            moved[("",)] = {"blob": to_text(put(encoded)), "size": len(encoded)}
            found = {name: value for name, value in payload.items() if name in ("hook_us", "capture")}
    if not moved:
        return event
    places = {".".join(place): one for place, one in moved.items()}
    ids = [str(one["blob"]) for one in places.values()]
    blobs = event.get("blobs")
    known = list(blobs) if isinstance(blobs, (list, tuple)) else []
    return {**event, "payload": {**found, "in_blobs": places}, "blobs": list(dict.fromkeys([*known, *ids]))}


def _walk(
    value: object, place: "tuple[str, ...]", sizes: "tuple[int, int]", put: "Put", moved: "Moved"
) -> "object":
    if isinstance(value, str):
        if place in moved:
            return ""
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
    if len(data) <= size_max or any("." in name for name in place):
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
    moved[place] = entry
    return text[:kept]


def _file_texts(payload: "dict[object, object]") -> "Iterator[tuple[tuple[str, ...], bytes]]":
    """The texts of arguments that a tool writes into a file, and those of results that may be a file's."""
    waiting: "list[tuple[object, tuple[str, ...], bool]]" = []
    waiting += ((payload.get(name), (name,), False) for name in ("result", "args"))
    while waiting:
        value, place, is_beside = waiting.pop()
        if isinstance(value, str):
            if (
                value
                and value != LEFT_OUT
                and (is_beside or (place[0] == "result" and len(value) >= _REFERENCE_SIZE))
            ):
                try:
                    yield place, value.encode()
                except UnicodeEncodeError:
                    continue  # halves of surrogate pairs, which no bytes give back
        elif len(place) > _DEPTH_MAX:
            continue
        elif isinstance(value, dict):
            beside = not _PATHS.isdisjoint(value)
            waiting += (
                (part, (*place, str(name)), beside and name in _FILE_TEXTS)
                for name, part in value.items()
                if "." not in str(name)  # it would not be found again
            )
        elif isinstance(value, list):
            waiting += ((part, (*place, str(i)), False) for i, part in enumerate(value))


def _stored(data: bytes, has: "Has") -> "bytes | None":
    """The stored content that a text is: agents show some without their last line end."""
    for content in (data, data + b"\n"):
        id = blob_id(content)
        if has(id):
            return id
    return None


def void(data: bytes) -> bytes:
    """An id for a content that is stored nowhere."""
    return blob_id(data)


def forget_blobs(event: Event) -> None:
    """The contents that its texts were moved to could not be stored: their hashes are all that stays."""
    payload = event["payload"]
    if isinstance(payload, dict) and "in_blobs" in payload:
        payload["lost_texts"] = payload.pop("in_blobs")
        event["blobs"] = []
