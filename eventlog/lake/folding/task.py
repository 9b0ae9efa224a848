"""A piece of work of a fold: some stores, read, folded and written as files (docs/lake-tables.md §2).

A task is a value without any connection, so it can be sent to where it runs. What it makes are objects that
are created once, under names made of their bytes: one that is run twice, or at two places, makes the same.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog.base import jsontext
from eventlog.base.errors import Corruption, EventLogError, NotFound, Unsupported
from eventlog.base.fs import REAL, opened, write_all
from eventlog.lake.chain import LiveFile
from eventlog.lake.folding import stored, writing
from eventlog.lake.folding.reading import LocalEvents, hashed, path_in_folder
from eventlog.lake.folding.stored import Projected
from eventlog.lake.place import Place, open_place
from eventlog.projections import definitions as d
from eventlog.projections import fold, source
from eventlog.projections.index import first_line

if TYPE_CHECKING:
    import duckdb

# What DuckDB may hold before it writes to the task's directory.
MEMORY_BYTES = 2 << 30

# What tells the events of stores apart, before every key.
KEYS = (stored.STORE_ID,)

_MASTER_KEYS = stored.arrow_schema(d.MASTER_KEYS)


@dataclass(frozen=True, slots=True)
class StoreWork:
    """A store to fold: its live files, and what was folded of it before; nothing for a fold in full.

    `previous` are the files of stored.TABLES, of one state.
    """

    store_id: bytes
    end: int
    number: int
    files: "tuple[LiveFile, ...]"
    previous: "tuple[Projected, ...]" = ()

    @property
    def since(self) -> int:
        """The position from which events are new."""
        return self.previous[0].end if self.previous else 0


@dataclass(frozen=True, slots=True)
class Task:
    """Stores that are folded together, of the place at `uri`."""

    uri: str
    stores: "tuple[StoreWork, ...]"


@dataclass(frozen=True, slots=True)
class FoldedFile:
    """A file that is in the place: its name, its size in bytes, and its rows where these are known."""

    name: str
    size: int
    rows: int = -1


@dataclass(frozen=True, slots=True)
class Folded:
    """What came of a store: its files, one for each table, or why it could not be folded."""

    store_id: bytes
    files: "tuple[FoldedFile, ...]" = ()
    full: bool = False
    problem: str = ""


def run(task: Task) -> "list[Folded]":
    """Fold the stores of a task, and create the files of each.

    A store that cannot be read is named with the reason, and the others are folded all the same.
    Raises: EventLogError of the storage.
    """
    place = open_place(task.uri)
    with tempfile.TemporaryDirectory(prefix="locus-fold-") as directory:
        local = LocalEvents(place, directory)
        return [folded for group in _groups(task.stores) for folded in _folded(local, directory, group)]


def _groups(stores: "Sequence[StoreWork]") -> "Iterator[tuple[StoreWork, ...]]":
    """The stores that one call of the fold takes: those in full, and those that go on from files."""
    for group in ([w for w in stores if not w.previous], [w for w in stores if w.previous]):
        if group:
            yield tuple(group)


def _folded(local: LocalEvents, directory: str, stores: "tuple[StoreWork, ...]") -> "list[Folded]":
    """What comes of a group; where it fails, of each of its stores alone and in full."""
    is_full = not stores[0].previous
    try:
        with connected(directory) as con, tempfile.TemporaryDirectory(dir=directory) as scratch:
            made = _in_full(con, local, stores) if is_full else _onto_previous(con, local, stores, scratch)
            files = _created(con, local.place, made, stores, scratch)
        return [Folded(work.store_id, files[work.store_id], is_full) for work in stores]
    except (Corruption, NotFound, Unsupported, *source.ERRORS) as error:
        if is_full and len(stores) == 1:
            reason = str(error) if isinstance(error, EventLogError) else first_line(error)
            return [Folded(stores[0].store_id, problem=f"cannot be folded: {reason}")]
    alone = [(replace(work, previous=()),) for work in stores]
    return [folded for group in alone for folded in _folded(local, directory, group)]


@contextmanager
def connected(directory: str) -> "Iterator[duckdb.DuckDBPyConnection]":
    with source.connect() as con:
        con.execute(
            f"SET temp_directory = {source.literal(directory + '/spill')}; "
            f"SET memory_limit = '{MEMORY_BYTES}B'; SET GLOBAL preserve_insertion_order = false"
        )
        yield con


# -- the fold ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Made:
    """Queries of what was folded, by table; and of what the masters' own events say."""

    rows: "dict[str, str]"
    master_keys: str


def _in_full(con: "duckdb.DuckDBPyConnection", local: LocalEvents, stores: "tuple[StoreWork, ...]") -> _Made:
    spans = [(file, 0) for work in stores for file in work.files]
    con.execute(f"CREATE VIEW events AS FROM {local.relation(spans)}")
    fold.fold(con, "events", fold.STORED, keys=KEYS)
    rows = {"llm_calls": d.llm_calls("events", "FROM beaten", KEYS)}
    rows |= {table: f"FROM {table}" for table in fold.STORED}
    return _Made(rows, "FROM master_keys")


