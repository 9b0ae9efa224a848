"""What keeps a store small, fast and whole: `Store.maintenance`."""

import os
from collections.abc import Callable, Collection, Iterator
from functools import update_wrapper
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from eventlog.base.fs import translate_os_errors
from eventlog.base.layout import INDEX_DIR

if TYPE_CHECKING:
    from eventlog.gc.repack import Repacked
    from eventlog.log.compact import CompactReport
    from eventlog.log.finding import Finding
    from eventlog.log.seal import SealReport
    from eventlog.store import Store

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Maintenance:
    """Work on the files of a store that changes no event and no answer, and the check of them."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    def seal(self, *, rotate_active: bool = True, lock_timeout_s: float = 10.0) -> "SealReport":
        """Seal closed journals (with `rotate_active`, all of them) into segments.

        Raises: LockTimeout while another process maintains the store, NotDurable, Corruption.
        """
        from eventlog.log.seal import seal

        self._store._before_writing()
        return seal(
            self._store.files,
            self._store.journal,
            rotate_active=rotate_active,
            lock_timeout_s=lock_timeout_s,
        )

    def compact(self, *, everything: bool = False, lock_timeout_s: float = 10.0) -> "CompactReport":
        """Merge the newest segments into one if they are many and small, or with `everything` all of them.

        Raises: LockTimeout while another process does so, Corruption, EventLogError.
        """
        from eventlog.log.compact import compact
        from eventlog.log.maintenance import maintenance_event

        self._store._before_writing()
        report = compact(self._store.files, everything=everything, lock_timeout_s=lock_timeout_s)
        if report.segments:
            self._store.append_rows([maintenance_event("compact", report.figures())])
        return report

    def rebuild(self) -> str | None:
        """Rebuild the index from the segments. Returns: its file name, None when nothing is sealed.

        Lines of changes are counted again too, also of those that are not sealed yet. Trees are compared
        again by the next maintenance.
        """
        name = self._refresh_derived(fresh=True)
        with translate_os_errors(self._store.layout.directory(INDEX_DIR), "count lines again"):
            self._store.line_counts.forget()
            self._store.tree_changes.forget()
        self.count_lines()
        return name

    def reindex(self) -> str | None:
        """Bring the index up to the newest manifest, from the generation before where there is one."""
        return self._refresh_derived(fresh=False)

    def _refresh_derived(self, *, fresh: bool) -> str | None:
        from eventlog.projections.index import build

        self._store.blobs.build_idx()
        with self._store.view() as view:
            return build(self._store.fs, self._store.layout, view, fresh=fresh)

    def repack(
        self, *, everything: bool = False, bytes_max: int | None = None, lock_timeout_s: float = 10.0
    ) -> "Repacked":
        """Merge the packs that need it, or all of them, into one (docs/maintenance.md §3).

        Raises: LockTimeout, NotDurable, Corruption.
        """
        from eventlog.gc.repack import repack
        from eventlog.log.maintenance import maintenance_event

        self._store._before_writing()
        report = repack(
            self._store.blobs,
            everything=everything,
            bytes_max=bytes_max,
            named=self._named,
            lock_timeout_s=lock_timeout_s,
        )
        if report.condemned:
            self._store.append_rows([maintenance_event("repack", report.figures())])
        return report

    def _named(self, ids: Collection[bytes]) -> Iterator[tuple[bytes, bytes, int]]:
        from eventlog.blobs.ids import from_text, to_text
        from eventlog.log.named import named_in

        with self._store.view() as view:
            for text, path, position in named_in(view, [to_text(id) for id in ids]):
                yield from_text(text), os.fsencode(path), position

    def verify(
        self, level: str = "quick", progress: "Callable[[int, int], None] | None" = None
    ) -> "list[Finding]":
        """The problems of the store, empty when there are none.

        Args: level: `quick` looks at names, sizes and chains, `read` at every byte, `deep` also at what
        the bytes mean; progress: called with (events checked, events there are).
        Raises: Unsupported, LockTimeout.
        """
        from eventlog.check.walk import StoreWalk
        from eventlog.restore import journal

        store = self._store
        with translate_os_errors(store.layout.root, "verify the store"):
            findings = StoreWalk(store.blobs, store.view, level, progress).findings()
            return [*findings, *journal.findings(store.fs, store.layout, store.identity.store_id)]

    def count_lines(self) -> int:
        """Count the lines of uncounted changes, and store the counts. Returns: how many were new.

        Raises: EventLogError.
        """
        return self._store.line_counts.count_all(self._store.query)

    def compare_trees(self) -> int:
        """Compare the trees of all turns that are not compared yet, and store what differs, so that
        `Store.spine` need not. Returns: how many were new. Raises: EventLogError.
        """
        with translate_os_errors(self._store.layout.directory(INDEX_DIR), "keep compared trees"):
            return self._store.tree_changes.save(self._store.spine)


def of_maintenance(
    method: Callable[Concatenate[Maintenance, _P], _R],
) -> "Callable[Concatenate[Store, _P], _R]":
    """A method of `Store.maintenance`, as a method of the store."""

    def call(store: "Store", /, *arguments: _P.args, **named: _P.kwargs) -> _R:
        return method(store.maintenance, *arguments, **named)

    return update_wrapper(call, method)
