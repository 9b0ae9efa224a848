"""A copy of the store, from which a repair brings back what the store has lost. Reads only."""

from collections.abc import Callable, Iterable

from eventlog.base.errors import Corruption, NotFound
from eventlog.base.fs import FileSystem, read_file
from eventlog.base.layout import Layout, StoreFiles
from eventlog.blobs.pack import BLOB, TREE
from eventlog.blobs.store import BlobStore
from eventlog.blobs.writer import BlobWriter
from eventlog.log.frame import used_length
from eventlog.log.journal_reading import FILE_SIZE_MAX, journal_numbers
from eventlog.repair.copy_log import CopyLog
from eventlog.repair.patched_journal import patched

_PACK_BYTES = 64 << 20


class CopySource:
    """The copy in `layout`: its files, its log and its contents."""

    def __init__(self, fs: FileSystem, layout: Layout, store_id: bytes) -> None:
        """Raises: OSError: a failed read is no absence."""
        self.layout = layout
        self._fs = fs
        self._files = StoreFiles(fs, layout, store_id)
        self._blobs = BlobStore(self._files)
        self.log = CopyLog(fs, layout, store_id)

    def close(self) -> None:
        self._blobs.close()

    def journals(self) -> "list[int]":
        """The numbers of its journals, ascending."""
        try:
            return journal_numbers(self._files)
        except FileNotFoundError:
            return []

    def patched(self, number: int, ours: bytes, following: "bytes | None") -> "bytes | None":
        """A damaged journal of the store with frames of the copy; None where they add nothing."""
        try:
            copy = used(self._fs, self.layout.journal(number))
            data = patched(ours, copy, following)
        except (FileNotFoundError, Corruption):
            return None
        return None if data == ours else data

    def contents(
        self, ids: "Iterable[bytes]", own: BlobStore, is_erased: "Callable[[bytes], bool]"
    ) -> "tuple[set[bytes], set[bytes]]":
        """Those of these ids, and of what is below them, that the copy has, and those that it lacks.

        Args: own: the contents of the store. What these trees name and it holds, or erased, is in neither.
        """
        had: set[bytes] = set()
        lacking: set[bytes] = set()
        waiting = set(ids)
        while waiting:
            id = waiting.pop()
            try:
                is_tree = self._blobs.kind_of(id) == "tree"
                below = {entry.id for entry in self._blobs.get_tree(id)} if is_tree else set()
            except (NotFound, Corruption, FileNotFoundError):
                lacking.add(id)
                continue
            had.add(id)
            new = below - had - lacking
            waiting |= {child for child in new if not own.contains(child) and not is_erased(child)}
        return had, lacking

    def save(self, ids: "Iterable[bytes]", writer: BlobWriter) -> None:
        """Store these contents, which `contents` found. Raises: NotFound, Corruption, NotDurable."""
        kinds = {id: TREE if self._blobs.kind_of(id) == "tree" else BLOB for id in ids}
        for id in sorted(kinds, key=lambda id: (kinds[id] != TREE, id)):
            writer.add_copy(id, kinds[id], self._blobs.get(id))
            if writer.pending_bytes() >= _PACK_BYTES:
                writer.flush()
        writer.flush()


def used(fs: FileSystem, path: str) -> bytes:
    """The bytes of a journal without the room at its end. Raises: OSError, Corruption: it is too large."""
    try:
        data = read_file(fs, path, FILE_SIZE_MAX)
    except ValueError as error:
        raise Corruption(path, str(error)) from error
    return data[: used_length(data)]
