"""Which contents a capture reads at once, and which it leaves to be stored after it (docs/certainty.md §3).

For callers that wait for no content (hooks). What the caller named is read first, then the rest from the
smallest on, as far as time and bytes reach; the others become *deferred*: entries `s` whose sentence names a
list with the stat of each. On the hook path.
"""

import time

from eventlog.base.errors import Corruption, NotFound
from eventlog.blobs.ids import blob_id
from eventlog.blobs.tree import EXECUTABLE, FILE, FILES, SKIPPED
from eventlog.worktree.entries import TooMuch
from eventlog.worktree.statcache import pack_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterator

    from eventlog.blobs.deferred import DeferredFile
    from eventlog.blobs.tree import TreeEntry
    from eventlog.worktree.changes import CapturedChange
    from eventlog.worktree.entries import Entries, Found
    from eventlog.worktree.statcache import StatCache

CONTENT_SIZE_MAX = 1 << 20  # of one content that is read at once
CALL_BYTES_MAX = 4 << 20  # of all that one call reads: hashed, looked through and compressed in 0.2 s


class Deferral:
    """What a caller that waits for no content asks of one capture.

    Args:
        named: paths whose contents are read first: those that the hook's tool has named.
    """

    __slots__ = ("named",)

    def __init__(self, named: "Collection[bytes]" = ()) -> None:
        self.named = frozenset(named)


class UnreadFile:
    """A regular file whose content the tree needs: where it stands, its stat, and the entry it had."""

    __slots__ = ("directory", "entry", "found", "name", "path")

    def __init__(
        self, path: bytes, directory: bytes, name: bytes, found: "os.stat_result", entry: "bytes | None"
    ) -> None:
        self.path = path
        self.directory = directory
        self.name = name
        self.found = found
        self.entry = entry  # the id of an entry `s` that stood here


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
        self._rows_of_other: "dict[bytes, int] | None" = None
        self._deferral = deferral
        self._entries = entries
        self._lists = lists
        self._deadline = deadline
        self._left = CALL_BYTES_MAX
        self.new: "list[DeferredFile]" = []  # what this call deferred, in the order of reading

    def take(self, waiting: "list[UnreadFile]") -> "Iterator[tuple[UnreadFile, Found | None]]":
        """What stands at each path, in the order of reading, the deferred last; None where it is gone."""
        named = self._deferral.named
        waiting.sort(key=lambda one: (one.path not in named, one.found.st_size, one.path))
        later: "list[tuple[UnreadFile, os.stat_result]]" = []
        for one in waiting:
            known = self._known(one)
            if known is not None:
                yield one, known
            elif not self._may_read(one.found.st_size):
                later.append((one, one.found))
            else:
                try:
                    yield one, self._entries.read(one.directory, one.name, one.found)
                except FileNotFoundError:
                    yield one, None
                except TooMuch as error:
                    later.append((one, error.found))
        yield from self._defer(later)

    def list_held(self, rows: "list[tuple[bytes, bytes, int, int, int, int, bytes | None]]") -> bytes:
        """Put the list of files that git holds, whose rows are those of `encode_list`; their entries' id."""
        from eventlog.blobs.deferred import encode_list, sentence_of

        put = self._entries.writer.put
        list_id = put(encode_list(rows), scan=False)
        self._lists.add(list_id, in_git=True)
        return put(sentence_of(list_id), scan=False)

    def _may_read(self, size: int) -> bool:
        if size > self._entries.size_max:
            return True  # it is skipped for its size, and never read
        if size > CONTENT_SIZE_MAX or size > self._left or self._is_late():
            return False
        self._left -= size
        return True

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _known(self, one: UnreadFile) -> "Found | None":
        """The entry that the file had, when it has not been touched since."""
        found = self._known_to_other(one)
        if found is not None:
            return found
        list_id = None if one.entry is None else self._lists.named_by(one.entry)
        row = None if list_id is None else self._lists.row(list_id, one.path)
        if row is None or row.kind != self._entries.kind_of(one.found) or row.stat != stat_of(one.found):
            return None
        assert one.entry is not None
        return SKIPPED, one.entry, row.size, self._entries.proof(one.found)

    def _known_to_other(self, one: UnreadFile) -> "Found | None":
        other = self._other
        if other is None:
            return None
        if self._rows_of_other is None:
            self._rows_of_other = {path: row for row, path in enumerate(other.paths)}
        row = self._rows_of_other.get(one.path)
        if row is None or other.stat(row) != pack_stat(one.found):
            return None
        kind, id = other.kinds[row : row + 1], other.id(row)
        if kind not in FILES or not self._entries.writer.holds(id):
            return None
        # Its kind is as the options of that cache had it: a plan's say nothing of narrower modes.
        return self._entries.kind_of(one.found), id, other.size(row), self._entries.proof(one.found)

    def _defer(
        self, later: "list[tuple[UnreadFile, os.stat_result]]"
    ) -> "Iterator[tuple[UnreadFile, Found]]":
        if not later:
            return
        from eventlog.blobs.deferred import DeferredFile, encode_list, sentence_of

        for one, found in later:
            self.new.append(DeferredFile((one.path, self._entries.kind_of(found), *stat_of(found), None)))
        put = self._entries.writer.put
        list_id = put(encode_list(self.new), scan=False)
        sentence = put(sentence_of(list_id), scan=False)
        self._lists.add(list_id, self.new)
        for one, found in later:
            yield one, (SKIPPED, sentence, found.st_size, self._entries.proof(found))


class Lists:
    """The lists that entries of trees name, read when they are asked for. Belongs to one thread.

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
        """A list that is not stored yet. Without `rows` it is read when they are asked for."""
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
        """What a list says of a path."""
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
        """Whether a change is only that a deferred content was stored, or deferred again: the file that is
        there now has the stat of the list."""
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


def kind_of(found: "os.stat_result") -> bytes:
    """The kind of a file, as far as all stores keep it."""
    return EXECUTABLE if found.st_mode & 0o100 else FILE


def stat_of(found: "os.stat_result") -> "tuple[int, int, int, int]":
    """(size, mtime_ns, ctime_ns, inode), as a list has them."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
