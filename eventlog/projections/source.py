"""Events as DuckDB relations: sealed segments by name, and the tail as a small table.

Callers bring their own connection; nothing here is shared between threads. The files are an explicit
list, never a pattern, and the caller's view pins them, since removing one breaks a running query.
Payloads go in as text and stay text: DuckDB's JSON type would rewrite their numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from eventlog.errors import Corruption, EventLogError, QueryError
from eventlog.types import BOOL, COLUMN_NAMES, COLUMNS, INT, JSON, LIST, TEXT, TIME

SQL_TYPE_OF = {
    INT: "BIGINT",
    TEXT: "VARCHAR",
    BOOL: "BOOLEAN",
    TIME: "TIMESTAMP WITH TIME ZONE",
    LIST: "VARCHAR[]",
    JSON: "VARCHAR",
}

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "python_scan_all_frames": False,
}

_ALL_COLUMNS = ", ".join(f'"{name}"' for name in COLUMN_NAMES)
_NO_EVENTS = ", ".join(f'NULL::{SQL_TYPE_OF[kind]} AS "{name}"' for name, kind in COLUMNS)


def connect() -> duckdb.DuckDBPyConnection:
    """An in-memory database of its own: UTC, nothing loaded from outside, no Python variables visible."""
    con = duckdb.connect(":memory:", config=_CONFIG)
    con.execute("SET TimeZone = 'UTC'; SET temp_directory = ''")
    return con


def literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def load_tail(con: duckdb.DuckDBPyConnection, table: str, rows: "Sequence[Mapping[str, Any]]") -> None:
    """Make a table of events given as dicts, by way of one list parameter per column.

    Columns that no row has cost nothing. Times are integer µs, the payload is JSON text.
    """
    columns, values = [], []
    for name, kind in COLUMNS:
        column = [row.get(name) for row in rows]
        if not any(value is not None for value in column):
            columns.append(f'NULL::{SQL_TYPE_OF[kind]} AS "{name}"')
            continue
        values.append(column)
        if kind == TIME:
            columns.append(f'make_timestamptz(unnest(?::BIGINT[])) AS "{name}"')
        else:
            columns.append(f'unnest(?::{SQL_TYPE_OF[kind]}[]) AS "{name}"')
    if not values:  # no rows: `unnest` is what makes rows otherwise
        con.execute(f"CREATE TABLE {table} AS SELECT {_NO_EVENTS} WHERE false")
        return
    con.execute(f"CREATE TABLE {table} AS SELECT {', '.join(columns)}", values)


def events(segment_paths: "Sequence[str]", tail: "str | None" = None) -> str:
    """A query that gives all columns of the events in these files and in the table `tail`."""
    selects = []
    if segment_paths:
        files = ", ".join(map(literal, segment_paths))
        selects.append(f"SELECT {_ALL_COLUMNS} FROM read_parquet([{files}])")
    if tail is not None:
        selects.append(f"SELECT {_ALL_COLUMNS} FROM {tail}")
    return " UNION ALL ".join(selects) or f"SELECT {_NO_EVENTS} WHERE false"


def translated(error: duckdb.Error, segment_paths: "Sequence[str]") -> EventLogError:
    """What a DuckDB error means: Corruption when it speaks of a segment, else QueryError."""
    message = str(error).strip() or type(error).__name__
    if not isinstance(error, (duckdb.OutOfMemoryException, duckdb.InterruptException)):
        for path in segment_paths:
            if path in message:
                return Corruption(path, f"this segment cannot be read ({message.splitlines()[0]})")
    return QueryError(message)
