"""What takes the space of a store: by kind of file, by session, by path, and what sharing saves.

Reads only, beside any process, under the caller's pinned view. The bytes of one content are its share of the
group that it is compressed in, by raw length: an estimate, exact in sum. Memory: some 300 bytes for each
content, and more with paths.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from eventlog.base import layout as names
from eventlog.base.fs import count_files
from eventlog.base.paths import path_text
from eventlog.blobs.ids import from_texts
from eventlog.blobs.pack import TREE
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY
from eventlog.gc.live_contents import baseline_trees, read_trees, stored_trees, tree_rows, walk
from eventlog.log import retained
from eventlog.log.reader import LogView

OUTSIDE = "outside sessions"
SHARED = "shared"
RELEASED = "released"
UNNAMED = "named by nothing"
TREES = "directories"

_KINDS = (
    ("segments", names.SEGMENT_DIR),
    ("journals", names.JOURNAL_DIR),
    ("manifests", names.MANIFEST_DIR),
    ("index", names.INDEX_DIR),
    ("idx of packs", names.IDX_DIR),
    ("stat caches", names.STATCACHE_DIR),
    ("notes of hooks", names.LIVE_DIR),
    ("continuity codes", names.MEMORY_DIR),
    ("condemned packs", names.CONDEMNED_DIR),
    ("quarantine", names.QUARANTINE_DIR),
    ("temporary files", names.TMP_DIR),
)


@dataclass(frozen=True, slots=True)
class Row:
    """`count` are files by kind, contents by session, versions by path."""

    name: str
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class Reuse:
    """`named` is what all snapshots and changes hold, each counted in full; `distinct` each content once;
    `stored` the bytes of the packs. `factor` is named / stored, None when nothing is stored."""

    named: int
    distinct: int
    stored: int
    factor: float | None


@dataclass(slots=True)
class _Content:
    is_tree: bool
    length: int
    stored: float


def by_kind(blobs: BlobStore) -> list[Row]:
    """Files and bytes of every kind; packs are split into trees, contents and tables."""
    parts = {"contents in packs": 0.0, "directories in packs": 0.0}
    contents = _contents(blobs)
    for content in contents.values():
        parts["directories in packs" if content.is_tree else "contents in packs"] += content.stored
    count = sum(content.is_tree for content in contents.values())
    rows = [
        Row("contents in packs", round(parts["contents in packs"]), len(contents) - count),
        Row("directories in packs", round(parts["directories in packs"]), count),
    ]

    def files_in(directory: str, prefix: str = "") -> tuple[int, int]:
        return count_files(blobs.fs, blobs.layout.directory(directory), prefix)

    packs, size = files_in(names.PACK_DIR)
    rows.append(Row("tables of packs", max(0, size - sum(row.bytes for row in rows)), packs))
    for kind, directory in _KINDS:
        files = files_in(directory)
        if directory == names.INDEX_DIR:
            words = files_in(directory, "search-")
            files = (files[0] - words[0], files[1] - words[1])
            if words[0]:
                rows.append(Row("search index", words[1], words[0]))
        if files[0]:
            rows.append(Row(kind, files[1], files[0]))
    return _ordered(rows)


def by_session(blobs: BlobStore, view: LogView) -> list[Row]:
    """For each session what only it needs: releasing it would free that. The rest by why it stays."""
    retention = retained.retention_in(view)
    owners = _Owners(blobs)
    roots = [
        (session or OUTSIDE, text) for session, text in retained.hashes_and_sessions(view, retention.limits)
    ]
    owners.claim([(owner, id) for owner, text in roots for id in from_texts((text,))])
    owners.claim([(OUTSIDE, id) for id in baseline_trees(blobs.fs, blobs.layout)])
    # Stored deferred contents belong to the owner of their list.
    stored = stored_trees(view)
    owners.claim([(owners.of[id], tree) for id in stored.keys() & owners.of.keys() for tree in stored[id]])
    owners.claim_rest(from_texts(text for _, text in retained.hashes_by_session(view, retention.limits)))
    return _summed(_contents(blobs), lambda id: owners.of.get(id, UNNAMED))


def by_path(blobs: BlobStore, view: LogView) -> list[Row]:
    """For each path the bytes of all its versions. A content of several paths counts for one of them."""
    contents = _contents(blobs)
    paths: dict[bytes, str] = {}
    for text, path in retained.paths_in(view):
        for id in from_texts((text,)):
            paths.setdefault(id, path)
    roots = set(from_texts(retained.hashes_in(view, {}))).union(*stored_trees(view).values())
    prefixes = {id: b"" for id in roots if id in contents and contents[id].is_tree}
    for tree, rows in walk(blobs, list(prefixes)):
        for kind, child, name in rows:
            if kind == DIRECTORY:
                prefixes.setdefault(child, prefixes[tree] + name + b"/")
            else:
                paths.setdefault(child, path_text(prefixes[tree] + name))

    def path_of(id: bytes) -> str:
        return TREES if contents[id].is_tree else paths.get(id, UNNAMED)

    return _summed(contents, path_of)


def reuse(blobs: BlobStore, view: LogView) -> Reuse:
    """The bytes that are named against those that are stored."""
    contents = _contents(blobs)
    counts: dict[bytes, int] = {}
    for text, count in retained.counts_in(view):
        for id in from_texts((text,)):
            counts[id] = counts.get(id, 0) + count
    totals = _tree_totals(blobs, contents, counts)
    named = 0
    for id, count in counts.items():
        if id in contents:
            named += count * (totals[id] if contents[id].is_tree else contents[id].length)
    distinct = sum(content.length for content in contents.values() if not content.is_tree)
    stored = count_files(blobs.fs, blobs.layout.directory(names.PACK_DIR))[1]
    return Reuse(named, distinct, stored, named / stored if stored else None)


class _Owners:
    """What needs which contents: a session, or SHARED where several do."""

    def __init__(self, blobs: BlobStore) -> None:
        self.of: dict[bytes, str] = {}
        self._blobs = blobs

    def claim(self, claims: Iterable[tuple[str, bytes]]) -> None:
        """Of each id, and all below it. An owner changes twice at most, so a tree is read twice at most."""
        changed = {id for claimant, id in claims if self._add(claimant, id)}
        while changed:
            below = set()
            for id, encoding in read_trees(self._blobs, changed):
                for kind, child, _ in tree_rows(encoding):
                    if self._add(self.of[id], child) and kind == DIRECTORY:
                        below.add(child)
            changed = below

    def claim_rest(self, ids: Iterable[bytes]) -> None:
        """What has no owner yet is of released sessions."""
        roots = set(ids) - self.of.keys()
        self.of.update(dict.fromkeys(roots, RELEASED))
        for _, rows in walk(self._blobs, roots, passed=set(self.of)):
            for _, child, _ in rows:
                self.of.setdefault(child, RELEASED)

    def _add(self, claimant: str, id: bytes) -> bool:
        owner = self.of.get(id)
        new_owner = claimant if owner in (None, claimant) else SHARED
        self.of[id] = new_owner
        return owner != new_owner


def _contents(blobs: BlobStore) -> dict[bytes, _Content]:
    """Every content and tree of the packs. One that is in several packs takes the bytes of all its copies."""
    contents: dict[bytes, _Content] = {}
    for tables in blobs.tables():
        tables.check()
        groups = [tables.group(number) for number in range(tables.group_count)]
        shares = [group.stored_size / group.raw_size if group.raw_size else 0.0 for group in groups]
        for id, kind, group, _, length in tables.entries():
            content = contents.get(id)
            if content is None:
                contents[id] = _Content(kind == TREE, length, length * shares[group])
            else:
                content.stored += length * shares[group]
    return contents


def _tree_totals(
    blobs: BlobStore, contents: Mapping[bytes, _Content], roots: Iterable[bytes]
) -> dict[bytes, int]:
    """The bytes of all files below each tree."""
    own: dict[bytes, int] = {}
    below: dict[bytes, list[bytes]] = {}
    for id, rows in walk(blobs, [id for id in roots if id in contents and contents[id].is_tree]):
        own[id] = sum(contents[c].length for kind, c, _ in rows if kind != DIRECTORY and c in contents)
        below[id] = [child for kind, child, _ in rows if kind == DIRECTORY]
    totals: dict[bytes, int] = {}
    for id in TopologicalSorter(below).static_order():  # what is below a tree first
        totals[id] = own.get(id, 0) + sum(totals[child] for child in below.get(id, ()))
    return totals


def _summed(contents: Mapping[bytes, _Content], name_of: Callable[[bytes], str]) -> list[Row]:
    sums: dict[str, list[float]] = {}
    for id, content in contents.items():
        pair = sums.setdefault(name_of(id), [0.0, 0])
        pair[0] += content.stored
        pair[1] += 1
    return _ordered(Row(name, round(size), int(count)) for name, (size, count) in sums.items())


def _ordered(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (-row.bytes, row.name))
