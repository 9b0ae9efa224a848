"""Stand-in of the room's own module until it is merged."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventlog.lake.policy import Policy
from eventlog.log import segment

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("store_id", "actor", "host")] + list(segment.FILE_SCHEMA)
)


class Outgoing:
    """The visible events of a view as a policy lets them leave."""

    def __init__(self, store: "Store", view: "LogView", policy: Policy) -> None:
        self._store = store
        self._view = view
        self._policy = policy

    def table(self, base: int, end: int) -> "pa.Table":
        """The events of [base, end) in order, as a table of SCHEMA."""
        batches = list(self._view.batches(base, end))
        table = pa.Table.from_batches(batches, segment.SCHEMA).combine_chunks()
        if not self._policy.texts:
            for name in ("title", "payload"):
                index = segment.SCHEMA.get_field_index(name)
                table = table.set_column(index, name, pa.nulls(len(table), pa.string()))
        table = segment.with_anchors_apart(table)
        for name in ("host", "actor", "store_id"):
            value = self._store.identity.store_id.hex() if name == "store_id" else None
            table = table.add_column(0, name, pa.array([value] * len(table), pa.string()))
        return table

    def write(self, base: int, end: int, metadata: "dict[str, str]") -> bytes:
        """The same as a Parquet file with this metadata."""
        out = pa.BufferOutputStream()
        pq.write_table(self.table(base, end).replace_schema_metadata(metadata), out, compression="zstd")
        data: Any = out.getvalue().to_pybytes()
        return bytes(data)

    def contents(self, base: int, end: int) -> "set[bytes]":
        """The ids of the contents and trees that these events need, and that may leave."""
        from eventlog.blobs.ids import from_texts
        from eventlog.gc.live_contents import live_ids
        from eventlog.log.erasures import erased_contents
        from eventlog.log.retained import HASH_COLUMNS

        if not self._policy.contents:
            return set()
        ids: set[bytes] = set()
        for row in self._view.iterate(base, end, columns=HASH_COLUMNS):
            ids.update(from_texts(row[name] for name in HASH_COLUMNS if name != "blobs"))
            ids.update(from_texts(row["blobs"] or ()))
        ids = set(live_ids(self._store.blobs, ids))
        return ids - erased_contents(self._view).keys() - set(from_texts(self._store.withheld()))
