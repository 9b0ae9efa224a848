"""The differences between trees that a store has made so far, by the ids of both trees."""

from eventlog.replay.leaf_changes import LeafChanges


class TreeChanges:
    """Differences that never change."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes | None, bytes], LeafChanges] = {}

    def get(self, before: bytes | None, after: bytes) -> LeafChanges | None:
        return self._known.get((before, after))

    def put(self, before: bytes | None, after: bytes, changes: LeafChanges) -> None:
        self._known[before, after] = changes
