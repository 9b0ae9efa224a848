"""Searching the log for words: ranked hits, each with the piece of text around the words.

Any number of processes may search beside writers; nothing of the log is locked. An answer covers the whole
log where time suffices: events that the index lacks are indexed first, or in memory where the index may not
be written. Else the answer says how many events it does not cover (P7).
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from eventlog.base.errors import EventLogError
from eventlog.base.paths import is_within
from eventlog.base.types import Event
from eventlog.blobs.ids import from_text, to_text
from eventlog.blobs.payload_texts import PayloadTexts
from eventlog.projections.happened import happened_at
from eventlog.search import blocks, document, index, meaning, snippet
from eventlog.search.ranking import RankedHit, RankedIndex, ranked
from eventlog.search.tables import gaps

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.search.index import MemoryIndex, Searched
    from eventlog.search.meaning import Model
    from eventlog.search.query import Query

T = TypeVar("T")

LIMIT = 10
# How long a search waits for the index.
WAIT_S = 5.0

# Ranked candidates for each hit that is shown: most are other versions of one file.
_LOOKED_AT_PER_HIT = 20
_LOOKED_AT_MIN = 200

# The hexadecimal digits of a content's number that are also its id's.
_DIGITS = 15

# How little the first few ranks differ when two orders are merged (the usual constant).
_RANKS_LEVELLED = 60


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on a hit besides its words. `sessions` are the ids of the only ones, `without_sessions` of
    those that are left out; `since` is in µs since 1970."""

    event_types: "tuple[str, ...]" = ()
    path: "str | None" = None
    sessions: "tuple[str, ...] | None" = None
    since: "int | None" = None
    without_sessions: "frozenset[str]" = frozenset()


@dataclass(frozen=True, slots=True)
class Hit:
    """An event whose words match, or (`is_content`) the file version that it made.

    `snippet` has the words at `marks`, pairs of (start, end); None when the content was collected.
    `versions` counts the matching versions of the path among the candidates; `terms` are the numbers of the
    wanted terms that are anywhere in it.
    """

    position: int
    event_id: str
    event_type: str
    session_id: "str | None"
    turn: "int | None"
    turn_id: "str | None"
    at: "int | None"
    title: "str | None"
    tool: "str | None"
    path: "str | None"
    operation: "str | None"
    error_type: "str | None"
    after_hash: "str | None"
    is_content: bool
    score: float
    snippet: "str | None"
    marks: "tuple[tuple[int, int], ...]"
    versions: int = 1
    terms: "frozenset[int]" = frozenset()

    @property
    def turn_name(self) -> "str | None":
        """The name of its turn, None outside of one."""
        return (
            None if self.session_id is None or self.turn_id is None else f"{self.session_id}_{self.turn_id}"
        )


@dataclass(slots=True)
class SearchAnswer:
    """Hits, the best first. The oldest `missing` of the log's `events` were not searched, nor the contents
    that they name; `why` is the reason, if there is one.
    """

    hits: "list[Hit]" = field(default_factory=list)
    more: bool = False
    missing: int = 0
    events: int = 0
    why: "str | None" = None


def search(
    store: "Searched",
    wanted: "Query",
    filters: "Filters | None" = None,
    *,
    limit: int = LIMIT,
    seconds: "float | None" = WAIT_S,
    model: "Model | None" = None,
    writes: bool = True,
    memory: "MemoryIndex | None" = None,
) -> SearchAnswer:
    """The best hits of a query; with a model also those that are near in meaning and hold none of its words.

    Args: writes: whether the index may be brought up to date; else it stays as it is, and the events that it
    lacks are indexed in memory: in `memory`, where the caller keeps that for later searches. Raises:
    QueryError, Corruption of the log.
    """
    model = model if writes else None
    chosen = filters or Filters()
    with ExitStack() as stack:
        lent = memory or stack.enter_context(closing(index.MemoryIndex()))
        ask = partial(_search, store, wanted, chosen, limit, seconds, model, writes, lent)
        return _asked(store, ask, mend=writes)