def _onto_previous(
    con: "duckdb.DuckDBPyConnection", local: LocalEvents, stores: "tuple[StoreWork, ...]", scratch: str
) -> _Made:
    """The files of before are the index; sessions that new events touch are folded from all their events."""
    _load_previous(con, local.place, stores, scratch)
    new = [(file, work.since) for work in stores for file in work.files if file.end > work.since]
    con.execute(f"CREATE VIEW fresh AS FROM {local.relation(new)}")

    def history(first: "int | None") -> str:
        if first is None:
            return "fresh"
        return local.relation((file, first) for work in stores for file in work.files if file.end > first)

    fold.update(con, "old", "fresh", history, KEYS)
    beaten = "SELECT store_id, position FROM work.beaten"
    former = f"FROM old.llm_calls WHERE (store_id, position) NOT IN ({beaten})"
    rows = {"llm_calls": f"{former} UNION ALL {d.llm_calls('fresh', beaten, KEYS)}"}
    rows |= {table: f"FROM old.{table}" for table in fold.STORED}
    return _Made(rows, "FROM old.master_keys")


def _load_previous(
    con: "duckdb.DuckDBPyConnection", place: Place, stores: "tuple[StoreWork, ...]", scratch: str
) -> None:
    """Make the tables of an index, in the schema `old`, out of the files of before."""
    paths: dict[str, list[str]] = {table: [] for table in stored.TABLES}
    for work in stores:
        for number, file in enumerate(work.previous):
            target = f"{scratch}/{work.store_id.hex()}-{number}.parquet"
            paths[file.table].append(brought(place, file, target))
    con.execute("CREATE SCHEMA old")
    for table in stored.TABLES:
        kind = "VIEW" if table == "llm_calls" else "TABLE"
        files = ", ".join(map(source.literal, paths[table]))
        columns = d.quoted(stored.schema_of(table).names)
        con.execute(f"CREATE {kind} old.{table} AS SELECT {columns} FROM read_parquet([{files}])")
    calls = d.call_rows("(SELECT *, 'llm' AS event_type FROM old.llm_calls)", KEYS)
    con.execute(f"CREATE TABLE old.calls AS SELECT store_id, key, position, session_id FROM ({calls})")
    con.execute("CREATE TABLE old.beaten AS SELECT store_id, position FROM old.calls WHERE false")
    keys = pa.concat_tables([_MASTER_KEYS.empty_table(), *map(_master_keys_in, paths["sessions_master"])])
    con.register("keys_of_files", keys)
    con.execute("CREATE TABLE old.master_keys AS FROM keys_of_files")
    con.unregister("keys_of_files")


def brought(place: Place, file: Projected, target: str) -> str:
    """Where a file of a projection lies on this machine, with the bytes that its name says.

    Raises: Corruption, NotFound.
    """
    data = hashed(place, file.name, file.digest)
    path = path_in_folder(place, file.name)
    if path is None:
        path = target
        with opened(REAL, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
            write_all(REAL, fd, data)
    return path


def _master_keys_in(path: str) -> "pa.Table":
    metadata = pq.read_metadata(path).metadata or {}
    return pa.Table.from_pylist(jsontext.decode(metadata[writing.MASTER_KEYS.encode()]), _MASTER_KEYS)


# -- the files --------------------------------------------------------------------------------------


def _created(
    con: "duckdb.DuckDBPyConnection",
    place: Place,
    made: _Made,
    stores: "tuple[StoreWork, ...]",
    scratch: str,
) -> "dict[bytes, tuple[FoldedFile, ...]]":
    """Write the files of each store, and create them in the place."""
    own = con.sql(f"{made.master_keys} ORDER BY store_id, repo").to_arrow_table().to_pylist()
    keys = {key: list(rows) for key, rows in groupby(own, key=itemgetter("store_id"))}
    targets = [
        writing.Target(work.store_id, work.end, work.number, keys.get(work.store_id.hex(), []))
        for work in stores
    ]
    files: dict[bytes, tuple[FoldedFile, ...]] = {work.store_id: () for work in stores}
    for table in stored.TABLES:
        for file in created(con, place, table, made.rows[table], targets, scratch):
            files[file.store_id] += (FoldedFile(file.name, file.size, file.rows),)
    return files


def created(
    con: "duckdb.DuckDBPyConnection",
    place: Place,
    table: str,
    rows: str,
    targets: "Sequence[writing.Target]",
    scratch: str,
) -> "list[writing.Written]":
    """Write the rows of a query as files of a table, one for each store, and create them in the place."""
    files = list(writing.written(con, table, rows, targets, scratch))
    writing.create(place, files)
    return files
