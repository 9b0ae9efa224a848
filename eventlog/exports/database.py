"""The log as one DuckDB file: every view of SQL under its name, for DuckDB and programs that open its files.

    events, turns, sessions, sessions_master, llm_calls    tables with all columns and rows
    the other views of docs/sql.md                          views over the table `events`
    prices                                                  what model calls are priced with (docs/costs.md)
    line_counts                                             lines of changes that do not state them
    locus                                                   one row: store_id, repo_hash, next_position

All tables are of one pinned view of the log. Contents are not included, and so neither are the functions of
files. The file is made beside its target and gets its name when it is durable. One thread.
"""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb

from eventlog.base.errors import EventLogError, QueryError
from eventlog.exports import files, streams
from eventlog.log import checked
from eventlog.projections import source
from eventlog.query.binding import bind_counts
from eventlog.query.views import NAMES, PRICES, PROJECTIONS, over_events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog.log.reader import LogView
    from eventlog.store import Store

LINE_COUNTS = "line_counts"
ORDER = {
    "events": "",  # as the log has them
    "turns": "ORDER BY first_position",
    "sessions": "ORDER BY first_position",
    "sessions_master": "ORDER BY repo",
    "llm_calls": "ORDER BY position",
    PRICES: "ORDER BY ALL",
}


@dataclass(slots=True)
class DatabaseReport:
    """What was written: the file, the position up to which it covers the log, and rows of each table."""

    path: str
    until: int
    rows: dict[str, int] = field(default_factory=dict)


def export(store: "Store", path: str, *, force: bool = False) -> DatabaseReport:
    """Write the file at `path`, which must be free; with `force` a plain file there is replaced.

    Raises: Refused, NotFound, EventLogError when the disk refuses.
    """
    path = os.path.abspath(path)
    try:
        with files.beside(path, force=force) as staging, store.view() as view:
            os.unlink(staging)  # DuckDB makes its file itself; this showed that it can be made
            report = DatabaseReport(path, view.next_position)
            try:
                _write(store, view, staging, report)
            finally:
                if os.path.lexists(log := f"{staging}.wal"):
                    os.unlink(log)
            os.chmod(staging, 0o600)
    except (duckdb.Error, QueryError) as error:
        raise EventLogError(f"{path} cannot be written: {error}. Nothing was exported.") from error
    return report


def _write(store: "Store", view: "LogView", path: str, report: DatabaseReport) -> None:
    """Fill the file. Row groups are compressed and written as they fill, so it takes no more memory."""
    checked.check(store.fs, store.layout, view.manifest.segments)  # DuckDB checks no page (I11)

    def fill(con: duckdb.DuckDBPyConnection) -> "Iterator[tuple[str, int]]":
        if os.path.exists(path):
            os.unlink(path)  # begun with an index that turned out to be damaged
        con.execute(f"ATTACH {source.literal(path)} AS made (RECOVERY_MODE no_wal_writes)")
        for name in ("events", *PROJECTIONS, PRICES):
            con.execute(f"CREATE TABLE made.{name} AS FROM {name} {ORDER[name]}")
            con.execute("CHECKPOINT made")
            counted = con.execute(f"SELECT count(*) FROM made.{name}").fetchone()
            yield name, counted[0] if counted else 0
        bind_counts(con, f"made.{LINE_COUNTS}", store.line_counts)
        con.execute("USE made")
        for name in NAMES:
            if name not in ORDER:
                con.execute(f"CREATE VIEW {name} AS {over_events(name, counts=LINE_COUNTS)}")
        con.execute(
            "CREATE TABLE locus AS SELECT ?::VARCHAR AS store_id, ?::VARCHAR AS repo_hash, "
            "?::BIGINT AS next_position",
            [store.identity.store_id.hex(), store.repo_hash, report.until],
        )
        con.execute("CHECKPOINT made; USE memory; DETACH made")

    report.rows = dict(streams.of_views(view, store, ("events", *PROJECTIONS, PRICES), fill))
