"""The gate: the one function through which every event passes before it is written.

It completes what the writer left open (id, kind, source, time) and takes secrets out before the first byte
reaches the disk (P5). Nothing else writes to the journal. On the hook path.
"""

from eventlog.errors import InvalidEvent
from eventlog.fs import FileSystem
from eventlog.redaction import Redactor
from eventlog.types import KIND_OF_TYPE, SCHEMA_VERSION, SOURCE_OF_TYPE, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# For writers that know no store: the rules without anybody's settings, fingerprints of this process.
_BY_DEFAULT = Redactor()


def admit(fs: FileSystem, event: Event, redactor: Redactor = _BY_DEFAULT) -> Event:
    """The event as it will be written; the given one is not changed.

    `recorded_at` is now, unless given; an event without an id gets a random one, which makes it
    unique but not recognisable when it is sent again.
    Args: redactor: that of the store (`redaction.of_store`).
    Raises: InvalidEvent when there is no event type.
    """
    return redactor.redact(completed(fs, event))


def admit_all(
    fs: FileSystem, events: "Iterable[Event]", redactor: Redactor = _BY_DEFAULT
) -> "Sequence[Event]":
    """The same for many."""
    return redactor.redact_all([completed(fs, event) for event in events])


def lines(
    fs: FileSystem,
    events: "Iterable[Event]",
    encode: "Callable[[Event], bytes]",
    redactor: Redactor = _BY_DEFAULT,
) -> "list[bytes]":
    """The journal lines that `encode` makes of the admitted events, which is faster than one by one.

    Raises: as `admit` and `encode`.
    """
    return redactor.lines([completed(fs, event) for event in events], encode)


def completed(fs: FileSystem, event: Event) -> Event:
    """The event with what its writer left open, for one who looks for secrets in many at once.

    What it gives may be written when `Redactor.suspects` is sure that it holds none, or redacted.
    """
    event_type = event.get("event_type")
    if not isinstance(event_type, str) or not event_type:
        raise InvalidEvent("an event needs an `event_type`, such as 'action' or 'decision'")
    whole = {
        "event_kind": KIND_OF_TYPE.get(event_type, "observation"),
        "source": SOURCE_OF_TYPE.get(event_type, "system"),
        "schema_version": SCHEMA_VERSION,
        **event,
    }
    if whole.get("event_id") is None:
        whole["event_id"] = fs.random_bytes(16).hex()
    if whole.get("recorded_at") is None:
        whole["recorded_at"] = fs.time_ns() // 1000
    return whole
