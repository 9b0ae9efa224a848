"""Contents that are known to be lost: a fold of the log (P2, P7).

A repair notes what no pack holds any more, in `maintenance` events of operation `repair` whose payload lists
ids as `lost`. From then on `verify` reports such an id as known, as long as it is missing; one that came back
counts as present. Pure functions of a view.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from eventlog.base import jsontext
from eventlog.base.names import event_id_of
from eventlog.log.maintenance import MAINTENANCE, maintenance_event

if TYPE_CHECKING:
    from eventlog.base.types import Event
    from eventlog.log.reader import LogView

REPAIR = "repair"
_LISTED_MAX = 50_000  # 67 bytes each; an event has room for 16 MiB


def loss_events(ids: "Iterable[bytes]") -> "Iterator[Event]":
    """The events that note these ids. The same ids give the same event, which counts once (I8)."""
    texts = sorted(id.hex() for id in ids)
    for start in range(0, len(texts), _LISTED_MAX):
        part = texts[start : start + _LISTED_MAX]
        event = maintenance_event(REPAIR, {"lost": part})
        yield {**event, "event_id": event_id_of("locus", MAINTENANCE, REPAIR, *part)}


def known_losses(view: "LogView") -> set[bytes]:
    """The ids that repairs noted."""
    ids: set[bytes] = set()
    for event in view.iterate(event_types=(MAINTENANCE,), columns=("operation", "payload")):
        if event["operation"] != REPAIR:
            continue
        lost = jsontext.object_of(event["payload"]).get("lost")
        for text in lost if isinstance(lost, list) else ():
            try:
                ids.add(bytes.fromhex(text))
            except (TypeError, ValueError):
                continue  # of a newer version
    return ids
