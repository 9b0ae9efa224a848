"""Which contexts a record may extend: those sent before it (docs/locusgraph.md, "A law of the wire").

A parent that was never sent becomes a related context: a server would wait for it for ever, and so no link of
the log is lost. One thread.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from eventlog.exports.locusgraph import wire
from eventlog.recorder.requests import LINK_NAMES

# Whether a context, by its wire spelling, was sent in an earlier export.
Sent = Callable[[str], bool]


class Parents:
    """The contexts sent so far. `wanted`: of timeline events, those that others extend."""

    def __init__(self, sent: Sent | None) -> None:
        self.wanted: frozenset[str] = frozenset()
        self._sent = sent
        self._sent_now: set[int] = set()

    def add(self, context_id: str) -> None:
        self._sent_now.add(hash(context_id))

    def add_all(self, context_ids: Iterable[str]) -> None:
        for context_id in context_ids:
            self.add(wire.context(context_id))

    def add_event(self, context_id: str) -> None:
        if context_id in self.wanted:
            self.add(context_id)

    def __contains__(self, context_id: str) -> bool:
        return hash(context_id) in self._sent_now or (self._sent is not None and self._sent(context_id))

    def links(self, stated: Mapping[str, Any]) -> dict[str, Sequence[str]]:
        """The four lists; parents that were not sent move from `extends` to `related_to`."""
        lists = {name: stated.get(name) or () for name in LINK_NAMES}
        extends = [link for link in lists["extends"] if self._was_sent(link)]
        if len(extends) < len(lists["extends"]):
            others = [link for link in lists["extends"] if link not in extends]
            lists["related_to"] = [*lists["related_to"], *others]
            lists["extends"] = extends
        return lists

    def _was_sent(self, link: str) -> bool:
        return wire.context(wire.CATEGORIES.get(link, link)) in self
