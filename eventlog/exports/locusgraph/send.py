"""Sending the log to a LocusGraph server: each context in its final state, each event once.

Calls follow one another, parents first. Each is acknowledged before the next one is sent; meanwhile the next
body is made. Receipts (deliveries.py) record what the server took at most a second later. So a crash repeats
at most a second of calls, with the same context ids and texts, which changes nothing on the server. The
position moves only after the answers, so none is left out (I36). The parents of a record were answered in an
earlier call; where one was refused, the record waits (I37). One process at a time sends to an endpoint (a
lock); a view is held for minutes at most.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from eventlog.base import locks
from eventlog.base.errors import LockTimeout, Refused
from eventlog.base.types import LIFECYCLE_TYPES
from eventlog.exports.locusgraph import anchors, rest, wire
from eventlog.exports.locusgraph.courier import Clock, Courier, ServiceError, StoppedError
from eventlog.exports.locusgraph.deliveries import Arrived, Delivered, DeliveryLog, RefusedRecord, read
from eventlog.exports.locusgraph.endpoint import Endpoint
from eventlog.exports.locusgraph.locusgraph import ALL_TYPES, BOOKKEEPING, TYPES, RecordBatch, SourcedRecord
from eventlog.exports.locusgraph.rest import ProtocolError, SendOutcome, SentRecord

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

BATCH = 100  # what both interfaces take

_NOTE_EVERY_S = 1.0
_VIEW_S_MAX = 600.0
_AHEAD = 2  # calls that are made beside the one under way
_LINGER_S = 2.0  # while following: events that come together are sent together
_REFUSED_ALL_MIN = 10
_FAILED_MAX = 1_000
_MOMENT_TRIES = 4
_CATEGORIES = frozenset(wire.CATEGORIES.values())
_UNCOUNTED = BOOKKEEPING.union(LIFECYCLE_TYPES)
_ABANDON_S = 10.0  # to wait for the answer to the last call when asked to stop


@dataclass(frozen=True, slots=True)
class Options:
    """What to send. `since` begins at another position than the ledger's, and sends taken records again."""

    since: int | None = None
    session_id: str | None = None
    limit: int | None = None
    batch: int = BATCH
    payload_bytes_max: int = wire.PAYLOAD_BYTES_MAX
    diffs: bool = True
    include: frozenset[str] = frozenset()  # types of events beside those that always go


@dataclass(slots=True)
class SendReport:
    """The result of one run. `since`, `until`: the positions covered; `reached`: the ledger's position.

    `records` and `bytes` are those that the server took, `tried` is all that was sent. `expected`: about how
    many records there were to send at the beginning, to show progress.
    """

    server: str
    graph_id: str
    api: str
    since: int = 0
    until: int = 0
    reached: int = 0
    records: dict[str, int] = field(default_factory=dict)  # by group, those taken
    tried: int = 0
    expected: int = 0
    answers: dict[str, int] = field(default_factory=dict)  # by status (rest.SendOutcome)
    known: int = 0  # contexts that the service has in this state already
    requests: int = 0
    retries: int = 0
    bytes: int = 0
    payloads_cut: int = 0
    links_left_out: int = 0
    failures: list[RefusedRecord] = field(default_factory=list)
    gone: int = 0  # refused before, and no longer in the log
    stopped: bool = False
    lost: list[tuple[int, int]] = field(default_factory=list)
    not_included: dict[str, int] = field(default_factory=dict)  # events by type, of types not asked for
    sessions_left_out: dict[str, str] = field(default_factory=dict)  # session → why

    @property
    def total(self) -> int:
        return sum(self.records.values())


class SendProgress:
    """Receives the progress of a run; this one ignores it."""

    def going(self, report: SendReport) -> None:
        """After each answer."""

    def trouble(self, text: str) -> None:
        """At the first failure of a call or a record, and when one is asked to stop."""

    def all_sent(self, report: SendReport) -> None:
        """While following, whenever everything is sent."""


