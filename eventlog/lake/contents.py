"""Which contents and trees may leave with events of a range (docs/lake.md §3).

A content is one that an event of a file names, or that is below a tree. Trees and lists of deferred contents
are made of names, so they leave with paths; texts of payloads that are contents leave with texts; the plan of
a restore names directories of this machine and never leaves. What is withheld or erased stays, and so does
what holds a secret under the rules of today. Reads each content once. One thread, one view.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from eventlog.base.errors import NotFound
from eventlog.blobs.ids import from_texts, to_text
from eventlog.blobs.pack import TREE
from eventlog.exports.withheld import Exposure
from eventlog.log.erasures import erased_contents
from eventlog.log.retained import HASH_COLUMNS
from eventlog.replay.deferred import withheld_of_git

if TYPE_CHECKING:
    from eventlog.lake.policy import Policy
    from eventlog.log.reader import LogView
    from eventlog.secrets.redaction import Redactor
    from eventlog.store import Store

# By type of event: the columns that name contents of files, and those that name what is made of names. All
# others of these, and all columns of other types, name texts.
_OF_CONTENTS = {"file": ("before_hash", "after_hash"), "mismatch": ("before_hash", "after_hash")}
_OF_NAMES = {
    "file": ("blobs",),
    "snapshot": ("tree_hash", "blobs"),
    "content": ("tree_hash", "before_hash", "blobs"),
    "restore": ("tree_hash",),
}
_NEVER = {"restore": ("blobs",)}


def contents_of(
    store: "Store",
    view: "LogView",
    policy: "Policy",
    redactor: "Redactor",
    positions: range,
    known: "Collection[bytes]",
) -> "set[bytes]":
    """Raises: Corruption."""
    if not policy.contents:
        return set()
    named: set[bytes] = set()
    columns = ("event_type", *HASH_COLUMNS)
    for batch in view.batches(positions.start, positions.stop, columns=columns):
        for texts in _named(batch, policy):
            named.update(from_texts(texts))
    return _Leaving(store, view, policy, redactor, known).all_below(named)


def _named(batch: "pa.RecordBatch", policy: "Policy") -> "Iterator[list[str]]":
    """The hashes that a policy lets events name contents by."""
    for event_type in batch.column("event_type").unique().to_pylist():
        events = batch.filter(pc.equal(batch.column("event_type"), event_type))
        of_contents, of_names = _OF_CONTENTS.get(event_type, ()), _OF_NAMES.get(event_type, ())
        for name in HASH_COLUMNS:
            if name in _NEVER.get(event_type, ()):
                continue
            leaves = name in of_contents or (policy.paths if name in of_names else policy.texts)
            if leaves:
                column = events.column(name)
                hashes = column.flatten() if name == "blobs" else column
                yield [text for text in hashes.unique().to_pylist() if text is not None]


class _Leaving:
    """What may leave of the contents of a view."""

    def __init__(
        self,
        store: "Store",
        view: "LogView",
        policy: "Policy",
        redactor: "Redactor",
        known: "Collection[bytes]",
    ) -> None:
        self._blobs = store.blobs
        self._exposure = Exposure(view, redactor)
        self._withheld_of_git = withheld_of_git(store.blobs)
        self._erased = erased_contents(view).keys()
        self._redactor = redactor
        self._trees_leave = policy.paths
        self._known = known
        self._blobs.refresh()

    def all_below(self, ids: "set[bytes]") -> "set[bytes]":
        """Those of `ids` and of what is below them that the store has and that may leave."""
        leaving: set[bytes] = set()
        seen: set[bytes] = set()
        while ids:
            seen |= ids
            below: set[bytes] = set()
            for id, location in self._blobs.locations(ids).items():
                if id in self._known or not self._may_leave(id):
                    continue
                if location[1] != TREE:
                    if not self._holds_secret(id):
                        leaving.add(id)
                elif self._trees_leave:
                    entries = self._blobs.get_tree(id)
                    below.update(entry.id for entry in entries)
                    if self._exposure.may_be_named(entry.name for entry in entries):
                        leaving.add(id)
            ids = below - seen
        return leaving

    def _may_leave(self, id: bytes) -> bool:
        text = to_text(id)
        return id not in self._erased and text not in self._withheld_of_git and self._exposure.may_leave(text)

    def _holds_secret(self, id: bytes) -> bool:
        try:
            return bool(self._redactor.kinds_in(self._blobs.get(id)))
        except NotFound:
            return True  # it was collected meanwhile
