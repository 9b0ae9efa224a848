"""Git's index, read directly: what git tracks, and which files are, by their stats, what git holds of them.

Versions 2, 3 and 4, of SHA-1 and SHA-256 repositories. The digest at the end of the file is not checked; git
does not check it either, since that costs a hash of the whole file. The structure is checked, and every
reader of an object hashes it, so a damaged id cannot prove anything wrong. An index with required features
that this module does not know (a split index, a sparse one, any extension in lower case) is not read at all.

Filters and line endings are the concern of `git_held`. On the hook path.
"""

import os
import stat
from struct import Struct

from eventlog.worktree.stat_all import TooLate, is_late

TYPE_CHECKING = False

SIZE_MAX = 64 << 20  # some 600,000 entries

_HEAD = Struct(">4sII")
# ctime s, ns, mtime s, ns, device, inode, mode, uid, gid, size; then the object's id and the flags
_STAT = Struct(">10I")
_STAT_SIZE = _STAT.size
_MODE_AT = 24
_INT = Struct(">I")
_FLAGS = Struct(">H")

_ASSUME_VALID, _EXTENDED, _STAGE, _LENGTH = 0x8000, 0x4000, 0x3000, 0x0FFF
_SKIP_WORKTREE, _INTENT_TO_ADD = 0x4000, 0x2000
_UNKNOWN_FLAGS = 0xFFFF & ~(_SKIP_WORKTREE | _INTENT_TO_ADD)

_FILE, _EXECUTABLE, _GITLINK, _SYMLINK = 0o100644, 0o100755, 0o160000, 0o120000
_MODES = frozenset((_FILE, _EXECUTABLE, _GITLINK, _SYMLINK))
_U32 = 0xFFFFFFFF
_NS = 1_000_000_000
# A file and an index on two file systems have two clocks.
_OTHER_CLOCK_NS = 2 * _NS


_ENTRIES_BETWEEN = 4096  # two readings of the clock


class Unreadable(Exception):
    """These bytes are no index, or one that only git understands."""


