"""The state of a store that `locus status` shows: `Store.status`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.base.fs import count_files
from eventlog.base.layout import JOURNAL_DIR, PACK_DIR

if TYPE_CHECKING:
    from eventlog.store import Store


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The state that `locus status` shows. Sizes in bytes; counts of files on disk now."""

    root: str
    store_id: str
    repo_hash: str
    repo_hash_origin: str
    project_name: str
    events: int
    unsealed_events: int
    sessions: int
    active_sessions: int
    turns: int
    segments: int
    segment_bytes: int
    journals: int
    journal_bytes: int
    packs: int
    pack_bytes: int
    index: str | None
    unfinished_restore: str | None  # the journal of a restore that is under way, or was killed


def status_of(store: "Store") -> StoreStatus:
    """Counts and sizes; reads no event payload."""
    from eventlog.projections.index import current
    from eventlog.restore.journal import unfinished

    restores = unfinished(store.fs, store.layout)
    with store.view() as view:
        segments = view.manifest.segments
        index = current(store.fs, store.layout, view.manifest)
        unsealed = view.tail_count
    sessions, active, turns = store.query(
        "select count(*), count(*) filter (status = 'active'), (select count(*) from turns) from sessions"
    ).rows[0]
    journals, journal_bytes = count_files(store.fs, store.layout.directory(JOURNAL_DIR))
    packs, pack_bytes = count_files(store.fs, store.layout.directory(PACK_DIR))
    return StoreStatus(
        root=store.layout.root,
        store_id=store.identity.store_id.hex(),
        repo_hash=store.repo_hash,
        repo_hash_origin=store.identity.repo_hash_origin,
        project_name=store.project_name,
        events=sum(entry.rows for entry in segments) + unsealed,
        unsealed_events=unsealed,
        sessions=sessions,
        active_sessions=active,
        turns=turns,
        segments=len(segments),
        segment_bytes=sum(entry.bytes for entry in segments),
        journals=journals,
        journal_bytes=journal_bytes,
        packs=packs,
        pack_bytes=pack_bytes,
        index=index,
        unfinished_restore=restores[0] if restores else None,
    )
