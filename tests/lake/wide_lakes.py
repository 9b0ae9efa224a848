"""What the tests of wide tables ask of a lake: their rows, and what the rules make of its events."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog.lake import tables
from eventlog.lake.chain import read_chain, stores_in
from eventlog.lake.folding import wide
from eventlog.lake.place import Place
from eventlog.projections.definitions import ASKED_FOR
from tests.lake import wide_oracle
from tests.lake.conftest import Lake
from tests.lake.wide_stores import by_key
from tests.projections.test_fold import differences

_NOT_FOLDED = {*ASKED_FOR, "continues"}


def of_tables(found: "dict[str, dict[Any, dict[str, Any]]]") -> "dict[str, dict[Any, dict[str, Any]]]":
    """What folds and the oracle both say."""
    return {
        name: {
            key: {column: value for column, value in row.items() if column not in _NOT_FOLDED}
            for key, row in found[name].items()
        }
        for name in wide.TABLES
    }


def rows_of(lake: Lake, *names: str) -> "dict[str, list[dict[str, Any]]]":
    """All rows of tables, as their reader gives them."""
    with tables.opened(lake.place, lake.catalog) as opened:
        loaded = {name: tables.loaded(lake.place, opened, lake.catalog, f"lake.{name}") for name in names}
        return {name: table.scan().to_arrow().to_pylist() for name, table in loaded.items()}


def wide_rows(lake: Lake) -> "dict[str, dict[Any, dict[str, Any]]]":
    """The wide tables by key, without what only questions complete."""
    rows = rows_of(lake, *wide.TABLES)
    return of_tables({name: by_key(name, rows[name]) for name in wide.TABLES})


def expected_rows(place: Place) -> "dict[str, dict[Any, dict[str, Any]]]":
    """What the rules make of all published events."""
    events: dict[str, list[dict[str, Any]]] = {}
    for store_id in stores_in(place):
        files = [pq.read_table(pa.BufferReader(place.read(f.name))) for f in read_chain(place, store_id).live]
        events[store_id.hex()] = [_plain(row) for file in files for row in file.to_pylist()]
    return of_tables(wide_oracle.wide(events))


def assert_wide_right(lake: Lake) -> None:
    """The wide tables have the rows that the rules make of all published events."""
    assert differences(wide_rows(lake), expected_rows(lake.place)) == []


def _plain(row: "dict[str, Any]") -> "dict[str, Any]":
    times = {name: _microseconds(value) for name, value in row.items() if isinstance(value, datetime)}
    return {**row, **times, "payload": row["payload"] or row["anchor_payload"] or "{}"}


def _microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
