"""Contents that a clone did not have when its commits were imported: found later, and added to the log.

In a tree such a file is a deferred one (docs/certainty.md §3): its entry names a list, and an event `content`
records its outcome. So no snapshot is written again, however many trees hold the file.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from eventlog.base.paths import path_text
from eventlog.blobs.ids import from_text
from eventlog.blobs.pack import BLOB_SIZE_MAX
from eventlog.blobs.tree import encode_tree
from eventlog.hooks.stored_contents import stored_event
from eventlog.replay.deferred import DeferredContents
from eventlog.worktree import healing

if TYPE_CHECKING:
    from eventlog.importers.batch import ImportBatch
    from eventlog.importers.git_objects import GitRepository
    from eventlog.store import Store
    from eventlog.worktree.healing import Content

_NAMED = """
select distinct json_extract_string(payload, '$.deferred') from events
where agent = 'git' and repo = $1 and payload like '%"deferred"%' and
(event_type = 'file' and after_hash is null or event_type = 'snapshot' and operation = 'turn_start')
"""


def absent(git_object: str | None) -> str:
    return f"its content {git_object} is not in this clone"


def fill(store: "Store", repo: str, repository: "GitRepository", window: "ImportBatch") -> dict[str, str]:
    """Add contents that earlier imports lacked and that are present now; path → reason of the others."""
    missing: dict[str, str] = {}
    deferred = DeferredContents(store.blobs, store.events)
    for (name,) in store.query(_NAMED, [repo]).rows:
        list_id = from_text(name)
        rows = [row for row in deferred.open_files(list_id) if row.object is not None]
        present = repository.present(row.object.hex() for row in rows if row.object)
        stored: dict[bytes, Content] = {}
        fillable = [row for row in rows if row.object and row.object.hex() in present]
        ids = [row.object.hex() for row in fillable if row.object]
        for row, data in zip(fillable, repository.contents(ids, BLOB_SIZE_MAX), strict=True):
            if isinstance(data, bytes):
                stored[row.path] = row.kind, window.put(data, row.path), len(data)
        missing |= {
            path_text(row.path): absent(row.object.hex() if row.object else None)
            for row in rows
            if row.path not in stored
        }
        if stored:
            tree = healing.put_tree_of(_Trees(window), stored)
            window.add(stored_event(list_id, tree, len(stored), {}))
            if window.is_full:
                window.commit()
    return missing


class _Trees:
    """Puts trees into a batch."""

    def __init__(self, window: "ImportBatch") -> None:
        self._window = window

    def put_tree(self, entries: Iterable[tuple[bytes, bytes, bytes, int]]) -> bytes:
        return self._window.put_tree(encode_tree(entries))
