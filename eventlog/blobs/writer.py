"""Puts blobs and trees into packs: one pack per flush.

A writer holds the gc lock shared from before its first existence check until it is closed. So nothing
that it relies on can be collected before the event that refers to it is durable (I24). Order for the
caller: open a writer, put, `flush`, append the events, close the writer. An id is good for an event
only after the flush that follows its put.

Equal content is stored once (I25): a put checks the store and what waits for this flush. Small
blobs are gathered into groups, in the order given, so that similar ones compress together; trees go
into groups of their own, because a replay reads all trees before the first file.

A writer belongs to one thread, which is the one that opened it. With zstd other threads compress.
On the hook path.
"""

import os

from blake3 import blake3

from eventlog.base.errors import Corruption, EventLogError, NotDurable, Refused
from eventlog.base.fs import hash_file, store_error, translate_os_errors, write_all
from eventlog.base.layout import PACK_DIR
from eventlog.base.locks import GC, acquire
from eventlog.blobs.ids import hasher_of, tree_id
from eventlog.blobs.pack import (
    BLOB,
    BLOB_SIZE_MAX,
    CODEC_NAMES,
    GROUP_RAW_MAX,
    TREE,
    ZLIB,
    ZSTD,
    Group,
    PackTables,
    compress,
    decode_tables,
    decompress,
    decompressed,
    encode_group_head,
    encode_header,
    encode_tables,
)
from eventlog.blobs.tree import encode_tree
from eventlog.secrets.erased_rules import ERASED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future, ThreadPoolExecutor

    from eventlog.base.layout import StoreFiles
    from eventlog.blobs.catalog import Catalog
    from eventlog.blobs.store import BlobStore

    KindsIn = Callable[[bytes], tuple[str, ...]]

# zlib looks back 32 KiB, so larger groups gain nothing and cost a reader of one blob more.
_GROUP_BYTES = {CODEC_NAMES["raw"]: 1 << 20, ZLIB: 1 << 20, ZSTD: 4 << 20}
_LEVELS = {CODEC_NAMES["raw"]: 0, ZLIB: 1, ZSTD: 3}

# A pack stays in memory until it is this large; then its bytes go to its file in `tmp/`.
_MEMORY_BYTES = 8 << 20

# Groups that wait for the compressing thread: enough to keep it busy, few enough to bound memory.
_WAITING_MAX = 4


class _OpenGroup:
    """A group that is being filled."""

    __slots__ = ("members", "parts", "size")

    def __init__(self) -> None:
        self.parts: "list[bytes]" = []
        self.members: "list[tuple[bytes, int, int, int]]" = []  # id, kind, offset, length
        self.size = 0


