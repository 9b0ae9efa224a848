"""Which contents are withheld: a fold of the log (P2, P5).

An event of type `withheld` names a content that holds a secret, or was not looked through for one. Its
writer puts it into the frame of the first event that names the content, so whoever sees that one sees this.
Reads one typed column of the events of one type, and the payload where somebody asks why. Any thread, a view
of its own.
"""

from typing import TYPE_CHECKING

from eventlog.base.jsontext import object_of
from eventlog.secrets.redaction import IGNORED, NOT_LOOKED_THROUGH, UNREADABLE, WITHHELD

if TYPE_CHECKING:
    from collections.abc import Collection

    from eventlog.log.reader import LogView


def withheld_in(view: "LogView") -> frozenset[str]:
    """The hashes of the contents that the log says are withheld."""
    return frozenset(
        str(event["title"]) for event in view.iterate(event_types=(WITHHELD,), columns=("title",))
    )


def reason_in(view: "LogView", hashes: "Collection[object]") -> str:
    """Why the withheld contents among these are, as a predicate of one of them."""
    said: set[str] = set()
    for event in view.iterate(event_types=(WITHHELD,), columns=("title", "payload")):
        if event["title"] in hashes:
            kinds = object_of(event["payload"]).get("kinds")
            said.update(map(str, kinds) if isinstance(kinds, list) else ())
    if said == {IGNORED}:
        return "stands in a file that git ignores"
    if not said or said - {NOT_LOOKED_THROUGH, UNREADABLE}:
        return "holds a secret"
    return f"was not looked through for secrets{' in time' if said == {NOT_LOOKED_THROUGH} else ''}"
