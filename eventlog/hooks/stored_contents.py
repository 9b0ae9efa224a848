"""Stores the contents that hooks deferred, and records it in the log (docs/certainty.md §3).

The process beside the hooks, and maintenance, call `store_all`: list by list, batch by batch. A batch is a
pack, then a `content` event, then a note. A process that dies between them leaves the list open, and the next
one goes on after the last note. A content stored twice has one id (I8, I25). At most one process works; hooks
go on beside it, and wait only for a moment under the lock of the directory when a list is done.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from eventlog.base import config
from eventlog.base.errors import Corruption, EventLogError, NotFound
from eventlog.base.fs import FileSystem
from eventlog.base.identity import Identity
from eventlog.base.layout import Layout, StoreFiles
from eventlog.base.locks import WORKTREE, acquire
from eventlog.base.names import event_id_of
from eventlog.base.paths import path_text
from eventlog.base.types import Event
from eventlog.blobs.deferred import DeferredFile, decode_list, sentence_of
from eventlog.blobs.ids import blob_id, to_text
from eventlog.blobs.store import BlobStore
from eventlog.blobs.tree import DIRECTORY, SKIPPED
from eventlog.blobs.writer import BlobWriter
from eventlog.hooks import deferred_lists, state
from eventlog.hooks.deferred_lists import OpenList
from eventlog.hooks.ignored_texts import Outside
from eventlog.log.journal import Journal
from eventlog.log.line import encode_line
from eventlog.log.retained import CONTENT
from eventlog.replay.git_contents import GitContents
from eventlog.secrets import admission, redaction
from eventlog.worktree import healing, statcache
from eventlog.worktree.capture import probe_of
from eventlog.worktree.entries import unreadable_text
from eventlog.worktree.healing import Content
from eventlog.worktree.kept_ignored import is_kept
from eventlog.worktree.rows import SKIPPED_COUNT, UNPROVEN, Unusable, pack_stat
from eventlog.worktree.staging import is_as_listed, open_below
from eventlog.worktree.tracked_contents import TrackedFiles
from eventlog.worktree.userfiles import UserFiles

# Raw bytes of a batch: as much is lost when the process dies, and about as much is held in memory.
BATCH_BYTES = 32 << 20
_READ_BYTES = 8 << 20
_TICK_S, _TICKS_MAX = 0.02, 100  # two seconds: no file system in use counts time more coarsely
_LOCK_TIMEOUT_S = 60.0
# Every hook reads the entries of packs that no idx covers: some 0.4 ms for a thousand.
_ENTRIES_WITHOUT_IDX = 2_000

_CHANGED = "it changed before it was read"
_UNREADABLE = (errno.EACCES, errno.EPERM, errno.EIO)
_MOVED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_GONE = "it was gone before it was read"


def store_all(
    fs: FileSystem,
    layout: Layout,
    who: Identity,
    *,
    copies: "Mapping[bytes, int] | None" = None,
    copied: "str | None" = None,
    calls: "UserFiles | None" = None,
    note: "Callable[[BaseException], None]" = lambda _: None,
) -> int:
    """Store the open lists of all working directories; how many were finished. The caller holds WORKING.

    Args:
        copies: path → descriptor of a copy that was made with its list (`staging.stage`).
        copied: the directory of these copies.
        note: receives the reason why a list stays open.
    """
    finished = 0
    failed: set[tuple[str, bytes]] = set()
    while True:
        waiting = [
            (worktree, open_list)
            for worktree in deferred_lists.worktrees_with_open_lists(fs, layout)
            for open_list in deferred_lists.open_lists(layout, worktree).values()
            if (worktree, open_list.list_id) not in failed
        ]
        if not waiting:
            break
        # What git holds can wait.
        worktree, open_list = min(waiting, key=lambda pair: pair[1].in_git)
        try:
            own_copies = copies if copies and copied == open_list.root else {}
            _Storing(fs, layout, who, worktree, open_list, own_copies or {}, calls or UserFiles()).run()
            finished += 1
        except (EventLogError, OSError) as error:
            failed.add((worktree, open_list.list_id))
            note(error)
    if finished:
        try:
            _index_packs(StoreFiles(fs, layout, who.store_id))
        except (EventLogError, OSError) as error:
            note(error)  # maintenance makes it
    return finished


def _index_packs(files: StoreFiles) -> None:
    """Make an idx where these contents, those of a first capture, are many."""
    with BlobStore(files) as blobs:
        if blobs.recent_entries() > _ENTRIES_WITHOUT_IDX:
            blobs.build_idx()


def stored_event(list_id: bytes, tree: bytes, count: int, lost: "Mapping[bytes, str]") -> Event:
    """The outcome of a list: the tree that holds `count` of its files, and those lost, with the reason."""
    list_text, tree_text = to_text(list_id), to_text(tree)
    lost_paths = [[path_text(path), reason] for path, reason in sorted(lost.items())]
    return {
        "event_id": event_id_of("locus", CONTENT, list_text, tree_text, *(path for path, _ in lost_paths)),
        "event_type": CONTENT,
        "event_kind": "fact",
        "source": "system",
        "agent": "locus",
        "operation": "stored",
        "before_hash": list_text,
        "tree_hash": tree_text,
        "blobs": [list_text, tree_text],
        "payload": {"count": count, **({"lost": lost_paths} if lost_paths else {})},
    }


class _Storing:
    """One list on its way into the store."""

    def __init__(
        self,
        fs: FileSystem,
        layout: Layout,
        who: Identity,
        worktree: str,
        open_list: OpenList,
        copies: "Mapping[bytes, int]",
        calls: UserFiles,
    ) -> None:
        self._fs = fs
        self._layout = layout
        self._who = who
        self._worktree = worktree
        self._list = open_list
        self._copies = copies
        self._calls = calls
        self._git = GitContents(open_list.root)
        self._redactor = redaction.of_store(fs, layout, config.read(fs, layout))
        keeps = config.keeps_ignored(fs, layout) or state.read_checkpoint(layout, worktree).keeps
        self._outside = Outside(open_list.root) if keeps else None
        self._tracked = TrackedFiles(open_list.root)
        self._stored: dict[bytes, Content] = {}
        self._unreadable: dict[bytes, str] = {}  # path → the reason that a tree gives
        self._proofs: dict[bytes, bytes] = {}  # path → the stat of a row in the stat cache
        self._now = self._device = 0

    def run(self) -> None:
        """Raises: EventLogError, OSError; the list stays open then."""
        with self._blobs() as blobs:
            try:
                rows = decode_list(blobs.get(self._list.list_id))
            except NotFound:
                rows = ()  # nothing refers to it any more, or the hook died before its pack was written
            for tree in self._list.parts:
                self._stored.update(_files_of(blobs, tree))
        waiting = iter([row for row in self._in_order(rows) if row.path not in self._stored])
        self._wait_for_tick(rows)
        while self._store_batch(waiting):
            pass
        self._prove(rows)
        self._heal(rows)

    def _wait_for_tick(self, rows: "Iterable[DeferredFile]") -> None:
        """Wait until a write would change a file's stat: from then on the stat proves what is read (I26)."""
        newest = max((row.stat[2] for row in rows), default=0)
        path = os.fsencode(self._list.root)
        for _ in range(_TICKS_MAX):
            try:
                self._now, self._device = probe_of(self._fs, self._layout, path)
            except OSError:
                return  # the directory is gone
            if self._now > newest or not self._now:
                return
            self._fs.sleep(_TICK_S)

    def _prove(self, rows: "Iterable[DeferredFile]") -> None:
        """The stats of files that an earlier process stored: it read them after their tick as well."""
        for row in rows:
            if row.path not in self._stored or row.path in self._proofs:
                continue
            try:
                fd = open_below(self._calls, self._list.root, row.path)
            except OSError:
                continue
            try:
                self._note_proof(row, self._calls.fstat(fd))
            finally:
                self._calls.close(fd)

    def _note_proof(self, row: DeferredFile, file_stat: os.stat_result) -> None:
        if (
            is_as_listed(file_stat, row)
            and file_stat.st_ctime_ns < self._now
            and file_stat.st_dev == self._device
        ):
            self._proofs[row.path] = pack_stat(file_stat)

    def _blobs(self) -> BlobStore:
        return BlobStore(
            StoreFiles(self._fs, self._layout, self._who.store_id),
            kinds_in=self._redactor.kinds_in,
            modes=self._who.keeps_modes,
        )

    def _in_order(self, rows: "Iterable[DeferredFile]") -> list[DeferredFile]:
        """First files without a copy, which may change at any moment, from the smallest on."""
        return sorted(rows, key=lambda row: (row.path in self._copies, row.size, row.path))

    # -- storing -------------------------------------------------------------------------------

    def _store_batch(self, waiting: "Iterator[DeferredFile]") -> bool:
        """Store some of the files, and record it in the log; whether there were any."""
        stored: dict[bytes, Content] = {}
        lost: dict[bytes, str] = {}
        any_left = False
        with self._blobs() as blobs, blobs.writer(lock_timeout_s=_LOCK_TIMEOUT_S, paced=True) as writer:
            for row in waiting:
                any_left = True
                data = self._read(row, lost)
                if data is not None:
                    id = writer.put(data)
                    stored[row.path] = row.kind, id, len(data)
                    if self._is_ignored(row.path) and not self._tracked.has(id, len(data)):
                        blobs.withhold(id, redaction.IGNORED)
                del data
                if writer.pending_bytes() >= BATCH_BYTES:
                    break
            if stored or lost:
                tree = healing.put_tree_of(writer, stored)
                writer.flush()
                self._append(
                    [stored_event(self._list.list_id, tree, len(stored), lost), *blobs.withheld_events()]
                )
                if stored:
                    deferred_lists.note_part(self._layout, self._worktree, self._list.list_id, tree)
        self._stored |= stored
        return any_left

    def _is_ignored(self, path: bytes) -> bool:
        """Whether a file is one that git ignores and that is kept all the same."""
        return self._outside is not None and is_kept(path) and self._outside.has(os.fsdecode(path), None)

    def _read(self, row: DeferredFile, lost: "dict[bytes, str]") -> bytes | None:
        """The content that the list means; None, with the reason in `lost`, when it is gone."""
        copy = self._copies.get(row.path)
        try:
            data, reason = self._read_file(row), _CHANGED
        except OSError as error:
            data = None
            if error.errno in _UNREADABLE:
                reason = self._unreadable[row.path] = unreadable_text(error)
                self._proofs[row.path] = UNPROVEN
            elif error.errno in _MOVED:
                reason = _GONE
            else:
                raise  # of this process or this moment, not of the file
        if data is None and copy is not None:
            return self._fs.pread(copy, row.size, 0)
        if data is None and row.object is not None:
            return self._read_object(row.object)
        if data is None:
            lost[row.path] = reason
        return data

    def _read_object(self, object: bytes) -> bytes | None:
        """The content that git holds; None when it does not: reading the file reports that."""
        try:
            return self._git.read(object)
        except NotFound:
            return None

    def _read_file(self, row: DeferredFile) -> bytes | None:
        """The content of a file, if its stat is the list's before and after the read. Raises: OSError."""
        calls = self._calls
        fd = open_below(calls, self._list.root, row.path)
        try:
            if not is_as_listed(calls.fstat(fd), row):
                return None
            parts = []
            remaining = row.size + 1
            while remaining > 0 and (part := calls.read(fd, min(remaining, _READ_BYTES))):
                parts.append(part)
                remaining -= len(part)
            file_stat = calls.fstat(fd)
            if remaining != 1 or not is_as_listed(file_stat, row):
                return None
            self._note_proof(row, file_stat)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            calls.close(fd)

    def _append(self, events: "list[Event]") -> None:
        """One frame. Raises: EventLogError."""
        lines = [encode_line(admission.admit(self._fs, event, self._redactor)) for event in events]
        files = StoreFiles(self._fs, self._layout, self._who.store_id)
        journal = Journal(files, lock_timeout_s=_LOCK_TIMEOUT_S)
        try:
            journal.append(lines)
        finally:
            journal.close()

    # -- afterwards ----------------------------------------------------------------------------

    def _heal(self, rows: "tuple[DeferredFile, ...]") -> None:
        """Put the stored contents into the stat cache and the last recorded tree, so that later trees have
        them.
        """
        sentence = blob_id(sentence_of(self._list.list_id))
        layout, worktree = self._layout, self._worktree
        with (
            acquire(self._fs, layout, WORKTREE + worktree, timeout_s=_LOCK_TIMEOUT_S),
            self._blobs() as blobs,
            blobs.writer(lock_timeout_s=_LOCK_TIMEOUT_S) as writer,
        ):
            became = self._became(rows, writer.put)
            if self._heal_cache(writer, sentence, became):
                self._heal_checkpoint(blobs, writer, sentence, became)
            deferred_lists.note_done(layout, worktree, self._list.list_id)

    def _heal_cache(self, writer: BlobWriter, sentence: bytes, became: healing.Contents) -> bool:
        """Whether the stat cache has the stored contents. Raises: Corruption when it cannot take them.

        First the cache, then the checkpoint: an entry that goes from deferred to stored counts as unchanged;
        the other way round it would be recorded as a change.
        """
        fs, layout, root = self._fs, self._layout, self._list.root
        worktree = _worktree_of(root)
        path = layout.statcache(worktree.hex())
        loaded = statcache.load_any(fs, layout, self._who.store_id, worktree)
        if loaded is None:
            if fs.exists(path):
                raise Corruption(path, "it cannot be read; the next capture makes it again")
            return False
        cache, options = loaded
        try:
            healed = healing.heal_cache(writer, cache, sentence, became, self._proofs)
            writer.flush()
            if healed is None:
                return all(
                    directory.id(row) != sentence for _, directory, row in cache.special(SKIPPED_COUNT)
                )
            key = statcache.CacheKey(self._who.store_id, worktree, options, os.fsencode(root))
            statcache.save(fs, layout, key, healed)
        except Unusable as error:
            raise Corruption(path, "it cannot be read; the next capture makes it again") from error
        finally:
            cache.close()
        reloaded = statcache.load(fs, layout, key)
        if reloaded is None or reloaded.root != healed.root:
            raise Corruption(path, "it could not be replaced; the next capture makes it again")
        reloaded.close()
        return True

    def _heal_checkpoint(
        self, blobs: BlobStore, writer: BlobWriter, sentence: bytes, became: healing.Contents
    ) -> None:
        checkpoint = state.read_checkpoint(self._layout, self._worktree)
        if checkpoint.tree is None:
            return
        try:
            tree = healing.heal_tree(blobs.get_tree, writer, checkpoint.tree, sentence, became)
        except (NotFound, Corruption):
            return  # the next capture starts over
        writer.flush()
        if tree != checkpoint.tree:
            checkpoint.tree = tree
            state.write_checkpoint(self._layout, self._worktree, checkpoint)

    def _became(
        self, rows: "tuple[DeferredFile, ...]", put: "Callable[[bytes], bytes]"
    ) -> dict[bytes, Content]:
        became = dict(self._stored)
        for row in rows:
            reason = self._unreadable.get(row.path)
            if reason is not None and row.path not in became:
                became[row.path] = SKIPPED, put(reason.encode("utf-8", "surrogateescape")), row.size
        return became


def _files_of(blobs: BlobStore, tree: bytes, prefix: bytes = b"") -> Iterator[tuple[bytes, Content]]:
    for entry in blobs.get_tree(tree):
        if entry.kind == DIRECTORY:
            yield from _files_of(blobs, entry.id, prefix + entry.name + b"/")
        else:
            yield prefix + entry.name, (entry.kind, entry.id, entry.size)


def _worktree_of(root: str) -> bytes:
    """The name of a directory's stat cache."""
    from blake3 import blake3

    return blake3(os.fsencode(root)).digest(16)
