"""Texts of an event that are in the blob store: those of files, large ones, images (docs/payload-texts.md).

`payload.in_blobs` maps the key path of a moved text (names and numbers joined by dots) to its blob and its
size in bytes. It also has `base64` where the text was the base64 form of the blob. Nothing is moved before
admission has redacted it (P5). Pure except for `put` and `has`. On the hook path.
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
_PREFIX_SIZE = 1_000
# The words of a person are wanted in full wherever they are shown.
_PERSON_SIZE_MAX = 1 << 20
_PERSON_PREFIX_SIZE = 64 << 10
_ENCODED = ("data", "base64")  # the names of what holds bytes
_PERSON_TYPES = (*ANCHOR_TYPES, "intent")
# A frame holds 16 MiB; a payload of very many small parts is moved as a whole.
_PAYLOAD_SIZE_MAX = 4 << 20
_DEPTH_MAX = 64

OF_TOOLS = ("tool_start", "action")  # the types whose payload has `args`
# Arguments that hold the whole text of a file, beside one that holds its path.
_FILE_TEXTS = ("content", "contents", "file_text")
_PATHS = frozenset(PATH_ARGUMENTS)
_REFERENCE_SIZE = 100  # of the JSON text of a reference: a shorter text is moved only where it is a file's


def holds_file_text(event: Event, has: "Has" = lambda _: True) -> bool:
    """Whether a tool's arguments hold the text of a file, or its result one that is stored."""
    payload = event.get("payload")
    if event["event_type"] not in OF_TOOLS or not isinstance(payload, dict):
        return False
    return any(key_path[0] == "args" or _stored(data, has) for key_path, data in _file_texts(payload))


def move(event: Event, put: "Put", *, suspect: bool, has: "Has | None" = None) -> Event:
    """The event with its texts moved; the same object when there are none to move.

    Args: put: stores a content and gives its id; suspect: the payload may be too large without large texts;
    has: whether a content is stored; without it the texts of files stay.
    """
    payload = event.get("payload")
    if not isinstance(payload, dict):
        return event
    is_persons = event["event_type"] in _PERSON_TYPES
    sizes = (_PERSON_SIZE_MAX, _PERSON_PREFIX_SIZE) if is_persons else (TEXT_SIZE_MAX, _PREFIX_SIZE)
    moved: "Moved" = {}  # by key path, which is joined at the end
    if has is not None and event["event_type"] in OF_TOOLS:
        for key_path, data in _file_texts(payload):
            content_id = put(data) if key_path[0] == "args" else _stored(data, has)
            if content_id is not None:
                moved[key_path] = {"blob": to_text(content_id), "size": len(data)}
    new_payload = {name: _walk(part, (str(name),), sizes, put, moved) for name, part in payload.items()}
    if suspect:
        encoded = jsontext.encode(new_payload)
        if len(encoded) > _PAYLOAD_SIZE_MAX:
            moved[("",)] = {"blob": to_text(put(encoded)), "size": len(encoded)}
            new_payload = {name: value for name, value in payload.items() if name in ("hook_us", "capture")}
    if not moved:
        return event
    references = {".".join(key_path): reference for key_path, reference in moved.items()}
    ids = [str(reference["blob"]) for reference in references.values()]
    blobs = event.get("blobs")
    blob_ids = list(blobs) if isinstance(blobs, (list, tuple)) else []
    return {
        **event,
        "payload": {**new_payload, "in_blobs": references},
        "blobs": list(dict.fromkeys([*blob_ids, *ids])),
    }


def _walk(
    value: object, key_path: "tuple[str, ...]", sizes: "tuple[int, int]", put: "Put", moved: "Moved"
) -> "object":
    if isinstance(value, str):
        if key_path in moved:
            return ""
        if key_path[-1] in _ENCODED:
            sizes = (TEXT_SIZE_MAX, _PREFIX_SIZE)  # nobody reads it, not even in a prompt
        return _text(value, key_path, sizes, put, moved) if len(value) > sizes[0] // 4 else value
    if len(key_path) > _DEPTH_MAX:
        return value
    if isinstance(value, dict):
        return {name: _walk(part, (*key_path, str(name)), sizes, put, moved) for name, part in value.items()}
    if isinstance(value, list):
        return [_walk(part, (*key_path, str(i)), sizes, put, moved) for i, part in enumerate(value)]
    return value


def _text(
    text: str, key_path: "tuple[str, ...]", sizes: "tuple[int, int]", put: "Put", moved: "Moved"
) -> str:
    size_max, prefix_size = sizes
    data = text.encode("utf-8", "replace")
    if len(data) <= size_max or any("." in name for name in key_path):
        return text
    entry: "dict[str, object]" = {}
    if key_path[-1] in _ENCODED:
        from binascii import Error as Base64Error
        from binascii import a2b_base64

        try:
            data = a2b_base64(data, strict_mode=True)
            entry["base64"], prefix_size = True, 0
        except Base64Error:
            pass  # a text like any other
    entry["blob"] = to_text(put(data))
    entry["size"] = len(data)
    moved[key_path] = entry
    return text[:prefix_size]


def _file_texts(payload: "dict[object, object]") -> "Iterator[tuple[tuple[str, ...], bytes]]":
    """The texts of arguments that a tool writes into a file, and those of results that may be a file's."""
    waiting: "list[tuple[object, tuple[str, ...], bool]]" = []
    waiting += ((payload.get(name), (name,), False) for name in ("result", "args"))
    while waiting:
        value, key_path, is_beside = waiting.pop()
        if isinstance(value, str):
            if (
                value
                and value != LEFT_OUT
                and (is_beside or (key_path[0] == "result" and len(value) >= _REFERENCE_SIZE))
            ):
                try:
                    yield key_path, value.encode()
                except UnicodeEncodeError:
                    continue  # halves of surrogate pairs, which no bytes give back
        elif len(key_path) > _DEPTH_MAX:
            continue
        elif isinstance(value, dict):
            beside = not _PATHS.isdisjoint(value)
            waiting += (
                (part, (*key_path, str(name)), beside and name in _FILE_TEXTS)
                for name, part in value.items()
                if "." not in str(name)  # it would not be found again
            )
        elif isinstance(value, list):
            waiting += ((part, (*key_path, str(i)), False) for i, part in enumerate(value))


def _stored(data: bytes, has: "Has") -> "bytes | None":
    """The id of the stored content that equals a text; agents omit the last line end of some."""
    for content in (data, data + b"\n"):
        id = blob_id(content)
        if has(id):
            return id
    return None


def void(data: bytes) -> bytes:
    """An id for a content that is stored nowhere."""
    return blob_id(data)


def forget_blobs(event: Event) -> None:
    """Keep only the hashes of the contents that its texts were moved to, since these could not be stored."""
    payload = event["payload"]
    if isinstance(payload, dict) and "in_blobs" in payload:
        payload["lost_texts"] = payload.pop("in_blobs")
        event["blobs"] = []
