"""What was restored, undone and redone so far, from the log, and what of it still holds (docs/undo.md)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eventlog.restore.plan import EVENT_TYPE, completed

RESTORE, UNDO, REDO = "restore", "undo", "redo"

# What is read of the events of restores, and of those that empty the stack of redos.
COLUMNS = (
    "event_id",
    "event_type",
    "operation",
    "cause",
    "success",
    "payload",
    "position",
    "recorded_at",
    "agent",
)
EVENT_TYPES = (EVENT_TYPE, "turn")

# A turn of these is no work of an agent.
NO_AGENTS = frozenset((None, "git", "locus", "user"))


@dataclass(frozen=True, slots=True)
class Operation:
    """One restore, undo or redo that took place.

    `id` is its start event, `of` names what it took back, `undo_of` the operation that it took back, `whole`
    says that nothing of it was left out. `recorded_at` is in microseconds since 1970.
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


@dataclass(frozen=True, slots=True)
class Operations:
    """All of them, in the order in which they began; `last_turn` is where an agent's newest turn began."""

    done: tuple[Operation, ...]
    last_turn: int

    def named(self, id: str) -> Operation | None:
        return next((operation for operation in self.done if operation.id == id), None)

    def is_taken_back(self, operation: Operation) -> bool:
        """Whether a later operation took this one back, and holds itself."""
        later = (other for other in self.done if other.undo_of == operation.id)
        return any(not self.is_taken_back(other) for other in later)

    def undo_of_turn(self, name: str) -> Operation | None:
        """The undo by which all of a turn is taken back now. Args: name: `turn:…`."""
        for operation in reversed(self.done):
            of_it = operation.kind == UNDO and name in operation.of and operation.whole
            if of_it and not self.is_taken_back(operation):
                return operation
        return None

    def next_redo(self) -> Operation | None:
        """The undo that a redo would take back: the last one that holds, unless a turn began after it."""
        for operation in reversed(self.done):
            if operation.position < self.last_turn:
                return None
            if operation.kind == UNDO and not self.is_taken_back(operation):
                return operation
        return None


def operations_in(events: Iterable[Mapping[str, Any]]) -> Operations:
    """Args: events: those of EVENT_TYPES with COLUMNS, in position order."""
    restores: list[Mapping[str, Any]] = []
    last_turn = -1
    for event in events:
        if event["event_type"] == EVENT_TYPE:
            restores.append(event)
        elif event["operation"] == "start" and event["agent"] not in NO_AGENTS:
            last_turn = int(event["position"])
    done = map(_operation, completed(restores).values())
    return Operations(tuple(sorted(done, key=lambda operation: operation.position)), last_turn)


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
    )