class GitIndex:
    """The entries at and below one directory of a work tree. Paths are relative to that directory."""

    __slots__ = ("_data", "_deadline", "_device", "_hash_size", "_offsets", "_written_ns", "tracked")

    def __init__(
        self,
        data: bytes,
        written: os.stat_result,
        hash_size: int,
        prefix: bytes = b"",
        deadline: "float | None" = None,
    ) -> None:
        """Args:
            written: the stat of the index file, from before it was read.
            hash_size: bytes of an object's id, 20 or 32.
            prefix: the directory's path in the work tree, with a slash at its end; empty for its top.
            deadline: monotonic time.
        Raises: Unreadable, TooLate.
        """
        self._data = data
        self._hash_size = hash_size
        self._deadline = deadline
        self._device = written.st_dev
        self._written_ns = written.st_mtime_ns
        self._offsets: "dict[bytes, int]" = {}  # of the entries that may prove something
        self.tracked: "dict[bytes, str | None]" = {}  # with the commit where it is a submodule
        self._read_entries(prefix)

    def object_of(self, path: bytes, file_stat: os.stat_result) -> "bytes | None":
        """The id of the object that git made of this very file; None when the index does not prove it.

        By git's rule: size, mtime, ctime, inode and mode are the entry's, and both times are older than the
        index. Git may still have converted the file.
        """
        offset = self._offsets.get(path)
        if offset is None or not stat.S_ISREG(file_stat.st_mode):
            return None
        data, mtime, ctime = self._data, file_stat.st_mtime_ns, file_stat.st_ctime_ns
        ctime_s, ctime_ns, mtime_s, mtime_ns, _, inode, mode, _, _, size = _STAT.unpack_from(data, offset)
        if (
            size != file_stat.st_size & _U32
            or mtime_s != mtime // _NS & _U32
            or mtime_ns != mtime % _NS
            or ctime_s != ctime // _NS & _U32
            or ctime_ns != ctime % _NS
            or inode != file_stat.st_ino & _U32
            or mode != (_EXECUTABLE if file_stat.st_mode & 0o100 else _FILE)
        ):
            return None
        margin = 0 if file_stat.st_dev == self._device else _OTHER_CLOCK_NS
        if max(mtime, ctime) >= self._written_ns - margin:
            return None  # racy: a later change may have left the stat as it is
        return data[offset + _STAT_SIZE : offset + _STAT_SIZE + self._hash_size]

    def _read_entries(self, prefix: bytes) -> None:
        data = self._data
        end = len(data) - self._hash_size
        if end < _HEAD.size:
            raise Unreadable("it is too short")
        magic, version, count = _HEAD.unpack_from(data)
        if magic != b"DIRC" or version not in (2, 3, 4):
            raise Unreadable(f"version {version} is not known")
        offset = self._each_entry(count, version, end, prefix)
        while offset < end:
            if offset + 8 > end or not 0x41 <= data[offset] <= 0x5A:
                raise Unreadable(f"extension {data[offset : offset + 4]!r} must be understood")
            offset += 8 + _INT.unpack_from(data, offset + 4)[0]
        if offset != end:
            raise Unreadable("an extension is cut short")

    def _each_entry(self, count: int, version: int, end: int, prefix: bytes) -> int:
        """Read all entries; the offset where they end."""
        data, fixed = self._data, _STAT_SIZE + self._hash_size
        unpack = Struct(f">{_MODE_AT}xI8xI{self._hash_size}xH").unpack_from  # mode, size, flags
        tracked, offsets = self.tracked, self._offsets
        prefix_size = len(prefix)
        offset = _HEAD.size
        path, stage = b"", 0
        # The one loop whose length is that of the index.
        for number in range(count):
            if not number % _ENTRIES_BETWEEN and is_late(self._deadline):
                raise TooLate
            previous, previous_stage = path, stage
            name_start = offset + fixed + 2
            if name_start >= end:
                raise Unreadable("it is cut short")
            mode, size, flags = unpack(data, offset)
            extended_flags = 0
            if flags & _EXTENDED:
                extended_flags = _FLAGS.unpack_from(data, name_start)[0]
                name_start += 2
                if version == 2 or extended_flags & _UNKNOWN_FLAGS:
                    raise Unreadable("an entry has flags that are not known")
            if version == 4:
                path, next_offset = _compressed_path(data, name_start, end, path)
            else:
                length = flags & _LENGTH
                name_end = name_start + length if length < _LENGTH else data.find(b"\0", name_start + length)
                path = data[name_start:name_end]
                next_offset = offset + (name_end - offset + 8) // 8 * 8
                if name_end < 0 or next_offset > end or data[name_end]:
                    raise Unreadable("a path is not where it should end")
            stage = flags & _STAGE
            if path <= previous and (path < previous or not path or stage <= previous_stage):
                raise Unreadable("its entries are not in order")
            if mode not in _MODES:
                raise Unreadable(f"an entry has the mode {mode:o}")
            if not prefix_size or path.startswith(prefix):
                name = path[prefix_size:]
                tracked[name] = data[offset + _STAT_SIZE : offset + fixed].hex() if mode == _GITLINK else None
                # Git writes the size 0 where it doubts the entry; an empty file is quickly read.
                if size and not (flags & (_ASSUME_VALID | _STAGE) or extended_flags):
                    offsets[name] = offset
            offset = next_offset
        return offset


def _compressed_path(data: bytes, offset: int, end: int, previous: bytes) -> "tuple[bytes, int]":
    """The path of an entry of version 4, and where the entry ends."""
    byte = data[offset]
    cut = byte & 0x7F
    while byte & 0x80:
        offset += 1
        if offset >= end or cut > SIZE_MAX:
            raise Unreadable("a path is cut short")
        byte = data[offset]
        cut = (cut + 1) << 7 | byte & 0x7F
    name_end = data.find(b"\0", offset + 1, end)
    if cut > len(previous) or name_end < 0:
        raise Unreadable("a path is cut short")
    return previous[: len(previous) - cut] + data[offset + 1 : name_end], name_end + 1


def read(
    path: bytes, hash_size: int, prefix: bytes = b"", deadline: "float | None" = None
) -> "GitIndex | None":
    """The index at `path`; None when there is none, or it cannot be read, or only git understands it.

    Raises: TooLate.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        written = os.fstat(fd)
        if not stat.S_ISREG(written.st_mode) or written.st_size > SIZE_MAX:
            return None
        data = _read_all(fd, written.st_size)
        after = os.fstat(fd)
        if (after.st_mtime_ns, after.st_ctime_ns, len(data)) != (
            written.st_mtime_ns,
            written.st_ctime_ns,
            written.st_size,
        ):
            return None  # git replaces the file; a program that writes into it is not git
        return GitIndex(data, written, hash_size, prefix, deadline)
    except (OSError, Unreadable):
        return None
    finally:
        os.close(fd)


def _read_all(fd: int, size: int) -> bytes:
    data = os.read(fd, size + 1)
    while 0 < len(data) < size and (part := os.read(fd, size + 1 - len(data))):
        data += part
    return data
