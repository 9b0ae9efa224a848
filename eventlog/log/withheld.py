"""Which contents are withheld: a fold of the log (P2, P5).

An event of type `withheld` names a content that holds a secret, or was not searched for secrets. Its writer
puts it into the frame of the first event that names the content, so whoever sees that event sees this one.
Reads one typed column of the events of one type, and the payload where the reason is asked for. Any thread, a
view of its own.
"""

from typing import TYPE_CHECKING

from eventlog.base.jsontext import object_of
from eventlog.secrets.redaction import IGNORED, NOT_LOOKED_THROUGH, UNREADABLE, WITHHELD

if TYPE_CHECKING:
    from collections.abc import Collection

    from eventlog.log.reader import LogView


def withheld_in(view: "LogView") -> frozenset[str]:
    """The hashes of the contents that are withheld by the log."""
    return frozenset(
        str(event["title"]) for event in view.iterate(event_types=(WITHHELD,), columns=("title",))
    )


def reason_in(view: "LogView", hashes: "Collection[object]") -> str:
    """Why the withheld contents among these are, as a predicate of one of them."""
    kinds_named: set[str] = set()
    for event in view.iterate(event_types=(WITHHELD,), columns=("title", "payload")):
        if event["title"] in hashes:
            kinds = object_of(event["payload"]).get("kinds")
            kinds_named.update(map(str, kinds) if isinstance(kinds, list) else ())
    if kinds_named == {IGNORED}:
        return "stands in a file that git ignores"
    if not kinds_named or kinds_named - {NOT_LOOKED_THROUGH, UNREADABLE}:
        return "holds a secret"
    return f"was not looked through for secrets{' in time' if kinds_named == {NOT_LOOKED_THROUGH} else ''}"
