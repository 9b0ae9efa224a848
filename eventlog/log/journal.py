"""The journal: appends batches of events durably, from any number of processes.

One `Journal` serves the threads of one process; a forked child may go on using its parent's. Any
number of processes may hold one on the same store. Positions are assigned and written under the
append lock; the sync happens outside it, so that the kernel makes many processes' batches durable
in one flush.

Upholds I1–I4, I7, I9, I10, I12, I32, I33. What it relies on, and what follows from it:

- A journal's name is durable before its first frame is written: `publish` syncs the directory, and
  whoever meets a journal that may have been linked by a process that died before that sync (it has
  no frame yet, or it replaces another) syncs the directory again.
- A kept descriptor is used only while its path still names its file and no higher journal exists.
  Both are looked up at every append, under the lock: a rotation, a seal or a copy forward may have
  happened. Two look-ups suffice because journals are numbered densely and unlinked in ascending
  order (`unlink_journals`), never the highest: while n is there, n+1 is missing only if n is highest.
- The kernel reports a failed write-back once per open file. Every process has a descriptor of its
  own, opened before it wrote; whoever sees the error marks the journal (`_SUSPECT_MODE`) and copies
  it forward. A forked child opens its own descriptor for the same reason.
- A replacing journal stands for all journals from the one it names up to itself.
- Zero bytes at a journal's end are room that later frames overwrite (docs/design.md §4.3), so its size
  is that of the file and its end the answer of `end_of_journal`.
"""

import os
from _thread import allocate_lock

from eventlog.base.errors import Conflict, Corruption, EventLogError, NotDurable, Unsupported
from eventlog.base.fs import FileSystem, publish
from eventlog.base.layout import JOURNAL_DIR, MANIFEST_DIR, StoreFiles, parse_journal
from eventlog.base.locks import APPEND, KeptLock
from eventlog.log.acknowledged import Note, read_note
from eventlog.log.frame import (
    FRAME_SIZE_MAX,
    HEADER_SIZE,
    NO_DIGEST,
    DamagedBytes,
    Frame,
    JournalHeader,
    boot_digest,
    claimed_end,
    decode_header,
    encode_header,
    frame_end,
    join_lines,
    last_frame_size,
    pack_frame,
    scan_frames,
    used_length,
)

ROTATE_SIZE = 8 * 1024 * 1024

# A journal whose sync failed is marked with the otherwise meaningless execute bit of its owner. The
# mark lives in the inode: it needs no disk space, every process of this boot sees it in the fstat
# it makes anyway, and after a boot the journal is closed in any case.
_SUSPECT_MODE = 0o700
_SUSPECT_BIT = 0o100

# Most last frames are smaller: one read fetches them with their trailer.
_TAIL_SIZE = 4096

# A sync of a file that grows waits for the file system's own journal, and so for what other processes
# write; one that overwrites room does not. Little room in a small journal, and none after a frame so
# large that writing the room would show.
_ROOM_MIN = 4096
_ROOM_MAX = 256 * 1024
_ROOM_FRAMES = 8

# The end of a journal is sought in pieces of so many bytes, which cost less than all of the room at once.
_SEARCH_SIZE = 64 * 1024

# A full journal with one frame of the largest size after it, ten times over for a copy forward of
# several. Nothing larger is read into memory.
_FILE_SIZE_MAX = 10 * (ROTATE_SIZE + FRAME_SIZE_MAX)

# Each further try needs a rotation and a seal between two system calls of ours.
_RETRIES = 100


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
    fd = fs.open(path, os.O_RDONLY)
    try:
        return _scan_descriptor(fs, fd, path, store_id, number)
    finally:
        fs.close(fd)


def end_of_journal(fs: FileSystem, path: str) -> int:
    """The offset after all that was ever written to a journal: only room follows.

    Raises: Corruption for a file too large for a journal; FileNotFoundError.
    """
    fd = fs.open(path, os.O_RDONLY)
    try:
        return end_of_open(fs, fd, path)
    finally:
        fs.close(fd)


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
    for size in (_TAIL_SIZE, _SEARCH_SIZE):
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

    A journal whose header does not verify is listed, so that whoever reads it meets the Corruption.
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


