"""Which contents are withheld: a fold of the log (P2, P5).

An event of type `withheld` names a content that holds a secret, or was not searched for secrets. Its writer
puts it into the frame of the first event that names the content, so a reader of that event sees this one.
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
            kinds_named |= kinds_of(event["payload"])
    return reason_of(kinds_named)


def kinds_of(payload: object) -> set[str]:
    """The kinds of secrets that an event names in a content, or why it is withheld without."""
    kinds = object_of(payload).get("kinds")
    return set(map(str, kinds)) if isinstance(kinds, list) else set()


def reason_of(kinds_named: set[str]) -> str:
    """Why a content of these kinds is withheld, as a predicate of it."""
    if kinds_named == {IGNORED}:
        return "is in a file that git ignores"
    if not kinds_named or kinds_named - {NOT_LOOKED_THROUGH, UNREADABLE}:
        return "holds a secret"
    return f"was not looked through for secrets{' in time' if kinds_named == {NOT_LOOKED_THROUGH} else ''}"
