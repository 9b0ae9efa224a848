"""The log of a store as publications are made of it: one pinned state, and what may not leave by now.

One thread, one view.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from eventlog.base import jsontext
from eventlog.base.errors import Refused
from eventlog.blobs.ids import from_texts
from eventlog.lake.outgoing import Outgoing
from eventlog.lake.policy import Policy
from eventlog.log.erasures import erased_contents, erasures_in

if TYPE_CHECKING:
    from eventlog.log.reader import LogView
    from eventlog.store import Store

FORMAT = "1"


@dataclass(frozen=True, slots=True)
class RangeIdentity:
    """The events of a range by their ids: BLAKE3 of positions and ids, and the id of the last event."""

    digest: str
    last_event_id: str


@dataclass(slots=True)
class Source:
    """A view of a store, made by `opened`.

    `erasures` are the ids of those that the log has carried out; `forbidden` are the ids of contents that are
    withheld or erased.
    """

    store: "Store"
    view: "LogView"
    policy: Policy
    erasures: frozenset[str]
    forbidden: frozenset[bytes]
    _outgoing: "dict[Policy, Outgoing]" = field(default_factory=dict)

    @property
    def store_id(self) -> bytes:
        return self.view.store_id

    @property
    def end(self) -> int:
        return self.view.next_position

    def identity(self, base: int, end: int) -> RangeIdentity:
        """That of the visible events of [base, end)."""
        return identity_of(self.view.batches(base, end, columns=("position", "event_id")))

    def table(self, base: int, end: int, policy: Policy) -> "pa.Table":
        """The visible events of [base, end) under a policy."""
        return self._under(policy).table(base, end)

    def contents(self, base: int, end: int, known: "Collection[bytes]", policy: Policy) -> "set[bytes]":
        """The ids of contents that these events need and that may leave, without those that are known."""
        return self._under(policy).contents(base, end, known) - self.forbidden.union(known)

    def file(self, base: int, end: int, policy: Policy, packs: Iterable[str]) -> bytes:
        """The published file of [base, end)."""
        identity = self.identity(base, end)
        metadata = {
            "locus.format": FORMAT,
            "locus.store_id": self.store_id.hex(),
            "locus.repo_hash": self.store.repo_hash,
            "locus.project": self.store.project_name,
            "locus.base": str(base),
            "locus.end": str(end),
            "locus.last_event_id": identity.last_event_id,
            "locus.ids": identity.digest,
            "locus.policy": policy.encoded(),
            "locus.erasures": jsontext.encode(sorted(self.erasures)).decode(),
            "locus.packs": jsontext.encode(sorted(packs)).decode(),
        }
        return self._under(policy).write(base, end, metadata)

    def _under(self, policy: Policy) -> Outgoing:
        if policy not in self._outgoing:
            self._outgoing[policy] = Outgoing(self.store, self.view, policy)
        return self._outgoing[policy]


def opened(store: "Store", view: "LogView", policy: Policy) -> Source:
    """The source of a view, made durable first.

    Raises: Refused while an erasure is under way, and for damage that nobody repaired; NotDurable.
    """
    view.make_durable()
    damaged = [lost for lost in view.damaged if lost.journal]
    if damaged:
        raise Refused(
            f"{store.layout.root}: the events from position {damaged[0].base:,} on cannot be read. Nothing "
            "was published. `locus store repair` settles what is lost; then publish."
        )
    own = [e for e in erasures_in(view) if e.store in (None, view.store_id.hex())]
    if not all(erasure.rewritten for erasure in own):
        raise Refused(
            f"{store.layout.root}: an erasure is not finished, and what it takes out must not leave. "
            "`locus store erase --resume` finishes it; then publish."
        )
    forbidden = frozenset(erased_contents(view)) | frozenset(from_texts(store.withheld()))
    return Source(store, view, policy, frozenset(erasure.id for erasure in own), forbidden)


def identity_of(tables: "Iterable[pa.RecordBatch | pa.Table]") -> RangeIdentity:
    """That of events with the columns `position` and `event_id`, in order."""
    digest = blake3()
    last = ""
    for table in tables:
        ids = table.column("event_id")
        lines = pc.binary_join_element_wise(pc.cast(table.column("position"), pa.string()), ids, " ")
        digest.update("".join(f"{line}\n" for line in lines.to_pylist()).encode())
        last = ids[-1].as_py() if len(ids) else last
    return RangeIdentity(digest.hexdigest(), last)
