"""The ledger: how far each consumer of the log has come, recorded in the log itself.

A consumer goes through the log under a name and must skip nothing: an exporter, a sync, a
watcher. Its position is a fold of the log (P2): the highest position that an event of type `cursor`
names for it, 0 before the first. So it is as durable as the log, survives whatever is rebuilt, and two
processes that advance the same consumer at once can never take it back.

Cursor events are bookkeeping: they belong to no session, so they have no turn, no seq and no context,
count in no total, and are not delivered to consumers. Each has the id of (consumer, position): to
advance twice to one position leaves one event (I8).

One `Consumer` serves one thread; any number of processes may use the same name.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eventlog.base.errors import Conflict, Refused
from eventlog.base.event import Event
from eventlog.base.names import event_id_of
from eventlog.base.types import Event as Row
from eventlog.store import Store

CURSOR = "cursor"
_OWN_AGENT = "locus"

# Only three narrow columns are read for most of the log; payloads of cursor events alone are parsed.
_HIGHEST = (
    "select max(try_cast(json_extract_string(payload, '$.position') as bigint)) from events "
    f"where event_type = '{CURSOR}' and title = $1 and agent = '{_OWN_AGENT}'"
)


class ConsumerAheadError(Conflict):
    """A consumer was to be advanced to a position that it has passed."""

    def __init__(self, consumer: str, position: int, reached: int) -> None:
        Refused.__init__(
            self,
            f"consumer {consumer!r} is at position {reached} and cannot go back to {position}. "
            f"Read its position again and go on from there.",
        )
        self.expected = position
        self.actual = reached


class Consumer:
    """One consumer of a store's log, by its name."""

    def __init__(self, store: Store, name: str) -> None:
        if not name:
            raise Refused("a consumer needs a name, such as 'exporter:main'")
        self.store = store
        self.name = name
        self._reached = 0  # the highest position known so far: it never falls

    @property
    def position(self) -> int:
        """The next position to deliver, as the log says now."""
        highest = self.store.query(_HIGHEST, [self.name]).rows[0][0]
        self._reached = max(self._reached, highest or 0)
        return self._reached

    def follow(
        self,
        *,
        session_id: str | None = None,
        event_types: Sequence[str] | None = None,
        poll_s: float = 0.2,
        stop: Callable[[], bool] | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Event]:
        """The events that this consumer has not dealt with, and then those that come (`Store.follow`).

        An event is handed out only when it is durable, so what is made of it never outlives it.
        A consumer that dies between an event and the `advance` after it gets the event again.
        """
        for event in self.store.follow(
            self.position,
            session_id=session_id,
            event_types=event_types,
            poll_s=poll_s,
            stop=stop,
            timeout_s=timeout_s,
            durable=True,
        ):
            if event["event_type"] != CURSOR:
                yield event

    def advance(self, position: int, **facts: Any) -> None:
        """Record durably that every event before `position` is dealt with.

        It reads the position first, so it is for batches rather than for every event of a busy log.
        Repeating a position changes nothing, the `facts` included: those given first stay.
        Raises: Conflict when the consumer is further; Refused for a position that the log does not have
        yet; and as `Store.append`.
        """
        reached = self.position
        if position < reached:
            raise ConsumerAheadError(self.name, position, reached)
        end = self.store.journal.next_position()
        if position > end:
            raise Refused(
                f"consumer {self.name!r} cannot be at {position}: the log ends at {end}, and the events "
                "in between would be skipped"
            )
        if position == reached:
            return
        self.store.append_rows([self._cursor(position, facts)])
        self._reached = position

    def _cursor(self, position: int, facts: "dict[str, Any]") -> Row:
        return {
            "event_id": event_id_of(_OWN_AGENT, CURSOR, self.name, str(position)),
            "event_type": CURSOR,
            "event_kind": "fact",
            "source": "system",
            "agent": _OWN_AGENT,
            "title": self.name,
            "operation": "advance",
            "payload": {**facts, "consumer": self.name, "position": position},
        }
