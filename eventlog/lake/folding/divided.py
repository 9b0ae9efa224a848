"""A store that is too large for one task, divided by session (docs/lake-tables.md §2).

One part settles its model calls; others fold the sessions whose hash is theirs, with the calls that count;
the last makes the master of all sessions. Each is a value as a task is, and its files are created once.
"""

import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eventlog.base.errors import Corruption, EventLogError, NotFound, Unsupported
from eventlog.lake.folding import stored, writing
from eventlog.lake.folding.reading import LocalEvents
from eventlog.lake.folding.stored import Projected
from eventlog.lake.folding.task import KEYS, Folded, FoldedFile, StoreWork, brought, connected, created
from eventlog.lake.place import Place, open_place
from eventlog.projections import definitions as d
from eventlog.projections import fold, source
from eventlog.projections.index import first_line
from eventlog.projections.master import master_keys, master_rows, sessions_master

if TYPE_CHECKING:
    import duckdb

    from eventlog.lake.folding.driver import Runner

# A store with more positions to fold than this is divided.
POSITIONS_MAX = 50_000_000

CALLS, SESSIONS, MASTER = "calls", "sessions", "master"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the work of a store: of SESSIONS number `number` of `count`; `files` are of parts before."""

    uri: str
    work: StoreWork
    kind: str
    number: int
    count: int
    files: "tuple[FoldedFile, ...]"


def is_large(work: StoreWork, positions_max: int) -> bool:
    """Whether a store is divided."""
    return work.end - work.since > positions_max


def fold_large(place: Place, work: StoreWork, runner: "Runner", positions_max: int) -> Folded:
    """Fold a store in full, part by part. Raises: as `task.run`."""
    work = replace(work, previous=())
    files: tuple[FoldedFile, ...] = ()
    for kind, count in ((CALLS, 1), (SESSIONS, -(-work.end // positions_max)), (MASTER, 1)):
        parts = [Part(place.uri, work, kind, number, count, files) for number in range(count)]
        for folded in runner(run_part, parts):
            if folded.problem:
                return folded
            files += folded.files
    return Folded(work.store_id, files, full=True)


def run_part(part: Part) -> Folded:
    """Make the files of a part of a store. Raises: EventLogError of the storage."""
    place = open_place(part.uri)
    try:
        with tempfile.TemporaryDirectory(prefix="locus-fold-") as directory, connected(directory) as con:
            local = LocalEvents(place, directory)
            events = local.relation((file, 0) for file in part.work.files)
            return Folded(part.work.store_id, _made(con, place, part, events, directory))
    except (Corruption, NotFound, Unsupported, *source.ERRORS) as error:
        reason = str(error) if isinstance(error, EventLogError) else first_line(error)
        return Folded(part.work.store_id, problem=f"cannot be folded: {reason}")


def _made(
    con: "duckdb.DuckDBPyConnection", place: Place, part: Part, events: str, directory: str
) -> "tuple[FoldedFile, ...]":
    keys: list[dict[str, Any]] = []
    if part.kind == CALLS:
        con.execute(f"CREATE VIEW events AS FROM {events} WHERE event_type = 'llm'")
        fold.fold(con, "events", ("llm_calls",), keys=KEYS)
        rows = {"llm_calls": d.llm_calls("events", "FROM beaten", KEYS)}
    elif part.kind == SESSIONS:
        _fold_sessions(con, part, events, _files(place, part, "llm_calls", directory))
        rows = {"turns": "FROM turns", "sessions": "FROM sessions"}
    else:
        con.execute(f"CREATE TABLE master_keys AS {master_keys(f'({master_rows(events, KEYS)})', KEYS)}")
        sessions = f"(SELECT * FROM {_files(place, part, 'sessions', directory)})"
        rows = {"sessions_master": sessions_master(sessions, "master_keys", KEYS)}
        keys = con.sql("FROM master_keys ORDER BY repo").to_arrow_table().to_pylist()
    named = f"{part.number}/{part.count}" if part.kind == SESSIONS else ""
    targets = [writing.Target(part.work.store_id, part.work.end, part.work.number, keys, named)]
    files = [
        f for table, query in rows.items() for f in created(con, place, table, query, targets, directory)
    ]
    return tuple(FoldedFile(file.name, file.size, file.rows) for file in files)


def _fold_sessions(con: "duckdb.DuckDBPyConnection", part: Part, events: str, calls: str) -> None:
    """Make `turns` and `sessions` of the sessions of a part, which are the same on every machine."""
    mine = f"md5_number_lower(session_id) % {part.count} = {part.number}"
    con.execute(f"CREATE VIEW events AS FROM {events} WHERE {mine}")
    con.execute(fold.WORK)
    rows = d.call_rows(f"(SELECT *, 'llm' AS event_type FROM {calls} WHERE {mine})", KEYS)
    con.execute(f"CREATE TABLE work.used AS {d.token_sums(f'({rows})', KEYS)}")
    fold.fold_sessions(con, "events", "work.used", "main", ("turns", "sessions"), KEYS)


def _files(place: Place, part: Part, table: str, directory: str) -> str:
    """The rows of a table that parts before made, as DuckDB reads them."""
    made = [file for file in (Projected.of(file.name) for file in part.files) if file.table == table]
    paths = [brought(place, file, f"{directory}/{table}-{number}") for number, file in enumerate(made)]
    columns = d.quoted(stored.schema_of(table).names)
    return f"(SELECT {columns} FROM read_parquet([{', '.join(map(source.literal, paths))}]))"