@dataclass(frozen=True, slots=True)
class _CallBatch:
    """The items of one call; after their answers, everything before `reaches` is dealt with."""

    items: list[SentRecord]
    reaches: int | None
    size: int


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """What is known of an endpoint. `lag`: number of events still to be sent; `failures` have names."""

    delivered: Delivered
    next_position: int
    lag: int
    failures: list[RefusedRecord] = field(default_factory=list)


def status(store: "Store", endpoint: Endpoint) -> EndpointStatus:
    """How far exports to `endpoint` have come, and their failures."""
    delivered = read(store, endpoint)
    kinds = ", ".join(f"'{kind}'" for kind in sorted(BOOKKEEPING))
    lag = store.query(
        f"SELECT count(*) FROM events WHERE position >= $1 AND event_type NOT IN ({kinds})",
        [delivered.position],
    ).rows[0][0]
    return EndpointStatus(delivered, store.journal.next_position(), lag, _named(store, delivered.failures))


def _named(store: "Store", failures: dict[str, RefusedRecord]) -> list[RefusedRecord]:
    """The failures with their contexts: the ledger has no names, which are texts of people."""
    if not failures:
        return []
    names: dict[str, str] = {}
    positions = [failure.position for failure in failures.values() if failure.position is not None]
    with store.view() as view:
        for anchor in anchors.changed(view, store, 0):
            names[rest.key_of(wire.context(anchor.context_id))] = wire.context(anchor.context_id)
        batch = RecordBatch(store, view, 0, "", diffs=False, include=frozenset((ALL_TYPES,)))
        for position in positions:
            for entry in batch.events_at(position):
                names[rest.key_of(entry.record["context_id"])] = entry.record["context_id"]
    for name in wire.CATEGORIES.values():
        names[rest.key_of(name)] = name
    return [replace(failure, context_id=names.get(key)) for key, failure in failures.items()]


def plan(store: "Store", endpoint: Endpoint, options: Options) -> SendReport:
    """What `send` would send, in records, calls and bytes; the server is not called."""
    report = _report_of(endpoint)
    delivered = read(store, endpoint)
    report.reached = delivered.position
    already_sent = Delivered() if options.since is not None else delivered
    with store.view() as view:
        maker = _Maker(store, view, endpoint, options, already_sent, delivered, report)
        for call_batch in maker.call_batches(delivered.position if options.since is None else options.since):
            report.requests += 1
            report.bytes += call_batch.size
    return report


def send(
    store: "Store",
    endpoint: Endpoint,
    courier: Courier,
    clock: Clock,
    options: Options | None = None,
    *,
    retry_failed: bool = False,
    follow: bool = False,
    on_all_sent: Callable[[SendReport], None] | None = None,
    progress: SendProgress | None = None,
) -> SendReport:
    """Send what is new, or with `retry_failed` what was refused; with `follow` go on until stopped.

    When its clock is stopped it ends after the call under way, with `stopped` in the report.
    Args: on_all_sent: called while following, with the report so far, whenever everything is sent.
    Raises: ServiceError, ProtocolError (what was acknowledged is noted), LockTimeout while another process
    sends to this endpoint, Refused, and as `Store.append`.
    """
    options = options or Options()
    if not 1 <= options.batch <= endpoint.events_max:
        raise Refused(f"a batch has 1 to {endpoint.events_max:,} records in the interface {endpoint.api}")
    try:
        lock = locks.acquire(store.fs, store.layout, f"{locks.EXPORT}{_name(endpoint)}", timeout_s=0.0)
    except LockTimeout:
        raise LockTimeout(
            f"another process is sending to {endpoint.graph_id!r} at {endpoint.server}; it sends all that "
            "is new. Nothing was sent here."
        ) from None
    with lock:
        sender = _Sender(store, endpoint, courier, clock, options, progress or SendProgress())
        try:
            if retry_failed:
                sender.again()
            else:
                sender.run(follow, on_all_sent)
        except StoppedError:
            sender.report.stopped = True
        except (ServiceError, ProtocolError) as error:
            if isinstance(error, _RefusesAllError):
                sender.receipts.drop()
            sender.receipts.stopped_by(str(error))
            raise
        finally:
            sender.finish()
    return sender.report


