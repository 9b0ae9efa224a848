"""What a store must say, as a list and two dicts: the model that the engine is held to.

`Model.log` is every event that was appended, by position; what readers must see of it is computed
from the whole list: the first of each id (I8), numbered by the rules read literally (the oracle of
tests/log/test_numbering.py), projected by the plain fold of tests/projections/oracle.py. Contents and
trees are dicts from hash to what was put. `WatchedStore` tells the model what is being appended, so
that it knows after a death what may be there.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from eventlog.base.types import COLUMN_NAMES, Event
from eventlog.blobs.ids import blob_id, to_text
from eventlog.log.numbering import default_context
from eventlog.secrets import admission
from eventlog.store import Store
from tests.log.test_numbering import oracle as numbered
from tests.projections import oracle

BLANK: Event = dict.fromkeys(COLUMN_NAMES)
Files = dict[str, bytes]  # path → content
Range = tuple[int, int]


class Model:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.log: list[Event | None] = []  # None: a power cut took it before it was acknowledged
        self.in_flight: list[Event] = []  # handed to an append that has not returned
        self.durable = 0  # what is before it survives a power cut
        self.unsynced: list[Range] = []  # batches after it, that a killed process left
        self.blobs: dict[str, bytes] = {}
        self.trees: dict[str, Files] = {}
        self._rows: list[Event] = []
        self._rows_of = (-1, -1)

    def acknowledge(self, positions: range) -> None:
        """The append returned: I2, and durable from here on (I1)."""
        assert positions == range(len(self.log), len(self.log) + len(self.in_flight)), positions
        self.log += self.in_flight
        self.in_flight = []
        self.all_durable()

    def all_durable(self) -> None:
        """Somebody has synced the journals."""
        self.durable = len(self.log)
        self.unsynced = []

    def refused(self) -> None:
        self.in_flight = []

    def after_death(self, next_position: int, lost: Iterable[Range], *, powered: bool) -> None:
        """Take note of what is there after the process died; all that it may have left is allowed.

        I1: nothing acknowledged is lost. I3, I7: of what was not, each batch is there whole or not at all.
        """
        size = len(self.log)
        if self.in_flight:
            self.log += self.in_flight
            self.unsynced.append((size, len(self.log)))
            self.in_flight = []
        gone = {p for base, end in lost for p in range(base, end)}
        gone |= set(range(next_position, len(self.log)))
        assert next_position <= len(self.log), "the log grew by itself"
        held = size if powered else self.durable
        known = {p for p, event in enumerate(self.log) if event is None}
        assert not {p for p in gone - known if p < held}, f"I1, I5: positions {gone} are gone"
        for base, end in self.unsynced:
            assert len(gone & set(range(base, end))) in (0, end - base), f"I3: {base}…{end} is torn: {gone}"
        self.log = [None if p in gone else event for p, event in enumerate(self.log)][:next_position]
        self.unsynced = [(base, end) for base, end in self.unsynced if base not in gone]

    @property
    def has_lost(self) -> bool:
        """Whether there is a hole, which `verify` then names."""
        return any(event is None for event in self.log)

    def rows(self, until: int | None = None) -> list[Event]:
        """The visible events of [0, until), as `Store.events` gives them."""
        state = (len(self.log), self.log.count(None))
        if self._rows_of != state:
            self._rows, self._rows_of = list(_visible(self.log)), state
        end = len(self.log) if until is None else until
        return [row for row in self._rows if _position(row) < end]

    def projections(self) -> dict[str, dict[Any, dict[str, Any]]]:
        return oracle.project([{**row, "payload": json.dumps(row["payload"])} for row in self.rows()])

    def timeline(self, session_id: str, turn: int) -> list[Event]:
        return [r for r in self.rows() if (r["session_id"], r["turn"]) == (session_id, turn)]

    def files(self, session_id: str, turn: int, *, start: bool = False) -> Files | None:
        """What the directory held at the end, or at the first snapshot; None when no snapshot says it."""
        files: Files | None = None
        for row in self.timeline(session_id, turn):
            if row["event_type"] == "snapshot" and start:
                return self.trees.get(str(row["tree_hash"]))
            if row["event_type"] == "snapshot" and row["tree_hash"] is not None:
                files = dict(self.trees[str(row["tree_hash"])])
            elif row["event_type"] == "file" and files is not None:
                if row["after_hash"] is None:
                    files.pop(str(row["path"]), None)
                elif str(row["after_hash"]) not in self.blobs:
                    return None  # it was collected
                else:
                    files[str(row["path"])] = self.blobs[str(row["after_hash"])]
        return files

    def limits(self) -> dict[str, int]:
        """Session → position before which what its events name need not be kept."""
        last = {
            (row["payload"]["session_id"], row["payload"]["turn"]): row  # type: ignore[index]
            for row in self.rows()
            if row["event_type"] == "retention"
        }
        pinned = {session for (session, _), row in last.items() if row["operation"] == "pin"}
        return {
            session: _position(row)
            for (session, turn), row in last.items()
            if turn is None and row["operation"] == "release" and session not in pinned
        }

    def kept(self) -> set[str]:
        """The contents that must be there: all that retained events name, also below their trees."""
        limits = self.limits()
        found: set[str] = set()
        for row in self.rows():
            if _position(row) >= limits.get(str(row["session_id"]), 0):
                named = {str(row["before_hash"]), str(row["after_hash"]), *(row["blobs"] or ())}  # type: ignore[misc]
                trees = (self.trees[name] for name in {*named, row["tree_hash"]} if name in self.trees)
                found |= named | {to_text(blob_id(data)) for tree in trees for data in tree.values()}
        return found

    def replace(self, event_id: object, changes: Event) -> None:
        """An erasure has changed an event."""
        self.log = [{**e, **changes} if e is not None and e["event_id"] == event_id else e for e in self.log]
        self._rows_of = (-1, -1)


def _visible(log: Sequence[Event | None]) -> Iterable[Event]:
    seen = set()
    rows = []
    for position, event in enumerate(log):
        if event is not None and event["event_id"] not in seen:
            seen.add(event["event_id"])
            rows.append({**BLANK, **event, "position": position})
    return _settled(list(numbered(rows)))


def _settled(rows: list[Event]) -> list[Event]:
    """The rows with the name that a session got later in place of its provisional one."""
    names: dict[str, str] = {}
    for row in rows:
        if row["event_type"] == "session" and row["session_id"] and row["context_id"]:
            provisional = default_context(str(row["session_id"]))
            if row["context_id"] != provisional:
                names.setdefault(provisional, str(row["context_id"]))
    for row in rows:
        row["context_id"] = names.get(str(row["context_id"]), row["context_id"])
        if isinstance(row["extends"], list):
            row["extends"] = [names.get(link, link) for link in row["extends"]]
    return rows


def _position(row: Event) -> int:
    position = row["position"]
    assert isinstance(position, int)
    return position


class WatchedStore(Store):
    """A store whose appends the model hears of, before and after."""

    model: Model

    def append_rows(self, events: Iterable[Event], *, expect_position: int | None = None) -> range:
        self.model.in_flight = [admission.admit(self.fs, event) for event in events]
        try:
            positions = super().append_rows(self.model.in_flight, expect_position=expect_position)
        except Exception:
            self.model.refused()
            raise
        self.model.acknowledge(positions)
        return positions
