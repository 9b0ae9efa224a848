"""Published files as DuckDB reads them: of each the columns that the fold needs, checked, on this machine.

A file of a folder is read where it is. Of an object in a bucket the needed bytes are fetched into a file of
the same size with holes in it, which is as good: a small object whole in one request, of a larger one its
end and the runs of bytes in which its needed columns lie. Every page of these columns is decoded once
for its checksum, which DuckDB does not read (I11). Any number of files at once; one thread calls.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from eventlog.base.errors import (
    PARSE_ERRORS,
    Corruption,
    EventLogError,
    NotFound,
    Unsupported,
    why_unreadable,
)
from eventlog.base.fs import REAL, opened, write_all
from eventlog.base.types import COLUMN_KINDS, TEXT
from eventlog.lake.chain import LiveFile, store_of
from eventlog.lake.outgoing import SCHEMA
from eventlog.lake.place import Place, near
from eventlog.lake.source import FORMAT
from eventlog.log.segment import ANCHOR_PAYLOAD
from eventlog.projections.source import SQL_TYPE_OF, literal

if TYPE_CHECKING:
    import duckdb

# The columns of events that the fold reads.
COLUMNS = (
    "store_id", "position", "event_id", "event_type", "occurred_at", "recorded_at", "session_id", "turn",
    "agent", "agent_session_id", "subagent_id", "repo", "branch", "commit", "context_id", "extends", "title",
    "status", "operation", "success", "path", "tree_hash", "model", "message_id", "request_id",
    "prompt_tokens", "completion_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens",
    "cache_write_1h_tokens", "duration_ms", ANCHOR_PAYLOAD,
)  # fmt: skip

# An object up to so many bytes is one request; the end of a larger one is read with its footer.
_WHOLE_BYTES = 1 << 20
_END_BYTES = 64 << 10
# Columns less than so far apart are one request, of at most so many bytes.
_GAP_BYTES = 256 << 10
_REQUEST_BYTES = 32 << 20

_AT_ONCE = 8
_BATCH_ROWS = 32_768
# DuckDB takes a name with one of these for a pattern or for options.
_SPECIAL = re.compile(r"[*?\[\]{}]")


class LocalEvents:
    """The published files of a place that were brought to this machine, below a directory of the caller's."""

    def __init__(self, place: Place, directory: str) -> None:
        self.place = place
        self._directory = directory
        self._paths: dict[str, str] = {}  # where a file is read, by its name in the place
        self._lacking: dict[str, frozenset[str]] = {}  # of COLUMNS: those that a file does not have

    def bring(self, files: Iterable[LiveFile]) -> None:
        """Fetch and check files that are not here yet.

        Raises: Corruption; NotFound where one was replaced meanwhile; Unsupported for one of a newer version.
        """
        missing = [file for file in files if file.name not in self._paths]
        targets = [f"{self._directory}/{len(self._paths) + n}.parquet" for n in range(len(missing))]
        with ThreadPoolExecutor(_AT_ONCE, "locus-lake") as pool:
            paths = list(pool.map(self._fetched, missing, targets))
            lacking = list(pool.map(self._checked, missing, paths))
        self._paths |= {file.name: path for file, path in zip(missing, paths, strict=True)}
        self._lacking |= {file.name: names for file, names in zip(missing, lacking, strict=True)}

    def relation(self, spans: "Iterable[tuple[LiveFile, int]]") -> str:
        """A query of COLUMNS of the events in files, of each from a position on. Raises: as `bring`."""
        spans = list(spans)
        self.bring(file for file, _ in spans)
        whole = [file.name for file, since in spans if since <= file.base and not self._lacking[file.name]]
        selects = [self._select(whole, frozenset())] if whole else []
        for file, since in spans:
            if file.name not in whole:
                where = f" WHERE position >= {since}" if since > file.base else ""
                selects.append(self._select([file.name], self._lacking[file.name]) + where)
        return f"({' UNION ALL '.join(selects or [_NO_EVENTS])})"

    def _select(self, names: "Sequence[str]", lacking: "frozenset[str]") -> str:
        columns = ", ".join(_NULL_OF[name] if name in lacking else f'"{name}"' for name in COLUMNS)
        paths = ", ".join(literal(self._paths[name]) for name in names)
        return f"SELECT {columns} FROM read_parquet([{paths}])"

    def _fetched(self, file: LiveFile, target: str) -> str:
        path = path_in_folder(self.place, file.name)
        if path is None:
            fetch(self.place, file, target)
            return target
        if not REAL.exists(path):
            raise NotFound(f"{self.place.address(file.name)} is not there any more. Try again.")
        return path

    def _checked(self, file: LiveFile, path: str) -> "frozenset[str]":
        """Decode the needed columns of a file; which of them it lacks."""
        address = self.place.address(file.name)
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
                lacking = _lacking(parquet.schema_arrow, file, address)
                columns = [name for name in COLUMNS if name not in lacking]
                for _ in parquet.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                    pass
        except EventLogError:
            raise
        except (OSError, *PARSE_ERRORS) as error:
            raise Corruption(address, f"it cannot be read ({why_unreadable(error)})", None, VERIFY) from error
        return lacking


