"""Which contents a capture reads at once, and which it leaves to be stored after it (docs/certainty.md §3).

For callers that wait for no content (hooks). Files that the caller named are read first, then the rest from
the smallest on, within the limits of time and bytes. The others become *deferred*: entries `s` whose sentence
names a list with the stat of each. On the hook path.
"""

from eventlog.base.errors import Corruption, NotFound
from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import EXECUTABLE, FILE, FILES, SKIPPED
from eventlog.worktree.entries import TooMuch
from eventlog.worktree.rows import Unusable, pack_stat
from eventlog.worktree.stat_all import is_late

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterator

    from eventlog.blobs.deferred import DeferredFile
    from eventlog.blobs.tree import TreeEntry
    from eventlog.worktree.changes import CapturedChange
    from eventlog.worktree.entries import Entries, ReadEntry
    from eventlog.worktree.rows import StatCache

CONTENT_SIZE_MAX = 1 << 20  # of one content that is read at once
CALL_BYTES_MAX = 4 << 20  # of all that one call reads: hashed, scanned and compressed in 0.2 s


class Deferral:
    """The wishes of a caller that waits for no content.

    Args:
        named: paths whose contents are read first: those that the hook's tool has named.
        bytes_max: of all that is read.
    """

    __slots__ = ("bytes_max", "named")

    def __init__(self, named: "Collection[bytes]" = (), bytes_max: int = CALL_BYTES_MAX) -> None:
        self.named = frozenset(named)
        self.bytes_max = bytes_max


class UnreadFile:
    """A regular file whose content the tree needs: its path, its stat, and the entry that it had."""

    __slots__ = ("directory", "entry", "file_stat", "name", "path")

    def __init__(
        self, path: bytes, directory: bytes, name: bytes, file_stat: "os.stat_result", entry: "bytes | None"
    ) -> None:
        self.path = path
        self.directory = directory
        self.name = name
        self.file_stat = file_stat
        self.entry = entry  # the id of its earlier entry `s`


class ContentReader:
    """Reads contents for one capture, or defers them. Belongs to one thread."""

    def __init__(
        self,
        deferral: Deferral,
        entries: "Entries",
        lists: "Lists",
        deadline: "float | None",
        other: "StatCache | None" = None,
    ) -> None:
        """Args: other: what a capture with other options saw; each row is true of its path."""
        self._other = other
        self.named = deferral.named
        self._entries = entries
        self._lists = lists
        self._deadline = deadline
        self._bytes_left = deferral.bytes_max
        self.new: "list[DeferredFile]" = []  # what this call deferred, in the order of reading

    def take(self, files: "list[UnreadFile]") -> "Iterator[tuple[UnreadFile, ReadEntry | None]]":
        """The entry of each file, in the order of reading, the deferred last; None where it is gone."""
        files.sort(key=lambda file: (file.path not in self.named, file.file_stat.st_size, file.path))
        later: "list[tuple[UnreadFile, os.stat_result]]" = []
        for file in files:
            entry = self._unchanged(file)
            if entry is not None:
                yield file, entry
            elif not self._may_read(file.file_stat.st_size):
                later.append((file, file.file_stat))
            else:
                try:
                    yield file, self._entries.read(file.directory, file.name, file.file_stat)
                except FileNotFoundError:
                    yield file, None
                except TooMuch as error:
                    later.append((file, error.file_stat))
        yield from self._defer(later)

    def list_held(self, rows: "list[tuple[bytes, bytes, int, int, int, int, bytes | None]]") -> bytes:
        """Put the list of files that git holds, with rows as in `encode_list`; the id of their entries."""
        from eventlog.blobs.deferred import encode_list, sentence_of

        put = self._entries.writer.put
        list_id = put(encode_list(rows), scan=False)
        self._lists.add(list_id, in_git=True)
        return put(sentence_of(list_id), scan=False)

    def _may_read(self, size: int) -> bool:
        if size > self._entries.size_max:
            return True  # it is skipped for its size, and never read
        if size > CONTENT_SIZE_MAX or size > self._bytes_left or is_late(self._deadline):
            return False
        self._bytes_left -= size
        return True

    def _unchanged(self, file: UnreadFile) -> "ReadEntry | None":
        """The entry that the file had, when it has not been touched since."""
        entry = self._unchanged_in_other(file)
        if entry is not None:
            return entry
        list_id = None if file.entry is None else self._lists.named_by(file.entry)
        row = None if list_id is None else self._lists.row(list_id, file.path)
        if (
            row is None
            or row.kind != self._entries.kind_of(file.file_stat)
            or row.stat != stat_of(file.file_stat)
        ):
            return None
        assert file.entry is not None
        return SKIPPED, file.entry, row.size, self._entries.proof(file.file_stat)

    def _unchanged_in_other(self, file: UnreadFile) -> "ReadEntry | None":
        other = self._other
        if other is None:
            return None
        try:
            present = other.find(file.path)
        except Unusable:
            self._other = None
            return None
        if present is None or present[0].stat(present[1]) != pack_stat(file.file_stat):
            return None
        directory, row = present
        kind, id = directory.kind(row), directory.id(row)
        if kind not in FILES or not self._entries.writer.holds(id):
            return None
        # The kind of that cache's row depends on its options: those of a plan leave out narrower modes.
        return (
            self._entries.kind_of(file.file_stat),
            id,
            directory.size(row),
            self._entries.proof(file.file_stat),
        )

    def _defer(
        self, later: "list[tuple[UnreadFile, os.stat_result]]"
    ) -> "Iterator[tuple[UnreadFile, ReadEntry]]":
        if not later:
            return
        from eventlog.blobs.deferred import DeferredFile, encode_list, sentence_of

        for file, file_stat in later:
            self.new.append(
                DeferredFile((file.path, self._entries.kind_of(file_stat), *stat_of(file_stat), None))
            )
        put = self._entries.writer.put
        list_id = put(encode_list(self.new), scan=False)
        sentence = put(sentence_of(list_id), scan=False)
        self._lists.add(list_id, self.new)
        for file, file_stat in later:
            yield file, (SKIPPED, sentence, file_stat.st_size, self._entries.proof(file_stat))


