"""The events of a store as they leave it for a lake: under a policy, redacted once more (docs/lake.md §3).

One thread, one view.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

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

    def tables(self, base: int, end: int) -> "Iterator[pa.Table]":
        """The events of [base, end) in order, some thousand at a time, as tables of SCHEMA."""
        raise NotImplementedError

    def table(self, base: int, end: int) -> "pa.Table":
        """The same as one table."""
        return pa.concat_tables([SCHEMA.empty_table(), *self.tables(base, end)])

    def write(self, base: int, end: int, metadata: "dict[str, str]") -> bytes:
        """The same as a Parquet file with this metadata."""
        raise NotImplementedError

    def contents(self, base: int, end: int) -> "set[bytes]":
        """The ids of the contents and trees that these events need, and that may leave."""
        raise NotImplementedError
