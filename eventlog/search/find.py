"""Looking for words in the log: ranked hits, each with the piece of text around the words.

Any number of processes may search beside writers; nothing of the log is locked. An answer covers the whole
log where time suffices: what the index lacks is indexed first, or, where it may not be written, looked
through in memory; else the answer says how many events it does not cover (P7).
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from eventlog.errors import EventLogError
from eventlog.paths import is_within
from eventlog.search import document, index, meaning, query, snippet
from eventlog.search.fill import FIRST_CONTENT, kept_rows
from eventlog.snapshots.ids import from_text

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.search.index import Searched
    from eventlog.search.meaning import Model
    from eventlog.search.query import Query

T = TypeVar("T")

LIMIT = 10
# For as long a search waits for the index.
WAIT_S = 5.0

# Ranked places looked at for one hit that is shown: other versions of a file, and what a filter spells alike.
_LOOKED_AT_PER_HIT = 20
_LOOKED_AT_MIN = 200

# Of two orders that are made one: how little the first few ranks differ (the usual constant).
_RANKS_LEVELLED = 60


@dataclass(frozen=True, slots=True)
class Filters:
    """What a hit must fit besides its words. `session` is the beginning of an id, `since` µs since 1970."""

    event_types: "tuple[str, ...]" = ()
    path: "str | None" = None
    session: "str | None" = None
    since: "int | None" = None


@dataclass(frozen=True, slots=True)
class Hit:
    """An event whose words fit, or (`is_content`) the file version that it made.

    `snippet` has the words at `marks`, pairs of (start, end); None when the content is not there any more.
    `versions` counts the versions of the path that fit, as far as was looked.
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

    @property
    def turn_name(self) -> "str | None":
        """The name of its turn, None outside of one."""
        return (
            None if self.session_id is None or self.turn_id is None else f"{self.session_id}_{self.turn_id}"
        )


@dataclass(slots=True)
class Answer:
    """Hits, the best first. `missing` events were not looked at; `why` says what kept them, if anything."""

    hits: "list[Hit]" = field(default_factory=list)
    more: bool = False
    missing: int = 0
    why: "str | None" = None


@dataclass(frozen=True, slots=True)
class Place:
    """A ranked place: an event, or a content (`content` is its number). Lower scores are better."""

    score: float
    position: int
    content: "int | None"
    source: sqlite3.Connection = field(compare=False)


def search(
    store: "Searched",
    wanted: "Query",
    filters: "Filters | None" = None,
    *,
    limit: int = LIMIT,
    seconds: "float | None" = WAIT_S,
    model: "Model | None" = None,
    writes: bool = True,
) -> Answer:
    """The best hits of a query; with a model also those that are near in meaning and hold none of its words.

    Args: writes: whether the index may be brought up to date; else it stays as it is, and what it lacks is
    looked through in memory. Raises: QueryError, Corruption of the log.
    """
    model = model if writes else None
    chosen = filters or Filters()
    return _asked(store, lambda: _search(store, wanted, chosen, limit, seconds, model, writes), mend=writes)


def _asked(store: "Searched", ask: "Callable[[], T]", *, mend: bool = True) -> T:
    """The answer; where the index turns out to be damaged and we may `mend` it, that of one made anew."""
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
    writes: bool = True,
) -> Answer:
    progress = index.update(store, seconds=seconds) if writes else index.as_it_is(store)
    if model is not None:
        index.give_vectors(store, model)
    with ExitStack() as stack:
        view = stack.enter_context(store.view())
        sources, missing = _sources(store, view, stack, progress, seconds)
        answer = Answer(missing=missing, why=progress.why if missing else None)
        found = _Found(store, view, wanted, filters)
        places = list(_ranked(sources, wanted, filters, limit))
        if model is not None:
            places = _fused(places, _near(sources, model, wanted, limit))
        for place in places:
            found.look_at(place)
            if len(found.hits) > limit:
                break
        answer.hits = list(found.hits.values())
        answer.more = len(answer.hits) > limit
        del answer.hits[limit:]
        return answer


def positions(
    store: "Searched", wanted: "Query", event_types: "Sequence[str]" = (), *, limit: int
) -> "list[int]":
    """The positions of the best events, the best first; contents of files are not looked at."""
    return _asked(store, lambda: _positions(store, wanted, Filters(tuple(event_types)), limit))


