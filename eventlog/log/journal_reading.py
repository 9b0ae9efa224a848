"""Reading journals: which there are, where each ends, and the frames in one.

Nothing here takes a lock. Zero bytes at a journal's end are room that later frames overwrite (docs/design.md
§4.3), so its size is that of the file and its end the answer of `end_of_journal`. On the hook path.
"""

from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem, opened
from eventlog.base.layout import JOURNAL_DIR, StoreFiles, parse_journal
from eventlog.log.frame import (
    FRAME_SIZE_MAX,
    HEADER_SIZE,
    DamagedBytes,
    Frame,
    JournalHeader,
    claimed_end,
    decode_header,
    last_frame_size,
    scan_frames,
    used_length,
)

ROTATE_SIZE = 8 * 1024 * 1024

# Most last frames are smaller: one read fetches them with their trailer.
TAIL_SIZE = 4096

# The end of a journal is sought in pieces of so many bytes, which cost less than all of the room at once.
_SEARCH_SIZE = 64 * 1024

# A full journal with one frame of the largest size after it, ten times over for a copy forward of
# several. Nothing larger is read into memory.
FILE_SIZE_MAX = 10 * (ROTATE_SIZE + FRAME_SIZE_MAX)


class JournalScan:
    """All that one journal file holds, as of one reading.

    `frames` are verified and share one buffer; `damaged` are the bad stretches between valid frames;
    `torn` is (offset, size) of the bad bytes after the last one, or None; `claimed` the position after what
    they claim to hold, `end` when they have no frame's shape.
    """

    __slots__ = ("claimed", "damaged", "frames", "header", "path", "size", "torn")

    def __init__(
        self,
        path: str,
        header: JournalHeader,
        frames: "list[Frame]",
        damaged: "list[DamagedBytes]",
        torn: "tuple[int, int] | None",
        data: bytes,
    ) -> None:
        self.path = path
        self.header = header
        self.frames = frames
        self.damaged = damaged
        self.torn = torn
        self.size = len(data)
        self.claimed = self.end if torn is None else claimed_end(data, torn[0], self.end)

    @property
    def base(self) -> int:
        return self.header.base

    @property
    def end(self) -> int:
        """The position after the last valid frame."""
        return self.frames[-1].end if self.frames else self.header.base

    @property
    def digest(self) -> bytes:
        """The digest that the next frame, or the next journal, names as its predecessor's."""
        return self.frames[-1].digest if self.frames else self.header.digest

    @property
    def replaces(self) -> "int | None":
        return self.header.replaces


def scan_journal(fs: FileSystem, path: str, *, store_id: bytes, number: "int | None" = None) -> JournalScan:
    """Read and verify a whole journal. Takes no lock: a frame being written looks like a torn tail.

    Raises: Corruption when the header does not verify or belongs elsewhere; FileNotFoundError.
    """
    with opened(fs, path) as fd:
        return scan_descriptor(fs, fd, path, store_id, number)


def end_of_journal(fs: FileSystem, path: str) -> int:
    """The offset after all that was ever written to a journal: only room follows.

    Raises: Corruption for a file too large for a journal; FileNotFoundError.
    """
    with opened(fs, path) as fd:
        return end_of_open(fs, fd, path)


def end_of_open(fs: FileSystem, fd: int, path: str) -> int:
    """`end_of_journal` of an open file. The header counts whatever its bytes are."""
    end = _file_size(fs, fd, path)
    while end > HEADER_SIZE:
        start = max(HEADER_SIZE, end - _SEARCH_SIZE)
        used = used_length(fs.pread(fd, end - start, start))
        if used:
            return start + used
        end = start
    return end


def end_after(fs: FileSystem, fd: int, path: str, known: int) -> int:
    """`end_of_journal` of the newest journal, which is known to end at offset `known` or after it.

    Raises: Corruption.
    """
    for size in (TAIL_SIZE, _SEARCH_SIZE):
        ahead = fs.pread(fd, size, known)
        used = used_length(ahead)
        if not used or (used < size and last_frame_size(ahead[:used])):
            return known + used
        if used < size:
            break
    return end_of_open(fs, fd, path)  # what was read may end in the middle of a frame


def journal_numbers(files: StoreFiles) -> "list[int]":
    """Every journal on disk, ascending, replaced ones included."""
    names = files.fs.listdir(files.layout.directory(JOURNAL_DIR))
    return [number for number in map(parse_journal, names) if number is not None]


def live_journals(files: StoreFiles) -> "list[int]":
    """The journals that hold the log's tail, ascending: those that no later one replaces.

    A journal whose header does not verify is listed, so that its reader meets the Corruption.
    """
    live: "list[int]" = []
    for number in journal_numbers(files):
        path = files.layout.journal(number)
        try:
            replaces = decode_header(_read_header(files.fs, path), path).replaces
        except FileNotFoundError:  # sealed and unlinked since the listing
            continue
        except Corruption:
            replaces = None
        if replaces is not None:
            live = [earlier for earlier in live if earlier < replaces]
        live.append(number)
    return live


def unlink_journals(files: StoreFiles, numbers: "list[int]") -> None:
    """Remove sealed journals, lowest first, and make that durable.

    The order matters: as long as a journal exists, so do all higher ones. The highest is kept
    whatever `numbers` contains, because it determines the next position.
    """
    fs = files.fs
    for number in journal_numbers(files)[:-1]:
        if number in numbers:
            fs.unlink(files.layout.journal(number))
    fs.fsync_dir(files.layout.directory(JOURNAL_DIR))


def _file_size(fs: FileSystem, fd: int, path: str) -> int:
    size = fs.fstat(fd).st_size
    if size > FILE_SIZE_MAX:
        raise Corruption(path, f"no journal has {size:,} bytes")
    return size


def scan_descriptor(fs: FileSystem, fd: int, path: str, store_id: bytes, number: "int | None") -> JournalScan:
    data = fs.pread(fd, end_of_open(fs, fd, path), 0)
    header = own_header(data, path, store_id, number)
    frames, damaged, end = scan_frames(data, header, path)
    torn = (end, len(data) - end) if end < len(data) else None
    return JournalScan(path, header, frames, damaged, torn, data)


def own_header(data: bytes, path: str, store_id: bytes, number: "int | None") -> JournalHeader:
    header = decode_header(data, path)
    if header.store_id != store_id:
        raise Corruption(path, "the journal belongs to another store", 8)
    if number is not None and header.number != number:
        raise Corruption(path, f"the journal says it is number {header.number}", 24)
    return header


def _read_header(fs: FileSystem, path: str) -> bytes:
    with opened(fs, path) as fd:
        return fs.pread(fd, HEADER_SIZE, 0)
