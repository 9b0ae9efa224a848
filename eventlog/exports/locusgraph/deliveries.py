"""What was delivered to one endpoint: receipts in the log, and their fold.

A receipt is a `cursor` event of the endpoint's consumer (recorder/ledger.py), operation `deliver`. It records
the answers to one or more calls, and moves the consumer's position when everything before the new one is
dealt with. The fold of all receipts is what is known of the endpoint (P2): counts, the state in which each
context was last taken and the service's id of it, what was refused and why. Names of contexts are digests and
reasons have no words of records, because an erasure leaves the ledger as it is. One thread; the lock of an
exporter allows one `DeliveryLog` for its consumer.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from eventlog.base import jsontext
from eventlog.exports.locusgraph.endpoint import Endpoint
from eventlog.exports.locusgraph.rest import SendOutcome, SentRecord, key_of
from eventlog.recorder.ledger import CURSOR
from eventlog.store import Store

OPERATION = "deliver"
_OWN_AGENT = "locus"
_ENTRIES_MAX = 2_000  # of contexts and failures in one receipt: some 150 KB
_TABLES = 256
_HOLDS = "holds something else"  # in the reason of a conflict, which needs a person
_TRIES_AT_ONCE = 3
_PAUSE_S = 30
_PAUSE_MAX_S = 3_600

_COLUMNS = ("recorded_at", "payload", "title", "agent", "operation")
_ENDPOINTS = (
    "SELECT payload->>'server' AS server, payload->>'graph_id' AS graph, max_by(payload->>'api', position) "
    f"FROM events WHERE event_type = '{CURSOR}' AND agent = '{_OWN_AGENT}' AND operation = '{OPERATION}' "
    "AND starts_with(title, 'export:locusgraph:') GROUP BY ALL ORDER BY ALL"
)


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that the service refused: a timeline event at `position`, or the context of `group`.

    `tries`: how often exports tried it where the refusal is transient, 0 where it needs a person. `at`: when
    it was tried last, in seconds since 1970. `context_id` is known to the run that met it; the ledger does
    not have it.
    """

    key: str
    group: str
    position: int | None
    reason: str
    tries: int = 0
    at: int = 0
    context_id: str | None = None

    @property
    def passing(self) -> bool:
        return self.tries > 0

    @property
    def next_at(self) -> int:
        """When an export may retry it: the first two retries at once, later ones with back-off."""
        if self.tries <= _TRIES_AT_ONCE:
            return self.at
        return self.at + min(_PAUSE_MAX_S, _PAUSE_S << min(self.tries - _TRIES_AT_ONCE - 1, 16))


class States:
    """Context → the state in which it was last taken, and whether the service gave it an id.

    Some 30 bytes each for perhaps millions of contexts: open hash tables of pairs of numbers. Keys are
    digests, so they need no other hash. There are many small tables, so that growing one needs little extra
    memory.
    """

    __slots__ = ("_counts", "_tables")

    def __init__(self) -> None:
        self._tables = [array("Q", bytes(16 * 8)) for _ in range(_TABLES)]
        self._counts = [0] * _TABLES

    def __len__(self) -> int:
        return sum(self._counts)

    def put(self, key: str, state: str, has_id: bool) -> None:
        number = _number(key)
        table_index = number % _TABLES
        table = self._tables[table_index]
        slot = _slot(table, number)
        self._counts[table_index] += not table[slot]
        table[slot : slot + 2] = array("Q", (number, _value(state, has_id)))
        if self._counts[table_index] * 8 > len(table) * 3:
            self._tables[table_index] = _twice(table)

    def holds(self, key: str, state: str) -> bool:
        """Whether the context was last taken in this state."""
        number = _number(key)
        table = self._tables[number % _TABLES]
        slot = _slot(table, number)
        return table[slot] != 0 and table[slot + 1] | 1 == _value(state, True)

    def __contains__(self, key: str) -> bool:
        number = _number(key)
        table = self._tables[number % _TABLES]
        return table[_slot(table, number)] != 0

    def has_id(self, key: str) -> bool:
        number = _number(key)
        table = self._tables[number % _TABLES]
        return bool(table[_slot(table, number) + 1] & 1)


def _number(key: str) -> int:
    return int(key, 16) or 1  # 0 marks an empty slot


def _value(state: str, has_id: bool) -> int:
    """The state, with the other fact in place of its lowest bit."""
    return int(state, 16) & ~1 | has_id


def _slot(table: "array[int]", number: int) -> int:
    """The slot of that key, or the empty one for it."""
    slot = number // _TABLES * 2 % len(table)
    while table[slot] not in (0, number):
        slot = (slot + 2) % len(table)
    return slot


def _twice(table: "array[int]") -> "array[int]":
    grown = array("Q", bytes(2 * len(table) * table.itemsize))
    for old_slot in range(0, len(table), 2):
        if table[old_slot]:
            slot = _slot(grown, table[old_slot])
            grown[slot : slot + 2] = table[old_slot : old_slot + 2]
    return grown


