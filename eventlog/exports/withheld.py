"""Which contents may leave the store: every export asks here (P5).

Events are redacted before they are written, so the text of an event in the log may leave. A content that
holds a secret, or was not scanned for one, may not: it is kept for replay on this machine only. Such a
content is called withheld, and everything made from it (its bytes, a diff) is withheld with it. The log lists
them (docs/design.md §25). One thread, one view.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from eventlog.log.withheld import withheld_in

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.secrets.redaction import Redactor

WITHHELD = "withheld: it holds a secret, or may hold one, and is kept for replay on this machine only"

NAMED = "withheld: the name of a file in it holds a secret"


class Exposure:
    """Which contents of a view may leave. The first question reads one type of events."""

    def __init__(self, view: "LogView", redactor: "Redactor") -> None:
        self._view = view
        self._redactor = redactor
        self._withheld: frozenset[str] | None = None

    def may_leave(self, content_hash: str) -> bool:
        """Whether the content with that hash, and anything made from it, may be exported."""
        if self._withheld is None:
            self._withheld = withheld_in(self._view)
        return content_hash not in self._withheld

    def may_be_named(self, names: "Iterable[bytes]") -> bool:
        """Whether none of these names of files holds a secret."""
        return not self._redactor.kinds_in(b"\n".join(names))
