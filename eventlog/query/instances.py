"""An instance of DuckDB without data, locked, for the next question about a log that has no files.

To start an instance, to lock and to stop it takes longer than an answer about a log of a few events. What one
was locked to stays: its limits, and that it reads no file. So it serves logs that are a tail alone, with the
same limits. Our statements alone made what is in it, since others only select; before another log comes in
each database of it is dropped, or emptied: that of the fold, whose plan is kept (projections/prepared.py).

A process holds at most one such instance; any thread may call. It does not survive a fork, before which
connection_cache.py stops it.
"""

from dataclasses import dataclass

import duckdb

from eventlog.projections.prepared import PreparedFold
from eventlog.query.connection_cache import ConnectionCache
from eventlog.query.results import Limits

# The default database cannot be detached, so there is another one meanwhile.
_EMPTY = (
    "ATTACH ':memory:' AS emptied; USE emptied; DETACH DATABASE IF EXISTS work; DETACH memory; "
    "ATTACH ':memory:' AS memory; USE memory; DETACH emptied"
)


@dataclass(slots=True)
class Instance:
    """An instance that is locked to limits and to no file."""

    con: duckdb.DuckDBPyConnection
    limits: Limits
    fold: PreparedFold

    def close(self) -> None:
        self.con.close()


_spare: "ConnectionCache[Instance]" = ConnectionCache()


def take(limits: Limits) -> "Instance | None":
    """An instance that is locked to these limits, now the caller's; None without one."""
    return _spare.take(_key(limits))


def give_back(instance: Instance) -> None:
    """Empty an instance, for the next to take it."""
    try:
        instance.con.execute(_EMPTY)
        instance.fold.clear()
    except duckdb.Error:
        instance.close()
    else:
        _spare.put(_key(instance.limits), instance)


def release() -> None:
    """Stop the instance that waits."""
    _spare.release()


def _key(limits: Limits) -> "tuple[int, int | None]":
    return limits.memory_bytes, limits.threads
