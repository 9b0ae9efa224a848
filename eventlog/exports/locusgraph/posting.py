"""Posting batches of records to a LocusGraph server, each after the answer to the one before (I37)."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from eventlog.exports.locusgraph import rest
from eventlog.exports.locusgraph.courier import Courier, ServiceError, StoppedError
from eventlog.exports.locusgraph.endpoint import Endpoint
from eventlog.exports.locusgraph.rest import ProtocolError, SendOutcome, SentRecord

_AHEAD = 2  # calls that are made beside the one under way
_REFUSED_ALL_MIN = 10
_MOMENT_TRIES = 4


@dataclass(frozen=True, slots=True)
class CallBatch:
    """The items of one call; after their answers, everything before `reaches` is dealt with."""

    items: list[SentRecord]
    reaches: int | None
    size: int


class RefusesAllError(ServiceError):
    """Nothing was taken, so the server or the interface is wrong."""


class Poster:
    """Posts batches in order, in a thread beside the one that reads the log; it touches no store.

    Args: missing: keys of the contexts that the server lacks.
    """

    def __init__(self, endpoint: Endpoint, courier: Courier, missing: set[str]) -> None:
        self._endpoint = endpoint
        self._courier = courier
        self._missing = missing
        self._accepted = False
        self._refused: list[str] = []  # reasons, until something was taken
        self._over = False  # a call failed, or the run ended: no call follows
        self._pool = ThreadPoolExecutor(1, "locus-send")

    def close(self) -> None:
        self._over = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def posted(
        self, call_batches: Iterable[CallBatch]
    ) -> Iterator[tuple[CallBatch, "Future[list[SendOutcome]]"]]:
        """Each batch with its answer to come.

        One call is under way while the next bodies are made. It is answered before the next one is sent, and
        none is sent after one that failed; but its answer may be noted a moment later.
        """
        waiting: deque[tuple[CallBatch, Future[list[SendOutcome]]]] = deque()
        for call_batch in call_batches:
            waiting.append((call_batch, self._pool.submit(self._deliver, call_batch.items)))
            if len(waiting) > _AHEAD:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    def _deliver(self, items: list[SentRecord]) -> list[SendOutcome]:
        """The outcome of each item."""
        if self._over:
            raise StoppedError  # the waiting thread knows the reason
        try:
            missing_parents = [self._missing_parent(item) for item in items]
            sendable = [item for item, missing in zip(items, missing_parents, strict=True) if missing is None]
            self._check_refused([self._refused[-1]] * (len(items) - len(sendable)) if self._refused else [])
            answers = iter(self._posted_patiently(sendable) if sendable else ())
            outcomes = [
                next(answers) if missing is None else rest.waiting(missing) for missing in missing_parents
            ]
            for item, outcome in zip(items, outcomes, strict=True):
                (self._missing.add if outcome.status == "failed" else self._missing.discard)(item.key)
            return outcomes
        except BaseException:
            self._over = True
            raise

    def _missing_parent(self, item: SentRecord) -> str | None:
        """A parent of the item that the server lacks; such an item is not sent (I37)."""
        return next((parent for parent in item.parents if rest.key_of(parent) in self._missing), None)

    def _posted_patiently(self, items: list[SentRecord]) -> list[SendOutcome]:
        """Post the items, and those with transient faults a few times more."""
        outcomes = self._posted(items)
        pause_s = 1.0
        for _ in range(_MOMENT_TRIES - 1):
            passing = [index for index, outcome in enumerate(outcomes) if outcome.passing]
            if not passing:
                break
            self._courier.pause(pause_s)
            pause_s *= 2
            for index, outcome in zip(
                passing, self._posted([items[index] for index in passing]), strict=True
            ):
                outcomes[index] = outcome
        return outcomes

    def _posted(self, items: list[SentRecord]) -> list[SendOutcome]:
        """Post the items; a body that is refused as a whole is halved until the refused items are known."""
        answer = self._courier.post(rest.body(self._endpoint.graph_id, items))
        if answer.taken:
            try:
                outcomes = rest.outcomes(answer.value, items)
            except ProtocolError as error:
                raise ProtocolError(
                    f"{self._endpoint.server} gave an invalid answer: {error}. Nothing of this batch is "
                    "noted as delivered, and the next export sends it again. Check --server and --api."
                ) from None
            self._check_some_taken(outcomes)
            return outcomes
        if len(items) == 1:
            outcome = rest.refusal(answer.status, answer.value, items[0])
            self._check_some_taken([outcome])
            return [outcome]
        middle = len(items) // 2
        return self._posted(items[:middle]) + self._posted(items[middle:])

    def _check_some_taken(self, outcomes: Sequence[SendOutcome]) -> None:
        """Raise if the server refuses every record: it is the wrong one, or is addressed wrongly."""
        refused = [
            outcome
            for outcome in outcomes
            if outcome.status == "failed" and not outcome.passing and not outcome.conflict
        ]
        if len(refused) < len(outcomes):
            self._accepted = True
        self._check_refused([outcome.reason for outcome in refused])

    def _check_refused(self, reasons: list[str]) -> None:
        if self._accepted:
            return
        self._refused += reasons
        if len(self._refused) >= _REFUSED_ALL_MIN:
            raise RefusesAllError(
                f"{self._endpoint.server} refuses every record, with: {self._refused[-1]}. Nothing was "
                f"taken and none is noted as failed. Check --api (it is {self._endpoint.api}) and --graph."
            )
