"""The files in which the projections of one store lie, by their names and columns (docs/lake-tables.md §1).

    tables/<table>/data/<store id>/<end>-<number>-<code>-<hash>.parquet

A name says what was folded: the log up to a published position, with the rewrites that were known, by a code.
Pure, but for the hash of the code, which is computed once.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from blake3 import blake3

from eventlog.projections import definitions as d
from eventlog.projections import index
from eventlog.projections.master import master_keys, master_rows, sessions_master

FORMAT = "1"  # raised by hand when files change in what neither their columns nor the fold's texts show

# The tables, in the order in which they are committed.
TABLES = ("llm_calls", "turns", "sessions", "sessions_master")
# What tells two rows of one store apart, and by what rows are sorted.
KEYS = {
    "llm_calls": ("position",),
    "turns": ("session_id", "turn"),
    "sessions": ("session_id",),
    "sessions_master": ("repo",),
}

STORE_ID = "store_id"

_ARROW_OF_SQL = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    d.TIME: pa.timestamp("us", "UTC"),
    "VARCHAR[]": pa.list_(pa.string()),
}
_END_DIGITS, _NUMBER_DIGITS, _CODE_DIGITS = 20, 8, 8
_NAME = re.compile(
    r"tables/([a-z_]+)/data/([0-9a-f]{32})/"
    rf"([0-9]{{{_END_DIGITS}}})-([0-9]{{{_NUMBER_DIGITS}}})-([0-9a-f]{{{_CODE_DIGITS}}})-([0-9a-f]{{64}})\.parquet"
)


@dataclass(frozen=True, slots=True)
class FoldState:
    """What was folded: the events before `end`, knowing the rewrites up to `number`, by `code`."""

    number: int
    end: int
    code: str


@dataclass(frozen=True, slots=True)
class Projected:
    """One store's rows of one table, by the name of their file; `digest` is the BLAKE3 of its bytes."""

    table: str
    store_id: bytes
    end: int
    number: int
    code: str
    digest: str

    @property
    def name(self) -> str:
        state = f"{self.end:0{_END_DIGITS}d}-{self.number:0{_NUMBER_DIGITS}d}-{self.code}"
        return f"{prefix_of(self.table, self.store_id)}/{state}-{self.digest}.parquet"

    @property
    def state(self) -> FoldState:
        return FoldState(self.number, self.end, self.code)

    @staticmethod
    def parse(name: str) -> "Projected | None":
        """What a name says; None for any other object."""
        match = _NAME.fullmatch(name)
        if match is None or match[1] not in TABLES:
            return None
        table, store_id, end, number, code, digest = match.groups()
        return Projected(table, bytes.fromhex(store_id), int(end), int(number), code, digest)

    @staticmethod
    def of(name: str) -> "Projected":
        """What the name of such a file says."""
        file = Projected.parse(name)
        assert file is not None, name
        return file


def by_store(names: "Iterable[str]") -> "dict[bytes, list[Projected]]":
    """The files of projections among these, by their store."""
    files: dict[bytes, list[Projected]] = defaultdict(list)
    for name in names:
        file = Projected.parse(name)
        if file is not None:
            files[file.store_id].append(file)
    return files


def prefix_of(table: str, store_id: bytes) -> str:
    """Where the files of a store's projection are."""
    return f"tables/{table}/data/{store_id.hex()}"


@cache
def schema_of(table: str) -> "pa.Schema":
    """The columns of a table: `store_id`, then those that the fold makes."""
    return arrow_schema(d.COLUMNS_OF[table])


def arrow_schema(columns: d.Columns) -> "pa.Schema":
    """Columns of a projection, with `store_id` before them."""
    types = [(name, _ARROW_OF_SQL[kind]) for name, kind, _ in columns]
    return pa.schema([(STORE_ID, pa.string()), *types])


def _code() -> str:
    """What defines the fold: its texts, the columns of the tables, and the format of their files."""
    keys = (STORE_ID,)
    texts = [
        FORMAT,
        index.code8(),
        d.call_rows("e", keys),
        d.superseded_calls("e", "p", keys),
        d.llm_calls("e", "p", keys),
        d.event_rows("e", keys),
        d.lifecycle_rows("e", keys),
        d.token_sums("c", keys),
        d.turns("p", "t", "u", keys),
        d.sessions("p", "t", "u", "a", keys),
        master_rows("e", keys),
        master_keys("r", keys),
        sessions_master("s", "k", keys),
        repr(KEYS),
        *(str(schema_of(table)) for table in TABLES),
    ]
    return blake3("\0".join(texts).encode()).hexdigest(_CODE_DIGITS // 2)


CODE = _code()
