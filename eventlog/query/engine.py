"""Answering one SELECT over the log: views on an in-memory DuckDB that is gone afterwards.

Only what the statement names is bound: counting events touches neither the index nor a projection, and
nothing here imports pyarrow unless Arrow is asked for. A projection is taken from the index where one
fits, brought up to the log's end by folding the sessions that newer events touch (I21); without an
index, or with one that turns out damaged, it is folded from the events (I22).

One call, one connection; calls may run in several threads at once, each with its own view of the log.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import duckdb

from eventlog.errors import Corruption, QueryError
from eventlog.fs import FileSystem
from eventlog.layout import Layout
from eventlog.log.manifest import Manifest
from eventlog.projections import fold, index, source
from eventlog.projections.prefix import IndexedPrefix, SegmentsPrefix
from eventlog.query import functions as of_files
from eventlog.query import safe, views
from eventlog.types import COLUMN_NAMES

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.numbering import Prefix
    from eventlog.types import Event

_Answer = TypeVar("_Answer")
_INTERRUPT_AGAIN_S = 0.05
_COLUMNS = frozenset(COLUMN_NAMES)

# A row of the tail costs some 50 µs by way of Python, and pyarrow 60 ms to import.
_TAIL_BY_ROW_MAX = 3_000
Parameters = Sequence[Any] | Mapping[str, Any] | None


class View(Protocol):
    """What a query needs of a pinned view of the log."""

    prefix: "Prefix | None"

    @property
    def manifest(self) -> Manifest: ...
    @property
    def segment_paths(self) -> "list[str]": ...
    @property
    def tail_count_raw(self) -> int: ...
    @property
    def tail(self) -> "list[Event]": ...
    def tail_table(self) -> "pa.Table": ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use.

    A result of more than `rows_max` rows is an error, never a silent cut; with `truncate` it is cut and
    says so in `Result.truncated`. Time counts from the call; None is without end.
    """

    rows_max: int = 1_000_000
    truncate: bool = False
    timeout_s: "float | None" = 300.0
    memory_bytes: int = 2 << 30
    threads: "int | None" = None


# Makes what the functions of SQL answer, for a way to ask about the same moment of the log.
Answering = Callable[[of_files.Ask], of_files.Answers]


