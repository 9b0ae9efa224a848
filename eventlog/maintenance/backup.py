"""A copy of the store in another directory, brought up to date by what is new.

Runs beside writers, the sealer, compaction and collection. The copy holds a prefix of the log: contents are
durable before the events that name them, so packs are listed after the log is pinned, and `gc`, held shared,
keeps them. One backup at a time writes to a copy (its `maintain` lock). Upholds I5, I6, I10, I24, I32.

The order of steps is the proof: at every moment the copy is no store yet (it has no STORE), or a store that
verifies and whose log is a prefix of the source's that never shrinks. Packs and segments come first: nothing
refers to them yet. Then come the manifest and the journals after it. The state between these two steps is the
difficulty: the journals of the copy end before the new manifest begins, and the new ones begin after the end
of the old manifest. So each journal number up to the first new one gets a *stub*: a header without frames
whose base is the end of the copy's log, marked as replacing itself. Before the new manifest it adds nothing;
after it, it is a journal that begins below `next_position` and is passed over (§4.5 of docs/design.md). Then
the true journals replace the stubs, lowest first.
"""

import errno
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from eventlog.base import identity
from eventlog.base.errors import EventLogError, NotDurable, NotFound, Refused
from eventlog.base.fs import FileSystem, read_file, translate_os_errors
from eventlog.base.layout import (
    DIRECTORIES,
    JOURNAL_DIR,
    MANIFEST_DIR,
    PACK_DIR,
    QUARANTINE_DIR,
    SEGMENT_DIR,
    Layout,
    StoreFiles,
    parse_pack,
    parse_segment,
)
from eventlog.base.locks import GC, MAINTAIN, Lock, acquire
from eventlog.log import manifest as manifests
from eventlog.log.frame import HEADER_SIZE
from eventlog.log.journal_reading import JournalScan, end_of_journal, journal_numbers, scan_journal
from eventlog.log.line import decode_line
from eventlog.log.reader import LogView
from eventlog.log.tail import read_header
from eventlog.maintenance.copying import COPIED_FILES, Copier, UnreadableSource, refuse_inside
from eventlog.store import Store

MARKER = "BACKUP"
_MARKER_BYTES_MAX = 4096

# As many as a store retains of its own.
_MANIFESTS_KEPT = 16

# The end of a journal's last frame: digest, length, magic. The digest covers all that is before it.
_TAIL_BYTES = 24

# Where no lock can be taken, packs may be replaced meanwhile: then they are listed again, so many times.
_LISTINGS_MAX = 10

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class BackupReport:
    """What a backup did. `damaged` are files of the source that do not verify or cannot be read."""

    dest: str
    next_position: int = 0
    manifest: int = 0
    packs: int = 0  # copied or linked, as are `segments` and `journals`
    segments: int = 0
    journals: int = 0
    unchanged: int = 0  # packs and segments that were there already
    linked: int = 0
    bytes: int = 0  # written
    repaired: int = 0  # files of the copy that did not verify (`check`)
    pruned: int = 0
    damaged: list[str] = field(default_factory=list)


def backup(
    store: Store,
    dest: "str | os.PathLike[str]",
    *,
    link: bool = False,
    prune: bool = False,
    check: bool = False,
    lock_timeout_s: float = 10.0,
    progress: "Progress | None" = None,
) -> BackupReport:
    """Make a copy of `store` in the directory `dest`, or bring the one that is there up to date.

    Args:
        link: packs and segments get a second name instead of a copy, where the disk is the same.
        prune: remove from the copy what the store has dropped since.
        check: read every pack and segment of the copy too, and copy again what does not verify.
    Raises: Refused (dest is inside the store, something else, another store, or was written to), NotFound,
    NotDurable (the disk of `dest` refused), Corruption (a log that cannot be opened), LockTimeout.
    """
    target = Layout(os.path.abspath(dest))
    refuse_inside(store.layout.root, target.root, "the store that is to be copied")
    with translate_os_errors(target.root, "write the backup", NotDurable):
        _claim(store.fs, store.identity, target)
        with ExitStack() as stack:
            lock = _keep_contents(store, lock_timeout_s)
            if lock is not None:
                stack.enter_context(lock)
            view = stack.enter_context(store.view())
            view.make_durable()  # I5: the copy holds what it shows
            stack.enter_context(acquire(store.fs, target, MAINTAIN, timeout_s=lock_timeout_s))
            run = _Backup(
                store, view, target, link=link, check=check, locked=lock is not None, progress=progress
            )
            return run.run(prune)


def _keep_contents(store: Store, timeout_s: float) -> "Lock | None":
    """`gc`, shared, so that nothing is collected meanwhile; None where the store cannot be written to."""
    try:
        return acquire(store.fs, store.layout, GC, exclusive=False, timeout_s=timeout_s)
    except EventLogError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return None
        raise