class Lists:
    """The lists that entries of trees name, read when they are needed. Belongs to one thread.

    Args: get: the bytes of a blob; raises NotFound or Corruption. A list that cannot be read has no rows.
    """

    def __init__(self, get: "Callable[[bytes], bytes]") -> None:
        self._get = get
        self._named: "dict[bytes, bytes | None]" = {}  # id of a sentence → the list
        self._rows: "dict[bytes, dict[bytes, DeferredFile]]" = {}
        self._in_git: "dict[bytes, bool]" = {}

    def add(
        self, list_id: bytes, rows: "Collection[DeferredFile] | None" = None, *, in_git: bool = False
    ) -> None:
        """Add a list that is not stored yet. Without `rows` it is read when they are needed."""
        from eventlog.blobs.deferred import sentence_of

        self._named[blob_id(sentence_of(list_id))] = list_id
        if rows is not None:
            self._rows[list_id] = {row.path: row for row in rows}
        self._in_git[list_id] = in_git

    def named_by(self, id: bytes) -> "bytes | None":
        """The list that the sentence with this id names; None when it is no such sentence."""
        if id not in self._named:
            try:
                text = self._get(id)
            except (NotFound, Corruption):
                text = b""
            from eventlog.blobs.deferred import list_of

            self._named[id] = list_of(text)
        return self._named[id]

    def row(self, list_id: bytes, path: bytes) -> "DeferredFile | None":
        """The row of a path in a list."""
        if list_id not in self._rows:
            from eventlog.blobs.deferred import decode_list

            try:
                rows = decode_list(self._get(list_id))
            except (NotFound, Corruption):
                rows = ()
            self._rows[list_id] = {row.path: row for row in rows}
        return self._rows[list_id].get(path)

    def is_in_git(self, list_id: bytes) -> bool:
        """Whether a list is one of contents that git holds."""
        if list_id not in self._in_git:
            try:
                first = self._get(list_id).partition(b"\n")[2].partition(b"\t")[0]
            except (NotFound, Corruption):
                first = b""
            self._in_git[list_id] = bool(first) and not first.endswith(b" -")
        return self._in_git[list_id]

    def is_same(self, change: "CapturedChange", tables: "StatCache") -> bool:
        """Whether a change is only that a deferred content was stored, or deferred again: the present file
        has the stat of the list."""
        before, after = change.before, change.after
        was = None if before is None else self._row_of(before, change.path)
        if was is None or after is None:
            return False
        if after.kind in FILES:
            return was.kind == after.kind and was.stat == tables.times(change.path)
        now = self._row_of(after, change.path)
        return now is not None and (now.kind, now.stat) == (was.kind, was.stat)

    def _row_of(self, entry: "TreeEntry", path: bytes) -> "DeferredFile | None":
        """The row of the list that an entry names; None when it names none."""
        list_id = self.named_by(entry.id) if entry.kind == SKIPPED else None
        return None if list_id is None else self.row(list_id, path)


def kind_of(file_stat: "os.stat_result") -> bytes:
    """The kind of a file, as far as all stores keep it."""
    return EXECUTABLE if file_stat.st_mode & 0o100 else FILE


def stat_of(file_stat: "os.stat_result") -> "tuple[int, int, int, int]":
    """(size, mtime_ns, ctime_ns, inode), as a list has them."""
    return file_stat.st_size, file_stat.st_mtime_ns, file_stat.st_ctime_ns, file_stat.st_ino
