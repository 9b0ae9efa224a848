"""The journal line: one event as `envelope JSON, tab, payload JSON`.

Pure functions without state: any thread may call them. On the hook path. JSON text holds no raw
control byte, so the first tab separates the two halves and a newline ends the line (design §3).
The payload's bytes are made once, here, and travel verbatim from then on.
"""

from eventlog.base.errors import Corruption, InvalidEvent
from eventlog.base.jsontext import decode, encode
from eventlog.base.types import (
    BOOL,
    COLUMN_KINDS,
    ENVELOPE_NAMES,
    INT,
    LIST,
    SCHEMA_VERSION,
    TEXT,
    TIME,
    Event,
)
from eventlog.secrets import admission

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_REQUIRED = ("event_type", "event_kind", "source")
_NAMES = frozenset(ENVELOPE_NAMES)
_TEXT_ALONE = frozenset((str,))
_HEX = "0123456789abcdef"
_ODD_STARTS = '/"r'  # of texts that may be no path, or a path of another form; an empty text has any start
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_WANTED = {
    INT: "an integer of 64 bits",
    TIME: "microseconds since 1970 as an integer of 64 bits",
    TEXT: "text",
    BOOL: "true or false",
    LIST: "a list of text",
}

_SHAPES_MAX = 1_000  # a writer has some ten

# A frame holds at most 16 MiB and 65,535 lines (docs/design.md §4.2); batches of a quarter of that
# keep the append lock short.
_BATCH_BYTES_MAX = 4 << 20
BATCH_LINES_MAX = 16_384