# -- may this be the copy? ---------------------------------------------------------------------------


def _claim(fs: FileSystem, source: identity.Identity, target: Layout) -> None:
    """Make `target` the directory of this store's copy. Raises: Refused, NotFound."""
    root = target.root
    if not fs.exists(root):
        try:
            _make(fs, root)
        except FileNotFoundError as error:
            raise NotFound(f"{os.path.dirname(root)} is not there; make it first") from error
        fs.fsync_dir(os.path.dirname(root))
    try:
        names = fs.listdir(root)
    except NotADirectoryError as error:
        raise Refused(f"{root} is a file; choose a directory") from error
    if set(names) <= {MARKER}:
        _mark(fs, target, source)
    elif MARKER not in names:
        what = "a store that no backup made" if "STORE" in names else "something else"
        raise Refused(f"{root} holds {what}; choose a directory that is empty or not there")
    elif _marked_for(fs, target) != source.store_id.hex():
        raise Refused(f"{root} is the copy of another store; choose another directory")
    if "STORE" in names and identity.read(fs, target).store_id != source.store_id:
        raise Refused(f"{root} is another store; choose another directory")
    missing = [name for name in DIRECTORIES if not fs.exists(target.directory(name))]
    for name in missing:
        _make(fs, target.directory(name))
    if missing:
        for name in ("", "/log", "/snapshots"):
            fs.fsync_dir(root + name)


def _make(fs: FileSystem, directory: str) -> None:
    try:
        fs.mkdir(directory)
    except FileExistsError:
        pass  # another first backup to the same directory made it


def _mark(fs: FileSystem, target: Layout, source: identity.Identity) -> None:
    """The first file of a copy, durable before any other: without it no file there counts as ours.

    Written over the same bytes when another first backup is further already, so that it is never empty.
    """
    fd = fs.open(f"{target.root}/{MARKER}", os.O_WRONLY | os.O_CREAT)
    try:
        data = json.dumps({"store_id": source.store_id.hex()}).encode("ascii") + b"\n"
        if fs.pwrite(fd, data, 0) != len(data):
            raise OSError(28, "the disk took no more bytes")
        fs.truncate(fd, len(data))
        fs.fsync(fd)
    finally:
        fs.close(fd)
    fs.fsync_dir(target.root)


def _marked_for(fs: FileSystem, target: Layout) -> "str | None":
    try:
        marker = json.loads(read_file(fs, f"{target.root}/{MARKER}", _MARKER_BYTES_MAX))
        return str(marker["store_id"])
    except (ValueError, KeyError, TypeError):
        return None


# -- the copy ----------------------------------------------------------------------------------------


