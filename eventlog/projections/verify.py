"""Is the index the fold of the log that it claims to be (I19), and is every event in the log once (I8)?

Reads only: what is made for the comparison lies in memory, and spills into the system's directory for
temporary files. The caller brings a pinned view; two calls share nothing.
"""

import tempfile
from collections.abc import Iterator

import duckdb

from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout
from eventlog.log.finding import Finding
from eventlog.log.reader import LogView
from eventlog.projections import index, source

# Tables of an index, and what names one of their rows.
KEY_OF = {
    "turns": "session_id, turn",
    "sessions": "session_id",
    "sessions_master": "repo",
    "master_keys": "repo",
    "calls": "position",
    "event_ids": "id_hash",
}

_NAMED_MAX = 3
_DERIVED = "Nothing is lost: the index is derived, and `locus store rebuild` makes it again"


def verify_index(fs: FileSystem, layout: Layout, view: LogView) -> Iterator[Finding]:
    """Where the newest generation that would be used differs from a fold of the segments it rests on."""
    with tempfile.TemporaryDirectory(prefix="locus-verify-") as spill, source.connect() as con:
        con.execute(f"SET temp_directory = {source.literal(spill)}")
        generation, unusable = index.attach(con, fs, layout, view.manifest)
        for problem in unusable:
            if not problem.outdated:
                yield Finding(problem.path, f"{problem.what}. {_DERIVED}.")
        if generation is None:
            return
        path = layout.index(generation.name)
        try:
            con.execute("ATTACH ':memory:' AS made")
            index.fold_all(con, layout, view.manifest, generation.next_position)
        except source.ERRORS as error:
            failure = source.translated(error, fs, layout, view.manifest.segments)
            yield Finding(path, f"it cannot be compared with the log: {failure}")
            return
        for table, key in KEY_OF.items():
            try:
                rows = _differing(con, generation.catalog, table, key)
            except source.ERRORS as error:
                yield Finding(
                    path, f"its table {table} cannot be read ({index.first_line(error)}). {_DERIVED}."
                )
                continue
            if rows:
                named = "; ".join(", ".join(map(str, row)) for row in rows[:_NAMED_MAX])
                more = " and others" if len(rows) > _NAMED_MAX else ""
                yield Finding(
                    path, f"its table {table} differs from the log at ({key}) = {named}{more}. {_DERIVED}."
                )


def verify_ids(fs: FileSystem, layout: Layout, view: LogView) -> Iterator[Finding]:
    """Event ids that segments hold more than once, of which only the first should be there."""
    paths = [layout.segment(entry.name) for entry in view.manifest.segments if entry.rows]
    if not paths:
        return
    with tempfile.TemporaryDirectory(prefix="locus-verify-") as spill, source.connect() as con:
        con.execute(f"SET temp_directory = {source.literal(spill)}")
        try:
            rows = con.execute(
                "SELECT event_id, min(position), max(position) "
                f"FROM ({source.events(paths)}) GROUP BY event_id HAVING count(*) > 1 ORDER BY 2 LIMIT 10"
            ).fetchall()
        except source.ERRORS as error:
            failure = source.translated(error, fs, layout, view.manifest.segments)
            yield Finding(layout.root, f"the ids of sealed events cannot be compared: {failure}")
            return
    for event_id, first, last in rows:
        entry = next(e for e in view.manifest.segments if e.base <= last < e.end)
        what = f"the event {event_id} at position {last} is there already, at position {first}."
        yield Finding(layout.segment(entry.name), what)


def _differing(
    con: duckdb.DuckDBPyConnection, catalog: str, table: str, key: str
) -> "list[tuple[object, ...]]":
    """Keys of rows that only one of the two tables has."""
    stored, folded = f"(FROM {catalog}.{table})", f"(FROM made.{table})"
    return con.execute(
        f"SELECT DISTINCT {key} FROM (({stored} EXCEPT ALL {folded}) UNION ALL "
        f"({folded} EXCEPT ALL {stored})) ORDER BY ALL LIMIT {_NAMED_MAX + 1}"
    ).fetchall()
