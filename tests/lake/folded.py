"""What the tests of folding share: rows of tables, what a store itself says, logs that are made up."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.types import COLUMN_KINDS, JSON, TIME
from eventlog.lake import tables
from eventlog.lake.chain import LiveFile, Rewrite, publication_name, rewrite_name, rewritten_name
from eventlog.lake.folding import stored
from eventlog.lake.folding.plan import planned, tasks_of
from eventlog.lake.folding.task import run
from eventlog.lake.outgoing import SCHEMA, encoded
from eventlog.lake.place import Place
from eventlog.lake.policy import Policy
from eventlog.lake.source import identity_of
from eventlog.log import segment
from eventlog.projections import definitions as d
from eventlog.projections.lives import lived
from eventlog.store import Store

Rows = dict[str, list[dict[str, Any]]]  # by table, sorted by key


def rows_of_tables(place: Place, catalog: str) -> Rows:
    """All rows of the four tables, as their reader gives them."""
    rows = {}
    with tables.opened(place, catalog) as opened:
        for table in stored.TABLES:
            loaded = tables.loaded(place, opened, catalog, f"lake.{table}")
            found = loaded.scan().to_arrow().to_pylist()
            rows[table] = sorted(found, key=lambda row, t=table: _key(row, t))  # type: ignore[misc]
    return rows


def _key(row: "Mapping[str, Any]", table: str) -> "tuple[Any, ...]":
    return row["store_id"], *(row[name] for name in stored.KEYS[table])


def rows_of_stores(*stores: Store) -> Rows:
    """What each store answers of itself, in the columns that the fold makes."""
    rows: Rows = {}
    for table in stored.TABLES:
        names = [name for name in d.names_of(d.COLUMNS_OF[table]) if name not in d.ASKED_FOR]
        rows[table] = []
        for store in stores:
            answer = store.query(f"SELECT {d.quoted(names)} FROM {table}")
            for row in answer.rows:
                values = {name: _zoned(value) for name, value in zip(names, row, strict=True)}
                rows[table].append({"store_id": store.identity.store_id.hex(), **values})
        rows[table].sort(key=lambda row, t=table: _key(row, t))  # type: ignore[misc]
    return rows


def as_stores_show(rows: Rows) -> Rows:
    """Rows of tables as a store shows its own: sessions with what they are to each other."""
    shown = {name: [_without(row, d.ASKED_FOR) for row in rows[name]] for name in rows}
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        con.register("folded", pa.Table.from_pylist(rows["sessions"], stored.schema_of("sessions")))
        query = con.sql(f"SELECT * FROM {lived('folded', keys=('store_id',))} ORDER BY store_id, session_id")
        found = query.to_arrow_table().cast(stored.schema_of("sessions")).to_pylist()
    shown["sessions"] = [_without(row, d.ASKED_FOR) for row in found]
    return shown


def _without(row: "Mapping[str, Any]", names: "Iterable[str]") -> "dict[str, Any]":
    return {name: _zoned(value) for name, value in row.items() if name not in names}


def _zoned(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


# -- logs that are made up --------------------------------------------------------------------------


def file_of_rows(
    store_id: bytes, base: int, end: int, rows: "Iterable[Mapping[str, Any]]", **metadata: str
) -> bytes:
    """A published file with these events, which have a position in [base, end)."""
    columns: dict[str, list[Any]] = {name: [] for name in segment.SCHEMA.names}
    for row in rows:
        for name, values in columns.items():
            values.append(_stored(name, row.get(name)))
    arrays = [pa.array(columns[field.name], field.type) for field in segment.SCHEMA]
    events = segment.with_anchors_apart(pa.table(arrays, segment.SCHEMA))
    for name in reversed(SCHEMA.names[:3]):
        value = store_id.hex() if name == "store_id" else None
        events = events.add_column(0, name, pa.array([value] * len(events), pa.string()))
    identity = identity_of([events])
    keys = {
        "format": "1", "store_id": store_id.hex(), "base": str(base), "end": str(end),
        "last_event_id": identity.last_event_id, "ids": identity.digest, "policy": Policy().encoded(),
        "erasures": "[]", "packs": "[]", **metadata,
    }  # fmt: skip
    return encoded([events.cast(SCHEMA)], {f"locus.{key}": value for key, value in keys.items()})


def _stored(name: str, value: Any) -> Any:
    if value is not None and COLUMN_KINDS[name] == JSON and not isinstance(value, str):
        return jsontext.encode(value).decode()
    if value is not None and COLUMN_KINDS[name] == TIME and not isinstance(value, int):
        return round(value.timestamp() * 1_000_000)
    return value


def publish_rows(place: Place, store_id: bytes, base: int, end: int, rows: "list[dict[str, Any]]") -> None:
    """Create a publication of these events, which have positions in [base, end)."""
    assert place.create(publication_name(store_id, base), file_of_rows(store_id, base, end, rows))


def rewrite_rows(
    place: Place,
    store_id: bytes,
    number: int,
    reason: str,
    removed: "list[LiveFile]",
    rows: "list[dict[str, Any]]",
) -> None:
    """Put one file with these events in the place of live files, which are neighbours."""
    base, end = removed[0].base, removed[-1].end
    data = file_of_rows(store_id, base, end, rows)
    name = rewritten_name(store_id, number, base, blake3(data).hexdigest())
    assert place.create(name, data)
    gone = tuple(file.name for file in removed)
    made = Rewrite(number, reason, gone, (LiveFile(name, base, end, len(data)),))
    assert place.create(rewrite_name(store_id, number), made.encoded())


def folded_names(place: Place, named: "Iterable[str]" = (), *, full: bool = False) -> "set[str]":
    """The files that tables would name after a fold, given those that they name; without any table."""
    plan = planned(place, named, full=full)
    assert not plan.problems
    names = {name for name in plan.seen if not plan.is_dead(name)}
    for task in tasks_of(place, plan.works):
        for folded in run(task):
            assert not folded.problem, folded.problem
            prefix = folded.store_id.hex()
            names = {name for name in names if prefix not in name} | {file.name for file in folded.files}
    return names
