"""Events as DuckDB relations: sealed segments by name, and the tail as a small table.

Callers bring their own connection; nothing here is shared between threads. The files are an explicit
list, never a pattern, and the caller's view pins them, since removing one breaks a running query.
Payloads go in as text and stay text: DuckDB's JSON type would rewrite their numbers.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import duckdb

from eventlog.base.errors import EventLogError, QueryError
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.base.types import ANCHOR_TYPES, BOOL, COLUMN_NAMES, COLUMNS, INT, JSON, LIST, TEXT, TIME
from eventlog.log import checked
from eventlog.log.manifest import SegmentEntry

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
_ALL_OF_SEGMENTS = _ALL_COLUMNS.replace('"payload"', "coalesce(payload, anchor_payload) AS payload")
ANCHOR_OF_TABLE = f"CASE WHEN event_type IN {ANCHOR_TYPES} THEN payload END AS anchor_payload"
_NO_EVENTS = ", ".join(f'NULL::{SQL_TYPE_OF[kind]} AS "{name}"' for name, kind in COLUMNS)


def connect() -> duckdb.DuckDBPyConnection:
    """An in-memory database of its own: UTC, nothing loaded from outside, no Python variables visible.

    It says nothing by itself: DuckDB would draw a bar over standard output when a question takes seconds.
    """
    con = duckdb.connect(":memory:", config=_CONFIG)
    con.execute("SET TimeZone = 'UTC'; SET temp_directory = ''; SET parquet_metadata_cache = true")
    try:
        con.execute("SET enable_progress_bar = false")
    except duckdb.InvalidInputException:
        pass  # a notebook without ipywidgets: no bar can be drawn there, and the setting is refused
    return con


def literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def load_tail(
    con: duckdb.DuckDBPyConnection,
    table: str,
    rows: "Sequence[Mapping[str, Any]]",
    wanted: "Collection[str]" = COLUMN_NAMES,
) -> None:
    """Make a table of events given as dicts, by way of one list parameter per column.

    Columns that no row has cost nothing; those not `wanted` are null. Times are integer µs, the payload
    is JSON text.
    """
    columns, values = [], []
    for name, kind in COLUMNS:
        column = [row.get(name) for row in rows] if name in wanted else []
        if not any(value is not None for value in column):
            columns.append(f'NULL::{SQL_TYPE_OF[kind]} AS "{name}"')
            continue
        values.append(column)
        if kind == TIME:
            columns.append(f'make_timestamptz(unnest(?::BIGINT[])) AS "{name}"')
        else:
            columns.append(f'unnest(?::{SQL_TYPE_OF[kind]}[]) AS "{name}"')
    if values:  # it is `unnest` that makes rows
        con.execute(f"CREATE TABLE {table} AS SELECT {', '.join(columns)}", values)
    else:
        con.execute(f"CREATE TABLE {table} AS {blank(len(rows))}")


def blank(count: int) -> str:
    """A query that gives `count` events of which nothing is known: enough to count them."""
    return f"SELECT {_NO_EVENTS} FROM range({count})"


def events(segment_paths: "Sequence[str]", tail: "str | None" = None, where: "str | None" = None) -> str:
    """A query that gives all columns of the events in these files and in the table `tail`.

    Args: where: a condition on the events in files.
    """
    return _events(segment_paths, tail, _ALL_OF_SEGMENTS, _ALL_COLUMNS, where)


def events_with_anchors(
    segment_paths: "Sequence[str]", tail: "str | None" = None, where: "str | None" = None
) -> str:
    """The same, and as `anchor_payload` the payload of those events that write an anchor.

    Segments keep these texts in a column of their own (log/segment.py), so that a fold over anchors
    reads none of the other payloads.
    """
    of_segments = f"{_ALL_OF_SEGMENTS}, anchor_payload"
    return _events(segment_paths, tail, of_segments, f"{_ALL_COLUMNS}, {ANCHOR_OF_TABLE}", where)


def after(layout: Layout, entries: "Sequence[SegmentEntry]", position: int) -> "tuple[list[str], str | None]":
    """The segments with events from a position on, and what tells these from others in the same files."""
    segments = [entry for entry in entries if entry.rows and entry.end > position]
    where = f"position >= {position}" if segments and segments[0].base < position else None
    return [layout.segment(entry.name) for entry in segments], where


def before(
    layout: Layout, entries: "Sequence[SegmentEntry]", position: int
) -> "tuple[list[str], str | None]":
    """The segments with events before a position, and what tells these from others in the same files."""
    segments = [entry for entry in entries if entry.rows and entry.base < position]
    where = f"position < {position}" if segments and segments[-1].end > position else None
    return [layout.segment(entry.name) for entry in segments], where


def _events(
    segment_paths: "Sequence[str]",
    tail: "str | None",
    of_segments: str,
    of_table: str,
    where: "str | None" = None,
) -> str:
    selects = []
    if segment_paths:
        files = ", ".join(map(literal, segment_paths))
        condition = f" WHERE {where}" if where else ""
        selects.append(f"SELECT {of_segments} FROM read_parquet([{files}]){condition}")
    if tail is not None:
        selects.append(f"SELECT {of_table} FROM {tail}")
    return " UNION ALL ".join(selects) or f"SELECT {of_table} FROM ({blank(0)})"


def translated(
    error: Exception,
    fs: FileSystem,
    layout: Layout,
    entries: "Sequence[SegmentEntry]",
    *,
    of_ours: bool = True,
) -> EventLogError:
    """What one of ERRORS means: Corruption when a segment is not what the manifest says, else QueryError.

    `of_ours` says that a statement of our own failed, which is right wherever the files are.
    DuckDB's messages do not always name the file, so where a file may be to blame all are read.
    """
    if may_be_damage(error, of_ours=of_ours):
        try:
            checked.check(fs, layout, entries)
        except EventLogError as found:
            return found
    return QueryError(str(error).strip() or type(error).__name__)


def may_be_damage(error: Exception, *, of_ours: bool) -> bool:
    """Whether a damaged file can be the cause. DuckDB has no class of its own for a wrong checksum."""
    return not isinstance(error, _ABOUT_THE_LIMITS if of_ours else (*_ABOUT_THE_LIMITS, *_ABOUT_THE_QUESTION))


# What DuckDB raises. Its messages may quote a damaged file, and Python cannot decode every byte.
ERRORS = (duckdb.Error, UnicodeDecodeError)

# Errors that no damaged file can cause; those of the second kind, where the statement is the user's.
_ABOUT_THE_LIMITS = (duckdb.InterruptException, duckdb.OutOfMemoryException)
_ABOUT_THE_QUESTION = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ParserException,
    duckdb.PermissionException,
)