class _Backup:
    """One run, with everything locked and pinned."""

    def __init__(
        self,
        store: Store,
        view: LogView,
        target: Layout,
        *,
        link: bool,
        check: bool,
        locked: bool,
        progress: "Progress | None",
    ) -> None:
        self._fs = store.fs
        self._who = store.identity
        self._id = store.identity.store_id
        self._source = store.layout
        self._view = view
        self._target = target
        self._files = store.files
        self._copied = StoreFiles(store.fs, target, self._id)
        self._link = link
        self._check = check
        self._locked = locked
        self._progress = progress
        self._copier = Copier(store.fs, target)
        self._report = BackupReport(target.root)
        self._packs: set[str] = set()
        self._journals = self._source_journals()

    def run(self, prune: bool) -> BackupReport:
        report, fs, target = self._report, self._fs, self._target
        self._copier.clean()
        self._refuse_diverged()
        for name in (".gitignore", *COPIED_FILES):
            self._settings(name)
        self._copy_packs()
        self._copy_segments()
        self._copy_quarantine()
        self._commit_manifest()
        self._copy_journals()
        if not fs.exists(target.store_file):
            fs.fsync_dir(target.root)
            self._copier.write(target.store_file, identity.encode(self._who))
            fs.fsync_dir(target.root)
        report.next_position = self._view.next_position
        report.manifest = self._view.manifest.number
        self._expire_manifests(1 if prune else _MANIFESTS_KEPT)
        if prune:
            self._prune()
        report.bytes, report.linked = self._copier.bytes, self._copier.linked
        return report

    def _source_journals(self) -> list[int]:
        """All from the first that the view needs to its last one; replaced ones too, to leave no gap."""
        if not self._view.journals:
            return []
        first, last = self._view.manifest.next_journal, self._view.journals[-1]
        return [n for n in journal_numbers(self._files) if first <= n <= last]

    # -- immutable files -------------------------------------------------------------------------

    def _copy_packs(self) -> None:
        """Every live pack. Where no lock protects them, their replacements are copied too."""
        for _ in range(1 if self._locked else _LISTINGS_MAX):
            names = self._fs.listdir(self._source.directory(PACK_DIR))
            listed = {stem for name in names if (stem := parse_pack(name)) is not None}
            new = sorted(listed - self._packs)
            if not new:
                break
            sizes = self._sizes(PACK_DIR, [f"{stem}.evp" for stem in new])
            for number, stem in enumerate(new):
                self._tell(number, len(new))
                source, path = self._source.pack(stem), self._target.pack(stem)
                try:
                    self._report.packs += self._bring(source, path, sizes.get(f"{stem}.evp"), stem)
                except UnreadableSource as error:
                    if not error.gone:
                        self._report.damaged.append(str(error))
            self._packs |= listed
            self._fs.fsync_dir(self._target.directory(PACK_DIR))

    def _copy_segments(self) -> None:
        entries = self._view.manifest.segments
        sizes = self._sizes(SEGMENT_DIR, [entry.name for entry in entries])
        for number, entry in enumerate(entries):
            self._tell(number, len(entries))
            source, path = self._source.segment(entry.name), self._target.segment(entry.name)
            self._report.segments += self._bring(source, path, sizes.get(entry.name), entry.blake3)
        self._fs.fsync_dir(self._target.directory(SEGMENT_DIR))

    def _bring(self, source: str, path: str, size: "int | None", digest: str) -> bool:
        """One immutable file; whether it had to be copied. Args: size: of the one at `path`, if any.

        Raises: UnreadableSource.
        """
        try:
            wanted = self._fs.stat(source).st_size
        except OSError as error:
            raise UnreadableSource(source, error) from error
        if size == wanted and not (self._check and self._differs(path, digest)):
            self._report.unchanged += 1
            return False
        if self._link and size is None and self._copier.link(source, path):
            return True
        if self._copier.copy(source, path) != digest:
            self._report.damaged.append(f"{source}: its bytes do not match its name; copied as they are")
        return True

    def _differs(self, path: str, digest: str) -> bool:
        try:
            wrong = self._copier.hash(path) != digest
        except UnreadableSource:
            wrong = True
        self._report.repaired += wrong
        return wrong

    def _sizes(self, directory: str, names: list[str]) -> dict[str, int]:
        """Which of the names the copy has, and their sizes."""
        present = set(self._fs.listdir(self._target.directory(directory)))
        root = self._target.directory(directory)
        return {name: self._fs.stat(f"{root}/{name}").st_size for name in names if name in present}

    def _copy_quarantine(self) -> None:
        directory = self._source.directory(QUARANTINE_DIR)
        names = [name for name in self._fs.listdir(directory) if self._is_file(f"{directory}/{name}")]
        sizes = self._sizes(QUARANTINE_DIR, names)
        for name in names:
            if sizes.get(name) != self._fs.stat(f"{directory}/{name}").st_size:
                self._copier.copy(f"{directory}/{name}", self._target.quarantine(name))
        if names:
            self._fs.fsync_dir(self._target.directory(QUARANTINE_DIR))

    def _is_file(self, path: str) -> bool:
        return self._fs.lstat(path).st_mode & 0o170000 == 0o100000

    def _settings(self, name: str) -> None:
        """A small file that may change."""
        source, path = f"{self._source.root}/{name}", f"{self._target.root}/{name}"
        if not self._fs.exists(source):
            return
        data = read_file(self._fs, source)
        if not self._fs.exists(path) or read_file(self._fs, path) != data:
            self._copier.write(path, data)

    # -- the log ---------------------------------------------------------------------------------

    def _commit_manifest(self) -> None:
        """Take over the source's manifest; stubs first, where the copy's journals end before it begins."""
        number = self._view.manifest.number
        fs, target = self._fs, self._target
        if number == 0 or fs.exists(target.manifest(number)):
            return
        present = journal_numbers(self._copied)
        first = self._view.manifest.next_journal
        if present and present[-1] < first:
            end = max(self._scan(present[-1]).end, manifests.read_current(self._copied).next_position)
            for missing in range(present[-1] + 1, first + 1):
                self._copier.write_stub(self._id, missing, end, replaces=missing)
            fs.fsync_dir(target.directory(JOURNAL_DIR))
        self._copier.write(target.manifest(number), manifests.encode(self._view.manifest))
        fs.fsync_dir(target.directory(MANIFEST_DIR))

    def _copy_journals(self) -> None:
        """The true journals, lowest first, each durable before the next; then those before them go."""
        fs, target = self._fs, self._target
        present = set(journal_numbers(self._copied))
        for number in self._journals:
            path = target.journal(number)
            is_last = number == self._journals[-1]
            size = self._size_of_last() if is_last else end_of_journal(fs, self._source.journal(number))
            # A stub, too, has the size of a header.
            if number in present and HEADER_SIZE < size == fs.stat(path).st_size:
                continue
            self._copier.copy(self._source.journal(number), path, size=size)
            fs.fsync_dir(target.directory(JOURNAL_DIR))
            self._report.journals += 1
        old = sorted(number for number in present if number < self._view.manifest.next_journal)
        for number in old:
            fs.unlink(target.journal(number))
        if old:
            fs.fsync_dir(target.directory(JOURNAL_DIR))

    def _size_of_last(self) -> int:
        """Where the last frame of the view ends in the last journal."""
        number = self._journals[-1]
        scan = scan_journal(self._fs, self._source.journal(number), store_id=self._id, number=number)
        ends = [frame.offset + frame.size for frame in scan.frames]
        return max((end for end in ends if end <= self._view.size_of_last), default=HEADER_SIZE)

    def _scan(self, number: int) -> JournalScan:
        return scan_journal(self._fs, self._target.journal(number), store_id=self._id, number=number)

    # -- is the copy's log the beginning of ours? ------------------------------------------------

    def _refuse_diverged(self) -> None:
        """Raises: Refused when the copy holds what the store never had: one of them was written to."""
        own = manifests.numbers(self._copied)
        if own and not self._has_manifest(own[-1]):
            raise self._diverged()
        present = journal_numbers(self._copied)
        if not present:
            return
        last = present[-1]
        header = read_header(self._copied, last)
        if header.replaces == last:
            return  # a stub: a backup that was killed left it
        if last in self._journals:
            if not self._continues(last):
                raise self._diverged()
        elif last >= self._view.manifest.next_journal or not self._has_events(last):
            raise self._diverged()

    def _has_manifest(self, number: int) -> bool:
        current = self._view.manifest.number
        if number > current:
            return False
        if number == current:
            data = manifests.encode(self._view.manifest)
        else:
            try:
                data = read_file(self._fs, self._source.manifest(number), manifests.SIZE_BYTES_MAX)
            except FileNotFoundError:
                return True  # expired there; the events decide
        return read_file(self._fs, self._target.manifest(number), manifests.SIZE_BYTES_MAX) == data

    def _continues(self, number: int) -> bool:
        """Whether the journal of that number is the beginning of the source's."""
        fs = self._fs
        size = fs.stat(self._target.journal(number)).st_size
        copy_ends, source_ends = (
            self._ends(layout.journal(number), size) for layout in (self._target, self._source)
        )
        return copy_ends == source_ends

    def _ends(self, path: str, size: int) -> tuple[bytes, bytes]:
        fd = self._fs.open(path, os.O_RDONLY)
        try:
            tail_at = max(0, size - _TAIL_BYTES)
            return self._fs.pread(fd, HEADER_SIZE, 0), self._fs.pread(fd, size - tail_at, tail_at)
        finally:
            self._fs.close(fd)

    def _has_events(self, number: int) -> bool:
        """Whether the last event of a journal that the source has sealed is where it was."""
        frames = self._scan(number).frames
        if not frames:
            return True
        position = frames[-1].end - 1
        event_id = decode_line(frames[-1].lines[-1])[0].get("event_id")
        rows = self._view.iterate(position, position + 1, columns=("event_id",))
        return all(row["event_id"] == event_id for row in rows)

    def _diverged(self) -> Refused:
        return Refused(
            f"{self._target.root} holds events that the store does not have, or an older store is copied "
            "onto a newer copy: one of the two was written to or replaced since the last backup. Nothing was "
            "changed; back up to another directory, and keep both."
        )

    # -- what goes -------------------------------------------------------------------------------

    def _expire_manifests(self, count: int) -> None:
        numbers = manifests.numbers(self._copied)
        for number in numbers[:-count]:
            self._fs.unlink(self._target.manifest(number))

    def _prune(self) -> None:
        """Remove packs and segments that the source has no more."""
        fs, target = self._fs, self._target
        listed = {entry.name for entry in self._view.manifest.segments}
        dropped = []
        for name in fs.listdir(target.directory(SEGMENT_DIR)):
            if parse_segment(name) is not None and name not in listed:
                dropped.append(target.segment(name))
        for name in fs.listdir(target.directory(PACK_DIR)):
            stem = parse_pack(name)
            if stem is not None and stem not in self._packs:
                dropped.append(target.pack(stem))
        fs.fsync_dir(target.directory(MANIFEST_DIR))  # none that lists one of them comes back
        for path in dropped:
            fs.unlink(path)
        self._report.pruned = len(dropped)

    def _tell(self, number: int, total: int) -> None:
        if self._progress is not None:
            self._progress(number, total)