VERIFY = "locus lake verify --read"


def events(
    con: "duckdb.DuckDBPyConnection",
    place: Place,
    files: Iterable[LiveFile],
    name: str,
    since: int = 0,
    *,
    directory: str,
) -> None:
    """Make a view of the events in published files from a position on, with what the fold needs of them.

    Args: directory: for what is fetched; the view needs it. Raises: as `LocalEvents.bring`.
    """
    spans = ((file, since) for file in files if file.end > since)
    con.execute(f"CREATE OR REPLACE VIEW {name} AS FROM {LocalEvents(place, directory).relation(spans)}")


def path_in_folder(place: Place, name: str) -> "str | None":
    """Where DuckDB can read an object as a file; None for one that has to be fetched."""
    parts = urlsplit(place.uri)
    path = f"{unquote(parts.path)}/{name}"
    return path if parts.scheme == "file" and not _SPECIAL.search(path) else None


def hashed(place: Place, name: str, digest: str) -> bytes:
    """The bytes of an object with their BLAKE3 in its name. Raises: Corruption, NotFound."""
    data = place.read(name)
    if blake3(data).hexdigest() != digest:
        raise Corruption(place.address(name), "its bytes are not those of its name")
    return data


def fetch(place: Place, file: LiveFile, target: str) -> None:
    """Write what the fold needs of an object to a file of this machine, each byte at its own offset.

    Raises: Corruption, NotFound.
    """
    with opened(REAL, target, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
        if file.size <= _WHOLE_BYTES:
            write_all(REAL, fd, place.read(file.name))
            return
        end = place.read_end(file.name, _END_BYTES)
        footer_bytes = int.from_bytes(end[-8:][:4], "little") + 8
        if footer_bytes > len(end):
            end = place.read_end(file.name, footer_bytes)
        for start, stop in near(
            sorted(_chunks(_footer_in(end, place.address(file.name)))), _GAP_BYTES, _REQUEST_BYTES
        ):
            write_all(REAL, fd, place.read_range(file.name, start, stop - start), start)
        write_all(REAL, fd, end, file.size - len(end))


def _footer_in(end: bytes, address: str) -> "pq.FileMetaData":
    try:
        return pq.read_metadata(pa.BufferReader(end))
    except (OSError, *PARSE_ERRORS) as error:
        raise Corruption(address, f"it is no Parquet file: {why_unreadable(error)}", None, VERIFY) from error


def _chunks(footer: "pq.FileMetaData") -> Iterator["tuple[int, int]"]:
    """The ranges of a file in which its needed columns lie."""
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            if column.path_in_schema.partition(".")[0] in COLUMNS:
                offsets = (column.dictionary_page_offset, column.data_page_offset)
                start = min(offset for offset in offsets if offset is not None)
                yield start, start + column.total_compressed_size


def _lacking(schema: "pa.Schema", file: LiveFile, address: str) -> "frozenset[str]":
    """Which of COLUMNS a file does not have. Raises: Corruption, Unsupported."""
    marks = schema.metadata or {}
    if marks.get(b"locus.format") != FORMAT.encode():
        raise Unsupported(f"{address} has a format that this version of Locus does not know. Upgrade it.")
    if marks.get(b"locus.store_id") != store_of(file.name).hex().encode():
        raise Corruption(address, "its metadata name another store than its name", None, VERIFY)
    types = {field.name: field.type for field in schema}
    lacking = frozenset(name for name in COLUMNS if name not in types)
    for name in COLUMNS:
        if name not in lacking and types[name] != SCHEMA.field(name).type:
            raise Corruption(address, f"its column {name} is not that of events", None, VERIFY)
    return lacking


def _sql_type(name: str) -> str:
    return SQL_TYPE_OF[COLUMN_KINDS.get(name, TEXT)]


_NULL_OF = {name: f'NULL::{_sql_type(name)} AS "{name}"' for name in COLUMNS}
_NO_EVENTS = f"SELECT {', '.join(_NULL_OF.values())} FROM range(0)"
