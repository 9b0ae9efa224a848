"""The files in which wide tables lie: their names, their columns, and writing them (docs/lake-tables.md §1).

    tables/<table>/data/wide/<erasures>-<state>-<part>-<hash>.parquet

A name says of what it was made: of which states of all stores, by which code, and after how many erasures.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING

import pyarrow as pa
from blake3 import blake3

from eventlog.lake.folding import stored, wide, writing
from eventlog.lake.folding.stored import STORE_ID, FoldState
from eventlog.lake.folding.writing import Written
from eventlog.log.segment import ROW_GROUP_ROWS
from eventlog.projections import definitions as d

if TYPE_CHECKING:
    import duckdb

STORES = "stores"

# The projection whose rows a wide table has, and what tells its rows apart, by which they are sorted.
PROJECTION_OF = {"wide_calls": "llm_calls", "wide_turns": "turns", "wide_sessions": "sessions"}
KEYS = {
    "wide_calls": (STORE_ID, "position", "event_id"),
    "wide_turns": ("session_id", "turn"),
    "wide_sessions": ("session_id",),
}
_PART_GROUPS_MAX = 4_000_000 // ROW_GROUP_ROWS

_ERASURES_DIGITS, _STATE_DIGITS, _PART_DIGITS = 8, 16, 4
_NAME = re.compile(
    rf"tables/({'|'.join(wide.TABLES)})/data/wide/"
    rf"([0-9]{{{_ERASURES_DIGITS}}})-([0-9a-f]{{{_STATE_DIGITS}}})-([0-9]{{{_PART_DIGITS}}})-"
    r"([0-9a-f]{64})\.parquet"
)


@dataclass(frozen=True, slots=True)
class WideFile:
    """A part of the rows of a wide table, by the name of its file.

    `erasures` is how many rewrites by an erasure or a narrower policy all stores of the place had, `state`
    the hash of what was folded of each of them, `digest` the BLAKE3 of the file's bytes.
    """

    table: str
    erasures: int
    state: str
    part: int
    digest: str

    @property
    def name(self) -> str:
        made_of = f"{self.erasures:0{_ERASURES_DIGITS}d}-{self.state}-{self.part:0{_PART_DIGITS}d}"
        return f"tables/{self.table}/data/wide/{made_of}-{self.digest}.parquet"

    @staticmethod
    def parse(name: str) -> "WideFile | None":
        """What a name says; None for any other object."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        table, erasures, state, part, digest = match.groups()
        return WideFile(table, int(erasures), state, int(part), digest)


@cache
def schema_of(table: str) -> "pa.Schema":
    """The columns of a wide table: its home, the stores that have the row, then those that the fold makes."""
    columns = list(stored.schema_of(PROJECTION_OF[table]))
    return pa.schema([columns[0], pa.field(STORES, pa.list_(pa.string())), *columns[1:]])


def state_of(states: "Mapping[bytes, FoldState]") -> str:
    """The hash of what was folded of every store, and of the code that folds all of them together."""
    lines = (f"{id.hex()} {state.end} {state.number} {state.code}" for id, state in sorted(states.items()))
    return blake3("\0".join([_code(), *lines]).encode()).hexdigest(_STATE_DIGITS // 2)


@cache
def _code() -> str:
    schemas = [str(schema_of(table)) for table in wide.TABLES]
    return "\0".join([stored.CODE, repr(KEYS), *schemas, *wide.texts()])


def written(
    con: "duckdb.DuckDBPyConnection", table: str, erasures: int, state: str, directory: str
) -> "Iterator[Written]":
    """The rows of the view of a wide table as files on this machine; one at least, which may have no rows."""
    columns, order = d.quoted(schema_of(table).names), d.quoted(KEYS[table])
    reader = con.sql(f"SELECT {columns} FROM {table} ORDER BY {order}").to_arrow_reader(ROW_GROUP_ROWS)
    groups = writing.row_groups(reader, schema_of(table))
    first, part = next(groups, None), 0
    while first is not None or not part:
        rows = chain([] if first is None else [first], islice(groups, _PART_GROUPS_MAX - 1))
        yield _write(WideFile(table, erasures, state, part, ""), rows, f"{directory}/{table}-{part}")
        first, part = next(groups, None), part + 1


def _write(unhashed: WideFile, groups: "Iterable[pa.Table]", path: str) -> Written:
    table = unhashed.table
    options = writing.options_of(PROJECTION_OF[table], KEYS[table])
    options["use_dictionary"].append(f"{STORES}.list.element")
    schema = schema_of(table).with_metadata({"locus.format": stored.FORMAT})
    digest, size, rows = writing.write(path, schema, groups, options)
    return Written(b"", path, replace(unhashed, digest=digest).name, size, rows)
