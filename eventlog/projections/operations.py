"""What was restored, undone and redone so far, from the log, and what of it still holds (docs/undo.md).

The one rule for `locus undo`, pages of turns, and the column `undone_by` of SQL (query/derived.py). Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eventlog.base import jsontext

EVENT_TYPE = "restore"
RESTORE, UNDO, REDO = "restore", "undo", "redo"

# What is read of the events of restores.
COLUMNS = (
    "event_id",
    "event_type",
    "operation",
    "cause",
    "success",
    "payload",
    "position",
    "recorded_at",
)
# The same as SQL gives them; `of_rows` reads them.
SELECT = (
    f"SELECT {', '.join(COLUMNS)} FROM events WHERE event_type = '{EVENT_TYPE}' ORDER BY position"
).replace(" recorded_at", " epoch_us(recorded_at)")


@dataclass(frozen=True, slots=True)
class Operation:
    """One restore, undo or redo that took place.

    `id` is its start event, `of` names what it took back, `undo_of` the operation that it took back, `whole`
    says that nothing of it was left out. `in_place`: `target` was the directory of the store's project then;
    older versions did not note it. `recorded_at` is in microseconds since 1970.
    """

    id: str
    kind: str
    position: int
    recorded_at: int | None
    target: str
    plan: str
    of: tuple[str, ...]
    undo_of: str | None
    whole: bool
    in_place: bool = False
    limited: bool = False  # to some paths


@dataclass(frozen=True, slots=True)
class Operations:
    """All of them, in the order in which they began.

    `taken_back` are the ids of those that a later one took back, which holds itself. `undone` has the names
    of all turns that are wholly taken back now, each with the last undo that did it.
    """

    done: tuple[Operation, ...]
    taken_back: frozenset[str]
    undone: Mapping[str, Operation]

    def named(self, id: str) -> Operation | None:
        return next((operation for operation in self.done if operation.id == id), None)

    def is_taken_back(self, operation: Operation) -> bool:
        """Whether a later operation took this one back, and holds itself."""
        return operation.id in self.taken_back

    def undo_of_turn(self, name: str) -> Operation | None:
        """The undo by which all of a turn is taken back now. Args: name: `turn:…`."""
        return self.undone.get(name)

    def undo_in_part(self, name: str) -> Operation | None:
        """The undo that holds and left a part of a turn as it was, by choice or as it could not come back."""
        left = (o for o in reversed(self.done) if o.kind == UNDO and not o.whole and not o.limited)
        return next((o for o in left if name in o.of and not self.is_taken_back(o)), None)

    def next_redo(self) -> Operation | None:
        """The undo that a redo would take back: the last one that holds."""
        holding = (o for o in reversed(self.done) if o.kind == UNDO and not self.is_taken_back(o))
        return next(holding, None)


def operations_in(events: Iterable[Mapping[str, Any]]) -> Operations:
    """Args: events: those of restores with COLUMNS, in position order."""
    done = tuple(sorted(map(_operation, completed(events).values()), key=lambda o: o.position))
    taken_back = _taken_back(done)
    whole = (o for o in done if o.kind == UNDO and o.whole and o.id not in taken_back)
    return Operations(done, taken_back, {name: undo for undo in whole for name in undo.of})


def of_rows(rows: Iterable[Sequence[Any]]) -> Operations:
    """Args: rows: of `SELECT`."""
    events = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    return operations_in({**event, "payload": jsontext.object_of(event["payload"])} for event in events)


def completed(events: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The start event of each restore that took place, by its id, in the order in which they ended.

    Args: events: restore events in position order.
    """
    begun: dict[str, Mapping[str, Any]] = {}
    done: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if event["operation"] == "start":
            begun[str(event["event_id"])] = event
        elif event["operation"] == "end" and event["cause"] in begun:
            start = str(event["cause"])
            done.pop(start, None)
            if event["success"] is True:
                done[start] = begun[start]
    return done


def _taken_back(done: Sequence[Operation]) -> frozenset[str]:
    ids: set[str] = set()
    for operation in reversed(done):
        if operation.undo_of is not None and operation.id not in ids:
            ids.add(operation.undo_of)
    return frozenset(ids)


def _operation(event: Mapping[str, Any]) -> Operation:
    payload = event["payload"] or {}
    kind = payload.get("operation_of")
    of, undo_of = payload.get("of"), payload.get("undo_of")
    return Operation(
        id=str(event["event_id"]),
        kind=kind if kind in (UNDO, REDO) else RESTORE,
        position=int(event["position"]),
        recorded_at=event["recorded_at"],
        target=str(payload.get("target")),
        plan=str(payload.get("plan")),
        of=tuple(map(str, of)) if isinstance(of, list) else (),
        undo_of=None if undo_of is None else str(undo_of),
        whole=not payload.get("paths") and not payload.get("skipped"),
        in_place=payload.get("in_place") is True,
        limited=bool(payload.get("paths")),
    )