def _positions(store: "Searched", wanted: "Query", filters: Filters, limit: int) -> "list[int]":
    progress = index.update(store, seconds=WAIT_S)
    with ExitStack() as stack:
        view = stack.enter_context(store.view())
        sources, _ = _sources(store, view, stack, progress, WAIT_S)
        return [place.position for place in _ranked(sources, wanted, filters, limit, contents=False)][:limit]


def _sources(
    store: "Searched",
    view: "LogView",
    stack: ExitStack,
    progress: index.Progress,
    seconds: "float | None",
) -> "tuple[list[sqlite3.Connection], int]":
    """What is to be asked: the index, and where it could not be brought up to date one in memory."""
    found = stack.enter_context(index.reading(store.fs, store.layout, view.store_id))
    sources = [] if found is None else [found[0]]
    covered = 0 if found is None else found[1].position
    if progress.why is not None and covered < view.next_position and "full" not in progress.why:
        con, meta = index.in_memory(store, view, covered, seconds)
        sources.append(stack.enter_context(closing(con)))
        covered = meta.position
    return sources, max(0, view.next_position - covered)


def _ranked(
    sources: "Sequence[sqlite3.Connection]",
    wanted: "Query",
    filters: Filters,
    limit: int,
    *,
    contents: bool = True,
) -> "Iterator[Place]":
    """Places in the order of their scores; of equals the newer first."""
    facets = []
    if filters.event_types:
        facets.append(query.type_facet(filters.event_types))
    if filters.session is not None:
        facets.append(query.session_facet(filters.session))
    if filters.path is not None and (said := query.path_facet(filters.path)) is not None:
        facets.append(said)
    expression = wanted.expression(facets)
    count = max(_LOOKED_AT_MIN, (limit + 1) * _LOOKED_AT_PER_HIT)
    places = []
    for con in sources:
        first = _first_since(con, filters.since)
        until = FIRST_CONTENT << 1 if contents else FIRST_CONTENT - 1
        for doc, score in con.execute(
            _BEST,
            [expression, first, until, count],
        ):
            position, content = doc, None
            if doc >= FIRST_CONTENT:
                content = doc
                (position,) = con.execute("SELECT position FROM contents WHERE doc = ?", [doc]).fetchone()
            places.append(Place(score, position, content, con))
    places.sort(key=lambda place: (place.score, -place.position))
    return iter(places)


def _near(
    sources: "Sequence[sqlite3.Connection]", model: "Model", wanted: "Query", limit: int
) -> "list[Place]":
    """Places near in meaning, the nearest first."""
    text = " ".join(term.text for term in wanted.terms if not term.is_unwanted)
    count = max(_LOOKED_AT_MIN, limit * _LOOKED_AT_PER_HIT)
    found = [
        Place(-cosine, position, None, con)
        for con in sources
        for position, cosine in meaning.nearest(con, model, text, count)
        if cosine > 0
    ]
    return sorted(found, key=lambda place: (place.score, -place.position))


def _fused(words: "list[Place]", near: "list[Place]") -> "list[Place]":
    """Both orders in one: a place counts by the reciprocals of its ranks, which need no common measure."""
    scores: dict[tuple[int, int | None], float] = {}
    places: dict[tuple[int, int | None], Place] = {}
    for order in (words, near):
        for rank, place in enumerate(order):
            key = (place.position, place.content)
            scores[key] = scores.get(key, 0.0) + 1 / (_RANKS_LEVELLED + rank)
            places.setdefault(key, place)
    fused = [replace(place, score=-scores[key]) for key, place in places.items()]
    return sorted(fused, key=lambda place: (place.score, -place.position))


def _first_since(con: sqlite3.Connection, since: "int | None") -> int:
    """A position in front of which no event is that new."""
    if since is None:
        return 0
    (first,) = con.execute("SELECT min(first) FROM kept WHERE newest >= ?", [since]).fetchone()
    return FIRST_CONTENT if first is None else int(first)


_BEST = "SELECT rowid, rank FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank LIMIT ?"


