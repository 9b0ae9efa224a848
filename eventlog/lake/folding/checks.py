"""Are the tables of projections what a fold from nothing makes? Reads only (docs/lake-tables.md §5).

Each file of a table is compared with a fold of the published events up to its end: all rows and columns,
both ways. One thread.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.base.errors import PARSE_ERRORS, Corruption, EventLogError, NotFound, why_unreadable
from eventlog.lake.chain import Chain
from eventlog.lake.findings import FOLD, FOLD_AGAIN, RESTORE, LakeFinding
from eventlog.lake.folding import reading
from eventlog.lake.folding.plan import is_current
from eventlog.lake.folding.stored import CODE, STORE_ID, TABLES, Projected, schema_of
from eventlog.lake.place import Place
from eventlog.projections import definitions as d
from eventlog.projections import fold, source

if TYPE_CHECKING:
    import duckdb


def by_store(names: "Iterable[str]") -> "dict[bytes, list[Projected]]":
    """The files of projections among these, by their store."""
    files: dict[bytes, list[Projected]] = defaultdict(list)
    for name in names:
        file = Projected.parse(name)
        if file is not None:
            files[file.store_id].append(file)
    return files


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
            with source.connect() as con:
                try:
                    live = [file for file in chain.live if file.base < end]
                    reading.events(con, place, live, "published", directory=directory)
                    con.execute(f"CREATE VIEW events AS FROM published WHERE position < {end}")
                    expected = folded(con, "events")
                except (EventLogError, *source.ERRORS) as error:
                    yield LakeFinding(f"it cannot be folded: {error}", chain.store_id.hex(), RESTORE)
                    continue
                for file in group:
                    yield from _differences(con, place, file, expected[file.table], "the published events")


def _doubled(files: "list[Projected]") -> "Iterator[LakeFinding]":
    for table in TABLES:
        count = sum(file.table == table for file in files)
        if count > 1:
            what = f"lake.{table} names {count} files of one store, so its rows count more than once"
            yield LakeFinding(what, files[0].store_id.hex(), FOLD)


def compare_here(
    place: Place, chain: Chain, files: "list[Projected]", events: "pa.Table"
) -> "Iterator[LakeFinding]":
    """The same of a store on this machine, with the events of its own log as its policy lets them leave."""
    with source.connect() as con:
        con.register("log_here", events.select(reading.COLUMNS))
        con.execute("CREATE TABLE events AS FROM log_here")
        expected = folded(con, "events")
        for file in files:
            if is_current(file.state, chain):
                yield from _differences(con, place, file, expected[file.table], "the log here")


def folded(con: "duckdb.DuckDBPyConnection", events: str) -> "dict[str, str]":
    """Fold events of one store from nothing; a query of what is stored of it, by table."""
    fold.fold(con, events, fold.STORED)
    expected = {"llm_calls": d.llm_calls(events, "FROM beaten")}
    return expected | {table: f"SELECT {d.all_of(table)} FROM {table}" for table in fold.STORED}


def _differences(
    con: "duckdb.DuckDBPyConnection", place: Place, file: Projected, expected: str, of_what: str
) -> "Iterator[LakeFinding]":
    try:
        rows = rows_of(place, file)
    except (Corruption, NotFound) as error:
        yield LakeFinding(str(error), place.address(file.name), FOLD_AGAIN)
        return
    con.register("stored", rows)
    actual = f"SELECT {d.all_of(file.table)} FROM stored"
    surplus, missing = difference(con, actual, expected)
    con.unregister("stored")
    if surplus or missing:
        what = (
            f"lake.{file.table} has {surplus} rows that a fold of {of_what} does not give, and lacks "
            f"{missing} that it gives"
        )
        yield LakeFinding(what, file.store_id.hex(), FOLD)


def difference(con: "duckdb.DuckDBPyConnection", actual: str, expected: str) -> "tuple[int, int]":
    """How many rows the first query gives that the second does not, and the other way round."""
    counts = []
    for one_way in (f"({actual}) EXCEPT ALL ({expected})", f"({expected}) EXCEPT ALL ({actual})"):
        ((count,),) = con.execute(f"SELECT count(*) FROM ({one_way})").fetchall()
        counts.append(int(count))
    return counts[0], counts[1]


def rows_of(place: Place, file: Projected) -> "pa.Table":
    """The rows of a file, every byte of it checked. Raises: Corruption, NotFound."""
    address = place.address(file.name)
    data = place.read(file.name)
    if blake3(data).hexdigest() != file.digest:
        raise Corruption(address, "its bytes are not those of its name")
    try:
        table = pq.read_table(pa.BufferReader(data), use_threads=False)
    except PARSE_ERRORS as error:
        raise Corruption(address, f"it cannot be read: {why_unreadable(error)}") from error
    if not table.schema.equals(schema_of(file.table)):
        raise Corruption(address, "its columns are not those of its table")
    if set(table.column(STORE_ID).to_pylist()) - {file.store_id.hex()}:
        raise Corruption(address, "it has rows of another store than its name")
    return table