class _Active:
    """An open journal and where it ends. `users` counts threads that are syncing the descriptor."""

    __slots__ = (
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
        self, fd: int, path: str, next_path: str, header: JournalHeader, stat: os.stat_result
    ) -> None:
        self.fd = fd
        self.note: "Note | None" = None  # only while something may be appended
        self.number = header.number
        self.path = path
        self.next_path = next_path
        self.header = header
        self.inode = stat.st_ino
        self.device = stat.st_dev
        self.suspect = stat.st_mode & _SUSPECT_BIT != 0
        self.file_size = stat.st_size  # with the room after `size`
        self.size = HEADER_SIZE
        self.position = header.base
        self.digest = header.digest
        self.users = 0
        self.retired = False


class Journal:
    """Appends to the store's journals. See the module's docstring for who may call it at once."""

    def __init__(self, files: StoreFiles, *, lock_timeout_s: float = 10.0) -> None:
        assert len(files.store_id) == 16, files.store_id
        self._files = files
        self._fs = files.fs
        self._layout = files.layout
        self._store_id = files.store_id
        self._directory = files.layout.directory(JOURNAL_DIR)
        self._lock = KeptLock(files.fs, files.layout, APPEND)
        self._lock_timeout_s = lock_timeout_s
        self._boot: "bytes | None" = None
        self._active: "_Active | None" = None
        self._failed: "int | None" = None  # the journal whose sync failed and that is not copied yet
        self._pid = os.getpid()
        self._mutex = allocate_lock()

    # -- the public verbs ----------------------------------------------------------------------

    def append(self, lines: "list[bytes]", *, expect_position: "int | None" = None) -> int:
        """Append one batch, all or nothing, and return the position of its first event.

        When this returns the batch is durable: that is the acknowledgement.
        Raises: InvalidEvent when the batch fits no frame; Conflict when `expect_position` is not the
        log's next position; LockTimeout; NotDurable when the disk refused (a retry is safe);
        Corruption when the active journal cannot be understood.
        """
        payload = join_lines(lines)
        self._take_lock()
        try:
            active = self._writable()
            position = active.position
            if expect_position is not None and expect_position != position:
                raise Conflict(expect_position, position)
            self._write(active, payload, len(lines))
            with self._mutex:
                active.users += 1
        finally:
            self._lock.release()
        try:
            self._fs.fdatasync(active.fd)
            if active.note is not None:
                active.note.raise_to(position + len(lines))
        except OSError as error:
            self._after_failed_sync(active, error)
        finally:
            self._done_syncing(active)
        return position

    def rotate(self) -> bool:
        """Close the active journal if it holds a frame, so that it can be sealed; True when it did.

        Raises: as `append`.
        """
        self._take_lock()
        try:
            before = self._newest_number()
            if before == 0:
                return False
            active = self._writable()
            if active.size > HEADER_SIZE:
                self._rotate(active)
                active = self._writable()
            return active.number > before
        except OSError as error:
            raise _refused(error.filename or self._directory, error) from error
        finally:
            self._lock.release()

    def next_position(self) -> int:
        """The position that the next event gets, as of now. Takes no lock and changes nothing.

        Raises: Corruption; EventLogError when the disk refuses to be read.
        """
        for _ in range(_RETRIES):
            try:
                number = self._newest_number()
                if number == 0:
                    self._refuse_lost_journals()
                    return 0
                return self._read_end(number)
            except FileNotFoundError:  # rotated and sealed since the listing: there is a higher one
                continue
            except OSError as error:
                path = error.filename or self._directory
                raise EventLogError(
                    f"{path}: cannot read the journal: {error.strerror}. Check the disk."
                ) from error
        raise Corruption(self._directory, "its newest journal is listed but cannot be opened")

    def close(self) -> None:
        """Give the descriptors back. The journal may be used again; it then opens anew."""
        self._forget()
        self._lock.close()

    # -- the active journal, under the lock ------------------------------------------------------

    def _take_lock(self) -> None:
        try:
            self._lock.acquire(self._lock_timeout_s)
        except OSError as error:
            raise _refused(self._layout.lock(APPEND), error) from error

    def _writable(self) -> _Active:
        """The highest journal, verified, of this boot, below `ROTATE_SIZE`, and safe to append to."""
        try:
            if self._failed is not None:
                self._copy_forward(self._failed)
            active = self._newest()
            while True:
                if active is None:
                    self._refuse_lost_journals()
                    self._create(1, 0, NO_DIGEST)
                elif active.suspect:
                    self._copy_forward(active.number)
                elif active.header.boot != self._boot_digest() or active.size >= ROTATE_SIZE:
                    self._rotate(active)
                else:
                    return active
                active = self._newest()
        except OSError as error:
            raise _refused(error.filename or self._directory, error) from error

    def _newest(self) -> "_Active | None":
        """The highest journal, its tail verified and recovered where needed; None when there is none."""
        if self._pid != os.getpid():
            self._after_fork()
        active = self._active
        if active is not None:
            stat = self._stat_if_newest(active)
            if stat is not None:
                active.suspect = stat.st_mode & _SUSPECT_BIT != 0
                known_end = active.position
                if not self._catch_up(active, stat.st_size) or active.position < known_end:
                    self._recover(active, known_end)
                return active
            self._forget()
            self._lock.renew(self._lock_timeout_s)
        number = self._newest_number()
        return self._open(number) if number else None

    def _stat_if_newest(self, active: _Active) -> "os.stat_result | None":
        """The state of the kept file, None when it is no longer the highest journal or not at its path."""
        if self._fs.exists(active.next_path):
            return None
        try:
            stat = self._fs.stat(active.path)
        except FileNotFoundError:
            return None
        return stat if stat.st_ino == active.inode and stat.st_dev == active.device else None

    def _catch_up(self, active: _Active, file_size: int) -> bool:
        """Take over what others wrote after the end that this process knows; False when that is damaged."""
        fs, fd, path = self._fs, active.fd, active.path
        if file_size != active.file_size:  # they filled the room that this process knew, or cut the file
            end = end_of_open(fs, fd, path)
        else:
            ahead = fs.pread(fd, _TAIL_SIZE, active.size)
            if not any(ahead[:8]):
                return True
            used = used_length(ahead)
            if used < len(ahead) and self._take_last(active, ahead[:used], active.size + used):
                return True
            end = end_after(fs, fd, path, active.size)
        if not self._read_tail(active, end):
            return False
        active.file_size = file_size
        return True

    def _newest_number(self) -> int:
        """The highest journal's number, 0 when there is none. Names are zero-padded: the last is highest."""
        for name in reversed(self._fs.listdir(self._directory)):
            number = parse_journal(name)
            if number is not None:
                return number
        return 0

    def _open(self, number: int) -> _Active:
        fs = self._fs
        fd = fs.open(self._layout.journal(number), os.O_RDWR)
        note: "Note | None" = None
        try:
            active, size = self._inspect(fd, number)
            active.note = note = Note(self._files, number, active.inode)
            # After a power cut un-acknowledged frames may be missing before a valid trailer:
            # the whole file is read when it is of an earlier boot.
            is_valid = active.header.boot == self._boot_digest() and self._read_tail(active, size)
            if not is_valid or active.position < (note.read() or 0):
                self._recover(active, 0)
            if size == HEADER_SIZE or active.header.replaces is not None:
                self._sync_name()
            active.position = self._end_of_stub(active.header, active.position)
        except BaseException:
            if note is not None:
                note.close()
            fs.close(fd)
            raise
        self._active = active
        return active

    def _end_of_stub(self, header: JournalHeader, end: int) -> int:
        """Where the log goes on after a journal that ends at `end`.

        An unfinished backup may leave a stub, which replaces itself, as the newest journal of a copy, and
        a manifest that has sealed later positions (docs/maintenance.md).
        """
        if header.replaces != header.number:
            return end
        from eventlog.log.manifest import read_current

        return max(end, read_current(self._files).next_position)

    def _sync_name(self) -> None:
        """Whoever linked this journal may have died before it made the name durable."""
        self._fs.fsync_dir(self._directory)

    def _inspect(self, fd: int, number: int) -> "tuple[_Active, int]":
        path = self._layout.journal(number)
        header = _own_header(self._fs.pread(fd, HEADER_SIZE, 0), path, self._store_id, number)
        active = _Active(fd, path, self._layout.journal(number + 1), header, self._fs.fstat(fd))
        return active, end_of_open(self._fs, fd, path)

    def _read_tail(self, active: _Active, size: int) -> bool:
        """Take position and digest from the last frame of `size` bytes; False when it does not verify."""
        if size == HEADER_SIZE:
            active.size, active.position, active.digest = size, active.header.base, active.header.digest
            return True
        tail_at = max(HEADER_SIZE, size - _TAIL_SIZE)
        tail = self._fs.pread(active.fd, max(size - tail_at, 0), tail_at)
        if len(tail) != size - tail_at:
            return False
        frame_size = last_frame_size(tail)
        if len(tail) < frame_size <= size - HEADER_SIZE:
            tail = self._fs.pread(active.fd, frame_size, size - frame_size)
        return self._take_last(active, tail, size)

    def _take_last(self, active: _Active, tail: bytes, size: int) -> bool:
        """The same from bytes of the journal that end at its end, `size`."""
        frame_size = last_frame_size(tail)
        if not 0 < frame_size <= len(tail):
            return False
        start, offset = len(tail) - frame_size, size - frame_size
        try:
            end, digest = frame_end(tail, start, offset, active.header.key, active.path)
        except Corruption:
            return False
        active.size, active.position, active.digest = size, end, digest
        return True

    def _write(self, active: _Active, payload: bytes, count: int) -> None:
        """Write one frame with one write; on failure leave the file as it was, less its room."""
        fs = self._fs
        frame = pack_frame(
            payload, count, active.position, fs.time_ns(), active.digest, active.header.key, active.size
        )
        end = active.size + len(frame)
        try:
            room = _room_after(end, len(frame)) if active.file_size < end < ROTATE_SIZE else 0
            written = self._write_with_room(active, frame, room) if room else 0
            if written < len(frame):
                written = fs.pwrite(active.fd, frame, active.size)
            if written < len(frame):
                raise OSError(28, "the disk took no more bytes", active.path)
        except OSError as error:
            self._cut_back(active)
            raise _refused(active.path, error) from error
        active.file_size = max(active.file_size, active.size + written)
        active.digest = frame[-24:-8]
        active.size = end
        active.position += count

    def _write_with_room(self, active: _Active, frame: bytes, room: int) -> int:
        """Write the frame and room; how much the disk took. It may have space for the frame alone."""
        try:
            return self._fs.pwrite(active.fd, frame + bytes(room), active.size)
        except OSError:
            return 0

    def _cut_back(self, active: _Active) -> None:
        """Take back what a failed write left; where that fails too it is a torn tail like any other."""
        try:
            self._fs.truncate(active.fd, active.size)
            active.file_size = active.size
        except OSError:
            pass  # bytes after the known end: the next append recovers the tail

    # -- rotation and recovery, under the lock -----------------------------------------------------

    def _rotate(self, active: _Active) -> None:
        """Close `active` and start the next journal; a failed sync of the old one copies it forward.

        The old journal is synced first: otherwise a frame in it could vanish that comes before an
        acknowledged one in the new journal.
        """
        try:
            self._sync_closed(active.fd)
        except OSError:
            self._mark_suspect(active)
            self._copy_forward(active.number)
        else:
            self._create(active.number + 1, active.position, active.digest)

    def _sync_closed(self, fd: int) -> None:
        self._fs.fdatasync(fd)

    def _create(self, number: int, base: int, prev: bytes) -> None:
        key = self._fs.random_bytes(32)
        header = JournalHeader(self._store_id, number, base, prev, key, self._boot_digest())
        self._publish(number, encode_header(header))

    def _publish(self, number: int, data: bytes) -> None:
        path = self._layout.journal(number)
        try:
            publish(self._fs, self._tmp_path(), path, data)
        except FileExistsError as error:
            raise Unsupported(
                f"{path} appeared while this process held the append lock: the file system does not lock "
                "between its users (a network or virtual machine share?). Move the store to a local disk."
            ) from error

    def _recover(self, active: _Active, known_end: int) -> None:
        """Read all of `active`; quarantine and cut a torn tail. Damage leaves the file as it is, closed.

        Args: known_end: the position after all that this process has seen in it.
        """
        acknowledged = active.note.read() if active.note is not None else None
        scan = _scan_descriptor(self._fs, active.fd, active.path, self._store_id, active.number)
        end, position = scan.size, max(scan.claimed, known_end, acknowledged or 0)
        if scan.damaged or position > scan.end:
            # Closed: a frame here would come after bad bytes, or have the position of another.
            end = max(end, ROTATE_SIZE)
        elif scan.torn is not None:
            end, torn_size = scan.torn
            self._quarantine(active, end, torn_size, acknowledged is not None)
            self._cut(active.fd, end)
        # Only now: a recovery that failed half-way must be made again.
        active.position, active.digest, active.size = position, scan.digest, end
        active.file_size = self._fs.fstat(active.fd).st_size

    def _cut(self, fd: int, size: int) -> None:
        self._fs.truncate(fd, size)

    def _quarantine(self, active: _Active, offset: int, size: int, is_known: bool) -> None:
        """Make a copy of bytes that are about to be cut, and durable before they are.

        Args: is_known: whether there is a note, so that no acknowledged event was in them.
        """
        from eventlog.log import quarantine  # few hooks need it

        data = self._fs.pread(active.fd, size, offset)
        reason = quarantine.NEVER_ACKNOWLEDGED if is_known else quarantine.TORN
        for name, content in quarantine.files_of(active.number, offset, data, reason):
            self._store_quarantined(name, content)

    def _store_quarantined(self, name: str, data: bytes) -> None:
        from eventlog.log import quarantine

        quarantine.store(self._fs, self._layout, self._tmp_path(), name, data)

    # -- failed syncs --------------------------------------------------------------------------------

    def _after_failed_sync(self, active: _Active, error: OSError) -> None:
        """The kernel may have dropped pages and will not report it again: save what can still be read."""
        self._mark_suspect(active)
        outcome = "what is readable was copied to a new journal"
        try:
            self._take_lock()
            try:
                self._copy_forward(active.number)
            finally:
                self._lock.release()
        except Exception as failure:
            outcome = f"copying the journal failed too ({failure}); the next append tries again"
        raise NotDurable(
            f"{active.path}: the disk failed to sync ({error.strerror}); {outcome}. The event is not "
            "acknowledged: check the disk, then append it again with the same event id."
        ) from error

    def _mark_suspect(self, active: _Active) -> None:
        self._failed = active.number
        try:
            self._fs.fchmod(active.fd, _SUSPECT_MODE)
        except OSError:
            pass  # this process tries the copy in any case; the mark makes others try it too

    def _copy_forward(self, number: int) -> None:
        """Publish a journal that stands for all from `number` on, holding each of their valid frames.

        Usually that is one journal; more when others rotated between the failed sync and the lock.
        """
        self._forget()
        numbers = journal_numbers(self._files)
        live = live_journals(self._files)
        if number not in live:
            self._failed = None
            return  # sealed, or copied forward by another process, since
        scans = [
            scan_journal(self._fs, self._layout.journal(n), store_id=self._store_id, number=n)
            for n in live
            if n >= number
        ]
        new = numbers[-1] + 1
        first = scans[0].header
        key = self._fs.random_bytes(32)
        header = JournalHeader(self._store_id, new, first.base, first.prev, key, self._boot_digest(), number)
        parts = [encode_header(header)]
        offset, digest = HEADER_SIZE, header.digest
        for scan in scans:
            for frame in scan.frames:
                copy = pack_frame(frame.payload, frame.count, frame.base, frame.time_ns, digest, key, offset)
                parts.append(copy)
                offset += len(copy)
                digest = copy[-24:-8]
        if offset > _FILE_SIZE_MAX:
            raise NotDurable(f"{self._layout.journal(number)}: too much to copy forward ({offset:,} bytes)")
        self._publish(new, b"".join(parts))
        self._failed = None

    # -- small parts -----------------------------------------------------------------------------------

    def _read_end(self, number: int) -> int:
        fs = self._fs
        acknowledged = read_note(self._files, number) or 0
        fd = fs.open(self._layout.journal(number), os.O_RDONLY)
        try:
            active, size = self._inspect(fd, number)
            is_valid = active.header.boot == self._boot_digest() and self._read_tail(active, size)
            if is_valid and active.position >= acknowledged:
                return active.position
            scan = _scan_descriptor(fs, fd, active.path, self._store_id, number)
            return self._end_of_stub(active.header, max(scan.claimed, acknowledged))
        finally:
            fs.close(fd)

    def _refuse_lost_journals(self) -> None:
        """Starting at position 0 again would hide sealed events, or give positions twice."""
        has = "manifest" if self._fs.listdir(self._layout.directory(MANIFEST_DIR)) else ""
        if not has and read_note(self._files, 0):
            has = "note of what was acknowledged"
        if has:
            what = f"the store has a {has} but no journal: the active one was removed"
            raise Corruption(self._directory, what)

    def _boot_digest(self) -> bytes:
        if self._boot is None:
            self._boot = boot_digest(self._fs.boot_id())
        return self._boot

    def _tmp_path(self) -> str:
        return self._layout.tmp(f"journal-{os.getpid()}-{self._fs.random_bytes(8).hex()}")

    def _after_fork(self) -> None:
        """Let go of the parent's descriptor: errors of a shared one are reported to only one of us."""
        self._mutex = allocate_lock()
        self._pid = os.getpid()
        active, self._active = self._active, None
        if active is not None:
            self._close(active)

    def _forget(self) -> None:
        active, self._active = self._active, None
        if active is not None:
            self._release(active)

    def _release(self, active: _Active) -> None:
        """Close the descriptor, or leave that to the last thread that is syncing it."""
        with self._mutex:
            active.retired = True
            idle = active.users == 0
        if idle:
            self._close(active)

    def _done_syncing(self, active: _Active) -> None:
        with self._mutex:
            active.users -= 1
            last = active.retired and active.users == 0
        if last:
            self._close(active)

    def _close(self, active: _Active) -> None:
        if active.note is not None:
            active.note.close()
        try:
            self._fs.close(active.fd)
        except OSError:
            pass  # the descriptor is gone all the same, and nothing is acknowledged without a sync


