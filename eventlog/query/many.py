"""One SELECT over several stores: each view has a column `store` in front, and the rows of all.

Each store is a database of its own on one connection: its events are read where they lie, its projections
(turns, sessions, model calls) are asked of it beforehand and kept in memory. Everything else, safe mode and
limits above all, is as in `engine`. One call, one connection.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from eventlog.base.errors import QueryError
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.log import checked
from eventlog.projections import fold, settled, source
from eventlog.query import added, engine, safe, views
from eventlog.query import functions as of_files
from eventlog.query.people import EVERYBODY

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.reader import LogView

# Makes what the functions of SQL answer, of one way to ask for each store, by its name.
Answering = Callable[[dict[str, of_files.Ask]], of_files.Answers]
_TABLES = frozenset((*fold.PROJECTIONS, views.PRICES))  # asked of each store beforehand
_WHOLE = engine.Limits(rows_max=1 << 40, timeout_s=None)


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A store to be asked: its name in the column `store`, and a pinned view of its log."""

    name: str
    view: "LogView"
    layout: Layout
    fs: FileSystem
    counting: "engine.Counting | None" = None


def run(
    sources: Sequence[StoreSource],
    sql: str,
    parameters: engine.Parameters,
    limits: engine.Limits,
    answering: Answering,
) -> engine.Result:
    """The answer to one SELECT over all `sources`. Raises: as `engine.run`."""
    found: engine.Result = _answer(sources, sql, parameters, limits, answering, engine.rows_within(limits))
    return found


def table(
    sources: Sequence[StoreSource],
    sql: str,
    parameters: engine.Parameters,
    limits: engine.Limits,
    answering: Answering,
) -> "pa.Table":
    """The same as an Arrow table."""
    return _answer(sources, sql, parameters, limits, answering, engine.arrow_within(limits))


def _answer(
    sources: Sequence[StoreSource],
    sql: str,
    parameters: engine.Parameters,
    limits: engine.Limits,
    answering: Answering,
    read: "Callable[[duckdb.DuckDBPyRelation], Any]",
) -> Any:
    with source.connect() as con, engine.deadline(con, limits.timeout_s):
        statement = safe.check(con, sql)
        called = statement.functions & of_files.NAMES
        named = set(views.NAMES) if statement.lists_catalog else set(statement.tables & set(views.NAMES))
        named |= of_files.VIEWS if called else set()
        extras = engine.extras_meant(statement)
        made: of_files.Functions | None = None
        relation = None
        bound = False
        try:
            for number, one in enumerate(sources):
                _bind(con, f"store_{number}", one, named, views.COUNTS in extras, views.PEOPLE in extras)
            asks = {one.name: _asking(con, f"store_{n}") for n, one in enumerate(sources)} if called else {}
            con.execute("USE memory")
            for name in named:
                con.execute(f"CREATE VIEW {name} AS {_of_all(name, sources)}")
            if called:
                made = of_files.Functions(answering(asks), several=True)
                made.bind(con, called)
            bound = True
            files = [path for one in sources for path in one.view.segment_paths]
            safe.lock(con, files, memory_bytes=limits.memory_bytes, threads=limits.threads)
            relation = con.sql(statement.sql, params=parameters)
            return read(relation)
        except duckdb.InterruptException as error:
            raise engine.too_long(limits) from error
        except source.ERRORS as error:
            if made is not None and made.failure is not None:
                raise made.failure from error
            for one in sources:
                segments = one.view.manifest.segments
                found = source.translated(error, one.fs, one.layout, segments, of_ours=not bound)
                if not isinstance(found, QueryError):
                    raise found from error
            if isinstance(error, duckdb.Error):
                raise safe.explain_error(error, views.NAMES, sql, statement, relation) from error
            raise QueryError(str(error)) from error


def _bind(
    con: duckdb.DuckDBPyConnection,
    catalog: str,
    one: StoreSource,
    named: "set[str]",
    counted: bool,
    peopled: bool,
) -> None:
    """Make the named views of one store in a database of its own; with `counted` also lines of changes, with
    `peopled` who worked where."""
    con.execute(f"ATTACH ':memory:' AS {catalog}; USE {catalog}")
    tail = None
    if one.view.tail_count_raw:
        con.register("given", one.view.tail_table())
        con.execute("CREATE TABLE tail AS FROM given")
        con.unregister("given")
        tail = f"{catalog}.main.tail"
    checked.ensure(one.fs, one.layout, one.view.manifest.segments)
    relation = source.events(one.view.segment_paths, tail)
    schema = f"{catalog}.main"
    if peopled:
        added.bind_people(con, relation, EVERYBODY, schema)
    shown = added.events(settled.events(relation), EVERYBODY, named=peopled, schema=schema)
    con.execute(f"CREATE VIEW events AS {shown}")
    for name in named & _TABLES:
        found = engine.table(one.view, one.layout, one.fs, f"SELECT * FROM {name}", None, _WHOLE)
        con.register("given", found)
        con.execute(f"CREATE TABLE {name} AS FROM given")
        con.unregister("given")
    counts = None
    if counted and one.counting is not None:
        counts = f"{catalog}.main.line_counts"
        engine.bind_counts(con, counts, one.counting)
    for name in named - _TABLES - {"events"}:
        con.execute(f"CREATE VIEW {name} AS {views.over_events(name, counts=counts)}")


def _asking(con: duckdb.DuckDBPyConnection, catalog: str) -> of_files.Ask:
    beside = con.cursor()
    beside.execute(f"USE {catalog}")
    return engine.asking_on(beside)


def _of_all(name: str, sources: Sequence[StoreSource]) -> str:
    return " UNION ALL ".join(
        f"SELECT {source.literal(one.name)} AS store, * FROM store_{number}.main.{name}"
        for number, one in enumerate(sources)
    )
