"""Events and projections as plain Parquet files in a directory, for DuckDB, pandas and others.

    events-00000.parquet, events-00001.parquet, …    the visible events by position, ROWS in each
    turns, sessions, sessions_master, llm_calls      .parquet: the projections of the same view

Columns and types are those of docs/sql.md; `payload` is JSON text. The files say in their metadata
(`locus.store_id`, `locus.next_position`) which log they were made from. Contents are not among them.
They are made in a hidden sibling directory, which gets the name when all of them are durable. One thread.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eventlog.errors import NotFound, Refused
from eventlog.exports import files
from eventlog.query.engine import Limits, table
from eventlog.query.views import PROJECTIONS

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.log.reader import LogView
    from eventlog.store import Store

ROWS = 1_000_000  # of events in one file: some hundred megabytes at most, and a unit of parallel work
_GROUP_ROWS = 122_880  # of a row group, unless they are so fat that fewer have so many bytes
_GROUP_BYTES = 32 << 20
_LIMITS = Limits(rows_max=1 << 40, timeout_s=None, threads=1)
_OURS = re.compile(rf"(events-\d{{5,}}|{'|'.join(PROJECTIONS)})\.parquet")
_ORDER = {
    "turns": "first_position",
    "sessions": "first_position",
    "sessions_master": "repo",
    "llm_calls": "position",
}


@dataclass(slots=True)
class ParquetReport:
    """What was written: name and rows of each file."""

    directory: str
    until: int
    rows: dict[str, int] = field(default_factory=dict)


def export(store: "Store", directory: str, *, force: bool = False, rows: int = ROWS) -> ParquetReport:
    """Write the files into `directory`, which is missing or empty.

    With `force`, files of these names in it are replaced, those of an earlier and larger export are
    removed, and others stay. Raises: Refused, NotFound, EventLogError when the disk refuses.
    """
    directory = os.path.abspath(directory)
    _check_target(directory, force)
    staging = files.sibling_of(directory)
    try:
        with files.disk_errors(directory):
            os.mkdir(staging, 0o700)
            with store.view() as view:
                report = ParquetReport(directory, view.next_position)
                _write_all(store, view, staging, report, rows)
            files.sync_directory(staging)
            _take_place(staging, directory, force)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return report


def _check_target(directory: str, force: bool) -> None:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        parent = os.path.dirname(directory)
        if not os.path.isdir(parent):
            raise NotFound(f"{parent} is not a directory; make it first") from None
        return
    except NotADirectoryError:
        raise Refused(f"{directory} exists and is not a directory; name another one") from None
    if names and not force:
        raise Refused(f"{directory} is not empty; name another directory, or use --force to replace in it")


def _write_all(store: "Store", view: "LogView", staging: str, report: ParquetReport, rows: int) -> None:
    from eventlog.log.segment import SCHEMA

    marks = {
        "locus.store_id": store.identity.store_id.hex(),
        "locus.repo_hash": store.repo_hash,
        "locus.next_position": str(view.next_position),
    }
    for number, batches in enumerate(_in_files(view, rows)):
        _write(f"{staging}/events-{number:05d}.parquet", SCHEMA, batches, marks, report)
    for name in PROJECTIONS:
        found = table(
            view, store.layout, store.fs, f"SELECT * FROM {name} ORDER BY {_ORDER[name]}", None, _LIMITS
        )
        _write(f"{staging}/{name}.parquet", found.schema, found.to_batches(), marks, report)


def _in_files(view: "LogView", rows: int) -> "Iterator[Iterator[pa.RecordBatch]]":
    """The log's batches, cut where a file is full; each file's are to be taken before the next's."""
    source = view.batches()
    rest = next(source, None)

    def one_file() -> "Iterator[pa.RecordBatch]":
        nonlocal rest
        left = rows
        while rest is not None and left:
            part = rest.slice(0, left)
            rest = rest.slice(part.num_rows) if part.num_rows < rest.num_rows else next(source, None)
            left -= part.num_rows
            yield part

    yield one_file()  # also of a log without events: a reader finds the columns
    while rest is not None:
        yield one_file()


def _write(
    path: str,
    schema: "pa.Schema",
    batches: "Iterable[pa.RecordBatch]",
    marks: dict[str, str],
    report: ParquetReport,
) -> None:
    import pyarrow.parquet as pq

    schema = schema.with_metadata(marks)
    count = 0
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for events in _row_groups(batches):
                writer.write_table(events.cast(schema))
                count += events.num_rows
        file.flush()
        os.fsync(file.fileno())
    report.rows[os.path.basename(path)] = count


def _row_groups(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.Table]":
    """The batches put together to tables, each of which becomes a row group."""
    import pyarrow as pa

    some: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        some.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(some)
            some, rows, size = [], 0, 0
            pa.default_memory_pool().release_unused()
    if some:
        yield pa.Table.from_batches(some)


def _take_place(staging: str, directory: str, force: bool) -> None:
    """Give the directory its name; with `force`, its files theirs, where the directory is there already."""
    if force and os.path.isdir(directory) and os.listdir(directory):
        made = os.listdir(staging)
        for name in made:
            os.rename(f"{staging}/{name}", f"{directory}/{name}")
        for name in os.listdir(directory):
            if _OURS.fullmatch(name) and name not in made:
                os.unlink(f"{directory}/{name}")
        files.sync_directory(directory)
    else:
        os.rename(staging, directory)  # takes the place of an empty directory, and of no other
        files.sync_directory(os.path.dirname(directory))
