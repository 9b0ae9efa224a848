"""Tables of facts that events show about turns and errors, made where a question names one (joins.py).

All but one are queries. Which turns are taken back is a fold in Python (projections/operations.py), whose
answer becomes a table: so `turns.undone_by`, `locus undo` and pages of turns follow one rule.
"""

from collections.abc import Collection

import duckdb

from eventlog.projections import joins, operations
from eventlog.query import added


def make(
    con: duckdb.DuckDBPyConnection,
    wanted: Collection[str],
    session: "str | None",
    anchors: str = "events",
) -> None:
    """Make tables of `wanted`, names of joins.DERIVED, from `events`.

    Args: session: the only one that is asked for; anchors: events with the payloads of those alone that write
    an anchor.
    """

    def events(name: str) -> str:
        if name == joins.OF_ANCHORS:
            return anchors
        return "events" if session is None else joins.of_session(name, "events", session)

    present = _present(con, events(""), wanted)
    for name in sorted(wanted):
        is_query = name in present and name != joins.FOLDED
        few = session is not None and name == joins.WITH_MARKS
        relation = joins.derived(name, events(name), few=few) if is_query else joins.none(name)
        con.execute(f"CREATE OR REPLACE TABLE {added.SCHEMA}.{name} AS FROM {relation}")
    if joins.FOLDED in wanted and joins.FOLDED in present:
        _add_undone(con)


def derived_of(con: duckdb.DuckDBPyConnection, events: str) -> joins.Derived:
    """`joins.derived` of these events, without what they cannot have a row of: planning it takes long."""
    present = _present(con, events, joins.DERIVED)
    return lambda name: joins.derived(name, events) if name in present else joins.none(name)


def _present(con: duckdb.DuckDBPyConnection, events: str, wanted: Collection[str]) -> frozenset[str]:
    """Those of `wanted` that there can be a row of."""
    names = sorted(set(wanted) - {joins.OF_ANCHORS})
    (presence,) = con.execute(joins.has_any(events, names)).fetchall() if names else [()]
    present = {name for name, is_present in zip(names, presence, strict=True) if is_present}
    return frozenset(present | (set(wanted) & {joins.OF_ANCHORS}))


def _add_undone(con: duckdb.DuckDBPyConnection) -> None:
    """The names of the turns that are taken back, each with the event of the undo that did it."""
    undone = operations.of_rows(con.execute(operations.SELECT).fetchall()).undone
    con.execute(
        f"INSERT INTO {added.SCHEMA}.{joins.FOLDED} (name, undone_by) "
        "SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
        [list(undone), [undo.id for undo in undone.values()]],
    )
