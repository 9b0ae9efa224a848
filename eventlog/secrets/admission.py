"""Admission: the checks that every event passes before it is written.

It adds what the writer left out (id, kind, source, time) and takes secrets out before the first byte reaches
the disk (P5). It knows which values no event may have, since they would be wrong for ever: an append refuses
them (docs/appending.md); an adapter, which must lose nothing that an agent did, puts them into the payload.
Nothing else writes to the journal. On the hook path.
"""

from eventlog.base.errors import InvalidEvent
from eventlog.base.fs import FileSystem
from eventlog.base.types import (
    COLUMN_KINDS,
    INT,
    KIND_OF_TYPE,
    SCHEMA_VERSION,
    SOURCE_OF_TYPE,
    TIME,
    TIME_MAX,
    TIME_MIN,
    Event,
)
from eventlog.secrets.redaction import Redactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

NUMBER_MAX = 2**53 - 1  # the largest that every reader of JSON holds exactly

OURS, ANY, IDS, PATH, NUMBER, SHARE = "ours", "any", "ids", "path", "number", "share"

# Columns whose values have a form, and keys of payloads with the same forms.
FORMS = {"before_hash": ANY, "after_hash": ANY, "tree_hash": OURS, "blobs": IDS, "path": PATH}
HASHES = frozenset(("before_hash", "after_hash", "tree_hash"))
PAYLOAD_FORMS = {
    "file": {"old_path": PATH, "after_size": NUMBER, "deferred": OURS},
    "decision": {"confidence": SHARE},
}

_WANTED = {
    OURS: "blake3: and 64 lower-case hex digits, which storing the content returns",
    ANY: "blake3: and 64 lower-case hex digits, or another hash after its name (sha256:…)",
    IDS: "a list of blake3: and 64 lower-case hex digits each",
    PATH: "a path from the root of the repository, without `..` and NUL; put another into the payload",
    NUMBER: f"a number from 0 to {NUMBER_MAX:,}; leave it out where it is not known",
    SHARE: "a number from 0 to 1; leave it out where it is not known",
    TIME: "microseconds since 1970 UTC, within the years 1 to 9999",
}
_HEX = b"0123456789abcdef"
_HASH_SIZE = 71

# The columns of an event that does not state them.
_OF_OTHERS: Event = {"event_kind": "observation", "source": "system", "schema_version": SCHEMA_VERSION}
_OF_TYPE: "dict[str, Event]" = {
    name: {**_OF_OTHERS, "event_kind": kind, "source": SOURCE_OF_TYPE[name]}
    for name, kind in KIND_OF_TYPE.items()
}

# For writers without a store: the rules without settings, and fingerprints of this process.
_BY_DEFAULT = Redactor()


def admit(fs: FileSystem, event: Event, redactor: Redactor = _BY_DEFAULT) -> Event:
    """The event as it will be written; the given one is not changed.

    `recorded_at` is now, unless given; an event without an id gets a random one, which makes it
    unique but not recognisable when it is sent again.
    Args: redactor: that of the store (`redaction.of_store`).
    Values that no column may hold are in its payload (`fitted`).
    Raises: InvalidEvent when there is no event type.
    """
    return redactor.redact(with_defaults(fs, fitted(event)))


def admit_all(
    fs: FileSystem, events: "Iterable[Event]", redactor: Redactor = _BY_DEFAULT
) -> "Sequence[Event]":
    """The same for many events."""
    return redactor.redact_all([with_defaults(fs, event) for event in events])


def lines(
    fs: FileSystem,
    events: "Iterable[Event]",
    encode: "Callable[[Event], bytes]",
    redactor: Redactor = _BY_DEFAULT,
) -> "list[bytes]":
    """The journal lines that `encode` makes of the admitted events, faster than for each event alone.

    Raises: as `admit` and `encode`.
    """
    return redactor.lines([with_defaults(fs, event) for event in events], encode)


def with_defaults(fs: FileSystem, event: Event) -> Event:
    """The event with defaults for what its writer left out, for a caller that searches many for secrets at
    once.

    The result may be written when `Redactor.suspects` excludes it, or after it was redacted.
    """
    event_type = event.get("event_type")
    if not isinstance(event_type, str) or not event_type:
        raise InvalidEvent("an event needs an `event_type`, such as 'action' or 'decision'")
    whole = {**(_OF_TYPE.get(event_type) or _OF_OTHERS), **event}
    if whole.get("event_id") is None:
        whole["event_id"] = fs.random_bytes(16).hex()
    if whole.get("recorded_at") is None:
        whole["recorded_at"] = fs.time_ns() // 1000
    return whole


