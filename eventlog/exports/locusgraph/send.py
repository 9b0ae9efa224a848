"""Sending the log to a LocusGraph server: each context in its final state, each event once.

Calls follow one another, parents first. Each is acknowledged before the next one is sent; meanwhile the next
body is made. Receipts (deliveries.py) record what the server took at most a second later. So a crash repeats
at most a second of calls, with the same context ids and texts, which changes nothing on the server. The
position moves only after the answers, so none is left out (I36). The parents of a record were answered in an
earlier call; where one was refused, the record waits (I37). One process at a time sends to an endpoint (a
lock); a view is held for minutes at most.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from eventlog.base import locks
from eventlog.base.errors import LockTimeout, Refused
from eventlog.base.types import LIFECYCLE_TYPES
from eventlog.exports.locusgraph import anchors, rest, wire
from eventlog.exports.locusgraph.courier import Clock, Courier, ServiceError, StoppedError
from eventlog.exports.locusgraph.deliveries import Delivered, DeliveryLog, RefusedRecord, read
from eventlog.exports.locusgraph.endpoint import Endpoint
from eventlog.exports.locusgraph.locusgraph import (
    ALL_TYPES,
    BOOKKEEPING,
    TYPES,
    RecordBatch,
    RecordOptions,
    SourcedRecord,
)
from eventlog.exports.locusgraph.posting import CallBatch, Poster, RefusesAllError
from eventlog.exports.locusgraph.rest import ProtocolError, SendOutcome, SentRecord

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

BATCH = 100  # what both interfaces take

_NOTE_EVERY_S = 1.0
_VIEW_S_MAX = 600.0
_LINGER_S = 2.0  # while following: events that come together are sent together
_FAILED_MAX = 1_000
_CATEGORIES = frozenset(wire.CATEGORIES.values())
_UNCOUNTED = BOOKKEEPING.union(LIFECYCLE_TYPES)
_ABANDON_S = 10.0  # to wait for the answer to the last call when asked to stop


@dataclass(frozen=True, slots=True)
class Options(RecordOptions):
    """What to send. `since` begins at another position than the ledger's, and sends taken records again."""

    since: int | None = None
    session_id: str | None = None
    limit: int | None = None
    batch: int = BATCH


