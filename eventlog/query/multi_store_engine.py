"""One SELECT over several stores: each view has the rows of all, with `store` as its first column.

Each store is a database of its own on one connection. Its events are read in place; its projections (turns,
sessions, model calls) are read beforehand and held in memory. Everything else, safe mode and limits above
all, is as in `engine`. One call, one connection.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from eventlog.base.errors import QueryError
from eventlog.log import checked
from eventlog.projections import fold, settled, source
from eventlog.query import added, binding, engine, safe, views
from eventlog.query import functions as of_files
from eventlog.query.people import EVERYBODY
from eventlog.query.results import Answerable

if TYPE_CHECKING:
    import pyarrow as pa

# Makes the answers of the SQL functions, from a way to ask each store, by its name.
Answering = Callable[[dict[str, of_files.Ask]], of_files.Answers]
_TABLES = frozenset((*fold.PROJECTIONS, views.PRICES))  # read from each store beforehand
_WHOLE = engine.Limits(rows_max=1 << 40, timeout_s=None)


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A store to be asked: its name in the column `store`, and the snapshot of its log."""

    name: str
    snapshot: engine.Snapshot


def run(
    sources: Sequence[StoreSource],
    sql: str,
    parameters: engine.Parameters,
    limits: engine.Limits,
    answering: Answering,
) -> engine.Result:
    """The answer to one SELECT over all `sources`. Raises: as `engine.run`."""
    result: engine.Result = _answer(sources, sql, parameters, limits, answering, engine.rows_within(limits))
    return result


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
    read: "Callable[[Answerable], Any]",
) -> Any:
    with source.connect() as con, engine.deadline(con, limits.timeout_s):
        statement = safe.check(con, sql)
        called = statement.functions & of_files.NAMES
        named = set(views.NAMES) if statement.lists_catalog else set(statement.tables & set(views.NAMES))
        named |= of_files.VIEWS if called else set()
        extras = binding.extras_meant(statement)
        made: of_files.Functions | None = None
        answerable = None
        bound = False
        try:
            for number, store in enumerate(sources):
                _bind(con, f"store_{number}", store.snapshot, named, extras)
            asks = (
                {store.name: _asking(con, f"store_{n}") for n, store in enumerate(sources)} if called else {}
            )
            con.execute("USE memory")
            for name in named:
                con.execute(f"CREATE VIEW {name} AS {_of_all(name, sources)}")
            if called:
                made = of_files.Functions(answering(asks), several=True)
                made.bind(con, called)
            bound = True
            files = [path for store in sources for path in store.snapshot.view.segment_paths]
            safe.lock(con, files, memory_bytes=limits.memory_bytes, threads=limits.threads)
            answerable = Answerable(con, statement, parameters)
            return read(answerable)
        except duckdb.InterruptException as error:
            raise engine.too_long(limits) from error
        except source.ERRORS as error:
            if made is not None and made.failure is not None:
                raise made.failure from error
            for store in sources:
                asked = store.snapshot
                segments = asked.view.manifest.segments
                store_error = source.translated(error, asked.fs, asked.layout, segments, of_ours=not bound)
                if not isinstance(store_error, QueryError):
                    raise store_error from error
            if isinstance(error, duckdb.Error):
                is_bound = answerable is not None
                raise safe.explain_error(error, views.NAMES, sql, statement, is_bound=is_bound) from error
            raise QueryError(str(error)) from error


def _bind(
    con: duckdb.DuckDBPyConnection,
    catalog: str,
    snapshot: engine.Snapshot,
    named: "set[str]",
    extras: "frozenset[str]",
) -> None:
    """Make the named views of one store in a database of its own, with those of `extras` that it can have."""
    con.execute(f"ATTACH ':memory:' AS {catalog}; USE {catalog}")
    tail = None
    if snapshot.view.tail_count_raw:
        con.register("given", snapshot.view.tail_table())
        con.execute("CREATE TABLE tail AS FROM given")
        con.unregister("given")
        tail = f"{catalog}.main.tail"
    checked.ensure(snapshot.fs, snapshot.layout, snapshot.view.manifest.segments)
    relation = source.events(snapshot.view.segment_paths, tail)
    schema = f"{catalog}.main"
    peopled = views.PEOPLE in extras
    if peopled:
        added.bind_people(con, relation, EVERYBODY, schema)
    shown = added.events(settled.events(relation), EVERYBODY, named=peopled, schema=schema)
    con.execute(f"CREATE VIEW events AS {shown}")
    for name in named & _TABLES:
        table = engine.table(snapshot, f"SELECT * FROM {name}", None, _WHOLE)
        con.register("given", table)
        con.execute(f"CREATE TABLE {name} AS FROM given")
        con.unregister("given")
    counts = None
    if views.COUNTS in extras and snapshot.counting is not None:
        counts = f"{catalog}.main.line_counts"
        binding.bind_counts(con, counts, snapshot.counting)
    for name in named - _TABLES - {"events"}:
        con.execute(f"CREATE VIEW {name} AS {views.over_events(name, counts=counts)}")


def _asking(con: duckdb.DuckDBPyConnection, catalog: str) -> of_files.Ask:
    beside = con.cursor()
    beside.execute(f"USE {catalog}")
    return engine.asking_on(beside)


def _of_all(name: str, sources: Sequence[StoreSource]) -> str:
    return " UNION ALL ".join(
        f"SELECT {source.literal(store.name)} AS store, * FROM store_{number}.main.{name}"
        for number, store in enumerate(sources)
    )
