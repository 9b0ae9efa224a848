"""Answering one SELECT over the log: views on an in-memory DuckDB, bound to one snapshot of it.

Only the views that the statement names are bound: counting events touches neither the index nor a projection,
and nothing here imports pyarrow unless the caller wants Arrow. A projection comes from the index where one
fits, brought up to the log's end by folding the sessions that newer events touch (I21). Without an index, or
with a damaged one, it is folded from the events (I22).

A caller with more questions lends a `ConnectionCache`: the connection of an answer then serves the next
question about the same snapshot. Calls may run in several threads at once, each with its own view of the log;
none shares a connection.
"""

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import duckdb

from eventlog.base import config
from eventlog.base.errors import Corruption, QueryError
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.types import COLUMN_NAMES
from eventlog.log import checked
from eventlog.log.manifest import Manifest
from eventlog.projections import fold, index, joins, settled, source
from eventlog.projections.prefix import IndexedPrefix, SegmentsPrefix
from eventlog.query import added, costs, derived, safe, views
from eventlog.query import functions as of_files
from eventlog.query.connection_cache import ConnectionCache
from eventlog.query.people import EVERYBODY, FULL, NO, OF_NAMES, People
from eventlog.query.results import Limits, Result, arrow_within, rows_within

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.base.types import Event
    from eventlog.log.numbering import Prefix

__all__ = [
    "Answering",
    "Binding",
    "Bound",
    "Counting",
    "Limits",
    "Parameters",
    "Result",
    "Snapshot",
    "arrow_within",
    "asking_on",
    "bind_counts",
    "deadline",
    "extras_meant",
    "rows_within",
    "run",
    "table",
    "too_long",
]

_Answer = TypeVar("_Answer")
_INTERRUPT_AGAIN_S = 0.05
_COLUMNS = frozenset(COLUMN_NAMES)

# A row of the tail costs some 50 µs through Python; importing pyarrow takes 60 ms.
_TAIL_BY_ROW_MAX = 3_000

# A connection that may hold data of more events than these in memory is not cached.
_CACHED_ROWS_MAX = 20_000
Parameters = Sequence[Any] | Mapping[str, Any] | None


class View(Protocol):
    """The part of a pinned view of the log that a query needs."""

    prefix: "Prefix | None"

    @property
    def manifest(self) -> Manifest: ...
    @property
    def segment_paths(self) -> "list[str]": ...
    @property
    def journals(self) -> "list[int]": ...
    @property
    def next_position(self) -> int: ...
    @property
    def tail_count_raw(self) -> int: ...
    @property
    def tail_count(self) -> int: ...
    def tail_parts(self, rows_max: int) -> "tuple[pa.Table | None, list[Event]]": ...
    def tail_table(self) -> "pa.Table": ...


# Makes the answers of the SQL functions, from a way to ask about the same snapshot of the log.
Answering = Callable[[of_files.Ask], of_files.Answers]


class Counting(Protocol):
    """Counts the lines of changes whose events state none."""

    def __call__(self, pairs: Iterable[views.Pair]) -> Iterable["tuple[int | None, int | None] | None"]:
        """Lines added and removed, in the given order: None where a content is absent, two of it where one is
        binary."""

    def deferred(self, ask: of_files.Ask) -> Iterable["tuple[views.Pair, views.Pair]"]:
        """For each change whose contents were deferred and are stored by now: its key in LINE_COUNTS, and the
        hashes of these contents."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What questions are about: a pinned view of the log of a store, and what that store lends.

    Without `answering` they cannot call functions of files. `cache` is for the connection; without one it is
    closed after each question. `counting`: for lines of changes whose events do not state them; without one
    they are unknown. `people`: how much a question may see of them.
    """

    view: View
    layout: Layout
    fs: FileSystem
    answering: "Answering | None" = None
    cache: "ConnectionCache[Bound] | None" = None
    counting: "Counting | None" = None
    people: People = EVERYBODY

    def key(self, limits: Limits) -> Hashable:
        """Equal for equal snapshots: they have the same events, whatever the files became meanwhile (I5)."""
        view = self.view
        log = view.manifest, view.journals, view.next_position
        return *log, limits.memory_bytes, limits.threads, self.people

    def ensure(self) -> None:
        """Check every segment of the view, which DuckDB would not. Raises: Corruption."""
        checked.ensure(self.fs, self.layout, [entry for entry in self.view.manifest.segments if entry.rows])


