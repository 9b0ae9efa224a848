"""Files of projections, written on this machine some rows at a time, and created in a place.

Rows are sorted by their key, and equal rows and library versions give equal bytes: so what is made twice has
one name. One thread.
"""

import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.fs import REAL, opened
from eventlog.lake.folding import stored
from eventlog.lake.place import Place, each
from eventlog.log.segment import PAGE_BYTES, ROW_GROUP_ROWS
from eventlog.projections import definitions as d

if TYPE_CHECKING:
    import duckdb

MASTER_KEYS = "locus.master_keys"  # in the metadata of a file of `sessions_master`

_LEVEL = 3
_AT_ONCE = 8
# Texts that hardly ever repeat: a dictionary of them is thrown away.
_UNIQUE = frozenset(
    ("context_id", "event_id", "message_id", "request_id", "title", "user_request", "outcome", "summary")
)


@dataclass(frozen=True, slots=True)
class Written:
    """A file on this machine, with the name that it will have."""

    store_id: bytes
    path: str
    name: str
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class Target:
    """A store whose rows are written: what the names and metadata of its files say."""

    store_id: bytes
    end: int
    number: int
    master_keys: "list[dict[str, Any]]"
    part: str = ""  # of a store that is divided: which, so that parts without rows have names of their own


def written(
    con: "duckdb.DuckDBPyConnection", table: str, rows: str, targets: "Iterable[Target]", directory: str
) -> "Iterator[Written]":
    """One file of a table for each store, of a query of rows with their `store_id`."""
    waiting = {target.store_id.hex(): target for target in targets}
    columns = d.quoted(stored.schema_of(table).names)
    order = d.quoted((stored.STORE_ID, *stored.KEYS[table]))
    reader = con.sql(f"SELECT {columns} FROM ({rows}) ORDER BY {order}").to_arrow_reader(ROW_GROUP_ROWS)
    for store_id, parts in groupby(_by_store(reader), key=itemgetter(0)):
        target = waiting.pop(store_id)
        yield _write(table, target, (part for _, part in parts), f"{directory}/{table}-{store_id}")
    for store_id, target in waiting.items():
        yield _write(table, target, (), f"{directory}/{table}-{store_id}")


def create(place: Place, files: "Iterable[Written]") -> None:
    """Create the objects of files; one that is there already has the same bytes."""
    each(lambda file: _create(place, file), files, _AT_ONCE)


def _create(place: Place, file: Written) -> None:
    with opened(REAL, file.path) as fd, mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
        place.create(file.name, data)
    REAL.unlink(file.path)


def _by_store(batches: "Iterable[pa.RecordBatch]") -> "Iterator[tuple[str, pa.RecordBatch]]":
    """The runs of one store in rows that are sorted by store."""
    for batch in batches:
        runs = pc.run_end_encode(batch.column(0))
        start = 0
        for store_id, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield store_id, batch.slice(start, end - start)
            start = end


def _write(table: str, target: Target, parts: "Iterable[pa.RecordBatch]", path: str) -> Written:
    metadata = {"locus.format": stored.FORMAT, "locus.store_id": target.store_id.hex()}
    metadata |= {"locus.part": target.part} if target.part else {}
    if table == "sessions_master":
        metadata[MASTER_KEYS] = jsontext.encode(target.master_keys).decode()
    schema = stored.schema_of(table)
    options = options_of(table, (stored.STORE_ID, *stored.KEYS[table]))
    digest, size, rows = write(path, schema.with_metadata(metadata), row_groups(parts, schema), options)
    named = stored.Projected(table, target.store_id, target.end, target.number, stored.CODE, digest)
    return Written(target.store_id, path, named.name, size, rows)


def write(
    path: str, schema: "pa.Schema", groups: "Iterable[pa.Table]", options: "dict[str, Any]"
) -> "tuple[str, int, int]":
    """Write row groups as a Parquet file; the hash of its bytes, its size and its rows."""
    rows = 0
    with pq.ParquetWriter(path, schema, **options) as writer:
        for group in groups:
            rows += len(group)
            writer.write_table(group, ROW_GROUP_ROWS)
    with opened(REAL, path) as fd, mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
        return blake3(data).hexdigest(), len(data), rows


def row_groups(parts: "Iterable[pa.RecordBatch]", schema: "pa.Schema") -> "Iterator[pa.Table]":
    """Rows in row groups of one size, however they come: so the bytes do not depend on that."""
    waiting = schema.empty_table()
    for part in parts:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([part]).cast(schema)])
        while len(waiting) >= ROW_GROUP_ROWS:
            yield waiting.slice(0, ROW_GROUP_ROWS).combine_chunks()
            waiting = waiting.slice(ROW_GROUP_ROWS)
    if len(waiting):
        yield waiting.combine_chunks()


def options_of(table: str, bounded: "tuple[str, ...]") -> "dict[str, Any]":
    """How a file with the columns of a projection is written. Args: bounded: columns with bounds."""
    kinds = {name: kind for name, kind, _ in d.COLUMNS_OF[table]}
    repeated = [name for name, kind in kinds.items() if kind == "VARCHAR" and name not in _UNIQUE]
    lists = [f"{name}.list.element" for name, kind in kinds.items() if kind == "VARCHAR[]"]
    figures = [name for name, kind in kinds.items() if kind in ("BIGINT", d.TIME)]
    return {
        "compression": "zstd",
        "compression_level": _LEVEL,
        "data_page_size": PAGE_BYTES,
        "use_dictionary": [stored.STORE_ID, *repeated, *lists],
        "column_encoding": dict.fromkeys(figures, "DELTA_BINARY_PACKED"),
        "write_statistics": list(bounded),
        "write_page_checksum": True,
    }
