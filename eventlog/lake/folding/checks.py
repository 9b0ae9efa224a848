"""Are the tables of projections what a fold from nothing makes? Reads only (docs/lake-tables.md §5).

Each file of a table is compared with a fold of the published events up to its end: all rows and columns,
both ways. One thread.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog.base.errors import PARSE_ERRORS, Corruption, EventLogError, NotFound, why_unreadable
from eventlog.lake.chain import Chain
from eventlog.lake.findings import FOLD, FOLD_AGAIN, RESTORE, LakeFinding
from eventlog.lake.folding import reading, wide, wide_driver, wide_files
from eventlog.lake.folding.plan import is_current
from eventlog.lake.folding.stored import CODE, STORE_ID, TABLES, Projected, schema_of
from eventlog.lake.folding.task import connected
from eventlog.lake.folding.wide_driver import ChangedError, Stores
from eventlog.lake.folding.wide_files import PROJECTION_OF, WideFile
from eventlog.lake.place import Place
from eventlog.projections import definitions as d
from eventlog.projections import fold, source

if TYPE_CHECKING:
    import duckdb


def unfolded(files: "list[Projected]", chain: Chain) -> "list[str]":
    """The tables that do not have the newest state of a store."""
    current = {file.table for file in files if is_current(file.state, chain)}
    return [table for table in TABLES if chain.end and table not in current]


def compare(place: Place, chain: Chain, files: "list[Projected]") -> "Iterator[LakeFinding]":
    """What is wrong with the files of one store, none of which is dead."""
    yield from _doubled(files)
    by_end: dict[int, list[Projected]] = defaultdict(list)
    for file in files:
        if file.code == CODE and file.end <= chain.end:
            by_end[file.end].append(file)
    with tempfile.TemporaryDirectory(prefix="locus-lake-") as directory:
        for end, group in sorted(by_end.items()):
            with connected(directory) as con:
                try:
                    live = [file for file in chain.live if file.base < end]
                    reading.events(con, place, live, "published", directory=directory)
                    con.execute(f"CREATE VIEW events AS FROM published WHERE position < {end}")
                    expected = folded(con, "events")
                except (EventLogError, *source.ERRORS) as error:
                    yield LakeFinding(f"it cannot be folded: {error}", chain.store_id.hex(), RESTORE)
                    continue
                yield from _compare_files(con, place, group, expected, "the published events")


def _doubled(files: "list[Projected]") -> "Iterator[LakeFinding]":
    for table in TABLES:
        states = {file.state for file in files if file.table == table}
        if len(states) > 1:
            what = f"lake.{table} names {len(states)} states of one store, so its rows count more than once"
            yield LakeFinding(what, files[0].store_id.hex(), FOLD)


def compare_here(
    place: Place, chain: Chain, files: "list[Projected]", events: "pa.Table"
) -> "Iterator[LakeFinding]":
    """The same of a store on this machine, with the events of its own log as its policy lets them leave."""
    with source.connect() as con:
        con.register("log_here", events.select(reading.COLUMNS))
        con.execute("CREATE TABLE events AS FROM log_here")
        current = [file for file in files if is_current(file.state, chain)]
        yield from _compare_files(con, place, current, folded(con, "events"), "the log here")


def wide_lags(names: "list[str]", chains: "Mapping[bytes, Chain]") -> bool:
    """Whether the wide tables are not what the tables of the stores are by now."""
    states = {(file.table, file.state) for file in map(WideFile.parse, names) if file is not None}
    try:
        stores = _stores(names)
        stores.check(chains)
    except ChangedError:
        return True
    return states != {(table, stores.state) for table in wide.TABLES}


def compare_wide(
    place: Place, names: "list[str]", chains: "Mapping[bytes, Chain]"
) -> "Iterator[LakeFinding]":
    """What is wrong with the files of the wide tables, which do not lag.

    What they are made of are the tables of the stores, which are compared on their own.
    """
    files = sorted(filter(None, map(WideFile.parse, names)), key=attrgetter("table", "part"))
    with tempfile.TemporaryDirectory(prefix="locus-lake-") as directory, connected(directory) as con:
        try:
            wide_driver.folded(con, place, _stores(names), chains, directory)
        except (EventLogError, *source.ERRORS) as error:
            yield LakeFinding(f"what is over all stores cannot be folded: {error}", place.uri, FOLD)
            return
        for table, parts in groupby(files, key=attrgetter("table")):
            try:
                rows = pa.concat_tables(_rows_of_wide(place, file) for file in parts)
            except (Corruption, NotFound) as error:
                yield LakeFinding(str(error), place.uri, FOLD_AGAIN)
                continue
            yield from _differences(con, f"lake.{table}", rows, f"FROM {table}", "all stores", place.uri)


def _stores(names: "list[str]") -> Stores:
    files = (file for file in map(Projected.parse, names) if file is not None)
    return Stores.of_files(file for file in files if file.table in PROJECTION_OF.values())


def folded(con: "duckdb.DuckDBPyConnection", events: str) -> "dict[str, str]":
    """Fold events of one store from nothing; a query of what is stored of it, by table."""
    fold.fold(con, events, fold.STORED)
    expected = {"llm_calls": d.llm_calls(events, "FROM beaten")}
    return expected | {table: f"SELECT {d.all_of(table)} FROM {table}" for table in fold.STORED}


def _compare_files(
    con: "duckdb.DuckDBPyConnection",
    place: Place,
    files: "list[Projected]",
    expected: "dict[str, str]",
    of_what: str,
) -> "Iterator[LakeFinding]":
    """Compare the tables that have files of a store; a large store has several in each, of which none is left
    out."""
    for table in TABLES:
        rows: list[pa.Table] = []
        damage: list[LakeFinding] = []
        for file in (file for file in files if file.table == table):
            try:
                rows.append(_rows_of(place, file))
            except (Corruption, NotFound) as error:
                damage.append(LakeFinding(str(error), place.address(file.name), FOLD_AGAIN))
        yield from damage
        if rows and not damage:
            where = files[0].store_id.hex()
            yield from _differences(
                con, f"lake.{table}", pa.concat_tables(rows), expected[table], of_what, where
            )


def _differences(
    con: "duckdb.DuckDBPyConnection", table: str, rows: "pa.Table", expected: str, of_what: str, where: str
) -> "Iterator[LakeFinding]":
    con.register("stored", rows)
    columns = d.quoted(rows.column_names)
    surplus, missing = _difference(
        con, f"SELECT {columns} FROM stored", f"SELECT {columns} FROM ({expected})"
    )
    con.unregister("stored")
    if surplus or missing:
        what = (
            f"{table} has {surplus} rows that a fold of {of_what} does not give, and lacks {missing} that it "
            "gives"
        )
        yield LakeFinding(what, where, FOLD)


def _difference(con: "duckdb.DuckDBPyConnection", actual: str, expected: str) -> "tuple[int, int]":
    """How many rows the first query gives that the second does not, and the other way round."""
    counts = []
    for one_way in (f"({actual}) EXCEPT ALL ({expected})", f"({expected}) EXCEPT ALL ({actual})"):
        ((count,),) = con.execute(f"SELECT count(*) FROM ({one_way})").fetchall()
        counts.append(int(count))
    return counts[0], counts[1]


def _rows_of(place: Place, file: Projected) -> "pa.Table":
    """The rows of a file of a store, without its id. Raises: Corruption, NotFound."""
    table = _read(place, file.name, file.digest, schema_of(file.table))
    if set(table.column(STORE_ID).to_pylist()) - {file.store_id.hex()}:
        raise Corruption(place.address(file.name), "it has rows of another store than its name")
    return table.drop_columns([STORE_ID])


def _rows_of_wide(place: Place, file: WideFile) -> "pa.Table":
    return _read(place, file.name, file.digest, wide_files.schema_of(file.table))


def _read(place: Place, name: str, digest: str, schema: "pa.Schema") -> "pa.Table":
    """The rows of a file, every byte of it checked. Raises: Corruption, NotFound."""
    address = place.address(name)
    data = reading.hashed(place, name, digest)
    try:
        table = pq.read_table(pa.BufferReader(data), use_threads=False)
    except PARSE_ERRORS as error:
        raise Corruption(address, f"it cannot be read: {why_unreadable(error)}") from error
    if not table.schema.equals(schema):
        raise Corruption(address, "its columns are not those of its table")
    return table
