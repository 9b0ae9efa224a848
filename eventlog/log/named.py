"""Under which path, and at which position, the log names contents: for callers that sort them.

Reads five typed columns of a pinned view. Any thread, a view of its own.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventlog.log.reader import LogView

_HASHES = ("after_hash", "before_hash", "tree_hash")


def named_in(view: "LogView", hashes: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """(hash, path, position) of each event that names one of the hashes; a tree has the path of no event."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(hashes, pa.string())
    for batch in view.batches(columns=("position", "path", *_HASHES)):
        for name in _HASHES:
            rows = batch.filter(pc.is_in(batch.column(name), value_set=wanted))
            paths = rows.column("path").to_pylist()
            positions = rows.column("position").to_pylist()
            for text, path, position in zip(rows.column(name).to_pylist(), paths, positions, strict=True):
                yield text, "" if name == "tree_hash" else path or "", position