@dataclass(frozen=True, slots=True)
class _Question(Generic[_Answer]):
    """A statement, its limits, and how its answer is read."""

    sql: str
    parameters: Parameters
    limits: Limits
    read: "Callable[[duckdb.DuckDBPyRelation], _Answer]"


def run(
    snapshot: Snapshot, sql: str, parameters: Parameters = None, limits: "Limits | None" = None
) -> Result:
    """The answer to one SELECT, in safe mode.

    Raises: QueryError (wrong, or beyond its limits), Refused (not a plain SELECT), Corruption.
    """
    limits = limits or Limits()
    return _answer(snapshot, _Question(sql, parameters, limits, rows_within(limits)))


def table(
    snapshot: Snapshot, sql: str, parameters: Parameters = None, limits: "Limits | None" = None
) -> "pa.Table":
    """The answer to one SELECT as an Arrow table. Raises: as `run`."""
    limits = limits or Limits()
    return _answer(snapshot, _Question(sql, parameters, limits, arrow_within(limits)))


def _answer(snapshot: Snapshot, question: "_Question[_Answer]") -> "_Answer":
    """The answer on the cached connection, else on a new one; without the index where that may be damaged."""
    key = snapshot.key(question.limits)
    before = None if snapshot.cache is None else snapshot.cache.take(key)
    if before is not None and (again := _ask_again(snapshot, before, question)) is not None:
        return again[0]
    try:
        return _ask_anew(snapshot, question, before, use_index=True)
    except _IndexError:
        return _ask_anew(snapshot, question, before, use_index=False)


class _IndexError(Exception):
    """The index may be damaged; the log has everything that it has."""


def _ask_again(snapshot: Snapshot, bound: "Bound", question: "_Question[_Answer]") -> "tuple[_Answer] | None":
    """The answer of a connection that has answered before; None where it does not fit, or fails."""
    answer = None
    limits = question.limits
    try:
        with deadline(bound.con, limits.timeout_s):
            statement = safe.check(bound.con, question.sql)
            if bound.fits(statement):
                session = statement.session_id(question.parameters)
                extras = extras_meant(statement) & views.LATER
                bound.add(_named(statement), extras, snapshot.ensure, session)
                answer = (question.read(bound.con.sql(statement.sql, params=question.parameters)),)
    except duckdb.InterruptException as error:
        raise too_long(limits) from error
    except source.ERRORS:
        pass  # a new connection reports the error, or works without the index
    finally:
        if answer is None:
            bound.close()
    if answer is not None and snapshot.cache is not None:
        snapshot.cache.put(snapshot.key(limits), bound)
    return answer


