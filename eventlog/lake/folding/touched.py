"""The events of touched sessions, out of the live files of their stores (docs/lake-tables.md §3).

A file is opened where its positions may have such an event; of its row groups those are read whose
positions may, and whose column `session_id` has one. Several files at once, each whole: the caller gets some
files' events at a time, and only these are in memory.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventlog.base.errors import PARSE_ERRORS, Corruption, EventLogError, why_unreadable
from eventlog.lake.chain import LiveFile
from eventlog.lake.folding.reading import VERIFY, path_in_folder
from eventlog.lake.folding.wide import EVENT_COLUMNS
from eventlog.lake.outgoing import SCHEMA
from eventlog.lake.place import Place
from eventlog.log.segment import read_columns

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Touched:
    """What is read of a store: of its live files the events of some sessions, which lie in `spans` (the first
    and the last position); none from `end` on, which were not folded yet."""

    files: "tuple[LiveFile, ...]"
    sessions: "frozenset[str]"
    spans: "tuple[tuple[int, int], ...]"
    end: int


def joined(spans: "Iterable[tuple[int, int]]") -> "tuple[tuple[int, int], ...]":
    """Spans without overlaps, in order."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if result and first <= result[-1][1] + 1:
            result[-1] = result[-1][0], max(result[-1][1], last)
        else:
            result.append((first, last))
    return tuple(result)


def events(place: Place, stores: "Iterable[Touched]") -> "Iterator[pa.Table]":
    """EVENT_COLUMNS of the events of touched sessions. Raises: Corruption; NotFound where a file is gone."""
    work = [
        (file, store)
        for store in stores
        for file in store.files
        if file.base < store.end and _meets(store.spans, file.base, file.end - 1)
    ]
    with ThreadPoolExecutor(_AT_ONCE, "locus-lake") as pool:
        for start in range(0, len(work), _AT_ONCE):
            for tables in pool.map(lambda item: _of_file(place, *item), work[start : start + _AT_ONCE]):
                yield from tables


def _meets(spans: "tuple[tuple[int, int], ...]", first: int, last: int) -> bool:
    """Whether some position of [first, last] lies in one of the spans, which are as `joined` gives them."""
    index = bisect_left(spans, first, key=lambda span: span[1])
    return index < len(spans) and spans[index][0] <= last


def _of_file(place: Place, file: LiveFile, store: Touched) -> "list[pa.Table]":
    address = place.address(file.name)
    try:
        source: Any = path_in_folder(place, file.name) or place.open(file.name)
        with pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=True) as parquet:
            numbers = range(parquet.num_row_groups)
            tables = (_of_group(parquet, address, n, store) for n in numbers if _may_hold(parquet, n, store))
            return [table for table in tables if len(table)]
    except EventLogError:
        raise
    except (OSError, *PARSE_ERRORS) as error:
        raise Corruption(address, f"it cannot be read ({why_unreadable(error)})", None, VERIFY) from error


def _may_hold(parquet: "pq.ParquetFile", number: int, store: Touched) -> bool:
    index = parquet.schema_arrow.get_field_index("position")
    bounds = parquet.metadata.row_group(number).column(index).statistics
    return bounds is None or not bounds.has_min_max or _meets(store.spans, bounds.min, bounds.max)


def _of_group(parquet: "pq.ParquetFile", address: str, number: int, store: Touched) -> "pa.Table":
    few = read_columns(parquet, address, ("position", "session_id"), number)
    wanted = pc.is_in(few["session_id"], value_set=pa.array(sorted(store.sessions), pa.string()))
    mask = pc.and_(wanted, pc.less(few["position"], store.end))
    if not pc.any(mask).as_py():
        return few.slice(0, 0)
    present = [name for name in EVENT_COLUMNS if name in parquet.schema_arrow.names]
    rows = read_columns(parquet, address, present, number).filter(mask)
    columns = [
        rows[name] if name in present else pa.nulls(len(rows), SCHEMA.field(name).type)
        for name in EVENT_COLUMNS
    ]
    return pa.table(columns, list(EVENT_COLUMNS))
