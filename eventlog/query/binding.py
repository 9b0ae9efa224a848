"""The views of SQL on one connection, made as questions need them, from one snapshot of the log.

A connection begins empty. A question adds what it names and the connection lacks: the tail, a projection, a
view, a column that rests on other events. Nothing is made twice, also not for a later question about the same
snapshot, when the connection is locked: to connect and to fold a log of a few events takes longer than the
answer itself.

One connection, one thread.
"""

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import duckdb

from eventlog.base import config
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.types import COLUMN_NAMES
from eventlog.log import checked
from eventlog.log.manifest import Manifest
from eventlog.projections import fold, index, joins, lives, settled, source
from eventlog.projections.prefix import IndexedPrefix, SegmentsPrefix
from eventlog.projections.prepared import EVENTS_MAX, PreparedFold
from eventlog.query import added, costs, derived, instances, safe, views
from eventlog.query import functions as of_files
from eventlog.query.connection_cache import ConnectionCache
from eventlog.query.people import EVERYBODY, FULL, NO, OF_NAMES, People
from eventlog.query.results import Limits, Result

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.base.types import Event
    from eventlog.log.numbering import Prefix

_COLUMNS = frozenset(COLUMN_NAMES)

# The views that say of which log a row is, and the position that shows it.
_POSITIONS = {
    "events": "position",
    "llm_calls": "position",
    "turns": "first_position",
    "sessions": "first_position",
}

