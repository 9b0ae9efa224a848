"""Is what is on disk what was written? Manifests, segments, journals; reads only.

May run beside appenders and a sealer: it pins the log like a reader. A tail that looks torn is read
again under the append lock, so an append in progress is not reported. Levels: `quick` reads
manifests, footers, journal headers and the active journal; `read` every byte of the log (I11).
Blobs and packs are verified by `blobs/verify.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.base.errors import Corruption, EventLogError, LockTimeout, Unsupported, why_unreadable
from eventlog.base.fs import hash_file, translate_os_errors
from eventlog.base.layout import (
    JOURNAL_DIR,
    QUARANTINE_DIR,
    StoreFiles,
    parse_quarantine,
    parse_segment,
)
from eventlog.base.locks import APPEND, acquire
from eventlog.log import manifest as manifests
from eventlog.log import quarantine
from eventlog.log.acknowledged import read_note
from eventlog.log.finding import (
    JOURNAL,
    MANIFEST,
    MISSING,
    NAMED,
    NOTED,
    QUICK,
    READ,
    SEGMENT,
    Finding,
    RepairStep,
)
from eventlog.log.frame import DamagedBytes, JournalHeader
from eventlog.log.journal_reading import JournalScan, journal_numbers, scan_journal
from eventlog.log.manifest import Manifest, SegmentEntry
from eventlog.log.reader import open_view
from eventlog.log.tail import begins_at, read_header, unsealed

if TYPE_CHECKING:
    from eventlog.log.segment_file import SegmentFile

_LOST_FILE = "Bring the file back from a backup; until then these events cannot be read"


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """What one journal was found to hold: a `JournalScan` without its frames."""

    header: JournalHeader
    end: int
    claimed: int
    damaged: "list[DamagedBytes]"
    torn: "tuple[int, int] | None"


def verify(files: StoreFiles, level: str = QUICK) -> list[Finding]:
    """Everything wrong with the log's files; empty when all is well.

    Raises: Unsupported when the log needs a newer Locus, LockTimeout.
    """
    if level not in (QUICK, READ):
        raise ValueError(f"level is {QUICK!r} or {READ!r}, not {level!r}")
    with translate_os_errors(files.layout.root, "verify the log"):
        return LogCheck(files, level).findings()


class LogCheck:
    """One walk over the files of a log, and what it read, from which a repair plans.

    `manifests` are the numbers of those on disk, `current` is the last that verifies. `journals` are all on
    disk, with what was read in them; None for one without a valid header, or that was not read through.
    """

    def __init__(self, files: StoreFiles, level: str) -> None:
        self._files = files
        self._fs = files.fs
        self._layout = files.layout
        self._reads_all = level != QUICK
        self.manifests: list[int] = []
        self.current = Manifest(files.store_id.hex())
        self.journals: "dict[int, JournalFacts | None]" = {}
        self.acknowledged = 0

    def findings(self) -> list[Finding]:
        """Everything wrong. Raises: Unsupported, LockTimeout, OSError."""
        pin = unopened = None
        try:
            pin = open_view(self._files)
        except Corruption as error:
            unopened = Finding(error.path, f"{error.what}.", error.offset)
        except (Unsupported, LockTimeout):
            raise
        except EventLogError as error:
            unopened = Finding(self._layout.root, str(error))
        try:
            findings = [
                *self._verify_manifests(),
                *self._verify_segments(),
                *self._verify_superseded(),
                *self._verify_journals(),
                *self._verify_quarantine(),
            ]
        finally:
            if pin is not None:
                pin.close()
        if unopened is not None and all(unopened.path != finding.path for finding in findings):
            findings.insert(0, unopened)
        return findings

    def _verify_manifests(self) -> Iterator[Finding]:
        self.manifests = manifests.numbers(self._files)
        for number in self.manifests:
            path = self._layout.manifest(number)
            try:
                manifest = manifests.read_numbered(self._files, number)
            except FileNotFoundError:
                continue  # expired since the listing
            except (Corruption, OSError) as error:
                yield self._unusable_manifest(number, error)
                continue
            if self.current.number == number - 1 > 0 and manifest.parent != manifests.digest_of(self.current):
                what = f"its parent is not manifest {number - 1}: two histories were mixed. Keep both."
                yield Finding(path, what)
            self.current = manifest
        for lost in self.current.damaged:
            path = self._layout.manifest(self.current.number)
            if lost.journal:
                what = (
                    f"positions [{lost.base}, {lost.end}) were destroyed in journal {lost.journal} before "
                    "they were sealed. What was left of the bytes is in log/quarantine; import their source "
                    "again."
                )
                events = (
                    f"the events at {spelled([(lost.base, lost.end)])} were lost in journal {lost.journal}"
                )
                yield Finding(path, what, mend=RepairStep(NAMED, path, events, NOTED))
            else:
                what = f"positions [{lost.base}, {lost.end}) are lost, as a repair has noted."
                yield Finding(path, what, damage=False)

    def _unusable_manifest(self, number: int, error: "Corruption | OSError") -> Finding:
        next_step, then = "Readers do not need it; it may be deleted", "no reader needs it"
        if number == self.manifests[-1]:
            next_step = "Reading stops here: the one before it would show an older log. " + _LOST_FILE
            then = "the log is put together from what is there"
        what, offset = why_unreadable(error), None
        if isinstance(error, Corruption):
            offset = error.offset
        else:
            next_step = _LOST_FILE
        path = self._layout.manifest(number)
        mend = RepairStep(MANIFEST, path, what, then)
        return Finding(path, f"{what}. {next_step}.", offset, mend=mend)

    def _verify_segments(self) -> Iterator[Finding]:
        for entry in self.current.segments:
            yield from self._verify_segment(entry)

    def _verify_segment(self, entry: SegmentEntry) -> Iterator[Finding]:
        from eventlog.log.segment_file import SegmentFile

        path = self._layout.segment(entry.name)
        events = f"the events of positions [{entry.base}, {entry.end})"

        def lost(what: str, kind: "str | None" = None, offset: "int | None" = None) -> Finding:
            mend = None if kind is None else RepairStep(kind, path, what)
            return Finding(path, f"{what}. {_LOST_FILE}: {events}.", offset, mend=mend)

        try:
            size = self._fs.stat(path).st_size
            if size != entry.bytes:
                yield lost(f"it has {size} bytes instead of {entry.bytes}", SEGMENT)
                return
            if self._reads_all and hash_file(self._fs, path) != entry.blake3:
                yield lost("its bytes do not match their digest", SEGMENT)
                return
            with SegmentFile(self._files, entry) as file:
                if self._reads_all and not _ascending(file, entry):
                    yield Finding(path, f"its positions are not strictly ascending inside {events}.")
        except FileNotFoundError:
            yield lost("the manifest lists this segment, but it is not there", MISSING)
        except OSError as error:
            yield lost(why_unreadable(error), SEGMENT)
        except Corruption as error:
            yield lost(error.what, offset=error.offset)
        except Unsupported:
            raise
        except EventLogError as error:
            yield Finding(path, str(error))

    def _verify_superseded(self) -> Iterator[Finding]:
        """Segments that others have replaced: most are gone, and nothing needs them."""
        for item in self.current.superseded if self._reads_all else ():
            path = self._layout.segment(item.name)
            parsed = parse_segment(item.name)
            try:
                if parsed is not None and hash_file(self._fs, path)[:16] == parsed[2]:
                    continue
                what = "its bytes do not match its name"
            except FileNotFoundError:
                continue
            except OSError as error:
                what = why_unreadable(error)
            then = "A merged segment holds its events, and maintenance removes it."
            yield Finding(path, f"{what}. {then}", damage=False)

    def _verify_journals(self) -> Iterator[Finding]:
        """The journals one by one, then whether together they continue the segments (I2, I13)."""
        # The note is read before the journals: so an append meanwhile cannot make it be ahead.
        newest = max(journal_numbers(self._files), default=0)
        self.acknowledged = read_note(self._files, newest) or 0
        self.journals = dict.fromkeys(journal_numbers(self._files))
        last = max(self.journals, default=0)
        # Without the newest manifest it is unknown where the journals should begin.
        current = self.current if self.current.number == max(self.manifests, default=0) else None
        directory = self._layout.directory(JOURNAL_DIR)
        if not self.journals and self.acknowledged and current is not None and not current.number:
            what = f"{self.acknowledged} events were acknowledged, but no journal is there. {_LOST_FILE}."
            yield Finding(directory, what)
        if current is not None and current.number and last < current.next_journal:
            what = (
                f"no journal continues manifest {current.number}: the active one was removed. {_LOST_FILE}."
            )
            yield Finding(directory, what)
        for number in self.journals:
            path = self._layout.journal(number)
            try:
                if self._reads_all or number == last:
                    scan = self._settled_scan(number, is_newest=number == last)
                    self.journals[number] = JournalFacts(
                        scan.header, scan.end, scan.claimed, scan.damaged, scan.torn
                    )
                    yield from _damage(scan)
                    if number == last:
                        yield from self._shortened(scan)
                else:
                    read_header(self._files, number)
            except FileNotFoundError:
                continue  # sealed and unlinked since the listing
            except (Corruption, OSError) as error:
                what = why_unreadable(error)
                offset = error.offset if isinstance(error, Corruption) else None
                yield Finding(path, f"{what}. {_LOST_FILE}.", offset, mend=RepairStep(JOURNAL, path, what))
        if current is not None:
            yield from self._discontinuities(current)

    def _shortened(self, scan: JournalScan) -> Iterator[Finding]:
        if self.acknowledged > scan.claimed:
            what = (
                f"the events at positions [{scan.claimed}, {self.acknowledged}) were acknowledged and are "
                f"not there: it was cut, or an older file took its place. {_LOST_FILE}; the log goes on "
                "after them"
            )
            yield Finding(scan.path, f"{what}.")

    def _settled_scan(self, number: int, *, is_newest: bool) -> JournalScan:
        path = self._layout.journal(number)
        scan = scan_journal(self._fs, path, store_id=self._files.store_id, number=number)
        if is_newest and scan.torn is not None:
            with acquire(self._fs, self._layout, APPEND):
                scan = scan_journal(self._fs, path, store_id=self._files.store_id, number=number)
        return scan

    def _discontinuities(self, current: Manifest) -> Iterator[Finding]:
        """Journals that do not begin where the log before them ends.

        All but the last were closed when they were scanned, so that no append can have moved an end since.
        """
        position: int | None = current.next_position
        try:
            live = unsealed(self._files, current.next_journal)
        except OSError:
            return  # reported already
        for number in live:
            if number not in self.journals:
                break
            path = self._layout.journal(number)
            try:
                header = read_header(self._files, number)
            except (Corruption, OSError):
                position = None  # reported already
                continue
            if position is not None and not begins_at(header, position):
                if header.base > position:
                    what = f"positions [{position}, {header.base}) are missing before it. {_LOST_FILE}."
                else:
                    what = f"it begins at position {header.base}, but the log before it ends at {position}."
                yield Finding(path, what)
            facts = self.journals[number]
            position = None if facts is None else facts.claimed

    def _verify_quarantine(self) -> Iterator[Finding]:
        """Bytes that were taken from journals and that no repair has noted yet, as far as the files show."""
        directory = self._layout.directory(QUARANTINE_DIR)
        for name in (
            self._fs.listdir(directory) if self._fs.exists(directory) else ()
        ):  # git keeps no empty one
            origin = parse_quarantine(name)
            if origin is None:
                continue
            path = f"{directory}/{name}"
            reason = quarantine.reason_of(self._fs, path)
            harmless = reason == quarantine.NEVER_ACKNOWLEDGED
            where = f"these bytes, from byte {origin[1]} of journal {origin[0]}, did not verify"
            lost = "No acknowledged event was in them" if harmless else "Events may have been in them"
            why = reason or "nothing says why they were taken"
            what = f"{where} ({why}). {lost}; a repair notes that they are known."
            yield Finding(path, what, damage=not harmless, mend=RepairStep(NAMED, path, what, NOTED))


def spelled(ranges: "list[tuple[int, int]]") -> str:
    """Positions, for a person."""
    return ", ".join(f"positions {base:,} to {end - 1:,}" for base, end in ranges) or "no position"


def _ascending(file: "SegmentFile", entry: SegmentEntry) -> bool:
    previous = entry.base - 1
    for group in range(file.row_groups):
        for batch in file.slices(["position"], group):
            for position in batch["position"].to_pylist():
                if position <= previous:
                    return False
                previous = position
    return previous < entry.end


def _damage(scan: JournalScan) -> Iterator[Finding]:
    for damage in scan.damaged:
        lost = f"; positions [{damage.base}, {damage.end}) are lost" if damage.end > damage.base else ""
        what = f"{damage.size} bytes do not verify{lost}. Sealing keeps them in log/quarantine."
        yield Finding(scan.path, what, damage.offset)
    if scan.torn is None:
        return
    offset, size = scan.torn
    if scan.claimed > scan.end:
        what = (
            f"{size} bytes have the shape of frames and do not verify: rot, or a write in a power cut. "
            f"The events at positions [{scan.end}, {scan.claimed}) cannot be read, and no others get these "
            "positions. Sealing keeps the bytes in log/quarantine."
        )
    else:
        what = (
            f"{size} bytes after the last valid frame are not a frame: an append that a crash cut short, "
            "or damage. The next append or sealing moves them to log/quarantine."
        )
    yield Finding(scan.path, what, offset)
