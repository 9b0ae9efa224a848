"""Tables of projections with files that are made up, for what looks after them."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.lake import tables
from eventlog.lake.folding import wide_files
from eventlog.lake.folding.stored import CODE, KEYS, STORE_ID, Projected, schema_of
from eventlog.lake.folding.wide_files import WideFile
from eventlog.lake.place import Place

WIDE_TABLES = ("wide_calls", "wide_turns", "wide_sessions")


def bytes_of(table: str, store_id: bytes, *, text: str = "", rows: int = 2) -> bytes:
    """A file of a table, with a text in each of its rows."""
    schema = wide_files.schema_of(table) if table in WIDE_TABLES else schema_of(table)
    row: dict[str, Any] = {"store_id": store_id.hex()}
    if "title" in schema.names:
        row["title"] = text
    data = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([row] * rows, schema), data, compression="zstd")
    return bytes(data.getvalue())


def projected(
    place: Place, table: str, store_id: bytes, end: int, number: int, *, text: str = "", code: str = CODE
) -> str:
    """Create a file of a projection; its name."""
    data = bytes_of(table, store_id, text=text)
    name = Projected(table, store_id, end, number, code, blake3(data).hexdigest()).name
    place.create(name, data)
    return name


def wide(place: Place, table: str, erasures: int, state: str = "1", *, text: str = "") -> str:
    """Create a file of a wide table; its name."""
    data = bytes_of(table, b"\0" * 16, text=text)
    name = WideFile(table, erasures, state * 16, 0, blake3(data).hexdigest()).name
    place.create(name, data)
    return name


def name_in_table(place: Place, catalog: str, *names: str) -> None:
    """Make the tables of these files where they are not there, and name the files in them."""
    with tables.opened(place, catalog) as opened:
        for name in names:
            kind = name.split("/")[1]
            identifier = f"{tables.NAMESPACE}.{kind}"
            if not opened.table_exists(identifier):
                is_wide = kind in WIDE_TABLES
                schema = wide_files.schema_of(kind) if is_wide else schema_of(kind)
                keys = wide_files.KEYS[kind] if is_wide else (STORE_ID, *KEYS[kind])
                tables.made(place, opened, catalog, identifier, schema, keys)
            size = len(place.read(name))
            table = opened.load_table(identifier)
            assert tables.swapped(table, tables.data_files_of(place, table, [(name, size)]), ())


def files_in(place: Place, catalog: str, table: str) -> "list[str]":
    """The data files that a table names now."""
    with tables.opened(place, catalog) as opened:
        return sorted(tables.data_files(place, opened.load_table(f"{tables.NAMESPACE}.{table}")))