class BlobWriter:
    """See the module's docstring. A context manager; what was not flushed when it closes is dropped."""

    def __init__(
        self,
        store: "BlobStore",
        catalog: "Catalog",
        *,
        codec: str = "zlib",
        level: "int | None" = None,
        group_bytes: "int | None" = None,
        threads: int = 1,
        lock_timeout_s: float = 10.0,
        paced: bool = False,
    ) -> None:
        """Called by `BlobStore.writer`, which explains the arguments."""
        files = store.files
        self.store = store
        self._files = files
        self._catalog = catalog
        self._codec = CODEC_NAMES[codec]
        self._level = _LEVELS[self._codec] if level is None else level
        self._group_bytes = min(group_bytes or _GROUP_BYTES[self._codec], GROUP_RAW_MAX)
        self._threads = threads
        self._paced = paced
        self._reading = translate_os_errors(files.layout.directory(PACK_DIR), "read the packs")
        self._pool: "ThreadPoolExecutor | None" = None
        self._broken = False
        self._relied = False
        self._start_pack()
        self._lock = acquire(files.fs, files.layout, GC, exclusive=False, timeout_s=lock_timeout_s)
        try:
            # Listed under the lock: what is there now stays until the lock goes.
            with self._reading:
                catalog.refresh()
            self._unsettled = bool(catalog.names - catalog.settled)
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> "BlobWriter":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what was not flushed and release the lock; a second call does nothing."""
        try:
            self._drop_pack()
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None
        finally:
            self._lock.release()

    def put(self, data: bytes, *, scan: bool = True) -> bytes:
        """Store a blob unless it is there; its id. What was erased from the store is not stored again.

        Args: scan: whether to search for secrets; False when the caller knows that there are none.
        Raises: Refused above 4 GiB − 1; NotDurable when the disk takes no more.
        """
        if len(data) > BLOB_SIZE_MAX:
            raise _too_large(len(data))
        id = blake3(data).digest()
        withheld = self.store.withheld
        if scan and id not in withheld and id not in self._pending:
            # Stored contents too: their writer may have died before the event was in the log.
            kinds = self.store.kinds_in(data)
            if kinds:
                withheld[id] = kinds
        if id not in self._pending and not self._known(id) and ERASED not in withheld.get(id, ()):
            self._add(self._blobs, id, BLOB, data)
        return id

    def withhold(self, id: bytes, kind: str) -> None:
        """`BlobStore.withhold`."""
        self.store.withhold(id, kind)

    def put_tree(self, entries: "Iterable[tuple[bytes, bytes, bytes, int]]") -> bytes:
        """Store a directory's entries, in any order; the tree's id.

        Raises: InvalidEvent on entries that no tree may hold.
        """
        return self.put_encoded_tree(encode_tree(entries))

    def put_encoded_tree(self, encoding: bytes) -> bytes:
        """Store what `encode_tree` returned; the tree's id."""
        id = tree_id(encoding)
        if id not in self._pending and not self._known(id):
            self._add(self._trees, id, TREE, encoding)
        return id

    def holds(self, id: bytes) -> bool:
        """Whether a put of this content would store nothing: it is there, or waits for the flush."""
        return id in self._pending or self._known(id)

    def add_copy(self, id: bytes, kind: int, data: bytes) -> None:
        """Store what other packs hold too: for a merge that has hashed `data`. Trees come first."""
        if kind != TREE:
            self._close_group(self._trees)
        if id not in self._pending:
            self._add(self._trees if kind == TREE else self._blobs, id, kind, data)

    def end_copies(self, size_min: int) -> None:
        """Let the next copy begin a new group, if the one under way has reached this size."""
        for group in (self._trees, self._blobs):
            if group.size >= size_min:
                self._close_group(group)

    def add_group(self, blobs: "Iterable[bytes]") -> "list[bytes]":
        """Store blobs that belong together in groups of their own, in the order given; their ids.

        The order is the caller's: similar blobs beside each other, and first the ones read most.
        """
        self.end_group()
        ids = [self.put(data) for data in blobs]
        self.end_group()
        return ids

    def end_group(self) -> None:
        """Let the next blob begin a new group."""
        self._close_group(self._blobs)

    def pending_bytes(self) -> int:
        """Raw bytes that were put since the last flush."""
        return self._raw_bytes

    def flush(self, *, more: bool = False) -> "str | None":
        """Make everything put so far durable; the new pack's name, None when nothing was new.

        Args: more: another flush follows before any event, and makes the names of both packs durable. No id
            is good until then.
        Raises: NotDurable: none of the ids since the last flush are good, and putting again is safe.
        """
        if self._broken:
            self._broken = False
            raise NotDurable(
                f"{self._files.layout.directory(PACK_DIR)}: an earlier write of this pack failed; nothing of "
                "it is stored. Put the contents again."
            )
        if not self._pending:
            self._settle_found()
            return None
        try:
            self._close_group(self._blobs)
            self._close_group(self._trees)
            self._drain(0)
            tables = self._pack.publish(is_named=not more)
        except BaseException as error:
            self._drop_pack()
            self._broken = False
            if isinstance(error, OSError):
                raise self._not_written(error) from error
            raise
        self._start_pack()
        self._catalog.add(tables)
        self._catalog.store_recent()
        if more:
            self._unsettled = self._relied = True  # as on a name that another process has not synced
        else:
            self._mark_settled()
        return tables.name

    def _known(self, id: bytes) -> bool:
        with self._reading:
            is_stored = self._catalog.has(id)
        if not is_stored:
            return False
        if self._unsettled and self._catalog.is_recent(id):
            self._relied = True
        return True

    def _settle_found(self) -> None:
        """Another process may have linked a pack that we found, and not synced its name yet."""
        if not self._relied:
            return
        try:
            self._files.fs.fsync_dir(self._files.layout.directory(PACK_DIR))
        except OSError as error:
            raise self._not_written(error) from error
        self._mark_settled()

    def _not_written(self, error: OSError) -> EventLogError:
        doing = "make a pack durable, so nothing of it counts as stored"
        return store_error(error, self._files.layout.directory(PACK_DIR), doing, NotDurable)

    def _mark_settled(self) -> None:
        """The directory of packs was synced after the listing."""
        self._catalog.settled |= self._catalog.names
        self._unsettled = self._relied = False

    def _add(self, group: _OpenGroup, id: bytes, kind: int, data: bytes) -> None:
        size = len(data)
        if size >= self._group_bytes:
            group = _OpenGroup()  # one of its own; the open one goes on filling
        elif group.size + size > self._group_bytes:
            self._close_group(group)
        group.members.append((id, kind, group.size, size))
        group.parts.append(data if type(data) is bytes else bytes(data))
        group.size += size
        self._pending.add(id)
        self._raw_bytes += size
        if group.size >= self._group_bytes:
            self._close_group(group)

    def _close_group(self, group: _OpenGroup) -> None:
        """Hand a group over to compression; a group without members is left as it is."""
        if not group.members:
            return
        raw = group.parts[0] if len(group.parts) == 1 else b"".join(group.parts)
        members = group.members
        self._pack.expect(members)
        group.parts = []
        group.members = []
        group.size = 0
        if self._codec == ZSTD:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor

                self._pool = ThreadPoolExecutor(self._threads, "locus-zstd")
            future = self._pool.submit(encoded_group, raw, members, ZSTD, self._level)
            self._waiting.append((len(raw), future))
            self._drain(_WAITING_MAX)
        else:
            self._write_group(len(raw), lambda: encoded_group(raw, members, self._codec, self._level))

    def _drain(self, left: int) -> None:
        """Write compressed groups, in order, until only `left` are waiting."""
        while len(self._waiting) > left:
            raw_size, future = self._waiting.pop(0)
            self._write_group(raw_size, future.result)

    def _write_group(self, raw_size: int, encoded: "Callable[[], tuple[int, bytes]]") -> None:
        try:
            self._pack.append_group(raw_size, *encoded())
        except NotDurable:
            self._give_up()
            raise
        except OSError as error:
            self._give_up()
            raise self._not_written(error) from error

    def _give_up(self) -> None:
        """Drop the pack within a put: the ids that were handed out are void, so the next flush must fail."""
        self._drop_pack()
        self._broken = True

    def _start_pack(self) -> None:
        self._blobs = _OpenGroup()
        self._trees = _OpenGroup()
        self._pending: "set[bytes]" = set()
        self._raw_bytes = 0
        self._waiting: "list[tuple[int, Future[tuple[int, bytes]]]]" = []
        self._pack = _OpenPack(self._files, self._paced)
        self._relied = False

    def _drop_pack(self) -> None:
        """Forget what was put since the last flush, and remove its file."""
        for _, future in self._waiting:
            future.cancel()
        self._pack.drop()
        self._start_pack()


