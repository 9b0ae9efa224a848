"""Events and projections as plain Parquet files in a directory, for DuckDB, pandas and others.

    events-00000.parquet, events-00001.parquet, …    the visible events of ROWS positions each, in order
    turns, sessions, sessions_master, llm_calls      .parquet: the projections of the same view

Columns and types are those of docs/sql.md; `payload` is JSON text. The metadata of the files
(`locus.store_id`, `locus.next_position`) names the log that they were made from. Contents are not included.
The files are made in a hidden sibling directory, which gets the name when all are durable. One thread.
"""

import os
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb

from eventlog.base.errors import EventLogError, NotFound, QueryError, Refused
from eventlog.exports import files, streams
from eventlog.exports.database import ORDER
from eventlog.log import checked
from eventlog.projections import source
from eventlog.query.views import PRICES, PROJECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog.log.reader import LogView
    from eventlog.store import Store

ROWS = 1_000_000  # positions in one file: some hundred megabytes, and a unit of parallel work
_GROUP_ROWS = 122_880  # of a row group, unless fewer large rows already have `_GROUP_BYTES`
_GROUP_BYTES = 16 << 20
_GROWS_BY = 8  # from the compressed to the uncompressed size of events
_VECTOR_ROWS = 2_048  # rows that DuckDB processes at once
_OURS = re.compile(rf"(events-\d{{5,}}|{'|'.join((*PROJECTIONS, PRICES))})\.parquet")


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
            _publish(staging, directory, force)
    except (duckdb.Error, QueryError) as error:
        raise EventLogError(f"{directory} cannot be written: {error}. Nothing was exported.") from error
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
    checked.check(store.fs, store.layout, view.manifest.segments)  # DuckDB checks no page (I11)
    marks = {
        "locus.store_id": store.identity.store_id.hex(),
        "locus.repo_hash": store.repo_hash,
        "locus.next_position": str(view.next_position),
    }
    metadata = ", ".join(f"{source.literal(name)}: {source.literal(mark)}" for name, mark in marks.items())
    options = (
        f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_group_rows(view)}, KV_METADATA {{{metadata}}}"
    )
    selects = {f"{name}.parquet": f"{name} {ORDER[name]}" for name in (*PROJECTIONS, PRICES)}
    # A log without events gets a file, too, so that readers find the columns.
    for number, base in enumerate(range(0, view.next_position or 1, rows)):
        condition = f"position BETWEEN {base} AND {base + rows - 1}"
        selects[f"events-{number:05d}.parquet"] = f"events WHERE {condition}"

    def fill(con: "duckdb.DuckDBPyConnection") -> "Iterator[tuple[str, int]]":
        for name, select in selects.items():
            path = f"{staging}/{name}"
            counts = con.execute(f"COPY (FROM {select}) TO {source.literal(path)} ({options})").fetchone()
            os.chmod(path, 0o600)
            files.sync(path)
            yield name, counts[0] if counts else 0

    report.rows = dict(streams.of_views(view, store, ("events", *PROJECTIONS, PRICES), fill))


def _group_rows(view: "LogView") -> int:
    """Rows of a row group: as many as have about `_GROUP_BYTES`, estimated from the size of the segments."""
    sealed = view.manifest.segments
    size = sum(entry.bytes for entry in sealed) * _GROWS_BY
    rows = sum(entry.rows for entry in sealed)
    return max(_VECTOR_ROWS, min(_GROUP_ROWS, _GROUP_BYTES * rows // size)) if rows else _VECTOR_ROWS


def _publish(staging: str, directory: str, force: bool) -> None:
    """Give the directory its name; with `force`, where it exists already, give its files their names."""
    if force and os.path.isdir(directory) and os.listdir(directory):
        new_names = os.listdir(staging)
        for name in new_names:
            os.rename(f"{staging}/{name}", f"{directory}/{name}")
        for name in os.listdir(directory):
            if _OURS.fullmatch(name) and name not in new_names:
                os.unlink(f"{directory}/{name}")
        files.sync_directory(directory)
    else:
        os.rename(staging, directory)  # replaces an empty directory, and no other
        files.sync_directory(os.path.dirname(directory))