def fault(name: str, value: object) -> "str | None":
    """The form that a column needs instead of this value of its type; None where the value is valid.

    `log/line.py` checks the types.
    """
    form = FORMS.get(name)
    if form is None and isinstance(value, int) and not isinstance(value, bool):
        kind = COLUMN_KINDS.get(name)
        if kind == TIME:
            return None if TIME_MIN <= value <= TIME_MAX else _WANTED[TIME]
        form = NUMBER if kind == INT else None
    return None if form is None or value is None or _fits(form, value) else _WANTED[form]


def payload_faults(event_type: object, payload: object) -> "list[tuple[str, object, str]]":
    """(key, value, the form it needs) for keys that readers take for a path, a size or a hash."""
    forms = PAYLOAD_FORMS.get(event_type) if isinstance(event_type, str) else None
    faults: "list[tuple[str, object, str]]" = []
    if forms is not None and isinstance(payload, dict):
        for key, form in forms.items():
            if (value := payload.get(key)) is not None and not _fits(form, value):
                faults.append((key, value, _WANTED[form]))
    return faults


def fitted(event: Event) -> Event:
    """The event of an adapter, as an append accepts it: refused values are in its payload, under `refused`,
    by the name of their column or key. The given event is not changed."""
    refused = {name: value for name, value in event.items() if fault(name, value) is not None}
    payload = event.get("payload")
    keys = {key: value for key, value, _ in payload_faults(event.get("event_type"), payload)}
    if not refused and not keys:
        return event
    own = payload if isinstance(payload, dict) else {}
    columns = {name: value for name, value in event.items() if name not in refused}
    accepted = {key: value for key, value in own.items() if key not in keys}
    return {**columns, "payload": {**accepted, "refused": {**keys, **refused}}}


def _fits(form: str, value: object) -> bool:
    if form == NUMBER:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NUMBER_MAX
    if form == SHARE:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
    if form == IDS:
        return not isinstance(value, (list, tuple)) or not value or _are_hashes(value)
    if not isinstance(value, str):
        return False
    if form == PATH:
        return _is_inside(value)
    return _is_hash(value) or (form == ANY and _is_foreign(value))


def keep_ours(named: "dict[str, set[str]]") -> None:
    """Remove hashes that are not ours from those that events name by column; many at once, for speed.

    Raises: InvalidEvent, which names a value that no column may hold.
    """
    if _are_hashes(set().union(*named.values())):  # most are named by two columns
        return
    for name in tuple(named):
        if not _are_hashes(named[name]):
            for text in named[name]:
                value = [text] if FORMS[name] == IDS else text
                if (wanted := fault(name, value)) is not None:
                    raise InvalidEvent(f"column {name} must be {wanted}, not {shown(value)}")
            named[name] = {text for text in named[name] if _is_hash(text)}
            if not named[name]:
                del named[name]


def shown(value: object) -> str:
    """A value as an error shows it, its beginning if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _is_hash(text: object) -> bool:
    return isinstance(text, str) and text[:7] == "blake3:" and is_hex(text[7:], 32)


def is_hex(text: str, size_bytes: int) -> bool:
    """Whether a text is so many bytes in lower-case hex digits, without white space."""
    try:
        return len(text) == 2 * size_bytes == 2 * len(bytes.fromhex(text)) and text == text.lower()
    except ValueError:
        return False


def _are_hashes(texts: "Collection[object]") -> bool:
    """The same for each text, at once where there are several."""
    if len(texts) == 1:
        return all(map(_is_hash, texts))
    if not set(map(type, texts)) <= {str} or not set(map(len, texts)) <= {_HASH_SIZE}:  # type: ignore[arg-type]
        return False
    data = "\n".join(("", *texts)).encode("ascii", "replace")  # type: ignore[arg-type]
    count = len(texts)
    return data.count(b"\nblake3:") == count and data.translate(None, _HEX) == b"\nlk:" * count


def _is_foreign(text: str) -> bool:
    name, mark, digest = text.partition(":")
    return bool(mark and digest) and name.lower() != "blake3" and name.isalnum() and digest.isalnum()


def _is_inside(text: str) -> bool:
    """Whether a path as text (docs/trees.md, section 5) stays below the root."""
    if text[:1] == '"' or text[:5] == "root:":
        from eventlog.base import paths  # a rare form: most hooks need only the line below

        try:
            text = text[22:] if paths.is_outside(text) else paths.path_bytes(text).decode("latin-1")
        except (ValueError, UnicodeError):
            return False
    return text != "" and text[:1] != "/" and "\0" not in text and ".." not in text.split("/")