@dataclass(frozen=True, slots=True)
class Result:
    """An answer: names and SQL types of the columns, and the rows. Times are aware datetimes in UTC."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool = False

    def arrow(self) -> "pa.Table":
        """The same answer as an Arrow table; `engine.table` makes one without the detour through rows."""
        return _arrow_of(self)


def run(
    view: View,
    layout: Layout,
    fs: FileSystem,
    sql: str,
    parameters: Parameters = None,
    limits: "Limits | None" = None,
    answering: "Answering | None" = None,
) -> Result:
    """The answer to one SELECT, in safe mode. Without `answering` it cannot call functions of files.

    Raises: QueryError (wrong, or beyond its limits), Refused (not a plain SELECT), Corruption.
    """
    limits = limits or Limits()
    return _answer(view, layout, fs, sql, parameters, limits, rows_within(limits), answering)


def table(
    view: View,
    layout: Layout,
    fs: FileSystem,
    sql: str,
    parameters: Parameters = None,
    limits: "Limits | None" = None,
    answering: "Answering | None" = None,
) -> "pa.Table":
    """The answer to one SELECT as an Arrow table. Raises: as `run`."""
    limits = limits or Limits()
    return _answer(view, layout, fs, sql, parameters, limits, arrow_within(limits), answering)


def rows_within(limits: Limits) -> "Callable[[duckdb.DuckDBPyRelation], Result]":
    """What makes a Result of a relation."""

    def rows(relation: duckdb.DuckDBPyRelation) -> Result:
        columns, types = tuple(relation.columns), tuple(map(str, relation.types))
        found = _python_rows(relation, types, limits.rows_max + 1)
        if len(found) > limits.rows_max:
            _check_truncation(limits)
            return Result(columns, types, found[: limits.rows_max], truncated=True)
        return Result(columns, types, found)

    return rows


def arrow_within(limits: Limits) -> "Callable[[duckdb.DuckDBPyRelation], pa.Table]":
    """What makes an Arrow table of a relation."""

    def arrow(relation: duckdb.DuckDBPyRelation) -> "pa.Table":
        found = relation.limit(limits.rows_max + 1).to_arrow_table().rename_columns(relation.columns)
        if found.num_rows > limits.rows_max:
            _check_truncation(limits)
            return found.slice(0, limits.rows_max)
        return found

    return arrow


def _answer(
    view: View,
    layout: Layout,
    fs: FileSystem,
    sql: str,
    parameters: Parameters,
    limits: Limits,
    read: "Callable[[duckdb.DuckDBPyRelation], _Answer]",
    answering: "Answering | None",
) -> "_Answer":
    """Bind, lock, execute, and give what `read` makes of the relation."""
    for use_index in (True, False):
        with source.connect() as con, deadline(con, limits.timeout_s):
            statement = safe.check(con, sql)
            called = statement.functions & of_files.NAMES if answering is not None else frozenset[str]()
            binding = Binding(con, view, layout, fs, use_index=use_index)
            made: of_files.Functions | None = None
            bound = False
            try:
                binding.bind(statement, of_files.VIEWS if called else ())
                if called and answering is not None:
                    made = of_files.Functions(answering(asking_on(con.cursor())))
                    made.bind(con, called)
                bound = True
                safe.lock(con, binding.files, memory_bytes=limits.memory_bytes, threads=limits.threads)
                relation = con.sql(statement.sql, params=parameters)
                return read(relation)
            except duckdb.InterruptException as error:
                raise too_long(limits) from error
            except source.ERRORS as error:
                if made is not None and made.failure is not None:
                    raise made.failure from error
                segments = view.manifest.segments
                found = source.translated(error, fs, layout, segments, of_ours=not bound)
                if isinstance(found, Corruption):
                    raise found from error
                if binding.generation is not None and source.may_be_damage(error, of_ours=not bound):
                    continue  # the log has everything the index has
                if isinstance(error, duckdb.Error):
                    raise safe.explain_error(error, views.NAMES) from error
                raise found from error
            finally:
                if isinstance(view.prefix, SegmentsPrefix):
                    view.prefix.give_back()
    raise AssertionError("the second round has no index to blame")


def too_long(limits: Limits) -> QueryError:
    """The error of a question that its deadline ended."""
    return QueryError(
        f"the query was stopped after {limits.timeout_s:g} s. Ask for less, or raise the limit."
    )


def asking_on(beside: duckdb.DuckDBPyConnection) -> of_files.Ask:
    """A way to ask on a connection of its own about the same views. One thread at a time."""

    def ask(sql: str, parameters: Sequence[Any]) -> Result:
        relation = beside.execute(sql, list(parameters) or None)
        columns = relation.description or []
        names, types = tuple(str(one[0]) for one in columns), tuple(str(one[1]) for one in columns)
        return Result(names, types, relation.fetchall())

    return ask


class Binding:
    """The views on one connection, made as a statement needs them."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, view: View, layout: Layout, fs: FileSystem, *, use_index: bool
    ) -> None:
        self.con = con
        self.view = view
        self.layout = layout
        self.fs = fs
        self.use_index = use_index
        self.generation: index.Generation | None = None
        self.files = view.segment_paths  # what the views read

    def bind(self, statement: safe.Statement, also: "Collection[str]" = ()) -> None:
        """Make every view of ours that the statement names, those of `also`, and what they rest on."""
        named = set(views.NAMES) if statement.lists_catalog else statement.tables & set(views.NAMES)
        named |= set(also)
        if not named:
            return
        projections = [name for name in fold.PROJECTIONS if name in named]
        if self.use_index and (projections or self.view.tail_count_raw):
            self.generation = index.attach(self.con, self.fs, self.layout, self.view.manifest)[0]
        if self.view.prefix is None or isinstance(self.view.prefix, IndexedPrefix):
            self.view.prefix = SegmentsPrefix(self.layout, self.view.manifest)
        if isinstance(self.view.prefix, SegmentsPrefix):
            self.view.prefix.lend(self.con, self.generation)
        if named == {"events"} and statement.columns is not None and statement.columns <= _COLUMNS:
            self._bind_events(statement.columns)
            return
        tail = self._load_tail()
        if not named <= set(fold.STORED) or self.generation is None:
            self.con.execute(f"CREATE VIEW events AS {source.events(self.files, tail)}")
        if projections:
            self._bind_projections(projections, tail)
        for name in named - set(projections) - {"events"}:
            self.con.execute(f"CREATE VIEW {name} AS {views.over_events(name)}")

    def _bind_events(self, columns: "Collection[str]") -> None:
        """Make `events` for a statement that means no other columns than these.

        When it means none, such as a count of all events, the manifest knows how many there are.
        """
        if columns:
            self.con.execute(f"CREATE VIEW events AS {source.events(self.files, self._load_tail(columns))}")
            return
        sealed = sum(entry.rows for entry in self.view.manifest.segments)
        tail = len(self.view.tail) if self.view.tail_count_raw else 0
        self.con.execute(f"CREATE VIEW events AS {source.blank(sealed + tail)}")
        self.files = []

    def _load_tail(self, columns: "Collection[str]" = COLUMN_NAMES) -> "str | None":
        count = self.view.tail_count_raw
        if not count:
            return None
        self.con.execute(fold.WORK)
        if count <= _TAIL_BY_ROW_MAX:
            source.load_tail(self.con, "work.tail", self.view.tail, columns)
        else:
            self.con.register("tail_table", self.view.tail_table())
            self.con.execute("CREATE TABLE work.tail AS FROM tail_table")
            self.con.unregister("tail_table")
        return "work.tail"

    def _bind_projections(self, wanted: "list[str]", tail: "str | None") -> None:
        generation = self.generation
        if generation is None:
            fold.fold(self.con, f"({source.events_with_anchors(self.files, tail)})", wanted)
            return
        segments = [e for e in self.view.manifest.segments if e.rows]
        newer, of_newer = source.behind(self.layout, segments, generation.next_position)
        if tail is None and not newer:
            fold.exact(self.con, generation.catalog, "events", wanted)
            return
        self.con.execute(fold.WORK)
        self.con.execute(f"CREATE VIEW work.fresh AS {source.events_with_anchors(newer, tail, of_newer)}")

        def history(first: "int | None") -> str:
            if first is None:
                return "work.fresh"
            paths = [self.layout.segment(e.name) for e in segments if e.end > first]
            return f"({source.events_with_anchors(paths, tail)})"

        fold.merge(self.con, generation.catalog, "events", "work.fresh", history, wanted)


