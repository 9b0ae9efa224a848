"""The journal: appends batches of events durably, from any number of processes.

One `Journal` serves the threads of one process; a forked child may go on using its parent's. Any
number of processes may hold one on the same store. Positions are assigned and written under the
append lock; the sync happens outside it, so that the kernel makes many processes' batches durable
in one flush.

Upholds I1–I4, I7, I9, I10, I12, I32, I33. What it relies on, and what follows from it:

- A journal's name is durable before its first frame is written: `publish` syncs the directory, and
  a process that meets a journal whose maker may have died before that sync (it has no frame yet, or it
  replaces another) syncs the directory again.
- A kept descriptor is used only while its path still names its file and no higher journal exists.
  Both are looked up at every append, under the lock: a rotation, a seal or a copy forward may have
  happened. Two look-ups suffice because journals are numbered densely and unlinked in ascending
  order (`unlink_journals`), never the highest: while n is there, n+1 is missing only if n is highest.
- The kernel reports a failed write-back once per open file. Every process has a descriptor of its
  own, opened before it wrote; the one that sees the error marks the journal (`SUSPECT_MODE`) and copies
  it forward. A forked child opens its own descriptor for the same reason.
- A replacing journal replaces all journals from the one it names up to itself.
"""

import os
from _thread import allocate_lock

from eventlog.base.errors import Conflict, Corruption, EventLogError, NotDurable, Unsupported
from eventlog.base.fs import opened, publish
from eventlog.base.layout import JOURNAL_DIR, MANIFEST_DIR, StoreFiles, parse_journal
from eventlog.base.locks import APPEND, KeptLock
from eventlog.log.acknowledged import Note, read_note
from eventlog.log.active_journal import SUSPECT_BIT, SUSPECT_MODE, ActiveJournal, refused
from eventlog.log.frame import (
    HEADER_SIZE,
    NO_DIGEST,
    JournalHeader,
    boot_digest,
    encode_header,
    join_lines,
    pack_frame,
)
from eventlog.log.journal_reading import (
    FILE_SIZE_MAX,
    ROTATE_SIZE,
    end_of_open,
    journal_numbers,
    live_journals,
    own_header,
    scan_descriptor,
    scan_journal,
)

# Each further try needs a rotation and a seal between two system calls of ours.
_RETRIES = 100


