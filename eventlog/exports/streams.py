"""Answers of any size in bounded memory: one connection for a whole answer, which is read row by row.

The answer for an export is as long as the log. So it is neither made at once nor cut into pages that would
each fold the projections again. DuckDB gets little memory; what does not fit (a sort, a fold without an
index) goes to a directory under the store's `tmp/`. One thread, one view, which outlives the answer.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from eventlog.base import jsontext
from eventlog.base.layout import TMP_DIR
from eventlog.projections import source
from eventlog.projections.prefix import SegmentsPrefix
from eventlog.query.binding import Snapshot
from eventlog.query.people import allowed
from eventlog.query.safe import Statement

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

_T = TypeVar("_T")

# Memory for DuckDB. It cannot spill everything: where the first limit is too low, the next one is tried.
_MEMORY_BYTES = (96 << 20, 480 << 20, 2 << 30)
_FETCH_ROWS = 1_000

Ask = Callable[[duckdb.DuckDBPyConnection], Iterator[_T]]


def of_views(
    view: "LogView",
    store: "Store",
    names: Collection[str],
    ask: Ask[_T],
    columns: frozenset[str] | None = None,
    *,
    homes: bool = False,
) -> Iterator[_T]:
    """The items that `ask` yields from a connection that has the views `names` (docs/sql.md).

    An index that turns out to be damaged counts as absent: `ask` is called again, and its items, which are
    the same in the same order, are skipped as far as they were given already (I22).
    Args: columns: of events, where it needs no others; homes: names of homes stay, as in `people.People`.
    Raises: Corruption, QueryError.
    """
    people = allowed(store.fs, store.layout, homes=homes)
    snapshot = Snapshot(view, store.layout, store.fs, people=people)
    row_count = 0
    use_index = True
    sizes = iter(_MEMORY_BYTES)
    memory = next(sizes)
    while True:
        with _connected(store, memory) as con:
            binding = snapshot.binding(con, use_index=use_index)
            try:
                binding.bind(Statement("", frozenset(names), lists_catalog=False, columns=columns))
                if columns is None:
                    _hide(con, store, names)
                for row in islice(ask(con), row_count, None):
                    row_count += 1
                    yield row
                return
            except source.ERRORS as error:
                larger_memory = next(sizes, None) if isinstance(error, duckdb.OutOfMemoryException) else None
                if larger_memory is not None:
                    memory = larger_memory
                elif binding.bound.generation is not None and source.may_be_damage(error, of_ours=True):
                    use_index = False
                else:
                    segments = view.manifest.segments
                    raise source.translated(error, store.fs, store.layout, segments) from error
            finally:
                if isinstance(view.prefix, SegmentsPrefix):
                    view.prefix.give_back()


def _hide(con: duckdb.DuckDBPyConnection, store: "Store", names: Collection[str]) -> None:
    """Put views over those of the same names that hide secrets in names of files."""
    redactor = store.redactor
    file_names = con.execute(_NAMES_OF_FILES).fetchall()
    if not redactor.kinds_in("\n".join(name for (name,) in file_names).encode()):
        return
    hidden = {name: shown_name for (name,) in file_names if (shown_name := redactor.text(name)) != name}
    hidden |= {jsontext.encode(name)[1:-1].decode(): shown_name for name, shown_name in hidden.items()}
    con.execute("CREATE SCHEMA memory.leaving")
    for name in names:
        kinds = {column: kind for column, kind, *_ in con.execute(f"DESCRIBE {name}").fetchall()}
        select = f"FROM memory.main.{name}"
        for file_name in sorted(hidden, key=len, reverse=True):
            replaced = []
            for column, kind in kinds.items():
                value = f"replace({{}}, {source.literal(file_name)}, {source.literal(hidden[file_name])})"
                if kind == "VARCHAR":
                    replaced.append(f'{value.format(column)} AS "{column}"')
                elif kind == "VARCHAR[]":
                    replaced.append(f'list_transform({column}, lambda x: {value.format("x")}) AS "{column}"')
            select = f"SELECT * REPLACE ({', '.join(replaced)}) FROM ({select})"
        con.execute(f"CREATE VIEW memory.leaving.{name} AS {select}")
    con.execute("SET search_path = 'memory.leaving,memory.main'")


_NAMES_OF_FILES = """
    SELECT DISTINCT name FROM (
        SELECT path AS name FROM events WHERE event_type IN ('file', 'snapshot', 'restore')
        UNION ALL SELECT TRY(json_extract_string(payload, '$.old_path')) FROM events
        WHERE contains(payload, '"old_path"')
    ) WHERE name IS NOT NULL
"""


def rows(con: duckdb.DuckDBPyConnection, select: str, at_once: int | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a SELECT as dicts. Its times must have no zone: DuckDB needs pytz for others."""
    con.execute(select)
    names = [column[0] for column in con.description or ()]
    while batch := con.fetchmany(at_once or _FETCH_ROWS):
        for row in batch:
            yield dict(zip(names, row, strict=True))


@contextmanager
def _connected(store: "Store", memory: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with this much memory, and a temporary directory for the rest."""
    tmp = store.layout.directory(TMP_DIR)
    spill = tempfile.mkdtemp(prefix="export-", dir=tmp if os.access(tmp, os.W_OK) else None)
    try:
        with source.connect() as con:
            con.execute(
                f"SET temp_directory = {source.literal(spill)}; SET memory_limit = '{memory}B'; "
                "SET threads = 1"
            )
            yield con
    finally:
        shutil.rmtree(spill, ignore_errors=True)