def _asked(store: "Searched", ask: "Callable[[], T]", *, mend: bool = True) -> T:
    """The answer; if the index is damaged and may be mended (`mend`), the answer of a new one."""
    try:
        return ask()
    except sqlite3.DatabaseError as error:
        if not mend or isinstance(error, sqlite3.OperationalError) or not index.discard(store):
            raise EventLogError(
                f"{index.path_of(store.layout)}: the search index cannot be read ({error}). Nothing is lost: "
                "it is derived. Remove it, then search again."
            ) from error
        return ask()


def _search(
    store: "Searched",
    wanted: "Query",
    filters: Filters,
    limit: int,
    seconds: "float | None",
    model: "Model | None",
    writes: bool,
    memory: "MemoryIndex",
) -> SearchAnswer:
    progress = index.update(store, seconds=seconds) if writes else index.as_it_is(store)
    if model is not None:
        index.give_vectors(store, model)
    with ExitStack() as stack:
        view = stack.enter_context(store.view())
        sources, missing = _sources(store, view, stack, progress, memory, seconds)
        answer = SearchAnswer(
            missing=missing, why=progress.why if missing else None, events=view.next_position
        )
        admitted = _Admitting(filters)
        candidates = _ranked(sources, wanted, admitted, limit)
        if model is not None:
            candidates = _fused(candidates, _near(sources, model, wanted, limit, admitted))
        builder = _HitBuilder(store, view, wanted)
        answer.hits = builder.hits(candidates, limit + 1)
        answer.more = len(answer.hits) > limit
        del answer.hits[limit:]
        return answer


def _sources(
    store: "Searched",
    view: "LogView",
    stack: ExitStack,
    progress: index.IndexProgress,
    memory: "MemoryIndex",
    seconds: "float | None",
) -> "tuple[list[RankedIndex], int]":
    """The indexes to ask: the stored one and, where it could not be brought up to date, one in memory; and
    how many events are in neither.
    """
    stored_index = stack.enter_context(index.reading(store.fs, store.layout, view.store_id))
    sources = [] if stored_index is None else [RankedIndex(*stored_index)]
    covered = [] if stored_index is None else stored_index[1].stretches
    if progress.why not in (None, index.FULL) and gaps(covered, view.next_position):
        con, meta = memory.updated(store, view, covered, seconds)
        sources.append(RankedIndex(con, meta))
        covered = [*covered, *meta.stretches]
    withheld = frozenset[int]().union(*(source.withheld for source in sources))
    for source in sources:
        source.withheld = withheld
    return sources, sum(high - low for low, high in gaps(covered, view.next_position))


def _ranked(
    sources: "Sequence[RankedIndex]", wanted: "Query", admitted: "_Admitting", limit: int
) -> "list[RankedHit]":
    """Candidates in the order of their scores; of equals the newer first."""
    count = max(_LOOKED_AT_MIN, (limit + 1) * _LOOKED_AT_PER_HIT)
    candidates = [candidate for source in sources for candidate in ranked(source, wanted, admitted, count)]
    return sorted(candidates, key=lambda candidate: (candidate.score, -candidate.position))