def _ask_anew(
    snapshot: Snapshot, question: "_Question[_Answer]", before: "Bound | None", *, use_index: bool
) -> "_Answer":
    """The answer of a new connection. Args: before: the views that did not suffice.

    Raises: _IndexError, and as `run`.
    """
    limits, answering = question.limits, snapshot.answering
    binding = Binding(source.connect(), snapshot, use_index=use_index, timeout_s=limits.timeout_s)
    functions: of_files.Functions | None = None
    statement = relation = None
    bound = cacheable = False
    try:
        with deadline(binding.con, limits.timeout_s):
            statement = safe.check(binding.con, question.sql)
            called = statement.functions & of_files.NAMES if answering is not None else frozenset[str]()
            session = None if called else statement.session_id(question.parameters)
            binding.bind(statement, of_files.VIEWS if called else (), before, session)
            if called and answering is not None:
                functions = of_files.Functions(answering(asking_on(binding.con.cursor())))
                functions.bind(binding.con, called)
            bound = True
            safe.lock(binding.con, binding.files, memory_bytes=limits.memory_bytes, threads=limits.threads)
            relation = binding.con.sql(statement.sql, params=question.parameters)
            answer = question.read(relation)
        cacheable = not called and not statement.lists_catalog and binding.rows <= _CACHED_ROWS_MAX
        cacheable = cacheable and not binding.waits
        return answer
    except duckdb.InterruptException as error:
        raise too_long(limits) from error
    except source.ERRORS as error:
        if functions is not None and functions.failure is not None:
            raise functions.failure from error
        segments = snapshot.view.manifest.segments
        store_error = source.translated(error, snapshot.fs, snapshot.layout, segments, of_ours=not bound)
        if isinstance(store_error, Corruption):
            raise store_error from error
        if binding.generation is not None and source.may_be_damage(error, of_ours=not bound):
            raise _IndexError from error
        if isinstance(error, duckdb.Error):
            raise safe.explain_error(error, views.NAMES, question.sql, statement, relation) from error
        raise store_error from error
    finally:
        if isinstance(snapshot.view.prefix, SegmentsPrefix):
            snapshot.view.prefix.give_back()
        if snapshot.cache is not None and cacheable:
            snapshot.cache.put(snapshot.key(limits), binding.bound)
        else:
            binding.con.close()


def too_long(limits: Limits) -> QueryError:
    """The error of a question that its deadline ended."""
    return QueryError(
        f"the query was stopped after {limits.timeout_s:g} s. Ask for less, or raise the limit "
        "(`locus sql --timeout SECONDS`)."
    )


def asking_on(beside: duckdb.DuckDBPyConnection) -> of_files.Ask:
    """A way to ask about the same views on a connection of its own. One thread at a time."""

    def ask(sql: str, parameters: Sequence[Any]) -> Result:
        relation = beside.execute(sql, list(parameters) or None)
        columns = relation.description or []
        names = tuple(str(column[0]) for column in columns)
        return Result(names, tuple(str(column[1]) for column in columns), relation.fetchall())

    return ask


