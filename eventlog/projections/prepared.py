"""The fold of a small log as one statement, which DuckDB plans once for each instance.

To parse, bind and plan the statements of fold.py takes longer than to run them over a few hundred events.
DuckDB can keep a plan, unless that scans a table: then it plans at each execution. So the events are the
parameter of the statement, a list, and all that it makes is one row of lists. The rules are those of
definitions.py, as in fold.py.

The row lies in a database of its own, since DuckDB plans again, too, where a catalog has changed. One
connection, one thread.
"""

from functools import cache

import duckdb

from eventlog.base.types import COLUMNS
from eventlog.projections import definitions as d
from eventlog.projections import fold
from eventlog.projections.master import master_keys, master_rows, sessions_master
from eventlog.projections.source import ANCHOR_OF_TABLE, SQL_TYPE_OF

# More events are worth a plan of their own: each is copied as a value, several times.
EVENTS_MAX = 500

_DATABASE = "prepared"
_TABLE = f"{_DATABASE}.folded"

_MADE = (*fold.STORED, "beaten")

# What the fold reads of an event; of payloads only those of anchors.
_READ = frozenset(
    (
        "position", "event_type", "operation", "session_id", "turn", "context_id", "extends", "agent",
        "agent_session_id", "message_id", "request_id", "repo", "branch", "commit", "occurred_at",
        "recorded_at", "title", "status", "path", "success", "tree_hash", "prompt_tokens",
        "completion_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens",
        "cache_write_1h_tokens",
    )
)  # fmt: skip


class PreparedFold:
    """The statement on one connection, prepared at its first use."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._is_ready = False

    def of(self, table: str) -> "dict[str, str]":
        """Fold the events of a table: the relations of all projections, as `fold.exact` gives them.

        They stay until the next call, `clear` or `drop`.
        """
        if self._is_ready:
            self.clear()
        else:
            self._prepare()
        self._con.execute(
            f"SET VARIABLE {_DATABASE} = (SELECT list(e) FROM (SELECT {_columns()} FROM {table}) AS e); "
            f"EXECUTE {_DATABASE}(getvariable('{_DATABASE}')); RESET VARIABLE {_DATABASE}"
        )
        return fold.exact(f"{_DATABASE}.main", fold.PROJECTIONS)

    def clear(self) -> None:
        """Forget the events of a log and what was made of them."""
        if self._is_ready:
            self._con.execute(f"DELETE FROM {_TABLE}")

    def drop(self) -> None:
        """Leave nothing of it in the catalog."""
        if self._is_ready:
            self._con.execute(f"DEALLOCATE {_DATABASE}; DETACH {_DATABASE}")
            self._is_ready = False

    def _prepare(self) -> None:
        self._con.execute(
            f"ATTACH ':memory:' AS {_DATABASE}; CREATE TABLE {_TABLE} ({', '.join(map(_list_of, _MADE))}); "
            + "".join(
                f"CREATE VIEW {_DATABASE}.{name} AS SELECT unnest({name}, max_depth := 2) FROM {_TABLE}; "
                for name in _MADE
            )
            + f"PREPARE {_DATABASE} AS INSERT INTO {_TABLE} {statement()}"
        )
        self._is_ready = True


def _list_of(table: str) -> str:
    """A column for all rows of a table of an index."""
    columns = d.COLUMNS_OF.get(table, (("position", "BIGINT", ""),))
    kinds = ", ".join(f'"{name}" {kind}' for name, kind, _ in columns)
    return f"{table} STRUCT({kinds})[]"


@cache
def _columns() -> str:
    """The columns of an event that the fold reads."""
    return f"{d.quoted(name for name, _ in COLUMNS if name in _READ)}, {ANCHOR_OF_TABLE}"


@cache
def statement() -> str:
    """A query of one row with a list for each table of an index, from the parameter $1, a list of events."""
    kinds = [f'"{name}" {SQL_TYPE_OF[kind]}' for name, kind in COLUMNS if name in _READ]
    steps = {
        "given": f"SELECT unnest($1::STRUCT({', '.join(kinds)}, anchor_payload VARCHAR)[], max_depth := 2)",
        "rows": d.call_rows("given"),
        "beaten": d.superseded_calls("given", "SELECT position FROM rows"),
        "used": d.token_sums("(SELECT * FROM rows WHERE position NOT IN (SELECT position FROM beaten))"),
        "lifecycle": d.lifecycle_rows("given"),
        "parts": d.event_rows("given"),
        "turns": d.turns("parts", "lifecycle", "used"),
        "sessions": d.sessions("parts", "lifecycle", "used", "turns"),
        "master_keys": master_keys(f"({master_rows('given')})"),
        "sessions_master": sessions_master("sessions", "master_keys"),
    }
    lists = ", ".join(f"(SELECT list(one) FROM {name} AS one) AS {name}" for name in _MADE)
    return (
        f"WITH {', '.join(f'{name} AS MATERIALIZED ({text})' for name, text in steps.items())} SELECT {lists}"
    )