class _Admitting:
    """Which events pass the filters, by the facts in their index."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._numbers: dict[tuple[int, int], frozenset[int] | None] = {}

    def __call__(self, source: RankedIndex, positions: "pa.Int64Array") -> "pa.Int64Array":
        wanted = self._filters
        if wanted == Filters():
            return positions
        rows = source.blocks.rows(positions, times=wanted.since is not None)
        for kind, column in ((blocks.TYPE, "type"), (blocks.SESSION, "session"), (blocks.PATH, "path")):
            numbers = self._named(source, kind)
            if numbers is not None:
                rows = rows.filter(pc.is_in(rows[column], value_set=pa.array(numbers, pa.uint32())))
        if wanted.since is not None:
            rows = rows.filter(pc.greater_equal(rows["time"], wanted.since))
        return rows["position"].combine_chunks()

    def _named(self, source: RankedIndex, kind: int) -> "frozenset[int] | None":
        """The numbers of the names that pass, None where all do."""
        key = (id(source), kind)
        if key not in self._numbers:
            fits = self._test(kind)
            self._numbers[key] = (
                None
                if fits is None
                else frozenset(number for number, name in source.names(kind) if fits(name))
            )
        return self._numbers[key]

    def _test(self, kind: int) -> "Callable[[str], bool] | None":
        wanted = self._filters
        if kind == blocks.TYPE:
            return wanted.event_types.__contains__ if wanted.event_types else None
        if kind == blocks.SESSION:
            sessions, without = wanted.sessions, wanted.without_sessions
            if sessions is None:
                return (lambda name: name not in without) if without else None
            return lambda name: name in sessions and name not in without
        path = document.clean((wanted.path or "").rstrip("/"))
        return (lambda name: is_within(name, path)) if path else None


def _near(
    sources: "Sequence[RankedIndex]", model: "Model", wanted: "Query", limit: int, admitted: "_Admitting"
) -> "list[RankedHit]":
    """Candidates near in meaning, the nearest first."""
    text = " ".join(term.text for term in wanted.terms if not term.is_unwanted)
    count = max(_LOOKED_AT_MIN, limit * _LOOKED_AT_PER_HIT)
    candidates = []
    for source in sources:
        near = {p: cosine for p, cosine in meaning.nearest(source.con, model, text, count) if cosine > 0}
        rows = source.blocks.rows(pa.array(sorted(near), pa.int64()))
        shown = admitted(source, rows["position"].combine_chunks()).to_pylist()
        candidates += [RankedHit(-near[p], p, None, source) for p in shown]
    return sorted(candidates, key=lambda candidate: (candidate.score, -candidate.position))


def _fused(words: "list[RankedHit]", near: "list[RankedHit]") -> "list[RankedHit]":
    """Both orders in one: the reciprocals of a candidate's ranks add up, which needs no common measure."""
    scores: dict[tuple[int, int | None], float] = {}
    candidates: dict[tuple[int, int | None], RankedHit] = {}
    for order in (words, near):
        for rank, candidate in enumerate(order):
            key = (candidate.position, candidate.path)
            scores[key] = scores.get(key, 0.0) + 1 / (_RANKS_LEVELLED + rank)
            candidates.setdefault(key, candidate)
    fused = [replace(candidate, score=-scores[key]) for key, candidate in candidates.items()]
    return sorted(fused, key=lambda candidate: (candidate.score, -candidate.position))


@dataclass(slots=True)
class _Group:
    """A candidate that is shown, and how many versions of its path match."""

    candidate: RankedHit
    versions: int = 1


_COLUMNS = (
    "position", "event_id", "event_type", "session_id", "turn", "turn_id", "occurred_at", "recorded_at",
    "title", "tool", "path", "operation", "error_type", "after_hash", "agent", "agent_session_id",
)  # fmt: skip