class Journal:
    """Appends to the store's journals. The module's docstring says who may call it at once."""

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
        self._active: "ActiveJournal | None" = None
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
            active.write(payload, len(lines))
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
            raise refused(error.filename or self._directory, error) from error
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
        """Give the descriptors back. The journal may be used again; it then opens them again."""
        self._forget()
        self._lock.close()

    # -- the active journal, under the lock ------------------------------------------------------

    def _take_lock(self) -> None:
        try:
            self._lock.acquire(self._lock_timeout_s)
        except OSError as error:
            raise refused(self._layout.lock(APPEND), error) from error

    def _writable(self) -> ActiveJournal:
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
            raise refused(error.filename or self._directory, error) from error

    def _newest(self) -> "ActiveJournal | None":
        """The highest journal, its tail verified and recovered where needed; None when there is none."""
        if self._pid != os.getpid():
            self._after_fork()
        active = self._active
        if active is not None:
            stat = self._stat_if_newest(active)
            if stat is not None:
                active.suspect = stat.st_mode & SUSPECT_BIT != 0
                known_end = active.position
                if not active.catch_up(stat.st_size) or active.position < known_end:
                    self._recover(active, known_end)
                return active
            self._forget()
            self._lock.renew(self._lock_timeout_s)
        number = self._newest_number()
        return self._open(number) if number else None

    def _stat_if_newest(self, active: ActiveJournal) -> "os.stat_result | None":
        """The state of the kept file, None when it is no longer the highest journal or not at its path."""
        if self._fs.exists(active.next_path):
            return None
        try:
            stat = self._fs.stat(active.path)
        except FileNotFoundError:
            return None
        return stat if stat.st_ino == active.inode and stat.st_dev == active.device else None

    def _newest_number(self) -> int:
        """The highest journal's number, 0 when there is none. Names are zero-padded: the last is highest."""
        for name in reversed(self._fs.listdir(self._directory)):
            number = parse_journal(name)
            if number is not None:
                return number
        return 0

    def _open(self, number: int) -> ActiveJournal:
        fs = self._fs
        fd = fs.open(self._layout.journal(number), os.O_RDWR)
        note: "Note | None" = None
        try:
            active, size = self._inspect(fd, number)
            active.note = note = Note(self._files, number, active.inode)
            # After a power cut un-acknowledged frames may be missing before a valid trailer:
            # the whole file is read when it is of an earlier boot.
            is_valid = active.header.boot == self._boot_digest() and active.read_tail(size)
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
        """The process that linked this journal may have died before it made the name durable."""
        self._fs.fsync_dir(self._directory)

    def _inspect(self, fd: int, number: int) -> "tuple[ActiveJournal, int]":
        path = self._layout.journal(number)
        header = own_header(self._fs.pread(fd, HEADER_SIZE, 0), path, self._store_id, number)
        active = ActiveJournal(
            self._fs, fd, path, self._layout.journal(number + 1), header, self._fs.fstat(fd)
        )
        return active, end_of_open(self._fs, fd, path)

    # -- rotation and recovery, under the lock -----------------------------------------------------

    def _rotate(self, active: ActiveJournal) -> None:
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

    def _recover(self, active: ActiveJournal, known_end: int) -> None:
        """Read all of `active`; quarantine and cut a torn tail. Damage leaves the file as it is, closed.

        Args: known_end: the position after all that this process has seen in it.
        """
        acknowledged = active.note.read() if active.note is not None else None
        scan = scan_descriptor(self._fs, active.fd, active.path, self._store_id, active.number)
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

    def _quarantine(self, active: ActiveJournal, offset: int, size: int, is_known: bool) -> None:
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

    def _after_failed_sync(self, active: ActiveJournal, error: OSError) -> None:
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

    def _mark_suspect(self, active: ActiveJournal) -> None:
        self._failed = active.number
        try:
            self._fs.fchmod(active.fd, SUSPECT_MODE)
        except OSError:
            pass  # this process tries the copy in any case; the mark makes others try it too

    def _copy_forward(self, number: int) -> None:
        """Publish a journal that replaces all from `number` on, holding each of their valid frames.

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
        if offset > FILE_SIZE_MAX:
            raise NotDurable(f"{self._layout.journal(number)}: too much to copy forward ({offset:,} bytes)")
        self._publish(new, b"".join(parts))
        self._failed = None

    # -- small parts -----------------------------------------------------------------------------------

    def _read_end(self, number: int) -> int:
        fs = self._fs
        acknowledged = read_note(self._files, number) or 0
        with opened(fs, self._layout.journal(number)) as fd:
            active, size = self._inspect(fd, number)
            is_valid = active.header.boot == self._boot_digest() and active.read_tail(size)
            if is_valid and active.position >= acknowledged:
                return active.position
            scan = scan_descriptor(fs, fd, active.path, self._store_id, number)
            return self._end_of_stub(active.header, max(scan.claimed, acknowledged))

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

    def _release(self, active: ActiveJournal) -> None:
        """Close the descriptor, or leave that to the last thread that is syncing it."""
        with self._mutex:
            active.retired = True
            idle = active.users == 0
        if idle:
            self._close(active)

    def _done_syncing(self, active: ActiveJournal) -> None:
        with self._mutex:
            active.users -= 1
            last = active.retired and active.users == 0
        if last:
            self._close(active)

    def _close(self, active: ActiveJournal) -> None:
        if active.note is not None:
            active.note.close()
        try:
            self._fs.close(active.fd)
        except OSError:
            pass  # the descriptor is gone all the same, and nothing is acknowledged without a sync
