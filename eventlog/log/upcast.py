"""Upcasting: events of older schema versions, given as the present version would have written them.

Pure functions without state; any thread may call them. On the hook path. Stored events stay as they were
written; steps run where an event becomes an object of the caller (docs/design.md §20.4). Upholds I23.
"""

from eventlog.base import jsontext
from eventlog.base.types import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # From an event of one version, every column there and `payload` a dict, to the same one of the next.
    Step = Callable[[Event], Event]

# Version n → the step to version n+1: one for every version below types.SCHEMA_VERSION, none missing.
STEPS: "dict[int, Step]" = {}

# A step may change the content of an event, never what others rely on: its position and numbers, its id, its
# session, and the contents that it names.
_CHANGEABLE_TEXT = (
    "title status tool operation path model prompt_tokens completion_tokens reasoning_tokens "
    "cache_read_tokens cache_write_tokens cache_write_1h_tokens duration_ms success error_type resolved "
    "lines_added lines_removed payload"
)
CHANGEABLE = frozenset(_CHANGEABLE_TEXT.split())


def version_of(event: "Mapping[str, object]") -> int:
    """The schema version an event was written in; 1 where it names none."""
    version = event.get("schema_version")
    return version if isinstance(version, int) and version >= 1 else 1


def is_newer(event: "Mapping[str, object]", steps: "Mapping[int, Step]" = STEPS) -> bool:
    """Whether an event was written by a Locus that knows more than this one: it is given as it came."""
    return version_of(event) > 1 + len(steps)


def upcast(event: Event, steps: "Mapping[int, Step]" = STEPS) -> Event:
    """The event in the present version; the very same object when it is of that or of a newer one.

    The columns are those of the event given, which is not changed, nor is what it holds.
    """
    version, present = version_of(event), 1 + len(steps)
    if version >= present:
        return event
    import copy

    for number in range(version, present):
        stepped = steps[number](copy.deepcopy(event))
        event = {name: stepped.get(name) if name in CHANGEABLE else old for name, old in event.items()}
        event["schema_version"] = number + 1
    return event


def presented(row: Event) -> Event:
    """An event as callers get it: the payload a dict, in the present schema version."""
    payload = row.get("payload")
    if isinstance(payload, str):
        row["payload"] = jsontext.decode(payload)
    return upcast(row)