def encode_line(
    event: Event,
    dumps: "Callable[[object], bytes]" = encode,
    dumps_envelope: "Callable[[object], bytes] | None" = None,
    named: "dict[str, set[str]] | None" = None,
) -> bytes:
    """The line of `event`, without its newline.

    Columns are written in the order given; nulls are left out; a missing payload is `{}`.

    Args: dumps_envelope: an encoder for the envelope, which holds no float; `dumps` by default; named: takes,
    by column, the hashes that the event names, for `admission.keep_ours`. With it the event may hold nothing
    else that an append refuses (`admission.fault`); without it any line of an earlier version passes.
    Raises: InvalidEvent when the event breaks the envelope's rules.
    """
    envelope: "dict[str, Any]" = event.copy()
    payload = envelope.pop("payload", None)
    if payload is None:
        payload = {}
    elif not isinstance(payload, dict):
        raise InvalidEvent(f"payload must be a JSON object, not {type(payload).__name__}")
    if envelope.get("schema_version") is None:
        envelope["schema_version"] = SCHEMA_VERSION
    # Names and types are checked once for all events that have the same: for each event, that would be half
    # of what encoding costs.
    key = (*envelope, *map(type, envelope.values()))
    shape = _shapes.get(key) or _shape_of(key, envelope, event)
    low, high = (_INT_MIN, _INT_MAX) if named is None else (0, admission.NUMBER_MAX)
    for name in shape.numbers:
        if not low <= envelope[name] <= high:
            _check(name, envelope[name], event)
            if named is not None:
                _admit(name, envelope[name])
    for name in shape.lists:
        if not _TEXT_ALONE.issuperset(map(type, envelope[name])):
            _check(name, envelope[name], event)
    if named is not None:
        for name in shape.hashes:
            (named.get(name) or named.setdefault(name, set())).add(envelope[name])
        if envelope.get("blobs"):
            named.setdefault("blobs", set()).update(envelope["blobs"])
        path = envelope.get("path")
        if isinstance(path, str) and (path[:1] in _ODD_STARTS or ".." in path or "\0" in path):
            _admit("path", path)
        forms = admission.PAYLOAD_FORMS.get(envelope.get("event_type", ""))
        if forms is not None and not forms.keys().isdisjoint(payload):
            check_payload(envelope["event_type"], payload)
    for name in shape.nulls:
        del envelope[name]
    _check_identity(envelope)
    try:
        return (dumps_envelope or dumps)(envelope) + b"\t" + dumps(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(f"event {event['event_id']} cannot be written as JSON: {error}") from error


class _Shape:
    """The columns whose values must be checked, of envelopes with the same columns and types."""

    __slots__ = ("hashes", "lists", "nulls", "numbers")

    def __init__(self, columns: "dict[str, type]") -> None:
        self.nulls = [name for name, kind in columns.items() if kind is type(None)]
        present = [name for name in columns if name not in self.nulls]
        self.numbers = [name for name in present if COLUMN_KINDS[name] in (INT, TIME)]
        self.lists = [name for name in present if COLUMN_KINDS[name] == LIST]
        self.hashes = [name for name in present if name in admission.HASHES]


_shapes: "dict[tuple[object, ...], _Shape]" = {}


def _shape_of(key: "tuple[object, ...]", envelope: "dict[str, object]", event: Event) -> _Shape:
    """The shape of an envelope that has not been seen. Raises: InvalidEvent for a wrong name or type."""
    for name, value in envelope.items():
        if value is not None or name not in _NAMES:
            _check(name, value, event)
    if len(_shapes) >= _SHAPES_MAX:
        _shapes.clear()
    shape = _shapes[key] = _Shape({name: type(value) for name, value in envelope.items()})
    return shape


def decode_line(line: bytes, loads: "Callable[[bytes], object]" = decode) -> "tuple[Event, bytes]":
    """The envelope as a dict, and the payload's JSON bytes verbatim.

    Raises: Corruption.
    """
    head, tab, payload = line.partition(b"\t")
    if not tab:
        raise Corruption("journal line", "no tab between envelope and payload")
    try:
        envelope = loads(head)
    except (ValueError, RecursionError) as error:
        raise Corruption("journal line", f"its envelope is not JSON ({error})") from error
    if not isinstance(envelope, dict):
        raise Corruption("journal line", "its envelope is not a JSON object")
    return envelope, payload


def _check(name: str, value: object, event: Event) -> None:
    if name not in _NAMES:
        raise InvalidEvent(_unknown(event))
    kind = COLUMN_KINDS[name]
    if kind == TEXT:
        fits = isinstance(value, str)
    elif kind == BOOL:
        fits = isinstance(value, bool)
    elif kind == LIST:
        fits = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    else:
        fits = isinstance(value, int) and not isinstance(value, bool) and _INT_MIN <= value <= _INT_MAX
    if not fits:
        raise InvalidEvent(f"column {name} must be {_WANTED[kind]}, not {admission.shown(value)}")


def check_payload(event_type: object, payload: object) -> None:
    """Raises: InvalidEvent where an append refuses the payload (`admission.payload_faults`)."""
    for key, value, wanted in admission.payload_faults(event_type, payload):
        raise InvalidEvent(f"payload.{key} must be {wanted}, not {admission.shown(value)}")


def _admit(name: str, value: object) -> None:
    wanted = admission.fault(name, value)
    if wanted is not None:
        raise InvalidEvent(f"column {name} must be {wanted}, not {admission.shown(value)}")


def _check_identity(envelope: "dict[str, object]") -> None:
    event_id = envelope.get("event_id")
    if not isinstance(event_id, str) or len(event_id) != 32 or event_id.strip(_HEX):
        raise InvalidEvent(f"event_id must be 32 lower-case hex digits, not {admission.shown(event_id)}")
    for name in _REQUIRED:
        if not envelope.get(name):
            raise InvalidEvent(f"event {event_id} lacks {name}, which every event has")


def _unknown(event: Event) -> str:
    names = [str(name) for name in event if name != "payload" and name not in ENVELOPE_NAMES]
    if "position" in names:
        return "position is assigned by the log and cannot be given"
    return f"unknown column {', '.join(sorted(names))}: put it into the payload"


def batches(lines: "Iterable[bytes]") -> "list[list[bytes]]":
    """Lines cut into batches by count and bytes; everything is encoded before anything is written."""
    groups: "list[list[bytes]]" = []
    size = 0
    for line in lines:
        if not groups or len(groups[-1]) >= BATCH_LINES_MAX or size + len(line) > _BATCH_BYTES_MAX:
            groups.append([])
            size = 0
        groups[-1].append(line)
        size += len(line) + 1
    return groups
