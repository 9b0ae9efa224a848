"""An instance of DuckDB without data, locked, for the next question about a log that has no files.

To start an instance, to lock and to stop it takes longer than an answer about a log of a few events. What one
was locked to stays: its limits, and that it reads no file. So it serves logs that are a tail alone, with the
same limits. Our statements alone made what is in it, since others only select; each database of it is dropped
before another log comes in.

A process holds at most one such instance; any thread may call. It does not survive a fork, before which
connection_cache.py stops it.
"""

import duckdb

from eventlog.query.connection_cache import ConnectionCache
from eventlog.query.results import Limits

# The default database cannot be detached, so there is another one meanwhile.
_EMPTY = (
    "ATTACH ':memory:' AS emptied; USE emptied; DETACH DATABASE IF EXISTS work; DETACH memory; "
    "ATTACH ':memory:' AS memory; USE memory; DETACH emptied"
)

_spare: "ConnectionCache[duckdb.DuckDBPyConnection]" = ConnectionCache()


def take(limits: Limits) -> "duckdb.DuckDBPyConnection | None":
    """An instance that is locked to these limits and to no file, now the caller's; None without one."""
    return _spare.take(_key(limits))


def give_back(con: duckdb.DuckDBPyConnection, limits: Limits) -> None:
    """Empty an instance that is locked to these limits and to no file, for the next to take it."""
    try:
        con.execute(_EMPTY)
    except duckdb.Error:
        con.close()
    else:
        _spare.put(_key(limits), con)


def release() -> None:
    """Stop the instance that waits."""
    _spare.release()


def _key(limits: Limits) -> "tuple[int, int | None]":
    return limits.memory_bytes, limits.threads
