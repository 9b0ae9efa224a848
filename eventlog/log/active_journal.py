"""The journal that is appended to: where it ends, and one more frame at its end.

Callers hold the append lock (journal.py says when a file may be appended to). On the hook path.
"""

import os

from eventlog.base.errors import Corruption, NotDurable
from eventlog.base.fs import FileSystem
from eventlog.log.frame import HEADER_SIZE, JournalHeader, frame_end, last_frame_size, pack_frame, used_length
from eventlog.log.journal_reading import ROTATE_SIZE, TAIL_SIZE, end_after, end_of_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from eventlog.log.acknowledged import Note

# A journal whose sync failed is marked with the otherwise meaningless execute bit of its owner. The
# mark lives in the inode: it needs no disk space, every process of this boot sees it in the fstat
# it makes anyway, and after a boot the journal is closed in any case.
SUSPECT_MODE = 0o700
SUSPECT_BIT = 0o100

# A sync of a file that grows waits for the file system's own journal, and so for what other processes
# write; one that overwrites room does not. Little room in a small journal, and none after a frame so
# large that writing the room would show.
_ROOM_MIN = 4096
_ROOM_MAX = 256 * 1024
_ROOM_FRAMES = 8


class ActiveJournal:
    """An open journal and where it ends. `users` counts threads that are syncing the descriptor."""

    __slots__ = (
        "_fs",
        "device",
        "digest",
        "fd",
        "file_size",
        "header",
        "inode",
        "next_path",
        "note",
        "number",
        "path",
        "position",
        "retired",
        "size",
        "suspect",
        "users",
    )

    def __init__(
        self, fs: FileSystem, fd: int, path: str, next_path: str, header: JournalHeader, stat: os.stat_result
    ) -> None:
        self._fs = fs
        self.fd = fd
        self.note: "Note | None" = None  # only while something may be appended
        self.number = header.number
        self.path = path
        self.next_path = next_path
        self.header = header
        self.inode = stat.st_ino
        self.device = stat.st_dev
        self.suspect = stat.st_mode & SUSPECT_BIT != 0
        self.file_size = stat.st_size  # with the room after `size`
        self.size = HEADER_SIZE
        self.position = header.base
        self.digest = header.digest
        self.users = 0
        self.retired = False

    def catch_up(self, file_size: int) -> bool:
        """Take over what others wrote after the end that this process knows; False when that is damaged."""
        fs, fd, path = self._fs, self.fd, self.path
        if file_size != self.file_size:  # they filled the room that this process knew, or cut the file
            end = end_of_open(fs, fd, path)
        else:
            ahead = fs.pread(fd, TAIL_SIZE, self.size)
            if not any(ahead[:8]):
                return True
            used = used_length(ahead)
            if used < len(ahead) and self._take_last(ahead[:used], self.size + used):
                return True
            end = end_after(fs, fd, path, self.size)
        if not self.read_tail(end):
            return False
        self.file_size = file_size
        return True

    def read_tail(self, size: int) -> bool:
        """Take position and digest from the last frame of `size` bytes; False when it does not verify."""
        if size == HEADER_SIZE:
            self.size, self.position, self.digest = size, self.header.base, self.header.digest
            return True
        tail_at = max(HEADER_SIZE, size - TAIL_SIZE)
        tail = self._fs.pread(self.fd, max(size - tail_at, 0), tail_at)
        if len(tail) != size - tail_at:
            return False
        frame_size = last_frame_size(tail)
        if len(tail) < frame_size <= size - HEADER_SIZE:
            tail = self._fs.pread(self.fd, frame_size, size - frame_size)
        return self._take_last(tail, size)

    def _take_last(self, tail: bytes, size: int) -> bool:
        """The same from bytes of the journal that end at its end, `size`."""
        frame_size = last_frame_size(tail)
        if not 0 < frame_size <= len(tail):
            return False
        start, offset = len(tail) - frame_size, size - frame_size
        try:
            end, digest = frame_end(tail, start, offset, self.header.key, self.path)
        except Corruption:
            return False
        self.size, self.position, self.digest = size, end, digest
        return True

    def write(self, payload: bytes, count: int) -> None:
        """Write one frame with one write; on failure leave the file as it was, less its room."""
        fs = self._fs
        frame = pack_frame(
            payload, count, self.position, fs.time_ns(), self.digest, self.header.key, self.size
        )
        end = self.size + len(frame)
        try:
            room = _room_after(end, len(frame)) if self.file_size < end < ROTATE_SIZE else 0
            written = self._write_with_room(frame, room) if room else 0
            if written < len(frame):
                written = fs.pwrite(self.fd, frame, self.size)
            if written < len(frame):
                raise OSError(28, "the disk took no more bytes", self.path)
        except OSError as error:
            self._cut_back()
            raise refused(self.path, error) from error
        self.file_size = max(self.file_size, self.size + written)
        self.digest = frame[-24:-8]
        self.size = end
        self.position += count

    def _write_with_room(self, frame: bytes, room: int) -> int:
        """Write the frame and room; how much the disk took. It may have space for the frame alone."""
        try:
            return self._fs.pwrite(self.fd, frame + bytes(room), self.size)
        except OSError:
            return 0

    def _cut_back(
        self,
    ) -> None:
        """Take back what a failed write left; where that fails too it is a torn tail like any other."""
        try:
            self._fs.truncate(self.fd, self.size)
            self.file_size = self.size
        except OSError:
            pass  # bytes after the known end: the next append recovers the tail


def _room_after(end: int, frame_size: int) -> int:
    """How many zeros to write after a frame that ends at `end`."""
    room = min(max(end, _ROOM_MIN), _ROOM_MAX)
    return room if frame_size * _ROOM_FRAMES <= room else 0


def refused(path: str, error: OSError) -> NotDurable:
    """An append that the disk refused before anything was acknowledged."""
    why = error.strerror or str(error)
    return NotDurable(
        f"{path}: cannot append: {why}. Nothing was acknowledged; free space or restore write access, "
        "then try again."
    )