@dataclass(slots=True)
class Bound:
    """A connection with our views; it is locked once it has answered."""

    con: duckdb.DuckDBPyConnection
    files: "list[str]"  # that the views read
    made: set[str] = field(default_factory=set)  # names of the views
    folded: "dict[str, str]" = field(default_factory=dict)  # the folded projections, as `fold.exact`
    # Which of joins.DERIVED are tables: for one session, or for all (None).
    derived: "dict[str, str | None]" = field(default_factory=dict)
    tail: "str | None" = None  # the table of the tail, where there is one
    columns: "frozenset[str] | None" = None  # of `events`, also of the tail; None before the tail is loaded
    counts: "str | None" = None  # the table of LINE_COUNTS, where there is one
    extras: frozenset[str] = frozenset()  # which of views.EXTRAS have their values
    people: People = EVERYBODY
    idle_hours: "float | None" = None  # from the settings of the store

    def close(self) -> None:
        self.con.close()

    def fits(self, statement: safe.Statement) -> bool:
        """Whether all views that the statement names exist, or can be made over `events`."""
        if statement.lists_catalog or statement.functions & of_files.NAMES:
            return False
        if not extras_meant(statement) <= self.extras | views.LATER:
            return False
        named = _named(statement)
        others = named - set(fold.PROJECTIONS)
        if not named - others <= self.folded.keys():
            return False
        return not others or (self.columns is not None and _meant(statement) <= self.columns)

    def add(
        self,
        named: "Collection[str]",
        extras: frozenset[str],
        ensure: "Callable[[], None]",
        session: "str | None" = None,
    ) -> None:
        """Make the views of `named` that are missing, or that lack some of `extras`.

        Args: ensure: checks that all segments are valid, before the first view over them; session: the only
        one that the statement asks for.
        """
        grown = extras - self.extras
        self.extras |= grown
        self.made -= {name for extra in grown for name in views.EXTRAS[extra][0]}
        names = set(named) - self.made
        projections = set(named) & set(fold.PROJECTIONS)
        needed = {table for name in projections for table in joins.needed(name, extras)}
        missing = {table for name in projections & names for table in joins.needed(name, self.extras)}
        wanted = {table for table in needed if self.derived.get(table, "") not in (None, session)}
        wanted |= missing - self.derived.keys()
        if names - set(fold.STORED) or wanted or self.extras & {views.PEOPLE, views.COST}:
            self._add_events(ensure)
        own = wanted & joins.OF_SESSIONS if session is not None else frozenset[str]()
        self._derive(own, session)
        self._derive(wanted - own, None)
        for name in sorted(names - {"events"}):
            if name in projections:
                select = self._projection(name)
            else:
                select = views.over_events(name, counts=self.counts, extras=self.extras)
            self.con.execute(f"CREATE OR REPLACE VIEW {name} AS {select}")
            self.made.add(name)

    def _derive(self, wanted: "Collection[str]", session: "str | None") -> None:
        """Make tables of facts that events show about turns, for one session or for all."""
        if wanted:
            derived.make(self.con, wanted, session)
            self.derived.update(dict.fromkeys(wanted, session))

    def _add_events(self, ensure: "Callable[[], None]") -> None:
        if "events" in self.made:
            return
        ensure()
        relation = source.events(self.files, self.tail)
        if views.PEOPLE in self.extras and self.people.mode != NO:
            added.bind_people(self.con, relation, self.people)
        relation = settled.events(relation) if views.SETTLED in self.extras else relation
        shown = added.events(relation, self.people, named=views.PEOPLE in self.extras)
        self.con.execute(f"CREATE VIEW events AS {shown}")
        self.made.add("events")

    def plain(self, name: str) -> str:
        """The query of a projection without the columns of `added`."""
        return fold.shown(
            name, self.folded, "events", f"{added.SCHEMA}.{{}}".format, self.extras, self.idle_hours
        )

    def _projection(self, name: str) -> str:
        named, priced = views.PEOPLE in self.extras, views.COST in self.extras
        return added.projection(name, self.plain(name), self.people, named=named, priced=priced)


def _named(statement: safe.Statement) -> set[str]:
    """The views that a statement means."""
    return set(views.NAMES) if statement.lists_catalog else set(statement.tables & set(views.NAMES))


def _meant(statement: safe.Statement) -> frozenset[str]:
    """The columns of events that a statement can mean, also through other views."""
    columns = statement.columns
    plain = columns is not None and _named(statement) == {"events"} and columns <= _COLUMNS
    if columns is None or not plain:
        return _COLUMNS
    return columns | settled.READ if views.SETTLED in extras_meant(statement) else columns


def extras_meant(statement: safe.Statement) -> frozenset[str]:
    """Which of views.EXTRAS a statement can mean."""
    meant = {
        name for name, names_and_columns in views.EXTRAS.items() if _means(statement, *names_and_columns)
    }
    return frozenset(meant | ({views.COST} if views.PRICES in _named(statement) else set()))


def _means(statement: safe.Statement, names: frozenset[str], columns: frozenset[str]) -> bool:
    """Whether a statement can mean one of these columns of one of these views."""
    is_named = statement.lists_catalog or bool(statement.tables & names)
    return is_named and (statement.columns is None or bool(statement.columns & columns))