@dataclass(slots=True)
class SendReport:
    """The result of one run. `since`, `until`: the positions covered; `reached`: the ledger's position.

    `records` and `bytes` are those that the server took, `tried` is all that was sent. `expected`: about how
    many records there were to send at the beginning, for a progress that shows its share; else 0.
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
    """Receives the progress of a run; this one ignores it.

    `shows_share`: whether it needs `SendReport.expected`, for which the log is asked once more.
    """

    shows_share = False

    def going(self, report: SendReport) -> None:
        """After each answer."""

    def trouble(self, text: str) -> None:
        """At the first failure of a call or a record, and when one is asked to stop."""

    def all_sent(self, report: SendReport) -> None:
        """While following, whenever everything is sent."""


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
    lag = store.query(
        f"SELECT count(*) FROM events WHERE position >= $1 AND event_type NOT IN ({_listed(BOOKKEEPING)})",
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
        batch = RecordBatch(store, view, 0, "", RecordOptions(diffs=False, include=frozenset((ALL_TYPES,))))
        for position in positions:
            for entry in batch.events_at(position):
                names[rest.key_of(entry.record["context_id"])] = entry.record["context_id"]
    for name in wire.CATEGORIES.values():
        names[rest.key_of(name)] = name
    return [replace(failure, context_id=names.get(key)) for key, failure in failures.items()]


def plan(store: "Store", endpoint: Endpoint, options: Options) -> SendReport:
    """What `send` would send, in records, calls and bytes; the server is not called."""
    report = SendReport(endpoint.server, endpoint.graph_id, endpoint.api)
    maker = _Maker(store, endpoint, options, read(store, endpoint), report)
    with store.view() as view:
        for call_batch in maker.new(view, maker.start, options.limit):
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
    progress: SendProgress | None = None,
) -> SendReport:
    """Send what is new, or with `retry_failed` what was refused; with `follow` go on until stopped.

    When its clock is stopped it ends after the call under way, with `stopped` in the report.
    Raises: ServiceError, ProtocolError (what was acknowledged is noted), LockTimeout while another process
    sends to this endpoint, Refused, and as `Store.append`.
    """
    options = options or Options()
    if not 1 <= options.batch <= endpoint.events_max:
        raise Refused(f"a batch has 1 to {endpoint.events_max:,} records in the interface {endpoint.api}")
    try:
        name = endpoint.consumer.rpartition(":")[2]
        lock = locks.acquire(store.fs, store.layout, f"{locks.EXPORT}{name}", timeout_s=0.0)
    except LockTimeout:
        raise LockTimeout(
            f"another process is sending to {endpoint.graph_id!r} at {endpoint.server}; it sends all that "
            "is new. Nothing was sent here."
        ) from None
    with lock, closing(_Run(store, endpoint, courier, clock, options, progress or SendProgress())) as run:
        try:
            if retry_failed:
                run.send_again(dict(run.receipts.delivered.failures), overwrite=True)
            else:
                run.send_new(follow)
        except StoppedError:
            run.report.stopped = True
        except (ServiceError, ProtocolError) as error:
            if isinstance(error, RefusesAllError):
                run.receipts.drop()
            run.receipts.stopped_by(str(error))
            raise
    return run.report


class _Run:
    """One run: batches are made, posted and noted, pass after pass over the log."""

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
        delivered = self.receipts.delivered
        self.report = SendReport(endpoint.server, endpoint.graph_id, endpoint.api, reached=delivered.position)
        self._store = store
        self._courier = courier
        self._clock = clock
        self._options = options
        self._progress = progress
        self._maker = _Maker(store, endpoint, options, delivered, self.report)
        self._poster = Poster(endpoint, courier, set(delivered.failures))
        self._noted_at = clock.monotonic()
        self._trouble: str | None = None  # reported last

    def close(self) -> None:
        self._poster.close()
        self._flush()
        self.report.requests = self._courier.requests
        self.report.retries = self._courier.retries

    # -- what is new -------------------------------------------------------------------------------

    def send_new(self, follow: bool) -> None:
        position = self._maker.start
        self.report.since = self.report.until = position
        # The ledger follows unless that would leave positions out.
        counts = self._options.session_id is None and position <= self.receipts.delivered.position
        new_positions = self._news(position) if follow else None
        while True:
            if retriable := self._retriable():
                self.send_again(retriable, overwrite=False)
                self.receipts.flush()
            position, done = self._pass(position, counts)
            self.report.until = position
            if not done:
                continue
            self._flush()
            if new_positions is None or self._left() == 0:
                return
            self._progress.all_sent(self.report)
            self._await(new_positions, position)
            self._courier.pause(_LINGER_S)

    def _pass(self, since: int, counts: bool) -> tuple[int, bool]:
        """Send from `since` to the end of one view: the position reached, and whether that is the end."""
        until_s = self._clock.monotonic() + _VIEW_S_MAX
        with self._store.view() as view:
            view.make_durable()  # sent records must not outlive the events they were made of (I5)
            is_asked = self._progress.shows_share and self._options.session_id is None
            if is_asked and not self.report.expected:
                self.report.expected = self.report.tried + self._expected(since)
            batches = _UntilLate(self._maker.new(view, since, self._left()), self._clock, until_s)
            position = since
            for call_batch in self._answered(batches):
                if call_batch.reaches is not None:
                    position = call_batch.reaches
                    if counts:
                        self.receipts.reached(position)
                self._flush_if_needed()
            if batches.is_late:
                return position, False
            if self._left() == 0:
                return position, True
            if counts and self._maker.made:
                self.receipts.reached(view.next_position)
            return view.next_position, True

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

    def _expected(self, since: int) -> int:
        """About how many records a pass has to make, from counts of events alone: no projection is folded."""
        include = self._options.include
        wanted = TYPES | {event_type for event_type in include if event_type.isidentifier()}
        counted = f"event_type NOT IN ({_listed(_UNCOUNTED)})"
        if ALL_TYPES not in include:
            counted += f" AND event_type IN ({_listed(wanted)})"
        total = self._store.query(
            f"SELECT 2 + count(*) FILTER ({counted})"
            " + count(DISTINCT session_id) FILTER (event_type <> 'sessions')"
            " + count(DISTINCT (session_id, turn)) FILTER (session_id IS NOT NULL AND turn IS NOT NULL"
            " AND event_type NOT IN ('session', 'sessions'))"
            f" FROM events WHERE position >= {since}"
        ).rows[0][0]
        left = self._left()
        return int(total) if left is None else min(int(total), left)

    def _left(self) -> int | None:
        """How many records may still be sent; None without a limit."""
        limit = self._options.limit
        return None if limit is None else max(0, limit - self.report.total)

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

    def send_again(self, failures: dict[str, RefusedRecord], *, overwrite: bool) -> None:
        """Send refused records once more, in their present state; with `overwrite` they replace what the
        server holds."""
        there: set[str] = set()
        with self._store.view() as view:
            view.make_durable()
            for call_batch in self._answered(self._maker.again(view, failures, overwrite)):
                there.update(item.key for item in call_batch.items)
                self._flush_if_needed()
        for key in failures.keys() - there:
            self.report.gone += 1
            self.receipts.forget(failures[key])

    # -- answers -----------------------------------------------------------------------------------

    def _answered(self, call_batches: Iterable[CallBatch]) -> Iterator[CallBatch]:
        """Each batch once its answer is noted."""
        for call_batch, answer in self._poster.posted(call_batches):
            self._wait_for(answer)
            self._note(call_batch.items, answer.result())
            yield call_batch

    def _note(self, items: list[SentRecord], outcomes: list[SendOutcome]) -> None:
        report = self.report
        now = int(self._clock.now())
        for item, outcome in zip(items, outcomes, strict=True):
            failure = self.receipts.note(item, outcome, now)
            report.answers[outcome.status] = report.answers.get(outcome.status, 0) + 1
            report.tried += outcome.waits_for is None
            if failure is not None:
                if not report.failures:
                    self._progress.trouble(f"not taken: {failure.context_id}: {outcome.reason}")
                report.failures.append(failure)
                continue
            report.records[item.group] = report.records.get(item.group, 0) + 1
            report.bytes += len(item.text) + 1
            self._maker.taken(item)
        self._progress.going(report)
        if sum(failure.reason != rest.WAITS for failure in report.failures) >= _FAILED_MAX:
            raise ServiceError(
                f"{report.server} refused {_FAILED_MAX:,} records, the last one with: "
                f"{report.failures[-1].reason}. They are noted; see `--status`."
            )

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
        before, self._trouble = self._trouble, self._courier.trouble
        if before is None and self._trouble is not None:
            self._progress.trouble(self._trouble)
            self.receipts.stopped_by(self._trouble)
            self.receipts.flush()

    def _flush_if_needed(self) -> None:
        now = self._clock.monotonic()
        if self.receipts.full or now - self._noted_at >= _NOTE_EVERY_S:
            self.receipts.flush()
            self._noted_at = now

    def _flush(self) -> None:
        self.receipts.flush()
        self.report.reached = self.receipts.delivered.position


class _UntilLate:
    """The batches up to the first one that ends a position after `until_s`; `is_late` when there was one."""

    def __init__(self, call_batches: Iterator[CallBatch], clock: Clock, until_s: float) -> None:
        self.is_late = False
        self._call_batches = call_batches
        self._clock = clock
        self._until_s = until_s

    def __iter__(self) -> Iterator[CallBatch]:
        for call_batch in self._call_batches:
            yield call_batch
            self.is_late = self._clock.monotonic() > self._until_s and call_batch.reaches is not None
            if self.is_late:
                return


class _Maker:
    """Makes the items of views, in batches. `made` counts the records of the last pass.

    Contexts in a state of `already_sent` are not sent again; those of `owned` are ours on the server. A given
    start means that records are sent again.
    """

    def __init__(
        self, store: "Store", endpoint: Endpoint, options: Options, owned: Delivered, report: SendReport
    ) -> None:
        report.reached = owned.position
        self.start = owned.position if options.since is None else options.since
        self.made = 0  # of records, and of events that need none
        self._store = store
        self._endpoint = endpoint
        # A server takes no larger payload.
        size = min(options.payload_bytes_max, wire.PAYLOAD_BYTES_MAX)
        self._options = replace(options, payload_bytes_max=size)
        self._owned = owned
        self._already_sent = owned if options.since is None else Delivered()
        self._report = report

    def new(self, view: "LogView", since: int, limit: int | None) -> Iterator[CallBatch]:
        """The new records from `since` on; contexts that the service has in this state are left out."""
        self.made = 0
        batch = self._batch(view, since)
        items = self._new(batch.entries(self._options.session_id), self._options.since is not None)
        try:
            yield from self._batched(items if limit is None else islice(items, limit))
        finally:
            self._take_facts(batch)

    def again(
        self, view: "LogView", failures: dict[str, RefusedRecord], overwrite: bool
    ) -> Iterator[CallBatch]:
        """The refused records, wherever they are; with `overwrite` they replace what the server holds."""
        batch = self._batch(view, 0)

        def entries() -> Iterator[SourcedRecord]:
            if any(failure.position is None for failure in failures.values()):
                for anchor in batch.contexts(0):
                    if rest.key_of(wire.context(anchor.context_id)) in failures:
                        yield batch.entry_of(anchor)
            for position in sorted({f.position for f in failures.values() if f.position is not None}):
                yield from batch.events_at(position)

        for call_batch in self._batched(self._item(entry, overwrite) for entry in entries()):
            yield replace(call_batch, reaches=None)
        self._take_facts(batch)

    def taken(self, item: SentRecord) -> None:
        """Remember what the server took, where the receipts do not."""
        if self._already_sent is not self._owned and not item.is_counted_by_position:
            self._already_sent.states.put(item.key, item.state, has_id=False)

    def _batch(self, view: "LogView", since: int) -> RecordBatch:
        graph_id, sent = self._endpoint.graph_id, self._owned.has
        return RecordBatch(self._store, view, since, graph_id, self._options, sent)

    def _take_facts(self, batch: RecordBatch) -> None:
        self._report.payloads_cut += batch.report.payloads_cut
        self._report.links_left_out += batch.report.links_left_out
        self._report.lost = batch.report.lost
        self.made += batch.passed
        for kind, number in batch.report.not_included.items():
            self._report.not_included[kind] = self._report.not_included.get(kind, 0) + number
        self._report.sessions_left_out = batch.report.sessions_left_out

    def _new(self, entries: Iterator[SourcedRecord], overwrite: bool) -> Iterator[SentRecord]:
        for entry in entries:
            self.made += 1
            item = self._item(entry, overwrite)
            if not item.is_counted_by_position and self._already_sent.states.holds(item.key, item.state):
                self._report.known += 1
            else:
                yield item

    def _item(self, entry: SourcedRecord, overwrite: bool) -> SentRecord:
        """The item of an entry, and whether it replaces what the server holds.

        A session or a turn is ours alone, and only its last state counts. An event never changes, so
        something else in its context stays without `overwrite`. A project may be anybody's memory. Older
        hooks write their events in the context of a category's anchor.
        """
        context_id = entry.record["context_id"]
        replace = overwrite or entry.group != "events" or context_id in _CATEGORIES
        if entry.group in ("knowledge", "categories"):
            first = self._spelled(entry, replace=False)
            states = self._owned.states
            replace = states.has_id(first.key) and (overwrite or not states.holds(first.key, first.state))
        return self._spelled(entry, replace=replace)

    def _spelled(self, entry: SourcedRecord, *, replace: bool) -> SentRecord:
        return rest.item(
            entry.group,
            entry.position,
            entry.record,
            api=self._endpoint.api,
            replace=replace,
            payload_bytes_max=self._options.payload_bytes_max,
            late=entry.late,
        )

    def _batched(self, items: Iterator[SentRecord]) -> Iterator[CallBatch]:
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


def _call_batch(items: list[SentRecord], size: int) -> CallBatch:
    last = items[-1]
    reaches = last.position if last.is_counted_by_position else None
    return CallBatch(items, None if reaches is None else reaches + 1, size)


def _listed(words: Iterable[str]) -> str:
    """Words as a list in SQL."""
    return ", ".join(f"'{word}'" for word in sorted(words))
