"""The log as one DuckDB file: every view of SQL under its name, for DuckDB and whatever opens its files.

    events, turns, sessions, sessions_master, llm_calls    tables with all columns and rows
    the other views of docs/sql.md                          views over the table `events`
    locus                                                   one row: store_id, repo_hash, next_position

All of one pinned view of the log. Contents are not in it, and so neither are the functions of files. The file
is made beside its name and gets it when it is durable. One thread.
"""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb

from eventlog.errors import EventLogError
from eventlog.exports import files
from eventlog.query.engine import Limits, table
from eventlog.query.views import NAMES, PROJECTIONS, over_events

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

# For the file being written: row groups of DuckDB are compressed, and written, as they fill.
_MEMORY_BYTES = 256 << 20
_LIMITS = Limits(rows_max=1 << 40, timeout_s=None, threads=1)
_ORDER = {"sessions_master": "repo", "llm_calls": "position"}


@dataclass(slots=True)
class DatabaseReport:
    """What was written: the file, the position up to which it knows the log, and rows of each table."""

    path: str
    until: int
    rows: dict[str, int] = field(default_factory=dict)


def export(store: "Store", path: str, *, force: bool = False) -> DatabaseReport:
    """Write the file at `path`, which must be free; with `force` a plain file there is replaced.

    Raises: Refused, NotFound, EventLogError when the disk refuses.
    """
    path = os.path.abspath(path)
    files.check_free(path, force=force)
    staging = files.sibling_of(path)
    try:
        with files.disk_errors(path):
            os.close(os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
            os.unlink(staging)  # DuckDB makes its file itself; here it showed that it can be made
            with store.view() as view:
                report = DatabaseReport(path, view.next_position)
                _write(store, view, staging, report)
            os.chmod(staging, 0o600)
            files.publish(staging, path, force=force)
    except duckdb.Error as error:
        raise EventLogError(f"{path} cannot be written: {error}. Nothing was exported.") from error
    finally:
        for left in (staging, f"{staging}.wal"):
            if os.path.lexists(left):
                os.unlink(left)
    return report


def _write(store: "Store", view: "LogView", path: str, report: DatabaseReport) -> None:
    import pyarrow as pa

    from eventlog.log.segment import SCHEMA

    with duckdb.connect(path) as con:
        con.execute(
            "SET TimeZone = 'UTC'; SET enable_progress_bar = false; SET threads = 1; "
            f"SET memory_limit = '{_MEMORY_BYTES}B'"
        )
        batches = (batch.cast(SCHEMA) for batch in view.batches())
        con.register("given", pa.RecordBatchReader.from_batches(SCHEMA, batches))
        con.execute("CREATE TABLE events AS FROM given")
        con.unregister("given")
        for name in PROJECTIONS:
            order = _ORDER.get(name, "first_position")
            ask = f"SELECT * FROM {name} ORDER BY {order}"
            con.register("given", table(view, store.layout, store.fs, ask, None, _LIMITS))
            con.execute(f"CREATE TABLE {name} AS FROM given")
            con.unregister("given")
        for name in ("events", *PROJECTIONS):
            found = con.execute(f"SELECT count(*) FROM {name}").fetchone()
            report.rows[name] = found[0] if found else 0
        for name in NAMES:
            if name not in report.rows:
                con.execute(f"CREATE VIEW {name} AS {over_events(name)}")
        con.execute(
            "CREATE TABLE locus AS SELECT ?::VARCHAR AS store_id, ?::VARCHAR AS repo_hash, "
            "?::BIGINT AS next_position",
            [store.identity.store_id.hex(), store.repo_hash, report.until],
        )
        con.execute("CHECKPOINT")
