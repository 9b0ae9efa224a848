"""Segments made by hand: what a later compaction will do, and what a wrong one would leave."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from eventlog.base.fs import publish
from eventlog.base.layout import segment_name
from eventlog.log import manifest as manifests
from eventlog.log.manifest import Manifest, SegmentEntry, Superseded
from eventlog.log.segment import SegmentMeta, encode_segment
from eventlog.log.segment_file import SegmentFile
from eventlog.store import Store

Change = Callable[[pa.Table], pa.Table]


def merge_segments(store: Store, change: Change = lambda table: table) -> Manifest:
    """One segment in place of all, its inputs superseded, committed; `change` may spoil the events."""
    store_id = store.identity.store_id
    current = manifests.read_current(store.files)
    tables = []
    for entry in current.segments:
        with SegmentFile(store.files, entry) as file:
            tables.append(file.read())
    events = change(pa.concat_tables(tables).combine_chunks())
    base, end = current.segments[0].base, current.segments[-1].end
    dropped = sum(entry.dropped for entry in current.segments)
    data = encode_segment(events, SegmentMeta(store_id, base, end, dropped))
    digest = blake3(data).hexdigest()
    name = segment_name(base, end, digest[:16])
    publish(store.fs, store.layout.tmp("merged"), store.layout.segment(name), data)
    times = pc.min_max(events["occurred_at"].cast(pa.int64()))
    first_at, last_at = times["min"].as_py(), times["max"].as_py()
    entry = SegmentEntry(name, base, end, events.num_rows, len(data), digest, first_at, last_at, dropped)
    number = current.number + 1
    following = replace(
        current,
        number=number,
        parent=manifests.digest_of(current),
        segments=(entry,),
        superseded=(*current.superseded, *(Superseded(old.name, number) for old in current.segments)),
    )
    manifests.commit(store.files, following)
    return following


def with_column(table: pa.Table, name: str, at: int, value: object) -> pa.Table:
    """The table with one value of a column replaced."""
    column = table.schema.get_field_index(name)
    values = table[name].to_pylist()
    values[at] = value
    return table.set_column(column, table.schema.field(name), pa.array(values, table.schema.field(name).type))