class _Found:
    """The hits so far, versions of one path taken together."""

    def __init__(self, store: "Searched", view: "LogView", wanted: "Query", filters: Filters) -> None:
        self.hits: dict[object, Hit] = {}
        self._store = store
        self._view = view
        self._wanted = wanted
        self._filters = filters
        self._kept: dict[tuple[int, int], Any] = {}

    def look_at(self, place: Place) -> None:
        """Add the hit at a place if it fits the filters exactly."""
        row = self._row(place)
        if row is None or not self._fits(row):
            return
        is_content = place.content is not None
        if (
            is_content
            and place.source.execute("SELECT 1 FROM withheld WHERE hash = ?", [row["after_hash"]]).fetchone()
        ):
            return
        key = ("path", row["path"]) if is_content else row["position"]
        known = self.hits.get(key)
        if known is not None:
            # Versions resemble each other: the newest is the one to go on with.
            better = place.position > known.position
            self.hits[key] = self._hit(place, row, known.versions + 1) if better else _counted(known)
            return
        self.hits[key] = self._hit(place, row)

    def _row(self, place: Place) -> "dict[str, Any] | None":
        """What is kept of the event at a place."""
        found = place.source.execute(
            "SELECT first, last, data FROM kept WHERE first <= ? ORDER BY first DESC LIMIT 1",
            [place.position],
        ).fetchone()
        if found is None or found[1] < place.position:
            return None
        import pyarrow.compute as pc

        key = (id(place.source), found[0])
        table = self._kept.get(key)
        if table is None:
            table = self._kept[key] = kept_rows(found[2])
        at = pc.index(table["position"], place.position).as_py()
        if at < 0:
            return None
        row: dict[str, Any] = table.slice(at, 1).to_pylist()[0]
        row["at"] = row["recorded_at"] if row["occurred_at"] is None else row["occurred_at"]
        if place.content is not None:
            select = "SELECT coalesce(hash, ?) FROM contents WHERE doc = ?"
            (row["after_hash"],) = place.source.execute(select, [row["after_hash"], place.content]).fetchone()
        return row

    def _fits(self, row: "dict[str, Any]") -> bool:
        wanted = self._filters
        if wanted.event_types and row["event_type"] not in wanted.event_types:
            return False
        if wanted.session is not None and not (row["session_id"] or "").startswith(wanted.session):
            return False
        if wanted.since is not None and (row["at"] is None or row["at"] < wanted.since):
            return False
        path = wanted.path.rstrip("/") if wanted.path is not None else ""
        return not path or is_within(row["path"] or "", path)

    def _hit(self, place: Place, row: "dict[str, Any]", versions: int = 1) -> Hit:
        text, marks = self._content(row) if place.content is not None else self._said(row)
        cut: str | None = None
        spans: list[tuple[int, int]] = []
        if text is not None:
            cut, spans = snippet.cut(text, marks)
        shown = {name: row[name] for name in Hit.__slots__ if name in row}
        return Hit(
            **shown,
            is_content=place.content is not None,
            score=-place.score,
            snippet=cut,
            marks=tuple(spans),
            versions=versions,
        )

    def _said(self, row: "dict[str, Any]") -> "tuple[str, list[tuple[int, int, int]]]":
        """The text of an event in which words stand: its body, else its title or path."""
        texts = [row["body"]]
        if len(row["body"]) >= document.KEPT_SIZE_MAX:
            texts.append(self._whole_body(row))
        heads = " ".join(text for text in (row["title"], row["tool"], row["error_type"]) if text)
        best: tuple[str, list[tuple[int, int, int]]] = (row["body"] or heads or row["path"] or "", [])
        for text in (*texts, heads, row["path"] or ""):
            marks = self._wanted.marks(text)
            if len({mark[2] for mark in marks}) > len({mark[2] for mark in best[1]}):
                best = (text, marks)
        return best

    def _whole_body(self, row: "dict[str, Any]") -> str:
        at = row["position"]
        for event in self._view.iterate(at, at + 1, columns=("payload",)):
            return document.body_of(str(event["payload"] or ""), row["title"])
        return ""

    def _content(self, row: "dict[str, Any]") -> "tuple[str | None, list[tuple[int, int, int]]]":
        try:
            text = document.text_of(self._store.blobs.get(from_text(row["after_hash"])))
        except EventLogError:
            text = None  # collected since it was indexed
        return (None, []) if text is None else (text, self._wanted.marks(text))


def _counted(hit: Hit) -> Hit:
    return replace(hit, versions=hit.versions + 1)
