"""The gate: the one function through which every event passes before it is written.

It completes what the writer left open (id, kind, source, time) and is the place where secrets are
redacted before the first byte reaches the disk (P5): a redaction rule is a function from payload to
payload, given to the store when it is opened. Nothing else writes to the journal. On the hook path.
"""

from eventlog.errors import InvalidEvent
from eventlog.fs import FileSystem
from eventlog.types import KIND_OF_TYPE, SCHEMA_VERSION, SOURCE_OF_TYPE, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Redaction = Callable[[Event], Event]


def admit(fs: FileSystem, event: Event, redactions: "tuple[Redaction, ...]" = ()) -> Event:
    """The event as it will be written; the given one is not changed.

    `recorded_at` is now, unless given; an event without an id gets a random one, which makes it
    unique but not recognisable when it is sent again.
    Raises: InvalidEvent when there is no event type.
    """
    event_type = event.get("event_type")
    if not isinstance(event_type, str) or not event_type:
        raise InvalidEvent("an event needs an `event_type`, such as 'action' or 'decision'")
    admitted = {
        "event_kind": KIND_OF_TYPE.get(event_type, "observation"),
        "source": SOURCE_OF_TYPE.get(event_type, "system"),
        "schema_version": SCHEMA_VERSION,
        **event,
    }
    if admitted.get("event_id") is None:
        admitted["event_id"] = fs.random_bytes(16).hex()
    if admitted.get("recorded_at") is None:
        admitted["recorded_at"] = fs.time_ns() // 1000
    for redaction in redactions:
        admitted = redaction(admitted)
    return admitted
