"""Tables of facts that events show about turns and errors, made where a question names one (joins.py).

All but one are queries. Which turns are taken back is a fold in Python (projections/operations.py), whose
answer becomes a table: so `turns.undone_by`, `locus undo` and pages of turns follow one rule.
"""

from collections.abc import Collection

import duckdb

from eventlog.base import jsontext
from eventlog.projections import joins, operations
from eventlog.query import added


def make(con: duckdb.DuckDBPyConnection, wanted: Collection[str], session: "str | None") -> None:
    """Make tables of `wanted`, names of joins.DERIVED, from `events`. Args: session: the only one."""

    def events(name: str) -> str:
        return "events" if session is None else joins.of_session(name, "events", session)

    presence = con.execute(joins.has_any(events(""))).fetchall()[0]
    present = dict(zip(joins.DERIVED, presence, strict=True))
    for name in sorted(wanted):
        is_folded = name == joins.FOLDED or not present[name]
        relation = joins.none(name) if is_folded else joins.derived(name, events(name))
        con.execute(f"CREATE OR REPLACE TABLE {added.SCHEMA}.{name} AS FROM {relation}")
    if joins.FOLDED in wanted and present[joins.FOLDED]:
        _add_undone(con)


def _add_undone(con: duckdb.DuckDBPyConnection) -> None:
    """The names of the turns that are taken back, each with the event of the undo that did it."""
    columns = [{"recorded_at": "epoch_us(recorded_at)"}.get(name, name) for name in operations.COLUMNS]
    rows = con.execute(
        f"SELECT {', '.join(columns)} FROM events WHERE event_type = '{operations.EVENT_TYPE}' "
        "ORDER BY position"
    ).fetchall()
    restores = [dict(zip(operations.COLUMNS, row, strict=True)) for row in rows]
    for event in restores:
        event["payload"] = jsontext.object_of(event["payload"])
    undone = operations.operations_in(restores).undone
    con.execute(
        f"INSERT INTO {added.SCHEMA}.{joins.FOLDED} (name, undone_by) "
        "SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
        [list(undone), [undo.id for undo in undone.values()]],
    )