def _room_after(end: int, frame_size: int) -> int:
    """How many zeros to write after a frame that ends at `end`."""
    room = min(max(end, _ROOM_MIN), _ROOM_MAX)
    return room if frame_size * _ROOM_FRAMES <= room else 0


def _file_size(fs: FileSystem, fd: int, path: str) -> int:
    size = fs.fstat(fd).st_size
    if size > _FILE_SIZE_MAX:
        raise Corruption(path, f"no journal has {size:,} bytes")
    return size


def _scan_descriptor(
    fs: FileSystem, fd: int, path: str, store_id: bytes, number: "int | None"
) -> JournalScan:
    data = fs.pread(fd, end_of_open(fs, fd, path), 0)
    header = _own_header(data, path, store_id, number)
    frames, damaged, end = scan_frames(data, header, path)
    torn = (end, len(data) - end) if end < len(data) else None
    return JournalScan(path, header, frames, damaged, torn, data)


def _own_header(data: bytes, path: str, store_id: bytes, number: "int | None") -> JournalHeader:
    header = decode_header(data, path)
    if header.store_id != store_id:
        raise Corruption(path, "the journal belongs to another store", 8)
    if number is not None and header.number != number:
        raise Corruption(path, f"the journal says it is number {header.number}", 24)
    return header


def _read_header(fs: FileSystem, path: str) -> bytes:
    fd = fs.open(path, os.O_RDONLY)
    try:
        return fs.pread(fd, HEADER_SIZE, 0)
    finally:
        fs.close(fd)


def _refused(path: str, error: OSError) -> NotDurable:
    why = error.strerror or str(error)
    return NotDurable(
        f"{path}: cannot append: {why}. Nothing was acknowledged; free space or restore write access, "
        "then try again."
    )