# A row of the tail costs some 50 µs through Python; importing pyarrow takes 60 ms.
_TAIL_BY_ROW_MAX = 3_000


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
    # Of several logs that are asked as one the name of each: views of `_POSITIONS` have it as `store_id`.
    homes: "tuple[str, ...]" = ()

    def key(self, limits: Limits) -> Hashable:
        """Equal for equal snapshots: they have the same events, whatever the files became meanwhile (I5)."""
        view = self.view
        log = view.manifest, view.journals, view.next_position
        return *log, limits.memory_bytes, limits.threads, self.people

    @property
    def has_files(self) -> bool:
        """Whether questions may read segments or an index, or too large a tail for a locked connection."""
        view = self.view
        return bool(view.manifest.number or view.segment_paths) or view.tail_count_raw > _TAIL_BY_ROW_MAX

    def binding(
        self, con: duckdb.DuckDBPyConnection, *, use_index: bool = True, timeout_s: "float | None" = None
    ) -> "Binding":
        """A first question on a new connection. Args: as `Binding`."""
        bound = Bound(con, self.view.segment_paths, self.people, self.homes, is_index_known=not use_index)
        return Binding(bound, self, timeout_s)

    def ensure(self) -> None:
        """Check every segment of the view, which DuckDB would not. Raises: Corruption."""
        checked.ensure(self.fs, self.layout, [entry for entry in self.view.manifest.segments if entry.rows])


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
    files: "list[str]"  # all segments; the connection may read no other files
    people: People = EVERYBODY
    homes: "tuple[str, ...]" = ()
    generation: "index.Generation | None" = None  # the index that is attached
    is_index_known: bool = False  # whether an index was sought: a locked connection can attach none
    made: set[str] = field(default_factory=set)  # names of the views
    folded: "dict[str, str]" = field(default_factory=dict)  # the folded projections, as `fold.exact`
    # Which of joins.DERIVED are tables: for one session, or for all (None).
    derived: "dict[str, str | None]" = field(default_factory=dict)
    tail: "str | None" = None  # the table of the tail, where there is one
    columns: "frozenset[str] | None" = None  # of `events`, also of the tail; None before the tail is loaded
    tail_concerns: bool = False  # whether an event of the tail can change a projection
    priced: "tuple[str | None] | None" = None  # the session whose calls have costs, (None,) for all of them
    counts: "str | None" = None  # the table of LINE_COUNTS, where there is one
    extras: frozenset[str] = frozenset()  # which of views.EXTRAS have their values
    has_people: bool = False  # whether the tables of `added.bind_people` are there
    idle_hours: "float | None" = None  # from the settings of the store
    fold: "PreparedFold | None" = None  # of an instance that another log had before
    instance: "instances.Instance | None" = None  # which another log without files may have next

    def close(self) -> None:
        if self.instance is None:
            self.con.close()
        else:
            instances.give_back(self.instance)

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
        self._grow(extras)
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
            self.con.execute(f"CREATE OR REPLACE VIEW {name} AS {self._with_home(name, select)}")
            self.made.add(name)

    def _grow(self, extras: frozenset[str]) -> None:
        """Drop the views that lack some of `extras` out of `made`."""
        grown = extras - self.extras
        self.extras |= grown
        self.made -= {name for extra in grown for name in views.EXTRAS[extra][0]}

    def _derive(self, wanted: "Collection[str]", session: "str | None") -> None:
        """Make tables of facts that events show about turns, for one session or for all."""
        if not wanted:
            return
        derived.make(self.con, wanted, session, self._anchors() if joins.OF_ANCHORS in wanted else "events")
        self.derived.update(dict.fromkeys(wanted, session))

    def _anchors(self) -> str:
        """The relation of events whose payloads are read only where they write an anchor."""
        if self.people.mode != FULL:
            return "events"  # which leaves out what may not be seen
        of_files = source.events_with_anchors(self.files, self.tail)
        self.con.execute(
            f"CREATE OR REPLACE VIEW {added.SCHEMA}.anchors AS "
            f"SELECT * EXCLUDE (anchor_payload) REPLACE (anchor_payload AS payload) FROM ({of_files})"
        )
        return f"{added.SCHEMA}.anchors"

    def _add_events(self, ensure: "Callable[[], None]") -> None:
        if "events" in self.made:
            return
        ensure()
        relation = source.events(self.files, self.tail)
        if views.PEOPLE in self.extras and self.people.mode != NO and not self.has_people:
            added.bind_people(self.con, relation, self.people)
            self.has_people = True
        relation = settled.events(relation) if views.SETTLED in self.extras else relation
        shown = added.events(relation, self.people, named=views.PEOPLE in self.extras)
        self.con.execute(f"CREATE OR REPLACE VIEW events AS {self._with_home('events', shown)}")
        self.made.add("events")

    def _with_home(self, name: str, select: str) -> str:
        """A view with the column `store_id`, where several logs are asked as one (lives.POSITION_BITS)."""
        if not self.homes or name not in _POSITIONS:
            return select
        homes = ", ".join(map(source.literal, self.homes))
        number = f"({_POSITIONS[name]} >> {lives.POSITION_BITS}) % {len(self.homes)}"
        return f"SELECT *, ([{homes}])[{number} + 1] AS store_id FROM ({select})"

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
    """What one question adds to a connection."""

    def __init__(self, bound: Bound, snapshot: Snapshot, timeout_s: "float | None" = None) -> None:
        """Args: timeout_s: how long lines may be counted."""
        self.bound = bound
        self.con = bound.con
        self.view = snapshot.view
        self.layout = snapshot.layout
        self.fs = snapshot.fs
        self.counting = snapshot.counting
        self.until_s = None if timeout_s is None else time.monotonic() + timeout_s
        self.waits = False  # an unknown count may become known without a new event
        self.checks = checked.Checks(snapshot.fs, snapshot.layout)

    @property
    def rows(self) -> int:
        """How many events the connection may hold in memory."""
        folded = self.bound.generation is None and self.bound.folded
        sealed = sum(entry.rows for entry in self.view.manifest.segments) if folded else 0
        return sealed + self.view.tail_count_raw

    def can_add(self, statement: safe.Statement) -> bool:
        """Whether a locked connection can get all that the statement needs."""
        if statement.lists_catalog or statement.functions & of_files.NAMES:
            return False
        named = _named(statement)
        if not named or self.bound.columns is None:
            return not named
        if not self.bound.is_index_known and self._unfolded(named, self._extras(statement)):
            return False
        return self._has_tail_for(statement) or self.view.tail_count_raw <= _TAIL_BY_ROW_MAX

    def bind(
        self, statement: safe.Statement, also: "Collection[str]" = (), session: "str | None" = None
    ) -> None:
        """Make every view that the statement names, those of `also`, and the relations that they need.

        Args: session: the only one that the statement asks for.
        """
        named = _named(statement) | set(also)
        if not named:
            return
        bound = self.bound
        if statement.lists_catalog and bound.fold is not None:
            bound.fold.drop()  # a list of tables is that of any log
            bound.fold = None
        extras = self._extras(statement)
        unfolded = self._unfolded(named, extras)
        self._prepare(sought=bool(unfolded or self.view.tail_count_raw))
        if bound.columns is None and not also and not _meant(statement) and named == {"events"}:
            self._bind_count()
            return
        if also or not self._has_tail_for(statement):
            meant = _COLUMNS if also or bound.columns is not None else _meant(statement)
            self._load_tail(meant if self.bound.people.mode == FULL else meant | OF_NAMES)
        if not fold.ACTIVE.isdisjoint(unfolded):
            bound.idle_hours = config.read(self.fs, self.layout).idle_hours
        if unfolded:
            bound.folded |= self._folded(unfolded)
        self._add_tables(extras - bound.extras, extras)
        if views.COST in extras:
            self._add_costs(extras, None if views.PRICES in named else session)
        bound.add(named, extras, self._ensure_all, session)

    def _extras(self, statement: safe.Statement) -> frozenset[str]:
        """Which of views.EXTRAS the statement can mean, as far as this store has them."""
        meant = extras_meant(statement)
        return meant if self.counting is not None else meant - {views.COUNTS}

    def _unfolded(self, named: "Collection[str]", extras: frozenset[str]) -> "list[str]":
        """The projections of `named` and `extras` that are not folded yet."""
        needed = {*named, "llm_calls"} if views.COST in extras else set(named)
        return [name for name in fold.PROJECTIONS if name in needed - self.bound.folded.keys()]

    def _has_tail_for(self, statement: safe.Statement) -> bool:
        return self.bound.columns is not None and _meant(statement) <= self.bound.columns

    def _prepare(self, *, sought: bool) -> None:
        """Attach the index where it is `sought`, and lend the connection to the view, to number the tail."""
        bound = self.bound
        if sought and not bound.is_index_known:
            bound.generation = index.attach(self.con, self.fs, self.layout, self.view.manifest)[0]
            bound.is_index_known = True
        if bound.columns is None:
            self.con.execute(f"CREATE SCHEMA {added.SCHEMA}; {fold.WORK}")
        if self.view.prefix is None or isinstance(self.view.prefix, IndexedPrefix):
            self.view.prefix = SegmentsPrefix(self.fs, self.layout, self.view.manifest, self.checks)
        if isinstance(self.view.prefix, SegmentsPrefix):
            self.view.prefix.lend(self.con, bound.generation)

    def _add_tables(self, grown: frozenset[str], extras: frozenset[str]) -> None:
        """Make the table of counts of lines, where it is new."""
        bound = self.bound
        if self.counting is not None and views.COUNTS in grown:
            bound.add({"events"}, extras, self._ensure_all)
            bound.counts = "memory.main.line_counts"
            self.waits = not bind_counts(self.con, bound.counts, self.counting, self.until_s)

    def _add_costs(self, extras: frozenset[str], session: "str | None") -> None:
        """Make the tables of what calls cost, of all or of the one session that is asked for."""
        bound = self.bound
        if bound.priced in ((None,), (session,)):
            return
        bound.add({"events"}, extras, self._ensure_all)
        self.con.execute(f"CREATE OR REPLACE VIEW {added.SCHEMA}.llm_calls AS {bound.plain('llm_calls')}")
        costs.bind(self.con, session)
        bound.priced = (session,)

    def _ensure_all(self) -> None:
        self.checks.ensure(entry for entry in self.view.manifest.segments if entry.rows)

    def _bind_count(self) -> None:
        """Make `events` for a statement that means no column of it: the manifest has their number."""
        sealed = sum(entry.rows for entry in self.view.manifest.segments)
        tail = self.view.tail_count if self.view.tail_count_raw else 0
        self.con.execute(f"CREATE VIEW events AS {source.blank(sealed + tail)}")
        self.bound.made.add("events")
        self.bound.columns = frozenset()

    def _load_tail(self, columns: "frozenset[str]") -> None:
        """Make the table of the tail, with these columns, and have `events` made over it."""
        self.bound.made.discard("events")
        if not self.view.tail_count_raw:
            self.bound.columns = _COLUMNS
            return
        table, rows = self.view.tail_parts(_TAIL_BY_ROW_MAX)
        self.bound.tail, self.bound.columns = "work.tail", columns
        self.bound.tail_concerns = table is not None or any(map(fold.concerns, rows))
        if table is None:
            self.con.execute("DROP TABLE IF EXISTS work.tail")
            source.load_tail(self.con, "work.tail", rows, columns)
            return
        self.con.execute("USE work")
        self.con.from_arrow(table).create_view("older")  # scanned in place, without a copy
        source.load_tail(self.con, "newest", rows, columns)
        self.con.execute("CREATE VIEW tail AS FROM older UNION ALL FROM newest")
        self.con.execute("USE memory")

    def _folded(self, wanted: "list[str]") -> "dict[str, str]":
        """The projections of `wanted`, folded, and those that come with them."""
        generation = self.bound.generation
        tail, known = self.bound.tail, self.bound.folded.keys()
        again, is_small = self.bound.fold, self.view.tail_count_raw <= EVENTS_MAX
        if again is not None and tail is not None and not known and is_small:
            return again.of(tail)
        if generation is None:
            self._ensure_all()
            every = f"({source.events_with_anchors(self.bound.files, tail)})"
            self.con.execute("CREATE SCHEMA IF NOT EXISTS memory.folded")
            fold.fold(self.con, every, wanted, "memory.folded", known=known)
            return fold.exact("memory.folded", fold.closure(wanted))
        segments = [e for e in self.view.manifest.segments if e.rows]
        self.checks.ensure(entry for entry in segments if entry.end > generation.next_position)
        newer, of_newer = source.after(self.layout, segments, generation.next_position)
        if not self.bound.tail_concerns and not newer:
            return fold.exact(generation.catalog, fold.PROJECTIONS)
        self.con.execute(
            f"CREATE OR REPLACE VIEW work.fresh AS {source.events_with_anchors(newer, tail, of_newer)}"
        )

        def history(first: "int | None") -> str:
            if first is None:
                return "work.fresh"
            entries = [entry for entry in segments if entry.end > first]
            self.checks.ensure(entries)
            paths = [self.layout.segment(entry.name) for entry in entries]
            return f"({source.events_with_anchors(paths, tail)})"

        return fold.merge(self.con, generation.catalog, "work.fresh", history, wanted, known)


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