def _listed(include: frozenset[str]) -> str:
    return ", ".join(
        f"'{kind}'"
        for kind in sorted(TYPES | {event_type for event_type in include if event_type.isidentifier()})
    )


def _name(endpoint: Endpoint) -> str:
    return endpoint.consumer.rpartition(":")[2]


def _report_of(endpoint: Endpoint) -> SendReport:
    return SendReport(endpoint.server, endpoint.graph_id, endpoint.api)


class _RefusesAllError(ServiceError):
    """Nothing was taken, so the server or the interface is wrong."""


class _Sender:
    """One run: its records, their answers, and what was noted."""

    def __init__(
        self,
        store: "Store",
        endpoint: Endpoint,
        courier: Courier,
        clock: Clock,
        options: Options,
        progress: SendProgress,
    ) -> None:
        self.receipts = DeliveryLog(store, endpoint)
        self.report = _report_of(endpoint)
        self.report.reached = self.receipts.delivered.position
        self._store = store
        self._endpoint = endpoint
        self._courier = courier
        self._clock = clock
        self._options = options
        # A given start means that records are sent again.
        self._already_sent = Delivered() if options.since is not None else self.receipts.delivered
        self._noted_at = clock.monotonic()
        self._accepted = False
        self._refused: list[str] = []  # reasons, until something was taken
        self._progress = progress
        self._trouble: str | None = None  # reported last
        self._missing = set(self.receipts.delivered.failures)  # keys of contexts that the server lacks
        self._failed = False  # a call, or the run; no call follows
        self._pool = ThreadPoolExecutor(1, "locus-send")

    def finish(self) -> None:
        self._failed = True  # or done
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.receipts.flush()
        self.report.reached = self.receipts.delivered.position
        self.report.requests = self._courier.requests
        self.report.retries = self._courier.retries

    # -- what is new -------------------------------------------------------------------------------

    def run(self, follow: bool, on_all_sent: Callable[[SendReport], None] | None) -> None:
        wanted_start = self._options.since
        position = self.receipts.delivered.position if wanted_start is None else wanted_start
        self.report.since = self.report.until = position
        # The ledger follows unless that would leave positions out.
        counts = self._options.session_id is None and position <= self.receipts.delivered.position
        new_positions = self._news(position) if follow else None
        while True:
            self._try_passing()
            position, done = self._pass(position, counts)
            if not done:
                continue
            self.receipts.flush()
            self.report.reached = self.receipts.delivered.position
            if new_positions is None or self._at_limit:
                return
            if on_all_sent is not None:
                on_all_sent(self.report)
            self._await(new_positions, position)
            self._courier.pause(_LINGER_S)

    def _await(self, new_positions: Iterator[int], reached: int) -> None:
        """Wait for new events, or until a failed record may be retried."""
        if not any(failure.passing for failure in self.receipts.delivered.failures.values()):
            if next((True for position in new_positions if position >= reached), None) is None:
                raise StoppedError
            return
        while self._store.journal.next_position() <= max(reached, self.receipts.delivered.position):
            if self._retriable():
                return
            self._courier.pause(_LINGER_S)

    def _news(self, since: int) -> Iterator[int]:
        """The position of each event that is more than bookkeeping, once it is durable (I5)."""
        followed = self._store.follow(since, poll_s=0.5, stop=self._clock.stopped, durable=True)
        for event in followed:
            if event["event_type"] not in BOOKKEEPING:
                yield event["position"] or 0

    def _pass(self, since: int, counts: bool) -> tuple[int, bool]:
        """Send from `since` to the end of one view: the position reached, and whether that is the end."""
        began = self._clock.monotonic()
        with self._store.view() as view:
            view.make_durable()  # sent records must not outlive the events they were made of (I5)
            maker = self._maker(view, self._already_sent)
            if not self.report.expected and self._options.session_id is None:
                self.report.expected = self.report.tried + self._expected(since)
            position = since
            held_too_long = False

            def in_time() -> Iterator[_CallBatch]:
                nonlocal held_too_long
                for call_batch in maker.call_batches(since, self._left()):
                    yield call_batch
                    if self._clock.monotonic() - began > _VIEW_S_MAX and call_batch.reaches is not None:
                        held_too_long = True
                        return

            for call_batch in self._answered(in_time()):
                if call_batch.reaches is not None:
                    position = call_batch.reaches
                    if counts:
                        self.receipts.reached(position)
                self._flush_if_needed()
            if held_too_long:
                self.report.until = position
                return position, False
            if self._at_limit:
                self.report.until = position
                return position, True
            if counts and maker.made:
                self.receipts.reached(view.next_position)
            self.report.until = view.next_position
            return view.next_position, True

    def _expected(self, since: int) -> int:
        """About how many records a pass has to make, from counts alone."""
        types = ", ".join(f"'{kind}'" for kind in sorted(_UNCOUNTED))
        limits = self._options
        total = self._store.query(
            f"SELECT (SELECT count(*) FROM events WHERE position >= {since} AND event_type NOT IN ({types})"
            + ("" if ALL_TYPES in limits.include else f" AND event_type IN ({_listed(limits.include)})")
            + f") + (SELECT count(*) FROM turns WHERE last_position >= {since})"
            f" + (SELECT count(*) FROM sessions WHERE last_position >= {since}) + 2"
        ).rows[0][0]
        left = self._left()
        return int(total) if left is None else min(int(total), left)

    def _left(self) -> int | None:
        limit = self._options.limit
        return None if limit is None else max(0, limit - self.report.total)

    @property
    def _at_limit(self) -> bool:
        return self._left() == 0

    def _flush_if_needed(self) -> None:
        now = self._clock.monotonic()
        if self.receipts.full or now - self._noted_at >= _NOTE_EVERY_S:
            self.receipts.flush()
            self._noted_at = now

    # -- what was refused --------------------------------------------------------------------------

    def _retriable(self) -> dict[str, RefusedRecord]:
        """The records whose refusal was transient and that may be retried now."""
        now = self._clock.now()
        failures = self.receipts.delivered.failures
        # A time in the future was noted before the clock was set back.
        return {
            key: failure
            for key, failure in failures.items()
            if failure.passing and not failure.at <= now < failure.next_at
        }

    def _try_passing(self) -> None:
        if retriable := self._retriable():
            self._send_again(retriable, anew=False)
            self.receipts.flush()

    def again(self) -> None:
        """Send refused records once more, in their present state, replacing what the server holds."""
        self._send_again(dict(self.receipts.delivered.failures), anew=True)

    def _send_again(self, failures: dict[str, RefusedRecord], *, anew: bool) -> None:
        with self._store.view() as view:
            view.make_durable()
            maker = self._maker(view, Delivered())
            for _ in self._answered(maker.again(failures, anew)):
                self._flush_if_needed()
        for key in failures.keys() - maker.keys:
            self.report.gone += 1
            self.receipts.forget(failures[key])

    def _maker(self, view: "LogView", already_sent: Delivered) -> "_Maker":
        owned = self.receipts.delivered
        return _Maker(self._store, view, self._endpoint, self._options, already_sent, owned, self.report)

    # -- calls and their answers -------------------------------------------------------------------

    def _answered(self, call_batches: Iterator[_CallBatch]) -> Iterator[_CallBatch]:
        """Each batch once its answer is noted.

        One call is under way while the next bodies are made. It is answered before the next one is sent, and
        none is sent after one that failed; but its answer may be noted a moment later.
        """
        waiting: deque[tuple[_CallBatch, Future[list[SendOutcome]]]] = deque()
        for call_batch in call_batches:
            waiting.append((call_batch, self._pool.submit(self._deliver, call_batch.items)))
            if len(waiting) > _AHEAD:
                yield self._settled(*waiting.popleft())
        while waiting:
            yield self._settled(*waiting.popleft())

    def _settled(self, call_batch: _CallBatch, answer: "Future[list[SendOutcome]]") -> _CallBatch:
        self._wait_for(answer)
        report = self.report
        outcomes = answer.result()
        now = int(self._clock.now())
        for item, outcome in zip(call_batch.items, outcomes, strict=True):
            failure = self.receipts.note(item, outcome, now)
            report.answers[outcome.status] = report.answers.get(outcome.status, 0) + 1
            report.tried += outcome.waits_for is None
            if failure is not None:
                self._report_failure(failure, outcome)
                continue
            report.records[item.group] = report.records.get(item.group, 0) + 1
            report.bytes += len(item.text) + 1
            if not item.is_counted_by_position and self._already_sent is not self.receipts.delivered:
                self._already_sent.states.put(item.key, item.state, has_id=False)
        self._progress.going(report)
        if sum(failure.reason != rest.WAITS for failure in report.failures) >= _FAILED_MAX:
            raise ServiceError(
                f"{self._endpoint.server} refused {_FAILED_MAX:,} records, the last one with: "
                f"{report.failures[-1].reason}. They are noted; see `--status`."
            )
        return call_batch

    def _report_failure(self, failure: RefusedRecord, outcome: SendOutcome) -> None:
        if not self.report.failures:
            self._progress.trouble(f"not taken: {failure.context_id}: {outcome.reason}")
        self.report.failures.append(failure)

    def _wait_for(self, answer: "Future[list[SendOutcome]]") -> None:
        """Wait for the answer; when asked to stop, only a little longer."""
        patience = 0.0
        while patience < _ABANDON_S:
            try:
                answer.exception(timeout=0.25)
                self._report_trouble()
                return
            except TimeoutError:
                self._report_trouble()
                if self._clock.stopped():
                    if not patience:
                        self._progress.trouble("waiting for the call under way; Ctrl-C again drops it")
                    patience += 0.25
        raise StoppedError

    def _report_trouble(self) -> None:
        """Report the first fault of a call at once, and note it for `status`."""
        trouble = self._courier.trouble
        if trouble is None or self._trouble is not None:
            self._trouble = trouble
            return
        self._trouble = trouble
        self._progress.trouble(trouble)
        self.receipts.stopped_by(trouble)
        self.receipts.flush()

    def _deliver(self, items: list[SentRecord]) -> list[SendOutcome]:
        """The outcome of each item. Runs beside the thread that reads the log, and touches no store."""
        if self._failed:
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
            self._failed = True
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
            raise _RefusesAllError(
                f"{self._endpoint.server} refuses every record, with: {self._refused[-1]}. Nothing was "
                f"taken and none is noted as failed. Check --api (it is {self._endpoint.api}) and --graph."
            )