@contextmanager
def deadline(con: duckdb.DuckDBPyConnection, timeout_s: "float | None") -> Iterator[None]:
    """Interrupt what runs on `con` when the time is over."""
    if timeout_s is None:
        yield
        return
    done = threading.Event()

    def interrupt() -> None:
        wait_s = timeout_s
        while not done.wait(wait_s):
            con.interrupt()  # of no effect between two statements, hence again and again
            wait_s = _INTERRUPT_AGAIN_S

    watch = threading.Thread(target=interrupt, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()  # the connection is closed next, and must not be interrupted after that


def _check_truncation(limits: Limits) -> None:
    if not limits.truncate:
        raise QueryError(
            f"the answer has more than {limits.rows_max:,} rows. Add a LIMIT or an aggregate, "
            "or raise the limit."
        )


_ZONED, _PLAIN = "TIMESTAMP WITH TIME ZONE", "TIMESTAMP"


def _python_rows(
    relation: duckdb.DuckDBPyRelation, types: "tuple[str, ...]", count: int
) -> "list[tuple[Any, ...]]":
    """At most `count` rows as Python values.

    DuckDB needs the package pytz to make an aware datetime. So times leave it without their zone, which
    is UTC throughout, and get it here.
    """
    zoned = [i for i, kind in enumerate(types) if _ZONED in kind]
    if not zoned:
        return relation.limit(count).fetchall()
    columns = [
        f"#{i + 1}::{kind.replace(_ZONED, _PLAIN)}" if i in zoned else f"#{i + 1}"
        for i, kind in enumerate(types)
    ]
    found = relation.limit(count).project(", ".join(columns)).fetchall()
    rows = []
    for row in found:
        values = list(row)
        for i in zoned:
            values[i] = _in_utc(values[i])
        rows.append(tuple(values))
    return rows


def _in_utc(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    if isinstance(value, list):
        return [_in_utc(item) for item in value]
    if isinstance(value, dict):
        return {key: _in_utc(item) for key, item in value.items()}
    return value


def _arrow_of(result: Result) -> "pa.Table":
    columns = [[row[i] for row in result.rows] for i in range(len(result.columns))]
    with source.connect() as con:
        if not result.rows:
            selects = [f"NULL::{kind} AS c{i}" for i, kind in enumerate(result.types)]
            found = con.sql(f"SELECT {', '.join(selects)} WHERE false").to_arrow_table()
        else:
            selects = [f"unnest(?::{kind}[]) AS c{i}" for i, kind in enumerate(result.types)]
            found = con.sql(f"SELECT {', '.join(selects)}", params=columns).to_arrow_table()
    return found.rename_columns(list(result.columns))