@dataclass(slots=True)
class Delivered:
    """The fold of an endpoint's receipts."""

    position: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    states: States = field(default_factory=States)
    failures: dict[str, RefusedRecord] = field(default_factory=dict)
    last_at: int | None = None  # of the last receipt, in microseconds
    last_error: str | None = None

    def has(self, context_id: str) -> bool:
        """Whether the endpoint has a context, or will have it once refused ones arrive."""
        key = key_of(context_id)
        return key in self.states or key in self.failures

    def take(self, receipt: dict[str, Any], recorded_us: int | None) -> None:
        self.position = max(self.position, receipt.get("position") or 0)
        self.counts.update(receipt.get("counts") or {})
        passing = receipt.get("passing")
        for key, group, position, reason in receipt.get("refused") or ():
            # Earlier versions did not record which refusals are transient: such a record is retried once.
            tried = (0 if _HOLDS in reason else 1, 0) if passing is None else passing.get(key, (0, 0))
            self.failures[key] = RefusedRecord(key, group, position, reason, *tried)
        for key, (state, locus_id) in (receipt.get("contexts") or {}).items():
            self.states.put(key, state, bool(locus_id))
            self.failures.pop(key, None)
        for key in receipt.get("resolved") or ():
            self.failures.pop(key, None)
        self.last_at = recorded_us
        self.last_error = receipt.get("error")


def endpoints(store: Store) -> list[Endpoint]:
    """Every endpoint that was ever used, by server and graph; the interface is the last one used."""
    rows = store.query(_ENDPOINTS).rows
    return [Endpoint(*map(str, row)) for row in rows]


def read(store: Store, endpoint: Endpoint) -> Delivered:
    """The fold of the endpoint's receipts in the log, read without starting DuckDB."""
    delivered = Delivered()
    ours = [endpoint.consumer, _OWN_AGENT, OPERATION]
    with store.view() as view:
        for event in view.iterate(event_types=(CURSOR,), columns=_COLUMNS):
            if [event[name] for name in ("title", "agent", "operation")] != ours:
                continue
            receipt = jsontext.decode(str(event["payload"]))
            if isinstance(receipt, dict):
                at = event["recorded_at"]
                delivered.take(receipt, at if isinstance(at, int) else None)
    return delivered


class DeliveryLog:
    """The writer of an endpoint's receipts; `delivered` is the fold with everything noted so far."""

    def __init__(self, store: Store, endpoint: Endpoint) -> None:
        self._store = store
        self._endpoint = endpoint
        self.delivered = read(store, endpoint)
        self._clear()

    def _clear(self) -> None:
        self._counts: Counter[str] = Counter()
        self._contexts: dict[str, tuple[str, str]] = {}
        self._refused: list[tuple[str, str, int | None, str, int, int]] = []
        self._resolved: list[str] = []
        self._position: int | None = None
        self._error: str | None = None

    @property
    def full(self) -> bool:
        return len(self._contexts) + len(self._refused) + len(self._resolved) >= _ENTRIES_MAX

    def note(self, item: SentRecord, outcome: SendOutcome, noted_s: int) -> "RefusedRecord | None":
        """Note the outcome of one item at `noted_s` seconds since 1970; the refusal where it failed."""
        self._counts[outcome.status] += 1
        if item.is_counted_by_position and outcome.status != "failed" and not self.delivered.failures:
            return None  # as nearly always: the position shows that an event arrived
        key = item.key
        if outcome.status == "failed":
            earlier = self.delivered.failures.get(key)
            tries = 1 + (earlier.tries if earlier is not None else 0) if outcome.passing else 0
            entry = (key, item.group, item.position, outcome.reason, tries, noted_s)
            if outcome.waits_for is None or earlier is None:
                self._refused.append(entry)
            return RefusedRecord(*entry, item.context_id)
        if not item.is_counted_by_position:
            self._contexts[key] = (item.state, outcome.locus_id or "")
        elif key in self.delivered.failures:
            self._resolved.append(key)
        if key in self.delivered.failures:
            self._counts["resolved"] += 1
        return None

    def forget(self, failure: RefusedRecord) -> None:
        """Drop a refused record that is no longer in the log."""
        self._resolved.append(failure.key)

    def reached(self, position: int) -> None:
        """Note that everything before `position` is dealt with."""
        self._position = max(position, self._position or 0)

    def stopped_by(self, error: str) -> None:
        """Note why an export ended early; recorded once, even if it repeats."""
        if error != self.delivered.last_error or self._has_news():
            self._error = error

    def drop(self) -> None:
        """Forget what was noted and not written: it is not about the records."""
        self._clear()

    def flush(self) -> None:
        """Write what was noted as one receipt, durably; nothing where nothing was noted."""
        if not self._has_news() and self._error is None:
            return
        receipt = dict(self._fields())
        self._store.append(
            [
                {
                    "event_type": CURSOR,
                    "event_kind": "fact",
                    "source": "system",
                    "agent": _OWN_AGENT,
                    "title": self._endpoint.consumer,
                    "operation": OPERATION,
                    "payload": receipt,
                }
            ]
        )
        self.delivered.take(receipt, None)
        self._clear()

    def _has_news(self) -> bool:
        moved = self._position is not None and self._position > self.delivered.position
        return bool(moved or self._counts or self._resolved)

    def _fields(self) -> Iterator[tuple[str, Any]]:
        yield "consumer", self._endpoint.consumer
        yield "server", self._endpoint.server
        yield "graph_id", self._endpoint.graph_id
        yield "api", self._endpoint.api
        if self._position is not None and self._position > self.delivered.position:
            yield "position", self._position
        if self._counts:
            yield "counts", dict(self._counts)
        if self._contexts:
            yield "contexts", self._contexts
        if self._refused:
            yield "refused", [entry[:4] for entry in self._refused]
            yield "passing", {key: [tries, at] for key, *_, tries, at in self._refused if tries}
        if self._resolved:
            yield "resolved", self._resolved
        if self._error is not None:
            yield "error", self._error
