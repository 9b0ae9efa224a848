"""Which contents are withheld: a fold of the log (P2, P5).

An event of type `withheld` names a content that holds a secret. Its writer puts it into the frame of the
first event that names the content, so whoever sees that one sees this. Reads one typed column of the
events of one type. Any thread, a view of its own.
"""

from typing import TYPE_CHECKING

from eventlog.redaction import WITHHELD

if TYPE_CHECKING:
    from eventlog.log.reader import LogView


def withheld_in(view: "LogView") -> frozenset[str]:
    """The hashes of the contents that the log says are withheld."""
    return frozenset(
        str(event["title"]) for event in view.iterate(event_types=(WITHHELD,), columns=("title",))
    )