class _HitBuilder:
    """Makes hits of candidates: versions of one path are one hit, with the columns of its event."""

    def __init__(self, store: "Searched", view: "LogView", wanted: "Query") -> None:
        self._store = store
        self._payloads = PayloadTexts.of(view, store.blobs, size_max=document.MOVED_SIZE_MAX)
        self._view = view
        self._wanted = wanted
        self._rows: dict[int, Event] = {}

    def hits(self, candidates: "Sequence[RankedHit]", count: int) -> "list[Hit]":
        groups: dict[object, _Group] = {}
        if self._wanted.is_long:
            self._read([candidate.position for candidate in candidates])
            candidates = [candidate for candidate in candidates if self._holds(candidate)]
        for candidate in candidates:
            path = candidate.path
            key = candidate.position if path is None else ("path", candidate.source.name(path))
            group = groups.get(key)
            if group is None:
                groups[key] = _Group(candidate)
            else:
                group.versions += 1
                # Versions resemble each other: the newest is the most useful.
                if candidate.position > group.candidate.position:
                    group.candidate = candidate
            if len(groups) == count:
                break
        self._read([group.candidate.position for group in groups.values()])
        return [hit for group in groups.values() for hit in self._hit(group)]

    def _read(self, positions: "Sequence[int]") -> None:
        """Read the events at some positions: each row group with any once, as far as its last of them."""
        from eventlog.log.rows import rows_of

        wanted = frozenset(positions) - self._rows.keys()
        if not wanted:
            return
        for batch in self._view.batches(
            min(wanted), max(wanted) + 1, columns=(*_COLUMNS, "payload"), positions=wanted
        ):
            self._rows.update((int(str(row["position"])), row) for row in rows_of(batch))

    def _hit(self, group: _Group) -> "Iterator[Hit]":
        """The hit, none where the log no longer shows the event."""
        candidate = group.candidate
        row = self._rows.get(candidate.position)
        if row is None:
            return
        row = self._with_content(candidate, row)
        text, marks, terms = self._matching_text(row) if candidate.path is None else self._content(row)
        cut: str | None = None
        spans: list[tuple[int, int]] = []
        if text is not None:
            cut, spans = snippet.cut(text, marks)
        shown: dict[str, Any] = {name: row[name] for name in Hit.__slots__ if name in row}
        yield Hit(
            **shown,
            at=happened_at(row),
            is_content=candidate.path is not None,
            score=-candidate.score,
            snippet=cut,
            marks=tuple(spans),
            versions=group.versions,
            terms=terms,
        )

    def _with_content(self, candidate: RankedHit, row: Event) -> Event:
        """The event of a version, with the content that was stored later where the event names none."""
        if candidate.content is None or row["after_hash"] is not None:
            return row
        try:
            id = self._store.blobs.resolve(f"{candidate.content << 1:016x}"[:_DIGITS])
        except EventLogError:
            return row  # collected since
        return {**row, "after_hash": to_text(id)}

    def _matching_text(self, row: Event) -> "tuple[str, list[tuple[int, int, int]], frozenset[int]]":
        """The text of an event with the most terms (body, title, path), its marks, and the terms in any."""
        texts = self._texts(row)
        best: tuple[str, list[tuple[int, int, int]]] = (next(filter(None, texts), ""), [])
        terms: frozenset[int] = frozenset()
        for text in texts:
            marks = self._wanted.marks(text)
            terms |= {mark[2] for mark in marks}
            if len({mark[2] for mark in marks}) > len({mark[2] for mark in best[1]}):
                best = (text, marks)
        return *best, terms

    def _content(self, row: Event) -> "tuple[str | None, list[tuple[int, int, int]], frozenset[int]]":
        try:
            text = document.text_of(self._store.blobs.get(from_text(str(row["after_hash"]))))
        except EventLogError:
            text = None  # collected since it was indexed
        marks = [] if text is None else self._wanted.marks(text)
        return text, marks, frozenset(mark[2] for mark in marks)

    def _holds(self, candidate: RankedHit) -> bool:
        """Whether phrases that the index knows only by their beginnings are there in full."""
        row = self._rows.get(candidate.position)
        if row is None:
            return False
        row = self._with_content(candidate, row)
        texts = self._texts(row) if candidate.path is None else [self._content(row)[0] or ""]
        return self._wanted.holds_long("\n\ue000\n".join(texts))

    def _texts(self, row: Event) -> "list[str]":
        title = None if row["title"] is None else str(row["title"])
        body = document.body_of(self._payloads.fill_json(str(row["payload"] or "")), title)
        heads = " ".join(str(text) for text in (title, row["tool"], row["error_type"]) if text)
        return [body, heads, str(row["path"] or "")]