class _Maker:
    """Items of one view, in batches. `made` counts records, `keys` are their contexts when sent again.

    `known` has the states that are not sent again, `owned` the contexts that we created on the server.
    """

    def __init__(
        self,
        store: "Store",
        view: "LogView",
        endpoint: Endpoint,
        options: Options,
        already_sent: Delivered,
        owned: Delivered,
        report: SendReport,
    ) -> None:
        self.made = 0  # of records, and of events that need none
        self.keys: set[str] = set()
        self._store = store
        self._view = view
        self._endpoint = endpoint
        self._options = options
        self._already_sent = already_sent
        self._owned = owned
        self._report = report

    def call_batches(self, since: int, limit: int | None = None) -> Iterator[_CallBatch]:
        """The new records from `since` on; contexts that the service has in this state are left out."""
        batch = self._batch(since)
        items = self._new(batch.entries(self._options.session_id), self._options.since is not None)
        limit = self._options.limit if limit is None else limit
        try:
            yield from self._batched(items if limit is None else islice(items, limit))
        finally:
            self._take_facts(batch)

    def again(self, failures: dict[str, RefusedRecord], anew: bool) -> Iterator[_CallBatch]:
        """The refused records, wherever they are; with `anew` they replace what the server holds."""
        batch = self._batch(0)

        def entries() -> Iterator[SourcedRecord]:
            if any(failure.position is None for failure in failures.values()):
                for anchor in batch.contexts(0):
                    if rest.key_of(wire.context(anchor.context_id)) in failures:
                        yield batch.entry_of(anchor)
            for position in sorted({f.position for f in failures.values() if f.position is not None}):
                yield from batch.events_at(position)

        items = (self._item(entry, anew) for entry in entries())
        for call_batch in self._batched(items):
            self.keys.update(item.key for item in call_batch.items)
            yield _CallBatch(call_batch.items, None, call_batch.size)
        self._take_facts(batch)

    def _batch(self, since: int) -> RecordBatch:
        options = self._options
        return RecordBatch(
            self._store,
            self._view,
            since,
            self._endpoint.graph_id,
            min(options.payload_bytes_max, wire.PAYLOAD_BYTES_MAX),
            options.diffs,
            include=options.include,
            sent=Arrived(self._owned),
        )

    def _take_facts(self, batch: RecordBatch) -> None:
        self._report.payloads_cut += batch.report.payloads_cut
        self._report.links_left_out += batch.report.links_left_out
        self._report.lost = batch.report.lost
        self.made += batch.passed
        for kind, number in batch.report.not_included.items():
            self._report.not_included[kind] = self._report.not_included.get(kind, 0) + number
        self._report.sessions_left_out = batch.report.sessions_left_out

    def _new(self, entries: Iterator[SourcedRecord], anew: bool) -> Iterator[SentRecord]:
        for entry in entries:
            self.made += 1
            item = self._item(entry, anew)
            if not item.is_counted_by_position and self._already_sent.states.holds(item.key, item.state):
                self._report.known += 1
            else:
                yield item

    def _item(self, entry: SourcedRecord, anew: bool) -> SentRecord:
        """The item of an entry, and whether it replaces what the server holds.

        A session or a turn is ours alone, and only its last state counts. An event never changes, so
        something else in its context stays unless it is sent `anew`. A project may be anybody's memory. Older
        hooks write their events in the context of a category's anchor.
        """
        context_id = entry.record["context_id"]
        replace = anew or entry.group != "events" or context_id in _CATEGORIES
        if entry.group in ("knowledge", "categories"):
            first = self._spelled(entry, replace=False)
            states = self._owned.states
            replace = states.has_id(first.key) and (anew or not states.holds(first.key, first.state))
        return self._spelled(entry, replace=replace)

    def _spelled(self, entry: SourcedRecord, *, replace: bool) -> SentRecord:
        return rest.item(
            entry.group,
            entry.position,
            entry.record,
            api=self._endpoint.api,
            replace=replace,
            payload_bytes_max=min(self._options.payload_bytes_max, wire.PAYLOAD_BYTES_MAX),
            late=entry.late,
        )

    def _batched(self, items: Iterator[SentRecord]) -> Iterator[_CallBatch]:
        """Batches within the limits of number and size, in order; no item extends one of its own batch."""
        pending: list[SentRecord] = []
        pending_contexts: set[str] = set()
        size = 0
        for item in items:
            full = len(pending) == self._options.batch or size + len(item.text) > rest.BODY_BYTES_MAX
            if pending and (full or not pending_contexts.isdisjoint(item.parents)):
                yield _call_batch(pending, size)
                pending, size = [], 0
                pending_contexts.clear()
            pending.append(item)
            pending_contexts.add(item.context_id)
            size += len(item.text) + 1
        if pending:
            yield _call_batch(pending, size)


def _call_batch(items: list[SentRecord], size: int) -> _CallBatch:
    last = items[-1]
    reaches = last.position if last.is_counted_by_position else None
    return _CallBatch(items, None if reaches is None else reaches + 1, size)
