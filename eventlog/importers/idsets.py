"""Sets of event ids in little memory: eight bytes of each, sorted. A Python set takes eight times that."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable


def short(event_id: str) -> int:
    """The first eight bytes of an id, which stand for it."""
    return int(event_id[:16], 16)


class SortedIds:
    """Short ids that do not change. Args: ids: sorted."""

    __slots__ = ("_ids",)

    def __init__(self, ids: "Iterable[int]") -> None:
        self._ids = array("Q", ids)

    def __contains__(self, id: int) -> bool:
        index = bisect_left(self._ids, id)
        return index < len(self._ids) and self._ids[index] == id
