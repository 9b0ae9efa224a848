"""The affected turns, which need contents that are gone: for the plan of a repair, by names a person knows.

Reads the trees of all packs once, as far as they can be read, and the hash columns of the log.
"""

from collections.abc import Iterator

from eventlog.base.errors import Corruption, EventLogError
from eventlog.base.layout import PACK_DIR, parse_pack
from eventlog.blobs.catalog import load_tables
from eventlog.blobs.ids import to_text
from eventlog.blobs.pack import TREE
from eventlog.blobs.tree import decode_tree
from eventlog.gc.live_contents import reaching
from eventlog.store import Store

_COLUMNS = ("session_id", "turn_id", "event_type", "path", "before_hash", "after_hash", "tree_hash", "blobs")


def affected_turns(store: Store, lost: "set[bytes]") -> list[str]:
    """Turns whose events name one of `lost`, or a tree above one; with the path where the event has one.

    Empty when the log cannot be read: then it has to be repaired first.
    """
    texts = {to_text(id) for id in _with_above(store, lost)}
    turns: dict[str, None] = {}
    try:
        with store.view() as view:
            for row in view.iterate(columns=_COLUMNS):
                hashes = {row[name] for name in ("before_hash", "after_hash", "tree_hash")}
                hashes |= set(row["blobs"] or ())  # type: ignore[call-overload]
                if not texts.isdisjoint(hashes):
                    where = f"{row['session_id']}_{row['turn_id']}" if row["turn_id"] else "outside of turns"
                    path = f": {row['path']}" if row["path"] else ""
                    turns[where + path] = None
    except EventLogError:
        return list(turns)
    return list(turns)


def _with_above(store: Store, lost: "set[bytes]") -> set[bytes]:
    """The lost contents, and the trees from which one can be reached."""
    parents: dict[bytes, list[bytes]] = {}
    for id in _tree_ids(store):
        try:
            entries = decode_tree(store.blobs.get(id), to_text(id))
        except EventLogError:
            continue  # lost itself, or reported with its pack
        for entry in entries:
            parents.setdefault(entry.id, []).append(id)
    return reaching(lost, parents)


def _tree_ids(store: Store) -> Iterator[bytes]:
    for name in store.fs.listdir(store.layout.directory(PACK_DIR)):
        stem = parse_pack(name)
        if stem is None:
            continue
        try:
            tables = load_tables(store.fs, store.layout.pack(stem), stem, store.identity.store_id)
        except (Corruption, OSError):
            continue
        yield from (id for id, kind, *_ in tables.entries() if kind == TREE)
