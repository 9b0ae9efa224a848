"""The batch export to LocusGraph: wire records, one a line, resumed from the ledger.

A batch covers the positions [since, until) of one pinned view: the final state of every context that changed
there, parents first, then the timeline events of that range by position. The same log and range give the same
bytes. The ledger (recorder/ledger.py) moves to `until` only after the file is durable under its name. So
after a crash the next batch begins where this one did: positions repeat, none is left out (I36). The parents
of a record come before it, or were exported earlier (I37). One thread for each store; any number of
processes, of which the slower one repeats.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlog.base import jsontext
from eventlog.base.errors import Conflict, Refused
from eventlog.base.names import context_of_event, event_context, turn_context
from eventlog.base.types import LIFECYCLE_TYPES
from eventlog.exports import files, withheld
from eventlog.exports.local_paths import LocalPaths
from eventlog.exports.locusgraph import anchors, wire
from eventlog.exports.locusgraph.parents import Parents, Sent
from eventlog.log import upcast
from eventlog.log.maintenance import MAINTENANCE
from eventlog.log.retained import CONTENT, RETENTION
from eventlog.projections.happened import happened_at
from eventlog.projections.settled import Settled
from eventlog.query import people
from eventlog.recorder.ledger import CURSOR, Consumer
from eventlog.recorder.requests import LINK_NAMES
from eventlog.replay.diffs import diff_of
from eventlog.secrets.redaction import WITHHELD

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.reader import LogView
    from eventlog.store import Store

CONSUMER = "export:locusgraph"
GRAPH_ID = "locus-agent"  # the default of the service's client

# Columns that the log promotes out of payloads, as the keys that payloads have on the wire (S1-29…S1-37).
_AS_KEYS = (
    "seq",
    "title",
    "status",
    "tool",
    "path",
    "operation",
    "model",
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "duration_ms",
    "success",
    "error_type",
    "resolved",
    "before_hash",
    "after_hash",
    "tree_hash",
    "lines_added",
    "lines_removed",
)
_COLUMNS = (
    "position",
    "session_id",
    "turn",
    "event_id",
    "event_type",
    "event_kind",
    "source",
    "schema_version",
    "context_id",
    *LINK_NAMES,
    "agent",
    "agent_session_id",
    "occurred_at",
    "recorded_at",
    *_AS_KEYS,
    "payload",
)
_ROWS_AT_ONCE = 1_024

# Types of events that the seeds name (S0, S1-38): what a graph is for. Others go on request.
TYPES = frozenset(
    ("intent", "action", "file", "snapshot", "decision", "error", "llm", "feedback", "mcp_action", "test_run",
     "git_op", "project_convention", "skill", "tool_schema", "tool_usage")
)  # fmt: skip
ALL_TYPES = "all"
WAITING = "it has had no prompt yet, so its name is still to come"
BOOKKEEPING = frozenset((CURSOR, MAINTENANCE, RETENTION, WITHHELD, CONTENT))
_NOT_EVENTS = BOOKKEEPING.union(LIFECYCLE_TYPES)


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """How records are made. `include`: types of events beside TYPES, or ALL_TYPES."""

    payload_bytes_max: int = wire.PAYLOAD_BYTES_MAX
    diffs: bool = True
    include: frozenset[str] = frozenset()


_DEFAULT = RecordOptions()


class SourcedRecord(NamedTuple):
    """A record and where it comes from: `position` of a timeline event, None for a context's state.

    `late`: an event from before the batch, of a session that waited for its name until now.
    """

    group: str
    position: int | None
    record: dict[str, Any]
    late: bool = False


@dataclass(slots=True)
class ExportReport:
    """The contents of a batch. `advanced`: the ledger moved to `until`. `path` is None when no file was made.

    `lost` are ranges of positions whose events are lost by damage of the log.
    """

    since: int
    until: int
    path: str | None = None
    records: dict[str, int] = field(default_factory=dict)  # of knowledge, master, sessions, turns, events
    bytes: int = 0
    payloads_cut: int = 0
    links_left_out: int = 0
    advanced: bool = False
    lost: list[tuple[int, int]] = field(default_factory=list)
    not_included: dict[str, int] = field(default_factory=dict)  # events by type, of types not asked for
    sessions_left_out: dict[str, str] = field(default_factory=dict)  # session → why

    @property
    def total(self) -> int:
        return sum(self.records.values())


def export(
    store: "Store",
    path: str,
    options: RecordOptions = _DEFAULT,
    *,
    since: int | None = None,
    graph_id: str = GRAPH_ID,
    force: bool = False,
    dry_run: bool = False,
) -> ExportReport:
    """Write the next batch to the file `path`; where nothing is new there is no file.

    Args: since: where the batch begins; by default the ledger's position. The ledger follows unless that
    would leave positions out.
    Raises: Refused when `path` is taken and `force` is not set, EventLogError when the disk refuses.
    """
    if options.payload_bytes_max < wire.PAYLOAD_BYTES_MIN:
        raise Refused(f"a payload needs room for {wire.PAYLOAD_BYTES_MIN} bytes at least")
    if not dry_run:
        files.check_free(path, force=force)
    ledger = Consumer(store, CONSUMER)
    reached = ledger.position
    with store.view() as view:
        start = reached if since is None else since
        batch = RecordBatch(store, view, start, graph_id, options)
        lines = batch.lines()
        first = next(lines, None)
        if first is None:
            return batch.report
        if dry_run:
            for _ in lines:
                pass
            return batch.report
        view.make_durable()  # exported records must not outlive the events they were made of (I5)
        with files.staged(path, force=force) as file:
            file.write(first)
            for line in lines:
                file.write(line)
    report = batch.report
    report.path = path
    if report.since <= reached < report.until:
        facts = {"since": report.since, "records": report.total, "bytes": report.bytes}
        try:
            ledger.advance(report.until, **facts)
            report.advanced = True
        except Conflict:
            pass  # another export went further meanwhile; its records were written twice
    return report


class RecordBatch:
    """The records of one range of positions; `report` is complete once they were all taken."""

    def __init__(
        self,
        store: "Store",
        view: "LogView",
        since: int,
        graph_id: str,
        options: RecordOptions = _DEFAULT,
        sent: Sent | None = None,
    ) -> None:
        """Args: sent: the contexts of an endpoint; None for files, where unchanged ones were in earlier
        files."""
        lost = [(gap.base, gap.end) for gap in view.damaged if gap.end > since]
        self.report = ExportReport(since, view.next_position, lost=lost)
        self._store = store
        self._view = view
        self._redactor = store.redactor
        self._exposure = withheld.Exposure(view, store.redactor)
        self._people = people.allowed(store.fs, store.layout, homes=True)  # paths of this machine are removed
        self._graph_id = graph_id
        self._options = options
        self._types = None if ALL_TYPES in options.include else TYPES | options.include
        self._settled = Settled(view)
        self._facts = anchors.ContextFacts()
        self._parents = Parents(sent)
        self._is_file = sent is None
        self._left_out: Counter[str] = Counter()
        self.passed = 0  # events that were read and need no record, or must wait

    def lines(self) -> Iterator[bytes]:
        """Each record as one line of JSON."""
        for entry in self.entries():
            line = jsontext.encode_fast(entry.record) + b"\n"
            self.report.bytes += len(line)
            yield line

    def entries(self, session_id: str | None = None) -> Iterator[SourcedRecord]:
        """The records in their order; with `session_id` those of one session and of its parents."""
        since, until = self.report.since, self.report.until
        for anchor in self.contexts(since):
            if session_id is None or anchor.session_id in (None, session_id):
                yield self.entry_of(anchor)
        categories = self._categories()
        for late, first_position in self._facts.late.items():
            if session_id in (None, late):
                for entry in self._timeline(first_position, min(since, until), late):
                    yield from categories
                    yield entry._replace(late=True)
        for entry in self._timeline(since, until, session_id):
            yield from categories
            yield entry
        self.report.not_included = dict(self._left_out)

    def contexts(self, since: int) -> Iterator[anchors.Anchor]:
        """The contexts that changed; facts about the others are taken when the first one is there."""
        facts = self._facts
        is_complete = False
        for anchor in anchors.changed(self._view, self._store, since, facts):
            if not is_complete:
                is_complete = True
                self._take(facts)
            if anchor.group != "renamed" or self._has_ghost(anchor):
                yield anchor
        if not is_complete:
            self._take(facts)

    def _take(self, facts: anchors.ContextFacts) -> None:
        self._parents.wanted = frozenset(facts.parents)
        if self._is_file:
            self._parents.add_all(facts.untouched)
        self._parents.add_all(facts.earlier)
        self.report.sessions_left_out = dict.fromkeys(facts.waiting, WAITING)

    def _has_ghost(self, anchor: anchors.Anchor) -> bool:
        """Whether the session was sent under its provisional id once."""
        return not self._is_file and wire.context(anchor.context_id) in self._parents

    def _categories(self) -> Iterator[SourcedRecord]:
        """The anchors of categories, which events relate to: once, before the first event."""
        for name, context_id in wire.CATEGORIES.items():
            if self._is_file and self.report.since > 0:
                return
            if wire.context(context_id) not in self._parents:
                payload = wire.envelope("category", wire.encode({"name": name}))
                yield self.entry_of(anchors.Anchor("categories", context_id, payload, [], None))

    def entry_of(self, anchor: anchors.Anchor) -> SourcedRecord:
        return SourcedRecord(anchor.group, None, self._of_anchor(anchor))

    def events_at(self, position: int) -> Iterator[SourcedRecord]:
        """The record of the timeline event at `position`, where one is visible there."""
        yield from self._timeline(position, position + 1)

    def _timeline(self, since: int, until: int, session_id: str | None = None) -> Iterator[SourcedRecord]:
        for batch in self._view.batches(since, until, columns=_COLUMNS, session_id=session_id):
            for event in _rows(batch):
                event_type = event["event_type"]
                if event_type in _NOT_EVENTS:
                    continue
                if event["session_id"] in self._facts.waiting:
                    self.passed += 1
                elif event_type == "snapshot" and event["operation"] == "tool":
                    # S0-18: a snapshot is of a turn's start or end; file events show what was in between.
                    self.passed += 1
                    self._left_out["snapshot tool"] += 1
                elif self._types is not None and event_type not in self._types:
                    self.passed += 1
                    self._left_out[event_type] += 1
                else:
                    visible = self._redactor.leaving(self._settled.event(event))
                    yield SourcedRecord("events", event["position"], self._of_event(visible))

    def _of_anchor(self, anchor: anchors.Anchor) -> dict[str, Any]:
        names = self._redactor.leaving({"event_type": "file", "payload": anchor.payload})
        return self._record(
            anchor.group,
            anchor.event_kind,
            wire.context(anchor.context_id),
            anchor.source,
            self._paths.payload(str(names["payload"])),
            anchor.context_id,
            {"extends": [self._settled(link) for link in anchor.extends], "related_to": anchor.related_to},
            anchor.at,
        )

    def _of_event(self, event: dict[str, Any]) -> dict[str, Any]:
        event = _in_present_version(event)
        event_type, event_id = event["event_type"], event["event_id"]
        location = f"event {event_id}"
        columns = {name: value for name in _AS_KEYS if (value := event[name]) is not None}
        text = people.payload_within(self._people, event, event["payload"] or "{}", wire.decode)
        if event_type == "snapshot":
            columns["snapshot_type"] = columns.pop("operation", None)
            text = wire.envelope("codebase_snapshot", wire.with_columns(text, columns))
        else:
            if event_type == "error" and event["path"] is not None:
                columns["file"] = event["path"]  # S1-33: the key has this name on the wire
            if event_type == "file" and self._options.diffs:
                diff = self._diff(event)
                if diff is not None and (event["before_hash"] or event["after_hash"]):
                    columns = {**wire.lines_of(diff), **columns}
                text = self._paths.payload(wire.with_columns(text, columns))
                columns = {"diff": None if diff is None else self._paths.diff(diff)}
                location += "".join(f", {h}" for h in (event["before_hash"], event["after_hash"]) if h)
            text = wire.with_columns(text, columns)
        if "diff" not in columns:
            text = self._paths.payload(text)
        context_id, event = _in_own_context(event)
        return self._record(
            "events",
            wire.kind(event["event_kind"]),
            wire.context(context_id) or wire.context(context_of_event(event_type, event_id)),
            event["source"],
            text,
            location,
            event,
            happened_at(event),
        )

    def _record(
        self,
        group: str,
        kind: str,
        context_id: str,
        source: str | None,
        payload: str,
        location: str,
        links: Mapping[str, Any],
        happened_us: int | None,
    ) -> dict[str, Any]:
        fitted = wire.fit(payload, self._options.payload_bytes_max, location)
        linked = wire.links(self._parents.links(links))
        (self._parents.add_event if group == "events" else self._parents.add)(context_id)
        report = self.report
        report.records[group] = report.records.get(group, 0) + 1
        report.payloads_cut += fitted.cut
        report.links_left_out += linked.left_out
        return wire.record(self._graph_id, kind, context_id, source, fitted.text, linked, happened_us)

    @cached_property
    def _paths(self) -> LocalPaths:
        return LocalPaths.of(self._store, self._view)

    def _diff(self, event: dict[str, Any]) -> str | None:
        """The change of a file event as text, from contents that may leave (S1-31)."""
        hashes = (event["before_hash"], event["after_hash"])
        if not all(
            self._exposure.may_leave(str(content_hash)) for content_hash in hashes if content_hash is not None
        ):
            return None
        return diff_of({**event, "payload": wire.decode(str(event["payload"])) or {}}, self._store.blobs)


def _rows(batch: "pa.RecordBatch") -> Iterator[dict[str, Any]]:
    """The events of a batch, some at a time; times in microseconds."""
    import pyarrow as pa

    for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
        columns = []
        for column in batch.slice(start, _ROWS_AT_ONCE).columns:
            times = pa.types.is_timestamp(column.type)
            columns.append((column.cast(pa.int64()) if times else column).to_pylist())
        for values in zip(*columns, strict=True):
            yield dict(zip(_COLUMNS, values, strict=True))


def _in_own_context(event: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The context id of an event of a turn, and the event.

    Earlier versions gave all decisions, or all errors, that agents recorded over MCP the context of their
    category. On the wire that is the category's own context; each event gets one of its turn.
    """
    context_id = event["context_id"] or ""
    if context_id not in wire.CATEGORIES.values():
        return context_id, event
    session_id, turn, seq = event["session_id"], event["turn"], event["seq"]
    if session_id is None or seq is None:
        return "", event
    extends = [] if turn is None else [turn_context(session_id, turn)]
    return event_context(event["event_type"], session_id, turn or 0, seq), {**event, "extends": extends}


def _in_present_version(event: dict[str, Any]) -> dict[str, Any]:
    """The event upcast (I23); its payload is text, the stored one unless a step changed it."""
    if upcast.version_of(event) > len(upcast.STEPS):
        return event
    upcasted = upcast.upcast({**event, "payload": wire.decode(str(event["payload"]))})
    return {**upcasted, "payload": wire.encode(upcasted["payload"])}