class _OpenPack:
    """A pack that is being written: its bytes are in memory until they are many, then in its file in `tmp/`.

    Its methods raise OSError when the disk takes no more; then it is to be dropped.
    """

    __slots__ = (
        "_announced",
        "_buffer",
        "_entries",
        "_fd",
        "_files",
        "_fs",
        "_groups",
        "_hash",
        "_header",
        "_paced",
        "_size",
        "_tmp",
        "_written",
    )  # fmt: skip

    def __init__(self, files: "StoreFiles", paced: bool) -> None:
        """Args: paced: whether to sync each piece before the next is written."""
        self._files = files
        self._fs = files.fs
        self._paced = paced
        self._groups: "list[Group]" = []
        self._announced = 0
        self._entries: "list[tuple[bytes, int, int, int, int]]" = []
        self._header = encode_header(files.store_id)
        self._hash = blake3(self._header)
        self._buffer = [self._header]
        self._size = len(self._header)
        self._written = 0
        self._fd = -1
        self._tmp = ""

    def expect(self, members: "list[tuple[bytes, int, int, int]]") -> None:
        """Enter what the next group that comes will hold: id, kind, offset and length of each."""
        number = self._announced
        self._announced += 1
        self._entries += [(id, kind, number, offset, size) for id, kind, offset, size in members]

    def append_group(self, raw_size: int, codec: int, stored: bytes) -> None:
        """Add a group; they come in the order in which they were expected."""
        self._groups.append(Group(self._size, codec, raw_size, len(stored)))
        self._write(encode_group_head(codec, raw_size, len(stored)))
        self._write(stored)

    def publish(self, *, is_named: bool) -> PackTables:
        """Finish the file, give it its name, and sync both, or the file alone. Raises: NotDurable."""
        groups, entries, footer = encode_tables(self._header, self._groups, self._entries, self._size)
        for part in (groups, entries, footer):
            self._write(part)
        self._spill()
        self._fs.fsync(self._fd)
        self._close()
        name = self._hash.hexdigest()
        path = self._files.layout.pack(name)
        tables = self._read_back(groups + entries, footer, path, name)
        try:
            self._fs.link(self._tmp, path)
        except FileExistsError:
            self._take_existing(path, name)
        if is_named:
            self._fs.fsync_dir(self._files.layout.directory(PACK_DIR))
        self._unlink_tmp()
        return tables

    def drop(self) -> None:
        """Remove its file."""
        self._close()
        self._unlink_tmp()

    def _write(self, data: bytes) -> None:
        self._hash.update(data)
        self._buffer.append(data)
        self._size += len(data)
        if self._size - self._written > _MEMORY_BYTES:
            self._spill()

    def _spill(self) -> None:
        """Bring the buffered bytes to the file."""
        if self._fd < 0:
            self._tmp = self._files.layout.tmp(f"pack-{self._fs.random_bytes(8).hex()}")
            self._fd = self._fs.open(self._tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        data = self._buffer[0] if len(self._buffer) == 1 else b"".join(self._buffer)
        self._buffer = []
        if not self._paced:
            write_all(self._fs, self._fd, data, self._written)
            self._written += len(data)
            return
        for start in range(0, len(data), _MEMORY_BYTES):
            piece = data[start : start + _MEMORY_BYTES]
            write_all(self._fs, self._fd, piece, self._written)
            self._fs.fdatasync(self._fd)
            self._written += len(piece)

    def _read_back(self, encoded: bytes, footer: bytes, path: str, name: str) -> PackTables:
        """The tables as their readers will decode them. Raises: NotDurable unless they hold what was put."""
        try:
            tables = decode_tables(self._header, encoded, footer, self._size, path, name)
            if tables.holds(self._groups, self._entries):
                return tables
        except Corruption:
            pass
        raise _spoilt("the tables of a pack did not come back as they were")

    def _take_existing(self, path: str, name: str) -> None:
        """The pack is there: made by another writer, or made once and damaged since.

        The damaged one is replaced. No other code replaces a name: the name is the hash of the bytes that
        belong to it, we hold exactly these, and the old ones are a worse copy of them.
        """
        if hash_file(self._fs, path) != name:
            self._fs.rename(self._tmp, path)

    def _close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._fs.close(fd)

    def _unlink_tmp(self) -> None:
        if self._tmp:
            tmp, self._tmp = self._tmp, ""
            try:
                self._fs.unlink(tmp)
            except OSError:
                pass  # a leftover in tmp/ does no harm and is swept later


def encoded_group(
    raw: bytes, members: "list[tuple[bytes, int, int, int]]", codec: int, level: int
) -> "tuple[int, bytes]":
    """(codec, stored bytes) of a group, decoded again: each member must have the id that was given for it.

    A pack holds what its ids promise or is not written, whatever memory, processor or library did to it.
    Raises: NotDurable.
    """
    used, stored = compress(raw, codec, level)
    group = Group(0, used, len(raw), len(stored))
    try:
        if len(members) == 1:
            id, kind = members[0][:2]
            hasher = hasher_of(kind)
            for piece in decompressed(group, stored, "a new pack"):
                hasher.update(piece)
            whole = hasher.digest() == id
        else:
            data = memoryview(decompress(group, stored, "a new pack"))
            whole = all(
                hasher_of(kind).update(data[offset : offset + size]).digest() == id
                for id, kind, offset, size in members
            )
    except Corruption:
        whole = False
    if not whole:
        raise _spoilt("contents did not come back as they were when they were compressed")
    return used, stored


def _spoilt(what: str) -> NotDurable:
    return NotDurable(
        f"{what}, so nothing of this pack is stored. Try again; if it happens again, check the memory of "
        "this machine."
    )


def _too_large(size: int) -> Refused:
    return Refused(
        f"a file of {size} bytes cannot be stored: the limit is {BLOB_SIZE_MAX} (4 GiB − 1). "
        "Record it as skipped."
    )