class Binding:
    """The views on one connection, made as a statement needs them."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        snapshot: Snapshot,
        *,
        use_index: bool,
        timeout_s: "float | None" = None,
    ) -> None:
        """Args: timeout_s: how long lines may be counted."""
        self.con = con
        self.view = snapshot.view
        self.layout = snapshot.layout
        self.fs = snapshot.fs
        self.use_index = use_index
        self.counting = snapshot.counting
        self.until_s = None if timeout_s is None else time.monotonic() + timeout_s
        self.waits = False  # an unknown count may become known without a new event
        self.generation: index.Generation | None = None
        self.bound = Bound(con, snapshot.view.segment_paths, people=snapshot.people)
        self.checks = checked.Checks(snapshot.fs, snapshot.layout)
        self.tail_concerns = False  # whether an event of the tail can change a projection

    @property
    def files(self) -> "list[str]":
        return self.bound.files

    @property
    def rows(self) -> int:
        """How many events the connection may hold in memory."""
        folded = self.generation is None and self.bound.folded
        sealed = sum(entry.rows for entry in self.view.manifest.segments) if folded else 0
        return sealed + self.view.tail_count_raw

    def bind(
        self,
        statement: safe.Statement,
        also: "Collection[str]" = (),
        before: "Bound | None" = None,
        session: "str | None" = None,
    ) -> None:
        """Make every view that the statement names, those of `also`, and the relations that they need.

        Args: before: the views for an earlier question, which did not suffice; session: the only one that the
        statement asks for.
        """
        named = _named(statement) | set(also)
        if not named:
            return
        extras = extras_meant(statement) | (before.extras if before is not None else frozenset())
        self.bound.extras = extras = extras if self.counting is not None else extras - {views.COUNTS}
        folded_before = set() if before is None else before.folded.keys()
        projections = [name for name in fold.PROJECTIONS if name in named | folded_before]
        if views.COST in extras and "llm_calls" not in projections:
            projections.append("llm_calls")
        if self.use_index and (projections or self.view.tail_count_raw):
            self.generation = index.attach(self.con, self.fs, self.layout, self.view.manifest)[0]
        if self.view.prefix is None or isinstance(self.view.prefix, IndexedPrefix):
            self.view.prefix = SegmentsPrefix(self.fs, self.layout, self.view.manifest, self.checks)
        if isinstance(self.view.prefix, SegmentsPrefix):
            self.view.prefix.lend(self.con, self.generation)
        if before is None and not also and not _meant(statement) and named == {"events"}:
            self._bind_count()
            return
        meant = _COLUMNS if also or before is not None else _meant(statement)
        self._load_tail(meant if self.bound.people.mode == FULL else meant | OF_NAMES)
        bound = self.bound
        if not fold.ACTIVE.isdisjoint(projections):
            bound.idle_hours = config.read(self.fs, self.layout).idle_hours
        self.con.execute(f"CREATE SCHEMA {added.SCHEMA}")
        if projections:
            bound.folded = self._folded(projections)
        if views.COST in extras:
            bound.add({"events"}, extras, self._ensure_all)
            self.con.execute(f"CREATE VIEW {added.SCHEMA}.llm_calls AS {bound.plain('llm_calls')}")
            costs.bind(self.con)
        if self.counting is not None and views.COUNTS in extras:
            bound.add({"events"}, extras, self._ensure_all)
            self.bound.counts = "memory.main.line_counts"
            self.waits = not bind_counts(self.con, self.bound.counts, self.counting, self.until_s)
        bound.add(named, extras_meant(statement) | extras, self._ensure_all, session)

    def _ensure_all(self) -> None:
        self.checks.ensure(entry for entry in self.view.manifest.segments if entry.rows)

    def _bind_count(self) -> None:
        """Make `events` for a statement that means no column of it: the manifest has their number."""
        sealed = sum(entry.rows for entry in self.view.manifest.segments)
        tail = self.view.tail_count if self.view.tail_count_raw else 0
        self.con.execute(f"CREATE VIEW events AS {source.blank(sealed + tail)}")
        self.bound = Bound(self.con, [], {"events"}, columns=frozenset())

    def _load_tail(self, columns: "frozenset[str]") -> None:
        if not self.view.tail_count_raw:
            self.bound.columns = _COLUMNS
            return
        self.con.execute(fold.WORK)
        table, rows = self.view.tail_parts(_TAIL_BY_ROW_MAX)
        self.tail_concerns = table is not None or any(map(fold.concerns, rows))
        self.bound.tail, self.bound.columns = "work.tail", columns
        if table is None:
            source.load_tail(self.con, "work.tail", rows, columns)
            return
        self.con.execute("USE work")
        self.con.from_arrow(table).create_view("older")  # scanned in place, without a copy
        source.load_tail(self.con, "newest", rows, columns)
        self.con.execute("CREATE VIEW tail AS FROM older UNION ALL FROM newest")
        self.con.execute("USE memory")

    def _folded(self, wanted: "list[str]") -> "dict[str, str]":
        """The folded projections, and those that come with them."""
        generation = self.generation
        tail = self.bound.tail
        if generation is None:
            self._ensure_all()
            every = f"({source.events_with_anchors(self.files, tail)})"
            self.con.execute("CREATE SCHEMA memory.folded")
            fold.fold(self.con, every, wanted, "memory.folded")
            return fold.exact("memory.folded", fold.closure(wanted))
        segments = [e for e in self.view.manifest.segments if e.rows]
        self.checks.ensure(entry for entry in segments if entry.end > generation.next_position)
        newer, of_newer = source.after(self.layout, segments, generation.next_position)
        if not self.tail_concerns and not newer:
            return fold.exact(generation.catalog, fold.PROJECTIONS)
        self.con.execute(fold.WORK)
        self.con.execute(f"CREATE VIEW work.fresh AS {source.events_with_anchors(newer, tail, of_newer)}")

        def history(first: "int | None") -> str:
            if first is None:
                return "work.fresh"
            entries = [entry for entry in segments if entry.end > first]
            self.checks.ensure(entries)
            paths = [self.layout.segment(entry.name) for entry in entries]
            return f"({source.events_with_anchors(paths, tail)})"

        return fold.merge(self.con, generation.catalog, "work.fresh", history, wanted)


def bind_counts(
    con: duckdb.DuckDBPyConnection, table: str, counting: Counting, until_s: "float | None" = None
) -> bool:
    """Make a table of LINE_COUNTS for all changes in `events` that have contents and state no lines.

    False when a content is not in the store, so that a count may become known without a new event.
    Raises: duckdb.InterruptException at `until_s`, a monotonic time.
    """
    keys = pairs = con.execute(views.PAIRS).fetchall()
    deferred = list(counting.deferred(asking_on(con)))
    if deferred:
        keys = pairs + [key for key, _ in deferred]
        pairs = pairs + [pair for _, pair in deferred]
    rows = []
    for (old, new, whole), counts in zip(keys, counting(pairs), strict=True):
        if until_s is not None and time.monotonic() > until_s:
            raise duckdb.InterruptException("counting lines took too long")
        if counts is not None:
            rows.append((old or "", new or "", whole, *counts))
    con.execute(f"CREATE TABLE {table} ({views.LINE_COUNTS})")
    if rows:
        con.execute(
            f"INSERT INTO {table} SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[]), unnest(?::BOOLEAN[]), "
            "unnest(?::BIGINT[]), unnest(?::BIGINT[])",
            [list(column) for column in zip(*rows, strict=True)],
        )
    return len(rows) == len(pairs)


@contextmanager
def deadline(con: duckdb.DuckDBPyConnection, timeout_s: "float | None") -> Iterator[None]:
    """Interrupt the statement on `con` when the time is over."""
    if timeout_s is None:
        yield
        return
    done = threading.Event()

    def interrupt() -> None:
        wait_s = timeout_s
        while not done.wait(wait_s):
            con.interrupt()  # without effect between two statements, hence repeated
            wait_s = _INTERRUPT_AGAIN_S

    watch = threading.Thread(target=interrupt, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()  # the connection is closed next, and must not be interrupted after that
